//! Token parker: one thread sleeps until somebody hands it a token.
//!
//! ```text
//!            park                     unpark
//!   EMPTY ─────────▶ PARKED ───────────────────▶ NOTIFIED
//!     ▲                │ deadline                  │ park
//!     └────────────────┴───────────────────────────┘
//! ```
//!
//! K1. A token given before, during or after the way into sleep ends that sleep or the next one.
//! K2. Tokens do not add up: any number of `unpark` between two parks is one token.
//! K3. What happened before an `unpark` is visible after the park that took its token, also when
//!     several `unpark` fell together (each is a read-modify-write of the same word).
//! K4. One thread at a time parks; any thread may unpark.
//! K5. `unpark` enters the kernel only if the word said PARKED.
//!
//! Not `std::thread::park`: its token belongs to the thread, and a user's own `park` inside a task
//! could swallow ours, or ours could end a user's.
//!
//! Not here: whom to unpark (`idle`), and the reason for the wake-up, which a token cannot carry.

use std::time::{Duration, Instant};

use crate::base::shim::{AtomicU32, Ordering};
use crate::base::sim;

#[cfg(any(loom, test, not(all(target_os = "linux", target_pointer_width = "64"))))]
mod condvar;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(loom)))]
mod futex;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(any(loom, not(all(target_os = "linux", target_pointer_width = "64"))))]
use condvar::CondvarGate as SystemGate;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(loom)))]
use futex::FutexGate as SystemGate;

/// Nobody sleeps and there is no token.
const EMPTY: u32 = 0;
/// The owner sleeps or is about to.
const PARKED: u32 = 1;
/// A token waits for the owner.
const NOTIFIED: u32 = 2;

/// How a thread blocks on the parker's word.
trait Gate: Default {
    /// Blocks while `word` is PARKED. May return early for no reason; returns after `timeout`.
    fn wait(&self, word: &AtomicU32, timeout: Option<Duration>);

    /// Ends a `wait` on `word`, which has just stopped being PARKED.
    fn wake(&self, word: &AtomicU32);

    /// The time that deadlines are measured against.
    fn now() -> Instant {
        Instant::now()
    }
}

/// Blocks as the simulation says on a thread of one, and as the system does elsewhere.
#[derive(Debug, Default)]
struct Hooked(SystemGate);

impl Gate for Hooked {
    fn wait(&self, word: &AtomicU32, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| sim::now().checked_add(timeout));
        if !sim::park(key(word), deadline) {
            self.0.wait(word, timeout);
        }
    }

    fn wake(&self, word: &AtomicU32) {
        // Whom the simulation does not know sleeps outside of it.
        if !sim::unpark(key(word)) {
            self.0.wake(word);
        }
    }

    fn now() -> Instant {
        sim::now()
    }
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// A bed whose sleep is real, also on a thread of a simulation: the simulator's own.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Plain(Bed<SystemGate>);

#[cfg(not(loom))]
impl Plain {
    pub(crate) fn new() -> Self {
        Self(Bed::default())
    }

    pub(crate) fn park(&self) {
        self.park_until(None);
    }

    pub(crate) fn park_until(&self, deadline: Option<Instant>) -> Unparked {
        self.0.park_until(deadline)
    }

    pub(crate) fn unpark(&self) {
        self.0.unpark();
    }
}

/// Why a park ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unparked {
    /// A token was there or came; it is spent.
    Token,
    /// The deadline passed first.
    Timeout,
}

/// One thread's bed: see the file header for K1 to K5.
#[derive(Debug)]
pub(crate) struct Parker(Bed<Hooked>);

impl Parker {
    pub(crate) fn new() -> Self {
        Self(Bed::default())
    }

    /// Sleeps until there is a token, and takes it.
    pub(crate) fn park(&self) {
        self.park_until(None);
    }

    /// Sleeps until there is a token or `timeout` has passed. A sum beyond what `Instant` can
    /// hold means no deadline.
    pub(crate) fn park_timeout(&self, timeout: Duration) -> Unparked {
        self.park_until(sim::now().checked_add(timeout))
    }

    /// Sleeps until there is a token or the deadline has passed; `None` is no deadline. A token
    /// that is already there wins over a deadline that has already passed.
    pub(crate) fn park_until(&self, deadline: Option<Instant>) -> Unparked {
        self.0.park_until(deadline)
    }

    /// Hands the owner a token.
    pub(crate) fn unpark(&self) {
        self.unpark_here();
        sim::point();
    }

    /// As `unpark`, where a simulation must not switch: the caller may hold a lock (H2 of `sim`).
    pub(crate) fn unpark_here(&self) {
        self.0.unpark();
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
impl std::task::Wake for Parker {
    fn wake(self: std::sync::Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        self.unpark();
    }
}

/// The state machine, apart from how the thread blocks, so that the models check the one that
/// runs in production.
#[derive(Debug)]
struct Bed<G> {
    /// EMPTY, PARKED or NOTIFIED. The owner writes EMPTY and PARKED, everybody NOTIFIED.
    word: AtomicU32,
    gate: G,
}

impl<G: Gate> Default for Bed<G> {
    fn default() -> Self {
        Self { word: AtomicU32::new(EMPTY), gate: G::default() }
    }
}

impl<G: Gate> Bed<G> {
    fn park_until(&self, deadline: Option<Instant>) -> Unparked {
        // ORDERING: Relaxed, a success publishes nothing and a failure is followed by `stand_up`.
        let lain_down =
            self.word.compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Relaxed);
        if let Err(state) = lain_down {
            debug_assert_eq!(state, NOTIFIED, "K4: two threads park on one parker");
            return self.stand_up();
        }
        loop {
            let timeout = match deadline {
                None => None,
                Some(at) => match at.checked_duration_since(G::now()) {
                    None | Some(Duration::ZERO) => return self.stand_up(),
                    some => some,
                },
            };
            self.gate.wait(&self.word, timeout);
            // ORDERING: Relaxed, only decides whether to stand up; `stand_up` synchronizes.
            if self.word.load(Ordering::Relaxed) == NOTIFIED {
                return self.stand_up();
            }
        }
    }

    /// Leaves the bed, with the token if there is one.
    fn stand_up(&self) -> Unparked {
        // ORDERING: Acquire pairs with the Release in `unpark`; a swap, because a plain store
        // could overwrite a second token without synchronizing with its giver (K3).
        match self.word.swap(EMPTY, Ordering::Acquire) {
            NOTIFIED => Unparked::Token,
            state => {
                debug_assert_eq!(state, PARKED, "K4: two threads park on one parker");
                Unparked::Timeout
            }
        }
    }

    fn unpark(&self) {
        // ORDERING: Release pairs with the Acquire in `stand_up` (K3).
        if self.word.swap(NOTIFIED, Ordering::Release) == PARKED {
            self.gate.wake(&self.word);
        }
    }
}
