//! Whether a descriptor is ready, as far as the kernel has told, and who waits for it.
//!
//! The kernel tells a change once (edge-triggered). So what was told is kept here until a call finds
//! that it is no longer true.
//!
//! D1. A descriptor counts as ready until a call has said that it would block.
//! D2. `clear` forgets only what was known before the call: news that came during it stays. The word
//!     carries a count of news for that.
//! D3. No news is lost: who waits looks again under the lock, and who brings news writes the word
//!     before it takes the lock.
//! D4. The end of the driver is news too, and stays. So does the end of the stream: a read that was
//!     shorter than asked clears what came with its bytes, but must not clear that. Nor may it where
//!     an urgent byte is: reads stop before it, whatever is behind.
//! D5. The first who waits for a direction has no id here: its waker stays if it gives up, until the next news.
//!     All others take theirs with them (B1 of `waiters`).
//!
//! Not here: the descriptor, the call.

use std::sync::PoisonError;
use std::task::Waker;

use super::waiters::{Awaited, WaitId, Waiter, Waiters};
use crate::base::shim::{AtomicU32, AtomicU64, Mutex, Ordering};

#[cfg(all(test, loom))]
mod model;

/// Which readiness an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

#[cfg(not(loom))]
impl Direction {
    /// As `poll` takes it.
    pub(crate) fn events(self) -> i16 {
        match self {
            Self::Read => libc::POLLIN | libc::POLLRDHUP,
            Self::Write => libc::POLLOUT,
        }
    }
}

const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
/// The driver has ended (D4).
const CLOSED: u32 = 1 << 2;
/// The other side has ended, or sent an urgent byte, or the descriptor failed (D4).
const HUNG_UP: u32 = 1 << 3;
/// One piece of news (D2).
const NEWS: u32 = 1 << 4;

/// What the kernel tells in one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct News(u32);

impl News {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const READ: Self = Self(READ);
    pub(crate) const WRITE: Self = Self(WRITE);
    /// The other side sends no more, or has sent an urgent byte.
    pub(crate) const READ_END: Self = Self(READ | HUNG_UP);
    /// The descriptor failed or is shut in both directions.
    pub(crate) const END: Self = Self(READ | WRITE | HUNG_UP);
    pub(crate) const CLOSED: Self = Self(READ | WRITE | CLOSED);

    pub(crate) fn of(direction: Direction) -> Self {
        Self(bit(direction))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

fn bit(direction: Direction) -> u32 {
    match direction {
        Direction::Read => READ,
        Direction::Write => WRITE,
    }
}

/// What says that a direction is ready.
fn signs(direction: Direction) -> u32 {
    match direction {
        Direction::Read => READ | HUNG_UP,
        Direction::Write => WRITE,
    }
}

/// What is known of a direction.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// A call may succeed; if not, `clear` with this.
    Ready(Seen),
    /// A call would block.
    Blocked,
    /// The driver has ended (D4).
    Closed,
}

/// The word at the time of a look (D2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u32);

/// Alone on its cache line: with a thousand sockets each line of each is fetched for each request.
#[repr(align(64))]
pub(crate) struct Readiness {
    word: AtomicU32,
    /// The driver that the descriptor is registered with, or `NOWHERE`, and its key there. Written and read
    /// under the lock of moves (G5 of `engine`).
    driver: AtomicU32,
    key: AtomicU64,
    crowd: Mutex<Crowd>,
}

/// No driver.
const NOWHERE: u32 = u32::MAX;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Readiness>() == 64);

/// Nearly always one for each direction: those lie here, and the others elsewhere.
#[derive(Default)]
struct Crowd {
    read: Option<Waker>,
    write: Option<Waker>,
    others: Option<Box<Others>>,
}

#[derive(Default)]
struct Others {
    read: Waiters,
    write: Waiters,
}

