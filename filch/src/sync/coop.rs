//! How an operation of this module is polled by a task, and how a thread blocks in it.
//!
//! O1. Every operation counts against the budget of the task, so that one that is always ready
//!     keeps nobody from running; one that waits counts nothing (G1 of `task/budget.rs`).
//! O2. Every poll is a switch point of a simulation.
//! O3. A thread that blocks in an operation is out of its crew, like one that waits for a handle.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::permits::{Attempt, Closed, Permits};
use crate::base::sim;
use crate::block_on::run_here;
use crate::task::budget;

/// O1, O2.
pub(super) fn poll_counted<T>(
    cx: &mut Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    sim::point();
    budget::poll_counted(cx, operation)
}

/// Tries an operation that counts, if it can be done at once (O1, O2).
#[inline]
pub(super) fn now<T>(operation: impl FnOnce() -> Option<T>) -> Option<T> {
    sim::point();
    budget::now(operation)
}

/// Counts an operation that is ready (O1, O2).
pub(super) async fn proceed() {
    sim::point();
    budget::proceed().await;
}

/// Awaits an operation that counts (O1, O2).
pub(super) fn counted<F: Future + Unpin>(operation: F) -> Counted<F> {
    Counted(operation)
}

/// See [`counted`].
#[must_use = "futures do nothing unless awaited"]
pub(super) struct Counted<F>(F);

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        poll_counted(cx, |cx| Pin::new(&mut self.0).poll(cx))
    }
}

/// Awaits permits (O1, O2).
pub(super) async fn take(permits: &Permits, need: usize) -> Result<(), Closed> {
    let attempt = || (permits.try_take(need) == Attempt::Taken).then_some(());
    match now(attempt) {
        Some(()) => Ok(()),
        None => counted(permits.take(need)).await,
    }
}

/// Blocks in an operation (O3).
pub(super) fn block_on<F: Future>(operation: F) -> F::Output {
    budget::without_limit(|| run_here(operation, u32::MAX))
}
