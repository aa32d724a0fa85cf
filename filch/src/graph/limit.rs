//! Semaphores of graphs: how many nodes may be at work at once, without a thread that waits.
//!
//! L1. A node that is limited takes its permits in the order of the semaphores' ids, and may wait at one with those before it in its
//!     hands. One order for all makes no circle, so who waits is served.
//! L2. Who waits is its token, with its unit (W1 of `work`). Who gives permits back goes on acquiring for who waited, and runs whom nothing is
//!     missing any more.
//!
//! Not here: the permits of one semaphore (`permits`).

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::permits::{Acquired, Permits};
use super::slot::Slot;
use crate::base::shim::{AtomicU64, Ordering};
use crate::base::sim;
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
    permits: Permits<Waiting>,
}

/// A token that waits, and at which of the limits of its node.
struct Waiting {
    token: NodeEntry,
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
        Self(Arc::new(Inner { id, permits: Permits::new(permits) }))
    }

    /// How many permits nobody has now.
    ///
    /// ```
    /// let semaphore = filch::graph::Semaphore::new(1);
    /// let mut g = filch::Graph::new();
    /// let node = g.node("a", || assert_eq!(semaphore.available(), 0));
    /// g.limit(node, &semaphore, 1);
    /// g.run();
    /// assert_eq!(semaphore.available(), 1);
    /// ```
    pub fn available(&self) -> usize {
        self.0.permits.free() as usize
    }

    /// How many permits there are in all.
    pub(super) fn most(&self) -> u32 {
        self.0.permits.most()
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.most()).finish_non_exhaustive()
    }
}

/// What a node needs of one semaphore.
#[derive(Clone)]
pub(super) struct Limit {
    pub(super) semaphore: Semaphore,
    pub(super) weight: u32,
}

/// Takes all permits that the node of `token` needs (L1).
pub(super) fn acquire(slot: &Slot, token: NodeEntry) -> Acquired {
    acquire_from(slot, token, 0)
}

fn acquire_from(slot: &Slot, token: NodeEntry, stage: usize) -> Acquired {
    let limits = slot.plan().limits_of(token.index());
    for (stage, limit) in limits.iter().enumerate().skip(stage) {
        let who = || Waiting { token, stage };
        if limit.semaphore.0.permits.acquire(who, limit.weight) == Acquired::Parked {
            // From here on the token is another's, and so may the run be.
            sim::point();
            return Acquired::Parked;
        }
    }
    Acquired::All
}

/// Gives the permits of a node back, and calls `run` with the tokens of those who have all of theirs now.
pub(super) fn release(slot: &Slot, index: u32, run: &mut dyn FnMut(NodeEntry)) {
    for limit in slot.plan().limits_of(index) {
        limit.semaphore.0.permits.give_back(limit.weight, |Waiting { token, stage }| {
            // SAFETY: L2, the token that waited is ours now.
            let other: NonNull<Slot> = unsafe { token.head() }.cast();
            // SAFETY: S3 of `slot`, the token's unit keeps its run.
            let other = unsafe { other.as_ref() };
            if acquire_from(other, token, stage + 1) == Acquired::All {
                run(token.granted());
            }
        });
    }
}
