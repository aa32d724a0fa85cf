//! What once went wrong, and must not again.
//!
//! Each test is the smallest situation that showed the fault; it fails by an assertion or by a
//! hang, which the watchdog turns into a failure.

mod crew;
mod forks;
mod order;
mod structure;
mod userland;
