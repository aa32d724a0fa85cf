//! What an operation asks of the system, as plain data: each backend performs it in its own way.
//!
//! R1. A request is a borrowed view: its pointers lead into what the operation owns, and stay valid
//!     until the last completion (`Operation` in `op`).
//! R2. `call` of a request with a direction never blocks; of one without, it may, and is made on a thread
//!     for that.
//!
//! To add an operation: a variant here, an arm in `uring`'s `entry_of`, an arm in `call` below.
//!
//! Not here: who owns the buffers (`op`), what the numbers mean (the faces).

use std::os::fd::RawFd;

use super::files::FileRequest;
use super::readiness::Direction;
use super::sys;

/// One request to the system.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request {
    /// Bytes from a socket.
    Recv { fd: RawFd, buf: *mut u8, len: u32, flags: i32, first: First },
    /// Bytes to a socket.
    Send { fd: RawFd, buf: *const u8, len: u32, flags: i32 },
    /// As `Send`, and the kernel need not copy the bytes first. It keeps them until its notice.
    SendUncopied { fd: RawFd, buf: *const u8, len: u32, flags: i32 },
    /// Bytes and an address from a socket.
    RecvMsg { fd: RawFd, msg: *mut libc::msghdr, flags: i32 },
    /// Bytes to a socket, and an address.
    SendMsg { fd: RawFd, msg: *const libc::msghdr, flags: i32 },
    /// Chunks from a socket into the driver's buffers, again and again.
    RecvMany { fd: RawFd },
    /// Connections, again and again.
    AcceptMany { fd: RawFd },
    /// A connection to an address.
    Connect { fd: RawFd, addr: *const libc::sockaddr_storage, len: libc::socklen_t },
    /// Whether a descriptor is ready.
    Poll { fd: RawFd, direction: Direction },
    /// Something about files.
    File(FileRequest),
}

/// What a receive tries first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// To receive.
    Try,
    /// To wait, because there is nothing yet, most likely.
    Wait,
}

// SAFETY: R1, what the pointers lead to belongs to an operation that is `Send`.
unsafe impl Send for Request {}

impl Request {
    /// What the request waits for on a backend that tells readiness; `None` if it may block.
    pub(crate) fn direction(&self) -> Option<Direction> {
        match self {
            Self::Recv { .. }
            | Self::RecvMsg { .. }
            | Self::RecvMany { .. }
            | Self::AcceptMany { .. } => Some(Direction::Read),
            Self::Send { .. }
            | Self::SendUncopied { .. }
            | Self::SendMsg { .. }
            | Self::Connect { .. } => Some(Direction::Write),
            Self::Poll { direction, .. } => Some(*direction),
            Self::File(_) => None,
        }
    }

    /// Performs the request by a system call: a count or descriptor, or a negated error number (R2).
    ///
    /// # Safety
    /// R1 holds during the call.
    pub(crate) unsafe fn call(&self) -> i32 {
        match *self {
            Self::Recv { fd, buf, len, flags, .. } => {
                // SAFETY: R1, by the caller's promise.
                unsafe { sys::recv(fd, buf, len, flags) }
            }
            Self::Send { fd, buf, len, flags } | Self::SendUncopied { fd, buf, len, flags } => {
                // SAFETY: as above.
                unsafe { sys::send(fd, buf, len, flags) }
            }
            Self::RecvMsg { fd, msg, flags } => {
                // SAFETY: as above.
                unsafe { sys::recvmsg(fd, msg, flags) }
            }
            Self::SendMsg { fd, msg, flags } => {
                // SAFETY: as above.
                unsafe { sys::sendmsg(fd, msg, flags) }
            }
            Self::Connect { fd, addr, len } => {
                // SAFETY: as above.
                unsafe { sys::connect(fd, addr, len) }
            }
            Self::File(request) => {
                // SAFETY: as above.
                unsafe { request.call() }
            }
            Self::AcceptMany { fd } => sys::accept(fd),
            Self::Poll { .. } => 0,
            Self::RecvMany { .. } => -libc::EOPNOTSUPP,
        }
    }
}

impl Request {
    /// Whether a call has moved some bytes, yet fewer than asked: the next one would block.
    pub(crate) fn is_short(&self, result: i32) -> bool {
        match *self {
            Self::Recv { len, .. } | Self::Send { len, .. } | Self::SendUncopied { len, .. } => {
                u32::try_from(result).is_ok_and(|count| 0 < count && count < len)
            }
            _ => false,
        }
    }
}
