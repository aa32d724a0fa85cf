//! Connections within a host.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use socket2::{Domain, SockAddr, Type};

use super::SocketAddr;
use super::names::{self, UCred};
use crate::net::calls::pair;
use crate::net::connect::connect_here;
use crate::net::engine_here;
use crate::net::socket::Socket;
use crate::net::stream::{reads, whole, writes};
use crate::task::budget;

/// A connection within a host.
///
/// All methods take `&self`: one task may read while another writes. Dropping it closes it.
///
/// ```
/// use filch::net::UnixStream;
/// # filch::block_on(async {
/// let (here, there) = UnixStream::pair()?;
/// here.write_all(b"hello").await.0?;
/// assert_eq!(&there.recv().await?.unwrap()[..], b"hello");
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct UnixStream(pub(super) Socket);

impl UnixStream {
    /// Connects to a listener at a path.
    ///
    /// If its queue is full, this waits until there is room.
    ///
    /// ```
    /// use filch::net::{UnixListener, UnixStream};
    /// # filch::block_on(async {
    /// let path = "\0filch/example/connect";
    /// let listener = UnixListener::bind(path)?;
    /// let client = UnixStream::connect(path).await?;
    /// let (server, _) = listener.accept().await?;
    /// # drop((client, server));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If nobody listens there, or the system refuses.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::connect_system(SockAddr::unix(path)).await
    }

    /// Connects to a listener at an address.
    ///
    /// # Errors
    /// As [`UnixStream::connect`].
    pub async fn connect_addr(address: &SocketAddr) -> io::Result<Self> {
        Self::connect_system(names::to_system(address)).await
    }

    async fn connect_system(address: io::Result<SockAddr>) -> io::Result<Self> {
        budget::proceed().await;
        let address = address?;
        let socket = Socket::new(&engine_here(), Domain::UNIX, Type::STREAM, None)?;
        connect_here(&socket, &address).await?;
        Ok(Self(socket))
    }

    /// Two ends of a connection.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = pair(Type::STREAM)?;
        let engine = engine_here();
        let wrap = |fd: socket2::Socket| Socket::from_fd(OwnedFd::from(fd), &engine).map(Self);
        Ok((wrap(one)?, wrap(other)?))
    }

    pub(in crate::net) fn socket(&self) -> &Socket {
        &self.0
    }

    /// The address of this side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        names::to_std(&self.0.options().local_addr()?)
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        names::to_std(&self.0.options().peer_addr()?)
    }

    /// Who has made the other side.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self.as_fd())
    }
}

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixStream")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}

reads!(
    UnixStream,
    "# filch::block_on(async {
# let (writer, reader) = filch::net::UnixStream::pair()?;"
);
writes!(
    UnixStream,
    "# filch::block_on(async {
# let (writer, reader) = filch::net::UnixStream::pair()?;"
);
whole!(
    UnixStream,
    std::os::unix::net::UnixStream,
    "# filch::block_on(async {
# let (writer, reader) = filch::net::UnixStream::pair()?;"
);

pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};

mod halves {
    use crate::net::split::halves;

    halves!(
        UnixStream,
        "UnixStream",
        std::os::unix::net::SocketAddr,
        "# filch::block_on(async {
# let (writer, reader) = filch::net::UnixStream::pair()?;
# let (reader, _whole) = reader.into_split();",
        "# filch::block_on(async {
# let (writer, reader) = filch::net::UnixStream::pair()?;"
    );
}
