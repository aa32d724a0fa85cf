//! A lock held across a wait cannot deadlock: whoever waits runs only what it waits for.

use std::sync::{Arc, Mutex, RwLock, mpsc};

use crate::kit::receive;
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

/// What many jobs do at the same time, each under a lock that the others want.
fn crowd(jobs: usize, job: impl Fn(usize) + Sync) {
    filch::scope(|s| {
        for n in 0..jobs {
            let job = &job;
            s.spawn(move |_| job(n));
        }
    });
}

/// A little work, forked.
fn forked(depth: u32) -> u32 {
    match depth {
        0 => 1,
        _ => {
            let (a, b) = filch::join(|| forked(depth - 1), || forked(depth - 1));
            a + b
        }
    }
}

/// The program of rayon#592.
#[test]
fn lock_held_across_join_does_not_meet_a_job_that_wants_it() {
    watched(|dog| {
        for workers in [1, 2, 4] {
            dog.rig(workers).everywhere(|| {
                let lock = Mutex::new(0);
                crowd(40, |_| {
                    let mut held = lock.lock().unwrap();
                    *held += forked(6);
                });
                assert_eq!(lock.into_inner().unwrap(), 40 * 64);
            });
        }
    });
}

#[test]
fn locks_held_across_nested_joins() {
    watched(|dog| {
        for workers in [2, 4] {
            dog.rig(workers).everywhere(|| {
                let locks = [Mutex::new(0), Mutex::new(0)];
                crowd(30, |_| {
                    let mut outer = locks[0].lock().unwrap();
                    let (a, b) = filch::join(
                        || {
                            let mut inner = locks[1].lock().unwrap();
                            *inner += forked(4);
                            1
                        },
                        || forked(4),
                    );
                    *outer += a + b;
                });
                let [outer, inner] = locks.map(|lock| lock.into_inner().unwrap());
                assert_eq!((outer, inner), (30 * 17, 30 * 16));
            });
        }
    });
}

/// The program of rayon#1205: a reader that reads again on top of itself would wait for the writer,
/// which waits for the reader.
#[test]
fn read_lock_held_across_join_while_others_write() {
    watched(|dog| {
        for workers in [2, 4] {
            dog.rig(workers).everywhere(|| {
                let lock = RwLock::new(0);
                crowd(40, |n| {
                    if n % 4 == 0 {
                        *lock.write().unwrap() += 1;
                    } else {
                        let held = lock.read().unwrap();
                        assert_eq!(forked(5), 32);
                        drop(held);
                    }
                });
                assert_eq!(lock.into_inner().unwrap(), 10);
            });
        }
    });
}

#[test]
fn lock_held_across_a_scope_inside_a_join() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let lock = Mutex::new(0);
            crowd(20, |_| {
                filch::join(
                    || {
                        let mut held = lock.lock().unwrap();
                        crowd(4, |_| assert_eq!(forked(3), 8));
                        *held += 1;
                    },
                    || {
                        let mut held = lock.lock().unwrap();
                        *held += forked(3);
                    },
                );
            });
            assert_eq!(lock.into_inner().unwrap(), 20 * 9);
        });
    });
}

#[test]
fn lock_held_across_a_join_whose_stolen_half_spawns_who_wants_it() {
    watched(|dog| {
        for workers in [2, 4] {
            dog.rig(workers).everywhere(|| {
                let lock = Mutex::new(0);
                filch::scope(|outer| {
                    let mut held = lock.lock().unwrap();
                    let lock = &lock;
                    let (began, begin) = mpsc::channel();
                    let spawns = move || {
                        outer.spawn(move |_| *lock.lock().unwrap() += 1);
                        began.send(()).unwrap();
                        forked(6)
                    };
                    let first = move || {
                        receive(&begin, "a thief");
                        1
                    };
                    let (a, b) = filch::join(first, spawns);
                    *held += a + b;
                    drop(held);
                });
                assert_eq!(lock.into_inner().unwrap(), 66);
            });
        }
    });
}
