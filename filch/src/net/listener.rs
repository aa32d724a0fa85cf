//! Listening for TCP connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::accept::{Accept, Acceptor};
use super::addr::{ToSocketAddrs, first_of};
use super::calls::Calls;
use super::engine_here;
use super::socket::Socket;
use super::stream::descriptor;
use super::tcp::TcpStream;

/// Connections that the system keeps until they are accepted. As std does.
pub(super) const BACKLOG: i32 = 4096;

/// What listeners of every family have.
macro_rules! listens {
    ($type:ident, $std:ty, $stream:ty, $setup:literal) => {
        impl $type {
            /// Takes a listener of std, whatever mode it is in.
            ///
            /// # Errors
            /// If the system refuses.
            pub fn from_std(listener: $std) -> std::io::Result<Self> {
                listener.set_nonblocking(false)?;
                let engine = crate::net::engine_here();
                let socket = crate::net::socket::Socket::from_fd(listener.into(), &engine)?;
                socket.block_as_needed(true)?;
                Ok(Self(crate::net::accept::Acceptor::new(socket)))
            }

            /// Gives the listener to std, in blocking mode, with the connections that came and were not
            /// accepted here.
            ///
            /// ```
            #[doc = $setup]
            /// let (std, connections) = listener.into_std().await?;
            /// assert!(connections.is_empty());
            /// # drop(std);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            ///
            /// # Errors
            /// If there is no free descriptor.
            pub async fn into_std(self) -> std::io::Result<($std, Vec<$stream>)> {
                use std::os::fd::AsFd;
                crate::task::budget::proceed().await;
                let accepted = self.0.stop().await?;
                let fd = self.as_fd().try_clone_to_owned()?;
                self.0.socket.block()?;
                Ok((fd.into(), accepted.into_iter().map(Into::into).collect()))
            }

            /// The error that the system has noted since the last call.
            ///
            /// # Errors
            /// If the system refuses.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.0.socket.take_error()
            }
        }

        crate::net::stream::try_from_std!($type, $std);
        descriptor!($type, |listener| listener.0.socket.as_fd());
    };
}
pub(super) use listens;

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
        let listen = |address| Socket::listen(&engine, address, BACKLOG);
        first_of(&address, listen).await.map(|socket| Self(Acceptor::new(socket)))
    }

    pub(super) fn from_acceptor(acceptor: Acceptor) -> Self {
        Self(acceptor)
    }

    pub(super) fn options(&self) -> Calls<'_> {
        self.0.socket.options()
    }

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    /// If the system refuses. If descriptors or memory run out, `accept` waits until there are some again,
    /// and says so on the error output after a second.
    ///
    /// # Cancel safety
    /// A dropped `accept` loses nothing: the connection is there for the next. Once used, a listener on a
    /// ring accepts ahead, some dozens; those that nobody has taken are closed with it, unless
    /// [`TcpListener::into_std`] hands them out. So where processes share a socket to listen on,
    /// one that stops should use that.
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

impl Future for Accept<'_, TcpStream> {
    type Output = io::Result<(TcpStream, SocketAddr)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_open(cx, |socket| {
            let address = socket.peer_addr()?;
            Ok((TcpStream::from_socket(socket), address))
        })
    }
}

listens!(
    TcpListener,
    std::net::TcpListener,
    std::net::TcpStream,
    "# filch::block_on(async {
# let listener = filch::net::TcpListener::bind(\"127.0.0.1:0\").await?;"
);

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("address", &self.local_addr().ok()).finish()
    }
}
