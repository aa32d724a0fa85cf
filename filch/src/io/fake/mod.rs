//! The driver of a simulation: operations whose course a seed decides, on a network in memory.
//!
//! ```text
//!            late                   late
//!   start ──────────▶ attempted ──────────▶ told
//!                      ▲    │ would block
//!                      └────┘ until the network rings, or the time has come
//! ```
//!
//! X1. An operation has its effect once, at a time of its own after its start, and is told at another
//!     after that. What can go between on a machine goes between here: another's effect, a cancel,
//!     the drop of its future.
//! X2. What has had its effect is told with its result, cancelled or not (O3 of `slots`). A cancel that
//!     comes before ends it with ECANCELED, or with the bytes that a send of all has moved. So does a
//!     hiccup, though nobody has asked for it (O5 of `slots`), or with EINTR.
//! X3. What is due at the same time is told in any order; completions of one stream stay in order.
//! X4. All that happens follows from the seed: times are the simulation's, dice are the network's.
//!
//! Sockets are simulated; files are not: their operations end with EOPNOTSUPP.
//!
//! Not here: when it is visited (`driver`), what an operation means (`calls`).

mod calls;
mod connection;
mod datagrams;
mod name;
mod network;
mod script;

use std::os::fd::RawFd;
use std::sync::{Arc, Weak};
use std::time::Instant;

pub(crate) use self::network::Network;
use self::network::{Outcome, Watch};
pub use self::script::IoScript;
use super::buffers::Pool;
use super::driver::Driver;
use super::readiness::Direction;
use super::request::{First, Request};
use super::slots::{CANCELED, Completion, Key, MORE};
use crate::base::sim;

/// `IORING_CQE_F_BUFFER`, and where the number of the buffer begins.
const BUFFER: u32 = 1 << 0;
const BUFFER_SHIFT: u32 = 16;

/// The notice that a send without a copy has let go of its bytes (`IORING_CQE_F_NOTIF`).
const NOTICE: Completion = Completion { result: 0, flags: 1 << 3 };

/// The network of the simulation that the calling thread takes part in.
pub(crate) fn here() -> Option<Arc<Network>> {
    sim::annex().and_then(|annex| annex.downcast().ok())
}

/// Makes a call that does not block on the simulation's network; `None` outside of a simulation.
///
/// # Safety
/// R1 of `request` holds during the call.
#[inline]
pub(super) unsafe fn call(request: &Request) -> Option<i32> {
    if !sim::is_on() {
        return None;
    }
    // SAFETY: by the caller's promise.
    here().map(|network| unsafe { network.call(request) })
}

/// The descriptor is about to be closed.
pub(super) fn close(fd: RawFd) {
    if let Some(network) = here() {
        network.close(fd);
    }
}

/// Operations of one driver in flight.
pub(super) struct Fake {
    network: Arc<Network>,
    bell: Weak<Driver>,
    flights: Vec<Flight>,
    buffers: Option<Buffers>,
}

/// The buffers of streams, and the kernel's place among them.
struct Buffers {
    pool: Arc<Pool>,
    head: u16,
}

struct Flight {
    key: Key,
    /// What is left to do.
    request: Request,
    watch: Watch,
    /// Bytes that a send of all has moved so far.
    moved: u32,
    stage: Stage,
    /// When a cancel takes effect.
    cancel: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// To be attempted then, or when the network rings.
    Waits(Option<Instant>),
    /// It has had its effect (X1).
    Done(Completion, Instant),
    /// It has been told its result, and lets go of its bytes then (O7 of `slots`).
    LetsGo(Instant),
}

fn what(request: &Request) -> &'static str {
    match request {
        Request::Recv { .. } | Request::RecvMsg { .. } => "a read",
        Request::RecvMany { .. } => "a receive",
        Request::Send { .. } | Request::SendUncopied { .. } | Request::SendMsg { .. } => "a write",
        Request::AcceptMany { .. } => "an accept",
        Request::Connect { .. } => "a connect",
        Request::Poll { .. } => "a wait for readiness",
        _ => "an operation",
    }
}

impl Fake {
    pub(super) fn open(bell: Weak<Driver>) -> std::io::Result<Self> {
        let text = "a simulated runtime drives I/O inside of its simulation only";
        let network = here().ok_or_else(|| std::io::Error::other(text))?;
        Ok(Self { network, bell, flights: Vec::new(), buffers: None })
    }

