//! What the tests and the models of all queues share.

#[cfg(loom)]
pub(super) use models::*;
#[cfg(not(loom))]
pub(super) use threads::*;

use std::ptr::{self, NonNull};

use super::mailbox::Linked;
use crate::base::shim::{AtomicPtr, UnsafeCell};

/// A stand-in for a task: the queues never look inside, so a number in a pointer will do.
#[derive(Debug)]
pub(super) struct Item;

pub(super) fn item(number: usize) -> NonNull<Item> {
    NonNull::new(ptr::without_provenance_mut(number + 1)).expect("a number plus one is not null")
}

pub(super) fn number(item: NonNull<Item>) -> usize {
    item.addr().get() - 1
}

#[cfg(not(loom))]
mod threads {
    use std::thread::ScopedJoinHandle;

    use crate::base::shim::{AtomicU32, Ordering};

    /// Items per stress test.
    pub(crate) const STRESS: usize = crate::base::repeated(100_000);

    /// Waits for scoped threads one by one: ThreadSanitizer sees a join, not the end of a scope.
    pub(crate) fn join_all(threads: Vec<ScopedJoinHandle<'_, ()>>) {
        for thread in threads {
            thread.join().expect("a thread of the test panicked");
        }
    }

    /// Counts how often each item was taken.
    pub(crate) struct Tally(Vec<AtomicU32>);

    impl Tally {
        pub(crate) fn new(items: usize) -> Self {
            Self((0..items).map(|_| AtomicU32::new(0)).collect())
        }

        /// Notes that `number` was taken; panics at the second time.
        pub(crate) fn take(&self, number: usize) {
            // ORDERING: Relaxed, only the count matters and read-modify-writes lose none.
            let before = self.0[number].fetch_add(1, Ordering::Relaxed);
            assert_eq!(before, 0, "item {number} was taken twice");
        }

        pub(crate) fn assert_complete(&self) {
            for (number, count) in self.0.iter().enumerate() {
                // ORDERING: Relaxed, all takers have been joined.
                assert_eq!(count.load(Ordering::Relaxed), 1, "item {number} was lost");
            }
        }
    }
}

#[cfg(loom)]
mod models {
    /// Explores every interleaving of `f` with at most `preemptions` forced switches.
    pub(crate) fn explore(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(preemptions));
        builder.check(f);
    }

    /// Panics unless `taken`, in any order, is exactly `0..items`.
    pub(crate) fn assert_each_once(mut taken: Vec<usize>, items: usize) {
        taken.sort_unstable();
        assert!(taken.iter().copied().eq(0..items), "taken: {taken:?} of {items}");
    }
}

/// A linked stand-in for a task, for the queues that need a link.
#[derive(Debug)]
pub(super) struct Node {
    link: AtomicPtr<Node>,
    number: UnsafeCell<usize>,
}

// SAFETY: each node has its own link, and the tests leave it to the queue.
unsafe impl Linked for Node {
    unsafe fn link(this: NonNull<Self>) -> NonNull<AtomicPtr<Self>> {
        // SAFETY: live, by the caller's promise.
        NonNull::from(unsafe { &this.as_ref().link })
    }
}

/// Allocates a node; `open` frees it. The number is written like a task's body: not atomically.
pub(super) fn node(number: usize) -> NonNull<Node> {
    let node = Node { link: AtomicPtr::default(), number: UnsafeCell::new(number) };
    NonNull::from(Box::leak(Box::new(node)))
}

/// Frees a node that was popped and returns its number.
pub(super) fn open(node: NonNull<Node>) -> usize {
    // SAFETY: allocated by `node`; popped once, so freed once, and the queue is done with it.
    let node = unsafe { Box::from_raw(node.as_ptr()) };
    // SAFETY: the box is ours.
    node.number.with(|number| unsafe { *number })
}
