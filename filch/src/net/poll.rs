//! How stream sockets look to `futures-io`.
//!
//! L1. Nothing of the caller's memory is used after a call has returned: reads are copied from chunks,
//!     writes are made by calls. So all of these are safe to drop at any moment.
//! L2. As everywhere in `futures-io`, who polled a direction last is the one that is woken.

use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use super::socket::Socket;
use super::tcp::TcpStream;
use crate::task::budget::poll_counted;

impl Socket {
    /// Bytes into `buf`; none are the end.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let (first, len) = (buf.as_mut_ptr().cast::<MaybeUninit<u8>>(), buf.len());
        // SAFETY: as long as only initialized bytes are written, which `poll_read` does, they stay so.
        let into = unsafe { std::slice::from_raw_parts_mut(first, len) };
        poll_counted(cx, |cx| self.reads.poll_read(cx, into))
    }
}

macro_rules! stream {
    ($name:ty) => {
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.socket().poll_read(cx, buf)
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                poll_counted(cx, |cx| self.socket().poll_write(cx, buf))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.socket().shutdown(Shutdown::Write))
            }
        }
    };
}

stream!(TcpStream);
stream!(&TcpStream);
