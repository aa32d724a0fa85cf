//! The engine of a runtime: its drivers, what they are made of, and which of them takes an operation.
//!
//! G1. All drivers of a runtime are of one kind, the first of the chain that the kernel grants. It is
//!     found when it is first needed, or at the start if the program forces it.
//! G2. An operation goes to the driver of the thread it is started on. Started on any other thread,
//!     or if that driver cannot be opened, it goes to that of a regular worker that is there, in turn.
//!     One exception keeps together what few threads can serve: where another regular driver has more
//!     in flight, and its owner is about to visit it and not overloaded, the operation goes there. So a
//!     worker that had to help leaves nothing behind for which it would be woken from then on.
//! G3. Spares take what is started on their own thread only: they end when they are not needed.
//! G4. The engine outlives the runtime as long as a descriptor refers to it; its drivers are closed
//!     then, and everything is refused.
//!
//! G5. A worker that leaves shuts its driver first, so nothing is started there any more; then what is
//!     registered moves to another driver, under the lock of moves; then the driver is ended, which moves
//!     what is in flight. Who forgets a descriptor meanwhile waits, and finds where it is.
//!
//! G6. A driver whose ring is denied after it was opened goes on by itself (V8 of `driver`): its kind here stays, so
//!     sockets and files go on as they began.
//!
//! Not here: threads. What runs where is known by `sched`, which lends two functions (`Hooks`).

use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Waker;

use super::batch::Batch;
use super::buffers::Pool;
use super::cause::Cause;
use super::driver::{Caller, Cancel, Driver, Home, Kind, Performer, Refused};
use super::epoll::SourceKey;
use super::files::Abilities;
use super::plain::Drivers;
use super::readiness::{News, Readiness};
use super::request::Request;
use super::slots::{CANCELED, Completion, Dispose, Key, Late, Next, Polled};
use super::uring::{Mode, Uring};
use super::waiters::{WaitId, Waiter};
use crate::base::process::{FORKED, Process};
use crate::base::shim::{AtomicBool, AtomicU32, AtomicUsize, OnceLock, Ordering};
use crate::base::sim;

/// A closure that may block.
pub(crate) type Closure = Box<dyn FnOnce() + Send>;

/// What `sched` lends.
pub(crate) struct Hooks {
    /// The number of the driver whose owner the calling thread is, if it is one of this engine.
    pub(crate) here: fn(&Engine) -> Option<usize>,
    /// Runs a closure on a thread for what blocks. It is dropped instead if the runtime ends, or if no thread can be
    /// started: then the system's error number is returned.
    pub(crate) offload: Box<dyn Fn(Closure) -> Result<(), i32> + Send + Sync>,
}

/// The scheduler's closures run no code of users, so no panic leaves them half done. Sockets and files
/// have an engine, and are unwind safe with it.
impl UnwindSafe for Hooks {}
impl RefUnwindSafe for Hooks {}

pub(crate) struct Engine {
    drivers: Box<[Arc<Driver>]>,
    /// Drivers of regular workers come first.
    regular: usize,
    /// Which of those have a worker that looks after them. A guess: a driver that is shut refuses (G5).
    manned: Box<[AtomicBool]>,
    /// G5: written to by who moves descriptors.
    moves: RwLock<()>,
    /// What to try, best first; empty if there is nothing to drive (an event core of the user's).
    chain: Vec<Kind>,
    found: OnceLock<Found>,
    /// Some driver was opened.
    opened: AtomicBool,
    /// Whose turn it is (G2).
    turn: AtomicUsize,
    hooks: Hooks,
    /// The one whose threads drive it. A forked child shares the descriptors of its parent's drivers and not the
    /// memory of the rings, so it touches neither.
    process: Process,
}

/// What the drivers are made of, and what was refused before.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) kind: Kind,
    /// Of rings.
    abilities: Abilities,
    pub(crate) refusals: Vec<Refusal>,
}

impl Found {
    /// Who performs a request that waits for no readiness.
    fn performer(&self, request: &Request) -> Performer {
        match (self.kind, request) {
            (Kind::Epoll, _) => Performer::Call,
            (Kind::Uring(_), Request::File(request)) if !self.abilities.include(request) => {
                Performer::Call
            }
            (Kind::Uring(_) | Kind::Fake, _) => Performer::Ring,
        }
    }
}

/// The kernel's no to one kind of driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) errno: i32,
}

/// An operation in flight: which driver, which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    driver: u32,
    key: Key,
}

impl Ticket {
    /// Its driver.
    pub(crate) fn driver(self) -> Drivers {
        Drivers::with(self.driver as usize)
    }
}

