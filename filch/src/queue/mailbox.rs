//! Mailbox: anyone pushes without waiting, one owner takes, oldest first.
//!
//! An intrusive list in the manner of Vyukov's MPSC queue: the pusher swaps itself in as the
//! newest and then links itself behind the one it replaced. Here null stands where his stub node
//! stands: a pusher that replaced null links itself to `front` instead. So there is no node to
//! allocate, the mailbox may move, and "empty" is one load.
//!
//! ```text
//!   cursor -> oldest -> ... -> x    y -> z <- newest      (x is not linked to y yet: Stalled)
//! ```
//!
//! M1. An item's link belongs to the mailbox from the push until the pop that returns it. Before
//!     and after, it belongs to whoever holds the item. Inside, a link is written by the pusher of
//!     the item (null), then once by the pusher that replaced that item as the newest, and read by
//!     the owner, who returns no item while one of these may still write to its link.
//! M2. `newest` is null exactly if nothing is inside: a push leaves null by its swap, and only the
//!     pop of the item that `newest` still names returns to null.
//! M3. `front` is written by the push that found null, and reset by the owner, in turns: the owner
//!     resets it before it returns `newest` to null, which lets the next such push come.
//! M4. The items of one pusher come out in its order.
//!
//! Not here: waking the owner.

use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use crate::base::shim::{AtomicPtr, Ordering, UnsafeCell};

/// Something that has room for the link of one queue at a time.
///
/// # Safety
/// `link` returns the same place for the same item every time, distinct from that of any other
/// item; the place is valid, and touched by nobody else, as long as the item is in a queue
/// (M1).
pub(crate) unsafe trait Linked: Sized {
    /// Where the link of `this` is. Any value may be inside before a push and after a pop.
    ///
    /// # Safety
    /// `this` points to a live item.
    unsafe fn link(this: NonNull<Self>) -> NonNull<AtomicPtr<Self>>;
}

/// Points `from` at `to`.
///
/// # Safety
/// `from` is live, and it is the caller's turn to write its link (M1).
#[inline]
unsafe fn set_link<T: Linked>(from: NonNull<T>, to: *mut T, order: Ordering) {
    // SAFETY: live, by the caller's promise.
    let link = unsafe { T::link(from) };
    // SAFETY: valid, by the contract of `Linked`.
    let link = unsafe { link.as_ref() };
    // ORDERING: the caller's, which says why.
    link.store(to, order);
}

/// What follows `item`, with Acquire.
///
/// # Safety
/// `item` is live and in the mailbox that the caller owns.
#[inline]
unsafe fn next_of<T: Linked>(item: NonNull<T>) -> Option<NonNull<T>> {
    // SAFETY: live, by the caller's promise.
    let link = unsafe { T::link(item) };
    // SAFETY: valid, by the contract of `Linked`.
    let link = unsafe { link.as_ref() };
    // ORDERING: Acquire pairs with the Release in `Mailbox::push`: the next item is published.
    NonNull::new(link.load(Ordering::Acquire))
}

/// What the owner found.
#[derive(Debug)]
#[must_use = "a popped item must be run"]
pub(crate) enum Pop<T> {
    /// The oldest item.
    Item(NonNull<T>),
    /// Nothing is inside.
    Empty,
    /// Something is inside, but a pusher has yet to link it; it is between two instructions.
    Stalled,
}

/// `P` and `O` are what a user of the mailbox wants on the cache line of the pushers and of the
/// owner.
pub(crate) struct Mailbox<T, P = (), O = ()> {
    pushers: CachePadded<PusherSide<T, P>>,
    owner: CachePadded<OwnerSide<T, O>>,
}

struct PusherSide<T, P> {
    /// The newest item or null (M2). Anyone swaps it, the owner resets it.
    newest: AtomicPtr<T>,
    beside: P,
}

struct OwnerSide<T, O> {
    /// The first item after a time of emptiness; null once the owner has it (M3).
    front: AtomicPtr<T>,
    /// The oldest item, if the owner knows it. Owner only.
    cursor: UnsafeCell<*mut T>,
    beside: O,
}

// SAFETY: `cursor` is used by the owner only, whose method is unsafe and says so; all else is
// atomic. The items are mere addresses to the mailbox, apart from their links (M1).
unsafe impl<T, P: Sync, O: Sync> Sync for Mailbox<T, P, O> {}
// SAFETY: no part is tied to a thread; ownership moves with the right to call `pop`.
unsafe impl<T, P: Send, O: Send> Send for Mailbox<T, P, O> {}

