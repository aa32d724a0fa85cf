//! The wake word of a driver: whether its owner sleeps, and where.
//!
//! ```text
//!            lie_down(place)                 notify
//!   EMPTY ────────────────────▶ ON_BED ─────────────────▶ NOTIFIED
//!     ▲                         IN_KERNEL                    │
//!     └───────────────────────────┴──────── stand_up ────────┘
//! ```
//!
//! W1. A token given before, during or after the way into sleep ends that sleep or the next one.
//! W2. `notify` answers with a place only to the one that ended the sleep there, so a sleep costs at
//!     most one system call of whoever ends it, and none if the owner is awake.
//! W3. What happened before a `notify` is visible after the `stand_up` that took its token.
//! W4. One thread at a time lies down: the one that occupies the driver's slot.
//!
//! Two places, because a driver that was never used has nothing open to sleep in: it sleeps on a
//! bed (`base/parker.rs`), which a simulation knows too.
//!
//! Not here: how the thread sleeps in the kernel and is woken there (`driver`).

use crate::base::shim::{AtomicU32, Ordering};

#[cfg(all(test, loom))]
mod model;

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const ON_BED: u32 = 2;
const IN_KERNEL: u32 = 3;

/// Where the owner sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the driver's parker.
    Bed,
    /// In the ring or the epoll descriptor.
    Kernel,
}

/// What came of the wish to sleep.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lain {
    /// Sleep, then stand up.
    Down,
    /// There was a token, and it is spent.
    Token,
}

#[derive(Debug)]
pub(crate) struct WakeWord(AtomicU32);

impl WakeWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(EMPTY))
    }

    /// Whether the owner does not sleep, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        // ORDERING: Relaxed, a guess: who relies on it gives a token all the same.
        matches!(self.0.load(Ordering::Relaxed), EMPTY | NOTIFIED)
    }

    /// Says where the owner is about to sleep (W4).
    pub(crate) fn lie_down(&self, place: Place) -> Lain {
        let place = match place {
            Place::Bed => ON_BED,
            Place::Kernel => IN_KERNEL,
        };
        // ORDERING: Relaxed, a success publishes nothing and a failure is followed by `stand_up`.
        match self.0.compare_exchange(EMPTY, place, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Lain::Down,
            Err(word) => {
                debug_assert_eq!(word, NOTIFIED, "W4: two threads sleep in one driver");
                self.stand_up();
                Lain::Token
            }
        }
    }

    /// Ends the sleep, and takes the token if there is one.
    pub(crate) fn stand_up(&self) {
        // ORDERING: Acquire pairs with the Release in `notify`; a swap, because a plain store could
        // overwrite a second token without synchronizing with its giver (W3).
        self.0.swap(EMPTY, Ordering::Acquire);
    }

    /// Gives a token; the place where the owner has to be woken, if that is left to the caller (W2).
    pub(crate) fn notify(&self) -> Option<Place> {
        // ORDERING: Release pairs with the Acquire in `stand_up` (W3).
        match self.0.swap(NOTIFIED, Ordering::Release) {
            ON_BED => Some(Place::Bed),
            IN_KERNEL => Some(Place::Kernel),
            _ => None,
        }
    }
}
