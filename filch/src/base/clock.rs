//! A clock that stands still until somebody moves it.
//!
//! Not here: who reads it (`timer`, the simulator), and what those do whom it tells that it moved.

use std::sync::{PoisonError, Weak};
use std::time::{Duration, Instant};

use super::shim::{AtomicU64, Mutex, Ordering};

/// Who wants to know that a clock has moved.
pub(crate) trait Listener: Send + Sync {
    /// The clock has moved; called without a lock, on the thread that moved it.
    fn clock_moved(&self);
}

/// A clock that moves only by [`advance`](Self::advance), so that a test of an hour takes no time
/// and gives the same result on every machine.
///
/// ```
/// use std::time::Duration;
/// use filch::testkit::ManualClock;
///
/// let clock = ManualClock::new();
/// let start = clock.now();
/// assert_eq!(clock.now(), start);
/// clock.advance(Duration::from_nanos(1));
/// assert_eq!(clock.now(), start + Duration::from_nanos(1));
/// ```
pub struct ManualClock {
    /// `Instant` has no origin of its own, so this is the time of creation.
    start: Instant,
    /// Nanoseconds since `start`; only grows.
    elapsed: AtomicU64,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl ManualClock {
    /// A clock that stands at the moment of its creation.
    ///
    /// ```
    /// let clock = filch::testkit::ManualClock::new();
    /// assert!(clock.now() <= std::time::Instant::now());
    /// ```
    pub fn new() -> Self {
        let listeners = Mutex::new(Vec::new());
        Self { start: Instant::now(), elapsed: AtomicU64::new(0), listeners }
    }

    /// The time that the clock shows.
    ///
    /// ```
    /// let clock = filch::testkit::ManualClock::new();
    /// assert_eq!(clock.now(), clock.now());
    /// ```
    #[inline]
    pub fn now(&self) -> Instant {
        // ORDERING: Acquire pairs with the Release in `advance`: who sees the new time sees what
        // was done before it came.
        self.start + Duration::from_nanos(self.elapsed.load(Ordering::Acquire))
    }

    /// Moves the clock forwards, and has the runtimes that go by it look at their timers.
    ///
    /// ```
    /// let clock = filch::testkit::ManualClock::new();
    /// let before = clock.now();
    /// clock.advance(std::time::Duration::from_secs(3600));
    /// assert_eq!((clock.now() - before).as_secs(), 3600);
    /// ```
    ///
    /// # Panics
    ///
    /// If the clock would have moved by more than 2⁶⁴ nanoseconds (584 years) in all.
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let moved = u64::try_from(by.as_nanos()).ok().and_then(|by| {
            // ORDERING: Release pairs with the Acquire in `now`; the failure only retries.
            self.elapsed
                .fetch_update(Ordering::Release, Ordering::Relaxed, |t| t.checked_add(by))
                .ok()
        });
        assert!(moved.is_some(), "a manual clock moves by at most 584 years");
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        let told: Vec<_> = listeners.iter().filter_map(Weak::upgrade).collect();
        drop(listeners);
        told.iter().for_each(|listener| listener.clock_moved());
    }

    /// Tells `listener` of each move from now on, as long as it is there.
    pub(crate) fn subscribe(&self, listener: Weak<dyn Listener>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}
