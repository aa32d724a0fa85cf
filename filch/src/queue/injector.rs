//! Injector: the global queue. Anyone pushes, anyone takes, in batches.
//!
//! Each shard is a mailbox with a lock for takers, which is only ever tried: a pusher waits for
//! nobody, and a taker that finds a shard taken goes on to the next.
//!
//! I1. The rights of a mailbox's owner are with whoever holds the shard's lock.
//! I2. After a push has returned, `is_empty` is false until the item is taken (M2 of the mailbox).
//! I3. `popped` never exceeds `pushed` for a reader that loads `popped` first: a pusher counts
//!     before it pushes, a taker counts after it took.
//! I4. A shard gives its items in the order in which they came. There is no order among shards.
//!
//! A pusher that is suspended between the two instructions of its push hides what came after it in
//! its shard: `is_empty` is false, and takers find nothing there. They must not block on it, nor
//! need they; the pusher's own wake-up comes after its push.
//!
//! Not here: the size of a fair share, whom to wake, which shard to start from.

use std::ptr::NonNull;

use super::mailbox::{Linked, Mailbox, Pop};
use crate::base::shim::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Injector<T> {
    /// A power of two of them.
    shards: Box<[Shard<T>]>,
}

struct Shard<T> {
    mailbox: Mailbox<T, Pushed, Takers>,
}

/// Items ever pushed. Pushers add to it.
#[derive(Default)]
struct Pushed(AtomicU64);

#[derive(Default)]
struct Takers {
    /// Held by whoever takes (I1).
    locked: AtomicBool,
    /// Items ever taken. The holder of the lock writes it, anyone reads it.
    popped: AtomicU64,
}

/// Evidence that this thread holds the lock of a shard.
struct Taking<'a, T: Linked> {
    shard: &'a Shard<T>,
    taken: usize,
}

impl<T: Linked> Injector<T> {
    /// An empty injector of `shards` shards, rounded up to a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        let shards = (0..shards.next_power_of_two()).map(|_| Shard::new()).collect();
        Self { shards }
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Items inside: exact when nobody pushes or takes, a guess otherwise.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// True if there is nothing inside (I2).
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.mailbox.is_empty())
    }

    /// Adds `item` to the shard that `hint` names. The hint is a small number of the calling
    /// thread: address bits would send whole regions to one shard.
    ///
    /// # Safety
    /// As for [`Mailbox::push`]; any taker may pop it.
    #[inline]
    pub(crate) unsafe fn push(&self, item: NonNull<T>, hint: usize) {
        let shard = self.shard(hint);
        // ORDERING: Relaxed, the push that follows publishes it to the taker (I3).
        shard.pushed().fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { shard.mailbox.push(item) };
    }

    /// Takes up to `max` items, from `start_shard` onwards through all shards, and hands them to
    /// `out`, oldest first per shard. Returns how many. None does not mean empty: another taker
    /// may be at work.
    pub(crate) fn pop_batch(
        &self,
        max: usize,
        start_shard: usize,
        out: &mut impl FnMut(NonNull<T>),
    ) -> usize {
        let mut taken = 0;
        for i in 0..self.shards() {
            if taken == max {
                break;
            }
            taken += self.steal_from(start_shard.wrapping_add(i), max - taken, out);
        }
        taken
    }

    /// Takes up to `max` items of one shard, oldest first. Returns how many.
    pub(crate) fn steal_from(
        &self,
        shard: usize,
        max: usize,
        out: &mut impl FnMut(NonNull<T>),
    ) -> usize {
        let shard = self.shard(shard);
        if max == 0 || shard.mailbox.is_empty() {
            return 0;
        }
        let Some(mut taking) = shard.try_take() else {
            return 0;
        };
        while taking.taken < max {
            match taking.next() {
                Some(item) => out(item),
                None => break,
            }
        }
        taking.taken
    }

    #[inline]
    fn shard(&self, number: usize) -> &Shard<T> {
        &self.shards[number & (self.shards.len() - 1)]
    }
}

impl<T: Linked> Shard<T> {
    fn new() -> Self {
        Self { mailbox: Mailbox::new() }
    }

    fn pushed(&self) -> &AtomicU64 {
        &self.mailbox.beside_pushers().0
    }

    fn takers(&self) -> &Takers {
        self.mailbox.beside_owner()
    }

    fn len(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `Taking::drop` (I3).
        let popped = self.takers().popped.load(Ordering::Acquire);
        // ORDERING: Relaxed, at least what the taker saw, by the Acquire above.
        let pushed = self.pushed().load(Ordering::Relaxed);
        pushed.saturating_sub(popped) as usize
    }

    fn try_take(&self) -> Option<Taking<'_, T>> {
        let locked = &self.takers().locked;
        // ORDERING: Relaxed, a look that spares a contended line its exchange.
        let free = !locked.load(Ordering::Relaxed)
            // ORDERING: Acquire pairs with the Release in `Taking::drop`: the mailbox is as the
            // last taker left it. A failed attempt touches nothing.
            && locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        free.then(|| Taking { shard: self, taken: 0 })
    }
}

impl<T: Linked> Taking<'_, T> {
    fn next(&mut self) -> Option<NonNull<T>> {
        // SAFETY: I1, this value is evidence of the lock.
        match unsafe { self.shard.mailbox.pop() } {
            Pop::Item(item) => {
                self.taken += 1;
                Some(item)
            }
            Pop::Empty | Pop::Stalled => None,
        }
    }
}

impl<T: Linked> Drop for Taking<'_, T> {
    fn drop(&mut self) {
        let takers = &self.shard.takers();
        // ORDERING: Relaxed, only holders of the lock write it.
        let popped = takers.popped.load(Ordering::Relaxed) + self.taken as u64;
        // ORDERING: Release pairs with the Acquire in `Shard::len` (I3).
        takers.popped.store(popped, Ordering::Release);
        // ORDERING: Release pairs with the Acquire in `try_take`.
        takers.locked.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
