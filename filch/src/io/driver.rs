//! The driver of one slot of the I/O lane: operations in flight, where its thread waits for them, and
//! how others reach it.
//!
//! V1. All state is under one lock, which is never held across user code, a wake, a drop of user
//!     values, or a wait: what a visit learns is told from a `Batch` afterwards.
//! V2. The slot's thread alone waits in the driver and submits to its ring; the sentry does both without
//!     waiting when that thread is stuck (U1 of `uring`). Everybody else only queues, and wakes it.
//! V3. Nothing is opened before the first socket, file or operation. Until then the thread sleeps on a bed.
//! V4. `active` is not zero while an operation or a source is there, so that a visit to an unused
//!     driver is one load.
//! V5. Once it is about to be closed, a driver takes no operation; what was in flight is cancelled and ends.
//!     Only then is the ring closed.
//! V6. In a simulation the thread sleeps on its bed also while operations are in flight, until the next
//!     of them is due or the network rings.
//! V7. Who visits a driver that is another's is counted while it is in the kernel with the driver's
//!     descriptor; that is closed when none of them is there any more, so its number means the same.
//!
//! V8. A ring whose entry the system refuses to its owner is left for good: others go on by calls (`denied`).
//!
//! Not here: what it is asked for (`driver/operations.rs`), how it stops (`driver/end.rs`), what
//! becomes of a ring that is denied (`driver/denied.rs`), which driver an
//! operation goes to (`engine`), when it is visited (`sched/worker.rs`).

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, PoisonError, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use self::backend::{Backend, Intake, State};
use self::denied::{AGAIN, Replaced};
pub(crate) use self::end::Ending;
pub(crate) use self::operations::{Cancel, Performer};
use super::batch::Batch;
use super::cause::Cause;
use super::engine::Engine;
use super::epoll::{self, Epoll};
use super::fake::Fake;
use super::slots::Slots;
use super::sys;
use super::uring::{Mode, Plan, Uring};
use super::wake::{Lain, Place, WakeWord};
use crate::base::parker::Parker;
use crate::base::shim::{AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, OnceLock, Ordering};
use crate::base::sim;

mod backend;
mod denied;
mod end;
mod operations;
#[cfg(all(test, not(loom)))]
mod tests;

/// Completions that one visit tells at most; the rest wait for the next. Guessed.
const BUDGET: usize = 256;

/// From how many told at once on writes are collected for the ring. Guessed; with one at a time a call
/// saves an enter, with dozens the ring was 13 % faster (ADR 0023).
const CROWD: usize = 4;

/// How long ago the owner's last visit may be if it is to come again soon, in ns: three times the age
/// at which completions are due. Guessed.
const MOMENT: u64 = 300_000;

/// `IORING_ENTER_GETEVENTS` and `IORING_ENTER_EXT_ARG`.
const GETEVENTS: u32 = 1 << 0;
const EXT_ARG: u32 = 1 << 3;

/// What drivers of a runtime are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Uring(Mode),
    Epoll,
    /// In a simulation.
    Fake,
}

pub(crate) struct Driver {
    word: WakeWord,
    bed: Parker,
    /// Made with the backend, kept after it.
    eventfd: OnceLock<Arc<OwnedFd>>,
    /// V4. Written under the lock, read by the owner without it.
    active: AtomicUsize,
    /// How much the owner can take at its next visit. It writes, whoever visits reads.
    room: AtomicUsize,
    /// How much a visit tells, of late: how many tasks run before the next. Falls slowly.
    crowd: AtomicUsize,
    /// What `visited` counts from, the same for all drivers of an engine.
    epoch: Instant,
    /// When the owner was last here with time for more, in ns after `epoch`. It writes, others read.
    visited: AtomicU64,
    state: Mutex<State>,
    /// The error number that its ring was denied with, or 0. The owner writes, who describes it reads.
    denied: AtomicU32,
    home: Home,
}

