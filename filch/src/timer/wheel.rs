//! The wheel: timers in slots, by the digits of their deadlines. Pure data.
//!
//! Time is counted in nanoseconds, in digits of base 256. An entry lies at the level of the highest digit
//! in which its deadline differs from `elapsed`, in the slot of that digit's value; so the lowest level
//! holds the nearest entries, and the first used slot of a level comes before its others. When
//! `elapsed` reaches a slot, what is due goes out and the rest moves to lower levels.
//!
//! ```text
//!   level 0   slots of 1 ns         what is due in these 256 ns
//!   level 1   slots of 256 ns       ... in these 66 µs
//!   level 2   slots of 66 µs        ... in these 17 ms
//!   level 3   slots of 17 ms        ... in these 4.3 s
//!   level 4   slots of 4.3 s        ... in these 18 minutes
//!   ...
//!   level 7   slots of 2.3 years    ... in 584 years
//! ```
//!
//! So deadlines are exact. The lowest levels cost nothing: what is due when its slot is reached goes out
//! without moving on, and between two looks at the wheel microseconds pass. Few levels, because each
//! move of an entry is a miss of every cache when there are many.
//!
//! W1. An entry is in one list at most; its links are touched through the wheel's `&mut` only.
//! W2. Level and slot of an entry follow from its deadline and `elapsed`, as above; but entries of the
//!     slot that `cut` names may be of lower levels, because moving them was interrupted.
//! W3. A bit of `occupied` is set exactly while the slot's list is not empty, one of `levels`
//!     exactly while the level has such a slot.
//! W4. `least` of a used slot is no later than any of its entries, so sleeping until the first slot's
//!     is never too long; if that entry has gone, one look for nothing puts it right.
//! W5. Nothing is early, and who looks at [`Wheel::nearest`] finds something due or a later `nearest`.
//! W6. `elapsed` is a time that has come, and never goes back; an entry that is not in the slot that
//!     `cut` names is later. Who looks may have read the clock before another one who was here first.
//!
//! Not here: locks, wakers, clocks.

use std::ptr::NonNull;

use crate::base::shim::UnsafeCell;

#[cfg(all(test, not(loom)))]
mod tests;

const DIGIT_BITS: u32 = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;

/// Nanoseconds that no timer is due at.
pub(crate) const NEVER: u64 = u64::MAX;

/// The latest deadline.
pub(crate) const LATEST: u64 = NEVER - 1;

/// What is put into a wheel.
///
/// # Safety
/// `node` returns the same cell at every call.
pub(crate) unsafe trait Linked: Sized {
    fn node(&self) -> &UnsafeCell<Node<Self>>;
}

/// The wheel's part of an entry.
#[derive(Debug)]
pub(crate) struct Node<E> {
    prev: Option<NonNull<E>>,
    next: Option<NonNull<E>>,
    deadline: u64,
    level: u8,
    slot: u8,
}

impl<E> Node<E> {
    pub(crate) const fn new() -> Self {
        Self { prev: None, next: None, deadline: 0, level: 0, slot: 0 }
    }
}

struct Slot<E> {
    head: Option<NonNull<E>>,
    tail: Option<NonNull<E>>,
    /// W4.
    least: u64,
}

struct Level<E> {
    /// W3, a bit for each slot.
    occupied: [u64; SLOTS / 64],
    slots: [Slot<E>; SLOTS],
}

pub(crate) struct Wheel<E> {
    /// The time up to which everything due has gone out.
    elapsed: u64,
    /// W3.
    levels_used: u8,
    /// The level of a slot whose entries were not all moved (W2); `elapsed` is inside of that slot.
    cut: Option<u8>,
    levels: Box<[Level<E>; LEVELS]>,
}

/// What became of an insertion.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is in the wheel.
    Waits,
    /// It is due already, and not in the wheel.
    Due,
}

/// What is due.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Popped<E> {
    /// This entry, which is out of the wheel.
    Entry(NonNull<E>),
    /// Nothing more.
    Nothing,
    /// Perhaps something; but enough has been moved for now.
    Later,
}

// SAFETY: W1, entries are touched through `&mut` only, and those who insert them see to it that
// they may be touched from any thread.
unsafe impl<E: Sync> Send for Wheel<E> {}

impl<E: Linked> Wheel<E> {
    pub(crate) fn new() -> Self {
        let level = || Level {
            occupied: [0; SLOTS / 64],
            slots: [const { Slot { head: None, tail: None, least: 0 } }; SLOTS],
        };
        let levels: Box<[Level<E>]> = (0..LEVELS).map(|_| level()).collect();
        let Ok(levels) = levels.try_into() else { unreachable!("as many as there are levels") };
        Self { elapsed: 0, levels_used: 0, cut: None, levels }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.levels_used == 0
    }

    /// Forgets what time it was, once all that was in it has been taken out.
    pub(crate) fn begin_anew(&mut self) {
        debug_assert!(self.is_empty() && self.cut.is_none(), "it was emptied");
        self.elapsed = 0;
    }

    /// The time, in nanoseconds, at which the wheel should be looked at next (W4, W5).
    pub(crate) fn nearest(&self) -> u64 {
        if self.cut.is_some() {
            return self.elapsed;
        }
        match self.first() {
            Some((level, slot)) => self.levels[level].slots[slot].least,
            None => NEVER,
        }
    }

