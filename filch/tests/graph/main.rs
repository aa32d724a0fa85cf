//! Task graphs, from outside.

mod after;
mod algorithm;
mod edges;
mod faults;
mod flow;
mod order;
mod profile;
mod random;
mod roles;

#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/support.rs"]
mod support;
#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/watchdog.rs"]
mod watchdog;
