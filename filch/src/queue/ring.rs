//! Ring: a bounded FIFO of one worker, of which thieves take half at a time.
//!
//! The head is two indices in one word. `real` is the next item to take; `steal` trails it while
//! a thief is still copying, and equals it otherwise. A thief *claims* by moving `real` alone,
//! copies the claimed slots, and *finishes* by moving `steal` up to `real`.
//!
//! ```text
//!      steal     real          tail
//!        v         v             v
//!   free | claimed | ready ready | free        free() counts from tail round to steal
//! ```
//!
//! R1. The capacity is a power of two, at least 2 and at most 32768, so an index masked by
//!     `capacity - 1` is a valid slot, and no distance comes near half of the 32-bit range.
//! R2. `steal <= real <= tail <= steal + capacity`, in wrapping arithmetic. Every index only grows.
//! R3. Only the owner writes slots and `tail`; it writes slots in `tail .. steal + capacity` only.
//!     So a claimed slot keeps its value until `finish`: it may be copied after the claim, without
//!     a second check. A slot is one atomic word, so no copy can be torn either.
//! R4. While `steal != real` there is one thief; a second one gives up (`Busy`). Only that thief
//!     moves `steal`.
//! R5. The value of a head is written after its writer saw a tail at least as large as its `real`,
//!     so whoever acquires a head and *then* loads the tail computes a length that is not negative.
//!
//! The indices wrap after 2^32 items. A thief that sleeps between its look and its claim while
//! exactly that many pass claims by a stale tail; at ten nanoseconds per item it must sleep for 43
//! seconds and wake at the one right nanosecond. We accept that.
//!
//! Not here: what happens to an item that does not fit (the scheduler spills).

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::base::shim::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

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
    /// Another thief is at work on this victim.
    Busy,
    /// The thief's own ring is more than half full; the victim was not touched.
    Declined,
    /// `first` is the oldest item, to be run at once; the others among the `moved`, `first`
    /// included, are in the thief's ring in their old order.
    Taken { first: NonNull<T>, moved: usize },
}

pub(crate) struct Ring<T> {
    /// `steal` in the upper half, `real` in the lower. Owner and thieves write it by
    /// compare-exchange, anyone reads it.
    head: CachePadded<AtomicU64>,
    /// One past the newest item. The owner writes it, anyone reads it.
    tail: CachePadded<AtomicU32>,
    slots: Box<[AtomicPtr<T>]>,
}

/// Both indices of a head word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    steal: u32,
    real: u32,
}

impl Head {
    const fn at(index: u32) -> Self {
        Self { steal: index, real: index }
    }

    const fn pack(self) -> u64 {
        (self.steal as u64) << 32 | self.real as u64
    }

    const fn unpack(word: u64) -> Self {
        Self { steal: (word >> 32) as u32, real: word as u32 }
    }

    const fn is_being_stolen(self) -> bool {
        self.steal != self.real
    }

    /// The head after `count` items were taken by the owner, whose takes leave a thief's claim be.
    const fn advance(self, count: u32) -> Self {
        let real = self.real.wrapping_add(count);
        if self.is_being_stolen() { Self { steal: self.steal, real } } else { Self::at(real) }
    }
}

/// Slots that a thief has claimed and not yet given back (R3, R4).
struct Claim {
    start: u32,
    count: u32,
}

impl<T> Ring<T> {
    /// An empty ring of `capacity` slots.
    ///
    /// # Panics
    /// If `capacity` is not a power of two in `2..=32768`.
    #[track_caller]
    pub(crate) fn new(capacity: usize) -> Self {
        Self::starting_at(capacity, 0)
    }

