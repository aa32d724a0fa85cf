//! Who waits for a lock, a message or a sign: a list in the order of arrival.
//!
//! Plain data under somebody's lock, so there is no unsafe code in it: entries live in a slab and
//! name each other by index.
//!
//! W1. A [`Key`] names one entry from `push_*` to `remove`; the future that pushed it holds the only
//!     copy that is ever removed.
//! W2. An entry is in the list, or out of it (`pop_front`, `unlink`) and still there for its future
//!     to find out what became of it.
//! W3. No user code runs here: wakers come and go by value, to be cloned before and woken or dropped
//!     after the lock is held.
//!
//! Not here: the lock, and what a ticket means.

use std::task::Waker;

/// No entry.
const NONE: u32 = u32::MAX;

/// Room that an empty list keeps; more is given back. Guessed.
const KEPT: usize = 32;

/// The name of an entry (W1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u32);

/// See the file header. A ticket says what became of the wait.
#[derive(Debug)]
pub(super) struct Waiters<T> {
    entries: Vec<Entry<T>>,
    head: u32,
    tail: u32,
    /// The first free entry; they are linked by `next`.
    free: u32,
    /// Entries in use, linked or not.
    used: u32,
}

#[derive(Debug)]
struct Entry<T> {
    /// `None` if free.
    ticket: Option<T>,
    waker: Option<Waker>,
    prev: u32,
    next: u32,
    linked: bool,
}

impl<T> Waiters<T> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), head: NONE, tail: NONE, free: NONE, used: 0 }
    }

    /// Whether nobody is in the list.
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends an entry.
    pub(super) fn push_back(&mut self, waker: Option<Waker>, ticket: T) -> Key {
        let index = self.take_free(waker, ticket);
        self.link(index, self.tail, NONE);
        Key(index)
    }

    /// Puts an entry before all others.
    pub(super) fn push_front(&mut self, waker: Option<Waker>, ticket: T) -> Key {
        let index = self.take_free(waker, ticket);
        self.link(index, NONE, self.head);
        Key(index)
    }

    /// Puts an entry that is out of the list back before all others (W2).
    pub(super) fn relink_front(&mut self, key: Key, ticket: T, waker: Waker) {
        let entry = self.entry(key);
        debug_assert!(!entry.linked && entry.waker.is_none(), "W2");
        entry.ticket = Some(ticket);
        entry.waker = Some(waker);
        self.link(key.0, NONE, self.head);
    }

    pub(super) fn front(&self) -> Option<(Key, &T)> {
        let entry = self.entries.get(self.head as usize)?;
        entry.ticket.as_ref().map(|ticket| (Key(self.head), ticket))
    }

    /// Takes the first entry out of the list, with a new ticket, and returns its waker (W2).
    pub(super) fn pop_front(&mut self, ticket: T) -> Option<Option<Waker>> {
        let (key, _) = self.front()?;
        self.unlink(key);
        let entry = self.entry(key);
        entry.ticket = Some(ticket);
        Some(entry.waker.take())
    }

    pub(super) fn ticket(&self, key: Key) -> &T {
        self.entries[key.0 as usize].ticket.as_ref().expect("W1")
    }

    pub(super) fn set_ticket(&mut self, key: Key, ticket: T) {
        self.entry(key).ticket = Some(ticket);
    }

    /// Takes the waker of an entry that is about to be woken where it is.
    pub(super) fn take_waker(&mut self, key: Key) -> Option<Waker> {
        self.entry(key).waker.take()
    }

    /// Whether waking the entry wakes `waker`.
    pub(super) fn wakes(&self, key: Key, waker: &Waker) -> bool {
        let own = &self.entries[key.0 as usize].waker;
        own.as_ref().is_some_and(|own| own.will_wake(waker))
    }

    /// Sets the entry's waker and returns the one that it had (W3).
    pub(super) fn set_waker(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        self.entry(key).waker.replace(waker)
    }

    /// Takes an entry out of the list, if it is in it (W2).
    pub(super) fn unlink(&mut self, key: Key) {
        let entry = self.entry(key);
        if !std::mem::replace(&mut entry.linked, false) {
            return;
        }
        let (prev, next) = (entry.prev, entry.next);
        match prev {
            NONE => self.head = next,
            _ => self.entries[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            _ => self.entries[next as usize].prev = prev,
        }
    }

    /// Ends an entry, and returns its ticket and its waker (W3).
    pub(super) fn remove(&mut self, key: Key) -> (T, Option<Waker>) {
        self.unlink(key);
        let free = self.free;
        let entry = self.entry(key);
        entry.next = free;
        let ticket = entry.ticket.take().expect("W1");
        let waker = entry.waker.take();
        self.free = key.0;
        self.used -= 1;
        if self.used == 0 && self.entries.len() > KEPT {
            self.entries = Vec::new();
            self.free = NONE;
        }
        (ticket, waker)
    }

    fn entry(&mut self, key: Key) -> &mut Entry<T> {
        &mut self.entries[key.0 as usize]
    }

    fn take_free(&mut self, waker: Option<Waker>, ticket: T) -> u32 {
        let fresh = Entry { ticket: Some(ticket), waker, prev: NONE, next: NONE, linked: false };
        self.used += 1;
        match self.free {
            NONE => {
                let index = u32::try_from(self.entries.len()).ok().filter(|index| *index != NONE);
                self.entries.push(fresh);
                index.expect("fewer than four billion waiters")
            }
            index => {
                let entry = &mut self.entries[index as usize];
                self.free = entry.next;
                *entry = fresh;
                index
            }
        }
    }

    fn link(&mut self, index: u32, prev: u32, next: u32) {
        let entry = &mut self.entries[index as usize];
        debug_assert!(!entry.linked, "W2");
        (entry.prev, entry.next, entry.linked) = (prev, next, true);
        match prev {
            NONE => self.head = index,
            _ => self.entries[prev as usize].next = index,
        }
        match next {
            NONE => self.tail = index,
            _ => self.entries[next as usize].prev = index,
        }
    }
}

/// Wakers on their way out of a lock. Dropping them wakes nobody.
#[derive(Debug, Default)]
#[must_use = "somebody waits for them"]
pub(super) struct Wakers {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Wakers {
    pub(super) fn push(&mut self, waker: Option<Waker>) {
        match waker {
            Some(waker) if self.first.is_none() => self.first = Some(waker),
            Some(waker) => self.rest.push(waker),
            None => {}
        }
    }

    /// Wakes them in order; the lock is open again.
    #[inline]
    pub(super) fn wake(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            std::mem::take(&mut self.rest).into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
