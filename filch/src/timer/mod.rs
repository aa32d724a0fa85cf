//! Time: the clock, and what waits for it.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `clock` | what time is it? |
//! | `wheel` | which timers are due? |
//! | `timers` | how do a sleeping future and a wheel share a timer? |

#[cfg(not(loom))]
mod clock;
mod timers;
mod wheel;

#[cfg(not(loom))]
pub use crate::base::clock::ManualClock;
#[cfg(not(loom))]
pub use clock::Clock;
#[cfg_attr(loom, expect(unused_imports, reason = "the scheduler is not modelled"))]
pub(crate) use timers::{Batch, Expiry, Polled, Refused, Registered, Shut, Timer, Timers};
#[cfg_attr(loom, expect(unused_imports, reason = "the scheduler is not modelled"))]
pub(crate) use wheel::{LATEST, NEVER};
