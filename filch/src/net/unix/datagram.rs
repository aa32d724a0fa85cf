//! Datagrams within a host.
//!
//! A receiver whose queue is full tells a connected sender when there is room; one that sends to an
//! address is told nothing, and tries again, less and less often.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use socket2::{Domain, SockAddr, Type};

use super::{SocketAddr, UCred, names};
use crate::io::descriptor::Descriptor;
use crate::net::backoff::Backoff;
use crate::net::calls::pair;
use crate::net::datagram::{self, Taking, datagrams};
use crate::net::engine_here;
use crate::task::budget;

/// A socket for datagrams within a host. They arrive, each once and in order.
///
/// ```
/// use filch::net::UnixDatagram;
/// # filch::block_on(async {
/// let (here, there) = UnixDatagram::pair()?;
/// here.send(b"hello").await?;
/// let mut buffer = [0; 16];
/// let count = there.recv(&mut buffer).await?;
/// assert_eq!(&buffer[..count], b"hello");
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct UnixDatagram(Arc<Descriptor>);

datagrams!(
    UnixDatagram,
    std::os::unix::net::UnixDatagram,
    "# filch::block_on(async {
# let (socket, other) = filch::net::UnixDatagram::pair()?;"
);

fn with_sender((count, from): (usize, SockAddr)) -> io::Result<(usize, SocketAddr)> {
    Ok((count, names::to_std(&from)?))
}

impl UnixDatagram {
    fn open(socket: socket2::Socket) -> io::Result<Self> {
        datagram::wrap(OwnedFd::from(socket), &engine_here()).map(Self)
    }

    fn bind_system(address: &SockAddr) -> io::Result<Self> {
        let socket = Self::unbound()?;
        socket.options().bind(address)?;
        Ok(socket)
    }

    /// A socket at a path, where it makes a file.
    ///
    /// # Errors
    /// If there is a file already, or the system refuses.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_system(&SockAddr::unix(path)?)
    }

    /// A socket at an address.
    ///
    /// # Errors
    /// As [`UnixDatagram::bind`].
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        Self::bind_system(&names::to_system(address)?)
    }

    /// A socket without an address.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn unbound() -> io::Result<Self> {
        Self::open(socket2::Socket::new(Domain::UNIX, Type::DGRAM, None)?)
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = pair(Type::DGRAM)?;
        Ok((Self::open(one)?, Self::open(other)?))
    }

    /// Sets where datagrams go, and from where they are received.
    ///
    /// ```
    /// use filch::net::UnixDatagram;
    /// # filch::block_on(async {
    /// let (path, mut buffer) = ("\0filch/example/datagram", [0; 16]);
    /// let server = UnixDatagram::bind(path)?;
    /// let client = UnixDatagram::unbound()?;
    /// client.connect(path)?;
    /// client.send(b"hello").await?;
    /// assert_eq!(server.recv(&mut buffer).await?, 5);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If nobody is there.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.options().connect(&SockAddr::unix(path)?)
    }

    /// As [`UnixDatagram::connect`], to an address.
    ///
    /// # Errors
    /// As [`UnixDatagram::connect`].
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        self.options().connect(&names::to_system(address)?)
    }

    /// The address of this side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        names::to_std(&self.options().local_addr()?)
    }

    /// The address that the socket is connected to.
    ///
    /// # Errors
    /// If it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        names::to_std(&self.options().peer_addr()?)
    }

    /// Who has made the other side of a pair.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self.as_fd())
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.options().shutdown(how)
    }

    async fn send_to_system(&self, buf: &[u8], to: &SockAddr) -> io::Result<usize> {
        let mut backoff = Backoff::new();
        loop {
            match datagram::try_send_to(&self.0, buf, to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    backoff.pause().await;
                }
                result => return result,
            }
        }
    }

    /// Sends a datagram to a path. While the receiver's queue is full, this tries again, less and less
    /// often; [`UnixDatagram::send`] is told at once.
    ///
    /// ```
    /// use filch::net::UnixDatagram;
    /// # filch::block_on(async {
    /// let (path, mut buffer) = ("\0filch/example/send_to", [0; 16]);
    /// let server = UnixDatagram::bind(path)?;
    /// UnixDatagram::unbound()?.send_to(b"hello", path).await?;
    /// let (count, from) = server.recv_from(&mut buffer).await?;
    /// assert_eq!((count, from.is_unnamed()), (5, true));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If nobody is there, the datagram is too long, or the system refuses.
    ///
    /// # Cancel safety
    /// A dropped send has sent nothing.
    pub async fn send_to(&self, buf: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        budget::proceed().await;
        self.send_to_system(buf, &SockAddr::unix(path)?).await
    }

    /// As [`UnixDatagram::send_to`], to an address.
    ///
    /// # Errors
    /// As [`UnixDatagram::send_to`].
    pub async fn send_to_addr(&self, buf: &[u8], address: &SocketAddr) -> io::Result<usize> {
        budget::proceed().await;
        self.send_to_system(buf, &names::to_system(address)?).await
    }

    /// Sends a datagram to a path if that takes no wait.
    ///
    /// # Errors
    /// `WouldBlock` if it does; else as [`UnixDatagram::send_to`].
    pub fn try_send_to(&self, buf: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        datagram::try_send_to(&self.0, buf, &SockAddr::unix(path)?)
    }

    /// Receives a datagram: its length, and where it comes from. What does not fit into the buffer is
    /// lost.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Cancel safety
    /// A dropped receive has taken none.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::recv_from(&self.0, buf, Taking::Take).await?)
    }

    /// Receives a datagram that is there already.
    ///
    /// ```
    /// use filch::net::UnixDatagram;
    /// # filch::block_on(async {
    /// let (here, there) = UnixDatagram::pair()?;
    /// assert_eq!(here.try_send(b"hello")?, 5);
    /// let mut buffer = [0; 16];
    /// assert_eq!(there.try_peek_from(&mut buffer)?.0, 5);
    /// assert_eq!(there.try_recv_from(&mut buffer)?.0, 5);
    /// assert!(there.try_recv_from(&mut buffer).is_err());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else as [`UnixDatagram::recv_from`].
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::try_recv_from(&self.0, buf, Taking::Take)?)
    }

    /// As [`UnixDatagram::recv_from`], but the datagram stays for the next receive.
    ///
    /// # Errors
    /// As [`UnixDatagram::recv_from`].
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::recv_from(&self.0, buf, Taking::Peek).await?)
    }

    /// As [`UnixDatagram::try_recv_from`], but the datagram stays for the next receive.
    ///
    /// # Errors
    /// As [`UnixDatagram::try_recv_from`].
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::try_recv_from(&self.0, buf, Taking::Peek)?)
    }
}

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixDatagram")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}
