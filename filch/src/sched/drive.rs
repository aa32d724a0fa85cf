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
use super::visits::HELD_BACK;
use super::worker::Worker;
use crate::base::shim::Ordering;
use crate::config::{Config, IoBackend};
use crate::error::BuildError;
use crate::io::batch::Batch;
use crate::io::driver::{Caller, Driver, Ending, Kind, Tasks};
use crate::io::engine::Hooks;
pub(crate) use crate::io::engine::{Closure, Engine};
use crate::io::uring::Mode;

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

    /// Whether a visit to the driver costs a system call each time.
    pub(super) fn visits_cost(&self) -> bool {
        self.shared().engine.visits_cost()
    }

    fn driver(&self) -> &Driver {
        self.shared().engine.driver(self.id() as usize)
    }
}
