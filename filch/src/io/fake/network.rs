//! The network of a simulation: its sockets, their names, and who waits for what.
//!
//! N1. A socket is known by its descriptor, which is a real one that is never bound or connected: it is a
//!     number that nobody else uses, and keeps the socket's options. Nothing reaches the system's network.
//! N2. Who is told that it would block is woken when that may have changed (`Watch`), or has been told
//!     when to look again.
//! N3. One lock, under which nothing switches: a bell is rung without a switch (`Driver::ring`).
//! N4. Nothing depends on the numbers of descriptors: they differ from run to run.
//!
//! Not here: operations in flight (`super`), bytes of a connection (`connection`), datagrams
//! (`datagrams`).

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::sync::{PoisonError, Weak};
use std::time::Instant;

use socket2::{Domain, SockAddr, SockRef, Type};

use super::connection::{Connection, Look, Manners, Parting, Side};
use super::datagrams::Mailbox;
use super::name::Name;
use super::script::{Dice, IoScript};
use crate::base::shim::{Mutex, MutexGuard};
use crate::base::sim;
use crate::io::driver::Driver;
use crate::io::readiness::Direction;

/// The first port that is given to who asks for none in particular, as on Linux.
const FIRST_PORT: u16 = 32768;

/// What comes of an attempt.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A count, a descriptor, or a negated error number.
    Done(i32),
    /// It would block, until then at least.
    Blocked(Option<Instant>),
}

/// Who wants to know of a change (N2).
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) bell: Weak<Driver>,
    /// The operation, as the network numbers them.
    pub(super) operation: u64,
    /// What it does, for reports.
    pub(super) what: &'static str,
}

/// Something that changes, and that is waited for: a connection, a listener, a mailbox.
pub(super) type Topic = u64;

/// A connection that nobody has accepted.
pub(super) struct Knock {
    connection: Topic,
    at: Instant,
    local: Name,
    peer: Name,
}

pub(super) enum Role {
    /// Neither connected nor listening.
    Fresh,
    Listener {
        topic: Topic,
        backlog: usize,
        knocks: VecDeque<Knock>,
    },
    Connected {
        connection: Topic,
        side: Side,
    },
    Mailbox(Mailbox),
}

pub(super) struct Socket {
    pub(super) number: u64,
    pub(super) domain: Domain,
    pub(super) kind: Type,
    pub(super) local: Option<Name>,
    pub(super) peer: Option<Name>,
    pub(super) role: Role,
}

pub(super) struct State {
    pub(super) dice: Dice,
    pub(super) sockets: BTreeMap<RawFd, Socket>,
    connections: BTreeMap<Topic, Connection>,
    /// Who is bound where: streams and datagrams apart.
    pub(super) bound: BTreeMap<(Style, Name), RawFd>,
    watches: BTreeMap<Topic, Vec<Watch>>,
    /// The next number of a socket, an operation or a topic.
    next: u64,
    next_port: u16,
}

/// What shares a space of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Style {
    Streams,
    Datagrams,
}

impl Style {
    fn of(kind: Type) -> Self {
        if kind == Type::DGRAM { Self::Datagrams } else { Self::Streams }
    }
}

/// See the file header.
pub(crate) struct Network(Mutex<State>);

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// A new descriptor to know a socket by (N1).
fn token(domain: Domain, kind: Type) -> io::Result<RawFd> {
    socket2::Socket::new(domain, kind, None).map(IntoRawFd::into_raw_fd)
}

