//! A ring behind a lock, in place of the lock-free one under `--cfg filch_locked_queues`.
//!
//! It keeps the promises of `queue/ring.rs` and takes no part in their proof: a test that fails with it, too,
//! has found a flaw of the scheduler.
//!
//! L1. No two of these locks are held at once.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::PoisonError;

use crate::base::shim::{Mutex, MutexGuard};

/// The ring had no free slot; the item is handed back.
#[derive(Debug)]
#[must_use = "the item was not queued"]
pub(crate) struct Full<T>(pub(crate) NonNull<T>);

/// What came of an attempt to steal from a ring.
#[derive(Debug)]
#[must_use = "a stolen item must be run"]
pub(crate) enum Steal<T> {
    /// The victim had nothing.
    Empty,
    /// Another thief is at work on this victim: never.
    #[expect(dead_code, reason = "a thief is done when its lock is")]
    Busy,
    /// The thief's own ring is more than half full; the victim was not touched.
    Declined,
    /// As of the lock-free ring.
    Taken { first: NonNull<T>, moved: usize },
}

pub(crate) struct Ring<T> {
    capacity: usize,
    items: Mutex<VecDeque<NonNull<T>>>,
}

// SAFETY: the items are mere addresses here, behind a lock.
unsafe impl<T> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Ring<T> {}

impl<T> Ring<T> {
    /// An empty ring of `capacity` slots.
    ///
    /// # Panics
    /// If `capacity` is not a power of two in `2..=32768`.
    #[track_caller]
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(
            capacity.is_power_of_two() && (2..=32768).contains(&capacity),
            "ring capacity must be a power of two in 2..=32768, not {capacity}"
        );
        Self { capacity, items: Mutex::new(VecDeque::with_capacity(capacity)) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<NonNull<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn free(&self) -> usize {
        self.capacity - self.len()
    }

    /// Appends `item`.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn push(&self, item: NonNull<T>) -> Result<(), Full<T>> {
        let mut items = self.lock();
        if items.len() == self.capacity {
            return Err(Full(item));
        }
        items.push_back(item);
        Ok(())
    }

    /// Appends as many of `new` as fit; returns how many.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn push_batch(&self, new: impl Iterator<Item = NonNull<T>>) -> usize {
        let new: Vec<NonNull<T>> = new.take(self.free()).collect();
        let count = new.len();
        self.lock().extend(new);
        count
    }

    /// Takes the oldest item.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn pop(&self) -> Option<NonNull<T>> {
        self.lock().pop_front()
    }

    /// Takes up to `n` of the oldest items and hands them to `out`, oldest first.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn take_oldest(&self, n: usize, out: &mut impl FnMut(NonNull<T>)) -> usize {
        let taken = self.take(|len| n.min(len));
        taken.iter().for_each(|&item| out(item));
        taken.len()
    }

    /// Takes so many of the oldest items as `count` says of their number.
    fn take(&self, count: impl FnOnce(usize) -> usize) -> Vec<NonNull<T>> {
        let mut items = self.lock();
        let count = count(items.len());
        items.drain(..count).collect()
    }

    /// Moves the older half of the items, rounded up, towards `dst`.
    ///
    /// # Safety
    /// The caller is the owner of `dst`, which is not this ring.
    pub(crate) unsafe fn steal_into(&self, dst: &Ring<T>) -> Steal<T> {
        let room = dst.free();
        if room < dst.capacity / 2 {
            return Steal::Declined;
        }
        let taken = self.take(|len| (len - len / 2).min(room + 1));
        let Some((&first, rest)) = taken.split_first() else { return Steal::Empty };
        dst.lock().extend(rest);
        Steal::Taken { first, moved: taken.len() }
    }

    /// Takes what a thief would, calls `f`, and returns both.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn while_stolen_from<R>(&self, f: impl FnOnce() -> R) -> (Vec<NonNull<T>>, R) {
        let taken = self.take(|len| len - len / 2);
        (taken, f())
    }
}
