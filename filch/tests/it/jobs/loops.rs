//! Loops as jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::Job;

use crate::support::{Drops, Gate, panic_of};
use crate::watchdog::watched;

#[test]
fn a_loop_visits_each_step_once_whatever_the_step_and_grain() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on_fn(|| {
            for (first, last) in [(0, 0), (5, 3), (0, 1), (3, 100), (7, 1000)] {
                for step in [1, 2, 3, 7, 64, 5000] {
                    for grain in [0, 1, 5, 1000] {
                        let seen: Arc<Vec<AtomicUsize>> =
                            Arc::new((0..1000).map(|_| AtomicUsize::new(0)).collect());
                        let marks = seen.clone();
                        Job::new(move |job| {
                            job.for_each_step_child(first..last, step, grain, move |i| {
                                marks[i].fetch_add(1, Ordering::SeqCst);
                            })
                            .run();
                        })
                        .run_and_wait();
                        let wanted: Vec<usize> = (first..last).step_by(step).collect();
                        let got: Vec<usize> =
                            (0..1000).filter(|&i| seen[i].load(Ordering::SeqCst) == 1).collect();
                        assert_eq!(got, wanted, "{first}..{last} step {step} grain {grain}");
                        let visits: usize = seen.iter().map(|n| n.load(Ordering::SeqCst)).sum();
                        assert_eq!(visits, wanted.len());
                    }
                }
            }
        });
    });
}

#[test]
fn a_loop_is_queued_and_not_run_by_who_runs_it() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let gate = Gate::default();
        let closed = gate.clone();
        runtime.block_on_fn(|| {
            let work = Job::for_each(0..2, 1, move |_| closed.block());
            work.clone().run();
            gate.open();
            work.wait();
        });
    });
}

#[test]
fn a_loop_that_panics_ends_before_its_panic_goes_on() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let drops = Drops::default();
            let token = drops.token();
            let work = Job::for_each(0..100, 1, move |i| {
                let _token = &token;
                assert_ne!(i, 40, "forty");
            });
            assert!(panic_of(|| work.run_and_wait()).contains("forty"));
            assert_eq!(drops.count(), 1);
        });
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn pieces_of_a_loop_run_at_the_same_time() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let gates = [Gate::default(), Gate::default()];
        let work = runtime.spawn_fn(move || {
            // Each index gets on only while the other is at work.
            Job::for_each(0..2, 1, move |i| {
                gates[i].open();
                gates[1 - i].block();
            })
            .run_and_wait();
        });
        runtime.block_on(work);
    });
}
