//! A connection with the requests that are under way on it.

use super::meter::Meter;
use super::{Order, epoll::Epoll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long nothing may come before the server counts as stuck (L2 of `load`).
pub const PATIENCE: Duration = Duration::from_secs(10);

pub struct Connection {
    stream: TcpStream,
    /// When the requests under way were sent, oldest first.
    sent: VecDeque<Instant>,
    /// Bytes of the next reply that have come.
    partial: usize,
}

impl Connection {
    /// All connections of an order, and who tells of their replies by index.
    pub fn open_all(order: &Order) -> io::Result<(Vec<Self>, Epoll)> {
        let epoll = Epoll::new()?;
        let open = |index| {
            let stream = TcpStream::connect(order.address)?;
            stream.set_nodelay(true)?;
            epoll.add(&stream, index)?;
            Ok(Self { stream, sent: VecDeque::new(), partial: 0 })
        };
        let connections = (0..order.connections).map(open).collect::<io::Result<_>>()?;
        Ok((connections, epoll))
    }

    /// Sends so many requests at once. It does not block for long: what is under way is far less than
    /// the buffers of two sockets.
    pub fn send(&mut self, requests: &[u8], count: usize) -> io::Result<()> {
        let now = Instant::now();
        self.sent.extend(std::iter::repeat_n(now, count));
        self.stream.write_all(requests)
    }

    /// Counts how long the requests under way have waited by now: a server that forgets some would
    /// look good otherwise.
    pub fn count_waiting(&self, meter: &mut Meter, now: Instant) {
        self.sent.iter().for_each(|&sent| meter.count_waiting(sent, now));
    }

    /// Takes what has come; how many replies that has completed.
    pub fn receive(
        &mut self,
        order: &Order,
        buffer: &mut [u8],
        meter: &mut Meter,
    ) -> io::Result<usize> {
        let received = self.stream.read(buffer)?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = Instant::now();
        self.partial += received;
        let replies = self.partial / order.bytes;
        self.partial %= order.bytes;
        for sent in self.sent.drain(..replies) {
            meter.count(sent, now);
        }
        Ok(replies)
    }
}