/// A descriptor that is registered with an epoll descriptor (E1 of `epoll`).
pub(crate) struct Source {
    /// It knows the place (G5).
    pub(crate) readiness: Arc<Readiness>,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Closed => Cause::Ended.into(),
            Refused::Failed(error) => error,
        }
    }
}

/// Whether the kernel says no to a kind of driver as such, and not to this one for lack of something.
fn is_refusal(error: &io::Error) -> Option<i32> {
    let errno = error.raw_os_error()?;
    [libc::ENOSYS, libc::EPERM, libc::EINVAL, libc::ENOMEM, libc::EACCES]
        .contains(&errno)
        .then_some(errno)
}

impl Engine {
    pub(crate) fn new(drivers: usize, regular: usize, chain: Vec<Kind>, hooks: Hooks) -> Arc<Self> {
        debug_assert!(regular <= drivers);
        let epoch = sim::now();
        let (found, opened, turn) = (OnceLock::new(), AtomicBool::new(false), AtomicUsize::new(0));
        let manned = (0..regular).map(|_| AtomicBool::new(false)).collect();
        let moves = RwLock::new(());
        let process = Process::this();
        Arc::new_cyclic(|engine| Self {
            drivers: (0..drivers)
                .map(|index| Arc::new(Driver::new(epoch, Home { engine: engine.clone(), index })))
                .collect(),
            regular,
            manned,
            moves,
            chain,
            found,
            opened,
            turn,
            hooks,
            process,
        })
    }

    /// A worker looks after this driver from now on.
    pub(crate) fn man(&self, driver: usize) {
        self.drivers[driver].admit();
        // ORDERING: Relaxed, a guess (G5).
        self.manned[driver].store(true, Ordering::Relaxed);
    }

    /// The worker that looks after this driver leaves: operations and descriptors go elsewhere (G5). The
    /// caller is its thread, and ends the driver next.
    pub(crate) fn unman(&self, driver: usize) {
        // ORDERING: Relaxed, a guess (G5).
        self.manned[driver].store(false, Ordering::Relaxed);
        self.drivers[driver].refuse();
        let mut batch = Batch::new();
        let moving = self.moves.write().unwrap_or_else(PoisonError::into_inner);
        for (fd, readiness) in self.drivers[driver].take_sources() {
            if let Err(error) = self.place_source(None, fd, &readiness) {
                // Whoever uses it hears that nothing drives it, as at the end of the runtime.
                readiness.set_place(None);
                readiness.tell(News::CLOSED, &mut batch.wakers);
                debug_assert!(error.kind() != io::ErrorKind::InvalidInput, "{error}");
            }
        }
        drop(moving);
        batch.deliver();
    }

    /// The regular drivers that somebody looks after.
    fn manned(&self) -> impl Iterator<Item = usize> + Clone {
        // ORDERING: Relaxed, a guess (G5).
        (0..self.regular).filter(|&driver| self.manned[driver].load(Ordering::Relaxed))
    }

    /// The same, from another one on each time (G2).
    fn manned_in_turn(&self) -> impl Iterator<Item = usize> {
        let count = self.manned().count();
        // ORDERING: Relaxed, a turn publishes nothing.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.manned().cycle().skip(turn % count.max(1)).take(count)
    }

    pub(crate) fn driver(&self, index: usize) -> &Arc<Driver> {
        &self.drivers[index]
    }

    /// Whether there is anything that could drive I/O.
    pub(crate) fn drives(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Whether any operation was ever started.
    pub(crate) fn is_used(&self) -> bool {
        self.found.get().is_some()
    }

    /// Whether every visit to a driver is a system call.
    #[inline]
    pub(crate) fn visits_cost(&self) -> bool {
        self.found.get().is_some_and(|found| found.kind == Kind::Epoll)
    }

    /// What the drivers are made of (G1).
    pub(crate) fn find(&self) -> io::Result<&Found> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let fresh = self.try_chain()?;
        Ok(self.found.get_or_init(|| fresh))
    }

    fn try_chain(&self) -> io::Result<Found> {
        if self.drives() && sim::is_on() {
            return Ok(Found {
                kind: Kind::Fake,
                abilities: Abilities::default(),
                refusals: Vec::new(),
            });
        }
        let mut refusals = Vec::new();
        let text = "the workers' event cores are the program's own: they drive no I/O";
        let mut last = io::Error::new(io::ErrorKind::Unsupported, text);
        for &kind in &self.chain {
            let granted = match kind {
                Kind::Uring(mode) => Uring::probe(mode),
                Kind::Epoll | Kind::Fake => Ok(Abilities::default()),
            };
            match granted {
                Ok(abilities) => return Ok(Found { kind, abilities, refusals }),
                Err(error) => {
                    let Some(errno) = is_refusal(&error) else {
                        return Err(Cause::unopened(error));
                    };
                    refusals.push(Refusal { kind, errno });
                    last = error;
                }
            }
        }
        Err(Cause::unopened(last))
    }

