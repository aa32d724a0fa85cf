//! How I/O reaches the workers: the engine's drivers as event cores, and what the engine borrows.
//!
//! A1. Driver *i* of the engine belongs to slot *i* of the I/O lane, spares included. Its slot's thread
//!     parks in it, unless the program brought event cores of its own: then nothing drives I/O.
//! A2. The thread of a slot ends its driver before it leaves: for good when the runtime stops, or by
//!     evacuation when a spare is not needed any more. So no thread ends with operations in flight.
//! A3. While a worker has operations in flight and is awake, the sentry watches, because completions
//!     depend on it.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::core::{EventCore, ParkCore};
use super::shared::{CoreFactory, Lane, Shared, Slot};
use super::worker::Worker;
use crate::config::{Config, IoBackend};
use crate::error::BuildError;
use crate::io::batch::Batch;
use crate::io::driver::{Driver, Ending, Kind};
use crate::io::engine::{Closure, Engine, Hooks};
use crate::io::uring::Mode;

/// Runs a closure on a thread for what blocks, as a task of the runtime.
pub(crate) type Offload = fn(&Shared, Closure);

/// A driver as the place where its slot's thread parks.
struct DriverCore {
    driver: Arc<Driver>,
    batch: Batch,
}

impl EventCore for DriverCore {
    fn poll(&mut self) -> usize {
        self.driver.visit(&mut self.batch)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.driver.park(timeout, &mut self.batch);
    }

    fn waker(&self) -> Waker {
        Waker::from(self.driver.clone())
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
    let offload = move |closure: Closure| {
        if let Some(shared) = shared.upgrade() {
            offload(&shared, closure);
        }
    };
    let hooks = Hooks { here, offload: Box::new(offload) };
    Engine::new(lane.staff, lane.workers, chain, hooks)
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
    if !worker.runs_futures() || !std::ptr::eq(&*worker.shared().engine, engine) {
        return None;
    }
    // A3.
    worker.ensure_watched();
    Some(worker.id() as usize)
}

impl Shared {
    /// Does for a stuck worker what its thread would do at its driver: submit, and tell what has
    /// completed. The caller is the sentry.
    pub(super) fn rescue_driver(&self, slot: &Slot) {
        let driver = self.engine.driver(slot.info.index);
        if driver.is_active() {
            let told = driver.visit(&mut Batch::new());
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
        let ending = if self.is_stopped() { Ending::Close } else { Ending::Evacuate };
        // Not as the slot's worker any more: whom this wakes goes to the others.
        self.driver().end(ending, &mut Batch::new());
    }

    /// Submits what this worker has queued, and tells what has completed: it is about to block, and
    /// others would find that only after a while.
    pub(super) fn flush_driver(&self) {
        if self.drives() {
            self.driver().visit(&mut Batch::new());
        }
    }

    /// Whether operations of this worker are in flight.
    pub(super) fn drives(&self) -> bool {
        self.runs_futures() && self.driver().is_active()
    }

    fn driver(&self) -> &Driver {
        self.shared().engine.driver(self.id() as usize)
    }
}
