//! Who waits for one thing, and how one of them gives up.
//!
//! B1. All who wait are woken together, and come again if it was not for them. So nobody is owed a wake by
//!     another, and who gives up takes its own waker with it: nobody is woken by that. If it leaves something behind
//!     for the others, whoever keeps that tells them (R7 of `net/read.rs`).
//! B2. A future waits under an id that no other has, wherever it waits. One that is polled again with
//!     another waker replaces its own.
//! B3. Polls without a future behind them (`futures-io`) cannot be given up: that trait has no call for it, and what polled
//!     last is all that is owed a wake. So what one object polls by `&mut` waits under an id of the object: a later poll replaces
//!     its waker, and one waker stays behind at most, until the next wake or the end of the object. Through a shared
//!     reference several tasks may poll at once, all are owed a wake, and nothing tells one task that has gone from
//!     another that waits: those have no id, and are kept once for each waker until the next wake.
//! B4. Wakers are cloned, woken and dropped without the lock: they are the user's.
//! B5. A panic of one does not keep the others from being woken.
//!
//! Not here: what is waited for.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::base::shim::{Mutex, MutexGuard, Ordering, RawAtomicU64};

#[cfg(all(test, not(loom)))]
mod tests;

/// Ids that a thread takes at once, so that threads do not fight for one counter.
const BLOCK: u64 = 1 << 32;

/// Calls what is the user's (B5). The panic hook has reported it.
pub(crate) fn guard(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // The payload's own drop may panic too.
        std::mem::forget(payload);
    }
}

/// Under which a future waits (B2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitId(u64);

/// Marks the ids of places. No thread counts so far.
const PLACE: u64 = 1 << 63;

impl WaitId {
    /// The id of whatever waits on behalf of something that stays where it is (B3).
    fn of_place<T>(place: &T) -> Self {
        Self(std::ptr::from_ref(place).addr() as u64 | PLACE)
    }

    fn fresh() -> Self {
        static BLOCKS: RawAtomicU64 = RawAtomicU64::new(0);
        thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });
        let mut id = NEXT.get();
        if id.is_multiple_of(BLOCK) {
            // ORDERING: Relaxed, only uniqueness matters.
            id = BLOCKS.fetch_add(BLOCK, Ordering::Relaxed) + 1;
        }
        NEXT.set(id + 1);
        Self(id)
    }
}

/// The id of a future that may never need it.
#[derive(Debug, Default)]
pub(crate) struct LazyId(RawAtomicU64);

impl LazyId {
    /// The id, if somebody has asked for it.
    pub(crate) fn known(&self) -> Option<WaitId> {
        // ORDERING: Relaxed, polls of the future come one after another.
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            id => Some(WaitId(id)),
        }
    }

    /// Forgets the id: nothing waits under it any more.
    fn forget(&mut self) {
        *self = Self::default();
    }

    fn get(&self) -> WaitId {
        self.known().unwrap_or_else(|| {
            let fresh = WaitId::fresh();
            // ORDERING: as above.
            self.0.store(fresh.0, Ordering::Relaxed);
            fresh
        })
    }
}

/// Who polls: whom to wake, and the id under which it waits, if it can have one.
#[derive(Clone, Copy)]
pub(crate) struct Waiter<'a> {
    waker: &'a Waker,
    name: Name<'a>,
}

#[derive(Clone, Copy)]
enum Name<'a> {
    /// Of a future, or of an object that has room for it.
    Own(&'a LazyId),
    Place(WaitId),
    /// B3.
    Nobody,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(waker: &'a Waker, id: &'a LazyId) -> Self {
        Self { waker, name: Name::Own(id) }
    }

    /// The only one that waits on behalf of `place`, which stays where it is as long as anything waits for it (B3).
    pub(crate) fn at_place<T>(waker: &'a Waker, place: &T) -> Self {
        Self { waker, name: Name::Place(WaitId::of_place(place)) }
    }

    /// B3.
    pub(crate) fn nameless(waker: &'a Waker) -> Self {
        Self { waker, name: Name::Nobody }
    }

    pub(crate) fn waker(self) -> &'a Waker {
        self.waker
    }

    fn id(self) -> Option<WaitId> {
        match self.name {
            Name::Own(id) => Some(id.get()),
            Name::Place(id) => Some(id),
            Name::Nobody => None,
        }
    }
}