impl Others {
    fn of(&mut self, direction: Direction) -> &mut Waiters {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

impl Crowd {
    fn first_of(&mut self, direction: Direction) -> &mut Option<Waker> {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }

    /// Adds a waker, or replaces one that it is to replace; returns that.
    fn add(&mut self, direction: Direction, who: Waiter<'_>, waker: Waker) -> Option<Waker> {
        let first = self.first_of(direction);
        if first.as_ref().is_none_or(|old| old.will_wake(&waker)) {
            return first.replace(waker);
        }
        self.others.get_or_insert_default().of(direction).add(who, waker)
    }

    /// Takes out all that wait for a direction.
    fn take(&mut self, direction: Direction, woken: &mut Vec<Waker>) {
        if let Some(first) = self.first_of(direction).take() {
            woken.push(first);
        }
        if let Some(others) = &mut self.others {
            woken.extend(others.of(direction).drain());
        }
    }
}

impl Readiness {
    /// D1.
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(READ | WRITE),
            driver: AtomicU32::new(NOWHERE),
            key: AtomicU64::new(0),
            crowd: Mutex::new(Crowd::default()),
        }
    }

    pub(crate) fn set_place(&self, place: Option<(usize, u64)>) {
        let (driver, key) = place.map_or((NOWHERE, 0), |(driver, key)| (driver as u32, key));
        // ORDERING: Relaxed, the lock of moves orders it.
        self.driver.store(driver, Ordering::Relaxed);
        // ORDERING: as above.
        self.key.store(key, Ordering::Relaxed);
    }

    pub(crate) fn place(&self) -> Option<(usize, u64)> {
        // ORDERING: Relaxed, the lock of moves orders it.
        let driver = self.driver.load(Ordering::Relaxed);
        // ORDERING: as above.
        let key = self.key.load(Ordering::Relaxed);
        (driver != NOWHERE).then_some((driver as usize, key))
    }

    pub(crate) fn look(&self, direction: Direction) -> Look {
        // ORDERING: Acquire pairs with the Release in `tell`: the call comes after the news.
        let word = self.word.load(Ordering::Acquire);
        if word & CLOSED != 0 {
            Look::Closed
        } else if word & signs(direction) != 0 {
            Look::Ready(Seen(word))
        } else {
            Look::Blocked
        }
    }

    /// A call that was made after `seen` said that it would block (D2).
    pub(crate) fn clear(&self, direction: Direction, seen: Seen) {
        self.forget(signs(direction), seen);
    }

    /// A call that was made after `seen` moved some bytes, yet fewer than asked (D2, D4).
    pub(crate) fn clear_short(&self, direction: Direction, seen: Seen) {
        self.forget(bit(direction), seen);
    }

    fn forget(&self, bits: u32, seen: Seen) {
        let mut word = seen.0;
        // ORDERING: AcqRel on success and Acquire on failure: what is forgotten was known here.
        while let Err(now) =
            self.word.compare_exchange_weak(word, word & !bits, Ordering::AcqRel, Ordering::Acquire)
        {
            if now / NEWS != seen.0 / NEWS {
                return;
            }
            // The other direction was cleared.
            word = now;
        }
    }

    /// Has somebody woken by the next news for the direction; false if there is some already (D3).
    pub(crate) fn wait(&self, direction: Direction, who: Waiter<'_>) -> bool {
        // Cloned before the lock: a clone is the user's.
        let waker = who.waker().clone();
        let mut crowd = self.crowd.lock().unwrap_or_else(PoisonError::into_inner);
        if self.look(direction) != Look::Blocked {
            return false;
        }
        let old = crowd.add(direction, who, waker);
        drop(crowd);
        drop(old);
        true
    }

    /// Brings news; who waited for them is handed out, to be woken without any lock.
    pub(crate) fn tell(&self, news: News, woken: &mut Vec<Waker>) {
        // ORDERING: Relaxed, the read-modify-write below decides.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = (word | news.0).wrapping_add(NEWS);
            // ORDERING: AcqRel, Release pairs with the Acquire in `look`; Relaxed on failure, it is
            // tried again.
            let told =
                self.word.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed);
            match told {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let mut crowd = self.crowd.lock().unwrap_or_else(PoisonError::into_inner);
        if news.0 & READ != 0 {
            crowd.take(Direction::Read, woken);
        }
        if news.0 & WRITE != 0 {
            crowd.take(Direction::Write, woken);
        }
    }
}

impl Awaited for Readiness {
    /// D5.
    fn give_up(&self, id: WaitId) {
        let mut crowd = self.crowd.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(others) = &mut crowd.others else { return };
        let wakers = (others.read.remove(id), others.write.remove(id));
        drop(crowd);
        drop(wakers);
    }
}
