//! What datagram sockets of every family have in common.
//!
//! J1. A datagram is moved by a call that is made while its future is polled (K1 of `when`): whole, or
//!     not at all. So a receive that is dropped has taken none, and buffers are borrowed.
//! J2. Sockets are set to block and calls say that they do not (N1 of `socket`).
//!
//! Not here: receives by the ring. They would save a system call for each wait, and cost every receive
//! a buffer that outlives it and a place for datagrams that nobody waits for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use socket2::SockAddr;

use super::calls::Calls;
use super::socket::uninit;
use super::when::{once, when};
use crate::io::descriptor::Descriptor;
use crate::io::engine::Engine;
use crate::io::readiness::Direction;
use crate::io::sys;

/// A socket of a descriptor that is set to block.
pub(super) fn wrap(fd: OwnedFd, engine: &Arc<Engine>) -> io::Result<Arc<Descriptor>> {
    Descriptor::new(fd, engine).map(Arc::new)
}

/// What a receive leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    Take,
    /// The datagram stays.
    Peek,
}

impl Taking {
    fn flags(self) -> i32 {
        match self {
            Self::Take => 0,
            Self::Peek => libc::MSG_PEEK,
        }
    }
}

pub(super) fn options(descriptor: &Descriptor) -> Calls<'_> {
    Calls::from(descriptor)
}

fn recv_now(descriptor: &Descriptor, buf: &mut [u8], taking: Taking) -> io::Result<usize> {
    let (fd, len) = (descriptor.raw(), u32::try_from(buf.len()).unwrap_or(u32::MAX));
    // SAFETY: `buf` may be written.
    let result = unsafe { sys::recv(fd, buf.as_mut_ptr(), len, taking.flags()) };
    sys::to_io(result).map(|count| count as usize)
}

fn recv_from_now(
    descriptor: &Descriptor,
    buf: &mut [u8],
    taking: Taking,
) -> io::Result<(usize, SockAddr)> {
    // SAFETY: the system writes initialized bytes only.
    let into = unsafe { uninit(buf) };
    options(descriptor).recv_from_with_flags(into, taking.flags() | libc::MSG_DONTWAIT)
}

const SEND: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

pub(super) async fn recv(
    descriptor: &Arc<Descriptor>,
    buf: &mut [u8],
    taking: Taking,
) -> io::Result<usize> {
    when(descriptor, Direction::Read, || recv_now(descriptor, buf, taking)).await
}

pub(super) fn try_recv(
    descriptor: &Descriptor,
    buf: &mut [u8],
    taking: Taking,
) -> io::Result<usize> {
    once(|| recv_now(descriptor, buf, taking))
}

pub(super) async fn recv_from(
    descriptor: &Arc<Descriptor>,
    buf: &mut [u8],
    taking: Taking,
) -> io::Result<(usize, SockAddr)> {
    when(descriptor, Direction::Read, || recv_from_now(descriptor, buf, taking)).await
}

pub(super) fn try_recv_from(
    descriptor: &Descriptor,
    buf: &mut [u8],
    taking: Taking,
) -> io::Result<(usize, SockAddr)> {
    once(|| recv_from_now(descriptor, buf, taking))
}

pub(super) async fn send(descriptor: &Arc<Descriptor>, buf: &[u8]) -> io::Result<usize> {
    let call = || options(descriptor).send_with_flags(buf, SEND);
    when(descriptor, Direction::Write, call).await
}

pub(super) fn try_send(descriptor: &Descriptor, buf: &[u8]) -> io::Result<usize> {
    once(|| options(descriptor).send_with_flags(buf, SEND))
}

pub(super) async fn send_to(
    descriptor: &Arc<Descriptor>,
    buf: &[u8],
    to: &SockAddr,
) -> io::Result<usize> {
    let call = || options(descriptor).send_to_with_flags(buf, to, SEND);
    when(descriptor, Direction::Write, call).await
}

pub(super) fn try_send_to(descriptor: &Descriptor, buf: &[u8], to: &SockAddr) -> io::Result<usize> {
    once(|| options(descriptor).send_to_with_flags(buf, to, SEND))
}

