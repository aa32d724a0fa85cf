//! Datagrams in memory.
//!
//! D1. A datagram arrives whole or not at all. Within a host they arrive in order, and a full mailbox
//!     makes the sender wait; over the internet they overtake each other and are lost.
//! D2. A mailbox that is connected takes datagrams of its peer only.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

use socket2::Domain;

use super::name::Name;
use super::network::{Outcome, Role, Socket, State, Style, Topic, Watch};
use crate::base::sim;
use crate::io::readiness::Direction;

struct Datagram {
    bytes: Vec<u8>,
    from: Name,
    at: Instant,
}

pub(super) struct Mailbox {
    pub(super) topic: Topic,
    /// In the order of their arrival.
    queue: VecDeque<Datagram>,
    /// The other of a pair: its descriptor and its number.
    partner: Option<(RawFd, u64)>,
}

impl Mailbox {
    pub(super) fn new(topic: Topic) -> Self {
        Self { topic, queue: VecDeque::new(), partner: None }
    }

    fn is_full(&self, capacity: usize) -> bool {
        self.queue.iter().map(|datagram| datagram.bytes.len()).sum::<usize>() >= capacity
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} datagrams", self.queue.len())
    }
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl State {
    fn mailbox(&mut self, fd: RawFd) -> io::Result<&mut Mailbox> {
        match &mut self.socket(fd)?.role {
            Role::Mailbox(mailbox) => Ok(mailbox),
            _ => Err(error(libc::EOPNOTSUPP)),
        }
    }

    /// Sets where the datagrams of a socket go, and gives it a name if it has none.
    pub(super) fn direct(&mut self, fd: RawFd, to: &Name) -> io::Result<()> {
        self.name(fd, to)?;
        if let Name::Unix(_) = to
            && self.find(Style::Datagrams, to).is_none()
        {
            return Err(error(libc::ECONNREFUSED));
        }
        self.socket(fd)?.peer = Some(to.clone());
        Ok(())
    }

    /// Gives an internet socket a name from which it reaches `to`.
    fn name(&mut self, fd: RawFd, to: &Name) -> io::Result<()> {
        if self.socket(fd)?.local.is_some() {
            return Ok(());
        }
        match to.reached_from() {
            Name::Unix(_) => Ok(()),
            port => self.bind(fd, port),
        }
    }

    pub(super) fn pair_mailboxes(&mut self, one: RawFd, other: RawFd) -> io::Result<()> {
        for (fd, partner) in [(one, other), (other, one)] {
            let number = self.socket(partner)?.number;
            self.mailbox(fd)?.partner = Some((partner, number));
        }
        Ok(())
    }

    /// Where a datagram goes; an error if the sender can know that there is nobody.
    fn destination(&mut self, fd: RawFd, to: Option<&Name>) -> io::Result<Option<RawFd>> {
        if let (None, Some((partner, number))) = (to, self.mailbox(fd)?.partner) {
            let there = self.sockets.get(&partner).is_some_and(|found| found.number == number);
            return if there { Ok(Some(partner)) } else { Err(error(libc::ECONNREFUSED)) };
        }
        let to = match (to, &self.socket(fd)?.peer) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) => name.clone(),
            (None, None) => return Err(error(libc::EDESTADDRREQ)),
        };
        self.name(fd, &to)?;
        match (self.find(Style::Datagrams, &to), &to) {
            (None, Name::Unix(_)) => Err(error(libc::ECONNREFUSED)),
            (found, _) => Ok(found),
        }
    }

    pub(super) fn send_datagram(
        &mut self,
        fd: RawFd,
        bytes: Vec<u8>,
        to: Option<&Name>,
        watch: Option<&Watch>,
    ) -> io::Result<Outcome> {
        let sent = Ok(Outcome::Done(bytes.len() as i32));
        let Some(there) = self.destination(fd, to)? else { return sent };
        let Socket { domain, ref local, .. } = *self.socket(fd)?;
        let from = local.clone().unwrap_or_else(|| Name::none(domain));
        let (local, reliable) = (self.socket(there)?.peer.clone(), domain == Domain::UNIX);
        let capacity = self.dice.buffer();
        let mailbox = self.mailbox(there)?;
        let (topic, full) = (mailbox.topic, mailbox.is_full(capacity));
        let paired = mailbox.partner.is_some();
        if full && reliable {
            return Ok(self.block(topic, None, watch));
        }
        // D2.
        let wanted = paired || local.is_none_or(|peer| peer == from);
        if full || !wanted || (!reliable && self.dice.loses()) {
            return sent;
        }
        let mut at = sim::now() + self.dice.delay();
        let mailbox = self.mailbox(there)?;
        if reliable {
            at = mailbox.queue.back().map_or(at, |last| at.max(last.at));
        }
        let place = mailbox.queue.partition_point(|other| other.at <= at);
        mailbox.queue.insert(place, Datagram { bytes, from, at });
        self.touch(topic);
        sent
    }

    /// The first datagram that has arrived, given to `take`, and removed unless it is to stay.
    pub(super) fn receive_datagram(
        &mut self,
        fd: RawFd,
        flags: i32,
        watch: Option<&Watch>,
        take: impl FnOnce(&[u8], &Name) -> usize,
    ) -> io::Result<Outcome> {
        let mailbox = self.mailbox(fd)?;
        let topic = mailbox.topic;
        match mailbox.queue.front() {
            Some(first) if first.at <= sim::now() => {
                let count = take(&first.bytes, &first.from);
                if flags & libc::MSG_PEEK == 0 {
                    mailbox.queue.pop_front();
                    self.touch(topic);
                }
                Ok(Outcome::Done(count as i32))
            }
            first => {
                let until = first.map(|first| first.at);
                Ok(self.block(topic, until, watch))
            }
        }
    }

    pub(super) fn poll_mailbox(
        &mut self,
        fd: RawFd,
        direction: Direction,
        watch: Option<&Watch>,
    ) -> io::Result<Outcome> {
        let topic = self.mailbox(fd)?.topic;
        if direction == Direction::Read {
            let until = self.mailbox(fd)?.queue.front().map(|first| first.at);
            return Ok(match until {
                Some(at) if at <= sim::now() => Outcome::Done(1),
                until => self.block(topic, until, watch),
            });
        }
        // Without a peer there is nobody to wait for.
        let there = self.destination(fd, None).ok().flatten();
        let Some(there) = there else { return Ok(Outcome::Done(1)) };
        let (capacity, reliable) = (self.dice.buffer(), self.socket(fd)?.domain == Domain::UNIX);
        let mailbox = self.mailbox(there)?;
        let (topic, full) = (mailbox.topic, mailbox.is_full(capacity));
        Ok(if full && reliable { self.block(topic, None, watch) } else { Outcome::Done(1) })
    }
}
