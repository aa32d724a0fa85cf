//! Spill: the batches that full rings gave up, newest first.
//!
//! A worker whose tasks spawn faster than it runs them fills its ring and hands the oldest part on.
//! Taking those batches back newest first makes it go on where it is, depth first in steps of a
//! batch, so that what is alive stays bounded by the depth of the tree and not by its width. Below
//! one ring of backlog nothing spills, and order is first in, first out.
//!
//! L1. A batch is whole, in the order of its ring, until it is taken; then it is the taker's.
//! L2. After a push has returned, `is_empty` is false until the batch is taken.
//! L3. The oldest task can be taken on its own, so that a periodic look lets none wait for ever.
//!
//! A lock and a deque, because a batch is over a hundred tasks: one lock for all of them is as
//! good as no lock.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::base::shim::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// Tasks that left a ring together.
pub(crate) type Batch<T> = VecDeque<NonNull<T>>;

pub(crate) struct Spill<T> {
    batches: Mutex<VecDeque<Batch<T>>>,
    /// Tasks inside; written under the lock.
    len: AtomicUsize,
}

// SAFETY: the items are thin pointers that their owners allow to be taken by any thread.
unsafe impl<T> Send for Spill<T> {}
// SAFETY: as above; the batches are behind a lock.
unsafe impl<T> Sync for Spill<T> {}

impl<T> Spill<T> {
    pub(crate) fn new() -> Self {
        Self { batches: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }

    /// Tasks inside, at some moment.
    pub(crate) fn len(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `count`; the callers' fences do the rest.
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&self, batch: Batch<T>) {
        debug_assert!(!batch.is_empty());
        let mut batches = self.lock();
        let len = self.len() + batch.len();
        batches.push_back(batch);
        self.count(len);
    }

    /// The newest batch.
    pub(crate) fn pop_newest(&self) -> Option<Batch<T>> {
        if self.is_empty() {
            return None;
        }
        let mut batches = self.lock();
        let batch = batches.pop_back()?;
        self.count(self.len() - batch.len());
        Some(batch)
    }

    /// The oldest task (L3).
    pub(crate) fn pop_oldest_task(&self) -> Option<NonNull<T>> {
        if self.is_empty() {
            return None;
        }
        let mut batches = self.lock();
        let oldest = batches.front_mut()?;
        let task = oldest.pop_front();
        if oldest.is_empty() {
            batches.pop_front();
        }
        self.count(self.len() - usize::from(task.is_some()));
        task
    }

    fn count(&self, len: usize) {
        // ORDERING: Release pairs with the Acquire in `len`; written under the lock only.
        self.len.store(len, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Batch<T>>> {
        self.batches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::testing::{Item, item, number};

    fn batch(numbers: std::ops::Range<usize>) -> Batch<Item> {
        numbers.map(item).collect()
    }

    #[test]
    fn batches_come_back_newest_first_and_each_in_its_order() {
        let spill = Spill::new();
        spill.push(batch(0..3));
        spill.push(batch(3..5));
        assert_eq!(spill.len(), 5);
        let newest: Vec<_> = spill.pop_newest().unwrap().into_iter().map(number).collect();
        assert_eq!(newest, [3, 4]);
        assert_eq!(spill.pop_newest().unwrap().len(), 3);
        assert!(spill.is_empty() && spill.pop_newest().is_none());
    }

    #[test]
    fn the_oldest_task_can_be_taken_alone() {
        let spill = Spill::new();
        spill.push(batch(0..2));
        spill.push(batch(2..3));
        let taken: Vec<_> = std::iter::from_fn(|| spill.pop_oldest_task()).map(number).collect();
        assert_eq!(taken, [0, 1, 2]);
        assert!(spill.is_empty());
    }
}
