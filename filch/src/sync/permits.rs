//! Permits: a number that futures take from and give back to, in the order of arrival.
//!
//! One word has the permits and two flags, so that taking and giving back is one operation while
//! nobody waits. What semaphores, read-write locks and once-cells are made of.
//!
//! Q1. `WAITING` is set exactly while the list is not empty; it changes under the lock.
//! Q2. While `WAITING` is set the whole word changes under the lock only: takers do not overtake, and
//!     givers serve.
//! Q3. With the lock open, the first in the list needs more than there is: permits are handed out in
//!     the order of the list, whole, by whoever makes it possible.
//! Q4. A permit is in the word, with its taker, or granted to an entry whose future has not looked
//!     yet; a future that is dropped then gives it back. So none is lost or made up.
//! Q5. Once `CLOSED` nobody waits, and takers are refused; they see what was done before the close.
//!
//! Model: `loom_permits_*`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::turn::{Step, Turn, lock, poll_under};
use super::waiters::{Key, Waiters};
use crate::base::shim::{AtomicUsize, Mutex, Ordering};

const WAITING: usize = 1;
const CLOSED: usize = 2;
/// The permits are above the flags.
const SHIFT: u32 = 2;

/// As many as fit, with room for a mistake to be noticed in.
pub(super) const MOST: usize = usize::MAX >> (SHIFT + 1);

/// See the file header.
#[derive(Debug)]
pub(super) struct Permits {
    word: AtomicUsize,
    queue: Mutex<Waiters<Ticket>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Ticket {
    Needs(usize),
    Granted,
    /// Closed while it waited.
    Refused,
}

/// There will be no more permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Attempt {
    Taken,
    /// Not enough, or others wait.
    Short,
    Closed,
}

/// Where a taker waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Last,
    /// Before all others, for one who must go first lest all wait for ever.
    First,
}

impl Permits {
    #[cfg(not(loom))]
    pub(super) const fn new(permits: usize) -> Self {
        assert!(permits <= MOST, "too many permits");
        Self { word: AtomicUsize::new(permits << SHIFT), queue: Mutex::new(Waiters::new()) }
    }

    #[cfg(loom)]
    pub(super) fn new(permits: usize) -> Self {
        Self { word: AtomicUsize::new(permits << SHIFT), queue: Mutex::new(Waiters::new()) }
    }

    pub(super) fn available(&self) -> usize {
        // ORDERING: Relaxed, a number that may be old when it is read.
        self.word.load(Ordering::Relaxed) >> SHIFT
    }

    pub(super) fn is_closed(&self) -> bool {
        // ORDERING: Acquire pairs with the AcqRel in `close`: what came before it is seen.
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Takes `need` permits if they are there and nobody waits.
    #[inline]
    pub(super) fn try_take(&self, need: usize) -> Attempt {
        // ORDERING: Acquire pairs with the AcqRel in `close`: who is refused sees what came before it
        // (a latch); else the exchange below decides.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let attempt = judge(word, need);
            if attempt != Attempt::Taken {
                return attempt;
            }
            let rest = word - (need << SHIFT);
            // ORDERING: Acquire pairs with the Release in `give`: what was done under the permit is
            // seen; model: loom_permits_pass_what_was_done_under_them. A failure is a load as above.
            match self.word.compare_exchange_weak(word, rest, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Attempt::Taken,
                Err(now) => word = now,
            }
        }
    }

