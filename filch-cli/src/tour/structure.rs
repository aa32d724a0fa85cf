//! Chapters on structure: who waits for whom, what an error ends, and how a runtime ends.

use super::{Shown, span};
use crate::style::grouped;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts the bodies that hold it: made, and dropped.
#[derive(Default)]
struct Census {
    made: AtomicU64,
    dropped: AtomicU64,
}

/// Held by a body from before the spawn until the body is dropped.
struct Held(Arc<Census>);

impl Census {
    fn hold(self: &Arc<Self>) -> Held {
        // ORDERING: Relaxed, read once everything is over; what says so orders it.
        self.made.fetch_add(1, Ordering::Relaxed);
        Held(Arc::clone(self))
    }

    /// Bodies made and bodies dropped.
    fn read(&self) -> (u64, u64) {
        // ORDERING: Relaxed, as in `hold`.
        (self.made.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // ORDERING: Relaxed, as in `hold`.
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A tree of tasks and jobs that nobody awaits.
pub fn block_on() -> Shown {
    const DESCENDANTS: u64 = 10 + 100 + 1_000;
    let census = Arc::new(Census::default());
    let start = Instant::now();
    filch::block_on(async { branch(3, &census) });
    let time = span(start.elapsed());
    assert_eq!(census.read(), (DESCENDANTS, DESCENDANTS));
    let all = grouped(DESCENDANTS);
    format!("{all} tasks that nobody awaited were gone when it returned, after {time}")
}

/// Ten children, tasks and jobs in turn, with as many below each.
fn branch(levels: u32, census: &Arc<Census>) {
    let below = move |held: Held| {
        if levels > 1 {
            branch(levels - 1, &held.0);
        }
    };
    for _ in 0..5 {
        let (first, second) = (census.hold(), census.hold());
        drop(filch::spawn(async move { below(first) }));
        drop(filch::spawn_fn(move || below(second)));
    }
}

/// One child fails, the others would wait for ever.
pub fn group() -> Shown {
    const SIBLINGS: u64 = 99;
    let census = Arc::new(Census::default());
    let start = Instant::now();
    let result: Result<(), &str> = filch::block_on(filch::group(async |g| {
        for _ in 0..SIBLINGS {
            let held = census.hold();
            drop(g.spawn(async move {
                let _held = held;
                pending::<Result<(), &str>>().await
            }));
        }
        drop(g.spawn(async { Err::<(), _>("no route") }));
        Ok(())
    }));
    let time = span(start.elapsed());
    assert_eq!(result, Err("no route"));
    assert_eq!(census.read(), (SIBLINGS, SIBLINGS));
    format!(
        "1 task failed with \"no route\"; {SIBLINGS} others were cancelled and gone after {time}"
    )
}

/// A vector of this stack frame, squared in place by the compute workers.
pub fn scope() -> Shown {
    const NUMBERS: u64 = 1_000_000;
    const CHUNKS: u64 = 8;
    let mut numbers: Vec<u64> = (0..NUMBERS).collect();
    let start = Instant::now();
    filch::scope(|s| {
        for chunk in numbers.chunks_mut((NUMBERS / CHUNKS) as usize) {
            s.spawn(move |_| chunk.iter_mut().for_each(|n| *n *= *n));
        }
    });
    let time = span(start.elapsed());
    let sum: u64 = numbers.iter().sum();
    assert_eq!(sum, (NUMBERS - 1) * NUMBERS * (2 * NUMBERS - 1) / 6);
    let all = grouped(NUMBERS);
    format!("{all} numbers of a local vector squared in place by {CHUNKS} tasks in {time}")
}

/// A runtime that one task does not let go.
pub fn shutdown() -> Shown {
    const DEADLINE: Duration = Duration::from_millis(50);
    let runtime = super::runtime(1);
    let done = runtime.spawn_fn(|| "done");
    let forgotten = runtime.task().name("forgotten reader").spawn(pending::<()>());
    let start = Instant::now();
    let report = runtime.shutdown(filch::Shutdown::DrainFor(DEADLINE));
    let time = start.elapsed();
    assert_eq!(done.wait(), "done", "what could finish did");
    let [blocker] = &report.unfinished[..] else { panic!("one task holds it up: {report}") };
    assert_eq!(blocker.id, forgotten.id());
    assert!(time >= DEADLINE && forgotten.is_finished());
    format!("with a deadline of {} it was over after {}:\n{report}", span(DEADLINE), span(time))
}
