//! How I/O reaches the workers: the engine's drivers as event cores, and what the engine borrows.
//!
//! A1. Driver *i* of the engine belongs to slot *i* of the I/O lane, spares included. Its slot's thread
//!     parks in it, unless the program brought an event core of its own for it: then that worker drives no
//!     I/O, and what is started on it goes to others.
//! A2. The thread of a slot ends its driver before it leaves: for good when the runtime stops, or by
//!     evacuation when a spare is not needed any more or a regular worker is detached. So no thread ends
//!     with operations in flight.
//! A3. While a worker has operations in flight and is awake, the sentry watches, because completions
//!     depend on it.
//! A4. A regular worker without work looks after a neighbour that has been inside one task for a while,
//!     long before the sentry does: it visits the neighbour's driver. It lives as long as the runtime,
//!     so it may submit there.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::core::{EventCore, ParkCore};
use super::shared::{CoreFactory, Lane, Phase, Shared, Slot};
use super::worker::Worker;
use crate::base::shim::Ordering;
use crate::config::{Config, IoBackend};
use crate::error::BuildError;
use crate::io::batch::Batch;
use crate::io::driver::{Caller, Driver, Ending, Kind, Tasks};
use crate::io::engine::{Closure, Engine, Hooks};
use crate::io::uring::Mode;
use crate::task::group::guard_user_code;

/// Runs a closure on a thread for what blocks, as a task of the runtime.
pub(crate) type Offload = fn(&Shared, Closure) -> Result<(), i32>;

/// How long a neighbour may be inside a task before others visit its driver. Guessed: longer than most
/// polls take, and a fraction of the sentry's period.
const SUSPICIOUS: Duration = Duration::from_micros(300);

/// A neighbour inside a task (A4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    slot: usize,
    /// Its beat, and when that was first seen.
    beat: u64,
    since: Instant,
}

/// How long completions wait for a visit at most while tasks run, as the design has it; one task may
/// take longer.
const IO_AGE: Duration = Duration::from_micros(100);

/// Up to this time for each, tasks are brief: the clock would cost a percent of them. Guessed.
pub(super) const BRIEF: u64 = 8_000;

/// How many brief tasks run between two looks at the clock. Guessed.
const BRIEF_TASKS: u64 = 4;

/// So many tasks in the ring are shared at once, however brief they may be. Guessed: some 300 µs of
/// work, which is more than a wake costs.
const HELD_BACK: usize = 64;

/// A driver as the place where its slot's thread parks.
struct DriverCore {
    driver: Arc<Driver>,
    batch: Batch,
}

impl EventCore for DriverCore {
    fn poll(&mut self) -> usize {
        self.driver.visit(Caller::Owner, &mut self.batch)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.driver.park(timeout, &mut self.batch);
    }

    fn waker(&self) -> Waker {
        Waker::from(self.driver.clone())
    }
}

impl Suspect {
    /// Whether it is inside the same task.
    fn is_still(&self, shared: &Shared) -> bool {
        // ORDERING: Relaxed, as in `find_suspect`.
        shared.slots[self.slot].beat.load(Ordering::Relaxed) == self.beat
    }
}

/// The engine for the I/O lane of a runtime to be (A1).
pub(super) fn make_engine(
    config: &Config,
    lane: &Lane,
    cores: Option<&CoreFactory>,
    shared: Weak<Shared>,
    offload: Offload,
) -> Arc<Engine> {
    let chain = if cores.is_some() { Vec::new() } else { chain(config.io_backend) };
    let offload =
        move |closure: Closure| shared.upgrade().map_or(Ok(()), |shared| offload(&shared, closure));
    let hooks = Hooks { here, offload: Box::new(offload) };
    Engine::new(lane.staff, lane.seats, chain, hooks)
}

/// What to try, best first.
fn chain(backend: IoBackend) -> Vec<Kind> {
    let (cooperative, plain) = (Kind::Uring(Mode::Cooperative), Kind::Uring(Mode::Plain));
    match backend {
        IoBackend::Auto => vec![cooperative, plain, Kind::Epoll],
        IoBackend::Uring => vec![cooperative, plain],
        IoBackend::UringPlain => vec![plain],
        IoBackend::Epoll => vec![Kind::Epoll],
    }
}

