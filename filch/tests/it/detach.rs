//! Detached tasks: nothing but the runtime's end waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::{Group, Priority, Shutdown};

use crate::support::{Drops, Gate, until};
use crate::watchdog::watched;

#[test]
fn detached_while_waiting_block_on_returns_and_drain_waits() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        runtime.block_on(async {
            let (inner, token) = (gate.clone(), drops.token());
            let task = filch::spawn(async move {
                inner.await;
                drop(token);
            });
            while gate.waiters() == 0 {
                filch::yield_now().await;
            }
            task.detach();
        });
        assert_eq!(drops.count(), 0, "it outlives the block_on");
        gate.open();
        runtime.drain();
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn detached_while_queued_block_on_returns_and_drain_waits() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().single_thread(true));
        let (gate, drops) = (Gate::default(), Drops::default());
        let task = runtime.spawn({
            let (gate, drops) = (gate.clone(), drops.clone());
            async move {
                filch::block_on_fn(|| {
                    // The worker is here, so these are still in a queue.
                    let (gate, token) = (gate.clone(), drops.token());
                    filch::spawn(async move {
                        gate.await;
                        drop(token);
                    })
                    .detach();
                });
            }
        });
        task.wait();
        assert_eq!(drops.count(), 0);
        gate.open();
        runtime.drain();
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn detached_while_running_leaves_at_its_next_await() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        let (running, go_on) = (Gate::default(), Gate::default());
        runtime.block_on(async {
            let task = filch::spawn({
                let (gate, token) = (gate.clone(), drops.token());
                let (running, go_on) = (running.clone(), go_on.clone());
                async move {
                    running.open();
                    go_on.block();
                    gate.await;
                    drop(token);
                }
            });
            running.block();
            task.detach();
            go_on.open();
        });
        assert_eq!(drops.count(), 0);
        gate.open();
        runtime.drain();
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn job_detached_while_running_is_still_waited_for() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (running, go_on, drops) = (Gate::default(), Gate::default(), Drops::default());
        runtime.block_on(async {
            let job = filch::spawn_fn({
                let (running, go_on, token) = (running.clone(), go_on.clone(), drops.slow_token());
                move || {
                    running.open();
                    go_on.block();
                    drop(token);
                }
            });
            running.block();
            job.detach();
            go_on.open();
        });
        assert_eq!(drops.count(), 1, "a job that runs stays in its group");
    });
}

#[test]
fn children_of_a_detached_task_are_the_runtimes() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        runtime.block_on(async {
            let (inner, token, detached) = (gate.clone(), drops.token(), Gate::default());
            let wait = detached.clone();
            let task = filch::spawn(async move {
                wait.await;
                drop(filch::spawn(async move {
                    inner.await;
                    drop(token);
                }));
            });
            task.detach();
            detached.open();
        });
        until(|| gate.waiters() == 1);
        assert_eq!(drops.count(), 0);
        gate.open();
        runtime.drain();
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn output_and_body_of_detached_tasks_are_dropped_and_their_memory_is_reused() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let bytes = Arc::new(AtomicUsize::new(0));
        for round in 0..100 {
            runtime.block_on(async {
                for _ in 0..100 {
                    let (a, b) = (drops.token(), drops.token());
                    filch::spawn(async move {
                        filch::yield_now().await;
                        drop(a);
                        b
                    })
                    .detach();
                }
            });
            until(|| drops.count() == (round + 1) * 200);
            bytes.store(runtime.snapshot().task_bytes, Ordering::SeqCst);
        }
        assert!(bytes.load(Ordering::SeqCst) < 1 << 20, "{bytes:?} bytes for 100 tasks at a time");
        runtime.drain();
        assert_eq!(drops.count(), 20_000);
    });
}

