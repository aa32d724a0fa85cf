//! TCP connections and their halves.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use socket2::SockRef;

use super::addr::ToSocketAddrs;
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

    pub(super) fn options(&self) -> SockRef<'_> {
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
