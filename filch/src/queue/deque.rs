//! Deque: the jobs of one worker, newest first for the owner, oldest first for thieves.
//!
//! The growing circular deque of Chase and Lev (SPAA 2005) in the weak-memory form of Lê,
//! Pop, Cohen and Zappa Nardelli (PPoPP 2013), with its store-load fence made asymmetric: the
//! owner's pop, which runs at each `join`, pays a compiler fence; the thief pays for both.
//!
//! ```text
//!   top                 bottom
//!    v                    v
//!    | oldest ... newest  | free        thieves take at top, the owner works at bottom
//! ```
//!
//! D1. `top` only grows, by compare-exchange, and each value of it is left exactly once: whoever
//!     moves it past an index has that index's item. Indices are 64 bits wide and never wrap round.
//! D2. Only the owner writes `bottom`, slots, and the buffer pointer.
//! D3. The owner takes an index above `top` without a compare-exchange. That is sound because it
//!     has lowered `bottom` before it looked at `top`, and a thief looks at `top` before it looks
//!     at `bottom`, with the barrier pair in between on both sides: either the owner sees
//!     the thief's `top`, or the thief sees the lowered `bottom` and leaves the index alone.
//! D4. A slot is overwritten only if the owner has seen `top` past the index it held before, or has
//!     popped that index itself. So what a thief read there was right, or its compare-exchange
//!     fails, or (D3) it sees the lowered `bottom`.
//! D5. A buffer that was replaced is never written again and lives until the deque drops, so a
//!     thief may read from it at any time.
//! D6. Lengths are signed differences: `bottom` is one below `top` for a moment in a pop of an
//!     empty deque, also of a fresh one.
//!
//! D7. An index below `fenced` is taken by its owner with a real fence, one from there on with the
//!     light half of the barrier pair. Only the owner moves `fenced`, and only up; so an index that a
//!     thief has seen below it (Acquire) is taken with a real fence from then on, and what was taken
//!     before, the thief sees in `bottom`. Such an index costs the thief a fence only. The owner raises it
//!     when it has woken a thief (`expect_thieves`), for the few jobs that one will come for.
//!
//! Not here: stealing in batches, which would hoard heavy jobs; and shrinking, since the memory is
//! bounded by the deepest recursion there ever was (twice that with the buffers replaced).

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::base::barrier::{heavy_or_fence, light_if_free, light_is_free};
use crate::base::shim::{AtomicPtr, AtomicU64, Ordering, UnsafeCell};
use crate::base::sim;

/// Jobs that a thief is expected to come for. Guessed: a fork and what it is cut into, twice.
const EXPECTED: u64 = 4;

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
    /// Somebody else took the oldest item first. There may be more.
    Retry,
    /// The oldest item.
    Taken(NonNull<T>),
}

pub(crate) struct Deque<T> {
    own: CachePadded<OwnerSide<T>>,
    open: CachePadded<ThiefSide<T>>,
}

/// One cache line that the owner works in; thieves look at `bottom`.
struct OwnerSide<T> {
    /// One past the newest item. The owner writes it, anyone reads it.
    bottom: AtomicU64,
    /// D7. `u64::MAX` where the light half is not free.
    fenced: AtomicU64,
    /// Owner only.
    view: UnsafeCell<View<T>>,
}

/// The owner's copies, which spare it the thieves' line and one indirection.
struct View<T> {
    slots: NonNull<AtomicPtr<T>>,
    /// Slots minus one.
    mask: u64,
    /// `top` as last seen with Acquire by a push: a lower bound (D1).
    top: u64,
    /// Replaced buffers (D5).
    old: Vec<NonNull<Buffer<T>>>,
}

/// One cache line that the thieves work in.
struct ThiefSide<T> {
    /// The oldest item. Thieves move it, the owner too if it takes the last item.
    top: AtomicU64,
    /// The owner writes it when it grows the buffer, thieves read it.
    buffer: AtomicPtr<Buffer<T>>,
}

