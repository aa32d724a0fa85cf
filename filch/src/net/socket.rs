//! What all sockets have in common: the descriptor, who reads, who writes, names and options.
//!
//! N1. A socket is set to block, so that a ring waits for it; calls that must not block say so. Where
//!     the kernel tells readiness only, listeners and sockets about to connect are set not to block.
//! N2. `Inner` lives until the last handle and the last abandoned operation are gone, and the descriptor
//!     until the last operation in flight has ended (H1 of `io/descriptor.rs`).
//!
//! Not here: how a call is made (`calls`).

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, Type};

use super::calls::Calls;
use super::read::ReadSide;
use super::write::WriteSide;
use crate::io::descriptor::Descriptor;
use crate::io::engine::Engine;

/// A socket of any family; the faces wrap it.
#[derive(Clone)]
pub(crate) struct Socket(Arc<Inner>);

/// In this order, because each request looks at the end of `writes` and the start of `reads`: together they
/// are one cache line.
#[repr(C, align(64))]
pub(crate) struct Inner {
    pub(super) writes: WriteSide,
    pub(super) descriptor: Arc<Descriptor>,
    pub(super) reads: ReadSide,
}

#[cfg(not(loom))]
const _: () = assert!(
    (offset_of!(Inner, writes) + WriteSide::HOT) / 64
        == (offset_of!(Inner, reads) + ReadSide::HOT) / 64
);

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
        Ok(Self(Arc::new(Inner { writes, descriptor, reads })))
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

    /// Sets it to block, for good.
    pub(crate) fn block(&self) -> io::Result<()> {
        self.options().set_nonblocking(false)
    }

    /// Whether both are one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Names and options, by std's names or nearly.
    pub(crate) fn options(&self) -> Calls<'_> {
        Calls::from(&*self.descriptor)
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

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.options().take_error()
    }
}

/// Memory as calls take it that only write to it.
///
/// # Safety
/// Nothing but initialized bytes is written to it.
pub(super) unsafe fn uninit(buf: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (first, len) = (buf.as_mut_ptr().cast(), buf.len());
    // SAFETY: of the same layout; by the caller's promise the bytes stay initialized.
    unsafe { std::slice::from_raw_parts_mut(first, len) }
}

pub(super) fn internet(address: &SockAddr) -> io::Result<SocketAddr> {
    let text = "the address is not an internet address";
    address.as_socket().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("fd", &self.descriptor.raw()).finish()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
