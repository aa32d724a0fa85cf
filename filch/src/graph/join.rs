//! The counter of a node: how many predecessors it still waits for in a run.
//!
//! J1. The last predecessor to arrive fires the node, exactly one of them, and sees what the others did.
//! J2. A predecessor that failed or was skipped leaves its mark before it arrives, so whoever fires knows.
//! J3. Who has fired a node puts its counter back before the node's body begins, so nobody else is at it: those who arrive next come
//!     after the node in a loop, or belong to the next run.
//!
//! A counter that reads 1 without a mark is that of the last, whose arrival nobody else will write to: it needs no read-modify-write,
//! and the counter stays at 1 until it is put back.

use crate::base::shim::{AtomicU32, Ordering};

/// J2.
const SKIPPED: u32 = 1 << 31;

/// What an arrival leads to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Others are still awaited.
    Waits,
    /// The caller runs the node.
    Runs,
    /// The caller passes the node over.
    Skips,
}

#[derive(Debug)]
pub(super) struct Join(AtomicU32);

impl Join {
    pub(super) fn new(predecessors: u32) -> Self {
        debug_assert!(predecessors < SKIPPED);
        Self(AtomicU32::new(predecessors))
    }

    /// One more is awaited. The caller is itself awaited, so nobody fires meanwhile.
    pub(super) fn expect(&self) {
        // ORDERING: Relaxed, the caller's own arrival publishes it. Model: loom_tie_vs_end_fires_once.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before & !SKIPPED > 0, "the caller is awaited");
    }

    /// A predecessor has ended.
    #[inline(always)]
    pub(super) fn arrive(&self) -> Arrival {
        // ORDERING: Acquire pairs with the Release of those who came before (J1).
        // Model: loom_last_predecessor_fires_once.
        if self.0.load(Ordering::Acquire) == 1 {
            return Arrival::Runs;
        }
        // ORDERING: Release for whoever comes later, Acquire as above.
        match self.0.fetch_sub(1, Ordering::AcqRel) {
            1 => Arrival::Runs,
            before if before == SKIPPED | 1 => Arrival::Skips,
            _ => Arrival::Waits,
        }
    }

    /// A predecessor has failed or was skipped (J2).
    pub(super) fn arrive_skipped(&self) -> Arrival {
        // ORDERING: Relaxed, the arrival below publishes it.
        self.0.fetch_or(SKIPPED, Ordering::Relaxed);
        // ORDERING: AcqRel, as in `arrive`. Model: loom_a_skipped_predecessor_is_never_missed.
        match self.0.fetch_sub(1, Ordering::AcqRel) & !SKIPPED {
            1 => Arrival::Skips,
            _ => Arrival::Waits,
        }
    }

    /// Puts the counter back (J3), or at the beginning of a run.
    #[inline(always)]
    pub(super) fn reset(&self, predecessors: u32) {
        // ORDERING: Relaxed, the next to touch it comes after the node that the caller runs, or in the next run.
        self.0.store(predecessors, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Node {
        join: Join,
        /// What each predecessor did.
        work: [UnsafeCell<u32>; 2],
        runs: AtomicU32,
    }

    // SAFETY: what the model checks.
    unsafe impl Sync for Node {}

    impl Node {
        fn new() -> Arc<Self> {
            let work = [UnsafeCell::new(0), UnsafeCell::new(0)];
            Arc::new(Self { join: Join::new(2), work, runs: AtomicU32::new(0) })
        }

        fn end(&self, which: usize, round: u32) -> Arrival {
            // SAFETY: each predecessor has its own.
            self.work[which].with_mut(|work| unsafe { *work = round });
            self.join.arrive()
        }

        fn fire(&self, round: u32) {
            self.join.reset(2);
            for work in &self.work {
                // SAFETY: J1, both have arrived.
                work.with(|work| assert_eq!(unsafe { *work }, round));
            }
            // ORDERING: Relaxed, the joins of threads order it.
            self.runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn loom_last_predecessor_fires_once() {
        loom::model(|| {
            let node = Node::new();
            let other = {
                let node = node.clone();
                thread::spawn(move || {
                    if node.end(0, 1) == Arrival::Runs {
                        node.fire(1);
                    }
                })
            };
            if node.end(1, 1) == Arrival::Runs {
                node.fire(1);
            }
            other.join().unwrap();
            assert_eq!(node.runs.load(Ordering::Relaxed), 1, "J1");
        });
    }

    /// Who fires runs the predecessors again, as a loop does: the counter is right for the second round.
    #[test]
    fn loom_a_counter_is_back_for_the_next_round() {
        loom::model(|| {
            let node = Node::new();
            let second_round = |node: &Arc<Node>| {
                node.fire(1);
                let other = {
                    let node = node.clone();
                    thread::spawn(move || node.end(0, 2))
                };
                let mine = node.end(1, 2);
                let theirs = other.join().unwrap();
                assert!((mine == Arrival::Runs) ^ (theirs == Arrival::Runs), "J1");
            };
            let other = {
                let node = node.clone();
                thread::spawn(move || {
                    if node.end(0, 1) == Arrival::Runs {
                        second_round(&node);
                    }
                })
            };
            if node.end(1, 1) == Arrival::Runs {
                second_round(&node);
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn loom_a_skipped_predecessor_is_never_missed() {
        loom::model(|| {
            let node = Node::new();
            let other = {
                let node = node.clone();
                thread::spawn(move || node.join.arrive_skipped())
            };
            let mine = node.end(1, 1);
            let theirs = other.join().unwrap();
            assert_ne!(mine, Arrival::Runs, "J2");
            assert!((mine == Arrival::Skips) ^ (theirs == Arrival::Skips), "J1");
        });
    }
}
