//! Chapters on single tasks: spawn, closures beside them, wait.

use super::guide::{Bound, Guide, Says};
use super::{Shown, each, seconds, span};
use crate::style::grouped;
use filch::JoinHandle;
use std::future::pending;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What a task costs that is spawned and awaited; one more is cancelled.
pub fn tasks(guide: &Guide) -> Shown {
    let cost = match guide.measure("spawn_await", "tokio", Bound::Time(None), 5) {
        Ok(compared) => compared.words(0, Says::Cost, |ns| seconds(ns / 1e9)),
        Err(failure) => failure,
    };
    let endless = filch::spawn(pending::<()>());
    endless.cancel();
    let error = endless.wait_outcome().expect_err("it cannot end by itself");
    assert!(error.is_cancelled());
    format!(
        "one task, spawned and awaited: {cost}\na task that would never end, cancelled: \"{error}\""
    )
}

/// Every compute worker spins until some async tasks, posted one by one from here, have run.
pub fn jobs() -> Shown {
    const HOPS: usize = 200;
    /// How long a job spins if nobody stops it; the hops take far less.
    const PATIENCE: Duration = Duration::from_secs(10);
    let workers = filch::Handle::current().config().compute_workers;
    let stop = Arc::new(AtomicBool::new(false));
    let (started, has_started) = mpsc::channel();
    let spinners: Vec<_> = (0..workers)
        .map(|_| {
            let (stop, started) = (Arc::clone(&stop), started.clone());
            filch::spawn_fn(move || {
                started.send(()).expect("the tour listens");
                spin_until(&stop, PATIENCE)
            })
        })
        .collect();
    (0..workers).for_each(|_| has_started.recv().expect("a compute worker takes it"));

    let hop = |_| {
        let start = Instant::now();
        filch::spawn(async move { start.elapsed() }).wait()
    };
    let slowest = (0..HOPS).map(hop).max().expect("there are some");
    // ORDERING: Relaxed, the flag is all that it tells.
    stop.store(true, Ordering::Relaxed);
    let stopped = filch::wait_all(spinners);
    assert!(stopped.iter().all(|stopped| *stopped), "async tasks came through meanwhile");
    format!(
        "{HOPS} futures spawned while every compute worker was busy: the slowest started after {}",
        span(slowest)
    )
}

/// Whether the flag came before the time was up.
fn spin_until(stop: &AtomicBool, patience: Duration) -> bool {
    let start = Instant::now();
    // ORDERING: Relaxed, as where it is set.
    while !stop.load(Ordering::Relaxed) {
        if start.elapsed() > patience {
            return false;
        }
        hint::spin_loop();
    }
    true
}

/// The same wait on this thread, on a compute worker and on an I/O worker.
pub fn wait() -> Shown {
    const JOBS: u64 = 10_000;
    let product = || {
        let (six, seven) = filch::wait((filch::spawn(async { 6 }), filch::spawn_fn(|| 7)));
        six * seven
    };
    let on_workers: (JoinHandle<i32>, _) =
        (filch::spawn_fn(product), filch::spawn(async move { product() }));
    assert_eq!((product(), filch::wait(on_workers)), (42, (42, 42)));

    let start = Instant::now();
    let numbers = filch::wait_all((0..JOBS).map(|n| filch::spawn_fn(move || n)));
    let time = each(start.elapsed(), JOBS);
    assert!(numbers.into_iter().eq(0..JOBS), "in the order of the handles");
    format!(
        "{} closures, spawned and waited for on this thread: {time} each\n\
         on this thread, a compute worker and an I/O worker it returned the same two values",
        grouped(JOBS)
    )
}