    /// As `find`, and makes sure that a driver is open: whoever is about to do I/O hears here if the system
    /// does not give what that takes, rather than from each operation. Where no worker is there yet,
    /// nothing is opened.
    pub(crate) fn open(&self) -> io::Result<&Found> {
        let found = self.find()?;
        // ORDERING: Relaxed, a hint: who opens twice finds it open.
        if found.kind == Kind::Fake || self.opened.load(Ordering::Relaxed) {
            return Ok(found);
        }
        let own = self.here();
        for driver in own.into_iter().chain(self.manned_in_turn()) {
            match self.drivers[driver].ensure_open(found.kind) {
                // ORDERING: Relaxed, as above.
                Ok(()) => self.opened.store(true, Ordering::Relaxed),
                Err(Refused::Closed) => continue,
                Err(Refused::Failed(error)) => return Err(error),
            }
            break;
        }
        Ok(found)
    }

    /// What drives I/O and why, for people.
    pub(crate) fn describe(&self) -> String {
        let found = match self.find() {
            Ok(found) => found,
            Err(error) => return format!("nothing: {error}"),
        };
        let mut text = found.kind.to_string();
        for Refusal { kind, errno } in &found.refusals {
            let error = io::Error::from_raw_os_error(*errno);
            text.push_str(&format!("; {kind} was refused: {error}"));
        }
        let denied: Vec<i32> = self.drivers.iter().filter_map(|driver| driver.denied()).collect();
        if let Some(&errno) = denied.first() {
            let (count, error) = (denied.len(), io::Error::from_raw_os_error(errno));
            text.push_str(&format!(
                "; by epoll for {count} of its workers, whose rings may not be entered any more: {error}"
            ));
        }
        text
    }

    fn here(&self) -> Option<usize> {
        (self.hooks.here)(self)
    }

