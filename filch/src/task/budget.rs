//! The cooperative budget: how many operations a task may complete in one poll.
//!
//! A future that always finds its next operation ready would never return. So the operations of
//! this crate count, and once the budget is spent they report `Pending` and have the task queued
//! again, after the others.

use std::task::{Context, Poll};

use super::{context, waker};

/// Takes one operation from the running task's budget; `Pending`, with the task queued again,
/// if none is left. Outside of a task there is no limit.
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    let spent = context::with(|here| match here.budget.get() {
        0 => true,
        u32::MAX => false,
        left => {
            here.budget.set(left - 1);
            false
        }
    });
    if spent {
        requeue(cx);
        return Poll::Pending;
    }
    Poll::Ready(())
}

/// Has the running task polled again after others; cheaper than waking it if `cx` is its own.
pub(crate) fn requeue(cx: &Context<'_>) {
    let own = context::with(|here| {
        let own = waker::is_of(cx.waker(), here.task.get());
        if own {
            here.yielded.set(true);
        }
        own
    });
    if !own {
        cx.waker().wake_by_ref();
    }
}
