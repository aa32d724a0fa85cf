//! Sockets.
//!
//! Reads and writes own their buffers while they are under way and give them back with the result:
//! `let (result, buffer) = stream.read(buffer).await`. So they are safe to drop at any moment. What a
//! dropped read has received, the next one returns; a dropped write either has not started or runs
//! to its end before any later one. [`TcpStream::recv`] needs no buffer: it returns the bytes where
//! the kernel put them.
//!
//! Where a call is made while its future is polled, the buffer is borrowed as Tokio has it: `peek`,
//! `try_read`, vectored reads and writes, and all of [`UdpSocket`] and [`UnixDatagram`].
//!
//! No operation tells of a signal: what is interrupted (`EINTR`) is done again.
//!
//! Every stream implements [`futures_io::AsyncRead`] and [`futures_io::AsyncWrite`]; see [`crate::io`] for
//! what can be done with those.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `socket` | what do all sockets have in common? |
//! | `calls` | how is a socket asked what is answered at once? |
//! | `read`, `receive` | whose bytes are these, and in what order? |
//! | `write` | who writes next, and what becomes of a write that nobody waits for? |
//! | `when`, `datagram` | how is a call made when a descriptor is ready for it? |
//! | `accept`, `backoff`, `connect`, `addr` | how do connections begin? |
//! | `tcp`, `listener`, `tcp_socket`, `udp`, `unix` | what do users see? |
//! | `stream`, `split`, `options` | what do several of these have alike? |
//! | `poll` | how do these look to `futures-io`? |

mod accept;
mod addr;
mod backoff;
mod calls;
mod connect;
mod datagram;
mod listener;
mod options;
mod poll;
mod read;
mod receive;
mod socket;
mod split;
mod stream;
pub mod tcp;
mod tcp_socket;
mod udp;
pub mod unix;
mod when;
mod write;

pub use accept::Accept;
pub use addr::{ToSocketAddrs, lookup_host};
pub use listener::TcpListener;
pub use receive::{Read, Recv};
pub use tcp::TcpStream;
pub use tcp_socket::TcpSocket;
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
pub use write::Write;

use std::sync::Arc;

use crate::io::engine::Engine;
use crate::spawn::current;

/// The engine of the runtime that a spawn here would use.
pub(crate) fn engine_here() -> Arc<Engine> {
    current(|shared, _, _| shared.engine.clone())
}
