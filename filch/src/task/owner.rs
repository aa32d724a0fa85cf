//! The unit of a group that its future owns: whether it is in use, and who gives it back.
//!
//! ```text
//!   IDLE ◀───────▶ IN_USE        a poll of the body begins, and ends
//!    │                │
//!    └────▶ GIVEN ◀───┘          the future is dropped or its runtime ends; the body has ended
//! ```
//!
//! W1. GIVEN is made once, and whoever made it gives the unit back: the future, or the end of the
//!     runtime if nobody in that polls the future (`sched/kept`).
//! W2. While a poll has the unit IN_USE, nobody else gives it back. So the group is not finished, its
//!     runtime is there, and the body may add members (C3 of `count`).
//! W3. GIVEN is final: a body that finds its unit given is never polled again.
//!
//! Not here: how the end of a runtime finds such units (`sched/kept`).

use crate::base::shim::{AtomicU32, Ordering};

const IDLE: u32 = 0;
const IN_USE: u32 = 1;
const GIVEN: u32 = 2;

pub(crate) struct Owner(AtomicU32);

impl Owner {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// Begins a poll; false if the unit was given back (W3).
    #[must_use]
    pub(crate) fn begin_use(&self) -> bool {
        // ORDERING: Acquire, with the Release in `end_use`: this poll comes after the last one, whoever
        // made that. A failure touches nothing that others write.
        let was = self.0.compare_exchange(IDLE, IN_USE, Ordering::Acquire, Ordering::Relaxed);
        debug_assert_ne!(was, Err(IN_USE), "two polls of one future at a time");
        was.is_ok()
    }

    /// Ends a poll; the unit stays the future's.
    pub(crate) fn end_use(&self) {
        // ORDERING: Release pairs with the Acquire in `take`: what the poll did with the runtime
        // comes before its end. Model: loom_unit_is_given_back_once_and_not_during_a_poll.
        let was = self.0.swap(IDLE, Ordering::Release);
        debug_assert_eq!(was, IN_USE, "W2");
    }

    /// Ends the last poll: the unit is the caller's to give back (W1).
    pub(crate) fn end_use_for_good(&self) {
        // ORDERING: Relaxed, whoever finds GIVEN touches nothing; the caller's unit orders the rest.
        let was = self.0.swap(GIVEN, Ordering::Relaxed);
        debug_assert_eq!(was, IN_USE, "W2");
    }

    /// Takes a unit that no poll uses; true if it is the caller's to give back (W1).
    #[must_use]
    pub(crate) fn take(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `end_use`. A failure touches nothing.
        self.0.compare_exchange(IDLE, GIVEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether the future still has it.
    pub(crate) fn has_unit(&self) -> bool {
        // ORDERING: Relaxed, a hint: `take` decides.
        self.0.load(Ordering::Relaxed) != GIVEN
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::task::count::Count;

    /// A runtime that is gone with the last unit: used by polls, taken away by the end.
    struct Runtime {
        count: Count,
        owner: Owner,
        memory: UnsafeCell<bool>,
    }

    impl Runtime {
        fn poll(&self, also: impl FnOnce()) -> bool {
            if !self.owner.begin_use() {
                return false;
            }
            assert!(!self.count.is_finished(), "W2");
            // The body uses the runtime, adds a member, which ends, and uses the runtime again.
            self.touch();
            self.count.add(1);
            self.leave();
            self.touch();
            also();
            true
        }

        fn touch(&self) {
            self.memory.with(|memory| {
                // SAFETY: W2, nobody writes while a unit is out; loom checks it.
                assert!(unsafe { *memory });
            });
        }

        fn leave(&self) {
            if self.count.sub(1) {
                // SAFETY: the last unit was ours; loom checks that nobody reads any more.
                self.memory.with_mut(|memory| unsafe { *memory = false });
            }
        }
    }

    fn runtime() -> Arc<Runtime> {
        Arc::new(Runtime {
            count: Count::new(),
            owner: Owner::new(),
            memory: UnsafeCell::new(true),
        })
    }

    /// A future is polled twice elsewhere and then dropped, while its runtime ends.
    #[test]
    fn loom_unit_is_given_back_once_and_not_during_a_poll() {
        loom::model(|| {
            let runtime = runtime();
            let kept = {
                let runtime = runtime.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        if runtime.poll(|| ()) {
                            runtime.owner.end_use();
                        }
                    }
                    if runtime.owner.take() {
                        runtime.leave();
                    }
                })
            };
            for _ in 0..2 {
                if runtime.owner.take() {
                    runtime.leave();
                }
            }
            kept.join().unwrap();
            assert!(runtime.count.is_finished(), "W1: somebody has given it back");
            assert!(!runtime.owner.begin_use(), "W3");
        });
    }

    /// The body ends in a poll while its runtime ends.
    #[test]
    fn loom_body_that_ends_beside_the_runtime_gives_its_unit_back_once() {
        loom::model(|| {
            let runtime = runtime();
            let kept = {
                let runtime = runtime.clone();
                thread::spawn(move || {
                    if runtime.poll(|| runtime.owner.end_use_for_good()) {
                        runtime.leave();
                    }
                    assert!(!runtime.owner.take(), "W1");
                })
            };
            if runtime.owner.take() {
                runtime.leave();
            }
            kept.join().unwrap();
            assert!(runtime.count.is_finished(), "W1: somebody has given it back");
        });
    }
}
