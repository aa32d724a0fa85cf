//! Calls on sockets that are answered at once: the system's, or in a simulation those of its network.
//!
//! Whatever concerns the other side or the address is asked here; the options of a socket are the
//! system's in a simulation too, where they have no effect.

use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::io::fake::{self, Network};

/// A socket, for calls by std's names or nearly.
pub(crate) struct Calls<'a> {
    fd: RawFd,
    system: SockRef<'a>,
}

impl<'a, F: AsFd> From<&'a F> for Calls<'a> {
    fn from(descriptor: &'a F) -> Self {
        Self { fd: descriptor.as_fd().as_raw_fd(), system: SockRef::from(descriptor) }
    }
}

/// The options.
impl<'a> std::ops::Deref for Calls<'a> {
    type Target = SockRef<'a>;

    fn deref(&self) -> &SockRef<'a> {
        &self.system
    }
}

impl Calls<'_> {
    /// Asks the simulation's network if there is one, or the system.
    fn ask<T>(
        &self,
        simulated: impl FnOnce(&Network, RawFd) -> io::Result<T>,
        system: impl FnOnce(&Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        match fake::here() {
            Some(network) => simulated(&network, self.fd),
            None => system(&self.system),
        }
    }

    pub(super) fn bind(&self, to: &SockAddr) -> io::Result<()> {
        self.ask(|network, fd| network.bind(fd, to), |socket| socket.bind(to))
    }

    pub(super) fn listen(&self, backlog: i32) -> io::Result<()> {
        self.ask(|network, fd| network.listen(fd, backlog), |socket| socket.listen(backlog))
    }

    pub(super) fn connect(&self, to: &SockAddr) -> io::Result<()> {
        self.ask(|network, fd| network.connect(fd, to), |socket| socket.connect(to))
    }

    pub(super) fn local_addr(&self) -> io::Result<SockAddr> {
        self.ask(Network::local_addr, Socket::local_addr)
    }

    pub(super) fn peer_addr(&self) -> io::Result<SockAddr> {
        self.ask(Network::peer_addr, Socket::peer_addr)
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.ask(|network, fd| network.shutdown(fd, how), |socket| socket.shutdown(how))
    }

    pub(super) fn recv_from_with_flags(
        &self,
        buf: &mut [MaybeUninit<u8>],
        flags: i32,
    ) -> io::Result<(usize, SockAddr)> {
        match fake::here() {
            Some(network) => network.recv_from(self.fd, buf, flags),
            None => self.system.recv_from_with_flags(buf, flags),
        }
    }

    pub(super) fn send_with_flags(&self, buf: &[u8], flags: i32) -> io::Result<usize> {
        self.ask(
            |network, fd| network.send_to(fd, buf, None),
            |socket| socket.send_with_flags(buf, flags),
        )
    }

    pub(super) fn send_to_with_flags(
        &self,
        buf: &[u8],
        to: &SockAddr,
        flags: i32,
    ) -> io::Result<usize> {
        self.ask(
            |network, fd| network.send_to(fd, buf, Some(to)),
            |socket| socket.send_to_with_flags(buf, to, flags),
        )
    }
}

/// Two sockets within the host that are connected to each other.
pub(super) fn pair(kind: Type) -> io::Result<(Socket, Socket)> {
    let Some(network) = fake::here() else { return Socket::pair(Domain::UNIX, kind, None) };
    let make = || Socket::new(Domain::UNIX, kind, None);
    let (one, other) = (make()?, make()?);
    network.pair(one.as_raw_fd(), other.as_raw_fd())?;
    Ok((one, other))
}
