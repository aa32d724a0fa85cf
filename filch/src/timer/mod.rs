//! Time as the workers see it.

mod clock;

pub use clock::{Clock, ManualClock};
