//! UDP sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, Type};

use super::addr::{ToSocketAddrs, first_of, no_address, resolve};
use super::datagram::{self, Taking, datagrams};
use super::engine_here;
use super::socket::internet;
use crate::io::descriptor::Descriptor;
use crate::io::engine::Engine;

/// A UDP socket.
///
/// All methods take `&self`: tasks share it in an [`Arc`].
///
/// ```
/// use filch::net::UdpSocket;
/// # filch::block_on(async {
/// let (here, there) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
/// here.send_to(b"hello", there.local_addr()?).await?;
/// let mut buffer = [0; 1024];
/// let (count, from) = there.recv_from(&mut buffer).await?;
/// assert_eq!(&buffer[..count], b"hello");
/// assert_eq!(from, here.local_addr()?);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct UdpSocket(Arc<Descriptor>);

datagrams!(
    UdpSocket,
    std::net::UdpSocket,
    "# use filch::net::UdpSocket;
# filch::block_on(async {
# let socket = UdpSocket::bind(\"127.0.0.1:0\").await?;
# let other = UdpSocket::bind(\"127.0.0.1:0\").await?;
# socket.connect(other.local_addr()?).await?;
# other.connect(socket.local_addr()?).await?;"
);

fn bound(engine: &Arc<Engine>, address: SocketAddr) -> io::Result<Arc<Descriptor>> {
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    let descriptor = datagram::wrap(socket.into(), engine)?;
    datagram::options(&descriptor).bind(&address.into())?;
    Ok(descriptor)
}

fn with_sender((count, from): (usize, SockAddr)) -> io::Result<(usize, SocketAddr)> {
    Ok((count, internet(&from)?))
}

impl UdpSocket {
    /// A socket at the first address that can be bound.
    ///
    /// # Errors
    /// If none can: the error of the last.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let engine = engine_here();
        first_of(&address, |address| bound(&engine, address)).await.map(Self)
    }

    /// Sets where datagrams go, and from where they are received: the first address that the system
    /// takes.
    ///
    /// ```
    /// use filch::net::UdpSocket;
    /// # filch::block_on(async {
    /// let (here, there) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    /// here.connect(there.local_addr()?).await?;
    /// assert_eq!(here.peer_addr()?, there.local_addr()?);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If it takes none: the error of the last.
    pub async fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        first_of(&address, |address| self.options().connect(&address.into())).await
    }

    /// The address of this side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.options().local_addr()?)
    }

    /// The address that the socket is connected to.
    ///
    /// # Errors
    /// If it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        internet(&self.options().peer_addr()?)
    }

    /// Sends a datagram to an address; of several, to the first.
    ///
    /// # Errors
    /// If there is no address, the datagram is too long, or the system refuses.
    ///
    /// # Cancel safety
    /// A dropped send has sent nothing.
    pub async fn send_to(&self, buf: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let to = resolve(&to).await?.next().ok_or_else(no_address)?;
        datagram::send_to(&self.0, buf, &to.into()).await
    }

    /// Sends a datagram if that takes no wait.
    ///
    /// # Errors
    /// `WouldBlock` if it does; else as [`UdpSocket::send_to`].
    pub fn try_send_to(&self, buf: &[u8], to: SocketAddr) -> io::Result<usize> {
        datagram::try_send_to(&self.0, buf, &to.into())
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
    /// # Errors
    /// `WouldBlock` if there is none; else as [`UdpSocket::recv_from`].
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::try_recv_from(&self.0, buf, Taking::Take)?)
    }

    /// As [`UdpSocket::recv_from`], but the datagram stays for the next receive.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::recv_from(&self.0, buf, Taking::Peek).await?)
    }

    /// As [`UdpSocket::try_recv_from`], but the datagram stays for the next receive.
    ///
    /// # Errors
    /// As [`UdpSocket::try_recv_from`].
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        with_sender(datagram::try_recv_from(&self.0, buf, Taking::Peek)?)
    }

    /// Where the next datagram comes from.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.peek_from(&mut []).await.map(|(_, from)| from)
    }

    /// As [`UdpSocket::peek_sender`], without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is no datagram; else if the system refuses.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.try_peek_from(&mut []).map(|(_, from)| from)
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
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}
