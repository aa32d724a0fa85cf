//! Gate: whether a worker's place takes posts, and from whom it does.
//!
//! A place is taken by one worker after another, and a post names the worker and not the place. So the
//! gate knows the generation of who is there, and whether it is open for it.
//!
//! ```text
//!   word: | generation, 32 bits | OPEN | posters inside, 31 bits |
//! ```
//!
//! G1. A poster counts itself in, and pushes only if the gate was then open for the generation it
//!     names; it counts itself out after the push.
//! G2. Once `close` has been called and `is_quiet` has said yes, nobody pushes any more: what the
//!     owner then finds in its mailbox is all there is. A post that came later was refused.
//! G3. A generation is open once, apart from `reopen`, which only undoes a close.
//!
//! Not here: the mailbox, and who is woken.

use crate::base::shim::{AtomicU64, Ordering};
use crate::base::sim;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

const POSTER: u64 = 1;
const POSTERS: u64 = OPEN - 1;
const OPEN: u64 = 1 << 31;
const GENERATION: u32 = 32;

/// Whether a place takes posts.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU64);

/// Evidence that the gate was open when the poster came in (G1).
#[derive(Debug)]
#[must_use = "the push is made while this is held"]
pub(crate) struct Inside<'a>(&'a Gate);

/// Why a poster was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The one it names has not left for good.
    Leaving,
    /// Another is there, or nobody.
    Gone,
}

impl Gate {
    /// A closed gate of a place where nobody was.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Opens the gate for the next generation, which it returns. The caller takes the place, which is
    /// free.
    pub(crate) fn open(&self) -> u32 {
        // ORDERING: Relaxed, only whoever takes the place changes these bits.
        let before = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(before & OPEN, 0, "a gate is opened once");
        let step = OPEN + (1 << GENERATION);
        // ORDERING: Release pairs with the Acquire in `enter`: who posts sees the place as it is now.
        // An addition, because posters that are turned away count too.
        let word = self.0.fetch_add(step, Ordering::Release);
        ((word + step) >> GENERATION) as u32
    }

    /// The generation that the gate is or was last open for.
    pub(crate) fn generation(&self) -> u32 {
        // ORDERING: Relaxed, the number means nothing without the gate.
        (self.0.load(Ordering::Relaxed) >> GENERATION) as u32
    }

    /// Lets a poster in, if the gate is open for `generation` (G1).
    #[inline]
    pub(crate) fn enter(&self, generation: u32) -> Result<Inside<'_>, Closed> {
        // ORDERING: Acquire pairs with the Release in `open`. That a poster which finds the gate open
        // is seen by `is_quiet` follows from the order of changes of this one word; model:
        // loom_post_vs_close.
        let word = self.0.fetch_add(POSTER, Ordering::Acquire);
        debug_assert_ne!(word & POSTERS, POSTERS, "too many posters");
        let inside = Inside(self);
        if (word >> GENERATION) as u32 != generation {
            return Err(Closed::Gone);
        }
        if word & OPEN == 0 {
            return Err(Closed::Leaving);
        }
        // A poster may be kept here for as long as it takes: whoever leaves waits for it (G2).
        sim::point();
        Ok(inside)
    }

    /// Turns posters away from now on.
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed, `is_quiet` orders what the owner then looks at.
        let before = self.0.fetch_and(!OPEN, Ordering::Relaxed);
        debug_assert_ne!(before & OPEN, 0, "a gate is closed once");
    }

    /// The owner stays after all (G3).
    pub(crate) fn reopen(&self) {
        // ORDERING: Relaxed, nothing about the place has changed.
        let before = self.0.fetch_or(OPEN, Ordering::Relaxed);
        debug_assert_eq!(before & OPEN, 0, "a gate is opened once");
    }

    /// The owner has left: its generation is over.
    pub(crate) fn retire(&self) {
        // ORDERING: Relaxed, only whoever has the place changes these bits. An addition, as in `open`.
        let before = self.0.fetch_add(1 << GENERATION, Ordering::Relaxed);
        debug_assert_eq!(before & OPEN, 0, "closed before it is left");
    }

    /// Whether no poster is inside. After a close, a yes is final (G2).
    pub(crate) fn is_quiet(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `Inside::drop`: what was pushed is seen; model:
        // loom_post_vs_close.
        self.0.load(Ordering::Acquire) & POSTERS == 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `is_quiet`: the push comes first.
        self.0.0.fetch_sub(POSTER, Ordering::Release);
    }
}
