//! `block_on`: on any thread, for any future, until every descendant is gone.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Drops, Gate, panic_of, until};
use crate::watchdog::watched;

#[test]
fn future_that_is_neither_send_nor_static_runs_on_the_caller() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let here = std::thread::current().id();
        let (borrowed, local) = (vec![1, 2, 3], Rc::new(Cell::new(0)));
        let sum = runtime.block_on(async {
            for x in &borrowed {
                filch::yield_now().await;
                let x = *x;
                local.set(local.get() + filch::spawn_fn(move || x).await);
                assert_eq!(std::thread::current().id(), here);
            }
            local.get()
        });
        assert_eq!(sum, 6);
        let mut text = String::from("a");
        let length = runtime.block_on_fn(|| {
            text.push('b');
            &text
        });
        assert_eq!(length, "ab");
    });
}

#[test]
fn nested_in_tasks_of_both_lanes_and_in_itself() {
    watched(|dog| {
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            runtime.everywhere(|| {
                let value = filch::block_on(async {
                    let inner = filch::block_on(async {
                        filch::block_on_fn(|| filch::spawn(async { 1 }).wait())
                            + filch::spawn_fn(|| 2).await
                    });
                    inner + filch::spawn(async { filch::block_on(filch::spawn_fn(|| 4)) }).await
                });
                assert_eq!(value, 7);
            });
        }
    });
}

/// Spawns children below children through everything that spawns, without keeping a handle.
fn grow(depth: usize, leaves: &Drops, made: &Arc<AtomicUsize>) {
    made.fetch_add(1, Ordering::SeqCst);
    let token = leaves.slow_or_plain(depth);
    if depth == 0 {
        return drop(token);
    }
    let next = || (depth - 1, leaves.clone(), made.clone());
    let (d, l, m) = next();
    drop(filch::spawn(async move {
        filch::yield_now().await;
        grow(d, &l, &m);
    }));
    let (d, l, m) = next();
    drop(filch::spawn_fn(move || grow(d, &l, &m)));
    let (d, l, m) = next();
    drop(filch::spawn(async move {
        drop(filch::spawn_local(async move {
            filch::yield_now().await;
            grow(d, &l, &m);
        }));
    }));
    let (d, l, m) = next();
    drop(filch::spawn(async move {
        let result: Result<(), ()> = filch::group(async |g| {
            drop(g.spawn(async move {
                grow(d, &l, &m);
                Ok(())
            }));
            Ok(())
        })
        .await;
        assert_eq!(result, Ok(()));
    }));
    drop(token);
}

trait SlowOrPlain {
    fn slow_or_plain(&self, depth: usize) -> Box<dyn std::any::Any>;
}

impl SlowOrPlain for Drops {
    fn slow_or_plain(&self, depth: usize) -> Box<dyn std::any::Any> {
        if depth == 1 { Box::new(self.slow_token()) } else { Box::new(self.token()) }
    }
}

#[test]
fn returns_after_descendants_however_deep_and_however_spawned() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let (leaves, made) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
            filch::block_on_fn(|| grow(4, &leaves, &made));
            assert_eq!(made.load(Ordering::SeqCst), 1 + 4 + 16 + 64 + 256);
            assert_eq!(leaves.count(), made.load(Ordering::SeqCst));
        });
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn chain_of_descendants_each_outliving_its_parent_is_waited_for() {
    watched(|dog| {
        fn link(left: usize, drops: Drops) {
            let token = drops.token();
            if left.is_multiple_of(2) {
                drop(filch::spawn(async move {
                    filch::yield_now().await;
                    drop(token);
                    if left > 0 {
                        link(left - 1, drops);
                    }
                }));
            } else {
                drop(filch::spawn_fn(move || {
                    drop(token);
                    link(left - 1, drops);
                }));
            }
        }
        let runtime = dog.rig(2);
        for _ in 0..20 {
            let drops = Drops::default();
            runtime.block_on(async { link(100, drops.clone()) });
            assert_eq!(drops.count(), 101);
        }
    });
}

#[test]
fn bodies_of_descendants_are_dropped_before_it_returns() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..30 {
            let drops = Drops::default();
            runtime.block_on(async {
                // What a future holds across its last await is dropped after it has its value.
                let kept = drops.slow_token();
                drop(filch::spawn(Holds { _kept: kept }));
                let kept = drops.slow_token();
                drop(filch::spawn_fn(move || {
                    let _kept = kept;
                }));
                let kept = drops.slow_token();
                let cancelled = filch::spawn(async move {
                    let _kept = kept;
                    std::future::pending::<()>().await;
                });
                cancelled.cancel();
            });
            assert_eq!(drops.count(), 3);
        }
    });
}

