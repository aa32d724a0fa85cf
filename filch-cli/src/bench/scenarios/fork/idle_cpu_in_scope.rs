//! What it costs to wait for a child that blocks: a thread that has nothing to run should sleep.

use crate::bench::machine::process_cpu_time;
use crate::bench::pools::{Pool, started};
use crate::bench::scenarios::Load;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// After the child has started, everybody else gets this long to fall asleep.
const SETTLE: Duration = Duration::from_millis(50);

/// How long the parent waits for somebody to take the child; then it runs it itself.
const PATIENCE: Duration = Duration::from_millis(100);

pub fn run<P: Pool>(load: Load) -> Vec<f64> {
    let span = load.pick(Duration::from_secs(1), Duration::from_millis(100));
    let alone = load.threads == 1;
    let pool = started::<P>(load.threads);
    let (tell, told) = mpsc::channel();
    pool.run(move |scope| {
        let taken = AtomicBool::new(alone);
        let child = || {
            // ORDERING: Relaxed, the flag is all that it tells.
            taken.store(true, Ordering::Relaxed);
            tell.send(cpu_ms_per_s(span)).expect("the benchmark listens");
        };
        P::with_child(scope, child, |scope| until_taken::<P>(scope, &taken));
    });
    vec![told.recv().expect("the child has run")]
}

/// Returns when the child has been taken. Empty joins are made meanwhile, for a pool may share
/// work only at a join.
fn until_taken<P: Pool>(scope: &mut P::Scope<'_>, taken: &AtomicBool) {
    let start = Instant::now();
    // ORDERING: Relaxed, as where it is set.
    while !taken.load(Ordering::Relaxed) && start.elapsed() < PATIENCE {
        P::join(scope, |_| spin_loop(), |_| spin_loop());
    }
}

/// Sleeps for the span and tells what the process used meanwhile.
fn cpu_ms_per_s(span: Duration) -> f64 {
    thread::sleep(SETTLE);
    let (start, before) = (Instant::now(), process_cpu_time());
    thread::sleep(span);
    let used = process_cpu_time() - before;
    used.as_secs_f64() * 1e3 / start.elapsed().as_secs_f64()
}
