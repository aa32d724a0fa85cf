//! A mailbox behind a lock, in place of the lock-free one under `--cfg filch_locked_queues`.
//!
//! It keeps the promises of `queue/mailbox.rs` and takes no part in their proof; links stay unused.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::PoisonError;

use crate::base::shim::{AtomicPtr, Mutex, MutexGuard};

/// As of the lock-free mailbox.
///
/// # Safety
/// As there.
pub(crate) unsafe trait Linked: Sized {
    /// Where the link of `this` is.
    ///
    /// # Safety
    /// `this` points to a live item.
    #[expect(dead_code, reason = "links stay unused")]
    unsafe fn link(this: NonNull<Self>) -> NonNull<AtomicPtr<Self>>;
}

/// What the owner found.
#[derive(Debug)]
#[must_use = "a popped item must be run"]
pub(crate) enum Pop<T> {
    /// The oldest item.
    Item(NonNull<T>),
    /// Nothing is inside.
    Empty,
    /// A pusher has yet to link an item: never.
    #[expect(dead_code, reason = "a push is whole when its lock is released")]
    Stalled,
}

pub(crate) struct Mailbox<T, P = (), O = ()> {
    items: Mutex<VecDeque<NonNull<T>>>,
    beside_pushers: P,
    beside_owner: O,
}

// SAFETY: the items are mere addresses here, behind a lock.
unsafe impl<T, P: Sync, O: Sync> Sync for Mailbox<T, P, O> {}
// SAFETY: as above.
unsafe impl<T, P: Send, O: Send> Send for Mailbox<T, P, O> {}

impl<T: Linked, P: Default, O: Default> Mailbox<T, P, O> {
    pub(crate) fn new() -> Self {
        let items = Mutex::new(VecDeque::new());
        Self { items, beside_pushers: P::default(), beside_owner: O::default() }
    }
}

impl<T: Linked, P, O> Mailbox<T, P, O> {
    pub(in crate::queue) fn beside_pushers(&self) -> &P {
        &self.beside_pushers
    }

    pub(in crate::queue) fn beside_owner(&self) -> &O {
        &self.beside_owner
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<NonNull<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Adds `item` as the newest.
    ///
    /// # Safety
    /// As of the lock-free mailbox.
    pub(crate) unsafe fn push(&self, item: NonNull<T>) {
        self.lock().push_back(item);
    }

    /// Takes the oldest item.
    ///
    /// # Safety
    /// The caller is the owner, or has its rights by a lock.
    pub(crate) unsafe fn pop(&self) -> Pop<T> {
        self.lock().pop_front().map_or(Pop::Empty, Pop::Item)
    }
}
