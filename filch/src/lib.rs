//! filch: one work-stealing runtime for async tasks and CPU jobs, with structure.

extern crate self as filch;

mod base;
mod idle;
mod pool;
mod queue;
mod task;

#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
mod sched;
#[cfg(not(loom))]
mod timer;

#[cfg(not(loom))]
mod block_on;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod scope;
#[cfg(not(loom))]
mod spawn;
#[cfg(not(loom))]
mod wait;

/// What tests put in place of the system: clocks.
#[cfg(not(loom))]
pub mod testkit {
    pub use crate::timer::{Clock, ManualClock};
}

/// ```
/// #[filch::main(workers = 2)]
/// async fn main() -> std::io::Result<()> {
///     assert_eq!(filch::spawn(async { 7 }).await, 7);
///     Ok(())
/// }
/// ```
pub use filch_macros::main;
/// ```
/// #[filch::test]
/// async fn spawned_task_returns_its_value() {
///     assert_eq!(filch::spawn(async { 7 }).await, 7);
/// }
///
/// #[filch::test(single_thread)]
/// #[should_panic(expected = "boom")]
/// async fn panic_reaches_the_test() {
///     filch::spawn(async { panic!("boom") }).await
/// }
/// ```
pub use filch_macros::test;

#[cfg(not(loom))]
pub use block_on::{block_on, block_on_fn};
#[cfg(not(loom))]
pub use builder::Builder;
#[cfg(not(loom))]
pub use config::{Affinity, Config, Level, PanicInfo, Role, WorkerInfo};
#[cfg(not(loom))]
pub use error::{BuildError, ConfigError};
#[cfg(not(loom))]
pub use group::{Group, GroupFuture, group};
#[cfg(not(loom))]
pub use observe::Counts;
#[cfg(not(loom))]
pub use runtime::{Description, Handle, LaneSnapshot, Runtime, Snapshot, WorkerSnapshot};
#[cfg(not(loom))]
pub use sched::core::EventCore;
#[cfg(not(loom))]
pub use sched::shutdown::{Shutdown, ShutdownReport, TaskInfo, TaskState};
#[cfg(not(loom))]
pub use scope::{Scope, scope};
#[cfg(not(loom))]
pub use spawn::{
    Refused, TaskBuilder, YieldNow, current_id, spawn, spawn_fn, spawn_local, task, yield_now,
};
#[cfg(not(loom))]
pub use task::header::TaskId;
#[cfg(not(loom))]
pub use task::join::{JoinError, JoinHandle, Outcome};
#[cfg(not(loom))]
pub use task::state::Priority;
#[cfg(not(loom))]
pub use wait::{Waitable, wait, wait_all, wait_all_async, wait_async};