impl<'a> From<&'a Context<'_>> for Waiter<'a> {
    /// B3.
    fn from(cx: &'a Context<'_>) -> Self {
        Self::nameless(cx.waker())
    }
}

/// Something that futures wait for.
pub(crate) trait Awaited {
    /// Who waited under this id does not any more (B1).
    fn give_up(&self, id: WaitId);
}

/// The wait of one future. Dropped, it is given up.
pub(crate) struct Waits<'a, T: Awaited> {
    pub(crate) at: &'a T,
    /// Known while it may have a waker there.
    id: LazyId,
}

impl<'a, T: Awaited> Waits<'a, T> {
    pub(crate) fn at(at: &'a T) -> Self {
        Self { at, id: LazyId::default() }
    }

    /// Polls what it waits for. That is mostly ready only after a wake of all that waited for it; a waker that is
    /// left behind all the same, because it became ready by another way, is there until the next one.
    pub(crate) fn poll<R>(
        &mut self,
        cx: &Context<'_>,
        poll: impl FnOnce(&T, Waiter<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let result = poll(self.at, Waiter::new(cx.waker(), &self.id));
        if result.is_ready() {
            self.id.forget();
        }
        result
    }

    /// Waits until it is ready.
    pub(crate) async fn until<R>(mut self, mut poll: impl FnMut(&T, Waiter<'_>) -> Poll<R>) -> R {
        poll_fn(|cx| self.poll(cx, &mut poll)).await
    }
}

impl<T: Awaited> Drop for Waits<'_, T> {
    fn drop(&mut self) {
        if let Some(id) = self.id.known() {
            self.at.give_up(id);
        }
    }
}

/// The wakers of those who wait, in the order in which they came, which is mostly that in which they give
/// up: plain data under somebody's lock.
#[derive(Debug, Default)]
pub(crate) struct Waiters(VecDeque<(Option<WaitId>, Waker)>);

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Whether it is among them, to be woken by this very waker.
    pub(crate) fn has(&self, who: Waiter<'_>) -> bool {
        let own = who.id();
        self.0.iter().any(|(id, waker)| *id == own && waker.will_wake(who.waker))
    }

    /// Adds a clone of its waker, or has it replace the one that it has here, which is returned (B2, B3).
    pub(crate) fn add(&mut self, who: Waiter<'_>, waker: Waker) -> Option<Waker> {
        let id = who.id();
        let same = |(old, there): &&mut (Option<WaitId>, Waker)| {
            *old == id && (id.is_some() || there.will_wake(&waker))
        };
        match self.0.iter_mut().find(same) {
            Some((_, there)) => Some(std::mem::replace(there, waker)),
            None => {
                self.0.push_back((id, waker));
                None
            }
        }
    }

    /// Takes the waker of one who gives up (B1).
    #[must_use = "dropped without the lock (B4)"]
    pub(crate) fn remove(&mut self, id: WaitId) -> Option<Waker> {
        let at = self.0.iter().position(|(there, _)| *there == Some(id))?;
        self.0.remove(at).map(|(_, waker)| waker)
    }

    /// Wakes all of them (B4, B5).
    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(|(_, waker)| guard(|| waker.wake()));
    }

    /// Takes all of them, to be woken (B4).
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Waker> {
        self.0.drain(..).map(|(_, waker)| waker)
    }
}

/// As `Waiters`, with a lock of their own.
#[derive(Debug)]
pub(crate) struct SharedWaiters(Mutex<Waiters>);

impl Default for SharedWaiters {
    fn default() -> Self {
        Self(Mutex::new(Waiters::new()))
    }
}

impl SharedWaiters {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waker, unless there is nothing to wait for; `waits` is asked under the lock.
    pub(crate) fn wait(&self, who: Waiter<'_>, waits: impl FnOnce() -> bool) -> Poll<()> {
        let waker = who.waker.clone();
        let mut waiters = self.lock();
        if !waits() {
            drop(waiters);
            return Poll::Ready(());
        }
        let before = waiters.add(who, waker);
        drop(waiters);
        drop(before);
        Poll::Pending
    }

    pub(crate) fn wake_all(&self) {
        let waiters = std::mem::take(&mut *self.lock());
        waiters.wake();
    }
}

impl Awaited for SharedWaiters {
    fn give_up(&self, id: WaitId) {
        let waker = self.lock().remove(id);
        drop(waker);
    }
}