/// A power of two of slots.
struct Buffer<T> {
    slots: Box<[AtomicPtr<T>]>,
}

// SAFETY: D2, `view` is used by the owner only, whose methods are unsafe and say so; all else is
// atomic. The items are mere addresses here.
unsafe impl<T> Sync for Deque<T> {}
// SAFETY: no part is tied to a thread; ownership moves with the right to call the owner's methods.
unsafe impl<T> Send for Deque<T> {}

impl<T> Buffer<T> {
    /// Allocates; to be freed by `Deque::drop`.
    fn allocate(capacity: usize) -> NonNull<Self> {
        debug_assert!(capacity.is_power_of_two());
        let slots = (0..capacity).map(|_| AtomicPtr::default()).collect();
        NonNull::from(Box::leak(Box::new(Self { slots })))
    }

    fn mask(&self) -> u64 {
        self.slots.len() as u64 - 1
    }

    fn slot(&self, index: u64) -> &AtomicPtr<T> {
        &self.slots[(index & self.mask()) as usize]
    }

    fn first(&self) -> NonNull<AtomicPtr<T>> {
        NonNull::from(&*self.slots).cast()
    }
}

impl<T> View<T> {
    /// The greatest index whose slot is known to be free of an older item.
    #[inline(always)]
    fn last_free_index(&self) -> u64 {
        self.top + self.mask
    }

    #[inline(always)]
    fn slot(&self, index: u64) -> &AtomicPtr<T> {
        // SAFETY: `slots` has `mask + 1` elements.
        let slot = unsafe { self.slots.add((index & self.mask) as usize) };
        // SAFETY: D5, the current buffer lives at least as long as the deque.
        unsafe { slot.as_ref() }
    }
}

/// Items between two indices; negative while an empty deque is being popped (D6).
#[inline(always)]
const fn distance(top: u64, bottom: u64) -> i64 {
    bottom.wrapping_sub(top) as i64
}

impl<T> Deque<T> {
    /// An empty deque with room for `capacity` items, rounded up to a power of two, before it
    /// grows.
    pub(crate) fn new(capacity: usize) -> Self {
        let buffer = Buffer::allocate(capacity.next_power_of_two().max(2));
        // SAFETY: just allocated, nobody else has it.
        let fresh = unsafe { buffer.as_ref() };
        let (slots, mask) = (fresh.first(), fresh.mask());
        let view = View { slots, mask, top: 0, old: Vec::new() };
        Self {
            own: CachePadded::new(OwnerSide {
                bottom: AtomicU64::new(0),
                fenced: AtomicU64::new(if light_is_free() { 0 } else { u64::MAX }),
                view: UnsafeCell::new(view),
            }),
            open: CachePadded::new(ThiefSide {
                top: AtomicU64::new(0),
                buffer: AtomicPtr::new(buffer.as_ptr()),
            }),
        }
    }

    /// Items inside. Exact for the owner when no thief is about, a guess for others.
    pub(crate) fn len(&self) -> usize {
        // ORDERING: Acquire keeps the order top, bottom, so that the guess is not below zero
        // because of an older bottom; D6 leaves a true minus one.
        let top = self.open.top.load(Ordering::Acquire);
        // ORDERING: Relaxed, nothing is read through it.
        let bottom = self.own.bottom.load(Ordering::Relaxed);
        distance(top, bottom).max(0) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the oldest item lies and where the next will be pushed, at some moment; `None` if the
    /// deque looks empty.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        // ORDERING: Relaxed, a look that nothing is read through.
        let top = self.open.top.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        let bottom = self.own.bottom.load(Ordering::Relaxed);
        (distance(top, bottom) > 0).then_some((top, bottom))
    }

    /// What seems to be the oldest item; it may be gone, so only its address is worth something.
    pub(crate) fn oldest(&self) -> Option<NonNull<T>> {
        let (top, _) = self.bounds()?;
        NonNull::new(self.read_open(top))
    }

