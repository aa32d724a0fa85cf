//! Requests over connections that stay.

use super::connection::{Connection, PATIENCE};
use super::meter::Meter;
use super::{Figures, Order};
use crate::bench::stats::SplitMix;
use std::io;
use std::time::{Duration, Instant};

/// Room for what one receive takes.
const BUFFER: usize = 64 * 1024;

/// A reply is followed by the next request.
pub fn closed(order: &Order, in_flight: usize) -> io::Result<Figures> {
    let (mut connections, mut epoll) = Connection::open_all(order)?;
    let requests = vec![b'x'; order.bytes * in_flight];
    let mut buffer = vec![0; BUFFER];
    let mut meter = Meter::start(order);
    for connection in &mut connections {
        connection.send(&requests, in_flight)?;
    }
    while meter.is_open(Instant::now()) {
        let mut is_stuck = true;
        for index in epoll.wait(PATIENCE)? {
            is_stuck = false;
            let connection = &mut connections[index];
            let replies = connection.receive(order, &mut buffer, &mut meter)?;
            if replies > 0 {
                connection.send(&requests[..order.bytes * replies], replies)?;
            }
        }
        if is_stuck {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(finish(&connections, meter))
}

fn finish(connections: &[Connection], mut meter: Meter) -> Figures {
    let now = Instant::now();
    connections.iter().for_each(|connection| connection.count_waiting(&mut meter, now));
    meter.figures()
}

/// Requests at times of their own.
pub fn open(order: &Order, per_second: u32) -> io::Result<Figures> {
    let (mut connections, mut epoll) = Connection::open_all(order)?;
    let request = vec![b'x'; order.bytes];
    let mut buffer = vec![0; BUFFER];
    let mut meter = Meter::start(order);
    let mut times = Times::new(per_second);
    let mut next = 0;
    loop {
        let now = Instant::now();
        if !meter.is_open(now) {
            return Ok(finish(&connections, meter));
        }
        while times.is_due(now) {
            connections[next].send(&request, 1)?;
            next = (next + 1) % connections.len();
        }
        for index in epoll.wait(times.due.saturating_duration_since(Instant::now()))? {
            connections[index].receive(order, &mut buffer, &mut meter)?;
        }
    }
}

/// When requests are due: at gaps from half to one and a half of the mean, the same in every run.
struct Times {
    due: Instant,
    mean_ns: u64,
    gaps: SplitMix,
}

impl Times {
    fn new(per_second: u32) -> Self {
        let mean_ns = 1_000_000_000 / u64::from(per_second);
        Self { due: Instant::now(), mean_ns, gaps: SplitMix::new(mean_ns) }
    }

    /// Whether one is due, which is taken.
    fn is_due(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let gap = self.gaps.within(self.mean_ns / 2..self.mean_ns * 3 / 2);
        self.due += Duration::from_nanos(gap);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Times;
    use std::time::Duration;

    #[test]
    fn requests_are_due_as_often_as_asked_and_late_ones_are_not_lost() {
        let mut times = Times::new(1_000);
        let end = times.due + Duration::from_secs(1);
        let count = std::iter::from_fn(|| times.is_due(end).then_some(())).count();
        assert!((950..1_050).contains(&count), "{count}");
    }
}
