//! The lock of a `Mutex`, without the value.
//!
//! Whoever comes while it is free takes it, also past those that wait: to hand it over would cost a
//! switch between tasks for every turn. One of those that wait is told when the lock is released, and
//! tries again when its task runs. One who has waited for [`PATIENCE`] is handed the lock.
//!
//! M1. `LOCKED` is set exactly while a guard exists, or the lock is handed to an entry whose future has
//!     not looked yet (`Ticket::Owns`). Whoever sets it has found it clear in the same exchange.
//! M2. `WAITING`, `TOLD` and `DUE` change under the queue's lock only.
//! M3. `WAITING` is set exactly while the list is not empty.
//! M4. `TOLD` is set exactly while the first in the list has the ticket `Told`. A lock that is free
//!     has somebody told, if somebody waits: so nobody sleeps beside a free lock.
//! M5. `DUE` says that the first in the list is handed the lock at its next release. It implies
//!     `LOCKED`, so nobody comes in between.
//!
//! Model: `loom_mutex_*`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::turn::{Step, Turn, poll_under};
use super::waiters::{Key, Waiters};
use crate::base::shim::{AtomicUsize, Mutex, Ordering};
use crate::base::sim;

const LOCKED: usize = 1;
const WAITING: usize = 2;
const TOLD: usize = 4;
const DUE: usize = 8;

/// How long others may go first. Guessed: many times what a wake takes.
#[cfg(not(loom))]
const PATIENCE: Duration = Duration::from_micros(500);

/// See the file header.
#[derive(Debug)]
pub(super) struct Raw {
    word: AtomicUsize,
    queue: Mutex<Waiters<Entry>>,
    #[cfg(loom)]
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: Ticket,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticket {
    Waits,
    /// The lock was released, and it may try.
    Told,
    /// It has the lock (M1).
    Owns,
}

impl Entry {
    fn with(self, ticket: Ticket) -> Self {
        Self { ticket, ..self }
    }

    fn is_due(&self, patience: Duration) -> bool {
        sim::now().saturating_duration_since(self.since) >= patience
    }
}

#[cfg(not(loom))]
impl Default for Raw {
    fn default() -> Self {
        Self::new()
    }
}

impl Raw {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self { word: AtomicUsize::new(0), queue: Mutex::new(Waiters::new()) }
    }

    /// One whose waiters are due after so long, for models.
    #[cfg(loom)]
    fn with_patience(patience: Duration) -> Self {
        Self { word: AtomicUsize::new(0), queue: Mutex::new(Waiters::new()), patience }
    }

    fn patience(&self) -> Duration {
        #[cfg(loom)]
        return self.patience;
        #[cfg(not(loom))]
        PATIENCE
    }

    /// Takes the lock if it is free (M1).
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        // ORDERING: Relaxed, the exchange below decides.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LOCKED == 0 {
            // ORDERING: Acquire pairs with the Release of every `unlock`: what was done under the
            // lock is seen; model: loom_mutex_excludes.
            match self.word.compare_exchange_weak(
                word,
                word | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    pub(super) fn lock(&self) -> Lock<'_> {
        Lock { raw: self, slot: None }
    }

