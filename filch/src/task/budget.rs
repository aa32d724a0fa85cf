//! The cooperative budget: how many operations a task may complete in one poll.
//!
//! A future that always finds its next operation ready would never return. So the operations of
//! this crate count, and once the budget is spent they report `Pending` and have the task queued
//! again, after the others.
//!
//! G1. An operation that is not ready gives back what it took: a poll of more waiting operations
//!     than the budget has reaches every one of them.

use std::task::{Context, Poll};

use super::{context, waker};

/// Polls an operation that counts (G1).
pub(crate) fn poll_counted<T>(
    cx: &Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    std::task::ready!(poll_proceed(cx));
    let result = operation(&mut Context::from_waker(cx.waker()));
    if result.is_pending() {
        give_back();
    }
    result
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

/// Takes one operation from the running task's budget, for something that is ready; `Pending`, with the
/// task queued again, if none is left. Outside of a task there is no limit.
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

/// Whether nothing is left, so that no operation that counts is ready.
pub(crate) fn is_spent() -> bool {
    context::with(|here| here.budget.get()) == 0
}

fn give_back() {
    context::with(|here| match here.budget.get() {
        u32::MAX => {}
        left => here.budget.set(left + 1),
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
