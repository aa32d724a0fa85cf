//! Spares, claimed jobs and tombstones: who runs what while somebody waits.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use filch::{Builder, Runtime, Shutdown};

use crate::support::{Drops, Gate, Rig, panic_of, until};
use crate::watchdog::{Watchdog, watched};

/// Longer than any test may take.
const FOR_EVER: Duration = Duration::from_secs(600);

fn one_of_each() -> Builder {
    Runtime::builder().io_workers(1).compute_workers(1)
}

/// A runtime whose only compute worker is inside a job until the gate opens.
fn with_busy_compute_worker(dog: &Watchdog) -> (Rig, Gate) {
    let runtime = dog.rig_of(one_of_each().io_spares(0).compute_spares(0));
    let (started, gate) = (Gate::default(), Gate::default());
    drop(runtime.spawn_fn({
        let (started, gate) = (started.clone(), gate.clone());
        move || {
            started.open();
            gate.block();
        }
    }));
    started.block();
    (runtime, gate)
}

#[test]
fn claimed_job_that_is_cancelled_while_it_runs_is_dropped_once() {
    watched(|dog| {
        let (runtime, gate) = with_busy_compute_worker(dog);
        let (runs, drops) = (Drops::default(), Drops::default());
        let result: Result<(), ()> = runtime.block_on(filch::group(async |g| {
            let (group, run, token) = (g.clone(), runs.token(), drops.token());
            let claimed = g.spawn_fn(move || {
                drop(run);
                let _token = &token;
                group.cancel();
                Ok(())
            });
            // Run in place, because the compute worker is not free.
            let _ = claimed.wait_outcome();
            Ok(())
        }));
        assert_eq!((result, runs.count(), drops.count()), (Ok(()), 1, 1));
        // The worker meets what the claim left in the queue.
        gate.open();
        runtime.assert_alive();
        assert!(runtime.drain().is_empty());
        assert_eq!((runs.count(), drops.count()), (1, 1));
    });
}

/// Opens its gate when dropped.
struct OpensOnDrop(Gate);

impl Drop for OpensOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn tombstones_left_at_shutdown_are_freed() {
    watched(|dog| {
        let (runtime, gate) = with_busy_compute_worker(dog);
        // The worker is held until the runtime ends, so that the queue is full then.
        let opens = OpensOnDrop(gate);
        let held = runtime.spawn(async move {
            let _opens = opens;
            pending::<()>().await;
        });
        let handle = runtime.handle();
        let before = handle.snapshot().task_bytes;
        for i in 0..50 {
            // Large enough for memory of its own, which goes with the job.
            let load = [i; 8 * 1024];
            assert_eq!(runtime.spawn_fn(move || load[0]).wait(), i);
        }
        assert!(handle.snapshot().task_bytes > before);
        runtime.shutdown(Shutdown::Abort);
        assert!(held.is_finished());
        assert!(handle.snapshot().task_bytes <= before);
    });
}

#[test]
fn job_that_waits_inside_a_claimed_job_on_an_io_worker_keeps_the_crew_count() {
    watched(|dog| {
        let (runtime, compute) = with_busy_compute_worker(dog);
        let gate = Gate::default();
        let task = runtime.spawn({
            let gate = gate.clone();
            async move {
                let job = filch::spawn_fn(move || {
                    filch::block_on(gate);
                    5
                });
                job.wait_outcome().map_err(|error| error.to_string())
            }
        });
        until(|| gate.waiters() == 1);
        gate.open();
        assert_eq!(task.wait(), Ok(5));
        compute.open();
        until(|| runtime.snapshot().workers.iter().all(|worker| !worker.blocked));
        runtime.assert_alive();
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn spare_that_stands_by_leaves_no_unit_and_no_task_behind() {
    watched(|dog| {
        let runtime = dog.rig_of(one_of_each().spare_keep_alive(FOR_EVER));
        for _ in 0..30 {
            let ran = Arc::new(AtomicBool::new(false));
            let flag = ran.clone();
            runtime.block_on(async move {
                drop(filch::spawn(async move {
                    let back = Gate::default();
                    let awaited = filch::spawn(async {});
                    // Outlives the wait on the spare, which is surplus then, and leaves a child.
                    let gate = back.clone();
                    drop(filch::spawn(async move {
                        gate.block();
                        drop(filch::spawn(async move { flag.store(true, Ordering::SeqCst) }));
                    }));
                    awaited.wait();
                    back.open();
                }));
            });
            assert!(ran.load(Ordering::SeqCst));
        }
        until(|| runtime.tasks().is_empty());
    });
}

#[test]
fn slot_being_left_calls_a_spare_again() {
    watched(|dog| {
        let brief = Duration::from_micros(200);
        let runtime = dog.rig_of(one_of_each().io_spares(1).spare_keep_alive(brief));
        for round in 0..300 {
            // The second wait falls before, into or after the moment in which the spare goes.
            let task = runtime.spawn(async move {
                filch::spawn(async {}).wait();
                for _ in 0..round {
                    std::thread::yield_now();
                }
                filch::spawn(async { 3 }).wait()
            });
            assert_eq!(task.wait(), 3);
        }
    });
}

#[test]
fn shutdown_does_not_wait_for_a_spare_that_stands_by() {
    watched(|dog| {
        for how in [Shutdown::Drain, Shutdown::Abort] {
            let runtime = dog.rig_of(one_of_each().spare_keep_alive(FOR_EVER));
            assert_eq!(runtime.spawn(async { filch::spawn(async { 2 }).wait() }).wait(), 2);
            until(|| runtime.snapshot().lanes[0].awake == 0);
            assert!(runtime.snapshot().workers.len() > 2, "a spare came");
            assert!(runtime.shutdown(how).unfinished.is_empty());
        }
    });
}

#[test]
fn job_that_a_scope_put_back_is_found_by_a_sleeping_worker() {
    watched(|dog| {
        let builder = Runtime::builder().io_workers(1).compute_workers(2).compute_spares(0);
        let runtime = dog.rig_of(builder.explore_yields(0).explore_tries(1));
        let stranger = runtime.handle();
        let job = runtime.spawn_fn(move || {
            for _ in 0..300 {
                let ran = Gate::default();
                filch::scope(|s| {
                    s.spawn(|_| ());
                    let ran = ran.clone();
                    drop(stranger.spawn_fn(move || ran.open()));
                });
                // This worker does not look at its queue again before the other has.
                until(|| ran.is_open());
            }
        });
        runtime.block_on(job);
    });
}

#[test]
fn waiting_for_a_task_pinned_here_panics() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let task = runtime.spawn(async {
            let text = panic_of(|| filch::spawn_local(async {}).wait());
            let ended = filch::spawn_local(async { 4 });
            while !ended.is_finished() {
                filch::yield_now().await;
            }
            (text, ended.wait())
        });
        let (text, value) = runtime.block_on(task);
        assert!(text.contains("is pinned to this worker"), "{text}");
        assert_eq!(value, 4);
        runtime.assert_alive();
    });
}
