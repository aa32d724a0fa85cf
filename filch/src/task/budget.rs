//! The cooperative budget: how many operations a task, or the future of a `block_on`, may complete in one
//! poll.
//!
//! A future that always finds its next operation ready would never return. So the operations of
//! this crate count, and once the budget is spent they report `Pending` and have the future polled
//! again: a task after the others, that of a `block_on` once its thread has let others have what it
//! holds.
//!
//! G1. An operation that is not ready takes nothing: a poll of more waiting operations than the budget
//!     has reaches every one of them.
//! G2. An operation that is ready takes one unit, however many layers of it count: with a budget of one,
//!     to count twice would be to wait for ever.
//! G3. A spent budget holds nobody up for ever. An executor that a poll runs inside itself, such as the
//!     `block_on` of another crate, does not come back to us for a new budget. So every so many
//!     refusals that came with a waker that is not the task's own renew it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{context, waker};

/// Refusals after which a foreign executor gets a new budget, and its size (G3). Guessed: no join or select
/// of that many branches polls each of them twice before it returns.
const FOREIGN: u32 = 256;

/// Polls an operation that counts if it is ready (G1, G2).
pub(crate) fn poll_counted<T>(
    cx: &Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let before = context::with(|here| here.budget.get());
    if before == 0 {
        refuse(cx);
        return Poll::Pending;
    }
    let result = operation(&mut Context::from_waker(cx.waker()));
    if result.is_ready() {
        count_since(before);
    }
    result
}

/// Counts an operation that is ready, unless a part of it has counted since the budget was `before` (G2).
fn count_since(before: u32) {
    context::with(|here| {
        if before != u32::MAX && here.budget.get() == before {
            here.budget.set(before - 1);
        }
    });
}

/// A future that counts when it is ready (G1, G2).
pub(crate) fn counted<F: Future>(operation: F) -> Counted<F> {
    Counted(operation)
}

/// See [`counted`].
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Counted<F>(F);

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is pinned with `self`, and nothing moves it.
        let operation = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        poll_counted(cx, |cx| operation.poll(cx))
    }
}

/// Tries an operation that counts if it can be done at once; `None` if it cannot, or the budget is
/// spent. Cheaper than a poll that is ready.
#[inline]
pub(crate) fn now<T>(operation: impl FnOnce() -> Option<T>) -> Option<T> {
    if is_spent() {
        return None;
    }
    let result = operation()?;
    context::with(|here| match here.budget.get() {
        u32::MAX => {}
        left => here.budget.set(left - 1),
    });
    Some(result)
}

/// Counts an operation that never waits.
pub(crate) async fn proceed() {
    poll_fn(|cx| poll_proceed(cx)).await;
}

/// Takes one operation from the running task's budget, for something that is ready; `Pending`, with the
/// task queued again, if none is left.
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    poll_counted(cx, |_| Poll::Ready(()))
}

/// Whether nothing is left, so that no operation that counts is ready.
fn is_spent() -> bool {
    context::with(|here| here.budget.get()) == 0
}

/// Has the running future polled again, with a new budget.
#[cold]
fn refuse(cx: &Context<'_>) {
    if requeue(cx) == Whose::Own {
        return;
    }
    context::with(|here| {
        let refused = here.refused.get() + 1;
        here.refused.set(refused % FOREIGN);
        // G3.
        if refused == FOREIGN {
            here.budget.set(FOREIGN);
        }
    });
}

/// Calls `f` without a limit: it blocks in a poll, so there is nobody to let go first.
pub(crate) fn without_limit<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            context::with(|here| here.budget.set(self.0));
        }
    }
    let _restore = Restore(context::with(|here| here.budget.replace(u32::MAX)));
    f()
}

/// Whose waker a context has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// That of the running task.
    Own,
    /// That of an executor inside the task, or of a `block_on`.
    Foreign,
}

/// Has the running task polled again after others; cheaper than waking it if `cx` is its own.
pub(crate) fn requeue(cx: &Context<'_>) -> Whose {
    let own = context::with(|here| {
        let own = waker::is_of(cx.waker(), here.task.get());
        if own {
            here.yielded.set(true);
        }
        own
    });
    if own {
        return Whose::Own;
    }
    cx.waker().wake_by_ref();
    Whose::Foreign
}
