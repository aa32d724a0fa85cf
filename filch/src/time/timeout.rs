//! `timeout`: gives up on a future after a while.
//!
//! U1. The future is polled first: what is complete is returned, however late (PITFALL: a result that
//!     came with the timeout was thrown away).
//! U2. The deadline counts only against a future that had a chance: not if others had spent the task's
//!     budget before it was polled. The timeout itself counts, so it is not polled then.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::instant::Instant;
use super::sleep::{Sleep, sleep, sleep_until};
use crate::task::budget;

/// Waits for a future, at most for `duration` from this call.
///
/// If the future and the deadline are ready at the same poll, the future's value is returned: a timeout
/// that was not delivered discards nothing. With a duration of zero the future is polled once.
///
/// ```
/// use std::{future::pending, time::Duration};
/// use filch::time::timeout;
/// filch::block_on(async {
///     assert_eq!(timeout(Duration::from_secs(1000), async { 7 }).await, Ok(7));
///     assert!(timeout(Duration::from_millis(1), pending::<()>()).await.is_err());
///     assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7));
///     assert_eq!(timeout(Duration::MAX, async { 7 }).await, Ok(7));
/// });
/// ```
///
/// # Errors
/// [`Elapsed`] if the deadline came first; the future is dropped with the [`Timeout`].
///
/// # Cancel safety
/// That of the future.
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep(duration) }
}

/// Waits for a future, at most until `deadline`.
///
/// ```
/// use std::{future::pending, time::Duration};
/// use filch::time::{Instant, timeout_at};
/// filch::block_on(async {
///     let deadline = Instant::now() + Duration::from_millis(1);
///     assert!(timeout_at(deadline, pending::<()>()).await.is_err());
///     assert!(Instant::now() >= deadline);
///     assert_eq!(timeout_at(deadline, async { 7 }).await, Ok(7));
/// });
/// ```
///
/// # Errors
/// [`Elapsed`] if the deadline came first.
///
/// # Cancel safety
/// That of the future.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep_until(deadline) }
}

/// The future of [`timeout`] and [`timeout_at`].
///
/// ```
/// use std::time::Duration;
/// let waiting: filch::time::Timeout<_> = filch::time::timeout(Duration::from_secs(1), async { 7 });
/// assert_eq!(filch::block_on(waiting), Ok(7));
/// ```
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Timeout<F> {
    /// Pinned with `self`, as is `sleep`.
    future: F,
    sleep: Sleep,
}

impl<F> Timeout<F> {
    /// The future that is waited for.
    ///
    /// ```
    /// use std::{future::ready, time::Duration};
    /// let timeout = filch::time::timeout(Duration::from_secs(1), ready(7));
    /// assert_eq!(timeout.get_ref().clone().into_inner(), 7);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future that is waited for.
    ///
    /// ```
    /// use std::{future::ready, time::Duration};
    /// let mut timeout = filch::time::timeout(Duration::from_secs(1), ready(7));
    /// *timeout.get_mut() = ready(8);
    /// assert_eq!(filch::block_on(timeout), Ok(8));
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The future that is waited for, without a deadline.
    ///
    /// ```
    /// use std::{future::ready, time::Duration};
    /// let timeout = filch::time::timeout(Duration::from_secs(1), ready(7));
    /// assert_eq!(timeout.into_inner().into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }

    /// The deadline.
    ///
    /// ```
    /// use filch::time::{Instant, timeout_at};
    /// let deadline = Instant::now();
    /// assert_eq!(timeout_at(deadline, async {}).deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll_counted(cx, |cx| {
            // SAFETY: the future is pinned with `self`; it leaves only by value, before that.
            let future = unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.future) };
            // U1.
            if let Poll::Ready(value) = future.poll(cx) {
                return Poll::Ready(Ok(value));
            }
            // SAFETY: the sleep is pinned with `self`, and moved by nobody.
            let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.sleep) };
            // A future that spends the task's budget cannot keep the deadline from coming.
            sleep.poll_elapsed(cx).map(|()| Err(Elapsed(())))
        })
    }
}

/// The deadline came first.
///
/// ```
/// use std::{future::pending, io, time::Duration};
/// let elapsed = filch::block_on(async {
///     filch::time::timeout(Duration::ZERO, pending::<()>()).await.unwrap_err()
/// });
/// assert_eq!(elapsed.to_string(), "the deadline has passed");
/// assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline has passed")
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}