/// The event core of a slot.
pub(super) fn core_of(engine: &Engine, lane: usize, index: usize) -> Box<dyn EventCore> {
    if lane == 0 {
        Box::new(DriverCore { driver: engine.driver(index).clone(), batch: Batch::new() })
    } else {
        Box::new(ParkCore::new())
    }
}

/// The driver whose owner the calling thread is.
fn here(engine: &Engine) -> Option<usize> {
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::current() }?;
    if !worker.has_driver() || !std::ptr::eq(&*worker.shared().engine, engine) {
        return None;
    }
    // A3.
    worker.ensure_watched();
    Some(worker.id() as usize)
}

impl Shared {
    /// Has what is in flight and registered at a driver move to others; its worker leaves. The caller is
    /// that worker's thread, or it has none.
    pub(super) fn close_driver(&self, driver: usize) {
        self.engine.unman(driver);
        let ending = || if self.phase() == Phase::Stopped { Ending::Close } else { Ending::Leave };
        self.engine.driver(driver).end(ending, &mut Batch::new());
    }

    /// Does for a stuck worker what its thread would do at its driver: submit, and tell what has
    /// completed. The caller is the sentry.
    pub(super) fn rescue_driver(&self, slot: &Slot) {
        let driver = self.engine.driver(slot.info.index);
        if driver.is_active() {
            let told = driver.visit(Caller::Other, &mut Batch::new());
            slot.counters.rescues.add_shared(told as u64);
        }
    }

    /// Finds what drives I/O, if the program forces it.
    pub(super) fn check_backend(&self) -> Result<(), BuildError> {
        let backend = self.config.io_backend;
        if backend == IoBackend::Auto || crate::base::sim::is_on() || !self.engine.drives() {
            return Ok(());
        }
        match self.engine.find() {
            Ok(_) => Ok(()),
            Err(source) => Err(BuildError::Io { backend: backend.to_string(), source }),
        }
    }
}

impl Worker {
    /// Ends the driver of this slot, whose thread is about to leave (A2).
    pub(super) fn end_driver(&self) {
        if !self.runs_futures() {
            return;
        }
        if !self.is_stopped() && self.is_leaving() {
            return self.shared().close_driver(self.id() as usize);
        }
        let ending = || if self.is_stopped() { Ending::Close } else { Ending::Evacuate };
        // Not as the slot's worker any more: whom this wakes goes to the others.
        self.driver().end(ending, &mut Batch::new());
    }

    /// Submits what this worker has queued, and tells what has completed: it is about to block, and
    /// others would find that only after a while.
    pub(super) fn flush_driver(&self) {
        if self.drives() {
            self.driver().visit(Caller::Owner, &mut Batch::new());
        }
    }

    /// Visits the driver of a neighbour that seems stuck (A4); whether that has brought anything.
    pub(super) fn looks_after_drivers(&self) -> bool {
        let lane = self.lane();
        if !self.runs_futures()
            || lane.width() < 2
            || self.is_spare()
            || !self.shared().engine.is_used()
        {
            return false;
        }
        let Some(suspect) = self.suspect.get().filter(|suspect| suspect.is_still(self.shared()))
        else {
            self.suspect.set(self.find_suspect());
            return false;
        };
        if self.shared().clock.now().saturating_duration_since(suspect.since) < SUSPICIOUS {
            return false;
        }
        let slot = &self.shared().slots[suspect.slot];
        let driver = self.shared().engine.driver(slot.info.index);
        let told =
            if driver.is_active() { driver.visit(Caller::Other, &mut Batch::new()) } else { 0 };
        slot.counters.rescues.add_shared(told as u64);
        told > 0
    }

