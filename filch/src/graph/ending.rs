//! The end of a run: who is told, and who touches what last.
//!
//! ```text
//!   RUNNING ──────────────▶ DONE        the finisher
//!     │  ▲ register           ▲
//!     ▼  │ (again)            │
//!   WAITING ──────────────────┘         the finisher, with the waker in its hands
//!     │
//!     └──▶ LET_GO                       the waiter goes first: the finisher cleans up
//! ```
//!
//! N1. Only the one finisher makes DONE, and that is its last touch of the run, unless the waiter let go.
//! N2. The waker's place belongs to the waiter in RUNNING and to the finisher once it has made TAKING of WAITING.
//! N3. In LET_GO the waiter has gone for good, and everything is the finisher's.
//!
//! Not here: how a thread sleeps (`sched/blocking.rs`).

use std::task::Waker;

use crate::base::shim::{AtomicU32, Ordering, UnsafeCell, yield_now};

const RUNNING: u32 = 0;
const WAITING: u32 = 1;
/// The finisher, or the waiter itself, is at the waker's place.
const TAKING: u32 = 2;
const DONE: u32 = 3;
const LET_GO: u32 = 4;

/// Who cleans up.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The waiter, which is there or will come.
    Waiter,
    /// Whoever asks.
    Caller,
}

pub(super) struct Ending {
    state: AtomicU32,
    /// N2.
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: N2 says whose the waker is at any time.
unsafe impl Sync for Ending {}

impl Ending {
    pub(super) fn new() -> Self {
        Self { state: AtomicU32::new(DONE), waker: UnsafeCell::new(None) }
    }

    /// A run begins. The run is the caller's alone.
    pub(super) fn begin(&self) {
        // ORDERING: Relaxed, the first entry publishes it.
        self.state.store(RUNNING, Ordering::Relaxed);
    }

    /// There is no run any more. The run is the caller's alone.
    pub(super) fn rest(&self) {
        // ORDERING: Relaxed, published with the slot.
        self.state.store(DONE, Ordering::Relaxed);
    }

    pub(super) fn is_done(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `finish`: all of the run is seen.
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Has `waker` woken at the end; false if the run is done. For the one waiter.
    #[must_use]
    pub(super) fn register(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        loop {
            // ORDERING: Acquire pairs with the Release in `finish`, for DONE.
            match self.state.load(Ordering::Acquire) {
                DONE => return false,
                RUNNING => break,
                WAITING => {
                    // ORDERING: Relaxed, the waker's place comes back from nobody but this thread
                    // or the one that polled before, which its executor orders.
                    let taken = self.state.compare_exchange(
                        WAITING,
                        RUNNING,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    if taken.is_ok() {
                        break;
                    }
                }
                // The finisher has the old waker and is about to be done.
                _ => yield_now(),
            }
        }
        // SAFETY: N2, RUNNING, and this is the one waiter.
        let old = self.waker.with_mut(|place| unsafe { (*place).replace(waker) });
        // ORDERING: Release hands the waker to the finisher; Acquire pairs with the Release in
        // `finish`, for DONE. Model: loom_waiter_is_woken_or_sees_the_end.
        let waits = self
            .state
            .compare_exchange(RUNNING, WAITING, Ordering::Release, Ordering::Acquire)
            .is_ok();
        if !waits {
            // SAFETY: N2, the finisher found RUNNING and does not touch it.
            drop(self.waker.with_mut(|place| unsafe { (*place).take() }));
        }
        drop(old);
        waits
    }

    /// The run is over (N1). The waker that is to be woken is returned; whoever waits may have
    /// gone by then.
    pub(super) fn finish(&self) -> (Keeper, Option<Waker>) {
        // ORDERING: Release pairs with the Acquire in `is_done` and `register`; Acquire takes over
        // what a waiter left that let go.
        match self.state.compare_exchange(RUNNING, DONE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => (Keeper::Waiter, None),
            Err(LET_GO) => (Keeper::Caller, None),
            Err(_) => self.finish_waiting(),
        }
    }

    #[cold]
    fn finish_waiting(&self) -> (Keeper, Option<Waker>) {
        loop {
            // ORDERING: Acquire pairs with the Release in `register`: the waker is seen.
            match self.state.compare_exchange(WAITING, TAKING, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(LET_GO) => return (Keeper::Caller, None),
                // It is about to register anew.
                Err(_) => match self.state.compare_exchange(
                    RUNNING,
                    DONE,
                    // ORDERING: as in `finish`.
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(_) => return (Keeper::Waiter, None),
                    Err(LET_GO) => return (Keeper::Caller, None),
                    Err(_) => {}
                },
            }
        }
        // SAFETY: N2, TAKING is ours.
        let waker = self.waker.with_mut(|place| unsafe { (*place).take() });
        // ORDERING: Release pairs with the Acquire in `is_done` and `register`, Acquire with the Release in `let_go`.
        match self.state.compare_exchange(TAKING, DONE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => (Keeper::Waiter, waker),
            Err(_) => (Keeper::Caller, None),
        }
    }

    /// The waiter goes (N3). `Caller` if the run was over.
    pub(super) fn let_go(&self) -> Keeper {
        // ORDERING: Acquire, the waker may be that of another thread which polled.
        let taken =
            self.state.compare_exchange(WAITING, RUNNING, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            // SAFETY: N2, RUNNING, and this is the one waiter.
            let old = self.waker.with_mut(|place| unsafe { (*place).take() });
            drop(old);
        }
        // ORDERING: Release hands over to the finisher, Acquire takes over from it.
        // Model: loom_waiter_that_goes_leaves_all_to_one.
        match self.state.swap(LET_GO, Ordering::AcqRel) {
            DONE => Keeper::Caller,
            _ => Keeper::Waiter,
        }
    }
}

#[cfg(all(test, loom))]
mod model;
