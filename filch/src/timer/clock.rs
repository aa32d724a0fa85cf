//! The clock that timers read: the system's, or one that a test moves by hand.
//!
//! Not here: the manual clock itself (`base`), which the simulator moves too; and waking anybody
//! when it moves. Whoever advances it also runs the workers.

use std::{sync::Arc, time::Instant};

use crate::base::clock::ManualClock;

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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::Clock;
    use crate::base::clock::ManualClock;

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