    /// A neighbour inside a task, whose driver has something to do.
    fn find_suspect(&self) -> Option<Suspect> {
        let (shared, lane) = (self.shared(), self.lane());
        let start = self.suspect.get().map_or(0, |last| last.slot + 1 - lane.range.start);
        (0..lane.width()).map(|i| lane.range.start + (start + i) % lane.width()).find_map(|slot| {
            // ORDERING: Relaxed, readings of different times are compared.
            let beat = shared.slots[slot].beat.load(Ordering::Relaxed);
            let busy = slot != self.index() && beat % 2 == 1 && !lane.is_guest(slot);
            let active = busy && shared.engine.driver(shared.slots[slot].info.index).is_active();
            active.then(|| Suspect { slot, beat, since: shared.clock.now() })
        })
    }

    /// Whether this worker drives I/O (A1), and takes operations.
    pub(super) fn has_driver(&self) -> bool {
        self.runs_futures() && !self.guest_core && !self.is_leaving()
    }

    /// Whether operations of this worker are in flight.
    pub(super) fn drives(&self) -> bool {
        self.runs_futures() && self.driver().is_active()
    }

    /// Tells the driver how much the ring takes: what spilled would be overtaken by what comes later.
    pub(super) fn make_room(&self) {
        if self.drives() {
            self.driver().set_room(self.slot().ring.free());
        }
    }

    /// Tells others that this worker visits its driver, and whether it has time for more.
    pub(super) fn note_visit(&self) {
        if self.drives() {
            let much = self.slot().ring.len() >= HELD_BACK;
            self.driver().note_visit(if much { Tasks::Many } else { Tasks::Few });
        }
    }

    /// Whether a visit to the driver would bring something.
    pub(super) fn sees_completions(&self) -> bool {
        self.drives() && self.driver().sees_completions()
    }

    fn driver(&self) -> &Driver {
        self.shared().engine.driver(self.id() as usize)
    }
}

/// Visits of the event core.
impl Worker {
    pub(super) fn events(&self) {
        if self.may_skip_visit() {
            return;
        }
        self.visited.set((self.since.get(), self.tick.get()));
        self.deliver(|core| {
            core.poll();
        });
    }

    /// Has the event core tell what has happened. Tasks that this makes ready stay here for a moment
    /// (D1 of `schedule`): most are brief, and a neighbour that were woken for a few of them would keep their
    /// operations, and be woken for each of them from then on.
    pub(super) fn deliver(&self, tell: impl FnOnce(&mut dyn EventCore)) {
        self.apply_changes();
        self.make_room();
        self.delivering.set(true);
        // E4 of `core`.
        guard_user_code(|| tell(&mut **self.core.borrow_mut()));
        self.delivering.set(false);
        self.note_visit();
        if self.held_back.get() && self.slot().ring.len() >= HELD_BACK {
            self.share_held_back();
        }
    }

    /// Tells others of tasks that were held back, if any are left.
    pub(super) fn share_held_back(&self) {
        if self.held_back.replace(false) && !self.slot().ring.is_empty() {
            self.shared().notify(self.lane());
        }
    }

    /// Whether the visit to a driver that costs a system call each time can wait: there were one or a
    /// park a moment ago, and a worker that has nothing else to do parks there (K4 of `worker`).
    fn may_skip_visit(&self) -> bool {
        let ((at, tick), now) = (self.visited.get(), self.since.get());
        self.runs_futures()
            && !self.guest_core
            && self.shared().engine.visits_cost()
            && now.saturating_duration_since(at) < IO_AGE
            && self.tick.get() - tick < self.shared().config.io_interval as u64
    }

    /// Whether completions have waited for so long that they come before the next task (K4 of `worker`). Tasks that
    /// were held back for so long are for others, too. The clock is read after each task, or, if those before
    /// were brief, after some.
    pub(super) fn is_due(&self, driving: bool) -> bool {
        let age = || self.shared().clock.now().saturating_duration_since(self.since.get());
        let look = (driving || self.held_back.get())
            && (!self.brief.get() || self.tick.get().is_multiple_of(BRIEF_TASKS));
        let due = look && age() >= IO_AGE;
        if due {
            self.share_held_back();
        }
        due || self.frame_is_over()
    }
}
