//! Turns: who may go on, and what has to end first. For operations on one file or socket.
//!
//! N1. One at a time holds a `Line`, from `poll_take` to `let_go`, on whatever thread that is.
//! N2. A line that is let go wakes all who wait for it; the first to come takes it.
//! N3. A `Gate` is open while nothing that was added is unfinished. Who finds it closed is woken when it
//!     opens.
//!
//! Who waits for either is in `waiters`.

use std::task::Poll;

use super::waiters::{Awaited, SharedWaiters, WaitId, Waiter};
use crate::base::shim::{AtomicU32, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
mod model;

/// Nobody has the line.
const FREE: u32 = 0;
/// Somebody has it.
const HELD: u32 = 1;
/// Somebody has it, and others wait.
const AWAITED: u32 = 2;

/// See N1.
#[derive(Debug)]
pub(crate) struct Line {
    word: AtomicU32,
    waiters: SharedWaiters,
}

/// See N3.
#[derive(Debug)]
pub(crate) struct Gate {
    unfinished: AtomicUsize,
    waiters: SharedWaiters,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(FREE), waiters: SharedWaiters::default() }
    }

    /// Takes the line if nobody has it.
    pub(crate) fn try_take(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `let_go`: who takes the line sees what was done
        // by who had it. Relaxed on failure, nothing is read then.
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the line, or waits for it.
    pub(crate) fn poll_take(&self, who: Waiter<'_>) -> Poll<()> {
        if self.try_take() {
            return Poll::Ready(());
        }
        // ORDERING: Acquire as in `try_take`. Under the lock, so that who lets go of an AWAITED line
        // finds the waker; model: loom_line_hands_over.
        self.waiters.wait(who, || self.word.swap(AWAITED, Ordering::Acquire) != FREE)
    }

    pub(crate) fn let_go(&self) {
        // ORDERING: Release pairs with the Acquires above.
        let before = self.word.swap(FREE, Ordering::Release);
        debug_assert_ne!(before, FREE, "N1: only who holds the line lets go of it");
        if before == AWAITED {
            self.waiters.wake_all();
        }
    }
}

impl Awaited for Line {
    fn give_up(&self, id: WaitId) {
        self.waiters.give_up(id);
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { unfinished: AtomicUsize::new(0), waiters: SharedWaiters::default() }
    }

    /// Something begins that others have to wait for.
    pub(crate) fn add(&self) {
        // ORDERING: Relaxed, it publishes nothing: who has to wait comes after this by its own means.
        self.unfinished.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn finish(&self) {
        // ORDERING: Release pairs with the Acquires in `poll_open`: who passes sees what has ended. The
        // lock is taken afterwards, so a waiter is found or has seen zero; model: loom_gate_opens.
        let before = self.unfinished.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "N3: what ends has begun");
        if before == 1 {
            self.waiters.wake_all();
        }
    }

    fn is_open(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `finish`.
        self.unfinished.load(Ordering::Acquire) == 0
    }

    /// Waits until everything has ended.
    #[inline]
    pub(crate) fn poll_open(&self, who: Waiter<'_>) -> Poll<()> {
        if self.is_open() {
            return Poll::Ready(());
        }
        self.waiters.wait(who, || !self.is_open())
    }
}

impl Awaited for Gate {
    fn give_up(&self, id: WaitId) {
        self.waiters.give_up(id);
    }
}
