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
//! U4. A guard that is dropped while the place may be in use further down the stack (X7 of `context`) leaves
//!     the adoption to the thread. It ends with the outermost call of the library that returns there, at the latest with the
//!     thread.
//!
//! Not here: what is run (`forks`, `blocking`), the face (`crate::adopt`).

use std::ptr;
use std::sync::Arc;

use super::blocking::Out;
use super::ripe::Ripeness;
use super::shared::{Phase, Shared, lock};
use super::worker::Worker;
use crate::base::shim::Mutex;
use crate::config::Config;
use crate::queue::deque::Deque;
use crate::task::context::{self, Context};
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

/// When an adoption ends whose guard is dropped.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Now,
    /// With the call of this place that the guard is dropped in.
    AfterCall,
    /// When whoever covers it, or has called user code, is done.
    Uncovered,
}

/// Makes this thread, which has no worker, a guest that stays.
pub(crate) fn adopt(shared: &Arc<Shared>) -> Option<Box<Guest>> {
    let guest = Box::new(Guest::new(shared, Stay::Adopted)?);
    guest.worker().become_current();
    Some(guest)
}

/// Ends the adoption of this thread, at once or later (U4).
pub(crate) fn end(guest: Box<Guest>) -> Ends {
    if guest.worker().shared().process().is_parent() {
        // W4 of `forked`: the place is the parent's, and this thread has left it.
        std::mem::forget(guest);
        return Ends::Uncovered;
    }
    let ends = guest.worker().ends_when();
    if ends == Ends::Now {
        leave(guest);
    } else {
        let guest = Box::into_raw(guest);
        let before = context::with(|cx| cx.left.replace(guest.cast()));
        debug_assert!(before.is_null(), "a thread is adopted once at a time");
        // Not there if the thread is ending; then a call that ends later is the last chance.
        let _ = AT_EXIT.try_with(|_| ());
    }
    ends
}

/// Ends the adoption whose guard went too early, if nothing uses its place any more (U4).
#[inline]
pub(crate) fn end_left() {
    if context::with(|cx| !cx.left.get().is_null()) {
        end_left_now();
    }
}

#[cold]
fn end_left_now() {
    let guest: *mut Guest = context::with(|cx| cx.left.get()).cast();
    // SAFETY: as below.
    if unsafe { &*guest }.worker().shared().process().is_parent() {
        // W4 of `forked`.
        return context::with(|cx| cx.left.set(ptr::null_mut()));
    }
    // SAFETY: made from a box by `end`, and taken by nobody yet: that clears `left`.
    let ends = unsafe { &*guest }.worker().ends_when();
    if ends == Ends::Now {
        context::with(|cx| cx.left.set(ptr::null_mut()));
        // SAFETY: as above; `left` was the only pointer to it.
        leave(unsafe { Box::from_raw(guest) });
    }
}

/// The thread has no worker any more.
fn leave(guest: Box<Guest>) {
    context::with(|cx| {
        cx.worker.set(ptr::null());
        cx.cache.set(ptr::null());
    });
    drop(guest);
}

/// Calls [`end_left`] when it is dropped.
pub(super) struct EndLeft;

impl Drop for EndLeft {
    fn drop(&mut self) {
        end_left();
    }
}

thread_local! {
    /// Touched by a thread that has an adoption left, so that this ends with it.
    static AT_EXIT: EndLeft = const { EndLeft };
}

impl Worker {
    /// When an adoption of this worker may end (X7 of `context`).
    fn ends_when(&self) -> Ends {
        if !self.is_current() {
            return Ends::Uncovered;
        }
        // Also at the end of a task, when its frame is gone and a waker of the user's is called.
        let in_call = self.forking.get() > 0 || self.slot().is_in_task();
        if in_call || context::is_inside(Arc::as_ptr(self.shared()).cast()) {
            return Ends::AfterCall;
        }
        match context::with(Context::is_inside_call) {
            true => Ends::Uncovered,
            false => Ends::Now,
        }
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
    Ok(guest.worker().lend(|| {
        let _forking = Forking::of(guest.worker());
        f()
    }))
}