    /// Takes a request, whose pointers are valid until it is told (O1 of `slots`).
    pub(super) fn start(&mut self, request: &Request, key: Key) {
        let mut state = self.network.lock();
        let wait = state.dice.delay();
        let (operation, at) = (state.number(), sim::now().checked_add(wait));
        drop(state);
        let watch = Watch { bell: self.bell.clone(), operation, what: what(request) };
        let stage = Stage::Waits(at);
        self.flights.push(Flight { key, request: *request, watch, moved: 0, stage, cancel: None });
    }

    /// The buffers that chunks are received into.
    pub(super) fn pool(&mut self) -> &Arc<Pool> {
        let make = || Buffers { pool: Pool::unregistered(), head: 0 };
        &self.buffers.get_or_insert_with(make).pool
    }

    /// Has an operation end soon, unless it ends before (X2).
    pub(super) fn cancel(&mut self, key: Key) {
        let at = sim::now() + self.network.lock().dice.delay();
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.key == key) {
            flight.cancel.get_or_insert(at);
        }
    }

    /// Attempts what is due, and tells up to `budget` of what is over (X3); returns how many.
    pub(super) fn reap(&mut self, budget: usize, mut told: impl FnMut(Key, Completion)) -> usize {
        let now = sim::now();
        for flight in &mut self.flights {
            flight.advance(&self.network, self.buffers.as_mut(), now);
        }
        let mut count = 0;
        while count < budget {
            let due = |flight: &Flight| matches!(flight.stage, Stage::Done(_, at) if at <= now);
            let ready: Vec<usize> =
                (0..self.flights.len()).filter(|&place| due(&self.flights[place])).collect();
            if ready.is_empty() {
                break;
            }
            let mut state = self.network.lock();
            let place = ready[state.dice.below(ready.len())];
            let next = now + state.dice.delay();
            drop(state);
            let Flight { key, stage: Stage::Done(completion, _), .. } = self.flights[place] else {
                unreachable!("it is due")
            };
            if completion.has_more() {
                self.flights[place].goes_on(next);
            } else {
                self.flights.swap_remove(place);
            }
            count += 1;
            told(key, completion);
        }
        count
    }

    /// When there is something to do, unless the network rings before; `None` if never.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = |flight: &Flight| match flight.stage {
            Stage::Waits(at) => at.into_iter().chain(flight.cancel).min(),
            Stage::Done(_, at) | Stage::LetsGo(at) => Some(at),
        };
        self.flights.iter().filter_map(due).min()
    }

    /// Ends all operations at once; returns how many there were.
    pub(super) fn drain(&mut self, mut told: impl FnMut(Key, Completion)) -> usize {
        let flights = std::mem::take(&mut self.flights);
        let count = flights.len();
        for mut flight in flights {
            if let Stage::Done(completion, at) = flight.stage {
                told(flight.key, completion);
                if !completion.has_more() {
                    continue;
                }
                flight.goes_on(at);
            }
            let lets_go = matches!(flight.stage, Stage::LetsGo(_));
            let last = if lets_go { NOTICE } else { flight.cancelled(&self.network) };
            told(flight.key, last);
        }
        count
    }
}

impl Flight {
    fn cancelled(&mut self, network: &Network) -> Completion {
        network.lock().forget(self.watch.operation);
        let result = if self.moved > 0 { self.moved as i32 } else { CANCELED };
        Completion { result, flags: 0 }
    }

    /// How it ends without its effect, if the dice say so (X2). A send without a copy may get a notice of
    /// that too.
    fn interrupted(&mut self, network: &Network) -> Option<Completion> {
        let mut state = network.lock();
        // Not each time, whatever the script: an operation that never begins is told so in the end.
        if !(state.dice.hiccups() && state.dice.below(2) == 0) {
            return None;
        }
        let (signal, noticed) = (state.dice.below(2) == 0, state.dice.below(2) == 0);
        drop(state);
        let Completion { result, .. } = self.cancelled(network);
        let uncopied = matches!(self.request, Request::SendUncopied { .. });
        Some(Completion {
            result: if signal && result < 0 { -libc::EINTR } else { result },
            flags: if uncopied && noticed { MORE } else { 0 },
        })
    }

    /// What comes after a completion that was not the last.
    fn goes_on(&mut self, at: Instant) {
        self.stage = match self.request {
            Request::SendUncopied { .. } => Stage::LetsGo(at),
            _ => Stage::Waits(Some(at)),
        };
    }