    /// Takes `need` permits, in turn.
    pub(super) fn take(&self, need: usize) -> Take<'_> {
        self.take_at(Place::Last, need)
    }

    pub(super) fn take_at(&self, place: Place, need: usize) -> Take<'_> {
        Take { permits: self, need, place, slot: None }
    }

    /// Gives permits back, or adds some.
    #[inline]
    #[track_caller]
    pub(super) fn give(&self, permits: usize) {
        // ORDERING: Relaxed, the exchange below decides.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITING == 0 {
            let more = add(word, permits);
            // ORDERING: Release pairs with the Acquire in `try_take` and in `take_or_wait`.
            match self.word.compare_exchange_weak(word, more, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        Turn::take(&self.queue, |queue, turn| {
            // ORDERING: AcqRel; Release as above, Acquire because what earlier givers did goes on
            // to those that are served here, by way of the lock.
            let more = |word| Some(add(word, permits));
            let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
            self.serve(queue, turn);
        });
    }

    /// Takes up to `permits` away for good, and returns how many.
    pub(super) fn forget(&self, permits: usize) -> usize {
        let _queue = lock(&self.queue);
        // ORDERING: Acquire, as in `try_take`; under the lock, so Q2 holds.
        let taken = self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            Some(word - (permits.min(word >> SHIFT) << SHIFT))
        });
        taken.map_or(0, |word| permits.min(word >> SHIFT))
    }

    /// Refuses everybody from now on, those that wait too (Q5).
    pub(super) fn close(&self) {
        Turn::take(&self.queue, |queue, turn| {
            // ORDERING: AcqRel; Release pairs with the Acquire in `is_closed`.
            self.word.fetch_or(CLOSED, Ordering::AcqRel);
            while let Some(waker) = queue.pop_front(Ticket::Refused) {
                turn.wakers.push(waker);
            }
            self.note_emptiness(queue);
        });
    }

    /// Under the lock: hands out what there is (Q3).
    fn serve(&self, queue: &mut Waiters<Ticket>, turn: &mut Turn) {
        while let Some((_, Ticket::Needs(need))) = queue.front() {
            // ORDERING: Relaxed; under the lock and with WAITING set nobody else writes (Q2), and
            // the caller has acquired what was given.
            let word = self.word.load(Ordering::Relaxed);
            if word >> SHIFT < *need {
                return;
            }
            // ORDERING: Relaxed, as above.
            self.word.fetch_sub(need << SHIFT, Ordering::Relaxed);
            turn.wakers.push(queue.pop_front(Ticket::Granted).flatten());
        }
        self.note_emptiness(queue);
    }

    /// Q1.
    fn note_emptiness(&self, queue: &Waiters<Ticket>) {
        if queue.is_empty() {
            // ORDERING: Release: whoever finds the word without WAITING next, by an Acquire, sees
            // what those did whose permits were added under the lock.
            self.word.fetch_and(!WAITING, Ordering::Release);
        }
    }

    /// Under the lock: takes, or says that somebody waits.
    fn take_or_wait(&self, place: Place, need: usize) -> Attempt {
        // ORDERING: Relaxed, the exchange below decides.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let overtakes = if place == Place::First { !WAITING } else { usize::MAX };
            let attempt = judge(word & overtakes, need);
            let next = match attempt {
                Attempt::Taken => word - (need << SHIFT),
                Attempt::Short => word | WAITING,
                Attempt::Closed => return attempt,
            };
            // ORDERING: AcqRel; Acquire as in `try_take`. With WAITING the next giver comes for the
            // lock, or has given before and we have seen it: one word, no second look is needed.
            match self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return attempt,
                Err(now) => word = now,
            }
        }
    }
}

fn judge(word: usize, need: usize) -> Attempt {
    match word {
        _ if word & CLOSED != 0 => Attempt::Closed,
        _ if word & WAITING == 0 && word >> SHIFT >= need => Attempt::Taken,
        _ => Attempt::Short,
    }
}

#[track_caller]
fn add(word: usize, permits: usize) -> usize {
    let sum = (word >> SHIFT).checked_add(permits).filter(|sum| *sum <= MOST);
    assert!(sum.is_some(), "too many permits");
    word + (permits << SHIFT)
}

/// Waits for permits, which are the caller's once it is ready. Dropped, it waits no longer.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub(super) struct Take<'a> {
    permits: &'a Permits,
    need: usize,
    place: Place,
    slot: Option<Key>,
}

impl Take<'_> {
    pub(super) fn poll_take(&mut self, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        let Self { permits, need, place, slot } = self;
        if slot.is_none() && *place == Place::Last {
            match permits.try_take(*need) {
                Attempt::Taken => return Poll::Ready(Ok(())),
                Attempt::Closed => return Poll::Ready(Err(Closed)),
                Attempt::Short => {}
            }
        }
        poll_under(&permits.queue, cx, |queue, turn, waker| {
            let Some(key) = *slot else {
                return permits.enter(queue, turn, (*place, *need), slot);
            };
            if let Ticket::Needs(_) = queue.ticket(key) {
                return turn.keep(queue, key, waker);
            }
            match turn.leave(queue, slot) {
                Some(Ticket::Granted) => Step::Ready(Ok(())),
                _ => Step::Ready(Err(Closed)),
            }
        })
    }
}

impl Permits {
    /// Under the lock: takes, or waits with a new entry.
    fn enter(
        &self,
        queue: &mut Waiters<Ticket>,
        turn: &mut Turn,
        (place, need): (Place, usize),
        slot: &mut Option<Key>,
    ) -> Step<Result<(), Closed>> {
        let Some(waker) = turn.clone_of_waker() else { return Step::Again };
        let result = match (self.take_or_wait(place, need), place) {
            (Attempt::Taken, _) => Ok(()),
            (Attempt::Closed, _) => Err(Closed),
            (Attempt::Short, Place::Last) => {
                *slot = Some(queue.push_back(Some(waker), Ticket::Needs(need)));
                return Step::Pending;
            }
            (Attempt::Short, Place::First) => {
                *slot = Some(queue.push_front(Some(waker), Ticket::Needs(need)));
                return Step::Pending;
            }
        };
        turn.discard(Some(waker));
        Step::Ready(result)
    }
}

impl Future for Take<'_> {
    type Output = Result<(), Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_take(cx)
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        let Self { permits, need, slot, .. } = self;
        if slot.is_none() {
            return;
        }
        let ticket = Turn::take(&permits.queue, |queue, turn| {
            let ticket = turn.leave(queue, slot);
            // Q3: the next may need less.
            permits.serve(queue, turn);
            ticket
        });
        if ticket == Some(Ticket::Granted) {
            // Q4.
            permits.give(*need);
        }
    }
}

#[cfg(all(test, loom))]
mod model;
