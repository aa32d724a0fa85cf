//! Listening for TCP connections.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};

use super::accept::{Accept, Acceptor};
use super::engine_here;
use super::socket::Socket;

/// Connections that the system keeps until they are accepted. As std does.
const BACKLOG: i32 = 4096;

/// A TCP socket that waits for connections.
///
/// ```
/// use filch::net::{TcpListener, TcpStream};
/// # filch::block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr()?;
/// let client = filch::spawn(async move { TcpStream::connect(address).await });
/// let (server, peer) = listener.accept().await?;
/// assert_eq!(peer, client.await?.local_addr()?);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct TcpListener(Acceptor);

impl TcpListener {
    /// Waits for connections at the first address that can be bound.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let listener = filch::net::TcpListener::bind("127.0.0.1:0").await?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If no address can be bound: the error of the last.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let engine = engine_here();
        let text = "no address to bind to";
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, text);
        for address in address.to_socket_addrs()? {
            match Socket::listen(&engine, address, BACKLOG) {
                Ok(socket) => return Ok(Self(Acceptor::new(socket))),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Cancel safety
    /// A dropped `accept` loses nothing: the connection is there for the next.
    pub fn accept(&self) -> Accept<'_> {
        Accept::new(&self.0)
    }

    /// The address that is bound.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.local_addr()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("address", &self.local_addr().ok()).finish()
    }
}
