//! Programs that leave a worker idle while there is work, unless every join is offered to others.
//!
//! Work is counted in steps and not by the clock: two halves that share a core take as long as
//! both together.

use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::{Load, Metric, per_op};
use crate::bench::stats::mix;
use std::hint::{black_box, spin_loop};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const SKEWED: &[Metric] =
    &[Metric { name: "idle_ms", unit: "ms" }, Metric { name: "busy_ms", unit: "ms" }];

/// How long others are busy when they are.
const BUSY_US: u64 = 2_000;

/// How long to wait until others are; a pool that does not share by then has its say anyway.
const PATIENCE: Duration = Duration::from_millis(20);

/// As long a list of joins as there are leaves: whoever helps must come back for the next.
pub fn list<P: Pool>(load: Load) -> Vec<f64> {
    let (levels, leaf_us) = load.pick((200, 2_000), (20, 20));
    let pool = started::<P>(load.threads);
    let leaf = steps(leaf_us);
    let (done, elapsed) = timed(&pool, move |scope| level::<P>(scope, levels, leaf));
    assert_eq!(done, levels);
    per_op(elapsed, levels)
}

fn level<P: Pool>(scope: &mut P::Scope<'_>, levels: usize, leaf: u64) -> usize {
    if levels == 0 {
        return 0;
    }
    let (below, ()) = P::join(scope, |scope| level::<P>(scope, levels - 1, leaf), |_| work(leaf));
    below + 1
}

/// Two leaves that are worth sharing lie above three jobs that are not.
pub fn skewed<P: Pool>(load: Load) -> Vec<f64> {
    let leaf = steps(load.pick(50_000, 200));
    let pool = started::<P>(load.threads);
    let (done, idle) = timed(&pool, move |scope| small_jobs::<P>(scope, 3, leaf));
    assert_eq!(done, 5);
    let others = load.threads - 1;
    let (done, busy) = pool.run(move |scope| {
        let occupied = AtomicUsize::new(0);
        with_busy::<P, _, _>(scope, others, &occupied, |scope| {
            await_others::<P>(scope, others, &occupied);
            let start = Instant::now();
            (small_jobs::<P>(scope, 3, leaf), start.elapsed())
        })
    });
    assert_eq!(done, 5);
    [idle, busy].map(|time| time.as_secs_f64() * 1e3).into()
}

/// Queues so many small jobs, then joins two leaves; returns how many pieces ran.
fn small_jobs<P: Pool>(scope: &mut P::Scope<'_>, jobs: usize, leaf: u64) -> usize {
    let one = |steps| {
        work(steps);
        1
    };
    let (above, below) = match jobs {
        0 => P::join(scope, |_| one(leaf), |_| one(leaf)),
        _ => P::join(scope, |scope| small_jobs::<P>(scope, jobs - 1, leaf), |_| one(steps(1))),
    };
    above + below
}

/// Runs `body` above jobs that keep `others` busy once they have been taken.
fn with_busy<P: Pool, T: Send, F>(
    scope: &mut P::Scope<'_>,
    others: usize,
    occupied: &AtomicUsize,
    body: F,
) -> T
where
    F: FnOnce(&mut P::Scope<'_>) -> T + Send,
{
    if others == 0 {
        return body(scope);
    }
    let busy = || {
        // ORDERING: Relaxed, a count that publishes nothing.
        occupied.fetch_add(1, Ordering::Relaxed);
        work(steps(BUSY_US));
    };
    let (value, ()) =
        P::join(scope, |scope| with_busy::<P, T, F>(scope, others - 1, occupied, body), |_| busy());
    value
}

/// Returns when all others are busy. Empty joins are made meanwhile, for a pool may share work
/// only at a join.
fn await_others<P: Pool>(scope: &mut P::Scope<'_>, others: usize, occupied: &AtomicUsize) {
    let start = Instant::now();
    // ORDERING: Relaxed, as above.
    while occupied.load(Ordering::Relaxed) < others && start.elapsed() < PATIENCE {
        P::join(scope, |_| spin_loop(), |_| spin_loop());
    }
}

fn work(steps: u64) {
    black_box((0..steps).fold(black_box(1), |hash, _| mix(hash)));
}

/// How many steps of `work` take so many µs, by the fastest of some trials.
fn steps(micros: u64) -> u64 {
    static PER_MS: OnceLock<u64> = OnceLock::new();
    const TRIAL: u64 = 200_000;
    let trial = |_| {
        let start = Instant::now();
        work(TRIAL);
        start.elapsed()
    };
    let per_ms = PER_MS.get_or_init(|| {
        let fastest = (0..20).map(trial).min().expect("there are trials");
        (TRIAL as f64 / (fastest.as_secs_f64() * 1e3)) as u64
    });
    per_ms * micros / 1_000
}

#[cfg(test)]
mod tests {
    use super::{level, small_jobs, with_busy};
    use crate::bench::pools::Seq;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_piece_is_run_once() {
        assert_eq!(level::<Seq>(&mut (), 7, 1), 7);
        assert_eq!(small_jobs::<Seq>(&mut (), 3, 1), 3 + 2);
    }

    #[test]
    fn as_many_are_kept_busy_as_there_are_others() {
        let occupied = AtomicUsize::new(0);
        assert_eq!(with_busy::<Seq, _, _>(&mut (), 3, &occupied, |_| 42), 42);
        assert_eq!(occupied.into_inner(), 3);
    }
}