    /// Whether this is a child that was forked from the process of the runtime.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.process.is_parent()
    }

    /// Refuses to wait in such a child.
    ///
    /// # Panics
    /// There.
    pub(crate) fn check_process(&self) {
        self.process.check();
    }

    /// # Errors
    /// In a child that was forked from the process of the runtime.
    fn refuse_in_child(&self) -> io::Result<()> {
        if self.process.is_parent() { Err(io::Error::other(FORKED)) } else { Ok(()) }
    }

    /// Whether the calling thread owns the driver.
    fn caller(&self, driver: usize) -> Caller {
        if self.here() == Some(driver) { Caller::Owner } else { Caller::Other }
    }

    /// Whether an operation that a call might perform at once is better left to the ring, where it is
    /// submitted together with others.
    pub(crate) fn prefers_ring(&self) -> bool {
        self.here().is_some_and(|own| self.drivers[own].is_crowded())
    }

    /// The regular driver that has most in flight, if that is not this thread's own and its owner is
    /// ready for more (G2).
    fn main(&self, own: usize) -> Option<usize> {
        let load = |index: usize| (self.drivers[index].load(), usize::MAX - index);
        let main = self.manned().max_by_key(|&index| load(index))?;
        (load(main) > load(own) && self.drivers[main].is_ready()).then_some(main)
    }

    /// Starts something on the driver of this thread, or on another (G2).
    fn place<T>(
        &self,
        mut start: impl FnMut(&Arc<Driver>, Caller, Kind) -> Result<T, Refused>,
    ) -> io::Result<(usize, T)> {
        self.refuse_in_child()?;
        let kind = self.find()?.kind;
        if let Some(own) = self.here() {
            if let Some(main) = self.main(own)
                && let Ok(started) = start(&self.drivers[main], Caller::Other, kind)
            {
                return Ok((main, started));
            }
            if let Ok(started) = start(&self.drivers[own], Caller::Owner, kind) {
                return Ok((own, started));
            }
        }
        let mut refused = None;
        for other in self.manned_in_turn() {
            match start(&self.drivers[other], Caller::Other, kind) {
                Ok(started) => return Ok((other, started)),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.map_or_else(|| Cause::Nobody.into(), io::Error::from))
    }

    /// Starts an operation; `waker` is woken when it is over.
    ///
    /// # Safety
    /// As for [`Driver::start`].
    pub(crate) unsafe fn start(
        self: &Arc<Self>,
        request: &Request,
        waker: &Waker,
    ) -> io::Result<Ticket> {
        let performer = self.find()?.performer(request);
        let start = |driver: &Arc<Driver>, caller, kind| {
            // SAFETY: by the caller's promise.
            unsafe { driver.start(caller, kind, request, performer, waker.clone()) }
        };
        let (driver, key) = self.place(start)?;
        if performer == Performer::Call {
            self.offload(*request, driver, key, CANCELED);
        }
        Ok(Ticket { driver: driver as u32, key })
    }

    /// Starts an operation that nobody waits for, and that waits for no readiness; given back if it is
    /// refused.
    ///
    /// # Safety
    /// As for [`Driver::start_orphan`].
    pub(crate) unsafe fn start_orphan<L: Late + 'static>(
        &self,
        request: &Request,
        late: Box<L>,
    ) -> Result<(), Box<L>> {
        let Ok(found) = self.find() else { return Err(late) };
        let performer = found.performer(request);
        let mut waiting = Some(late);
        let start = |driver: &Arc<Driver>, caller, kind| {
            let late = waiting.take().expect("given back by who refuses it");
            // SAFETY: by the caller's promise.
            unsafe { driver.start_orphan(caller, kind, request, performer, late) }.map_err(|late| {
                waiting = Some(late);
                Refused::Closed
            })
        };
        match self.place(start) {
            Ok((driver, key)) => {
                if performer == Performer::Call {
                    self.offload(*request, driver, key, CANCELED);
                }
                Ok(())
            }
            Err(_) => Err(waiting.expect("nobody has taken it")),
        }
    }

    /// Has a request performed by a call on a thread for that, and completed: with `never` if the runtime ends first.
    pub(crate) fn offload(&self, request: Request, driver: usize, key: Key, never: i32) {
        /// Completes the operation when nobody has it any more.
        struct Calls {
            driver: Arc<Driver>,
            key: Key,
            /// As bits.
            result: AtomicU32,
        }
        impl Calls {
            fn tell(&self, result: i32) {
                // ORDERING: Relaxed, the count of references orders it before the drop.
                self.result.store(result as u32, Ordering::Relaxed);
            }
        }
        impl Drop for Calls {
            fn drop(&mut self) {
                // ORDERING: Relaxed, nobody else is left.
                let result = self.result.load(Ordering::Relaxed) as i32;
                let completion = Completion { result, flags: 0 };
                self.driver.complete(self.key, completion);
            }
        }
        let (driver, result) = (self.drivers[driver].clone(), AtomicU32::new(never as u32));
        let calls = Arc::new(Calls { driver, key, result });
        let on_thread = calls.clone();
        let offloaded = (self.hooks.offload)(Box::new(move || {
            // The whole of it moves here, so that it completes in any case.
            let calls = on_thread;
            // SAFETY: O1 of `slots`, whatever the request points to is kept until it completes.
            calls.tell(unsafe { request.call() });
        }));
        if let Err(errno) = offloaded {
            calls.tell(Cause::NoThread(errno).code());
        }
    }

    /// Starts an operation with many completions, of which at most `cap` and some lie unread.
    ///
    /// # Safety
    /// As for [`Driver::start_stream`].
    pub(crate) unsafe fn start_stream(
        &self,
        request: &Request,
        cap: usize,
    ) -> io::Result<(Ticket, Option<Arc<Pool>>)> {
        let start = |driver: &Arc<Driver>, caller, kind| {
            // SAFETY: by the caller's promise.
            unsafe { driver.start_stream(caller, kind, request, cap) }
        };
        let (driver, (key, pool)) = self.place(start)?;
        Ok((Ticket { driver: driver as u32, key }, pool))
    }

    /// Whether the operation is on a driver that is never evacuated.
    pub(crate) fn stays(&self, ticket: Ticket) -> bool {
        (ticket.driver as usize) < self.regular
    }

    pub(crate) fn poll(&self, ticket: Ticket, waker: &Waker) -> Polled {
        self.process.check();
        self.drivers[ticket.driver as usize].poll(ticket.key, waker)
    }

    pub(crate) fn poll_stream(&self, ticket: Ticket, who: Waiter<'_>) -> Next {
        self.process.check();
        self.drivers[ticket.driver as usize].poll_stream(ticket.key, who)
    }

    /// As `poll_stream`, for a caller that holds a lock, and brings the clone of the waker that is wanted.
    pub(crate) fn poll_stream_with(
        &self,
        ticket: Ticket,
        who: Waiter<'_>,
        clone: &mut Option<Waker>,
    ) -> Next {
        self.process.check();
        self.drivers[ticket.driver as usize].poll_stream_with(ticket.key, who, clone)
    }

    /// Who waited for the next of a stream does not any more.
    pub(crate) fn give_up(&self, ticket: Ticket, id: WaitId) {
        if self.process.is_parent() {
            return;
        }
        self.drivers[ticket.driver as usize].give_up(ticket.key, id);
    }

    /// Wakes all who wait for the next of a stream.
    pub(crate) fn wake_stream(&self, ticket: Ticket) {
        if self.process.is_parent() {
            return;
        }
        self.drivers[ticket.driver as usize].wake_stream(ticket.key);
    }

    pub(crate) fn cancel(&self, ticket: Ticket) {
        if self.process.is_parent() {
            return;
        }
        let driver = ticket.driver as usize;
        self.drivers[driver].cancel(self.caller(driver), ticket.key);
    }

    /// Calls an operation back (O8 of `slots`).
    pub(crate) fn call_back(&self, ticket: Ticket) {
        if self.process.is_parent() {
            return;
        }
        let driver = ticket.driver as usize;
        self.drivers[driver].call_back(self.caller(driver), ticket.key);
    }

    /// Calls back all that wait for bytes of a socket on some drivers (O8 of `slots`).
    pub(crate) fn call_back_all(&self, fd: RawFd, on: Drivers) {
        if on.is_empty() || self.process.is_parent() {
            return;
        }
        for (index, driver) in self.drivers.iter().enumerate() {
            if on.meets(Drivers::with(index)) {
                driver.call_back_all(self.caller(index), fd);
            }
        }
    }

    pub(crate) fn stop_stream(&self, ticket: Ticket) {
        if self.process.is_parent() {
            return;
        }
        let driver = ticket.driver as usize;
        self.drivers[driver].stop_stream(self.caller(driver), ticket.key);
    }

    pub(crate) fn abandon(&self, ticket: Ticket, late: Box<dyn Late>, cancel: Cancel) {
        if self.process.is_parent() {
            std::mem::forget(late);
            return;
        }
        let driver = ticket.driver as usize;
        self.drivers[driver].abandon(self.caller(driver), ticket.key, late, cancel);
    }

    pub(crate) fn abandon_stream(&self, ticket: Ticket, dispose: Arc<dyn Dispose>) {
        if self.process.is_parent() {
            std::mem::forget(dispose);
            return;
        }
        let driver = ticket.driver as usize;
        self.drivers[driver].abandon_stream(self.caller(driver), ticket.key, dispose);
    }

    /// Registers a descriptor for readiness with a regular driver: this thread's, or in turn.
    pub(crate) fn register(&self, fd: RawFd) -> io::Result<Source> {
        self.refuse_in_child()?;
        let readiness = Arc::new(Readiness::new());
        let own = self.here().filter(|&own| own < self.regular);
        let own = own.map(|own| self.main(own).unwrap_or(own));
        // G5: the place is known before anybody moves it.
        let _stays = self.moves.read().unwrap_or_else(PoisonError::into_inner);
        self.place_source(own, fd, &readiness)?;
        Ok(Source { readiness })
    }

    /// Registers it with a driver that takes it, if it can be `first`.
    fn place_source(
        &self,
        first: Option<usize>,
        fd: RawFd,
        readiness: &Arc<Readiness>,
    ) -> io::Result<()> {
        let mut refused = None;
        for driver in first.into_iter().chain(self.manned_in_turn()) {
            match self.drivers[driver].add_source(fd, readiness.clone()) {
                Ok(key) => {
                    readiness.set_place(Some((driver, key.0)));
                    return Ok(());
                }
                Err(Refused::Closed) => refused = Some(Refused::Closed),
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        Err(refused.map_or_else(|| Cause::Nobody.into(), io::Error::from))
    }

    /// Forgets a descriptor, which is still open.
    pub(crate) fn unregister(&self, fd: RawFd, source: &Source) {
        if self.process.is_parent() {
            return;
        }
        let _stays = self.moves.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((driver, key)) = source.readiness.place() {
            self.drivers[driver].remove_source(fd, SourceKey(key));
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("found", &self.found.get()).finish_non_exhaustive()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring(Mode::Cooperative) => "io_uring",
            Self::Uring(Mode::Plain) => "io_uring (plain)",
            Self::Epoll => "epoll",
            Self::Fake => "the simulation's script",
        })
    }
}
