//! `sleep`: a future that waits for a point in time.
//!
//! S1. The timer is registered at the first poll, with a wheel of the runtime in which that happens.
//! S2. What is registered is in the wheel with the waker of the last poll until it fires, is reset or
//!     is dropped; a deadline that never comes too, so that a reset wakes whoever waits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::instant::Instant;
use crate::sched::shared::Shared;
use crate::sched::timers::Preference;
use crate::task::budget;
use crate::timer::{Polled, Timer};
use crate::{runtime, spawn};

/// Waits until `duration` has passed since this call.
///
/// The longest duration means for ever, and zero not at all. Dropping the future stops the timer; there
/// is nothing to clean up.
///
/// ```
/// use std::time::Duration;
/// use filch::time::{Instant, sleep};
/// filch::block_on(async {
///     let begin = Instant::now();
///     sleep(Duration::from_millis(2)).await;
///     assert!(begin.elapsed() >= Duration::from_millis(2));
/// });
/// ```
///
/// A sleep does not keep its runtime from ending. If it is polled after that, it goes on in the runtime that
/// polls it, or in the default one if none does.
///
/// # Cancel safety
/// A dropped sleep has no effect.
pub fn sleep(duration: Duration) -> Sleep {
    let now = Instant::read();
    let timer = if duration.is_zero() { Timer::fired() } else { Timer::new() };
    Sleep { deadline: now.saturating_add(duration), timer }
}

/// Waits until `deadline`. One that has passed is not waited for.
///
/// ```
/// use std::time::Duration;
/// use filch::time::{Instant, sleep_until};
/// filch::block_on(async {
///     let deadline = Instant::now() + Duration::from_millis(2);
///     sleep_until(deadline).await;
///     assert!(Instant::now() >= deadline);
/// });
/// ```
///
/// # Cancel safety
/// A dropped sleep has no effect.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, timer: Timer::new() }
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// It can be moved to another deadline, before or after it has completed, without a new timer: in a
/// loop that polls it by reference, or to watch over something that keeps making progress.
///
/// ```
/// use std::{pin::pin, time::Duration};
/// use filch::time::{Instant, sleep};
/// filch::block_on(async {
///     let mut sleep = pin!(sleep(Duration::from_secs(1000)));
///     sleep.as_mut().reset(Instant::now() + Duration::from_millis(1));
///     sleep.await;
/// });
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    deadline: Instant,
    /// Pinned with `self`.
    timer: Timer,
}

impl Sleep {
    /// When the sleep ends.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::{Instant, sleep_until};
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the sleep has ended: its next poll is ready.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::time::sleep;
    /// assert!(sleep(Duration::ZERO).is_elapsed());
    /// assert!(!sleep(Duration::from_secs(1000)).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.timer.is_fired()
    }

    /// Moves the end of the sleep, whether it has come or not. Whoever waits goes on waiting for the new
    /// one.
    ///
    /// ```
    /// use std::{pin::pin, time::Duration};
    /// use filch::time::{Instant, sleep};
    /// filch::block_on(async {
    ///     let mut sleep = pin!(sleep(Duration::ZERO));
    ///     sleep.as_mut().await;
    ///     let deadline = Instant::now() + Duration::from_millis(1);
    ///     sleep.as_mut().reset(deadline);
    ///     assert!(!sleep.is_elapsed());
    ///     sleep.await;
    ///     assert!(Instant::now() >= deadline);
    /// });
    /// ```
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let waker = self.as_mut().timer().cancel();
        // SAFETY: nothing that is pinned is moved.
        unsafe { self.as_mut().get_unchecked_mut() }.deadline = deadline;
        if let Some(waker) = waker
            && self.register(&waker).is_ready()
        {
            waker.wake();
        }
    }

    /// Stops the timer: the sleep does not end, unless it is [`reset`](Self::reset).
    ///
    /// ```
    /// use std::{pin::pin, time::Duration};
    /// use filch::time::{sleep, timeout};
    /// filch::block_on(async {
    ///     let mut sleep = pin!(sleep(Duration::from_millis(1)));
    ///     sleep.as_mut().cancel();
    ///     assert!(timeout(Duration::from_millis(2), sleep).await.is_err());
    /// });
    /// ```
    pub fn cancel(self: Pin<&mut Self>) {
        let never = self.deadline.saturating_add(Duration::MAX);
        self.reset(never);
    }

    fn timer(self: Pin<&mut Self>) -> Pin<&mut Timer> {
        // SAFETY: the timer is pinned with `self`, and moved by nobody.
        unsafe { self.map_unchecked_mut(|this| &mut this.timer) }
    }

    /// As `poll`, without a look at the task's budget.
    pub(super) fn poll_elapsed(mut self: Pin<&mut Self>, cx: &Context<'_>) -> Poll<()> {
        match self.as_mut().timer().poll(cx.waker()) {
            Polled::Fired => Poll::Ready(()),
            Polled::Waits => Poll::Pending,
            Polled::Idle => self.register(cx.waker()),
        }
    }

    /// S1; ready if there is nothing to wait for.
    fn register(mut self: Pin<&mut Self>, waker: &Waker) -> Poll<()> {
        let registered =
            spawn::current(|shared, _, _| self.as_mut().register_with(shared, waker.clone()));
        registered.unwrap_or_else(|| {
            // A thread that is adopted by a runtime that has ended.
            let shared = runtime::default().shared();
            self.register_with(shared, waker.clone()).expect("the default runtime does not end")
        })
    }

    /// As `register`, with a wheel of this runtime; `None` if it has ended.
    fn register_with(self: Pin<&mut Self>, shared: &Shared, waker: Waker) -> Option<Poll<()>> {
        let at = self.deadline.into_std();
        shared.register_timer(self.timer(), at, waker, Preference::Here)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll_counted(cx, |cx| self.poll_elapsed(cx))
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish()
    }
}