impl Network {
    pub(crate) fn new(script: IoScript, seed: u64) -> Self {
        Self(Mutex::new(State {
            dice: Dice::new(script, seed),
            sockets: BTreeMap::new(),
            connections: BTreeMap::new(),
            bound: BTreeMap::new(),
            watches: BTreeMap::new(),
            next: 0,
            next_port: FIRST_PORT,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every socket and who waits at it, for reports.
    pub(crate) fn describe(&self) -> String {
        let state = self.lock();
        let mut sockets: Vec<&Socket> = state.sockets.values().collect();
        sockets.sort_by_key(|socket| socket.number);
        let mut text = String::new();
        for socket in sockets {
            let _ = writeln!(text, "  {}", state.describe(socket));
        }
        if text.is_empty() { text } else { format!("sockets:\n{text}") }
    }
}

/// Sockets and names.
impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The socket of a descriptor, which is fresh if nothing has happened to it.
    pub(super) fn socket(&mut self, fd: RawFd) -> io::Result<&mut Socket> {
        if !self.sockets.contains_key(&fd) {
            // SAFETY: the descriptor is open: whoever names it holds it.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            let system = SockRef::from(&borrowed);
            let (domain, kind) = (system.domain()?, system.r#type()?);
            let role = match Style::of(kind) {
                Style::Datagrams => Role::Mailbox(Mailbox::new(self.number())),
                Style::Streams => Role::Fresh,
            };
            let number = self.number();
            let fresh = Socket { number, domain, kind, local: None, peer: None, role };
            self.sockets.insert(fd, fresh);
        }
        Ok(self.sockets.get_mut(&fd).expect("just made, if it was not there"))
    }

    /// A name of the kind that `wish` is, with a number that is free.
    fn complete(&mut self, style: Style, wish: &Name) -> Name {
        loop {
            let name = wish.clone().completed(self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.bound.contains_key(&(style, name.clone())) {
                return name;
            }
        }
    }

    pub(super) fn bind(&mut self, fd: RawFd, wish: Name) -> io::Result<()> {
        let socket = self.socket(fd)?;
        if socket.local.is_some() {
            return Err(error(libc::EINVAL));
        }
        let style = Style::of(socket.kind);
        let name = if wish.is_open() { self.complete(style, &wish) } else { wish };
        if self.bound.contains_key(&(style, name.clone())) {
            return Err(error(libc::EADDRINUSE));
        }
        self.bound.insert((style, name.clone()), fd);
        self.socket(fd)?.local = Some(name);
        Ok(())
    }

    /// Who is bound where a name leads to.
    pub(super) fn find(&self, style: Style, name: &Name) -> Option<RawFd> {
        name.bound_as().find_map(|name| self.bound.get(&(style, name)).copied())
    }

    fn listen(&mut self, fd: RawFd, backlog: i32) -> io::Result<()> {
        let socket = self.socket(fd)?;
        if let Role::Listener { .. } = socket.role {
            return Ok(());
        }
        if !matches!(socket.role, Role::Fresh) {
            return Err(error(libc::EINVAL));
        }
        if socket.local.is_none() {
            let any = Name::none(socket.domain);
            self.bind(fd, any)?;
        }
        let topic = self.number();
        let backlog = usize::try_from(backlog).unwrap_or(0).max(1);
        self.socket(fd)?.role = Role::Listener { topic, backlog, knocks: VecDeque::new() };
        Ok(())
    }
}

/// Who waits.
impl State {
    /// Something has changed: whoever waits for it looks again (N2).
    pub(super) fn touch(&mut self, topic: Topic) {
        for watch in self.watches.remove(&topic).into_iter().flatten() {
            if let Some(driver) = watch.bell.upgrade() {
                driver.ring();
            }
        }
    }

    pub(super) fn block(
        &mut self,
        topic: Topic,
        until: Option<Instant>,
        watch: Option<&Watch>,
    ) -> Outcome {
        if let Some(watch) = watch {
            let watches = self.watches.entry(topic).or_default();
            if !watches.iter().any(|old| old.operation == watch.operation) {
                watches.push(watch.clone());
            }
        }
        Outcome::Blocked(until)
    }

    /// Forgets what an operation that has ended waited for.
    pub(super) fn forget(&mut self, operation: u64) {
        self.watches.retain(|_, watches| {
            watches.retain(|watch| watch.operation != operation);
            !watches.is_empty()
        });
    }
}

/// Connections.
impl State {
    pub(super) fn connect(
        &mut self,
        fd: RawFd,
        to: &Name,
        watch: Option<&Watch>,
    ) -> io::Result<Outcome> {
        let now = sim::now();
        let socket = self.socket(fd)?;
        match socket.role {
            Role::Fresh => {}
            Role::Mailbox(_) => return self.direct(fd, to).map(|()| Outcome::Done(0)),
            Role::Listener { .. } => return Err(error(libc::EINVAL)),
            Role::Connected { .. } => return Err(error(libc::EISCONN)),
        }
        let (domain, named) = (socket.domain, socket.local.clone());
        let listener = self.find(Style::Streams, to);
        let listener = listener.and_then(|fd| self.sockets.get(&fd));
        let Some(&Socket { role: Role::Listener { topic, backlog, ref knocks }, .. }) = listener
        else {
            return Err(error(libc::ECONNREFUSED));
        };
        if knocks.len() >= backlog {
            return Ok(self.block(topic, None, watch));
        }
        if self.dice.refuses() {
            return Err(error(libc::ECONNREFUSED));
        }
        let at = now + self.dice.delay();
        let local = named.unwrap_or_else(|| match to.reached_from() {
            Name::Unix(path) => Name::Unix(path),
            port => self.complete(Style::Streams, &port),
        });
        let connection = self.join(domain);
        let socket = self.socket(fd)?;
        socket.role = Role::Connected { connection, side: Side::Client };
        (socket.local, socket.peer) = (Some(local.clone()), Some(to.clone()));
        let knock = Knock { connection, at, local: to.clone(), peer: local };
        self.knock(to, knock);
        self.touch(topic);
        Ok(Outcome::Done(0))
    }

    fn knock(&mut self, at: &Name, knock: Knock) {
        let listener = self.find(Style::Streams, at).and_then(|fd| self.sockets.get_mut(&fd));
        if let Some(Socket { role: Role::Listener { knocks, .. }, .. }) = listener {
            // Whoever knocks may be let in before those who came first: their ways differ.
            let place = knocks.partition_point(|other| other.at <= knock.at);
            knocks.insert(place, knock);
        }
    }

    fn join(&mut self, domain: Domain) -> Topic {
        let manners = if domain == Domain::UNIX { Manners::Unix } else { Manners::Tcp };
        let connection = self.number();
        self.connections.insert(connection, Connection::new(self.dice.buffer(), manners));
        connection
    }

    pub(super) fn accept(&mut self, fd: RawFd, watch: Option<&Watch>) -> io::Result<Outcome> {
        let now = sim::now();
        let Socket { domain, kind, ref mut role, .. } = *self.socket(fd)?;
        let Role::Listener { topic, knocks, .. } = role else { return Err(error(libc::EINVAL)) };
        let topic = *topic;
        match knocks.front().map(|knock| knock.at) {
            Some(at) if at <= now => {}
            until => return Ok(self.block(topic, until, watch)),
        }
        let accepted = token(domain, kind)?;
        let Role::Listener { knocks, .. } = &mut self.socket(fd)?.role else {
            unreachable!("matched above")
        };
        let Knock { connection, local, peer, .. } = knocks.pop_front().expect("matched above");
        let number = self.number();
        let role = Role::Connected { connection, side: Side::Server };
        let (local, peer) = (Some(local), Some(peer));
        self.sockets.insert(accepted, Socket { number, domain, kind, local, peer, role });
        // There is room for another who wants to connect.
        self.touch(topic);
        Ok(Outcome::Done(accepted))
    }

    /// The connection of a socket, and which end of it that is.
    pub(super) fn connected(
        &mut self,
        fd: RawFd,
    ) -> io::Result<(&mut Dice, &mut Connection, Topic, Side)> {
        let Role::Connected { connection, side } = self.socket(fd)?.role else {
            return Err(error(libc::ENOTCONN));
        };
        let found = self.connections.get_mut(&connection).expect("there while an end is open");
        Ok((&mut self.dice, found, connection, side))
    }

    /// Whether a socket is ready.
    pub(super) fn poll(
        &mut self,
        fd: RawFd,
        direction: Direction,
        watch: Option<&Watch>,
    ) -> io::Result<Outcome> {
        let now = sim::now();
        let (topic, look) = match &self.socket(fd)?.role {
            Role::Fresh => return Ok(Outcome::Done(1)),
            Role::Listener { topic, knocks, .. } => {
                let next = knocks.front().map(|knock| knock.at);
                (*topic, next.map_or(Look::Nothing, Look::Later))
            }
            Role::Mailbox(_) => return self.poll_mailbox(fd, direction, watch),
            Role::Connected { .. } => {
                let (_, connection, topic, side) = self.connected(fd)?;
                let look = match direction {
                    Direction::Read => connection.look_in(side, now),
                    Direction::Write => connection.look_out(side, now),
                };
                (topic, look)
            }
        };
        Ok(match look {
            Look::Later(at) if at > now => self.block(topic, Some(at), watch),
            Look::Nothing => self.block(topic, None, watch),
            _ => Outcome::Done(1),
        })
    }

    fn close(&mut self, fd: RawFd) {
        let Some(socket) = self.sockets.remove(&fd) else { return };
        if let Some(name) = socket.local {
            let bound = (Style::of(socket.kind), name);
            if self.bound.get(&bound) == Some(&fd) {
                self.bound.remove(&bound);
            }
        }
        match socket.role {
            Role::Fresh => {}
            Role::Mailbox(mailbox) => self.touch(mailbox.topic),
            Role::Listener { topic, knocks, .. } => {
                for knock in knocks {
                    self.part(knock.connection, Side::Server, Parting::Rude);
                }
                self.touch(topic);
            }
            Role::Connected { connection, side } => {
                // SAFETY: it is closed after this.
                let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
                let lingers = SockRef::from(&borrowed).linger();
                let rude = lingers.is_ok_and(|time| time.is_some_and(|time| time.is_zero()));
                let parting = if rude { Parting::Rude } else { Parting::Polite };
                self.part(connection, side, parting);
            }
        }
    }

    fn part(&mut self, topic: Topic, side: Side, parting: Parting) {
        let at = sim::now() + self.dice.delay();
        let connection = self.connections.get_mut(&topic).expect("there while an end is open");
        if connection.close(side, parting, at) {
            self.connections.remove(&topic);
        }
        self.touch(topic);
    }

    fn describe(&self, socket: &Socket) -> String {
        let mut text = format!("{}: ", socket.number);
        let name = |name: &Option<Name>| name.as_ref().map_or("?".to_owned(), Name::to_string);
        let topic = match &socket.role {
            Role::Fresh => None,
            Role::Listener { topic, knocks, .. } => {
                let (at, waiting) = (name(&socket.local), knocks.len());
                let _ = write!(text, "listens at {at}, {waiting} to accept");
                Some(*topic)
            }
            Role::Mailbox(mailbox) => {
                let _ = write!(text, "{} {mailbox}", name(&socket.local));
                Some(mailbox.topic)
            }
            Role::Connected { connection, side } => {
                let (local, peer) = (name(&socket.local), name(&socket.peer));
                let _ = write!(text, "{side:?} {local} to {peer}");
                if let Some(found) = self.connections.get(connection) {
                    let _ = write!(text, ", {found}");
                }
                Some(*connection)
            }
        };
        let watches = topic.and_then(|topic| self.watches.get(&topic));
        for watch in watches.into_iter().flatten() {
            let _ = write!(text, "; awaited by {}", watch.what);
        }
        text
    }
}

/// What sockets are asked directly.
impl Network {
    pub(crate) fn bind(&self, fd: RawFd, to: &SockAddr) -> io::Result<()> {
        self.lock().bind(fd, Name::of(to)?)
    }

    pub(crate) fn listen(&self, fd: RawFd, backlog: i32) -> io::Result<()> {
        self.lock().listen(fd, backlog)
    }

    pub(crate) fn connect(&self, fd: RawFd, to: &SockAddr) -> io::Result<()> {
        match self.lock().connect(fd, &Name::of(to)?, None)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Blocked(_) => Err(error(libc::EAGAIN)),
        }
    }

    pub(crate) fn local_addr(&self, fd: RawFd) -> io::Result<SockAddr> {
        let mut state = self.lock();
        let socket = state.socket(fd)?;
        socket.local.clone().unwrap_or_else(|| Name::none(socket.domain)).to_system()
    }

    pub(crate) fn peer_addr(&self, fd: RawFd) -> io::Result<SockAddr> {
        let mut state = self.lock();
        let socket = state.socket(fd)?;
        socket.peer.as_ref().ok_or_else(|| error(libc::ENOTCONN))?.to_system()
    }

    pub(crate) fn shutdown(&self, fd: RawFd, how: Shutdown) -> io::Result<()> {
        let mut state = self.lock();
        if let Role::Mailbox(_) = state.socket(fd)?.role {
            return Err(error(libc::EOPNOTSUPP));
        }
        let (dice, connection, topic, side) = state.connected(fd)?;
        connection.shut(side, how, sim::now() + dice.delay());
        state.touch(topic);
        Ok(())
    }

    /// Two sockets that are connected to each other, within the host.
    pub(crate) fn pair(&self, one: RawFd, other: RawFd) -> io::Result<()> {
        let mut state = self.lock();
        let nameless = Some(Name::Unix(Vec::new()));
        if let Role::Mailbox(_) = state.socket(one)?.role {
            state.pair_mailboxes(one, other)?;
        } else {
            let connection = state.join(Domain::UNIX);
            for (fd, side) in [(one, Side::Client), (other, Side::Server)] {
                state.socket(fd)?.role = Role::Connected { connection, side };
            }
        }
        for fd in [one, other] {
            state.socket(fd)?.peer = nameless.clone();
        }
        Ok(())
    }

    /// The descriptor is about to be closed.
    pub(crate) fn close(&self, fd: RawFd) {
        self.lock().close(fd);
    }
}
