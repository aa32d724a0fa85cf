//! A deque behind a lock, in place of the lock-free one under `--cfg filch_locked_queues`.
//!
//! It keeps the promises of `queue/deque.rs` and takes no part in their proof. There is no light half of a
//! barrier here: who pushes and then looks at the idle word does so with a real fence.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::PoisonError;

use crate::base::shim::{Mutex, MutexGuard};
use crate::base::sim;

/// Where an item was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index(u64);

/// What came of taking an item back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the item is the caller's, or not"]
pub(crate) enum Retract {
    /// It is the caller's.
    Taken,
    /// A thief has it.
    Stolen,
    /// It is not the newest: it is gone, or newer items lie above. Nothing was changed.
    NotNewest,
}

/// What came of an attempt to steal from a deque.
#[derive(Debug)]
#[must_use = "a stolen item must be run"]
pub(crate) enum Steal<T> {
    /// There was nothing.
    Empty,
    /// Somebody else took the oldest item first: never.
    #[expect(dead_code, reason = "the lock decides")]
    Retry,
    /// The oldest item.
    Taken(NonNull<T>),
}

pub(crate) struct Deque<T>(Mutex<Items<T>>);

struct Items<T> {
    /// The index of the oldest.
    top: u64,
    items: VecDeque<NonNull<T>>,
}

impl<T> Items<T> {
    fn bottom(&self) -> u64 {
        self.top + self.items.len() as u64
    }

    fn steal(&mut self) -> Option<NonNull<T>> {
        let item = self.items.pop_front()?;
        self.top += 1;
        Some(item)
    }
}

// SAFETY: the items are mere addresses here, behind a lock.
unsafe impl<T> Sync for Deque<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Deque<T> {}

impl<T> Deque<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Mutex::new(Items { top: 0, items: VecDeque::with_capacity(capacity) }))
    }

    fn lock(&self) -> MutexGuard<'_, Items<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the oldest item lies and where the next will be pushed; `None` if there is none.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        let items = self.lock();
        (!items.items.is_empty()).then(|| (items.top, items.bottom()))
    }

    /// The oldest item, which may be gone by now.
    pub(crate) fn oldest(&self) -> Option<NonNull<T>> {
        self.lock().items.front().copied()
    }

    /// The newest item, which may be gone by now.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn newest(&self) -> Option<NonNull<T>> {
        self.lock().items.back().copied()
    }

    /// Never: see the file header.
    pub(crate) fn is_light(&self, _: Index) -> bool {
        false
    }

    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn expect_thieves(&self) {}

    /// Adds `item` as the newest.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn push(&self, item: NonNull<T>) -> Index {
        let mut items = self.lock();
        let index = items.bottom();
        items.items.push_back(item);
        Index(index)
    }

    /// As `push`.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn push_fenced(&self, item: NonNull<T>) {
        // SAFETY: the caller is the owner.
        unsafe { self.push(item) };
    }

    /// Takes the item at `index` back.
    ///
    /// # Safety
    /// The caller is the owner, pushed the item and has not taken it since.
    pub(crate) unsafe fn retract(&self, index: Index) -> Retract {
        let mut items = self.lock();
        if items.bottom() != index.0 + 1 {
            return Retract::NotNewest;
        }
        match items.items.pop_back() {
            Some(_) => Retract::Taken,
            None => Retract::Stolen,
        }
    }

    /// Takes the newest item.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn pop(&self) -> Option<NonNull<T>> {
        let mut items = self.lock();
        let last = items.items.len() == 1;
        // As in the lock-free deque, where the last is taken as a thief does: its index is spent.
        if last { items.steal() } else { items.items.pop_back() }
    }

    /// Takes the oldest item.
    pub(crate) fn steal(&self) -> Steal<T> {
        self.steal_if(|_| true)
    }

    /// Takes the oldest item if it is `wanted`, which is asked right before.
    pub(crate) fn steal_if(&self, wanted: impl FnOnce(NonNull<T>) -> bool) -> Steal<T> {
        sim::point();
        let mut items = self.lock();
        if !items.items.front().copied().is_some_and(wanted) {
            return Steal::Empty;
        }
        items.steal().map_or(Steal::Empty, Steal::Taken)
    }
}
