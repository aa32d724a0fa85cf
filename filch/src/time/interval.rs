//! `interval`: ticks at equal distances.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::Stream;

use super::instant::Instant;
use super::sleep::{Sleep, sleep_until};

/// A tick that is later than this was missed, unless the period is shorter. Guessed, as in Tokio: what
/// a busy machine delays by is not worth changing the rhythm for.
const LATE: Duration = Duration::from_millis(5);

/// Ticks every `period`; the first tick comes at once.
///
/// ```
/// use std::time::Duration;
/// use filch::time::{Instant, interval};
/// filch::block_on(async {
///     let begin = Instant::now();
///     let mut interval = interval(Duration::from_millis(1));
///     for _ in 0..3 {
///         interval.tick().await;
///     }
///     assert!(begin.elapsed() >= Duration::from_millis(2));
/// });
/// ```
///
/// # Panics
/// If the period is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::read(), period)
}

/// Ticks at `start`, and every `period` after it.
///
/// ```
/// use std::time::Duration;
/// use filch::time::{Instant, interval_at};
/// filch::block_on(async {
///     let start = Instant::now() + Duration::from_millis(1);
///     let mut interval = interval_at(start, Duration::from_millis(1));
///     assert_eq!(interval.tick().await, start);
///     assert_eq!(interval.tick().await, start + Duration::from_millis(1));
/// });
/// ```
///
/// # Panics
/// If the period is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval is not zero");
    let missed = MissedTickBehavior::default();
    Interval { sleep: Box::pin(sleep_until(start)), period, missed }
}

/// What an [`Interval`] does when its ticks were not taken in time.
///
/// A tick was missed if it is taken 5 ms or a whole period late, whichever is less.
///
/// ```text
///   due         |     |     |     |     |     |     |
///   taken       |     |-- busy ------|
///   Burst       |     |              |||   |     |     all that are due, then as before
///   Delay       |     |              |     |     |     |   a period from now on
///   Skip        |     |              |  |     |     |  the one that is due, then as before
/// ```
///
/// ```
/// use filch::time::MissedTickBehavior;
/// assert_eq!(MissedTickBehavior::default(), MissedTickBehavior::Burst);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Ticks at once until it has caught up.
    #[default]
    Burst,
    /// Ticks a period after the late tick was taken, and so on from there.
    Delay,
    /// Ticks when the next one is due, and leaves out those in between.
    Skip,
}

impl MissedTickBehavior {
    /// When the tick after one that was due at `due`, and missed, is due.
    fn next(self, due: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            Self::Burst => due.saturating_add(period),
            Self::Delay => now.saturating_add(period),
            Self::Skip => {
                let over = (now - due).as_nanos() % period.as_nanos();
                let over = Duration::from_nanos_u128(over);
                now.saturating_add(period - over)
            }
        }
    }
}

/// Ticks at equal distances; see [`interval`]. As a [`Stream`] it has no end.
///
/// ```
/// use std::time::Duration;
/// use futures_lite::StreamExt;
/// let mut interval: filch::time::Interval = filch::time::interval(Duration::from_millis(1));
/// filch::block_on(async {
///     let first = interval.tick().await;
///     assert_eq!(interval.next().await, Some(first + Duration::from_millis(1)));
/// });
/// ```
#[derive(Debug)]
pub struct Interval {
    /// Boxed, so that an interval can be moved between ticks.
    sleep: Pin<Box<Sleep>>,
    period: Duration,
    missed: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick, and returns when it was due.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{Instant, interval};
    /// filch::block_on(async {
    ///     let mut interval = interval(Duration::from_millis(1));
    ///     let first = interval.tick().await;
    ///     assert_eq!(interval.tick().await - first, Duration::from_millis(1));
    /// });
    /// ```
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has taken no tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// As [`tick`](Self::tick), for use in a hand-written future.
    ///
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// filch::block_on(async {
    ///     let mut interval = filch::time::interval(Duration::from_millis(1));
    ///     poll_fn(|cx| interval.poll_tick(cx)).await;
    /// });
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.sleep.as_mut().poll(cx));
        let (due, now) = (self.sleep.deadline(), Instant::read());
        let missed = now - due > LATE.min(self.period);
        let next = if missed {
            self.missed.next(due, now, self.period)
        } else {
            due.saturating_add(self.period)
        };
        self.sleep.as_mut().reset(next);
        Poll::Ready(due)
    }

    /// Starts anew: the next tick comes a period from now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{Instant, interval};
    /// filch::block_on(async {
    ///     let mut interval = interval(Duration::from_millis(1));
    ///     let begin = Instant::now();
    ///     interval.reset();
    ///     assert!(interval.tick().await >= begin + Duration::from_millis(1));
    /// });
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Starts anew: the next tick comes at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{Instant, interval_at};
    /// filch::block_on(async {
    ///     let start = Instant::now() + Duration::from_secs(1000);
    ///     let mut interval = interval_at(start, Duration::from_secs(1));
    ///     interval.reset_immediately();
    ///     assert!(interval.tick().await < start);
    /// });
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::read());
    }

    /// Starts anew: the next tick comes when so much time has passed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{Instant, interval};
    /// filch::block_on(async {
    ///     let mut interval = interval(Duration::from_secs(1000));
    ///     interval.tick().await;
    ///     interval.reset_after(Duration::from_millis(1));
    ///     interval.tick().await;
    /// });
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(Instant::read().saturating_add(after));
    }

    /// Starts anew: the next tick comes at `deadline`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{Instant, interval};
    /// filch::block_on(async {
    ///     let mut interval = interval(Duration::from_secs(1000));
    ///     let deadline = Instant::now() + Duration::from_millis(1);
    ///     interval.reset_at(deadline);
    ///     assert_eq!(interval.tick().await, deadline);
    /// });
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
    }

    /// What happens when ticks are missed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{MissedTickBehavior, interval};
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what happens when ticks are missed; at first that is `Burst`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{MissedTickBehavior, interval};
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Delay);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// The time between two ticks.
    ///
    /// ```
    /// use std::time::Duration;
    /// let interval = filch::time::interval(Duration::from_secs(1));
    /// assert_eq!(interval.period(), Duration::from_secs(1));
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.poll_tick(cx).map(Some)
    }
}