/// Which driver of which engine it is.
#[derive(Default)]
pub(crate) struct Home {
    pub(crate) engine: Weak<Engine>,
    pub(crate) index: usize,
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The slot's own thread: it will visit soon.
    Owner,
    /// Any other: the owner is woken.
    Other,
}

/// How much an owner has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    Few,
    /// More than it should keep to itself.
    Many,
}

/// Why a driver did not take an operation.
#[derive(Debug)]
pub(crate) enum Refused {
    /// V5.
    Closed,
    /// It cannot be opened.
    Failed(io::Error),
}

impl Driver {
    pub(crate) fn new(epoch: Instant, home: Home) -> Self {
        Self {
            word: WakeWord::new(),
            bed: Parker::new(),
            eventfd: OnceLock::new(),
            active: AtomicUsize::new(0),
            room: AtomicUsize::new(BUDGET),
            crowd: AtomicUsize::new(0),
            epoch,
            visited: AtomicU64::new(0),
            state: Mutex::new(State {
                slots: Slots::default(),
                backend: Backend::Unopened,
                intake: Intake::Open,
                visitors: 0,
            }),
            denied: AtomicU32::new(0),
            home,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // V1: nothing of the user's runs under it, so poison means nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is anything to visit (V4).
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        // ORDERING: Relaxed, who adds something from elsewhere wakes the owner, and W3 of `wake` shows
        // it; the owner itself sees its own writes.
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Whether so many tasks are about to run that what they submit is worth collecting.
    pub(crate) fn is_crowded(&self) -> bool {
        // ORDERING: Relaxed, a guess.
        self.crowd.load(Ordering::Relaxed) >= CROWD
    }

    /// Says how much the owner can take: the rest waits here, in order, and costs nothing.
    pub(crate) fn set_room(&self, room: usize) {
        // ORDERING: Relaxed, a bound that publishes nothing.
        self.room.store(room.clamp(1, BUDGET), Ordering::Relaxed);
    }

    fn room(&self) -> usize {
        // ORDERING: Relaxed, as in `set_room`.
        self.room.load(Ordering::Relaxed)
    }

    /// How much is there; a guess for others than the owner.
    pub(crate) fn load(&self) -> usize {
        // ORDERING: Relaxed, a guess.
        self.active.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        sim::now().saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// The owner has been here. If it has more tasks than it should, that does not count (`is_ready`).
    pub(crate) fn note_visit(&self, tasks: Tasks) {
        if tasks == Tasks::Few {
            // ORDERING: Relaxed, a guess for others.
            self.visited.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Whether the owner, another thread, would submit at once what is queued here now, without a
    /// system call to wake it: it is up and was here a moment ago.
    pub(crate) fn is_ready(&self) -> bool {
        // ORDERING: Relaxed, a guess: an operation that is queued in vain is found by the sentry.
        let visited = self.visited.load(Ordering::Relaxed);
        self.word.is_up() && self.now().saturating_sub(visited) < MOMENT
    }

    /// Tells what a visit has brought.
    fn deliver(&self, batch: &mut Batch) -> usize {
        let told = batch.deliver();
        // ORDERING: Relaxed, a guess for `is_crowded`, made by one thread at a time, nearly always.
        let before = self.crowd.load(Ordering::Relaxed);
        let now = told.max(before - before.div_ceil(8));
        if now != before {
            // ORDERING: Relaxed, as above.
            self.crowd.store(now, Ordering::Relaxed);
        }
        told
    }

    /// Brings `active` up to date. The state is about to be unlocked.
    fn count(&self, state: &State) {
        let sources = match &state.backend {
            Backend::Epoll(epoll) => epoll.len(),
            Backend::Unopened
            | Backend::Uring(_)
            | Backend::Fake(_)
            | Backend::Denied(_)
            | Backend::Closed => 0,
        };
        // ORDERING: Relaxed, see `is_active`.
        self.active.store(state.slots.len() + sources, Ordering::Relaxed);
    }

    /// Opens the backend if nobody has (V3).
    fn open<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        kind: Kind,
    ) -> Result<MutexGuard<'a, State>, Refused> {
        if state.intake == Intake::Shut {
            return Err(Refused::Closed);
        }
        match state.backend {
            Backend::Uring(_) | Backend::Epoll(_) | Backend::Fake(_) | Backend::Denied(_) => {
                return Ok(state);
            }
            Backend::Closed => return Err(Refused::Closed),
            Backend::Unopened => {}
        }
        let opened = match kind {
            Kind::Uring(mode) => {
                self.eventfd().and_then(|eventfd| match Uring::open(mode, eventfd.clone()) {
                    Ok(uring) => Ok(Backend::Uring(Box::new(uring))),
                    Err(error) => self.open_denied(&eventfd, error),
                })
            }
            Kind::Epoll => {
                self.eventfd().and_then(|eventfd| Epoll::open(&eventfd).map(Backend::Epoll))
            }
            Kind::Fake => Fake::open(Arc::downgrade(self)).map(Backend::Fake),
        };
        state.backend = opened.map_err(|error| Refused::Failed(Cause::unopened(error)))?;
        Ok(state)
    }

    /// Opens the backend if nobody has.
    pub(crate) fn ensure_open(self: &Arc<Self>, kind: Kind) -> Result<(), Refused> {
        let state = self.lock();
        let opens = matches!(state.backend, Backend::Unopened);
        drop(self.open(state, kind)?);
        if opens {
            // On its bed, the owner would not hear of what is registered next.
            self.ring();
        }
        Ok(())
    }

    fn eventfd(&self) -> io::Result<Arc<OwnedFd>> {
        if let Some(eventfd) = self.eventfd.get() {
            return Ok(eventfd.clone());
        }
        let fresh = Arc::new(sys::eventfd()?);
        Ok(self.eventfd.get_or_init(|| fresh).clone())
    }

    /// Ends the owner's current or next wait.
    pub(crate) fn wake(&self) {
        self.ring();
        sim::point();
    }

    /// As `wake`, without a switch of a simulation: the caller may hold a lock.
    pub(crate) fn ring(&self) {
        match self.word.notify() {
            None => {}
            Some(Place::Bed) => self.bed.unpark_here(),
            Some(Place::Kernel) => {
                let eventfd = self.eventfd.get().expect("made before anybody waits in the kernel");
                sys::signal(eventfd);
            }
        }
    }

    fn wake_if(&self, caller: Caller) {
        if caller == Caller::Other {
            self.ring();
        }
    }
}

/// What to do outside of the lock.
enum Errand {
    Nothing,
    Uring(Plan),
    Epoll {
        fd: RawFd,
        /// Whether events wait to be told.
        ready: bool,
    },
    Fake,
    /// V8.
    Denied {
        fd: RawFd,
        /// Whether something is to be told.
        ready: bool,
    },
}

/// Visits and waits.
impl Driver {
    /// Who is not the owner `leave`s when an errand to the kernel is done (V7).
    fn errand(&self, caller: Caller) -> Errand {
        let mut state = self.lock();
        let errand = match &mut state.backend {
            Backend::Uring(uring) => Errand::Uring(uring.plan()),
            Backend::Epoll(epoll) => Errand::Epoll { fd: epoll.fd(), ready: epoll.is_ready() },
            Backend::Denied(denied) => {
                Errand::Denied { fd: denied.fallback.fd(), ready: denied.is_ready() }
            }
            Backend::Fake(_) => return Errand::Fake,
            Backend::Unopened | Backend::Closed => return Errand::Nothing,
        };
        if caller == Caller::Other {
            state.visitors += 1;
        }
        errand
    }

    /// The errand is done (V7).
    fn leave(&self, caller: Caller) {
        if caller == Caller::Other {
            self.lock().visitors -= 1;
        }
    }

    /// Submits what is queued and tells what has completed, without waiting; returns how much. The
    /// caller is the owner, or the sentry while the owner is stuck (V2).
    pub(crate) fn visit(&self, caller: Caller, batch: &mut Batch) -> usize {
        if !self.is_active() {
            return 0;
        }
        match self.errand(caller) {
            Errand::Nothing => return 0,
            Errand::Uring(plan) => {
                // If nothing takes the place of a denied ring yet, the next visit tries again.
                let _ = self.enter(caller, plan, batch);
                self.leave(caller);
            }
            Errand::Denied { fd, .. } => {
                self.look_at_fallback(fd, Some(Duration::ZERO), batch);
                self.leave(caller);
            }
            Errand::Epoll { fd, .. } => {
                self.look(fd, Some(Duration::ZERO), batch);
                self.leave(caller);
            }
            Errand::Fake => {
                self.look_at_fake(batch);
            }
        }
        self.deliver(batch)
    }

    fn enter(&self, caller: Caller, mut plan: Plan, batch: &mut Batch) -> Replaced {
        loop {
            let (mut taken, mut replaced) = (0, Replaced::Yes);
            if plan.submit > 0 || plan.fetch {
                let flags = if plan.fetch { GETEVENTS } else { 0 };
                match note(sys::enter(plan.fd, plan.submit, 0, flags, None)) {
                    Ok(count) => taken = count,
                    Err(errno) => replaced = self.refused(caller, errno, batch),
                }
            }
            let mut state = self.lock();
            let reaped = state.reap(self.room(), batch);
            let full = match &mut state.backend {
                Backend::Uring(uring) if uring.is_full() => Some(uring.plan()),
                _ => None,
            };
            self.count(&state);
            drop(state);
            match full {
                // As long as it moves: the rest would wait for the next visit.
                Some(next) if taken > 0 && reaped < self.room() => plan = next,
                _ => return replaced,
            }
        }
    }

    fn look(&self, fd: RawFd, timeout: Option<Duration>, batch: &mut Batch) {
        let mut events = std::mem::take(&mut batch.events);
        epoll::wait(fd, timeout, &mut events);
        let mut state = self.lock();
        if let Backend::Epoll(epoll) = &mut state.backend {
            epoll.tell(&events, self.room(), &mut batch.wakers);
        }
        drop(state);
        batch.events = events;
    }

    /// Whether completions are there, or would be after an enter, as far as a look at shared memory tells.
    pub(crate) fn sees_completions(&self) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        match &mut state.backend {
            Backend::Uring(uring) => {
                let plan = uring.plan();
                plan.ready || plan.fetch
            }
            Backend::Fake(fake) => fake.due().is_some_and(|due| due <= sim::now()),
            Backend::Epoll(epoll) => epoll.is_ready(),
            Backend::Denied(denied) => denied.is_ready(),
            Backend::Unopened | Backend::Closed => false,
        }
    }

    /// Waits for a completion, a wake or the end of the timeout, and tells what has completed. Only the
    /// owner calls it.
    pub(crate) fn park(&self, timeout: Option<Duration>, batch: &mut Batch) {
        match self.errand(Caller::Owner) {
            Errand::Nothing => self.sleep_on_bed(timeout),
            Errand::Uring(plan) => self.sleep_in_ring(plan, timeout, batch),
            Errand::Epoll { fd, ready: true } => self.look(fd, Some(Duration::ZERO), batch),
            Errand::Epoll { fd, ready: false } => {
                if self.word.lie_down(Place::Kernel) == Lain::Down {
                    self.look(fd, timeout, batch);
                    self.word.stand_up();
                }
            }
            Errand::Denied { fd, ready: true } => {
                self.look_at_fallback(fd, Some(Duration::ZERO), batch);
            }
            Errand::Denied { fd, ready: false } => {
                if self.word.lie_down(Place::Kernel) == Lain::Down {
                    self.look_at_fallback(fd, timeout, batch);
                    self.word.stand_up();
                }
            }
            Errand::Fake => self.sleep_in_fake(timeout, batch),
        }
        self.deliver(batch);
    }

    fn sleep_on_bed(&self, timeout: Option<Duration>) {
        if self.word.lie_down(Place::Bed) == Lain::Token {
            return;
        }
        match timeout {
            None => self.bed.park(),
            Some(timeout) => {
                self.bed.park_timeout(timeout);
            }
        }
        self.word.stand_up();
    }

    /// Reaps; how long there is nothing more to do, if not for ever.
    fn look_at_fake(&self, batch: &mut Batch) -> Option<Duration> {
        let mut state = self.lock();
        state.reap(self.room(), batch);
        self.count(&state);
        let Backend::Fake(fake) = &state.backend else { return None };
        fake.due().map(|due| due.saturating_duration_since(sim::now()))
    }

    fn sleep_in_fake(&self, timeout: Option<Duration>, batch: &mut Batch) {
        let due = self.look_at_fake(batch);
        if !batch.is_empty() {
            return;
        }
        match due.filter(|&due| timeout.is_none_or(|timeout| due < timeout)) {
            // Something will happen then, whatever the sleep itself is for.
            Some(due) => sim::in_foreground(|| self.sleep_on_bed(Some(due))),
            None => self.sleep_on_bed(timeout),
        }
        self.look_at_fake(batch);
    }

    fn sleep_in_ring(&self, plan: Plan, timeout: Option<Duration>, batch: &mut Batch) {
        let replaced =
            if plan.ready || plan.full || self.word.lie_down(Place::Kernel) == Lain::Token {
                self.enter(Caller::Owner, plan, batch)
            } else {
                let waited = wait_in_ring(plan, timeout);
                self.word.stand_up();
                let replaced = match waited {
                    Ok(_) => Replaced::Yes,
                    Err(errno) => self.refused(Caller::Owner, errno, batch),
                };
                let mut state = self.lock();
                state.reap(self.room(), batch);
                self.count(&state);
                replaced
            };
        if replaced == Replaced::NotYet {
            self.sleep_on_bed(Some(timeout.map_or(AGAIN, |timeout| timeout.min(AGAIN))));
        }
    }
}

fn wait_in_ring(plan: Plan, timeout: Option<Duration>) -> Result<usize, i32> {
    let spec = timeout.and_then(sys::timespec);
    let arg = spec.as_ref().map(sys::Arg::with_timeout);
    let flags = GETEVENTS | if arg.is_some() { EXT_ARG } else { 0 };
    note(sys::enter(plan.fd, plan.submit, 1, flags, arg.as_ref()))
}

/// What an enter may answer without anything being wrong: a signal came, the time is over, or the
/// kernel wants completions reaped, or memory, before it takes more. What it did not take stays queued.
/// Returns how many entries it took.
///
/// # Errors
/// If the entry as such is refused: by a filter that somebody has installed since the ring was opened, mostly.
fn note(result: i32) -> Result<usize, i32> {
    let benign = [libc::EINTR, libc::ETIME, libc::EBUSY, libc::EAGAIN];
    match usize::try_from(result) {
        Ok(count) => Ok(count),
        Err(_) if benign.contains(&-result) => Ok(0),
        Err(_) => {
            let ours = [libc::EFAULT, libc::EBADF];
            debug_assert!(!ours.contains(&-result), "io_uring_enter: error {result}");
            Err(-result)
        }
    }
}

impl Wake for Driver {
    fn wake(self: Arc<Self>) {
        Driver::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Driver::wake(self);
    }
}

/// A closed driver still tells late requests that were performed by calls; the end of a runtime waits
/// for their threads.
impl Drop for Driver {
    fn drop(&mut self) {
        debug_assert!(
            !matches!(self.lock().backend, Backend::Uring(_)),
            "V5: a ring is closed by its slot's thread"
        );
    }
}
