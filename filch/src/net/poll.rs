//! How stream sockets look to `futures-io`.
//!
//! L1. Nothing of the caller's memory is used after a call has returned: reads are copied from chunks,
//!     writes are made by calls. So all of these are safe to drop at any moment.
//! L2. Several tasks may poll one socket through references; all that wait for a direction are woken.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use super::socket::{Socket, uninit};
use super::tcp::TcpStream;
use super::unix::UnixStream;
use crate::task::budget::poll_counted;

impl Socket {
    /// Bytes into `buf`; none are the end.
    pub(super) fn poll_read(&self, cx: &Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| {
            if buf.is_empty() {
                return Poll::Ready(Ok(0));
            }
            // SAFETY: `poll_read` writes initialized bytes only.
            self.reads.poll_read((&*cx).into(), unsafe { uninit(buf) })
        })
    }

    /// Bytes of `buf`, as many as fit.
    pub(super) fn poll_write(&self, cx: &Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| self.writes.poll_write(cx, buf))
    }

    /// As `poll_write`, of several buffers.
    pub(super) fn poll_write_vectored(
        &self,
        cx: &Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| self.writes.poll_write_vectored(cx, bufs))
    }
}

/// How something with a `socket` reads.
macro_rules! reader {
    ($type:ty) => {
        impl futures_io::AsyncRead for $type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.socket().poll_read(cx, buf)
            }
        }
    };
}
pub(super) use reader;

/// How something with a `socket` writes.
macro_rules! writer {
    ($type:ty) => {
        impl futures_io::AsyncWrite for $type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.socket().poll_write(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.socket().poll_write_vectored(cx, bufs)
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                crate::task::budget::poll_proceed(cx).map(Ok)
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let writes = &self.socket().writes;
                crate::task::budget::poll_counted(cx, |cx| writes.poll_shut(cx))
            }
        }
    };
}
pub(super) use writer;

reader!(TcpStream);
reader!(&TcpStream);
writer!(TcpStream);
writer!(&TcpStream);
reader!(UnixStream);
reader!(&UnixStream);
writer!(UnixStream);
writer!(&UnixStream);
