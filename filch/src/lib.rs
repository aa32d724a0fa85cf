//! One work-stealing runtime for async tasks and CPU jobs, with structure: what you start is
//! finished when the call that started it returns.
//!
//! # Why
//!
//! - **Two lanes.** Futures run on I/O workers, closures on compute workers. A long closure does not
//!   stand in front of a short task, because they share no queue and, unless a runtime is
//!   single-threaded, no worker.
//! - **No hostages.** While a task blocks its I/O worker, others take over what was ready behind it;
//!   if all of them block, a spare thread comes. Nobody has to remember a pool for blocking calls.
//! - **Structure.** [`block_on()`], [`group()`] and [`scope()`] return when every task below them has
//!   ended and is dropped. A panic goes to whoever holds the handle, else to the one who waits for the
//!   group, else to a hook; [`UnhandledPanic`] says more.
//! - **Waiting is safe.** A thread that waits runs what it waits for or nothing, so a lock that it
//!   holds is not wanted by unrelated work on top of its own stack.
//! - **Nothing burns when nothing runs.** Workers without work sleep until an event or a deadline.
//!
//! # First program
//!
//! ```
//! let sum = filch::block_on(async {
//!     let task = filch::spawn(async { 40 }); // an I/O worker polls it
//!     let job = filch::spawn_fn(|| 1 + 1); // a compute worker calls it
//!     task.await + job.await
//! });
//! assert_eq!(sum, 42);
//! ```
//!
//! The default runtime starts on first use. The attributes [`main`](macro@main) and
//! [`test`](macro@test) write the `block_on`.
//!
//! # Faces
//!
//! | to | use |
//! | --- | --- |
//! | start a task | [`spawn()`], [`spawn_fn()`], [`spawn_local()`]; [`task()`] to name it or give it a [`Priority`] |
//! | get its outcome | [`JoinHandle`]: `.await`, [`wait`](JoinHandle::wait), [`outcome`](JoinHandle::outcome), [`cancel`](JoinHandle::cancel), [`detach`](JoinHandle::detach) |
//! | start it when others have ended | [`spawn_after()`] |
//! | wait for several | [`wait()`] and [`wait_all()`] block, [`wait_async()`] and [`wait_all_async()`] do not |
//! | enter from a thread | [`block_on()`], [`block_on_fn()`] |
//! | fail together | [`group()`]: children own their data, the first error cancels the rest and drops the body |
//! | borrow from the stack | [`scope()`]: blocks until the last child is gone |
//! | compute in halves | [`join()`], [`join_many()`], [`join_all()`] |
//! | compute in loops, sort, scan | [`par`], with rayon's names |
//! | run a graph of nodes, many times | [`Graph`], [`graph`] |
//! | take items through stages, many at once | [`Pipeline`] |
//! | compute from async code | [`cpu()`] |
//! | call what blocks for long | [`spawn_blocking()`] |
//! | have jobs with children | [`Job`] |
//! | make this thread a worker | [`Handle::adopt`] |
//! | talk to the network | [`net`]: TCP, UDP and Unix sockets; [`io`] for buffers, lines and copies |
//! | read and write files | [`fs`] |
//! | sleep, limit the time of a future, tick | [`time`] |
//! | lock, signal, send messages between tasks | [`sync`] |
//! | wait for the first of several futures, or for all | [`select!`], [`race!`], [`join!`](macro@join), [`try_join!`] |
//! | let others go first | [`yield_now()`] |
//! | have a runtime of one's own | [`Runtime`], [`Builder`], [`Handle`], [`Config`] |
//! | end it | [`Shutdown`], with a [`ShutdownReport`] |
//! | see what happens | [`Handle::tasks`], [`Handle::snapshot`], [`Handle::describe`] |
//! | put something in place of the system | [`EventCore`], [`testkit::Clock`] |
//! | run a program under a thousand orders of events | [`testkit::Sim`], `#[filch::test(sim)]` |
//!
//! # Structure
//!
//! Every task belongs to a group: that of the task, `block_on`, `scope` or `group` it was spawned in,
//! or else the runtime's own. A dropped [`JoinHandle`] lets the task run on in its group;
//! [`JoinHandle::detach`] moves it to the runtime's. Only when its last task has ended and is dropped
//! is a group finished, and its parent is not finished before.
//!
//! # Not yet
//!
//! Signals, processes and standard streams have no futures of their own. I/O is for
//! Linux only. There are no cargo features.

// What only I/O uses is dead code where there is none.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

extern crate self as filch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// The faces.
#[cfg(not(loom))]
mod spawn;

#[cfg(not(loom))]
mod wait;

#[cfg(not(loom))]
mod block_on;

#[cfg(not(loom))]
mod group;

#[cfg(not(loom))]
mod scope;

#[cfg(not(loom))]
mod fork;

#[cfg(not(loom))]
mod job;

#[cfg(not(loom))]
mod cpu;

#[cfg(not(loom))]
mod adopt;

#[cfg(not(loom))]
mod post;

#[cfg(not(loom))]
pub mod worker;

#[cfg(not(loom))]
mod hive;

#[cfg(not(loom))]
mod pump;

#[cfg(not(loom))]
mod watch;

#[cfg(not(loom))]
pub mod par;

pub mod graph;

pub mod pipeline;

#[cfg(all(target_os = "linux", not(loom)))]
pub mod fs;

#[cfg(all(target_os = "linux", not(loom)))]
pub mod net;

/// Shown to users in `io`.
#[cfg(all(target_os = "linux", not(loom)))]
mod streams;

pub mod sync;

