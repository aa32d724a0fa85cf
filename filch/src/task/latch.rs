//! The latch of a stack job: who took it, whether it has ended, whether somebody sleeps on it.
//!
//! ```text
//!   OPEN ──────────────▶ SET        the taker, when the job has ended
//!     │ lie_down          ▲
//!     └──▶ SLEEPING ──────┘         the owner, when it has nothing to do meanwhile
//! ```
//!
//! L1. SET is final, and made once, by whoever took the job. It is the taker's last touch of the
//!     latch and of all that it guards: the owner may return, and the memory be gone, before the
//!     taker's next instruction. So the word says *whether* to unpark, and the taker has noted
//!     *whom* before (PITFALL: a tracker on the waiter's stack).
//! L2. Only the owner makes SLEEPING, and only before it parks: a taker that finds it unparks once.
//! L3. The two slot numbers are written once, by the taker, before the job runs; the owner reads
//!     them to know whose deque holds what it waits for.
//!
//! Not here: what is guarded (`stack`), what the owner does while it waits (`sched/forks.rs`).

use crate::base::shim::{AtomicU64, Ordering};

const SLEEPING: u64 = 1 << 0;
const SET: u64 = 1 << 1;
const OWNER_SHIFT: u32 = 16;
const TAKER_SHIFT: u32 = 40;
const SLOT: u64 = 0xFF_FFFF;

/// What the taker still owes after [`Latch::set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Owner {
    /// It looks in from time to time.
    Awake,
    /// Unpark it.
    Asleep,
}

#[derive(Debug)]
pub(crate) struct Latch(AtomicU64);

impl Latch {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether the job has ended. If so, its outcome is visible.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `set`.
        self.0.load(Ordering::Acquire) & SET != 0
    }

    /// The worker in slot `taker` has taken the job from the deque of slot `owner` (L3).
    pub(crate) fn take(&self, owner: usize, taker: usize) {
        debug_assert!(owner as u64 <= SLOT && (taker as u64) < SLOT);
        let parties = (owner as u64) << OWNER_SHIFT | (taker as u64 + 1) << TAKER_SHIFT;
        // ORDERING: Relaxed, numbers of slots, which are there for good; nothing is published.
        let before = self.0.fetch_or(parties, Ordering::Relaxed);
        debug_assert_eq!(before & !SLEEPING, 0, "L3: taken twice");
    }

    /// The slot whose deque the job was taken from. For the taker.
    pub(crate) fn owner(&self) -> usize {
        // ORDERING: Relaxed, the taker wrote it.
        (self.0.load(Ordering::Relaxed) >> OWNER_SHIFT & SLOT) as usize
    }

    /// The slot of the worker that took the job, once it has said so.
    pub(crate) fn taker(&self) -> Option<usize> {
        // ORDERING: Relaxed, a number that says where to look (L3).
        let taker = self.0.load(Ordering::Relaxed) >> TAKER_SHIFT & SLOT;
        (taker as usize).checked_sub(1)
    }

    /// The owner is about to park; false if the job has ended.
    #[must_use]
    pub(crate) fn lie_down(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `set` if it came first; SLEEPING itself
        // publishes nothing. Model: loom_owner_sleeps_until_set.
        self.0.fetch_or(SLEEPING, Ordering::Acquire) & SET == 0
    }

    /// The job has ended and its outcome is written (L1).
    ///
    /// # Safety
    /// The caller took the job and is done with it; it does not touch the latch again.
    pub(crate) unsafe fn set(this: *const Self) -> Owner {
        // SAFETY: by the caller's promise the latch is not set yet, so its owner is still there.
        let word = unsafe { &(*this).0 };
        // ORDERING: Release pairs with the Acquire in `is_set` and `lie_down`: the outcome is
        // visible. Acquire is not needed, nothing of the owner's is read.
        match word.fetch_or(SET, Ordering::Release) & SLEEPING {
            0 => Owner::Awake,
            _ => Owner::Asleep,
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::base::parker::Parker;
    use crate::base::shim::UnsafeCell;

    /// What lies on the owner's stack.
    struct Job {
        latch: Latch,
        outcome: UnsafeCell<u32>,
    }

    // SAFETY: the latch guards the outcome, which is what the model checks.
    unsafe impl Sync for Job {}

    /// The owner frees the job as soon as it may: a taker that touches it later is reported.
    fn owner_and_taker(owner: impl Fn(&Job, &Parker) + Send + Sync + Copy + 'static) {
        loom::model(move || {
            let bed = Arc::new(Parker::new());
            let job = Box::new(Job { latch: Latch::new(), outcome: UnsafeCell::new(0) });
            let raw = Box::into_raw(job) as usize;
            let taker = {
                let bed = bed.clone();
                thread::spawn(move || {
                    let job = raw as *const Job;
                    // SAFETY: not set yet.
                    unsafe { &*job }.latch.take(3, 4);
                    // SAFETY: not set yet, the outcome is ours.
                    unsafe { &*job }.outcome.with_mut(|outcome| unsafe { *outcome = 7 });
                    // SAFETY: taken above, and not touched again.
                    if unsafe { Latch::set(&raw const (*job).latch) } == Owner::Asleep {
                        bed.unpark();
                    }
                })
            };
            // SAFETY: freed below only.
            let job = unsafe { &*(raw as *const Job) };
            owner(job, &bed);
            // SAFETY: L1, set: the taker is done with it.
            job.outcome.with(|outcome| assert_eq!(unsafe { *outcome }, 7));
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(raw as *mut Job) });
            taker.join().unwrap();
        });
    }

    #[test]
    fn loom_owner_sleeps_until_set() {
        owner_and_taker(|job, bed| {
            if job.latch.lie_down() {
                bed.park();
            }
            assert!(job.latch.is_set());
        });
    }

    #[test]
    fn loom_owner_looks_then_sleeps() {
        owner_and_taker(|job, bed| {
            if job.latch.is_set() {
                return;
            }
            assert!(job.latch.taker().is_none_or(|slot| slot == 4));
            if job.latch.lie_down() {
                bed.park();
            }
            assert!(job.latch.is_set());
        });
    }
}
