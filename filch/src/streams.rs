//! What can be done with any stream of bytes: a part of `filch::io`.
//!
//! Z1. Everything here counts against the budget of the task, also what never waits. That is why it is no
//!     part of the leaf `io`, which knows no tasks.
//!
//! Not here: the traits, which are those of `futures-io` (`io/mod.rs`).

mod buffered;

pub use buffered::{BufReader, Lines};
