//! How connections go out.
//!
//! C1. Addresses are tried in turn, each with a socket of its own; the error of the last is told.
//! C2. A connect that has to move (O5 of `io/slots.rs`) goes on: the socket is on its way, and a second
//!     request does not begin anew. So how it ends is learnt from the socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, Type};

use super::addr::{ToSocketAddrs, no_address, resolve};
use super::backoff::Backoff;
use super::socket::{Inner, Socket};
use super::when::ready;
use crate::io::descriptor::Descriptor;
use crate::io::engine::Engine;
use crate::io::op::{Op, Operation};
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::task::budget;

/// A connection on its way.
struct Connect {
    inner: Arc<Inner>,
    address: Box<SockAddr>,
    begun: Begun,
}

/// Whether the kernel was asked to connect the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Never,
    Once,
    /// It has moved (C2).
    Again,
}

/// What the kernel has said.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Connected,
    /// It was on its way before (C2).
    UnderWay,
}

/// Keeps what the kernel may look at.
struct LateConnect {
    #[expect(dead_code, reason = "held, not used")]
    inner: Arc<Inner>,
    #[expect(dead_code, reason = "held, not used")]
    address: Box<SockAddr>,
}

// SAFETY: the address is on the heap; the late one keeps it, and the descriptor too.
unsafe impl Operation for Connect {
    type Output = io::Result<Progress>;

    fn request(&mut self) -> Request {
        self.begun = if self.begun == Begun::Never { Begun::Once } else { Begun::Again };
        let (addr, len) = (self.address.as_ptr().cast(), self.address.len());
        Request::Connect { fd: self.inner.descriptor.raw(), addr, len }
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        Some(&self.inner.descriptor)
    }

    fn finish(self, completion: Completion) -> io::Result<Progress> {
        match completion.result {
            error if error == -libc::EISCONN && self.begun == Begun::Again => {
                Ok(Progress::Connected)
            }
            error if error == -libc::EALREADY && self.begun == Begun::Again => {
                Ok(Progress::UnderWay)
            }
            _ => completion.to_io().map(|_| Progress::Connected),
        }
    }

    fn into_late(self) -> Box<dyn Late> {
        Box::new(LateConnect { inner: self.inner, address: self.address })
    }
}

impl Late for LateConnect {
    fn finish(self: Box<Self>, _: Completion) {}
}

/// Connects a socket.
pub(super) async fn connect(socket: &Socket, address: SockAddr) -> io::Result<()> {
    budget::proceed().await;
    let inner: &Arc<Inner> = socket;
    socket.block_as_needed(true)?;
    if inner.descriptor.tells_readiness() {
        // Before the kernel is asked to tell: a socket that is neither connected nor about to be
        // counts as shut.
        match socket.options().connect(&address) {
            Ok(()) => return socket.block_as_needed(false),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
    }
    let work = Connect { inner: inner.clone(), address: Box::new(address), begun: Begun::Never };
    if Op::new(inner.descriptor.engine(), work).await? == Progress::UnderWay {
        ready(&inner.descriptor, Direction::Write).await?;
        socket.take_error()?.map_or(Ok(()), Err)?;
    }
    socket.block_as_needed(false)
}

/// Connects a new TCP socket to the first address of a host that answers (C1).
pub(super) async fn connect_any(
    engine: &Arc<Engine>,
    host: &(impl ToSocketAddrs + ?Sized),
) -> io::Result<Socket> {
    let mut last = no_address();
    for address in resolve(host).await? {
        match connect_new(engine, address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_new(engine: &Arc<Engine>, address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(engine, domain, Type::STREAM, Some(Protocol::TCP))?;
    connect(&socket, address.into()).await?;
    Ok(socket)
}

/// Connects a socket within this host: that succeeds or fails at once, or the listener's queue is full,
/// of which nobody tells when it is not any more.
pub(super) async fn connect_here(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    let mut backoff = Backoff::new();
    socket.options().set_nonblocking(true)?;
    loop {
        match socket.options().connect(address) {
            Ok(()) => return socket.block(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                backoff.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}
