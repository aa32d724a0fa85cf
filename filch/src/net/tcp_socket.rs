//! A TCP socket that is neither connected nor listens yet.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Type};

use super::accept::Acceptor;
use super::calls::Calls;
use super::connect::connect;
use super::engine_here;
use super::listener::TcpListener;
use super::socket::Socket;
use super::stream::descriptor;
use super::tcp::TcpStream;

/// A TCP socket to be given options and an address before it connects or listens.
///
/// ```
/// use filch::net::{TcpListener, TcpSocket};
/// # filch::block_on(async {
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseport(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener: TcpListener = socket.listen(16)?;
///
/// let client = TcpSocket::new_v4()?.connect(listener.local_addr()?).await?;
/// assert_eq!(client.peer_addr()?, listener.local_addr()?);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct TcpSocket(Socket);

impl TcpSocket {
    fn new(domain: Domain) -> io::Result<Self> {
        Socket::new(&engine_here(), domain, Type::STREAM, Some(Protocol::TCP)).map(Self)
    }

    /// A socket for IPv4.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// A socket for IPv6.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    /// Takes a socket of std that is not connected, such as one that another crate has made.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn from_std_stream(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        Socket::from_fd(OwnedFd::from(stream), &engine_here()).map(Self)
    }

    pub(super) fn options(&self) -> Calls<'_> {
        self.0.options()
    }

    /// Gives it an address.
    ///
    /// # Errors
    /// If the address is in use, or not this host's.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        self.options().bind(&address.into())
    }

    /// Binds it to a device such as `eth0`, or to none.
    ///
    /// # Errors
    /// If there is no such device, or the program lacks the right.
    pub fn bind_device(&self, device: Option<&[u8]>) -> io::Result<()> {
        self.options().bind_device(device)
    }

    /// The device it is bound to.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.options().device()
    }

    /// The address of this side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The error that the system has noted since the last call.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Connects.
    ///
    /// # Errors
    /// If the other side does not answer, or refuses.
    ///
    /// # Cancel safety
    /// Dropped, it closes the socket.
    pub async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        connect(&self.0, address.into()).await?;
        Ok(TcpStream::from_socket(self.0))
    }

    /// Waits for connections, of which the system keeps `backlog` until they are accepted.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.options().listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        self.0.block_as_needed(true)?;
        Ok(TcpListener::from_acceptor(Acceptor::new(self.0)))
    }
}

descriptor!(TcpSocket, |socket| socket.0.as_fd());

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket").field("local", &self.local_addr().ok()).finish()
    }
}