/// Methods of a datagram socket that need no address. The hidden lines make a connected pair, `socket`
/// and `other`.
macro_rules! datagrams {
    ($type:ident, $std:ty, $setup:literal) => {
        impl $type {
            /// Takes a socket of std, whatever mode it is in.
            ///
            /// # Errors
            /// If the system refuses.
            pub fn from_std(socket: $std) -> std::io::Result<Self> {
                socket.set_nonblocking(false)?;
                let engine = crate::net::engine_here();
                crate::net::datagram::wrap(socket.into(), &engine).map(Self)
            }

            /// Gives the socket to std, in blocking mode.
            ///
            /// ```
            #[doc = $setup]
            /// other.send(b"later").await?;
            /// let std = socket.into_std().await?;
            /// assert_eq!(std.recv(&mut [0; 16])?, 5);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If there is no free descriptor.
            pub async fn into_std(self) -> std::io::Result<$std> {
                use std::os::fd::AsFd;
                crate::task::budget::proceed().await;
                Ok(self.as_fd().try_clone_to_owned()?.into())
            }

            pub(super) fn options(&self) -> crate::net::calls::Calls<'_> {
                crate::net::datagram::options(&self.0)
            }

            /// Receives a datagram, and returns its length. What does not fit into the buffer is lost.
            ///
            /// ```
            #[doc = $setup]
            /// other.send(b"hello").await?;
            /// let mut buffer = [0; 16];
            /// assert_eq!(socket.recv(&mut buffer).await?, 5);
            /// assert_eq!(&buffer[..5], b"hello");
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the system refuses, or tells of an earlier datagram that it did not arrive.
            ///
            /// # Cancel safety
            /// A dropped receive has taken none.
            pub async fn recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                crate::net::datagram::recv(&self.0, buf, Taking::Take).await
            }

            /// Receives a datagram that is there already.
            ///
            /// ```
            #[doc = $setup]
            /// let error = socket.try_recv(&mut [0; 16]).unwrap_err();
            /// assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            /// # drop(other);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// `WouldBlock` if there is none; else as `recv`.
            pub fn try_recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                crate::net::datagram::try_recv(&self.0, buf, Taking::Take)
            }

            /// As `recv`, but the datagram stays for the next receive.
            ///
            /// ```
            #[doc = $setup]
            /// other.send(b"twice").await?;
            /// assert_eq!(socket.peek(&mut [0; 16]).await?, 5);
            /// assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// As `recv`.
            pub async fn peek(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                crate::net::datagram::recv(&self.0, buf, Taking::Peek).await
            }

            /// As `try_recv`, but the datagram stays for the next receive.
            ///
            /// ```
            #[doc = $setup]
            /// other.send(b"twice").await?;
            /// socket.readable().await?;
            /// assert_eq!(socket.try_peek(&mut [0; 16])?, 5);
            /// assert_eq!(socket.try_recv(&mut [0; 16])?, 5);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// As `try_recv`.
            pub fn try_peek(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                crate::net::datagram::try_recv(&self.0, buf, Taking::Peek)
            }

            /// Sends a datagram to the address that the socket is connected to.
            ///
            /// ```
            #[doc = $setup]
            /// assert_eq!(socket.send(b"hello").await?, 5);
            /// # drop(other);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If the socket is not connected, the datagram is too long, or the system refuses.
            ///
            /// # Cancel safety
            /// A dropped send has sent nothing.
            pub async fn send(&self, buf: &[u8]) -> std::io::Result<usize> {
                crate::net::datagram::send(&self.0, buf).await
            }

            /// Sends a datagram if that takes no wait.
            ///
            /// ```
            #[doc = $setup]
            /// socket.writable().await?;
            /// assert_eq!(socket.try_send(b"hello")?, 5);
            /// # drop(other);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// `WouldBlock` if it does; else as `send`.
            pub fn try_send(&self, buf: &[u8]) -> std::io::Result<usize> {
                crate::net::datagram::try_send(&self.0, buf)
            }

            /// Waits until there is a datagram. Another may receive it first.
            ///
            /// # Errors
            /// If the system refuses.
            ///
            /// # Cancel safety
            /// It takes nothing.
            pub async fn readable(&self) -> std::io::Result<()> {
                crate::net::when::ready(&self.0, crate::io::readiness::Direction::Read).await
            }

            /// Waits until a datagram fits. Another may send first.
            ///
            /// # Errors
            /// If the system refuses.
            ///
            /// # Cancel safety
            /// It sends nothing.
            pub async fn writable(&self) -> std::io::Result<()> {
                crate::net::when::ready(&self.0, crate::io::readiness::Direction::Write).await
            }

            /// The error that the system has noted since the last call.
            ///
            /// # Errors
            /// If the system refuses.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.options().take_error()
            }
        }

        crate::net::stream::try_from_std!($type, $std);
        crate::net::stream::descriptor!($type, |socket| socket.0.as_fd());
    };
}
pub(super) use datagrams;