    /// The newest item, which a thief may have taken if it is the only one: only its address is worth
    /// something.
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline(always)]
    pub(crate) unsafe fn newest(&self) -> Option<NonNull<T>> {
        // ORDERING: Relaxed, the owner wrote it.
        let bottom = self.own.bottom.load(Ordering::Relaxed);
        // ORDERING: Relaxed, a look; `pop` decides.
        if distance(self.open.top.load(Ordering::Relaxed), bottom) <= 0 {
            return None;
        }
        // SAFETY: the caller is the owner, and has pushed an item at every index below `bottom`.
        Some(unsafe { self.read_own(bottom - 1) })
    }

    /// Whether the owner takes `index` without a real fence (D7). For the owner.
    #[inline(always)]
    pub(crate) fn is_light(&self, index: Index) -> bool {
        // ORDERING: Relaxed, the owner wrote it. Not `>=`: the index before the first is not light.
        index.0.wrapping_add(1) > self.own.fenced.load(Ordering::Relaxed)
    }

    /// The owner has woken, or is about to wake, somebody who will come for its oldest items: it
    /// pays for those that come next, so that the thief need not interrupt it.
    ///
    /// # Safety
    /// The caller is the owner.
    pub(crate) unsafe fn expect_thieves(&self) {
        // ORDERING: Relaxed, both: the owner wrote them.
        let next = self.own.bottom.load(Ordering::Relaxed);
        let fenced = self.own.fenced.load(Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `steal_if`: what was taken with a light half
        // before is in `bottom` for whoever sees this (D7).
        self.own.fenced.store(fenced.max(next.saturating_add(EXPECTED)), Ordering::Release);
    }

    /// Adds `item` as the newest.
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, item: NonNull<T>) -> Index {
        // ORDERING: Relaxed, the owner wrote it.
        let bottom = self.own.bottom.load(Ordering::Relaxed);
        // SAFETY: D2, the caller is the owner.
        let last = self.own.view.with(|view| unsafe { &*view }.last_free_index());
        if bottom > last {
            // SAFETY: the caller is the owner.
            unsafe { self.make_room(bottom) };
        }
        self.own.view.with(|view| {
            // SAFETY: D2, the caller is the owner.
            let view = unsafe { &*view };
            // ORDERING: Relaxed, the store of `bottom` publishes it. D4: `make_room` has seen to it
            // that the previous index of this slot is below `top`.
            view.slot(bottom).store(item.as_ptr(), Ordering::Relaxed);
        });
        // ORDERING: Release pairs with the Acquire of `bottom` after the barrier in `steal`: slot
        // and buffer are written before. Model: loom_grow_against_steal.
        self.own.bottom.store(bottom + 1, Ordering::Release);
        Index(bottom)
    }

    /// As `push`, of an item that thieves need no barrier for: its owner takes it with a real fence (D7).
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline(always)]
    pub(crate) unsafe fn push_fenced(&self, item: NonNull<T>) {
        // ORDERING: Relaxed, both: the owner wrote them.
        let next = self.own.bottom.load(Ordering::Relaxed);
        let fenced = self.own.fenced.load(Ordering::Relaxed);
        if fenced <= next {
            // ORDERING: Release, as in `expect_thieves`.
            self.own.fenced.store(next + 1, Ordering::Release);
        }
        // SAFETY: the caller is the owner.
        unsafe { self.push(item) };
    }

    /// Takes the item at `index` back. It is the newest, unless the answer says otherwise.
    ///
    /// # Safety
    /// The caller is the owner, pushed the item and has not taken it since.
    #[inline(always)]
    pub(crate) unsafe fn retract(&self, index: Index) -> Retract {
        // ORDERING: Relaxed, the owner wrote it.
        if self.own.bottom.load(Ordering::Relaxed) != index.0 + 1 {
            return Retract::NotNewest;
        }
        // ORDERING: Release, as in `pop`.
        self.own.bottom.store(index.0, Ordering::Release);
        // LIGHT: pairs with heavy_or_fence() in Deque::steal_if (D3, D7)
        light_if_free(self.is_light(index));
        // ORDERING: Relaxed, as in `pop`.
        let top = self.open.top.load(Ordering::Relaxed);
        if distance(top, index.0) > 0 {
            return Retract::Taken;
        }
        // SAFETY: the caller is the owner, and `bottom` is the index.
        match unsafe { self.pop_last(top, index.0) } {
            Some(_) => Retract::Taken,
            None => Retract::Stolen,
        }
    }

    /// Takes the newest item.
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<NonNull<T>> {
        // ORDERING: Relaxed, the owner wrote it.
        let newest = self.own.bottom.load(Ordering::Relaxed).wrapping_sub(1);
        // ORDERING: Release, for a thief may acquire this value instead of the one that the push
        // stored, and needs the slots below it just the same.
        self.own.bottom.store(newest, Ordering::Release);
        // LIGHT: pairs with heavy_or_fence() in Deque::steal_if (D3, D7)
        light_if_free(self.is_light(Index(newest)));
        // ORDERING: Relaxed, ordered after the store by the barrier; nothing is read through it.
        let top = self.open.top.load(Ordering::Relaxed);
        if distance(top, newest) > 0 {
            // SAFETY: the caller is the owner; D3, no thief takes an index above its `top`.
            return Some(unsafe { self.read_own(newest) });
        }
        // SAFETY: the caller is the owner.
        unsafe { self.pop_last(top, newest) }
    }

    /// The end of a pop that found at most one item: thieves may want the same. Leaves the deque
    /// empty, with `bottom` back where it was.
    ///
    /// # Safety
    /// The caller is the owner, and `bottom` is `newest`.
    #[inline]
    unsafe fn pop_last(&self, top: u64, newest: u64) -> Option<NonNull<T>> {
        debug_assert!(distance(top, newest) >= -1, "D1: top overtook bottom");
        let won = top == newest
            // ORDERING: Relaxed, it decides who has the item (D1) and the owner needs nothing that
            // a thief wrote; the slot is the owner's own.
            && (self.open.top)
                .compare_exchange(top, top + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        // SAFETY: the caller is the owner; D1, the index is ours.
        let item = won.then(|| unsafe { self.read_own(newest) });
        // ORDERING: Release, as in `pop`.
        self.own.bottom.store(newest.wrapping_add(1), Ordering::Release);
        item
    }

    /// Takes the oldest item. `Empty` from the first look costs two loads; past it, one barrier or fence.
    pub(crate) fn steal(&self) -> Steal<T> {
        self.steal_if(|_| true)
    }

    /// Takes the oldest item if it is `wanted`, which is asked right before.
    pub(crate) fn steal_if(&self, wanted: impl FnOnce(NonNull<T>) -> bool) -> Steal<T> {
        // ORDERING: Acquire pairs with the Release of the compare-exchange below: what an earlier
        // thief saw, this one sees.
        let top = self.open.top.load(Ordering::Acquire);
        // ORDERING: Relaxed, a look that decides only whether the barrier is worth its price.
        if distance(top, self.own.bottom.load(Ordering::Relaxed)) <= 0 {
            return Steal::Empty;
        }
        // ORDERING: Acquire pairs with the Release in `expect_thieves` (D7).
        heavy_or_fence(top < self.own.fenced.load(Ordering::Acquire));
        // ORDERING: Acquire pairs with the Release in `push` and `pop`: buffer and slot are visible.
        // Read again after the barrier, which is what D3 rests on.
        if distance(top, self.own.bottom.load(Ordering::Acquire)) <= 0 {
            return Steal::Empty;
        }
        let item = self.read_open(top);
        if !NonNull::new(item).is_some_and(wanted) {
            return Steal::Empty;
        }
        sim::point();
        // ORDERING: Release pairs with the Acquire in `make_room` (the slot was read before it is
        // overwritten, D4) and above; failure reads nothing further.
        let taken = (self.open.top)
            .compare_exchange(top, top + 1, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        match NonNull::new(item) {
            Some(item) if taken => Steal::Taken(item),
            _ => Steal::Retry,
        }
    }

    /// What the slot of `index` holds, for a thief. Right only if `top` is `index` afterwards (D4).
    fn read_open(&self, index: u64) -> *mut T {
        // ORDERING: Acquire pairs with the Release in `grow`: the copied slots are visible. Not
        // older than the buffer that held `index` when `bottom`, acquired before, was stored.
        let buffer = self.open.buffer.load(Ordering::Acquire);
        // SAFETY: D5, buffers live as long as the deque.
        let buffer = unsafe { &*buffer };
        // ORDERING: Relaxed, published by `bottom` or with the buffer.
        buffer.slot(index).load(Ordering::Relaxed)
    }

    /// # Safety
    /// The caller is the owner, and `index` is an item that it has taken.
    #[inline(always)]
    unsafe fn read_own(&self, index: u64) -> NonNull<T> {
        self.own.view.with(|view| {
            // SAFETY: D2, the caller is the owner.
            let view = unsafe { &*view };
            // ORDERING: Relaxed, the owner wrote it.
            let item = view.slot(index).load(Ordering::Relaxed);
            debug_assert!(!item.is_null());
            // SAFETY: D2, the owner has pushed a non-null item at every index below `bottom`.
            unsafe { NonNull::new_unchecked(item) }
        })
    }

    /// Looks at the true `top`, and grows the buffer if there is no free slot indeed.
    ///
    /// # Safety
    /// The caller is the owner.
    #[cold]
    unsafe fn make_room(&self, bottom: u64) {
        // ORDERING: Acquire pairs with the Release in `steal` (D4).
        let top = self.open.top.load(Ordering::Acquire);
        self.own.view.with_mut(|view| {
            // SAFETY: D2, the caller is the owner.
            let view = unsafe { &mut *view };
            view.top = top;
            if bottom > view.last_free_index() {
                self.grow(view, bottom);
            }
        });
    }

    /// Doubles the buffer. Owner only, as the exclusive view shows.
    fn grow(&self, view: &mut View<T>, bottom: u64) {
        // ORDERING: Relaxed, the owner wrote it.
        let old = self.open.buffer.load(Ordering::Relaxed);
        let buffer = Buffer::allocate((view.mask as usize + 1) * 2);
        // SAFETY: just allocated, nobody else has it.
        let new = unsafe { buffer.as_ref() };
        for index in view.top..bottom {
            // ORDERING: Relaxed, the owner wrote the one and publishes the other below.
            let item = view.slot(index).load(Ordering::Relaxed);
            new.slot(index).store(item, Ordering::Relaxed);
        }
        view.slots = new.first();
        view.mask = new.mask();
        view.old.extend(NonNull::new(old));
        // ORDERING: Release pairs with the Acquire in `read_open`; the copies are made before.
        self.open.buffer.store(buffer.as_ptr(), Ordering::Release);
    }
}

impl<T> Drop for Deque<T> {
    fn drop(&mut self) {
        // ORDERING: Relaxed, `&mut self` shows that nobody else is left.
        let current = self.open.buffer.load(Ordering::Relaxed);
        self.own.view.with_mut(|view| {
            // SAFETY: `&mut self` is exclusive.
            let view = unsafe { &mut *view };
            for buffer in view.old.drain(..).chain(NonNull::new(current)) {
                // SAFETY: allocated by `Buffer::allocate`, and each is in one place only.
                drop(unsafe { Box::from_raw(buffer.as_ptr()) });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