/// Ready at once; what it holds goes when the task drops it.
struct Holds {
    _kept: crate::support::SlowToken,
}

impl Future for Holds {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Ready(())
    }
}

#[test]
fn outputs_that_nobody_kept_are_dropped_before_it_returns() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..30 {
            let drops = Drops::default();
            runtime.block_on_fn(|| {
                let (a, b) = (drops.slow_token(), drops.slow_token());
                drop(filch::spawn(async move { a }));
                drop(filch::spawn_fn(move || b));
            });
            assert_eq!(drops.count(), 2);
        }
    });
}

#[test]
fn handle_that_leaves_it_keeps_its_output_and_no_more() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let token = drops.token();
        let handle = runtime.block_on(async { filch::spawn(async move { token }) });
        assert!(handle.is_finished());
        assert_eq!(drops.count(), 0);
        drop(handle.wait());
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn panic_of_the_body_continues_after_descendants_and_the_group_is_restored() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let (drops, gate) = (Drops::default(), Gate::default());
            filch::block_on_fn(|| {
                let (token, wait, opener) = (drops.token(), gate.clone(), gate.clone());
                let text = panic_of(|| {
                    filch::block_on(async {
                        drop(filch::spawn(async move {
                            wait.await;
                            drop(token);
                        }));
                        drop(filch::spawn_fn(move || opener.open()));
                        panic!("body")
                    })
                });
                assert_eq!((text.as_str(), drops.count()), ("body", 1));
                let (token, late) = (drops.token(), Gate::default());
                let opener = late.clone();
                drop(filch::spawn(async move {
                    late.await;
                    drop(token);
                }));
                drop(filch::spawn(async move { opener.open() }));
            });
            assert_eq!(drops.count(), 2, "a spawn after the panic is the outer one's");
        });
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn descendants_keep_borrowing_safely_while_strangers_come_and_go() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let handle = runtime.handle();
        let (stop, stopped) = (Gate::default(), Gate::default());
        let strangers = std::thread::spawn({
            let (stop, stopped) = (stop.clone(), stopped.clone());
            move || {
                while !stop.is_open() {
                    handle.spawn(async {}).wait();
                    handle.spawn_fn(|| ()).wait();
                }
                stopped.open();
            }
        });
        for i in 0..500usize {
            let value = runtime.block_on(async {
                let a = filch::spawn(async move { i });
                a.await + filch::spawn_fn(|| 1).await
            });
            assert_eq!(value, i + 1);
        }
        stop.open();
        stopped.block();
        strangers.join().unwrap();
    });
}

#[test]
fn last_child_may_end_on_another_thread_while_the_waiter_goes_away() {
    watched(|dog| {
        let runtime = dog.rig(2);
        // The waiter's frame, and all that it owns, is gone the moment the last child counts as
        // ended; whatever that child's worker still touches must be kept by somebody else.
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let handle = runtime.handle();
                std::thread::spawn(move || {
                    for round in 0..1_000u32 {
                        let started = Gate::default();
                        handle.block_on_fn(|| {
                            let inner = started.clone();
                            filch::block_on_fn(|| {
                                drop(filch::spawn_fn(move || inner.open()));
                                // Not claimed here: it ends over there.
                                until(|| started.is_open());
                            });
                            // Over what was freed, if it was.
                            let pile: Vec<_> =
                                (0..16).map(|i| vec![u8::MAX; 64 << (i % 4)]).collect();
                            assert_eq!(pile.len() as u32 + round, 16 + round);
                        });
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(runtime.tasks().len(), 0);
    });
}

#[test]
fn many_tasks_of_one_block_on_all_run() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let sum: u64 = runtime.block_on(async {
            let handles: Vec<_> = (0..10_000u64).map(|i| filch::spawn(async move { i })).collect();
            filch::wait_all_async(handles).await.into_iter().sum()
        });
        assert_eq!(sum, 9_999 * 5_000);
    });
}

#[test]
fn wakes_that_come_before_the_sleep_are_not_lost() {
    watched(|dog| {
        let runtime = dog.rig(1);
        for _ in 0..500 {
            let gate = Gate::default();
            let opener = gate.clone();
            let thread = std::thread::spawn(move || {
                until(|| opener.waiters() > 0);
                opener.open();
            });
            runtime.block_on(gate);
            thread.join().unwrap();
        }
    });
}