    /// Releases the lock, which is the caller's.
    #[inline]
    pub(super) fn unlock(&self) {
        // ORDERING: Relaxed, the exchange below decides.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            debug_assert_ne!(word & LOCKED, 0, "M1");
            let nobody_to_tell = word & WAITING == 0 || word & (TOLD | DUE) == TOLD;
            if !nobody_to_tell {
                return self.unlock_for_another();
            }
            // ORDERING: Release pairs with the Acquire of whoever takes it next.
            match self.word.compare_exchange_weak(
                word,
                word & !LOCKED,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Somebody waits who is to be told, or served.
    #[cold]
    fn unlock_for_another(&self) {
        Turn::take(&self.queue, |queue, turn| {
            // ORDERING: Relaxed; all but LOCKED change under the lock that we hold (M2), and LOCKED
            // is ours.
            let word = self.word.load(Ordering::Relaxed);
            let next = match queue.front() {
                None => 0,
                Some(_) if word & DUE != 0 => hand_over(queue, turn, self.patience()),
                Some(_) if word & TOLD != 0 => WAITING | TOLD,
                Some(_) => tell_first(queue, turn),
            };
            // ORDERING: Release pairs with the Acquire of whoever takes it next. A plain store,
            // because nobody else writes.
            self.word.store(next, Ordering::Release);
        });
    }

    /// Under the queue's lock: a new entry for a waiter who found the lock taken, or the lock.
    fn enter(
        &self,
        queue: &mut Waiters<Entry>,
        turn: &mut Turn,
        slot: &mut Option<Key>,
    ) -> Step<()> {
        let Some(waker) = turn.clone_of_waker() else { return Step::Again };
        if self.try_lock_or(|word| word | WAITING) {
            turn.discard(Some(waker));
            return Step::Ready(());
        }
        let entry = Entry { ticket: Ticket::Waits, since: sim::now() };
        *slot = Some(queue.push_back(Some(waker), entry));
        Step::Pending
    }

    /// Under the queue's lock: the one who was told tries.
    fn try_again(
        &self,
        queue: &mut Waiters<Entry>,
        turn: &mut Turn,
        slot: &mut Option<Key>,
        key: Key,
    ) -> Step<()> {
        let entry = *queue.ticket(key);
        let clone = turn.clone_of_waker();
        let taken = match clone {
            None => self.try_lock(),
            Some(_) => {
                let due = if entry.is_due(self.patience()) { DUE } else { 0 };
                self.try_lock_or(|word| word & !TOLD | due)
            }
        };
        if taken {
            turn.leave(queue, slot);
            let rest = if queue.is_empty() { WAITING | TOLD } else { TOLD };
            // ORDERING: Relaxed, the flags say who waits and publish nothing else.
            self.word.fetch_and(!rest, Ordering::Relaxed);
            turn.discard(clone);
            return Step::Ready(());
        }
        let Some(waker) = clone else { return Step::Again };
        queue.set_ticket(key, entry.with(Ticket::Waits));
        let old = queue.set_waker(key, waker);
        debug_assert!(old.is_none(), "it was taken when the entry was told");
        Step::Pending
    }

    /// Takes the lock if it is free; otherwise changes the word, while it is not.
    fn try_lock_or(&self, change: impl Fn(usize) -> usize) -> bool {
        // ORDERING: Relaxed, the exchange below decides.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & LOCKED == 0;
            let next = if free { word | LOCKED } else { change(word) };
            // ORDERING: Acquire as in `try_lock`. In the other case the one word decides: the next
            // release sees the flag, or came before and the lock is free.
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return free,
                Err(now) => word = now,
            }
        }
    }

    /// Under the queue's lock: somebody who waited, or was told, has gone.
    fn after_leaving(&self, queue: &mut Waiters<Entry>, turn: &mut Turn, left: Ticket) {
        let gone = match (queue.front(), left) {
            (None, _) => WAITING | TOLD | DUE,
            // M4: the word goes to the next.
            (Some(_), Ticket::Told) => {
                tell_first(queue, turn);
                DUE
            }
            // M5: whether it was the first that left or one behind it, who is first now decides.
            (Some((_, first)), _) if first.is_due(self.patience()) => 0,
            (Some(_), _) => DUE,
        };
        // ORDERING: Relaxed, the flags say who waits and publish nothing else.
        self.word.fetch_and(!gone, Ordering::Relaxed);
    }
}

/// Under the queue's lock: tells the first that it may try; what the word is to be.
fn tell_first(queue: &mut Waiters<Entry>, turn: &mut Turn) -> usize {
    let (key, entry) = queue.front().expect("M3");
    let told = entry.with(Ticket::Told);
    queue.set_ticket(key, told);
    turn.wakers.push(queue.take_waker(key));
    WAITING | TOLD
}

/// Under the queue's lock: the first has the lock now; what the word is to be.
fn hand_over(queue: &mut Waiters<Entry>, turn: &mut Turn, patience: Duration) -> usize {
    let (_, entry) = queue.front().expect("M3");
    let owns = entry.with(Ticket::Owns);
    turn.wakers.push(queue.pop_front(owns).flatten());
    match queue.front() {
        None => LOCKED,
        Some((_, next)) if next.is_due(patience) => LOCKED | WAITING | DUE,
        Some(_) => LOCKED | WAITING,
    }
}

/// Waits for the lock, which is the caller's once it is ready. Dropped, it waits no longer.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub(super) struct Lock<'a> {
    raw: &'a Raw,
    slot: Option<Key>,
}

impl Future for Lock<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { raw, slot } = &mut *self;
        if slot.is_none() && raw.try_lock() {
            return Poll::Ready(());
        }
        poll_under(&raw.queue, cx, |queue, turn, waker| {
            let Some(key) = *slot else { return raw.enter(queue, turn, slot) };
            match queue.ticket(key).ticket {
                Ticket::Waits => turn.keep(queue, key, waker),
                Ticket::Told => raw.try_again(queue, turn, slot, key),
                Ticket::Owns => {
                    turn.leave(queue, slot);
                    Step::Ready(())
                }
            }
        })
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let Self { raw, slot } = self;
        if slot.is_none() {
            return;
        }
        let owns = Turn::take(&raw.queue, |queue, turn| {
            let Some(entry) = turn.leave(queue, slot) else { return false };
            if entry.ticket != Ticket::Owns {
                raw.after_leaving(queue, turn, entry.ticket);
            }
            entry.ticket == Ticket::Owns
        });
        if owns {
            raw.unlock();
        }
    }
}

#[cfg(all(test, loom))]
mod model;
