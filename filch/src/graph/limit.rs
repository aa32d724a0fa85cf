//! Semaphores of graphs: how many nodes may be at work at once, without a thread that waits.
//!
//! L1. A node that is limited takes its permits in the order of the semaphores' ids, and may wait at one with those before it in its
//!     hands. One order for all makes no circle, so who waits is served.
//! L2. Who waits is its token, with its unit (W1 of `work`), in the queue of one semaphore. Permits are handed over in the order of
//!     arrival: who gives back goes on acquiring for who waited, and runs whom nothing is missing any more.
//! L3. No more permits are out than there are: they change under the semaphore's lock alone.

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use super::slot::Slot;
use crate::base::shim::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::task::node::NodeEntry;

/// Limits how many nodes are at work at the same time, in one graph or in several.
///
/// A node that finds no permit waits, not its thread. See [`Graph::limit`](crate::Graph::limit).
///
/// ```
/// use filch::graph::Semaphore;
/// let one_at_a_time = Semaphore::new(1);
/// let mut g = filch::Graph::new();
/// for _ in 0..10 {
///     let node = g.node("", || ());
///     g.limit(node, &one_at_a_time, 1);
/// }
/// g.run();
/// assert_eq!(one_at_a_time.available(), 1);
/// ```
#[derive(Clone)]
pub struct Semaphore(Arc<Inner>);

struct Inner {
    id: u64,
    most: u32,
    state: Mutex<State>,
}

struct State {
    permits: u32,
    /// L2.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    token: NodeEntry,
    weight: u32,
    /// Which of the node's limits this semaphore is.
    stage: usize,
}

impl Semaphore {
    /// A semaphore with so many permits.
    ///
    /// ```
    /// assert_eq!(filch::graph::Semaphore::new(3).available(), 3);
    /// ```
    pub fn new(permits: u32) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        // ORDERING: Relaxed, only uniqueness matters.
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let state = State { permits, waiting: VecDeque::new() };
        Self(Arc::new(Inner { id, most: permits, state: Mutex::new(state) }))
    }

    /// How many permits nobody has now.
    pub fn available(&self) -> usize {
        self.lock().permits as usize
    }

    /// How many permits there are in all.
    pub(super) fn most(&self) -> u32 {
        self.0.most
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing of the user's runs under the lock, so poison means nothing.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes permits, or has the token wait (L2).
    fn acquire(&self, token: NodeEntry, weight: u32, stage: usize) -> Acquired {
        let mut state = self.lock();
        if state.waiting.is_empty() && state.permits >= weight {
            state.permits -= weight;
            return Acquired::All;
        }
        state.waiting.push_back(Waiting { token, weight, stage });
        Acquired::Parked
    }

    /// Gives permits back; `None` if nobody can go on with them.
    fn give_back(&self, weight: u32) -> Option<Waiting> {
        let mut state = self.lock();
        state.permits += weight;
        debug_assert!(state.permits <= self.0.most, "L3");
        state.next()
    }
}

impl State {
    /// Hands permits to who waits longest, if there are enough.
    fn next(&mut self) -> Option<Waiting> {
        if self.waiting.front()?.weight > self.permits {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.permits -= first.weight;
        Some(first)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.0.most).finish_non_exhaustive()
    }
}

/// What a node needs of one semaphore.
#[derive(Clone)]
pub(super) struct Limit {
    pub(super) semaphore: Semaphore,
    pub(super) weight: u32,
}

/// What came of acquiring.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acquired {
    All,
    /// The token waits, and may be running elsewhere already.
    Parked,
}

/// Takes all permits that the node of `token` needs (L1).
pub(super) fn acquire(slot: &Slot, token: NodeEntry) -> Acquired {
    acquire_from(slot, token, 0)
}

fn acquire_from(slot: &Slot, token: NodeEntry, stage: usize) -> Acquired {
    let limits = slot.plan().limits_of(token.index());
    for (stage, limit) in limits.iter().enumerate().skip(stage) {
        if limit.semaphore.acquire(token, limit.weight, stage) == Acquired::Parked {
            return Acquired::Parked;
        }
    }
    Acquired::All
}

/// Gives the permits of a node back, and calls `run` with the tokens of those who have all of theirs now.
pub(super) fn release(slot: &Slot, index: u32, run: &mut dyn FnMut(NodeEntry)) {
    for limit in slot.plan().limits_of(index) {
        let mut next = limit.semaphore.give_back(limit.weight);
        while let Some(Waiting { token, stage, .. }) = next {
            // SAFETY: L2, the token that waited is ours now.
            let other: NonNull<Slot> = unsafe { token.head() }.cast();
            // SAFETY: S3 of `slot`, the token's unit keeps its run.
            let other = unsafe { other.as_ref() };
            if acquire_from(other, token, stage + 1) == Acquired::All {
                run(token.granted());
            }
            next = limit.semaphore.lock().next();
        }
    }
}
