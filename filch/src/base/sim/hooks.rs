//! What the rest of the library calls.
//!
//! A1. `ME` is null on every thread but a participant's, and points to what lies on that thread's
//!     stack for as long as its body runs.
//! A2. `RUNNING` counts the simulations of the process; while it is not zero, `light()` takes its
//!     slow branch, which is a real fence and a switch.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use super::state::{Key, Kind, What};
use super::world::{Annex, Seat, World};
use crate::base::barrier;
use crate::base::clock::ManualClock;
use crate::base::parker::Plain;
use crate::base::shim::{AtomicBool, Mutex, Ordering};

/// Whether a simulation runs in this process: what hooks look at first (H3).
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// How many do (A2).
static RUNNING: Mutex<usize> = Mutex::new(0);

thread_local! {
    /// A1.
    static ME: Cell<*const Participant> = const { Cell::new(ptr::null()) };
}

/// A thread that takes part in a simulation, as it knows itself.
pub(super) struct Participant {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
    /// Where it waits for the baton.
    pub(super) gate: Arc<Plain>,
    /// Its deadlines are housekeeping: a program that waits for nothing else waits for ever.
    pub(super) background: Cell<bool>,
}

impl Participant {
    /// B2 of `world`.
    pub(super) fn wait_for_ever(&self) -> ! {
        loop {
            self.gate.park();
        }
    }

    /// Runs `body` as this participant.
    pub(super) fn live<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                ME.set(ptr::null());
            }
        }
        debug_assert!(ME.get().is_null(), "A1: a participant starts one");
        ME.set(self);
        let _leave = Leave;
        body()
    }
}

/// Evidence that a simulation runs (A2).
pub(crate) struct Running(());

impl Running {
    pub(crate) fn begin() -> Self {
        barrier::init();
        #[cfg(unix)]
        super::crash::install();
        Self::change(|running| running + 1);
        Self(())
    }

    fn change(to: impl FnOnce(usize) -> usize) {
        let mut running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *running = to(*running);
        barrier::set_light_is_slow(*running > 0);
        // ORDERING: Relaxed, publishes nothing: participants start after it, by way of a thread
        // start, and a stale `true` elsewhere costs a look at `ME`.
        ACTIVE.store(*running > 0, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        Self::change(|running| running - 1);
    }
}

#[inline(always)]
fn is_active() -> bool {
    // ORDERING: Relaxed, see `Running::change`.
    ACTIVE.load(Ordering::Relaxed)
}

#[inline]
fn with<R>(f: impl FnOnce(&Participant) -> R) -> Option<R> {
    if !is_active() {
        return None;
    }
    let me = ME.get();
    // SAFETY: A1.
    unsafe { me.as_ref() }.map(f)
}

/// Whether the calling thread takes part in a simulation.
#[inline]
pub(crate) fn is_on() -> bool {
    with(|_| ()).is_some()
}

/// A place where others may go first.
#[inline(always)]
pub(crate) fn point() {
    if is_active() {
        switch();
    }
}

#[cold]
fn switch() {
    with(|me| me.world.switch(me, Kind::Point));
}

/// A place where others should go first; false if this is no simulation.
pub(crate) fn give_way() -> bool {
    with(|me| me.world.switch(me, Kind::Yield)).is_some()
}

/// Parks the participant until `unpark` of the same key or the deadline; false if this is none.
pub(crate) fn park(key: usize, deadline: Option<Instant>) -> bool {
    wait(Key::Address(key), deadline, What::Parked)
}

/// Waits until `wake` of the same key or the deadline; false if this is no simulation.
pub(crate) fn wait(key: Key, deadline: Option<Instant>, what: What) -> bool {
    with(|me| me.world.block(me, key, deadline, what)).is_some()
}

/// Ends the park of a participant of this simulation; false if there is none such.
pub(crate) fn unpark(key: usize) -> bool {
    wake(Key::Address(key))
}

/// Ends the waits for `key`; false if there was none, or this is no simulation.
pub(crate) fn wake(key: Key) -> bool {
    with(|me| me.world.wake(key)).unwrap_or(false)
}

/// Ends one of the waits for `key`, by the seed's choice.
pub(crate) fn wake_one(key: Key) {
    with(|me| me.world.wake_one(key));
}

/// The time: that of the simulation, or the system's.
pub(crate) fn now() -> Instant {
    clock().map_or_else(Instant::now, |clock| clock.now())
}

/// The clock of the simulation that the calling thread takes part in.
pub(crate) fn clock() -> Option<Arc<ManualClock>> {
    with(|me| me.world.clock().clone())
}

/// The seed of the simulation.
#[cfg(unix)]
pub(super) fn seed() -> Option<u64> {
    with(|me| me.world.seed())
}

/// The participant's number.
pub(crate) fn number() -> Option<usize> {
    with(|me| me.number)
}

/// A random number of the simulation's seed.
pub(crate) fn random() -> Option<u64> {
    with(|me| me.world.random())
}

/// Whether a loop that passes the time should end early: now and then in a simulation, where it
/// costs much and saves nothing, and what comes after it is to be seen too.
pub(crate) fn cuts_short() -> bool {
    is_active() && random().is_some_and(|number| number % 4 == 0)
}

/// The first of `count` ids that no other task of the simulation has.
pub(crate) fn take_ids(count: u64) -> Option<u64> {
    with(|me| me.world.take_ids(count))
}

/// Runs `f`, whose deadlines are housekeeping: they do not count as something that will happen.
pub(crate) fn in_background<R>(f: impl FnOnce() -> R) -> R {
    let before = with(|me| me.background.replace(true));
    let result = f();
    if let Some(before) = before {
        with(|me| me.background.set(before));
    }
    result
}

/// Runs `f`, whose deadlines count as something that will happen, whatever it is a part of.
pub(crate) fn in_foreground<R>(f: impl FnOnce() -> R) -> R {
    let before = with(|me| me.background.replace(false));
    let result = f();
    if let Some(before) = before {
        with(|me| me.background.set(before));
    }
    result
}

/// What the simulated machine has besides threads and time.
pub(crate) fn annex() -> Option<Annex> {
    with(|me| me.world.annex().clone())
}

/// Starts a participant of this simulation; gives the body back if this is none.
pub(crate) fn start<F: FnOnce() + Send + 'static>(
    name: &str,
    stack_size: Option<usize>,
    body: F,
) -> Result<std::io::Result<Seat>, F> {
    match with(|me| me.world.clone()) {
        None => Err(body),
        Some(world) => Ok(world.start(name, stack_size, body)),
    }
}
