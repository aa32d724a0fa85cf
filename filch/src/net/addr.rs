//! Addresses that a socket may be given, and how names become such.
//!
//! Only a name is looked up, on a thread for what blocks; what is an address already is there at once.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::vec;

use crate::spawn::spawn_blocking;
use crate::task::budget;

/// What addresses of sockets can be made from; the asynchronous twin of [`std::net::ToSocketAddrs`].
///
/// Implemented for addresses, slices of them, pairs of host and port, and strings such as
/// `"localhost:80"`. It cannot be implemented elsewhere.
///
/// ```
/// use filch::net::{ToSocketAddrs, lookup_host};
/// async fn port(host: impl ToSocketAddrs) -> std::io::Result<Option<u16>> {
///     Ok(lookup_host(host).await?.next().map(|address| address.port()))
/// }
/// assert_eq!(filch::block_on(port(("127.0.0.1", 80))).unwrap(), Some(80));
/// ```
pub trait ToSocketAddrs: sealed::Resolve {}

/// Looks a host up.
///
/// A name is looked up as the system does, on a thread for what blocks. A lookup that is dropped goes
/// on there, and its answer is forgotten.
///
/// ```
/// # filch::block_on(async {
/// let mut addresses = filch::net::lookup_host("localhost:80").await?;
/// assert!(addresses.all(|address| address.ip().is_loopback() && address.port() == 80));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If the name is unknown or the text is no host and port.
pub async fn lookup_host(host: impl ToSocketAddrs) -> io::Result<impl Iterator<Item = SocketAddr>> {
    resolve(&host).await
}

/// The addresses of a host.
pub(super) async fn resolve(host: &(impl ToSocketAddrs + ?Sized)) -> io::Result<Addresses> {
    budget::proceed().await;
    match host.found() {
        Found::Addresses(addresses) => Ok(addresses),
        Found::Name(name, port) => {
            let look = move || std::net::ToSocketAddrs::to_socket_addrs(&(&*name, port));
            spawn_blocking(look).await.map(Addresses::Many)
        }
        Found::Nonsense(text) => Err(io::Error::new(io::ErrorKind::InvalidInput, text)),
    }
}

/// The error of a host without addresses.
pub(super) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the host has no address")
}

/// Tries the addresses of a host in turn: the first success, or the last error.
pub(super) async fn first_of<T>(
    host: &(impl ToSocketAddrs + ?Sized),
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = no_address();
    for address in resolve(host).await? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Addresses that are known.
#[derive(Debug)]
pub enum Addresses {
    /// At most one, which is what most callers have.
    One(Option<SocketAddr>),
    /// Any number.
    Many(vec::IntoIter<SocketAddr>),
}

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match self {
            Self::One(address) => address.take(),
            Self::Many(addresses) => addresses.next(),
        }
    }
}

/// What a host turns out to be.
#[derive(Debug)]
pub enum Found {
    /// Known without a lookup.
    Addresses(Addresses),
    /// To be looked up.
    Name(String, u16),
    /// Nothing that could be looked up.
    Nonsense(&'static str),
}

mod sealed {
    use super::Found;

    pub trait Resolve {
        fn found(&self) -> Found;
    }
}
use sealed::Resolve;

fn one(address: impl Into<SocketAddr>) -> Found {
    Found::Addresses(Addresses::One(Some(address.into())))
}

fn host_and_port(host: &str, port: u16) -> Found {
    match host.parse::<IpAddr>() {
        Ok(ip) => one((ip, port)),
        Err(_) => Found::Name(host.to_owned(), port),
    }
}

macro_rules! addresses {
    ($($of:ty: |$it:ident| $found:expr;)*) => {$(
        impl Resolve for $of {
            fn found(&self) -> Found {
                let $it = self;
                $found
            }
        }

        impl ToSocketAddrs for $of {}
    )*};
}

addresses! {
    SocketAddr: |it| one(*it);
    SocketAddrV4: |it| one(*it);
    SocketAddrV6: |it| one(*it);
    (IpAddr, u16): |it| one(*it);
    (Ipv4Addr, u16): |it| one(*it);
    (Ipv6Addr, u16): |it| one(*it);
    [SocketAddr]: |it| Found::Addresses(Addresses::Many(Vec::from(it).into_iter()));
    (&str, u16): |it| host_and_port(it.0, it.1);
    (String, u16): |it| host_and_port(&it.0, it.1);
    str: |it| split(it);
    String: |it| split(it);
}

impl<T: ToSocketAddrs + ?Sized> Resolve for &T {
    fn found(&self) -> Found {
        (**self).found()
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

/// `host:port`.
fn split(text: &str) -> Found {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return one(address);
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Found::Nonsense("an address is a host and a port, with a colon between them");
    };
    match port.parse() {
        Ok(port) => host_and_port(host, port),
        Err(_) => Found::Nonsense("the port of an address is a number up to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text for the eye: what is found.
    fn kind(host: impl ToSocketAddrs) -> String {
        match host.found() {
            Found::Addresses(addresses) => format!("{:?}", addresses.collect::<Vec<_>>()),
            Found::Name(name, port) => format!("{name} {port}"),
            Found::Nonsense(_) => "nonsense".to_owned(),
        }
    }

    #[test]
    fn an_address_is_not_looked_up() {
        assert_eq!(kind("127.0.0.1:80"), "[127.0.0.1:80]");
        assert_eq!(kind("[::1]:80"), "[[::1]:80]");
        assert_eq!(kind(("::1", 80)), "[[::1]:80]");
        assert_eq!(kind((Ipv4Addr::LOCALHOST, 80)), "[127.0.0.1:80]");
        assert_eq!(kind(&[][..]), "[]");
    }

    #[test]
    fn a_name_is_looked_up() {
        assert_eq!(kind("localhost:80"), "localhost 80");
        assert_eq!(kind((String::from("localhost"), 80)), "localhost 80");
    }

    #[test]
    fn text_without_a_port_is_nonsense() {
        assert_eq!(kind("localhost"), "nonsense");
        assert_eq!(kind("localhost:http"), "nonsense");
        assert_eq!(kind("localhost:65536"), "nonsense");
    }
}
