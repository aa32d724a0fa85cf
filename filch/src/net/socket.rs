//! What all sockets have in common: the descriptor, who reads, who writes, names and options.
//!
//! N1. A socket is set to block, so that a ring waits for it; calls that must not block say so. Where
//!     the kernel tells readiness only, listeners and sockets about to connect are set not to block.
//! N2. `Inner` lives until the last handle and the last abandoned operation are gone, and the descriptor
//!     until the last operation in flight has ended (H1 of `io/descriptor.rs`).
//!
//! All synchronous calls on sockets are made in this file.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use super::read::ReadSide;
use super::write::WriteSide;
use crate::io::descriptor::Descriptor;
use crate::io::engine::Engine;

/// A socket of any family; the faces wrap it.
#[derive(Clone)]
pub(crate) struct Socket(Arc<Inner>);

pub(crate) struct Inner {
    pub(super) descriptor: Arc<Descriptor>,
    pub(super) reads: ReadSide,
    pub(super) writes: WriteSide,
}

impl std::ops::Deref for Socket {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Socket {
    /// Wraps a descriptor that is set to block.
    pub(crate) fn from_fd(fd: OwnedFd, engine: &Arc<Engine>) -> io::Result<Self> {
        let descriptor = Arc::new(Descriptor::new(fd, engine)?);
        let (reads, writes) =
            (ReadSide::new(descriptor.clone()), WriteSide::new(descriptor.clone()));
        Ok(Self(Arc::new(Inner { descriptor, reads, writes })))
    }

    /// A new socket.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        domain: Domain,
        kind: Type,
        protocol: Option<Protocol>,
    ) -> io::Result<Self> {
        let socket = socket2::Socket::new(domain, kind, protocol)?;
        Self::from_fd(socket.into(), engine)
    }

    /// Waits for connections at an address.
    pub(crate) fn listen(
        engine: &Arc<Engine>,
        address: SocketAddr,
        backlog: i32,
    ) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = Self::new(engine, domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.options().set_reuse_address(true)?;
        socket.options().bind(&address.into())?;
        socket.options().listen(backlog)?;
        socket.block_as_needed(true)?;
        Ok(socket)
    }

    /// Sets whether calls that cannot say so block (N1).
    pub(crate) fn block_as_needed(&self, waits: bool) -> io::Result<()> {
        if self.descriptor.tells_readiness() {
            self.options().set_nonblocking(waits)?;
        }
        Ok(())
    }

    /// Names and options, by std's names or nearly.
    pub(crate) fn options(&self) -> SockRef<'_> {
        SockRef::from(&*self.descriptor)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.options().local_addr().and_then(|address| internet(&address))
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.options().peer_addr().and_then(|address| internet(&address))
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.options().shutdown(how)
    }

    /// Bytes for `futures-io`.
    pub(super) fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.poll_write(cx, bytes)
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.options().take_error()
    }
}

fn internet(address: &SockAddr) -> io::Result<SocketAddr> {
    let text = "the address is not an internet address";
    address.as_socket().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
