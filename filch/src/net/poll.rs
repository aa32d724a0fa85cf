//! How stream sockets look to `futures-io`.
//!
//! L1. Nothing of the caller's memory is used after a call has returned: reads are copied from chunks,
//!     writes are made by calls. So all of these are safe to drop at any moment.
//! L2. Several tasks may poll one socket through references; all that wait for a direction are woken. What owns a socket or a
//!     half of it polls alone: only its last poll of a direction is owed a wake (B3 of `io/waiters.rs`).

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use super::socket::{Socket, uninit};
use super::tcp::TcpStream;
use super::unix::UnixStream;
use crate::io::waiters::Waiter;
use crate::task::budget::poll_counted;

/// Who polls a socket (L2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poller {
    /// By `&mut`.
    Alone,
    /// Through a shared reference.
    BesideOthers,
}

impl Poller {
    /// Who waits at one side of a socket.
    fn at<'a, T>(self, side: &T, cx: &'a Context<'_>) -> Waiter<'a> {
        match self {
            Self::Alone => Waiter::at_place(cx.waker(), side),
            Self::BesideOthers => Waiter::nameless(cx.waker()),
        }
    }
}

impl Socket {
    /// Bytes into `buf`; none are the end.
    pub(super) fn poll_read(
        &self,
        cx: &Context<'_>,
        poller: Poller,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| {
            if buf.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let who = poller.at(&self.reads, cx);
            // SAFETY: `poll_read` writes initialized bytes only.
            self.reads.poll_read(who, unsafe { uninit(buf) })
        })
    }

    /// Bytes of `buf`, as many as fit.
    pub(super) fn poll_write(
        &self,
        cx: &Context<'_>,
        poller: Poller,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |_| self.writes.poll_write(poller.at(&self.writes, cx), buf))
    }

    /// As `poll_write`, of several buffers.
    pub(super) fn poll_write_vectored(
        &self,
        cx: &Context<'_>,
        poller: Poller,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |_| self.writes.poll_write_vectored(poller.at(&self.writes, cx), bufs))
    }

    /// Ends what is written, after what was begun.
    pub(super) fn poll_shut(&self, cx: &Context<'_>, poller: Poller) -> Poll<io::Result<()>> {
        self.writes.poll_shut(poller.at(&self.writes, cx))
    }
}

/// How something with a `socket` reads.
macro_rules! reader {
    ($type:ty, $poller:ident) => {
        impl futures_io::AsyncRead for $type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.socket().poll_read(cx, $crate::net::poll::Poller::$poller, buf)
            }
        }
    };
}
pub(super) use reader;

/// How something with a `socket` writes.
macro_rules! writer {
    ($type:ty, $poller:ident) => {
        impl futures_io::AsyncWrite for $type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.socket().poll_write(cx, $crate::net::poll::Poller::$poller, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.socket().poll_write_vectored(cx, $crate::net::poll::Poller::$poller, bufs)
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
                crate::task::budget::poll_counted(cx, |cx| {
                    self.socket().poll_shut(cx, $crate::net::poll::Poller::$poller)
                })
            }
        }
    };
}
pub(super) use writer;

reader!(TcpStream, Alone);
reader!(&TcpStream, BesideOthers);
writer!(TcpStream, Alone);
writer!(&TcpStream, BesideOthers);
reader!(UnixStream, Alone);
reader!(&UnixStream, BesideOthers);
writer!(UnixStream, Alone);
writer!(&UnixStream, BesideOthers);
