//! `cpu`: from async code to the job lane and back.
//!
//! F1. The closure is spawned at the first poll, into the group that polls: a future that is never
//!     polled has started nothing.
//! F2. Dropping the future drops the closure, here, unless it has started. One that has started
//!     runs to its end as a member of the group, whose end waits for it.
//! F3. The way back is the waker of whoever awaits: one wake of an I/O worker, and none if one looks
//!     for work.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::sched::blocking::drop_unstarted;
use crate::spawn;
use crate::task::body::JobBody;
use crate::task::join::JoinHandle;

/// Calls a closure that computes on the job lane, and gives its value back to async code.
///
/// Joins and parallel loops inside it spread over the compute workers, while I/O workers go on with
/// other tasks. The closure owns its data: an async borrow could be forgotten half-way.
///
/// ```
/// let sum = filch::block_on(async {
///     let data: Vec<u64> = (0..1000).collect();
///     filch::cpu(move || {
///         let (low, high) = data.split_at(500);
///         let (a, b) = filch::join(|| low.iter().sum::<u64>(), || high.iter().sum::<u64>());
///         a + b
///     })
///     .await
/// });
/// assert_eq!(sum, 499_500);
/// ```
///
/// In a [hive](crate::Builder::hive) that has no compute worker yet it waits for one to be attached.
///
/// # Panics
/// If the closure panics, its panic continues in whoever awaits. If the runtime can have no compute worker at all,
/// with that reason.
///
/// # Cancel safety
/// Dropping the future before the closure has started drops the closure, unrun. Once started it runs
/// to its end, its value is dropped, and the current group waits for it.
#[track_caller]
pub fn cpu<F, T>(closure: F) -> Cpu<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Cpu { stage: Stage::New(closure), site: Location::caller() }
}

/// The future of [`cpu`].
///
/// ```
/// let future = filch::cpu(|| 6 * 7);
/// assert_eq!(filch::block_on(future), 42);
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct Cpu<F, T> {
    stage: Stage<F, T>,
    site: &'static Location<'static>,
}

enum Stage<F, T> {
    New(F),
    Spawned(JoinHandle<T>),
    Over,
}

// Nothing in it is pinned: the closure is moved out, the handle is `Unpin`.
impl<F, T> Unpin for Cpu<F, T> {}

impl<F, T> fmt::Debug for Cpu<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::New(_) => "new",
            Stage::Spawned(_) => "spawned",
            Stage::Over => "over",
        };
        f.debug_struct("Cpu").field("stage", &stage).finish_non_exhaustive()
    }
}

impl<F, T> Future for Cpu<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let mut handle = match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::New(closure) => spawn::task().launch(JobBody(closure), this.site),
            Stage::Spawned(handle) => handle,
            Stage::Over => panic!("`cpu` was polled after it was ready"),
        };
        let poll = Pin::new(&mut handle).poll(cx);
        if poll.is_pending() {
            this.stage = Stage::Spawned(handle);
        }
        poll
    }
}

impl<F, T> Drop for Cpu<F, T> {
    fn drop(&mut self) {
        if let Stage::Spawned(handle) = &self.stage {
            handle.cancel();
            // The handle keeps the cell alive.
            drop_unstarted(handle.raw());
        }
    }
}
