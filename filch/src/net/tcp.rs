//! TCP connections and their halves.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::addr::ToSocketAddrs;
use super::calls::Calls;
use super::connect::connect_any;
use super::engine_here;
use super::socket::Socket;
use super::stream::{reads, whole, writes};

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

    pub(super) fn options(&self) -> Calls<'_> {
        self.0.options()
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
        connect_any(&engine_here(), &address).await.map(Self)
    }

    /// Sets from how many bytes on a write is sent without being copied first; `None`, as it is at the
    /// start, is never. What is on its way is not affected.
    ///
    /// It takes a ring, and a network card that reads the bytes by itself: where the kernel copies them
    /// after all, as it does between two sockets of one host, the socket goes back to `None`. The price
    /// is a second completion for each write, and that a write, also one that is cancelled, ends only
    /// when the other side has acknowledged its bytes, or the connection has failed. The end of the
    /// runtime resets connections that it finds so.
    ///
    /// ```
    /// use filch::net::{TcpListener, TcpStream};
    /// # filch::block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// client.set_zero_copy(Some(64 * 1024));
    /// assert_eq!(client.zero_copy(), Some(64 * 1024));
    /// client.write_all(vec![7; 64 * 1024]).await.0?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn set_zero_copy(&self, from: Option<usize>) {
        self.0.writes.set_uncopied(from.unwrap_or(usize::MAX));
    }

    /// From how many bytes on a write is sent without being copied first.
    pub fn zero_copy(&self) -> Option<usize> {
        Some(self.0.writes.uncopied()).filter(|&from| from != usize::MAX)
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
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}

reads!(
    TcpStream,
    "# use filch::net::{TcpListener, TcpStream};
# filch::block_on(async {
# let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
# let writer = TcpStream::connect(listener.local_addr()?).await?;
# let (reader, _) = listener.accept().await?;"
);
writes!(
    TcpStream,
    "# use filch::net::{TcpListener, TcpStream};
# filch::block_on(async {
# let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
# let writer = TcpStream::connect(listener.local_addr()?).await?;
# let (reader, _) = listener.accept().await?;"
);
whole!(
    TcpStream,
    std::net::TcpStream,
    "# use filch::net::{TcpListener, TcpStream};
# filch::block_on(async {
# let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
# let writer = TcpStream::connect(listener.local_addr()?).await?;
# let (reader, _) = listener.accept().await?;"
);

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};

mod halves {
    use crate::net::split::halves;

    halves!(
        TcpStream,
        "TcpStream",
        std::net::SocketAddr,
        "# use filch::net::{TcpListener, TcpStream};
# filch::block_on(async {
# let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
# let writer = TcpStream::connect(listener.local_addr()?).await?;
# let (reader, _) = listener.accept().await?;
# let (reader, _whole) = reader.into_split();",
        "# use filch::net::{TcpListener, TcpStream};
# filch::block_on(async {
# let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
# let writer = TcpStream::connect(listener.local_addr()?).await?;
# let (reader, _) = listener.accept().await?;"
    );
}