    /// The used slot with the earliest entries, the one that `cut` names apart.
    fn first(&self) -> Option<(usize, usize)> {
        if self.levels_used == 0 {
            return None;
        }
        let level = self.levels_used.trailing_zeros() as usize;
        let words = &self.levels[level].occupied;
        let word = words.iter().position(|&word| word != 0).expect("W3");
        Some((level, 64 * word + words[word].trailing_zeros() as usize))
    }

    /// Puts an entry into the wheel, to be due at `deadline`, which is at most [`LATEST`]. `now` is
    /// not in the future.
    ///
    /// # Safety
    /// The entry is in no wheel, and stays where it is until it is out of this one.
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<E>, deadline: u64, now: u64) -> Inserted {
        debug_assert!(deadline <= LATEST, "no timer is due then");
        if self.is_empty() && self.cut.is_none() {
            // Nothing is passed over (W2), and the nearer `elapsed`, the lower the level.
            self.elapsed = self.elapsed.max(now);
        }
        if deadline <= self.elapsed {
            return Inserted::Due;
        }
        // SAFETY: by the caller's promise.
        unsafe { self.place(entry, deadline) };
        Inserted::Waits
    }

    /// Takes an entry out.
    ///
    /// # Safety
    /// The entry is in this wheel.
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<E>) {
        // SAFETY: by the caller's promise.
        let (prev, next, level, slot) = unsafe {
            with_node(entry, |node| {
                (node.prev, node.next, usize::from(node.level), usize::from(node.slot))
            })
        };
        match prev {
            // SAFETY: W1, neighbours are in the list.
            Some(prev) => unsafe { with_node(prev, |node| node.next = next) },
            None => self.levels[level].slots[slot].head = next,
        }
        match next {
            // SAFETY: W1, as above.
            Some(next) => unsafe { with_node(next, |node| node.prev = prev) },
            None => self.levels[level].slots[slot].tail = prev,
        }
        if prev.is_none() && next.is_none() {
            self.mark_empty(level, slot);
        }
    }

    /// Takes out one entry that is due at `now`. Each entry that is moved to a lower level takes one
    /// from `moves`.
    pub(crate) fn pop(&mut self, now: u64, moves: &mut usize) -> Popped<E> {
        // W6.
        let now = now.max(self.elapsed);
        loop {
            let (level, slot) = match self.cut {
                Some(level) => (usize::from(level), digit(self.elapsed, level.into())),
                None => match self.first() {
                    Some((level, slot)) if self.start_of(level, slot) <= now => {
                        self.elapsed = self.elapsed.max(self.start_of(level, slot));
                        (level, slot)
                    }
                    _ => {
                        self.elapsed = self.elapsed.max(now);
                        return Popped::Nothing;
                    }
                },
            };
            self.cut = Some(level as u8);
            while let Some(entry) = self.levels[level].slots[slot].head {
                // SAFETY: W1, it is in a list of ours.
                let deadline = unsafe { with_node(entry, |node| node.deadline) };
                if deadline > now && *moves == 0 {
                    return Popped::Later;
                }
                // SAFETY: as above.
                unsafe { self.remove(entry) };
                if deadline <= now {
                    return Popped::Entry(entry);
                }
                *moves -= 1;
                // SAFETY: it is out, and stays where it is as long as it is in the wheel.
                unsafe { self.place(entry, deadline) };
            }
            self.cut = None;
        }
    }

    /// The time at which a slot begins.
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let below = DIGIT_BITS * level as u32;
        let above = below + DIGIT_BITS;
        // Above the highest level there is nothing.
        let above = if above < u64::BITS { self.elapsed >> above << above } else { 0 };
        above | (slot as u64) << below
    }

    /// Appends an entry to the list where it belongs (W2).
    ///
    /// # Safety
    /// As `insert`; the deadline is later than `elapsed`.
    unsafe fn place(&mut self, entry: NonNull<E>, deadline: u64) {
        debug_assert!(deadline > self.elapsed);
        let highest = u64::BITS - 1 - (deadline ^ self.elapsed).leading_zeros();
        let level = (highest / DIGIT_BITS) as usize;
        let index = digit(deadline, level);
        let slot = &mut self.levels[level].slots[index];
        let tail = slot.tail.replace(entry);
        match tail {
            Some(tail) => {
                slot.least = slot.least.min(deadline);
                // SAFETY: W1, it is in the list.
                unsafe { with_node(tail, |node| node.next = Some(entry)) };
            }
            None => {
                slot.head = Some(entry);
                slot.least = deadline;
                self.levels[level].occupied[index / 64] |= 1 << (index % 64);
                self.levels_used |= 1 << level;
            }
        }
        let node = Node { prev: tail, next: None, deadline, level: level as u8, slot: index as u8 };
        // SAFETY: by the caller's promise nobody else touches it.
        unsafe { with_node(entry, |place| *place = node) };
    }

    /// W3.
    fn mark_empty(&mut self, level: usize, slot: usize) {
        let words = &mut self.levels[level].occupied;
        words[slot / 64] &= !(1 << (slot % 64));
        if *words == [0; SLOTS / 64] {
            self.levels_used &= !(1 << level);
        }
    }
}

fn digit(time: u64, level: usize) -> usize {
    (time >> (DIGIT_BITS * level as u32)) as usize % SLOTS
}

/// # Safety
/// The entry is there, and nobody else touches its node.
unsafe fn with_node<E: Linked, R>(entry: NonNull<E>, f: impl FnOnce(&mut Node<E>) -> R) -> R {
    // SAFETY: by the caller's promise.
    let entry = unsafe { entry.as_ref() };
    // SAFETY: by the caller's promise.
    entry.node().with_mut(|node| f(unsafe { &mut *node }))
}
