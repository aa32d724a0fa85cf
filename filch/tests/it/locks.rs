//! A lock held across a wait cannot deadlock: whoever waits runs only what it waits for.

use std::sync::{Arc, Mutex};

use crate::support::Drops;
use crate::watchdog::watched;

#[test]
fn scope_with_a_lock_held_does_not_run_an_outer_job_that_wants_the_lock() {
    watched(|dog| {
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            for _ in 0..5 {
                runtime.everywhere(|| {
                    let (lock, order) = (Mutex::new(()), Mutex::new(Vec::new()));
                    filch::scope(|outer| {
                        let guard = lock.lock().unwrap();
                        let (lock, order) = (&lock, &order);
                        let wants = move |_: &filch::Scope<'_>| {
                            let _guard = lock.lock().unwrap();
                            order.lock().unwrap().push("outer");
                        };
                        filch::scope(|inner| {
                            // Older and newer than the inner job, wherever it is looked for.
                            outer.spawn(wants);
                            inner.spawn(|_| order.lock().unwrap().push("inner"));
                            outer.spawn(wants);
                        });
                        order.lock().unwrap().push("waited");
                        drop(guard);
                    });
                    let order = order.into_inner().unwrap();
                    assert_eq!(order, ["inner", "waited", "outer", "outer"]);
                });
            }
        }
    });
}

#[test]
fn lock_held_across_wait_does_not_meet_a_job_that_wants_it() {
    watched(|dog| {
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            for _ in 0..5 {
                runtime.everywhere(|| {
                    let (lock, ended) = (Arc::new(Mutex::new(0)), Drops::default());
                    filch::block_on_fn(|| {
                        for _ in 0..8 {
                            let (lock, token) = (lock.clone(), ended.token());
                            drop(filch::spawn_fn(move || {
                                let mut held = lock.lock().unwrap();
                                // A wait under the lock, as a parallel loop would.
                                *held += filch::spawn_fn(|| 1).wait();
                                drop(held);
                                drop(token);
                            }));
                        }
                    });
                    assert_eq!((*lock.lock().unwrap(), ended.count()), (8, 8));
                });
            }
        }
    });
}

#[test]
fn lock_held_across_wait_in_nested_jobs_and_futures() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let locks = Arc::new([Mutex::new(0), Mutex::new(0)]);
            filch::block_on_fn(|| {
                for _ in 0..4 {
                    let job_locks = locks.clone();
                    drop(filch::spawn_fn(move || {
                        let mut first = job_locks[0].lock().unwrap();
                        let inner = job_locks.clone();
                        let below = filch::spawn_fn(move || {
                            let mut second = inner[1].lock().unwrap();
                            *second += filch::spawn(async { 1 }).wait();
                        });
                        below.wait();
                        *first += 1;
                    }));
                    let task_locks = locks.clone();
                    drop(filch::spawn(async move {
                        let mut second = task_locks[1].lock().unwrap();
                        *second += filch::spawn_fn(|| 1).wait();
                    }));
                }
            });
            assert_eq!((*locks[0].lock().unwrap(), *locks[1].lock().unwrap()), (4, 8));
        });
    });
}

#[test]
fn lock_held_across_block_on_does_not_meet_a_stranger() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let lock = Arc::new(Mutex::new(0));
        let jobs: Vec<_> = (0..20)
            .map(|_| {
                let lock = lock.clone();
                runtime.spawn_fn(move || {
                    let mut held = lock.lock().unwrap();
                    *held += filch::block_on(async {
                        filch::spawn(async { 1 }).await + filch::spawn_fn(|| 1).wait()
                    });
                })
            })
            .collect();
        runtime.block_on(filch::wait_all_async(jobs));
        assert_eq!(*lock.lock().unwrap(), 40);
    });
}
