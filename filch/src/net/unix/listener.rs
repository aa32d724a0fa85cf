//! Listening for connections within a host.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::{Domain, SockAddr, Type};

use super::{SocketAddr, UnixStream, names};
use crate::net::accept::{Accept, Acceptor};
use crate::net::engine_here;
use crate::net::listener::{BACKLOG, listens};
use crate::net::socket::Socket;
use crate::net::stream::descriptor;

/// A socket that waits for connections within a host.
///
/// The file at its path stays when it is dropped.
///
/// ```
/// use filch::net::{UnixListener, UnixStream};
/// # filch::block_on(async {
/// # let directory = std::env::temp_dir().join(format!("filch-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("socket");
/// let listener = UnixListener::bind(&path)?;
/// let client = UnixStream::connect(&path).await?;
/// let (server, _) = listener.accept().await?;
/// server.write_all("welcome").await.0?;
/// assert_eq!(&client.recv().await?.unwrap()[..], b"welcome");
/// # std::fs::remove_dir_all(&directory)?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct UnixListener(Acceptor);

impl UnixListener {
    /// Waits for connections at a path, where it makes a file.
    ///
    /// # Errors
    /// If there is a file already, or the system refuses.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_system(&SockAddr::unix(path)?)
    }

    /// Waits for connections at an address.
    ///
    /// ```
    /// use std::os::linux::net::SocketAddrExt;
    /// use filch::net::{UnixListener, unix::SocketAddr};
    /// # filch::block_on(async {
    /// let address = SocketAddr::from_abstract_name("filch/example/bind")?;
    /// let listener = UnixListener::bind_addr(&address)?;
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), Some(&b"filch/example/bind"[..]));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`UnixListener::bind`].
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        Self::bind_system(&names::to_system(address)?)
    }

    fn bind_system(address: &SockAddr) -> io::Result<Self> {
        let socket = Socket::new(&engine_here(), Domain::UNIX, Type::STREAM, None)?;
        socket.options().bind(address)?;
        socket.options().listen(BACKLOG)?;
        socket.block_as_needed(true)?;
        Ok(Self(Acceptor::new(socket)))
    }

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    /// If the system refuses. If descriptors or memory run out, `accept` waits until there are some again,
    /// and says so on the error output after a second.
    ///
    /// # Cancel safety
    /// A dropped `accept` loses nothing: the connection is there for the next.
    pub fn accept(&self) -> Accept<'_, UnixStream> {
        Accept::new(&self.0)
    }

    /// The address that is bound.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        names::to_std(&self.0.socket.options().local_addr()?)
    }
}

impl Future for Accept<'_, UnixStream> {
    type Output = io::Result<(UnixStream, SocketAddr)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_open(cx, |socket| {
            let address = names::to_std(&socket.options().peer_addr()?)?;
            Ok((UnixStream(socket), address))
        })
    }
}

listens!(
    UnixListener,
    std::os::unix::net::UnixListener,
    std::os::unix::net::UnixStream,
    "# filch::block_on(async {
# let listener = filch::net::UnixListener::bind(\"\\0filch/example/std\")?;"
);

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixListener").field("address", &self.local_addr().ok()).finish()
    }
}