    /// Goes on as far as the time allows.
    fn advance(&mut self, network: &Network, buffers: Option<&mut Buffers>, now: Instant) {
        let at = match self.stage {
            Stage::Waits(at) => at,
            Stage::LetsGo(at) if at <= now => {
                self.stage = Stage::Done(NOTICE, now);
                return;
            }
            Stage::LetsGo(_) | Stage::Done(..) => return,
        };
        let due = at.is_none_or(|at| at <= now);
        if self.cancel.is_some_and(|at| at <= now) && !(due && network.lock().dice.below(2) == 0) {
            self.stage = Stage::Done(self.cancelled(network), now);
            return;
        }
        if due && let Some(hiccup) = self.interrupted(network) {
            self.stage = Stage::Done(hiccup, now);
        } else if due {
            match self.attempt(network, buffers) {
                Ok(completion) => {
                    let mut state = network.lock();
                    state.forget(self.watch.operation);
                    self.stage = Stage::Done(completion, now + state.dice.delay());
                }
                Err(until) => self.stage = Stage::Waits(until),
            }
        }
    }

    /// The operation's effect, or when to try again.
    fn attempt(
        &mut self,
        network: &Network,
        buffers: Option<&mut Buffers>,
    ) -> Result<Completion, Option<Instant>> {
        match self.request {
            Request::AcceptMany { fd } => self.accept(network, fd),
            Request::RecvMany { fd } => {
                let buffers = buffers.expect("made before a stream is started");
                self.receive(network, buffers, fd)
            }
            // SAFETY: O1 of `slots`, what the request points to is kept until it is told.
            _ => match unsafe { network.attempt(&self.request, Some(&self.watch)) } {
                Outcome::Blocked(until) => Err(until),
                Outcome::Done(result) => match self.moves(result) {
                    None => Err(Some(sim::now())),
                    Some(result) => Ok(self.sent(result)),
                },
            },
        }
    }

    /// The first completion of an operation: a send without a copy that has sent something has two.
    fn sent(&self, result: i32) -> Completion {
        let uncopied = matches!(self.request, Request::SendUncopied { .. });
        Completion { result, flags: if uncopied && result >= 0 { MORE } else { 0 } }
    }

    /// What an operation is told, if it is over: a send of all goes on (X2).
    fn moves(&mut self, result: i32) -> Option<i32> {
        let (Request::Send { buf, len, flags, .. } | Request::SendUncopied { buf, len, flags, .. }) =
            &mut self.request
        else {
            return Some(result);
        };
        let Ok(count) = u32::try_from(result) else {
            return Some(if self.moved > 0 { self.moved as i32 } else { result });
        };
        self.moved += count;
        if *flags & libc::MSG_WAITALL == 0 || count == *len {
            return Some(self.moved as i32);
        }
        // SAFETY: R1 of `request`, within the bytes.
        *buf = unsafe { buf.add(count as usize) };
        *len -= count;
        None
    }

    /// The next of a stream; it may have to be started again.
    fn one_more(&self, network: &Network, request: &Request) -> Result<i32, Option<Instant>> {
        // SAFETY: O1 of `slots`, what the request points to is kept until it is told.
        match unsafe { network.attempt(request, Some(&self.watch)) } {
            Outcome::Blocked(until) => Err(until),
            Outcome::Done(result) => Ok(result),
        }
    }

    /// Whether there is anything to read.
    fn readable(&self, network: &Network, fd: RawFd) -> Result<(), Option<Instant>> {
        let ready = Request::Poll { fd, direction: Direction::Read };
        self.one_more(network, &ready).map(drop)
    }

    /// A connection of a stream.
    fn accept(&self, network: &Network, fd: RawFd) -> Result<Completion, Option<Instant>> {
        self.readable(network, fd)?;
        if network.lock().dice.hiccups() {
            return Ok(Completion { result: -libc::ECONNABORTED, flags: 0 });
        }
        Ok(match self.one_more(network, &self.request)? {
            accepted if accepted >= 0 => Completion { result: accepted, flags: MORE },
            error => Completion { result: error, flags: 0 },
        })
    }

    /// A chunk of a stream.
    fn receive(
        &self,
        network: &Network,
        buffers: &mut Buffers,
        fd: RawFd,
    ) -> Result<Completion, Option<Instant>> {
        self.readable(network, fd)?;
        let lacks = network.lock().dice.hiccups();
        let Some((number, buf, len)) = buffers.pool.next(buffers.head).filter(|_| !lacks) else {
            return Ok(Completion { result: -libc::ENOBUFS, flags: 0 });
        };
        let receive = Request::Recv { fd, buf, len, flags: 0, first: First::Try };
        let result = self.one_more(network, &receive)?;
        if result <= 0 {
            return Ok(Completion { result, flags: 0 });
        }
        buffers.head = buffers.head.wrapping_add(1);
        let flags = MORE | BUFFER | u32::from(number) << BUFFER_SHIFT;
        Ok(Completion { result, flags })
    }
}