    /// A ring whose indices start at `index`; the tests let them wrap.
    #[track_caller]
    fn starting_at(capacity: usize, index: u32) -> Self {
        assert!(
            capacity.is_power_of_two() && (2..=32768).contains(&capacity),
            "ring capacity must be a power of two in 2..=32768, not {capacity}"
        );
        Self {
            head: CachePadded::new(AtomicU64::new(Head::at(index).pack())),
            tail: CachePadded::new(AtomicU32::new(index)),
            slots: (0..capacity).map(|_| AtomicPtr::default()).collect(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Items that can be taken. Exact for the owner when no thief is about, a guess for others.
    pub(crate) fn len(&self) -> usize {
        let head = self.load_head();
        // ORDERING: Acquire keeps the order head, tail, so that R5 holds; a stale tail is a guess.
        let tail = self.tail.load(Ordering::Acquire);
        (tail.wrapping_sub(head.real) as usize).min(self.capacity())
    }

    /// True if there is nothing to take. Claimed items are no longer here: their thief has them.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots that the owner can fill now. Exact or too small for the owner, a guess for others.
    pub(crate) fn free(&self) -> usize {
        let head = self.load_head();
        // ORDERING: Relaxed, the owner wrote it.
        let tail = self.tail.load(Ordering::Relaxed);
        self.capacity().saturating_sub(tail.wrapping_sub(head.steal) as usize)
    }

    /// Appends `item`. Full also while a thief still copies what would make room.
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline]
    pub(crate) unsafe fn push(&self, item: NonNull<T>) -> Result<(), Full<T>> {
        if self.free() == 0 {
            return Err(Full(item));
        }
        // ORDERING: Relaxed, the owner wrote it.
        let tail = self.tail.load(Ordering::Relaxed);
        self.write(tail, item);
        self.publish(tail.wrapping_add(1));
        Ok(())
    }

    /// Appends as many of `items` as fit and takes no more than that from the iterator. Others
    /// see all of them at once. Returns how many.
    ///
    /// # Safety
    /// The caller is the owner, and `items` does not use this ring. (If `items` panics, what it
    /// gave before is forgotten.)
    pub(crate) unsafe fn push_batch(&self, items: impl Iterator<Item = NonNull<T>>) -> usize {
        // ORDERING: Relaxed, the owner wrote it.
        let start = self.tail.load(Ordering::Relaxed);
        let mut tail = start;
        for item in items.take(self.free()) {
            self.write(tail, item);
            tail = tail.wrapping_add(1);
        }
        self.publish(tail);
        tail.wrapping_sub(start) as usize
    }

    /// Takes the oldest item.
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<NonNull<T>> {
        let mut head = self.load_head();
        // ORDERING: Relaxed, the owner wrote it.
        let tail = self.tail.load(Ordering::Relaxed);
        while head.real != tail {
            match self.exchange(head, head.advance(1)) {
                // Only the owner overwrites (R3), and it is here.
                Ok(()) => return Some(self.read(head.real)),
                Err(now) => head = now,
            }
        }
        None
    }

    /// Takes up to `n` of the oldest items at once and hands them to `out`, oldest first. Returns
    /// how many: none while a thief is at work, for it is about to make room itself.
    ///
    /// # Safety
    /// The caller is the owner, and `out` does not use this ring.
    pub(crate) unsafe fn take_oldest(&self, n: usize, out: &mut impl FnMut(NonNull<T>)) -> usize {
        let mut head = self.load_head();
        // ORDERING: Relaxed, the owner wrote it.
        let tail = self.tail.load(Ordering::Relaxed);
        while !head.is_being_stolen() {
            let ready = tail.wrapping_sub(head.real);
            let count = ready.min(n.min(self.capacity()) as u32);
            if count == 0 {
                return 0;
            }
            match self.exchange(head, head.advance(count)) {
                Ok(()) => {
                    (0..count).for_each(|i| out(self.read(head.real.wrapping_add(i))));
                    return count as usize;
                }
                Err(now) => head = now,
            }
        }
        0
    }

    /// Moves the older half of the items, rounded up, towards `dst`: the oldest is returned, to be
    /// run at once, the others are appended to `dst`.
    ///
    /// # Safety
    /// The caller is the owner of `dst`, which is not this ring.
    pub(crate) unsafe fn steal_into(&self, dst: &Ring<T>) -> Steal<T> {
        debug_assert!(!std::ptr::eq(self, dst), "a ring cannot steal from itself");
        let room = dst.free();
        if room < dst.capacity() / 2 {
            return Steal::Declined;
        }
        let claim = match self.claim(room + 1) {
            Ok(claim) => claim,
            Err(nothing) => return nothing,
        };
        let first = self.read(claim.start);
        // ORDERING: Relaxed, the owner of `dst` wrote it, and that is the caller.
        let base = dst.tail.load(Ordering::Relaxed);
        for i in 1..claim.count {
            let item = self.read(claim.start.wrapping_add(i));
            dst.write(base.wrapping_add(i - 1), item);
        }
        let moved = claim.count as usize;
        self.finish(claim);
        dst.publish(base.wrapping_add(moved as u32 - 1));
        Steal::Taken { first, moved }
    }

    /// Reserves the older half, rounded up, but at most `limit` items.
    fn claim(&self, limit: usize) -> Result<Claim, Steal<T>> {
        let mut head = self.load_head();
        loop {
            if head.is_being_stolen() {
                return Err(Steal::Busy);
            }
            // ORDERING: Acquire pairs with the Release in `publish`: the slots below this tail are
            // written. Loaded after the head, see R5. Model: loom_push_against_steal.
            let tail = self.tail.load(Ordering::Acquire);
            let ready = tail.wrapping_sub(head.real);
            if ready == 0 {
                return Err(Steal::Empty);
            }
            let count = (ready - ready / 2).min(limit as u32);
            let claimed = Head { steal: head.steal, real: head.real.wrapping_add(count) };
            match self.exchange(head, claimed) {
                Ok(()) => {
                    debug_assert!(ready as usize <= self.capacity(), "R2");
                    return Ok(Claim { start: head.real, count });
                }
                Err(now) => head = now,
            }
        }
    }

    /// Gives the claimed slots back to the owner.
    fn finish(&self, claim: Claim) {
        let mut head = self.load_head();
        loop {
            debug_assert_eq!(head.steal, claim.start, "R4: only the thief moves `steal`");
            match self.exchange(head, Head::at(head.real)) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Calls `f` while a thief holds its claim, and returns what the thief then has.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn while_stolen_from<R>(&self, f: impl FnOnce() -> R) -> (Vec<NonNull<T>>, R) {
        let Ok(claim) = self.claim(self.capacity()) else { panic!("there is nothing to claim") };
        let result = f();
        let stolen = (0..claim.count).map(|i| self.read(claim.start.wrapping_add(i))).collect();
        self.finish(claim);
        (stolen, result)
    }

    #[inline]
    fn load_head(&self) -> Head {
        // ORDERING: Acquire pairs with the Release in `exchange`: excludes that the owner reuses a
        // slot before the thief's copy (R3), and that a tail older than this head is loaded (R5).
        Head::unpack(self.head.load(Ordering::Acquire))
    }

    /// Replaces the head if it is still `old`; otherwise returns what it is now.
    #[inline]
    fn exchange(&self, old: Head, new: Head) -> Result<(), Head> {
        // ORDERING: Release pairs with the Acquire in `load_head` (copies before `finish`, R3; the
        // tail that was seen, R5). Acquire, also on failure, does the same for the value read here.
        self.head
            .compare_exchange(old.pack(), new.pack(), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Head::unpack)
    }

    /// Makes all items below `tail` visible. Owner only.
    #[inline]
    fn publish(&self, tail: u32) {
        // ORDERING: Release pairs with the Acquire in `claim`; the slots are written before.
        self.tail.store(tail, Ordering::Release);
    }

    #[inline]
    fn read(&self, index: u32) -> NonNull<T> {
        // ORDERING: Relaxed, the tail's Release/Acquire pair has published the slot.
        let item = self.slot(index).load(Ordering::Relaxed);
        debug_assert!(!item.is_null(), "a slot below the tail was never written");
        // SAFETY: R2 and R3, a slot between `steal` and `tail` holds a pushed item, never null.
        unsafe { NonNull::new_unchecked(item) }
    }

    /// Owner only, and only into a free slot (R3).
    #[inline]
    fn write(&self, index: u32, item: NonNull<T>) {
        // ORDERING: Relaxed, `publish` follows.
        self.slot(index).store(item.as_ptr(), Ordering::Relaxed);
    }

    #[inline]
    fn slot(&self, index: u32) -> &AtomicPtr<T> {
        let masked = index as usize & (self.slots.len() - 1);
        // SAFETY: R1, the length is a power of two.
        unsafe { self.slots.get_unchecked(masked) }
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
