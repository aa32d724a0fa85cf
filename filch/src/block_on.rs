//! `block_on`: run something here, and return when every descendant is gone.
//!
//! O1. The body runs on the caller's thread with a fresh group as current, so it need be neither
//!     `Send` nor `'static`; the caller's group is current again afterwards, also on panic.
//! O2. The value is returned after the group is finished: every descendant, however deep and on
//!     whatever lane, has ended and its body has been dropped.
//! O3. A panic of the body continues here once the group is finished; else the first panic of a
//!     descendant that nobody took, unless the runtime reports those.
//! O4. Each poll of the body has the budget of a task. When it is spent, a worker offers what is ready here to
//!     others, as before a wait, and polls again; any other thread polls again at once.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::base::process::FORKED;
use crate::config::UnhandledPanic;
use crate::sched::adopt;
use crate::sched::blocking::{Notice, Sleeper, wait_for_group};
use crate::sched::shared::Shared;
use crate::sched::worker::Worker;
use crate::spawn;
use crate::task::context::{self, Below, Frame};
use crate::task::group::{Group, GroupRef, OnPanic, Tracking, guard_user_code};

/// Runs a future on this thread and returns its value once every task that it or its descendants
/// spawned has ended.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static DONE: AtomicU32 = AtomicU32::new(0);
/// let value = filch::block_on(async {
///     for _ in 0..3 {
///         drop(filch::spawn(async { DONE.fetch_add(1, Ordering::Relaxed) }));
///     }
///     "the value"
/// });
/// assert_eq!(value, "the value");
/// assert_eq!(DONE.load(Ordering::Relaxed), 3);
/// ```
///
/// # Panics
/// If the future panics, or, unless the runtime [reports](crate::UnhandledPanic::Report) it, a descendant whose
/// handle nobody kept: after all have ended.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    in_current_group(|| run_with_budget(future))
}

/// Runs a closure on this thread and returns its value once every task that it or its descendants
/// spawned has ended.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static DONE: AtomicU32 = AtomicU32::new(0);
/// filch::block_on_fn(|| {
///     drop(filch::spawn_fn(|| DONE.fetch_add(1, Ordering::Relaxed)));
/// });
/// assert_eq!(DONE.load(Ordering::Relaxed), 1);
/// ```
///
/// # Panics
/// As [`block_on`].
#[track_caller]
pub fn block_on_fn<T>(body: impl FnOnce() -> T) -> T {
    in_current_group(body)
}

#[track_caller]
fn in_current_group<T>(body: impl FnOnce() -> T) -> T {
    let (parent, on_panic) =
        spawn::current(|shared, group, _| (group.to_ref(), on_panic_here(shared)));
    in_group(&parent, on_panic, tracking_of_block_on(), |_| body())
}

/// What a panic that nobody took does in a group that a thread of the runtime waits for.
pub(crate) fn on_panic_here(shared: &Shared) -> OnPanic {
    match shared.config.unhandled_panic {
        UnhandledPanic::Propagate => OnPanic::Continue,
        UnhandledPanic::Report => OnPanic::Report,
    }
}

/// Runs `body` in a fresh group inside `parent` (O1 to O3).
#[track_caller]
pub(crate) fn in_group<T>(
    parent: &GroupRef,
    on_panic: OnPanic,
    tracking: Tracking,
    body: impl FnOnce(&GroupRef) -> T,
) -> T {
    parent.home().process.check();
    let Some(group) = Group::inside(parent, on_panic, tracking) else {
        panic!("the runtime has shut down");
    };
    context::with(|cx| cx.waits.set(cx.waits.get() + 1));
    let result = {
        let _below = Below::here();
        // SAFETY: X2, `group` outlives the frame.
        let _frame = unsafe { Frame::enter(Arc::as_ptr(&group), ptr::null(), u32::MAX) };
        catch_unwind(AssertUnwindSafe(|| body(&group)))
    };
    if parent.home().process.is_parent() {
        return end_in_child(result);
    }
    // E1 of `scope`: nothing may unwind past children that borrow from this stack.
    let abort = AbortOnUnwind;
    // SAFETY: the group's first unit, given up once.
    unsafe { Group::leave(Arc::as_ptr(&group)) };
    wait_for_group(&group);
    context::with(|cx| cx.waits.set(cx.waits.get() - 1));
    std::mem::forget(abort);
    adopt::end_left();
    match (result, group.close()) {
        (Ok(value), None) => value,
        (Ok(value), Some(fallout)) => {
            // Not while the panic unwinds: a second one would end the process.
            guard_user_code(|| drop(value));
            resume_unwind(fallout.payload)
        }
        (Err(payload), fallout) => {
            if let Some(fallout) = fallout {
                // Closed by now: it goes to the hook.
                group.deliver(fallout);
            }
            resume_unwind(payload)
        }
    }
}

/// The body has forked, and this is the child: the group is the parent's to wait for. What its members borrow from
/// this stack is safe, since none of them runs here.
#[cold]
#[track_caller]
fn end_in_child<T>(result: std::thread::Result<T>) -> T {
    context::with(|cx| cx.waits.set(cx.waits.get() - 1));
    match result {
        Ok(_) => panic!("{FORKED}"),
        Err(payload) => resume_unwind(payload),
    }
}

/// Ends the process when dropped: for stretches in which nothing may unwind.
pub(crate) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Polls the future of a `block_on` here until it is ready, with the budget of a task in each poll (O4).
pub(crate) fn run_with_budget<F: Future>(future: F) -> F::Output {
    let budget = spawn::current(|shared, _, _| shared.config.poll_budget as u32);
    run_here(future, budget)
}

/// Polls the future here until it is ready, each time with this budget.
pub(crate) fn run_here<F: Future>(future: F, budget: u32) -> F::Output {
    let sleeper = Sleeper::new();
    let mut cx = Context::from_waker(&sleeper.waker);
    let mut future = pin!(future);
    let mut notice = Notice::NotDue;
    loop {
        context::with(|here| {
            here.budget.set(budget);
            // X9.
            here.unserved.set(None);
        });
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        context::check_process();
        // O4: a spent budget has woken the waker, so this lets go what a worker holds, and returns.
        sleeper.sleep_in_block_on(&mut notice);
    }
}

/// How a `block_on` on this thread finds the jobs that it waits for. A worker must find them
/// wherever they lie (a high or low one is in no deque), because there may be no spare left to run
/// them; a foreign thread that waits takes nobody's place, so its tasks need no list.
pub(crate) fn tracking_of_block_on() -> Tracking {
    // SAFETY: used within this call only.
    match unsafe { Worker::current() } {
        Some(_) => Tracking::Yes,
        None => Tracking::No,
    }
}

/// How a scope of `parent` on this thread finds the jobs that it waits for: a compute worker of the
/// same runtime has them in its deque, any other thread needs the list of members.
pub(crate) fn tracking_here(parent: &GroupRef) -> Tracking {
    // SAFETY: used within this call only.
    match unsafe { Worker::of_runtime(parent.home().shared.cast()) } {
        Some(worker) if worker.runs_jobs() => Tracking::No,
        _ => Tracking::Yes,
    }
}