impl<T: Linked, P: Default, O: Default> Mailbox<T, P, O> {
    pub(crate) fn new() -> Self {
        Self {
            pushers: CachePadded::new(PusherSide {
                newest: AtomicPtr::default(),
                beside: P::default(),
            }),
            owner: CachePadded::new(OwnerSide {
                front: AtomicPtr::default(),
                cursor: UnsafeCell::new(ptr::null_mut()),
                beside: O::default(),
            }),
        }
    }
}

impl<T: Linked, P, O> Mailbox<T, P, O> {
    pub(super) fn beside_pushers(&self) -> &P {
        &self.pushers.beside
    }

    pub(super) fn beside_owner(&self) -> &O {
        &self.owner.beside
    }

    /// True if nothing is inside: false from before a push returns until its item is popped.
    pub(crate) fn is_empty(&self) -> bool {
        // ORDERING: Relaxed, nothing is read through it; M2. A caller that must not miss a push
        // brings its own fence, which the pusher's fence meets.
        self.pushers.newest.load(Ordering::Relaxed).is_null()
    }

    /// Adds `item` as the newest. Wait-free.
    ///
    /// # Safety
    /// `item` stays valid, and its link untouched, until it is popped from here; it is in no queue.
    #[inline]
    pub(crate) unsafe fn push(&self, item: NonNull<T>) {
        // ORDERING: Relaxed, the swap publishes it.
        // SAFETY: M1, the link is the caller's until the swap.
        unsafe { set_link(item, ptr::null_mut(), Ordering::Relaxed) };
        // ORDERING: Release pairs with the Acquire of the next swap and of the owner's reset:
        // excludes that the null written to the link lands after the next pusher's link. Acquire
        // is the other end of the same; with the owner's reset it excludes that `front` is reset
        // after it is written below (M3). Model: loom_two_pushers_against_owner.
        let before = self.pushers.newest.swap(item.as_ptr(), Ordering::AcqRel);
        match NonNull::new(before) {
            // ORDERING: Release pairs with the Acquire in `next_of`; the item is published.
            // SAFETY: M1, the owner does not return `before` until this store.
            Some(before) => unsafe { set_link(before, item.as_ptr(), Ordering::Release) },
            // ORDERING: Release pairs with the Acquire in `find_oldest`; the same.
            None => self.owner.front.store(item.as_ptr(), Ordering::Release),
        }
    }

    /// Takes the oldest item.
    ///
    /// # Safety
    /// The caller is the owner, or has its rights by a lock.
    pub(crate) unsafe fn pop(&self) -> Pop<T> {
        // SAFETY: the caller is the owner.
        let oldest = match unsafe { self.find_oldest() } {
            Ok(oldest) => oldest,
            Err(none) => return none,
        };
        // SAFETY: M1, it is still inside.
        let mut next = unsafe { next_of(oldest) };
        if next.is_none() {
            // ORDERING: Release pairs with the Acquire of the next swap (M3). Acquire pairs with
            // its Release: the null in the link of `oldest` is in place. A failed attempt reads
            // nothing through the value.
            let reset = (self.pushers.newest).compare_exchange(
                oldest.as_ptr(),
                ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if reset.is_err() {
                // SAFETY: M1, it is still inside.
                next = unsafe { next_of(oldest) };
                if next.is_none() {
                    return Pop::Stalled;
                }
            }
        }
        let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: the caller is the owner, only it uses the cursor.
        self.owner.cursor.with_mut(|cursor| unsafe { *cursor = next });
        Pop::Item(oldest)
    }

    /// The oldest item, which stays inside; also the cursor points to it.
    ///
    /// # Safety
    /// The caller is the owner.
    unsafe fn find_oldest(&self) -> Result<NonNull<T>, Pop<T>> {
        // SAFETY: the caller is the owner, only it uses the cursor.
        let known = self.owner.cursor.with(|cursor| unsafe { *cursor });
        if let Some(known) = NonNull::new(known) {
            return Ok(known);
        }
        // ORDERING: Acquire pairs with the Release in `push`; the item is published.
        let front = self.owner.front.load(Ordering::Acquire);
        let Some(found) = NonNull::new(front) else {
            return Err(if self.is_empty() { Pop::Empty } else { Pop::Stalled });
        };
        // ORDERING: Relaxed, the reset of `newest` publishes it to the next that writes here (M3).
        self.owner.front.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the caller is the owner, only it uses the cursor.
        self.owner.cursor.with_mut(|cursor| unsafe { *cursor = front });
        Ok(found)
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
