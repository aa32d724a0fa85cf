//! `join`: from any thread, with panics, borrowed data and strangers in the deque.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use filch::{Builder, join, join_all, join_many};

use crate::kit::{Gate, receive};
use crate::support::Drops;
use crate::watchdog::watched;

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// The message of a panic.
fn message(panicked: std::thread::Result<()>) -> &'static str {
    *panicked.expect_err("it panics").downcast::<&str>().expect("with a message")
}

#[test]
fn join_works_on_every_kind_of_thread() {
    watched(|dog| {
        assert_eq!(fib(20), 6765);
        for workers in [1, 2, 4] {
            dog.rig(workers).everywhere(|| assert_eq!(fib(20), 6765));
        }
        let one = Builder::new().single_thread(true).build().unwrap();
        assert_eq!(one.spawn_fn(|| fib(20)).wait(), 6765);
        assert_eq!(one.block_on(async { fib(20) }), 6765);
        assert_eq!(one.block_on_fn(|| fib(20)), 6765);
    });
}

#[test]
fn join_works_where_no_guest_has_room() {
    watched(|dog| {
        let runtime = dog.rig_of(Builder::new().workers(2).guest_threads(0));
        runtime.everywhere(|| assert_eq!(fib(18), 2584));
    });
}

#[test]
fn more_threads_than_guests_join_at_the_same_time() {
    watched(|dog| {
        let runtime = dog.rig_of(Builder::new().workers(2).guest_threads(2));
        std::thread::scope(|s| {
            for _ in 0..6 {
                s.spawn(|| assert_eq!(runtime.block_on_fn(|| fib(20)), 6765));
            }
        });
    });
}

#[test]
fn both_halves_borrow_and_return() {
    fn sort(v: &mut [u32]) {
        if v.len() < 2 {
            return;
        }
        let pivot = v[v.len() / 2];
        let (mut less, mut at, mut more) = (0, 0, v.len());
        while at < more {
            match v[at].cmp(&pivot) {
                std::cmp::Ordering::Less => {
                    v.swap(less, at);
                    (less, at) = (less + 1, at + 1);
                }
                std::cmp::Ordering::Equal => at += 1,
                std::cmp::Ordering::Greater => {
                    more -= 1;
                    v.swap(at, more);
                }
            }
        }
        let (left, right) = v.split_at_mut(at);
        join(|| sort(&mut left[..less]), || sort(right));
    }
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let mut v: Vec<u32> =
                (0..5000).map(|n: u32| n.wrapping_mul(2_654_435_761) % 1000).collect();
            let mut expected = v.clone();
            expected.sort();
            sort(&mut v);
            assert_eq!(v, expected);
        });
    });
}

#[test]
fn a_panic_of_a_stolen_half_continues_here_once_both_have_ended() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let drops = Drops::default();
            let result = catch_unwind(AssertUnwindSafe(|| {
                let (started, start) = mpsc::channel();
                let token = drops.token();
                join(
                    move || {
                        // Returns only once a thief has begun the other half.
                        receive(&start, "a thief");
                        token
                    },
                    move || {
                        started.send(()).unwrap();
                        resume_unwind(Box::new("second"))
                    },
                );
            }));
            assert_eq!(message(result), "second");
            assert_eq!(drops.count(), 1, "the value of the first half was dropped");
        });
    });
}

#[test]
fn of_two_panics_the_first_counts_and_the_second_vanishes() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let result = catch_unwind(|| {
                let (started, start) = mpsc::channel();
                join(
                    move || {
                        receive(&start, "a thief");
                        resume_unwind(Box::new("first"))
                    },
                    move || {
                        started.send(()).unwrap();
                        resume_unwind(Box::new("second"))
                    },
                );
            });
            assert_eq!(message(result), "first");
        });
    });
}

#[test]
fn what_a_stolen_half_spawns_belongs_to_the_group_and_the_task_of_its_owner() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = ended.clone();
        runtime
            .spawn_fn(move || {
                filch::block_on_fn(|| {
                    let (here, there) = join(filch::current_id, || {
                        for _ in 0..100 {
                            let ended = counted.clone();
                            drop(filch::spawn_fn(move || ended.fetch_add(1, Ordering::Relaxed)));
                        }
                        filch::current_id()
                    });
                    assert_eq!(here, there);
                });
                assert_eq!(
                    counted.load(Ordering::Relaxed),
                    100,
                    "block_on waits for grandchildren"
                );
            })
            .wait();
    });
}

