//! A new connection for each exchange: connect, one request, its reply, close.
//!
//! Connections come from many loopback addresses in turn: those that were closed keep their port for a
//! minute, and one address would run out of ports within a second or two.

use super::connection::PATIENCE;
use super::epoll::Epoll;
use super::meter::Meter;
use super::{Figures, Order};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::Instant;

/// One exchange under way.
struct Exchange {
    socket: Socket,
    began: Instant,
    /// Bytes of the reply that have not come.
    missing: usize,
}

/// The addresses that connections come from.
struct Sources(u8);

impl Sources {
    fn next(&mut self) -> SocketAddrV4 {
        self.0 = self.0 % 250 + 1;
        SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, self.0), 0)
    }
}

/// Keeps so many exchanges under way as the order has connections.
pub fn churn(order: &Order) -> io::Result<Figures> {
    let mut epoll = Epoll::new()?;
    let (request, mut buffer) = (vec![b'x'; order.bytes], vec![0; order.bytes]);
    let mut sources = Sources(0);
    let mut begin = |epoll: &Epoll, index| begin(order, &request, sources.next(), epoll, index);
    let mut meter = Meter::start(order);
    let mut exchanges =
        (0..order.connections).map(|index| begin(&epoll, index)).collect::<io::Result<Vec<_>>>()?;
    let mut ready = Vec::new();
    while meter.is_open(Instant::now()) {
        ready.clear();
        ready.extend(epoll.wait(PATIENCE)?);
        if ready.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        for &index in &ready {
            let exchange = &mut exchanges[index];
            match exchange.socket.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                received => exchange.missing -= received,
            }
            if exchange.missing == 0 {
                meter.count(exchange.began, Instant::now());
                *exchange = begin(&epoll, index)?;
            }
        }
    }
    Ok(meter.figures())
}

/// Connects and sends. On loopback a connection is there when `connect` returns, so it waits for nobody.
fn begin(
    order: &Order,
    request: &[u8],
    source: SocketAddrV4,
    epoll: &Epoll,
    index: usize,
) -> io::Result<Exchange> {
    let began = Instant::now();
    let mut socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    leave_port_open(&socket)?;
    socket.bind(&source.into())?;
    socket.connect(&order.address.into())?;
    socket.write_all(request)?;
    epoll.add(&socket, index)?;
    Ok(Exchange { socket, began, missing: order.bytes })
}

/// The port is chosen when the connection is made, not when the address is bound: then it must be free
/// for this pair of addresses only.
fn leave_port_open(socket: &Socket) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the value lives during the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
