//! Threads from outside that work here: for the length of one call, or adopted for longer.
//!
//! A guest has a slot of the job lane, and with it a deque that others steal from. It never runs
//! the worker's loop: it runs what its own calls fork or wait for.
//!
//! U1. A slot is free, or one thread's: taken and given back under the lock.
//! U2. What a guest leaves in its deque stays visible to thieves, who look at every slot that was
//!     ever used, and one of them is told.
//! U3. An adopted thread may fork only inside a call (`Forking`), which holds a unit of the group
//!     that it works for. So a thread that is between calls holds up nobody's end, and it cannot
//!     leave its slot while an entry on its stack lies there.
//!
//! Not here: what is run (`forks`, `blocking`), the face (`crate::adopt`).

use std::sync::Arc;

use super::blocking::Out;
use super::ripe::Ripeness;
use super::shared::{Phase, Shared, lock};
use super::worker::Worker;
use crate::base::shim::Mutex;
use crate::config::Config;
use crate::queue::deque::Deque;
use crate::task::context;
use crate::task::header::Header;

/// Why a thread has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// For one call.
    Call,
    /// Until its guard is dropped.
    Adopted,
}

/// A slot for a guest.
pub(crate) struct Place {
    slot: usize,
    /// What the last guest here left to the next, so that only the first allocates it.
    ripeness: Option<Ripeness>,
}

/// The free slots of either kind (U1).
pub(crate) struct Guests {
    free: Mutex<[Vec<Place>; 2]>,
}

impl Guests {
    /// How many slots a configuration asks for.
    pub(crate) fn count(config: &Config) -> usize {
        config.adoptable_threads + config.guest_threads
    }

    /// All slots are free; they are the last before `end`.
    pub(crate) fn new(config: &Config, end: usize) -> Self {
        let first = end - Self::count(config);
        let middle = first + config.guest_threads;
        // The lowest are handed out first, because thieves look at all up to the highest used.
        let place = |slot| Place { slot, ripeness: None };
        let free =
            [first..middle, middle..end].map(|slots| slots.rev().map(place).collect::<Vec<_>>());
        Self { free: Mutex::new(free) }
    }

    fn take(&self, stay: Stay) -> Option<Place> {
        lock(&self.free)[stay as usize].pop()
    }

    fn give_back(&self, stay: Stay, place: Place) {
        lock(&self.free)[stay as usize].push(place);
    }
}

/// A thread's place here; dropped, it is free again. Stays on its thread, as the worker does.
pub(crate) struct Guest {
    /// `Some` until the drop.
    worker: Option<Worker>,
    stay: Stay,
}

impl Guest {
    /// Takes a slot, if one is left.
    pub(crate) fn new(shared: &Arc<Shared>, stay: Stay) -> Option<Self> {
        let Place { slot, ripeness } = shared.guests.take(stay)?;
        let worker = match ripeness {
            Some(ripeness) => Worker::with_ripeness(shared.clone(), slot, ripeness.renewed()),
            None => Worker::new(shared.clone(), slot),
        };
        Some(Self { worker: Some(worker), stay })
    }

    /// A place that was given up already.
    pub(crate) fn gone() -> Self {
        Self { worker: None, stay: Stay::Call }
    }

    pub(crate) fn worker(&self) -> &Worker {
        self.worker.as_ref().expect("there until the drop")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        let (shared, slot) = (worker.shared().clone(), worker.index());
        if shared.process().is_parent() {
            // Its slot is the parent's.
            return std::mem::forget(worker);
        }
        let left = !worker.slot().deque.is_empty();
        let ripeness = Some(worker.leave());
        if left {
            // U2.
            shared.notify(&shared.lanes[shared.slots[slot].lane]);
        }
        if shared.phase() == Phase::Stopped {
            // Put back by a last look of ours while the others were cleared.
            shared.slots[slot].clear_deque();
        }
        shared.guests.give_back(self.stay, Place { slot, ripeness });
    }
}

/// Lets the current thread, which is that of `worker`, fork until dropped (X5, U3).
struct Forking<'a> {
    worker: &'a Worker,
    before: *const Deque<Header>,
}

impl<'a> Forking<'a> {
    fn of(worker: &'a Worker) -> Self {
        worker.forking.set(worker.forking.get() + 1);
        Self { worker, before: worker.open_deque() }
    }
}

impl Drop for Forking<'_> {
    fn drop(&mut self) {
        context::with(|cx| cx.deque.set(self.before));
        self.worker.forking.set(self.worker.forking.get() - 1);
    }
}

/// Runs `f` with a deque to fork into, or gives it back if there is no slot left. The caller holds
/// a unit of the current group, which is one of `shared`.
pub(crate) fn with_deque<R, F: FnOnce() -> R>(shared: &Arc<Shared>, f: F) -> Result<R, F> {
    // SAFETY: used only while this call lasts.
    let worker = unsafe { Worker::of_runtime(Arc::as_ptr(shared)) };
    if let Some(worker) = worker.filter(|worker| worker.runs_jobs()) {
        let _forking = Forking::of(worker);
        return Ok(f());
    }
    let Some(guest) = Guest::new(shared, Stay::Call) else { return Err(f) };
    // An I/O worker that computes is as good as blocked (B3).
    let _out = Out::of_this_thread();
    Ok(guest.worker().enter(|| {
        let _forking = Forking::of(guest.worker());
        f()
    }))
}