#[test]
fn cancelled_group_does_not_reach_a_detached_child() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..50 {
            let (gate, ended) = (Gate::default(), Gate::default());
            let result: Result<(), &str> = runtime.block_on(async {
                filch::group(async |g: Group<&str>| {
                    // Waiting, then moved for sure.
                    let child = g.spawn({
                        let (gate, ended) = (gate.clone(), ended.clone());
                        async move {
                            gate.await;
                            ended.open();
                            Ok(())
                        }
                    });
                    while gate.waiters() == 0 {
                        filch::yield_now().await;
                    }
                    child.detach();
                    // Whether it has moved yet or not: from now on it is nobody's here.
                    Err("the group")
                })
                .await
            });
            assert_eq!(result, Err("the group"));
            gate.open();
            ended.block();
        }
        runtime.drain();
    });
}

#[test]
fn cancelled_group_does_not_reach_children_detached_in_any_state() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..50 {
            let ended = Drops::default();
            let ran_to_end = Arc::new(AtomicUsize::new(0));
            let result: Result<(), ()> = runtime.block_on(async {
                filch::group(async |g: Group<()>| {
                    for yields in 0..20 {
                        let (token, ran_to_end) = (ended.token(), ran_to_end.clone());
                        let child = g.spawn(async move {
                            for _ in 0..yields {
                                filch::yield_now().await;
                            }
                            ran_to_end.fetch_add(1, Ordering::SeqCst);
                            drop(token);
                            Ok(())
                        });
                        child.detach();
                    }
                    g.cancel();
                    Ok(())
                })
                .await
            });
            assert_eq!(result, Ok(()));
            until(|| ended.count() == 20);
            assert_eq!(ran_to_end.load(Ordering::SeqCst), 20);
        }
    });
}

#[test]
fn abort_reaches_a_detached_task() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        let token = drops.token();
        runtime
            .spawn(async move {
                let _token = token;
                std::future::pending::<()>().await;
            })
            .detach();
        runtime.shutdown(Shutdown::Abort);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn panic_of_a_detached_task_reaches_the_hook() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on(async {
            let gate = Gate::default();
            let inner = gate.clone();
            let task = filch::spawn(async move {
                inner.await;
                filch::yield_now().await;
                panic!("far away")
            });
            while gate.waiters() == 0 {
                filch::yield_now().await;
            }
            task.detach();
            gate.open();
        });
        assert_eq!(runtime.drain(), ["far away"]);
    });
}

/// The job's end needs what comes after the `block_on`, so a waiter that ran it would hang.
#[test]
fn job_detached_before_its_start_is_not_run_by_whoever_waits() {
    watched(|dog| {
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            for spares in [0, 1] {
                let builder = filch::Runtime::builder().io_workers(1).compute_workers(1);
                let runtime = dog.rig_of(builder.compute_spares(spares));
                let (gate, drops) = (Gate::default(), Drops::default());
                let (opens, token) = (gate.clone(), drops.token());
                let job = runtime.spawn_fn(move || {
                    filch::block_on_fn(|| {
                        // The only compute worker is here, so this is still in a queue.
                        let job = move || {
                            gate.block();
                            drop(token);
                        };
                        filch::task().priority(priority).spawn_fn(job).detach();
                    });
                    opens.open();
                });
                runtime.block_on(job);
                runtime.drain();
                assert_eq!(drops.count(), 1);
            }
        }
    });
}

#[test]
fn children_of_a_job_detached_before_its_start_are_the_runtimes() {
    watched(|dog| {
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            let runtime = dog.rig(1);
            let (gate, drops) = (Gate::default(), Drops::default());
            let (opens, token) = (gate.clone(), drops.token());
            let job = runtime.spawn_fn(move || {
                filch::block_on_fn(|| {
                    let child = async move {
                        gate.await;
                        drop(token);
                    };
                    let job = move || drop(filch::spawn(child));
                    filch::task().priority(priority).spawn_fn(job).detach();
                });
                opens.open();
            });
            runtime.block_on(job);
            runtime.drain();
            assert_eq!(drops.count(), 1);
        }
    });
}
