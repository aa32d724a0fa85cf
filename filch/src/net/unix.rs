//! Sockets within a host: listeners, connections and their halves, datagrams, names, credentials.
//!
//! A path that begins with a zero byte is an abstract name: it is in no file system, and gone with its
//! socket.

mod datagram;
mod listener;
mod names;
mod stream;

pub use datagram::UnixDatagram;
pub use listener::UnixListener;
pub use names::UCred;
pub use std::os::unix::net::SocketAddr;
pub use stream::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, UnixStream, WriteHalf};
