//! Permits: a number of them, and who waits for some, in the order of arrival.
//!
//! P1. No more permits are out than there are: they change under the lock alone.
//! P2. Who waits comes before who arrives later, so a heavy one is not passed by light ones for ever.
//! P3. Who gives permits back is told who can go on, until nobody can: nobody waits while there are enough.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::base::shim::{Mutex, MutexGuard};

pub(super) struct Permits<T> {
    most: u32,
    state: Mutex<State<T>>,
}

struct State<T> {
    free: u32,
    waiting: VecDeque<(T, u32)>,
}

/// What came of acquiring.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acquired {
    All,
    /// Who asked waits, and may have been let on already by somebody else.
    Parked,
}

impl<T> Permits<T> {
    pub(super) fn new(most: u32) -> Self {
        Self { most, state: Mutex::new(State { free: most, waiting: VecDeque::new() }) }
    }

    /// How many there are in all.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// How many nobody has.
    pub(super) fn free(&self) -> u32 {
        self.lock().free
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing of the user's runs under the lock, so poison means nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `weight` permits, or has `who` wait for them (P2).
    pub(super) fn acquire(&self, who: impl FnOnce() -> T, weight: u32) -> Acquired {
        let mut state = self.lock();
        if state.waiting.is_empty() && state.free >= weight {
            state.free -= weight;
            return Acquired::All;
        }
        state.waiting.push_back((who(), weight));
        Acquired::Parked
    }

    /// Gives permits back, and calls `go_on` with everybody who has theirs now (P3).
    pub(super) fn give_back(&self, weight: u32, mut go_on: impl FnMut(T)) {
        let mut next = {
            let mut state = self.lock();
            state.free += weight;
            debug_assert!(state.free <= self.most, "P1");
            state.next()
        };
        while let Some(who) = next {
            go_on(who);
            next = self.lock().next();
        }
    }
}

impl<T> State<T> {
    /// Hands permits to who waits longest, if there are enough.
    fn next(&mut self) -> Option<T> {
        if self.waiting.front()?.1 > self.free {
            return None;
        }
        let (who, weight) = self.waiting.pop_front()?;
        self.free -= weight;
        Some(who)
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::base::shim::{AtomicU32, Ordering};

    struct World {
        permits: Permits<u32>,
        out: AtomicU32,
        served: AtomicU32,
    }

    impl World {
        /// What a node does that has its permits: others may wait meanwhile, and go on in its stead.
        fn work(&self, weight: u32) {
            // ORDERING: Relaxed, all: the lock of the permits orders them.
            assert!(self.out.fetch_add(weight, Ordering::Relaxed) + weight <= 2, "P1");
            self.served.fetch_add(1, Ordering::Relaxed);
            self.out.fetch_sub(weight, Ordering::Relaxed);
            self.permits.give_back(weight, |weight| self.work(weight));
        }

        fn node(&self, weight: u32) {
            if self.permits.acquire(|| weight, weight) == Acquired::All {
                self.work(weight);
            }
        }
    }

    #[test]
    fn loom_everybody_is_served_and_nobody_too_early() {
        loom::model(|| {
            let world = Arc::new(World {
                permits: Permits::new(2),
                out: AtomicU32::new(0),
                served: AtomicU32::new(0),
            });
            let other = {
                let world = world.clone();
                thread::spawn(move || world.node(2))
            };
            world.node(1);
            world.node(2);
            other.join().unwrap();
            // ORDERING: Relaxed, the join orders it.
            assert_eq!(world.served.load(Ordering::Relaxed), 3, "P3");
            assert_eq!(world.permits.free(), 2);
        });
    }
}
