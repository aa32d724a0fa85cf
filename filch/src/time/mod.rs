//! Sleeping, timeouts and intervals, under the clock of the current runtime.
//!
//! | to | use |
//! | --- | --- |
//! | pause a task | [`sleep()`], [`sleep_until()`] |
//! | give up on a future after a while | [`timeout()`], [`timeout_at()`] |
//! | do something again and again | [`interval()`], [`interval_at()`] |
//! | tell the time | [`Instant`] |
//! | stop or move a timer | drop it, [`Sleep::cancel`], [`Sleep::reset`] |
//!
//! A timer costs nothing before its first poll, then a place in a wheel: there is no allocation and no
//! thread per timer. Deadlines are kept to a few microseconds; nothing completes early. While a task
//! blocks its worker, others fire the timers that the worker has.
//!
//! The clock is that of the current runtime: the system's, one that a test moves by hand
//! ([`ManualClock`](crate::testkit::ManualClock)), or a simulation's, whose time jumps to the next
//! deadline when nobody can run ([`Sim`](crate::testkit::Sim)).
//!
//! ```
//! use std::time::Duration;
//! use filch::testkit::Sim;
//! use filch::time::{Instant, sleep, timeout};
//!
//! // A day passes in no time.
//! Sim::new().run(|| filch::block_on(async {
//!     let begin = Instant::now();
//!     let day = Duration::from_secs(24 * 60 * 60);
//!     assert!(timeout(day / 2, sleep(day)).await.is_err());
//!     assert!(timeout(day, sleep(day / 2)).await.is_ok());
//!     assert!(begin.elapsed() >= day && begin.elapsed() < day + Duration::from_secs(1));
//! }));
//! ```

mod instant;
mod interval;
mod sleep;
mod timeout;

pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};
