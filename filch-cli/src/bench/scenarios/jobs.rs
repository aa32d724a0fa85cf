//! Empty jobs and an empty loop, made and waited for on a worker: what a job system costs when
//! there is nothing to do.

use super::{Entry, Load, per_op, runs};
#[cfg(feature = "peers")]
use crate::bench::pools::Rayon;
use crate::bench::pools::{Filch, Jobs, Loops, Pool, started, timed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Children of a parent, and turns of a loop.
const COUNT: usize = 4_096;

/// The job scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::per_op(
            "job_run_wait",
            "an empty job, run and waited for on a worker, per job",
            runs!(self::run_wait => Filch, [Rayon]),
        ),
        Entry::per_op(
            "job_children_4k",
            "a job of 4,096 empty children, run and waited for on a worker, per child",
            runs!(self::children => Filch, [Rayon]),
        ),
        Entry::per_op(
            "parallel_for_4096",
            "a loop of 4,096 empty turns, waited for on a worker, per loop",
            runs!(self::empty_loop => Filch, [Rayon]),
        ),
    ]
}

fn run_wait<P: Jobs>(load: Load) -> Vec<f64> {
    let times = load.pick(500_000, 100);
    let ran = counted::<P>(load, |count| P::run_and_wait(move || count.add()));
    assert_eq!(ran, 1);
    per_op(repeated::<P>(load, times, || P::run_and_wait(|| ())), times)
}

fn children<P: Jobs>(load: Load) -> Vec<f64> {
    let times = load.pick(100, 1);
    let ran = counted::<P>(load, |count| P::run_children(COUNT, move || count.add()));
    assert_eq!(ran, COUNT);
    per_op(repeated::<P>(load, times, || P::run_children(COUNT, || ())), times * COUNT)
}

fn empty_loop<P: Loops>(load: Load) -> Vec<f64> {
    let times = load.pick(200_000, 10);
    let ran = counted::<P>(load, |count| P::each_index(COUNT, |_| count.add()));
    assert_eq!(ran, COUNT);
    per_op(repeated::<P>(load, times, || P::each_index(COUNT, |_| ())), times)
}

fn repeated<P: Pool>(load: Load, times: usize, program: fn()) -> Duration {
    let pool = started::<P>(load.threads);
    timed(&pool, move |_| (0..times).for_each(|_| program())).1
}

/// Counts jobs; leaked, because a job may own no more than copies.
#[derive(Clone, Copy)]
struct Counter(&'static AtomicUsize);

impl Counter {
    fn add(self) {
        // ORDERING: Relaxed, the end of the program orders it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many jobs a program runs, tried before the empty ones, which leave no trace.
fn counted<P: Pool>(load: Load, program: fn(Counter)) -> usize {
    P::start(load.threads).run(move |_| {
        let counter = Counter(Box::leak(Box::default()));
        program(counter);
        // ORDERING: Relaxed, as above.
        counter.0.load(Ordering::Relaxed)
    })
}