#[cfg(not(loom))]
pub mod time;

#[cfg(not(loom))]
mod runtime;

#[cfg(not(loom))]
mod builder;

#[cfg(not(loom))]
mod config;

#[cfg(not(loom))]
mod error;

#[cfg(not(loom))]
pub mod testkit;

// What a task is, and where the leaves meet.
mod task;

#[cfg(not(loom))]
mod sched;

// The leaves.
mod idle;
#[cfg(target_os = "linux")]
pub mod io;
#[cfg(not(loom))]
mod observe;
mod pool;
mod queue;
mod timer;

// What all of them stand on.
mod base;

/// ```
/// #[filch::main(workers = 2)]
/// async fn main() -> std::io::Result<()> {
///     assert_eq!(filch::spawn(async { 7 }).await, 7);
///     Ok(())
/// }
/// ```
pub use filch_macros::main;
/// ```
/// use filch::sync::{Notify, mpmc};
/// # filch::block_on(async {
/// let (sender, receiver) = mpmc::bounded(1);
/// let stop = Notify::new();
/// sender.send(1).await.unwrap();
/// let mut seen = 0;
/// loop {
///     filch::select! {
///         biased;
///         Ok(number) = receiver.recv(), if seen == 0 => {
///             seen = number;
///             stop.notify_one();
///         }
///         () = stop.notified() => break,
///         else => unreachable!("one of them is always waited for"),
///     }
/// }
/// assert_eq!(seen, 1);
/// # });
/// ```
pub use filch_macros::select;
/// ```
/// #[filch::test]
/// async fn spawned_task_returns_its_value() {
///     assert_eq!(filch::spawn(async { 7 }).await, 7);
/// }
///
/// #[filch::test(sim, seeds = 200)]
/// fn both_halves_run_whatever_the_order() {
///     assert_eq!(filch::join(|| 1, || 2), (1, 2));
/// }
///
/// #[filch::test(single_thread)]
/// #[should_panic(expected = "boom")]
/// async fn panic_reaches_the_test() {
///     filch::spawn(async { panic!("boom") }).await
/// }
/// ```
pub use filch_macros::test;

/// ```
/// # filch::block_on(async {
/// let winner = filch::race!(std::future::pending(), std::future::ready("first"));
/// assert_eq!(winner, "first");
/// # });
/// ```
pub use filch_macros::race;

/// ```
/// # filch::block_on(async {
/// assert_eq!(filch::join!(async { 1 }, async { "two" }), (1, "two"));
/// # });
/// ```
pub use filch_macros::join;

/// ```
/// # filch::block_on(async {
/// let both = filch::try_join!(async { Ok(1) }, async { Err::<(), _>("no") });
/// assert_eq!(both, Err("no"));
/// # });
/// ```
pub use filch_macros::try_join;

#[cfg(not(loom))]
pub use adopt::{AdoptError, Adopted};
#[cfg(not(loom))]
pub use block_on::{block_on, block_on_fn};
#[cfg(not(loom))]
pub use builder::Builder;
#[cfg(not(loom))]
pub use config::{
    Affinity, Config, IoBackend, Level, LostWrite, PanicInfo, ParseConfigError, Role,
    UnhandledPanic, WorkerInfo,
};
#[cfg(not(loom))]
pub use cpu::{Cpu, cpu};
#[cfg(not(loom))]
pub use error::{BuildError, ConfigError};
#[cfg(not(loom))]
pub use fork::{Joined, join, join_all, join_many};
#[cfg(not(loom))]
pub use graph::{Graph, spawn_after};
#[cfg(not(loom))]
pub use group::{Group, GroupFuture, group};
#[cfg(not(loom))]
pub use hive::Detach;
#[cfg(not(loom))]
pub use observe::Counts;
#[cfg(not(loom))]
pub use pipeline::Pipeline;
#[cfg(not(loom))]
pub use post::{PostError, PostRefusal};
#[cfg(not(loom))]
pub use pump::Pump;
#[cfg(not(loom))]
pub use runtime::{Description, Handle, LaneSnapshot, Runtime, Snapshot, WorkerSnapshot};
#[cfg(not(loom))]
pub use sched::blockers::BlockingSnapshot;
#[cfg(not(loom))]
pub use sched::core::{EventCore, EventSource, SourceId, SourceKind};
#[cfg(not(loom))]
pub use sched::leave::DetachError;
#[cfg(all(unix, not(loom)))]
pub use sched::poll::{FdEvent, FdSource, Interest, PollCore};
#[cfg(not(loom))]
pub use sched::pump::Pumped;
#[cfg(not(loom))]
pub use sched::roster::{AttachError, NewWorker, WorkerId, WorkerState, WorkerStatus};
#[cfg(not(loom))]
pub use sched::shutdown::{Shutdown, ShutdownReport, TaskInfo, TaskState};
#[cfg(not(loom))]
pub use scope::{Scope, scope};
#[cfg(not(loom))]
pub use spawn::{
    Refused, TaskBuilder, YieldNow, current_id, spawn, spawn_blocking, spawn_fn, spawn_local, task,
    yield_now,
};
#[cfg(not(loom))]
pub use task::header::TaskId;
#[cfg(not(loom))]
pub use task::job::Job;
#[cfg(not(loom))]
pub use task::join::{JoinError, JoinHandle, Outcome};
#[cfg(not(loom))]
pub use task::state::Priority;
#[cfg(not(loom))]
pub use wait::{Waitable, wait, wait_all, wait_all_async, wait_async};
#[cfg(not(loom))]
pub use watch::{WatchError, WatchRefusal, Watcher};