#[test]
fn jobs_that_the_first_half_leaves_behind_run_later_and_not_under_the_join() {
    watched(|dog| {
        for workers in [1, 2] {
            dog.rig(workers).everywhere(|| {
                let lock = Arc::new(Mutex::new(0));
                filch::block_on_fn(|| {
                    let mut held = lock.lock().unwrap();
                    for _ in 0..3 {
                        let spawn = || {
                            for _ in 0..5 {
                                let lock = lock.clone();
                                drop(filch::spawn_fn(move || *lock.lock().unwrap() += 1));
                            }
                        };
                        let ((), value) = join(spawn, || 7);
                        assert_eq!(value, 7);
                    }
                    *held += 100;
                });
                assert_eq!(*lock.lock().unwrap(), 115);
            });
        }
    });
}

#[test]
fn a_scope_inside_a_half_and_a_half_inside_a_scope() {
    watched(|dog| {
        for workers in [1, 2] {
            dog.rig(workers).everywhere(|| {
                let count = AtomicUsize::new(0);
                let add = || _ = count.fetch_add(1, Ordering::Relaxed);
                filch::scope(|outer| {
                    for _ in 0..10 {
                        outer.spawn(|_| {
                            join(
                                || filch::scope(|s| (0..5).for_each(|_| s.spawn(|_| add()))),
                                || filch::scope(|s| (0..5).for_each(|_| s.spawn(|_| add()))),
                            );
                        });
                    }
                });
                assert_eq!(count.into_inner(), 100);
            });
        }
    });
}

#[test]
fn tuples_and_lists_of_closures_return_in_order() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let s = String::from("x");
            assert_eq!(join_many((|| 1, || "b", || s.len())), (1, "b", 1));
            let eight = join_many((|| 0, || 1, || 2, || 3, || 4, || 5, || 6, || 7));
            assert_eq!(eight, (0, 1, 2, 3, 4, 5, 6, 7));
            let all = join_all((0..100).map(|n| move || n * n));
            assert!(all.into_iter().eq((0..100).map(|n| n * n)));
            assert!(join_all(Vec::<fn() -> u32>::new()).is_empty());
        });
    });
}

#[test]
fn a_panic_in_a_list_drops_every_value_and_closure() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let drops = Drops::default();
            let closures: Vec<_> = (0..50)
                .map(|n| {
                    let token = drops.token();
                    move || {
                        assert_ne!(n, 31, "thirty-one");
                        token
                    }
                })
                .collect();
            assert!(catch_unwind(AssertUnwindSafe(|| join_all(closures))).is_err());
            assert_eq!(drops.count(), 50);
        });
    });
}

#[test]
fn a_runtime_of_another_kind_inside_a_join_has_its_own_workers() {
    watched(|dog| {
        let (a, b) = (dog.rig(1), dog.rig(1));
        let inside = b.handle();
        a.spawn_fn(move || {
            let (x, y) = join(|| inside.block_on_fn(|| fib(15)), || fib(15));
            assert_eq!((x, y), (610, 610));
        })
        .wait();
    });
}

#[test]
fn a_join_whose_thief_blocks_does_not_stall_the_others() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, opener) = Gate::new();
        let (began, begin) = mpsc::channel();
        let waiting = runtime.spawn_fn(move || {
            join(
                // Both halves are out of the way: one waits for its thief, that one for the gate.
                move || receive(&begin, "a thief"),
                || {
                    began.send(()).unwrap();
                    gate.pass();
                },
            );
        });
        let handles: Vec<_> = (0..50).map(|n| runtime.spawn_fn(move || n)).collect();
        let sum: i32 =
            runtime.block_on(async { filch::wait_all_async(handles).await }).iter().sum();
        assert_eq!(sum, 1225);
        drop(opener);
        runtime.block_on(waiting);
    });
}

#[test]
fn a_million_scope_spawns_each_made_by_the_last_do_not_overflow_the_stack() {
    fn next<'scope>(s: &filch::Scope<'scope>, left: u32, count: &'scope AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
        if left > 1 {
            s.spawn(move |s| next(s, left - 1, count));
        }
    }
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime
            .spawn_fn(|| {
                let count = AtomicUsize::new(0);
                filch::scope(|s| next(s, 1_000_000, &count));
                assert_eq!(count.into_inner(), 1_000_000);
            })
            .wait();
    });
}

#[test]
fn a_deep_list_of_joins_fits_the_stack() {
    fn list(depth: u32) -> u32 {
        match depth {
            0 => 0,
            _ => {
                let (below, here) = join(|| list(depth - 1), || 1);
                below + here
            }
        }
    }
    watched(|dog| {
        let runtime = dog.rig(2);
        // Where nothing is optimised, a level takes about 1.5 kB, and less than 200 bytes otherwise.
        let depth = if cfg!(debug_assertions) { 1000 } else { 3000 };
        assert_eq!(runtime.block_on(runtime.spawn_fn(move || list(depth))), depth);
    });
}
