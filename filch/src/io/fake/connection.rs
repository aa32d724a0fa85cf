//! A connection in memory: two pipes, and what ends them.
//!
//! K1. Bytes are read in the order in which they were written, each once, and not before they have
//!     arrived. Arrivals are in order: nothing overtakes on its way.
//! K2. A pipe holds at most its capacity, arrived or not; a writer that finds no room waits.
//! K3. The end of a direction arrives behind its bytes. A reset arrives behind the bytes that were
//!     under way; it is told once as an error, and from then on as an end, or to a writer as a broken pipe.
//! K4. Who closes with bytes unread resets the connection; so does who writes to a side that is closed.
//!
//! Not here: who waits, and dice (`network`).

use std::collections::VecDeque;
use std::net::Shutdown;
use std::time::Instant;

#[cfg(test)]
mod tests;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What a side would find.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// So many bytes to read, or so much room.
    Bytes(usize),
    /// The end of the stream.
    End,
    /// An error, negated.
    Error(i32),
    /// Nothing before then.
    Later(Instant),
    /// Nothing until the other side does something.
    Nothing,
}

/// Bytes on their way to one side (K1, K2).
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// How many of `bytes` arrive when, in order.
    arrivals: VecDeque<(usize, Instant)>,
    /// When the writer's end arrives (K3).
    end: Option<Instant>,
    /// When the last of all this arrives.
    last: Option<Instant>,
}

impl Pipe {
    /// When something arrives that is sent now, and would on its own arrive at `at`.
    fn in_order(&mut self, at: Instant) -> Instant {
        let at = self.last.map_or(at, |last| last.max(at));
        *self.last.insert(at)
    }

    fn arrived(&self, now: Instant) -> usize {
        self.arrivals.iter().take_while(|(_, at)| *at <= now).map(|(count, _)| count).sum()
    }

    fn next(&self) -> Option<Instant> {
        self.arrivals.front().map(|(_, at)| *at).or(self.end)
    }

    fn take(&mut self, mut count: usize) {
        self.bytes.drain(..count);
        while let Some((first, _)) = self.arrivals.front_mut() {
            let taken = count.min(*first);
            *first -= taken;
            count -= taken;
            if *first > 0 {
                break;
            }
            self.arrivals.pop_front();
        }
        debug_assert_eq!(count, 0, "K1: bytes are taken after they have arrived");
    }
}

/// What has become of one side.
#[derive(Debug, Default)]
struct End {
    /// What comes to it.
    pipe: Pipe,
    /// It reads no more.
    deaf: bool,
    /// It writes no more.
    mute: bool,
    closed: bool,
    /// When it learns of a reset (K3).
    reset: Option<Instant>,
    /// It has been told.
    told: bool,
}

/// What an end of the connection within this host says to who writes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    /// The write succeeds, and the answer to it is a reset.
    Tcp,
    /// The write fails.
    Unix,
}

/// How a side goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    Polite,
    /// With a reset, as a socket that lingers for no time.
    Rude,
}

#[derive(Debug)]
pub(super) struct Connection {
    client: End,
    server: End,
    capacity: usize,
    manners: Manners,
}

impl Connection {
    pub(super) fn new(capacity: usize, manners: Manners) -> Self {
        Self { client: End::default(), server: End::default(), capacity, manners }
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn ends(&self, side: Side) -> (&End, &End) {
        match side {
            Side::Client => (&self.client, &self.server),
            Side::Server => (&self.server, &self.client),
        }
    }

    /// What a read would find.
    pub(super) fn look_in(&self, side: Side, now: Instant) -> Look {
        let (me, _) = self.ends(side);
        match me.pipe.arrived(now) {
            0 => {}
            count => return Look::Bytes(count),
        }
        if me.deaf || me.told || me.pipe.bytes.is_empty() && me.pipe.end.is_some_and(|at| at <= now)
        {
            return Look::End;
        }
        if me.reset.is_some_and(|at| at <= now) {
            return Look::Error(-libc::ECONNRESET);
        }
        let next = me.pipe.next().into_iter().chain(me.reset).min();
        next.map_or(Look::Nothing, Look::Later)
    }

    /// What a write would find.
    pub(super) fn look_out(&self, side: Side, now: Instant) -> Look {
        let (me, other) = self.ends(side);
        let reset = me.reset.is_some_and(|at| at <= now);
        if me.mute || me.told {
            return Look::Error(-libc::EPIPE);
        }
        if reset {
            return Look::Error(-libc::ECONNRESET);
        }
        if other.closed || other.told {
            return match self.manners {
                Manners::Unix => Look::Error(-libc::EPIPE),
                Manners::Tcp => Look::Bytes(self.capacity),
            };
        }
        match self.capacity.saturating_sub(other.pipe.bytes.len()) {
            0 => me.reset.map_or(Look::Nothing, Look::Later),
            room => Look::Bytes(room),
        }
    }

    /// Notes that an error was told (K3).
    pub(super) fn tell(&mut self, side: Side, error: i32) {
        if error == -libc::ECONNRESET {
            self.end(side).told = true;
        }
    }

    /// The bytes that have arrived, or will.
    pub(super) fn bytes(&self, side: Side) -> &VecDeque<u8> {
        &self.ends(side).0.pipe.bytes
    }

    /// Lets go of bytes that were read.
    pub(super) fn take(&mut self, side: Side, count: usize) {
        self.end(side).pipe.take(count);
    }

    /// Sends bytes, which arrive at `at` or behind what is under way.
    pub(super) fn send(&mut self, side: Side, bytes: impl Iterator<Item = u8>, at: Instant) {
        let other = self.end(side.other());
        if other.closed || other.told {
            // K4.
            self.end(side).reset.get_or_insert(at);
            return;
        }
        if other.deaf {
            return;
        }
        let before = other.pipe.bytes.len();
        other.pipe.bytes.extend(bytes);
        let count = other.pipe.bytes.len() - before;
        let at = other.pipe.in_order(at);
        other.pipe.arrivals.push_back((count, at));
    }

    pub(super) fn shut(&mut self, side: Side, how: Shutdown, at: Instant) {
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            self.end(side).deaf = true;
        }
        if matches!(how, Shutdown::Write | Shutdown::Both) && !self.end(side).mute {
            self.end(side).mute = true;
            let pipe = &mut self.end(side.other()).pipe;
            pipe.end = Some(pipe.in_order(at));
        }
    }

    /// One side goes (K4); whether the connection is nobody's any more.
    pub(super) fn close(&mut self, side: Side, parting: Parting, at: Instant) -> bool {
        let me = self.end(side);
        debug_assert!(!me.closed, "a descriptor is closed once");
        me.closed = true;
        if parting == Parting::Rude || !me.pipe.bytes.is_empty() {
            self.reset(side.other(), at);
        } else {
            self.shut(side, Shutdown::Write, at);
        }
        self.client.closed && self.server.closed
    }

    /// A side is to learn of a reset at `at`, behind what is under way.
    pub(super) fn reset(&mut self, side: Side, at: Instant) {
        let end = self.end(side);
        let at = end.pipe.in_order(at);
        end.reset.get_or_insert(at);
    }

    /// The connection breaks: `side` knows at once, the other learns of it at `at`.
    pub(super) fn break_down(&mut self, side: Side, now: Instant, at: Instant) {
        let end = self.end(side);
        (end.reset, end.told) = (Some(now), true);
        self.reset(side.other(), at);
    }
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (there, back) = (self.server.pipe.bytes.len(), self.client.pipe.bytes.len());
        write!(f, "{there} bytes unread at the server, {back} at the client")
    }
}
