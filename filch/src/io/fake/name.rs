//! Names of simulated sockets: addresses that can be compared and ordered.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;

use socket2::{Domain, SockAddr};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Internet(SocketAddr),
    /// A path, or a zero and an abstract name. Empty: a Unix socket without a name.
    Unix(Vec<u8>),
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl Name {
    /// # Errors
    /// If it is of a family that is not simulated.
    pub(super) fn of(address: &SockAddr) -> io::Result<Self> {
        if let Some(address) = address.as_socket() {
            return Ok(Self::Internet(address));
        }
        if !address.is_unix() {
            return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
        }
        Ok(Self::Unix(match (address.as_pathname(), address.as_abstract_namespace()) {
            (Some(path), _) => path.as_os_str().as_bytes().to_vec(),
            (None, Some(name)) => [b"\0", name].concat(),
            (None, None) => Vec::new(),
        }))
    }

    /// The name of a socket that has none.
    pub(super) fn none(domain: Domain) -> Self {
        match domain {
            Domain::IPV4 => Self::Internet((Ipv4Addr::UNSPECIFIED, 0).into()),
            Domain::IPV6 => Self::Internet((Ipv6Addr::UNSPECIFIED, 0).into()),
            _ => Self::Unix(Vec::new()),
        }
    }

    pub(super) fn to_system(&self) -> io::Result<SockAddr> {
        match self {
            Self::Internet(address) => Ok((*address).into()),
            Self::Unix(path) => SockAddr::unix(std::ffi::OsStr::from_bytes(path)),
        }
    }

    /// Whether it is to be completed: a port, or any name, of the system's choice.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Internet(address) => address.port() == 0,
            Self::Unix(path) => path.is_empty(),
        }
    }

    /// Completed with a number that nobody else has.
    pub(super) fn completed(self, number: u16) -> Self {
        match self {
            Self::Internet(mut address) => {
                address.set_port(number);
                Self::Internet(address)
            }
            Self::Unix(_) => Self::Unix(format!("\0{number:05x}").into_bytes()),
        }
    }

    /// Who may be bound where this leads to: the name itself, then any address of its port.
    pub(super) fn bound_as(&self) -> impl Iterator<Item = Self> {
        let any = match self {
            Self::Internet(address) => {
                let any = SocketAddr::new(unspecified(address.ip()), address.port());
                Some(Self::Internet(any))
            }
            Self::Unix(_) => None,
        };
        std::iter::once(self.clone()).chain(any)
    }

    /// From where a socket without a name reaches this one, before a port is chosen.
    pub(super) fn reached_from(&self) -> Self {
        match self {
            Self::Internet(address) => Self::Internet(SocketAddr::new(address.ip(), 0)),
            Self::Unix(_) => Self::Unix(Vec::new()),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(f),
            Self::Unix(path) if path.is_empty() => f.write_str("unnamed"),
            Self::Unix(path) => path.escape_ascii().fmt(f),
        }
    }
}
