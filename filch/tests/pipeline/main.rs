//! Pipelines: what a stage sees in which order, how runs end, and that nothing is lost or left.

mod random;
mod runs;
mod sims;

#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/support.rs"]
mod support;
#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/watchdog.rs"]
mod watchdog;
