//! The clock that timers read: the system's, or one that a test moves by hand.
//!
//! Not here: waking anybody when a manual clock moves. Whoever advances it also runs the workers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::base::shim::{AtomicU64, Ordering};

/// Where a runtime takes the time from.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use filch::testkit::{Clock, ManualClock};
///
/// let hand = Arc::new(ManualClock::new());
/// let clock = Clock::Manual(hand.clone());
/// let before = clock.now();
/// hand.advance(Duration::from_secs(60));
/// assert_eq!(clock.now() - before, Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's monotonic clock.
    #[default]
    Real,
    /// A clock that stands still until somebody advances it.
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// The current time; it never goes backwards.
    ///
    /// ```
    /// let clock = filch::testkit::Clock::Real;
    /// let before = clock.now();
    /// assert!(clock.now() >= before);
    /// ```
    #[inline]
    pub fn now(&self) -> Instant {
        match self {
            Self::Real => Instant::now(),
            Self::Manual(clock) => clock.now(),
        }
    }
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
#[derive(Debug)]
pub struct ManualClock {
    /// `Instant` has no origin of its own, so this is the time of creation.
    start: Instant,
    /// Nanoseconds since `start`; only grows.
    elapsed: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at the moment of its creation.
    ///
    /// ```
    /// let clock = filch::testkit::ManualClock::new();
    /// assert!(clock.now() <= std::time::Instant::now());
    /// ```
    pub fn new() -> Self {
        Self { start: Instant::now(), elapsed: AtomicU64::new(0) }
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

    /// Moves the clock forwards.
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
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{Clock, ManualClock};

    #[test]
    fn manual_clock_moves_only_when_advanced() {
        let hand = Arc::new(ManualClock::new());
        let clock = Clock::Manual(hand.clone());
        let start = clock.now();
        assert_eq!(clock.clone().now(), start);
        hand.advance(Duration::from_millis(3));
        hand.advance(Duration::from_nanos(1));
        assert_eq!(clock.now() - start, Duration::from_nanos(3_000_001));
    }

    #[test]
    fn real_clock_never_goes_backwards() {
        let clock = Clock::default();
        let first = clock.now();
        assert!(clock.now() >= first);
    }

    #[test]
    #[should_panic(expected = "584 years")]
    fn manual_clock_refuses_to_wrap() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_nanos(u64::MAX / 2));
        clock.advance(Duration::from_nanos(u64::MAX / 2 + 2));
    }
}
