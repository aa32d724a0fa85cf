//! Priorities under pressure: nobody starves, and high ones are seen at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::{Priority, Runtime};

use crate::support::{Gate, until};
use crate::watchdog::watched;

#[test]
fn low_job_runs_within_a_bound_under_a_flood_from_outside() {
    watched(|dog| {
        let builder = Runtime::builder().io_workers(1).compute_workers(1).compute_spares(0);
        let runtime = dog.rig_of(builder.global_interval(8));
        let (started, gate) = (Gate::default(), Gate::default());
        drop(runtime.spawn_fn({
            let (started, gate) = (started.clone(), gate.clone());
            move || {
                started.open();
                gate.block();
            }
        }));
        started.block();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..2_000 {
            let ran = ran.clone();
            drop(runtime.spawn_fn(move || ran.fetch_add(1, Ordering::SeqCst)));
        }
        let low = runtime.task().priority(Priority::Low).spawn_fn({
            let ran = ran.clone();
            move || ran.load(Ordering::SeqCst)
        });
        gate.open();
        // Awaited, because a thread that waits would run the job itself.
        let before = runtime.block_on(low);
        // Every fourth look, and a look is never further away than twice the interval.
        assert!(before <= 4 * 2 * 8, "ran after {before} others");
    });
}

#[test]
fn high_task_is_seen_by_a_searching_worker() {
    watched(|dog| {
        // A search that would not end by itself while the test lasts.
        let builder = Runtime::builder().io_workers(1).compute_workers(1);
        let runtime = dog.rig_of(builder.explore_yields(u32::MAX as usize));
        for priority in [Priority::High, Priority::Normal] {
            runtime.spawn(async {}).wait();
            until(|| runtime.snapshot().lanes[0].searching == 1);
            assert_eq!(runtime.task().priority(priority).spawn(async { 1 }).wait(), 1);
        }
    });
}

#[test]
fn normal_tasks_run_beside_a_high_task_that_never_stops_yielding() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let high = runtime.task().priority(Priority::High).spawn(async {
            let ran = Arc::new(AtomicUsize::new(0));
            for _ in 0..3 {
                let ran = ran.clone();
                drop(filch::spawn(async move { ran.fetch_add(1, Ordering::SeqCst) }));
            }
            while ran.load(Ordering::SeqCst) < 3 {
                filch::yield_now().await;
            }
        });
        high.wait();
    });
}
