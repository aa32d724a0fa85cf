//! TCP connections as users see them.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};

use super::connect::connect_any;
use super::engine_here;
use super::receive::{self, Read, Recv};
use super::socket::Socket;
use super::write::{self, Write};
use crate::io::{IoBuf, IoBufMut};

/// A TCP connection.
///
/// All methods take `&self`: one task may read while another writes. Dropping it closes it.
///
/// ```
/// use filch::net::{TcpListener, TcpStream};
/// # filch::block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let client = TcpStream::connect(listener.local_addr()?).await?;
/// let (server, _) = listener.accept().await?;
///
/// client.write_all(b"hello".to_vec()).await.0?;
/// let (result, buffer) = server.read(vec![0; 1024]).await;
/// assert_eq!(&buffer[..result?], b"hello");
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct TcpStream(Socket);

impl TcpStream {
    pub(super) fn from_socket(socket: Socket) -> Self {
        Self(socket)
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.0
    }

    /// Connects to the first address that answers.
    ///
    /// ```
    /// use filch::net::{TcpListener, TcpStream};
    /// # filch::block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// assert_eq!(client.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If none does: the error of the last.
    pub async fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        let addresses = address.to_socket_addrs()?.collect::<Vec<_>>();
        connect_any(&engine_here(), addresses.into_iter()).await.map(Self)
    }

    /// Reads what there is into the buffer, from its start; 0 bytes are the end of the stream, unless the
    /// buffer has none. The capacity of a vector is used, and its length set.
    ///
    /// # Errors
    /// If the connection failed. The buffer comes back in any case.
    ///
    /// # Cancel safety
    /// A dropped read loses nothing: what it has received, the next read returns. To get the
    /// buffer back, use [`Read::cancel`].
    pub fn read<B: IoBufMut + Unpin>(&self, buf: B) -> Read<'_, B> {
        Read::new(&self.0, buf, receive::Extent::Some)
    }

    /// Reads until the buffer is full.
    ///
    /// ```
    /// use filch::net::{TcpListener, TcpStream};
    /// # filch::block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, _) = listener.accept().await?;
    /// client.write_all(b"head").await.0?;
    /// client.write_all(b"body").await.0?;
    /// let (result, buffer) = server.read_exact(vec![0; 8]).await;
    /// result?;
    /// assert_eq!(buffer, b"headbody");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`TcpStream::read`], and `UnexpectedEof` if the stream ends before. What was read by then is
    /// there for the next read.
    ///
    /// # Cancel safety
    /// As [`TcpStream::read`].
    pub fn read_exact<B: IoBufMut + Unpin>(&self, buf: B) -> Read<'_, B> {
        Read::new(&self.0, buf, receive::Extent::All)
    }

    /// The next bytes, where the kernel put them; `None` at the end of the stream.
    ///
    /// Once used, the socket receives ahead: at most some chunks, then the other side has to wait.
    ///
    /// # Errors
    /// If the connection failed.
    ///
    /// # Cancel safety
    /// A dropped `recv` loses nothing.
    pub fn recv(&self) -> Recv<'_> {
        Recv { socket: &self.0 }
    }

    /// Writes what fits, and returns how much that was.
    ///
    /// # Errors
    /// If the connection failed. The buffer comes back in any case.
    ///
    /// # Cancel safety
    /// A dropped write has not started, or runs to its end before any later one. To know, use
    /// [`Write::cancel`].
    pub fn write<B: IoBuf + Unpin>(&self, buf: B) -> Write<'_, B> {
        Write::new(&self.0, buf, write::Extent::Some)
    }

    /// Writes all of the buffer, and returns how much that was. Other writes come before or after it.
    ///
    /// # Errors
    /// As [`TcpStream::write`].
    ///
    /// # Cancel safety
    /// As [`TcpStream::write`].
    pub fn write_all<B: IoBuf + Unpin>(&self, buf: B) -> Write<'_, B> {
        Write::new(&self.0, buf, write::Extent::All)
    }

    /// Ends one or both directions.
    ///
    /// ```
    /// use std::net::Shutdown;
    /// use filch::net::{TcpListener, TcpStream};
    /// # filch::block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, _) = listener.accept().await?;
    /// client.shutdown(Shutdown::Write)?;
    /// assert!(server.recv().await?.is_none());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// The address of this side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Sets whether small writes are sent at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.options().set_tcp_nodelay(nodelay)
    }

    /// The error that the socket has kept, if any, which is forgotten by that.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let listener = filch::net::TcpListener::bind("127.0.0.1:0").await?;
    /// let client = filch::net::TcpStream::connect(listener.local_addr()?).await?;
    /// assert!(client.take_error()?.is_none());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Whether small writes are sent at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.options().tcp_nodelay()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}
