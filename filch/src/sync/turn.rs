//! One poll of something that is decided under a lock, with its wakers outside of it.
//!
//! P1. While the lock is held no waker is cloned, woken or dropped: each of these may run code of
//!     whoever made it, which may come back here for the same lock.
//! P2. A step that answers [`Step::Again`] has changed nothing.

use std::task::{Context, Poll, Waker};

use super::waiters::{Key, Waiters, Wakers};
use crate::base::shim::{Mutex, MutexGuard};

/// How often a thread that finds a lock taken looks again before it sleeps, and how long it pauses before
/// the first look. Measured, with two workers on one channel.
#[cfg(not(any(loom, filch_tsan)))]
const ROUNDS: u32 = 5;
#[cfg(not(any(loom, filch_tsan)))]
const FIRST_PAUSES: u32 = 8;

/// Takes a lock of this module. A panic under it changes nothing that could be left half-way, since
/// no user code runs there.
#[cfg(any(loom, filch_tsan))]
pub(super) fn lock<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes a lock of this module. A panic under it changes nothing that could be left half-way, since
/// no user code runs there.
#[cfg(not(any(loom, filch_tsan)))]
#[inline]
pub(super) fn lock<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    try_lock(state).unwrap_or_else(|| keep_away(state))
}

#[cfg(not(any(loom, filch_tsan)))]
#[inline]
fn try_lock<S>(state: &Mutex<S>) -> Option<MutexGuard<'_, S>> {
    match state.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

/// Stays away from a lock that is taken, longer and longer: who has it will want it again at once, and
/// is quicker while nobody else touches its line.
#[cfg(not(any(loom, filch_tsan)))]
#[cold]
fn keep_away<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    for round in 0..ROUNDS {
        for _ in 0..FIRST_PAUSES << round {
            std::hint::spin_loop();
        }
        if let Some(guard) = try_lock(state) {
            return guard;
        }
    }
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What a look at the state calls for.
#[must_use]
pub(super) enum Step<R> {
    Ready(R),
    /// An entry has the waker.
    Pending,
    /// A clone of the waker is needed first (P2).
    Again,
}

/// What a step brings under the lock, and what it takes out.
#[derive(Debug, Default)]
pub(super) struct Turn {
    clone: Option<Waker>,
    unused: Option<Waker>,
    /// To be woken once the lock is open.
    pub(super) wakers: Wakers,
}

impl Turn {
    /// Changes the state, then wakes who was to be woken.
    pub(super) fn take<S, R>(state: &Mutex<S>, change: impl FnOnce(&mut S, &mut Self) -> R) -> R {
        let mut turn = Self::default();
        let result = change(&mut lock(state), &mut turn);
        turn.wakers.wake();
        result
    }

    /// Waits in the list: with a new entry at its end, or the one that there is.
    pub(super) fn wait<T, R>(
        &mut self,
        waiters: &mut Waiters<T>,
        slot: &mut Option<Key>,
        waker: &Waker,
        ticket: T,
    ) -> Step<R> {
        if let Some(key) = *slot {
            return self.keep(waiters, key, waker);
        }
        let Some(clone) = self.clone.take() else { return Step::Again };
        *slot = Some(waiters.push_back(Some(clone), ticket));
        Step::Pending
    }

    /// Has the entry wake `waker`.
    pub(super) fn keep<T, R>(
        &mut self,
        waiters: &mut Waiters<T>,
        key: Key,
        waker: &Waker,
    ) -> Step<R> {
        if waiters.wakes(key, waker) {
            return Step::Pending;
        }
        let Some(clone) = self.clone.take() else { return Step::Again };
        self.unused = waiters.set_waker(key, clone);
        Step::Pending
    }

    /// The clone, if one was made.
    pub(super) fn clone_of_waker(&mut self) -> Option<Waker> {
        self.clone.take()
    }

    /// Drops a clone that was not needed, later (P1).
    pub(super) fn discard(&mut self, clone: Option<Waker>) {
        self.clone = clone;
    }

    /// Ends the entry in `slot`, if there is one, and returns its ticket.
    pub(super) fn leave<T>(
        &mut self,
        waiters: &mut Waiters<T>,
        slot: &mut Option<Key>,
    ) -> Option<T> {
        let (ticket, waker) = waiters.remove(slot.take()?);
        if waker.is_some() {
            self.unused = waker;
        }
        Some(ticket)
    }
}

/// Polls: `step` is called under the lock until it needs no clone of the waker.
pub(super) fn poll_under<S, R>(
    state: &Mutex<S>,
    cx: &Context<'_>,
    mut step: impl FnMut(&mut S, &mut Turn, &Waker) -> Step<R>,
) -> Poll<R> {
    let mut turn = Turn::default();
    loop {
        let next = step(&mut lock(state), &mut turn, cx.waker());
        match next {
            Step::Again => turn.clone = Some(cx.waker().clone()),
            Step::Ready(result) => {
                turn.wakers.wake();
                return Poll::Ready(result);
            }
            Step::Pending => {
                turn.wakers.wake();
                return Poll::Pending;
            }
        }
    }
}
