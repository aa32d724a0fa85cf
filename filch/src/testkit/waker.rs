//! A waker that keeps books.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

use super::{Clock, now};

/// Counts how often it is woken, and knows when that was last.
///
/// Clones share their books.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use filch::testkit::{Clock, ManualClock, RecordingWaker};
/// let hand = Arc::new(ManualClock::new());
/// let waker = RecordingWaker::with_clock(Clock::Manual(hand.clone()));
/// let start = Clock::Manual(hand.clone()).now();
/// assert_eq!((waker.count(), waker.last()), (0, None));
/// hand.advance(Duration::from_millis(3));
/// waker.waker().wake();
/// assert_eq!((waker.count(), waker.last()), (1, Some(start + Duration::from_millis(3))));
/// ```
#[derive(Clone)]
pub struct RecordingWaker(Arc<Books>);

struct Books {
    clock: Option<Clock>,
    woken: Mutex<(usize, Option<Instant>)>,
    then: Option<Waker>,
}

impl RecordingWaker {
    /// One that reads the time of the simulation that it is part of, or of the system.
    ///
    /// ```
    /// let waker = filch::testkit::RecordingWaker::new();
    /// waker.waker().wake_by_ref();
    /// assert_eq!(waker.count(), 1);
    /// ```
    pub fn new() -> Self {
        Self::make(None, None)
    }

    /// One that reads the time of a clock.
    ///
    /// ```
    /// use filch::testkit::{Clock, RecordingWaker};
    /// assert_eq!(RecordingWaker::with_clock(Clock::Real).last(), None);
    /// ```
    pub fn with_clock(clock: Clock) -> Self {
        Self::make(Some(clock), None)
    }

    /// One that wakes another after it has noted the wake.
    ///
    /// ```
    /// use filch::testkit::RecordingWaker;
    /// let first = RecordingWaker::new();
    /// let second = RecordingWaker::then(first.waker());
    /// second.waker().wake();
    /// assert_eq!((first.count(), second.count()), (1, 1));
    /// ```
    pub fn then(waker: Waker) -> Self {
        Self::make(None, Some(waker))
    }

    fn make(clock: Option<Clock>, then: Option<Waker>) -> Self {
        Self(Arc::new(Books { clock, woken: Mutex::new((0, None)), then }))
    }

    /// The waker itself.
    ///
    /// ```
    /// use std::future::Future;
    /// use std::{pin::pin, task::Context};
    /// let recording = filch::testkit::RecordingWaker::new();
    /// let waker = recording.waker();
    /// let mut yielding = pin!(filch::yield_now());
    /// assert!(yielding.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    /// assert_eq!(recording.count(), 1);
    /// ```
    pub fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    /// How often it was woken.
    ///
    /// ```
    /// assert_eq!(filch::testkit::RecordingWaker::new().count(), 0);
    /// ```
    pub fn count(&self) -> usize {
        self.0.read().0
    }

    /// When it was last woken.
    ///
    /// ```
    /// assert_eq!(filch::testkit::RecordingWaker::new().last(), None);
    /// ```
    pub fn last(&self) -> Option<Instant> {
        self.0.read().1
    }
}

impl Default for RecordingWaker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RecordingWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, last) = self.0.read();
        f.debug_struct("RecordingWaker").field("count", &count).field("last", &last).finish()
    }
}

impl Books {
    fn read(&self) -> (usize, Option<Instant>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Books {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let at = self.clock.as_ref().map_or_else(now, Clock::now);
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        *woken = (woken.0 + 1, Some(at));
        drop(woken);
        if let Some(then) = &self.then {
            then.wake_by_ref();
        }
    }
}
