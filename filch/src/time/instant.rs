//! `Instant`: a point in time, as the clock of the current runtime tells it.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::base::sim;
use crate::sched::shared::Shared;
use crate::sched::worker::Worker;
use crate::task::context;

/// A point in time: `std`'s [`Instant`](std::time::Instant), read from the clock of the current
/// runtime.
///
/// Inside a task or a `block_on` of a runtime whose clock was set ([`Builder::clock`](crate::Builder::clock)),
/// and in a simulation, [`now`](Self::now) is what that clock shows. Elsewhere it is the system's time.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use filch::testkit::{Clock, ManualClock};
/// use filch::time::Instant;
///
/// let hand = Arc::new(ManualClock::new());
/// let runtime = filch::Builder::new().workers(1).clock(Clock::Manual(hand.clone())).build()?;
/// runtime.block_on(async {
///     let begin = Instant::now();
///     hand.advance(Duration::from_secs(3600));
///     assert_eq!(begin.elapsed(), Duration::from_secs(3600));
/// });
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// The present.
    ///
    /// ```
    /// use filch::time::Instant;
    /// let before = Instant::now();
    /// assert!(Instant::now() >= before);
    /// ```
    pub fn now() -> Self {
        // In a simulation, a loop that waits for the time must let it pass.
        sim::point();
        Self::read()
    }

    /// The present, on the way to something else.
    pub(super) fn read() -> Self {
        let group = context::with(|cx| cx.group.get());
        // SAFETY: X2, whoever set it keeps the group until the frame ends.
        if let Some(group) = unsafe { group.as_ref() } {
            // SAFETY: S1, an unfinished group keeps its runtime.
            let shared = unsafe { &*group.home().shared.cast::<Shared>() };
            return Self(shared.clock.now());
        }
        // SAFETY: used within this call only.
        match unsafe { Worker::current() } {
            Some(worker) => Self(worker.shared().clock.now()),
            None => Self(sim::now()),
        }
    }

    /// The same point in time as `std`'s type.
    ///
    /// ```
    /// use filch::time::Instant;
    /// let now = Instant::now();
    /// assert_eq!(Instant::from_std(now.into_std()), now);
    /// ```
    pub const fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// A point in time that `std`'s type names.
    ///
    /// ```
    /// use filch::time::Instant;
    /// let std = std::time::Instant::now();
    /// assert_eq!(Instant::from_std(std).into_std(), std);
    /// ```
    pub const fn from_std(at: std::time::Instant) -> Self {
        Self(at)
    }

    /// How long this is after `earlier`; zero if it is not.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::Instant;
    /// let now = Instant::now();
    /// let later = now + Duration::from_secs(1);
    /// assert_eq!(later.duration_since(now), Duration::from_secs(1));
    /// assert_eq!(now.duration_since(later), Duration::ZERO);
    /// ```
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// How long this is after `earlier`, or `None` if it is not.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::Instant;
    /// let now = Instant::now();
    /// assert_eq!(now.checked_duration_since(now + Duration::from_secs(1)), None);
    /// ```
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// How long this is after `earlier`; zero if it is not.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::Instant;
    /// let now = Instant::now();
    /// assert_eq!(now.saturating_duration_since(now + Duration::from_secs(1)), Duration::ZERO);
    /// ```
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// How long ago this was; zero if it is in the future.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::Instant;
    /// let later = Instant::now() + Duration::from_secs(1000);
    /// assert_eq!(later.elapsed(), Duration::ZERO);
    /// ```
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// A later point in time, or `None` if it is too far.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert!(filch::time::Instant::now().checked_add(Duration::MAX).is_none());
    /// ```
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// An earlier point in time, or `None` if it is too far.
    ///
    /// ```
    /// use std::time::Duration;
    /// assert!(filch::time::Instant::now().checked_sub(Duration::MAX).is_none());
    /// ```
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    /// A later point in time, or the last one that there is.
    pub(super) fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or_else(|| {
            let (mut last, mut step) = (self, duration);
            while !step.is_zero() {
                match last.checked_add(step) {
                    Some(later) => last = later,
                    None => step /= 2,
                }
            }
            last
        })
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If the result is too far.
    #[track_caller]
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    #[track_caller]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If the result is too far.
    #[track_caller]
    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    #[track_caller]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(at: std::time::Instant) -> Self {
        Self(at)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(at: Instant) -> Self {
        at.0
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
