//! `cpu`: a closure on the job lane, awaited.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use filch::{Role, Shutdown};

use crate::support::{CountingWaker, Drops, Gate, panic_of, role, until};
use crate::watchdog::watched;

/// Polls once, with a waker that nobody minds.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let waker = Arc::new(CountingWaker::default()).into();
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn value_comes_back_from_a_compute_worker() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let task = runtime.spawn(async {
            assert_eq!(role(), Some(Role::Io));
            let there = filch::cpu(role).await;
            (there, role())
        });
        assert_eq!(runtime.block_on(task), (Some(Role::Compute), Some(Role::Io)));
    });
}

#[test]
fn joins_inside_spread_while_io_goes_on() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (left, right) = (Gate::default(), Gate::default());
        let task = runtime.spawn(async move {
            let (a, b) = (left.clone(), right.clone());
            let work = filch::cpu(move || {
                // Both sides must be at work at the same time to get on.
                filch::join(
                    || {
                        a.open();
                        b.block();
                    },
                    || {
                        right.open();
                        left.block();
                    },
                );
                3
            });
            let (io, cpu) = (filch::spawn(async { 4 }), work.await);
            io.await + cpu
        });
        assert_eq!(runtime.block_on(task), 7);
    });
}

#[test]
fn io_tasks_go_on_while_every_compute_worker_is_busy() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let gate = Gate::default();
        let closed = gate.clone();
        let work = runtime.spawn(async move { filch::cpu(move || closed.block()).await });
        let io = runtime.spawn(async {
            for _ in 0..100 {
                filch::yield_now().await;
            }
            5
        });
        assert_eq!(runtime.block_on(io), 5);
        gate.open();
        runtime.block_on(work);
    });
}

#[test]
fn future_that_is_never_polled_drops_its_closure_unrun() {
    let drops = Drops::default();
    let token = drops.token();
    drop(filch::cpu(move || drop(token)));
    assert_eq!(drops.count(), 1);
}

#[test]
fn future_dropped_before_the_start_drops_the_closure_at_once() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Builder::new().workers(1).compute_spares(0));
        let (gate, busy) = (Gate::default(), Gate::default());
        let ran = Arc::new(AtomicUsize::new(0));
        let (closed, started) = (gate.clone(), busy.clone());
        let blocker = runtime.spawn_fn(move || {
            started.open();
            closed.block();
        });
        busy.block();
        let drops = Drops::default();
        runtime.block_on(async {
            let (token, ran) = (drops.token(), ran.clone());
            let mut work = filch::cpu(move || {
                ran.fetch_add(1, Ordering::SeqCst);
                drop(token);
            });
            assert!(poll_once(&mut work).is_pending());
            drop(work);
            assert_eq!(drops.count(), 1, "gone before the only worker is free");
        });
        gate.open();
        blocker.wait();
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn future_dropped_after_the_start_leaves_the_closure_to_the_group() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (gate, started, drops) = (Gate::default(), Gate::default(), Drops::default());
        let opener = gate.clone();
        let begun = started.clone();
        let token = drops.slow_token();
        runtime.block_on(async move {
            let mut work = filch::cpu(move || {
                begun.open();
                gate.block();
                drop(token);
            });
            assert!(poll_once(&mut work).is_pending());
            started.await;
            drop(work);
            opener.open();
        });
        assert_eq!(drops.count(), 1, "block_on waits for it");
    });
}

#[test]
fn panic_continues_in_whoever_awaits() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let text = panic_of(|| {
            runtime.block_on(async { filch::cpu(|| panic!("in the closure")).await });
        });
        assert_eq!(text, "in the closure");
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn panic_after_the_future_is_gone_reaches_the_group() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (gate, started) = (Gate::default(), Gate::default());
        let text = panic_of(|| {
            runtime.block_on(async {
                let (begun, closed) = (started.clone(), gate.clone());
                let mut work = filch::cpu(move || {
                    begun.open();
                    closed.block();
                    panic!("alone");
                });
                assert!(poll_once(&mut work).is_pending());
                started.clone().await;
                drop(work);
                gate.open();
            });
        });
        assert_eq!(text, "alone");
    });
}

#[test]
fn cancelled_group_waits_for_a_closure_that_runs_and_drops_one_that_does_not() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Builder::new().workers(1).compute_spares(0));
        let (gate, started) = (Gate::default(), Gate::default());
        let (drops, ran) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let (first, second) = (drops.slow_token(), drops.token());
        let count = ran.clone();
        let result: Result<(), &str> = runtime.block_on(filch::group(async move |g| {
            let (begun, closed, count_first) = (started.clone(), gate.clone(), count.clone());
            drop(g.spawn(async move {
                filch::cpu(move || {
                    begun.open();
                    closed.block();
                    count_first.fetch_add(1, Ordering::SeqCst);
                    drop(first);
                })
                .await;
                Ok(())
            }));
            started.await;
            drop(g.spawn(async move {
                filch::cpu(move || {
                    count.fetch_add(10, Ordering::SeqCst);
                    drop(second);
                })
                .await;
                Ok(())
            }));
            gate.open();
            Err("no")
        }));
        assert_eq!(result, Err("no"));
        assert_eq!(drops.count(), 2);
        assert!([1, 11].contains(&ran.load(Ordering::SeqCst)));
    });
}

#[test]
fn abort_of_the_runtime_drops_a_closure_that_waits_for_a_worker() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Builder::new().workers(1).compute_spares(0));
        let (gate, busy, drops) = (Gate::default(), Gate::default(), Drops::default());
        let (closed, started, token) = (gate.clone(), busy.clone(), drops.token());
        drop(runtime.spawn_fn(move || {
            started.open();
            closed.block();
        }));
        busy.block();
        drop(runtime.spawn(async move { filch::cpu(move || drop(token)).await }));
        until(|| runtime.snapshot().lanes[1].queued == 1);
        let handle = runtime.handle();
        let ender = std::thread::spawn(move || runtime.shutdown(Shutdown::Abort));
        until(|| drops.count() == 1);
        gate.open();
        ender.join().unwrap();
        assert!(handle.tasks().is_empty());
    });
}
