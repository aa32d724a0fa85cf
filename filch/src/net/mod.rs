//! Sockets.
//!
//! Reads and writes own their buffers while they are under way and give them back with the result:
//! `let (result, buffer) = stream.read(buffer).await`. So they are safe to drop at any moment. What a
//! dropped read has received, the next one returns; a dropped write either has not started or runs
//! to its end before any later one. [`TcpStream::recv`] needs no buffer: it returns the bytes where
//! the kernel put them.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `socket` | what do all sockets have in common? |
//! | `read`, `receive` | whose bytes are these, and in what order? |
//! | `write` | who writes next, and what becomes of a write that nobody waits for? |
//! | `accept`, `backoff`, `connect` | how do connections begin? |
//! | `tcp`, `listener` | what do users see? |
//! | `poll` | how do these look to `futures-io`? |

mod accept;
mod backoff;
mod connect;
mod listener;
mod poll;
mod read;
mod receive;
mod socket;
mod tcp;
mod write;

pub use accept::Accept;
pub use listener::TcpListener;
pub use receive::{Read, Recv};
pub use tcp::TcpStream;
pub use write::Write;

use std::sync::Arc;

use crate::io::engine::Engine;
use crate::spawn::current;

/// The engine of the runtime that a spawn here would use.
pub(crate) fn engine_here() -> Arc<Engine> {
    current(|shared, _, _| shared.engine.clone())
}
