//! Time as the workers see it.

mod clock;

pub use crate::base::clock::ManualClock;
pub use clock::Clock;
