//! The stress tests of a job system, in our words: races around waking, waiting, and threads that
//! come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use filch::{Builder, join, scope, spawn_fn};

use crate::kit::Gate;
use crate::watchdog::watched;

/// One job at a time, each posted when the workers are just about to sleep.
#[test]
fn a_job_posted_while_workers_fall_asleep_is_run() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for round in 0..3000 {
            // A pause of a different length each time, so that the post meets every moment of the
            // way into sleep.
            for _ in 0..round % 97 {
                std::hint::spin_loop();
            }
            assert_eq!(runtime.block_on(runtime.spawn_fn(move || round)), round);
        }
    });
}

/// Bursts of jobs with nothing between them: everybody sleeps, everybody is needed.
#[test]
fn bursts_of_jobs_wake_the_workers_again_and_again() {
    watched(|dog| {
        let runtime = dog.rig(4);
        let ran = Arc::new(AtomicUsize::new(0));
        for burst in 1..=100 {
            let handles: Vec<_> = (0..burst)
                .map(|_| {
                    let ran = ran.clone();
                    runtime.spawn_fn(move || ran.fetch_add(1, Ordering::Relaxed))
                })
                .collect();
            runtime.block_on(filch::wait_all_async(handles));
        }
        assert_eq!(ran.load(Ordering::Relaxed), 5050);
    });
}

/// The processor time of this thread so far.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// 100 ms are the measure, they order nothing. The job itself sleeps, so all that is used is waiting.
#[test]
fn a_thread_that_waits_for_a_job_does_not_spin() {
    watched(|dog| {
        let runtime = dog.rig_of(Builder::new().workers(2).adoptable_threads(1));
        let _adopted = runtime.adopt().unwrap();
        let wait = |how: fn(Gate)| {
            let (gate, opener) = Gate::new();
            let opened = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                drop(opener);
            });
            let before = thread_time();
            how(gate);
            let spent = thread_time() - before;
            opened.join().unwrap();
            assert!(spent < Duration::from_millis(30), "100 ms of waiting cost {spent:?}");
        };
        // A job that somebody else has begun, waited for in three ways.
        wait(|gate| {
            let started = Arc::new(Barrier::new(2));
            let there = started.clone();
            join(
                || _ = started.wait(),
                move || {
                    there.wait();
                    gate.pass();
                },
            );
        });
        wait(|gate| {
            let started = Arc::new(Barrier::new(2));
            scope(|s| {
                let there = started.clone();
                s.spawn(move |_| {
                    there.wait();
                    gate.pass();
                });
                started.wait();
            });
        });
        wait(|gate| {
            let started = Arc::new(Barrier::new(2));
            let there = started.clone();
            let handle = spawn_fn(move || {
                there.wait();
                gate.pass();
            });
            started.wait();
            handle.wait();
        });
    });
}

#[test]
fn jobs_in_the_queue_of_an_emancipated_thread_are_stolen() {
    watched(|dog| {
        let runtime = dog.rig_of(Builder::new().workers(2).adoptable_threads(1));
        for _ in 0..50 {
            let handles: Vec<_> = {
                let _adopted = runtime.adopt().unwrap();
                (0..20).map(|n| spawn_fn(move || n)).collect()
            };
            let values = runtime.block_on(filch::wait_all_async(handles));
            assert!(values.into_iter().eq(0..20));
        }
    });
}

#[test]
fn threads_adopt_and_leave_rapidly_while_others_steal_from_them() {
    watched(|dog| {
        let runtime = dog.rig_of(Builder::new().workers(2).adoptable_threads(4));
        let ran = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..250 {
                        let adopted = runtime.adopt().unwrap();
                        let add = || _ = ran.fetch_add(1, Ordering::Relaxed);
                        join(|| join(add, add), || join(add, add));
                        adopted.emancipate();
                    }
                });
            }
        });
        assert_eq!(ran.into_inner(), 4 * 250 * 4);
    });
}

/// A tree whose inner nodes all wait at the same time.
#[test]
fn a_deep_tree_with_many_waiters_ends() {
    fn tree(depth: u32, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        scope(|s| {
            for _ in 0..2 {
                s.spawn(move |_| {
                    join(|| tree(depth - 1, leaves), || std::hint::black_box(depth));
                });
            }
        });
    }
    watched(|dog| {
        for workers in [1, 2, 4] {
            let runtime = dog.rig(workers);
            let leaves = Arc::new(AtomicUsize::new(0));
            let counted = leaves.clone();
            runtime.block_on(runtime.spawn_fn(move || tree(10, &counted)));
            assert_eq!(leaves.load(Ordering::Relaxed), 1024);
        }
    });
}
