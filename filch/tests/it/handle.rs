//! The join handle.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crate::support::{CountingWaker, Drops, Gate, panic_of, until};
use crate::watchdog::watched;

#[test]
fn await_gives_the_value_of_a_future_and_of_a_job() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let sum = runtime.block_on(async {
            let (a, b) = (filch::spawn(async { 1 }), filch::spawn_fn(|| 2));
            a.await + b.await
        });
        assert_eq!(sum, 3);
    });
}

#[test]
fn await_of_a_task_that_panicked_continues_its_panic() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| {
            runtime.block_on(async { filch::spawn(async { panic!("from the task") }).await })
        });
        assert_eq!(text, "from the task");
        let text = panic_of(|| runtime.spawn_fn(|| panic!("from the job")).wait());
        assert_eq!(text, "from the job");
        assert_eq!(runtime.drain(), [""; 0], "whoever awaited has it");
    });
}

#[test]
fn outcome_tells_a_panic_from_a_cancellation() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let panicked = runtime.spawn(async { panic!("no luck") });
        let id = panicked.id();
        let error = runtime.block_on(panicked.outcome()).unwrap_err();
        assert!(error.is_panic() && !error.is_cancelled());
        assert_eq!(error.id(), id);
        assert!(error.to_string().ends_with("panicked: no luck"), "{error}");
        assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "no luck");

        let cancelled = runtime.spawn(std::future::pending::<()>());
        cancelled.cancel();
        let error = runtime.block_on(cancelled.outcome()).unwrap_err();
        assert!(error.is_cancelled() && !error.is_panic());
        assert!(error.to_string().ends_with("was cancelled"), "{error}");
    });
}

#[test]
fn await_of_a_cancelled_task_panics_and_names_it() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let handle = runtime.spawn(std::future::pending::<()>());
        let expected = format!("task {} was cancelled", handle.id());
        handle.cancel();
        assert_eq!(panic_of(|| runtime.block_on(handle)), expected);
    });
}

#[test]
fn wait_works_on_a_foreign_thread_a_compute_worker_and_an_io_worker() {
    watched(|dog| {
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            runtime.everywhere(|| {
                assert_eq!(filch::spawn(async { 1 }).wait(), 1);
                assert_eq!(filch::spawn_fn(|| 2).wait(), 2);
                assert_eq!(panic_of(|| filch::spawn(async { panic!("a") }).wait()), "a");
                assert_eq!(panic_of(|| filch::spawn_fn(|| panic!("b")).wait()), "b");
                let handle = filch::spawn(std::future::pending::<()>());
                handle.cancel();
                assert!(handle.wait_outcome().unwrap_err().is_cancelled());
            });
            assert_eq!(runtime.drain(), [""; 0]);
        }
    });
}

#[test]
fn wait_on_a_worker_for_a_task_that_must_run_elsewhere_does_not_stall_the_lane() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let gate = Gate::default();
        let outer = runtime.spawn({
            let gate = gate.clone();
            async move {
                let waits = filch::spawn(gate.clone());
                let opens = filch::spawn(async move { gate.open() });
                filch::wait((waits, opens));
            }
        });
        outer.wait();
        let gate = Gate::default();
        let outer = runtime.spawn_fn(move || {
            let waits = filch::spawn(gate.clone());
            let opens = filch::spawn_fn(move || {
                filch::spawn_fn(move || gate.open()).wait();
            });
            waits.wait();
            opens.wait();
        });
        runtime.block_on(outer);
    });
}

#[test]
fn is_finished_turns_true_at_the_end_and_not_before() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let gate = Gate::default();
        let handle = runtime.spawn(gate.clone());
        until(|| gate.waiters() == 1);
        assert!(!handle.is_finished());
        gate.open();
        until(|| handle.is_finished());
        handle.wait();
    });
}

#[test]
fn cancel_before_the_start_drops_the_body_unrun() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().single_thread(true));
        let (drops, ran) = (Drops::default(), Arc::new(AtomicBool::new(false)));
        let (busy, release) = (Gate::default(), Gate::default());
        let blocker = runtime.spawn_fn({
            let (busy, release) = (busy.clone(), release.clone());
            move || {
                busy.open();
                release.block();
            }
        });
        busy.block();
        // Queued behind the blocker; should a spare take its place, it may start after all.
        let jobs: Vec<_> = (0..2)
            .map(|_| {
                let (token, ran) = (drops.token(), ran.clone());
                let job = runtime.spawn_fn(move || {
                    ran.store(true, Ordering::SeqCst);
                    drop(token);
                });
                job.cancel();
                job
            })
            .collect();
        release.open();
        runtime.block_on(async {
            for job in jobs {
                match job.outcome().await {
                    Ok(()) => assert!(ran.load(Ordering::SeqCst)),
                    Err(error) => assert!(error.is_cancelled()),
                }
            }
            blocker.await;
        });
        assert_eq!(drops.count(), 2);
    });
}

#[test]
fn cancelled_job_that_nobody_started_never_runs() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        // On a compute worker, the job lies in the worker's own deque; the wait claims it.
        let outer = runtime.spawn_fn({
            let drops = drops.clone();
            move || {
                let token = drops.token();
                let job = filch::spawn_fn(move || drop(token));
                job.cancel();
                if let Err(error) = job.wait_outcome() {
                    assert!(error.is_cancelled());
                }
                assert_eq!(drops.count(), 1);
            }
        });
        runtime.block_on(outer);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn cancel_while_waiting_drops_the_body_before_the_outcome() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        let handle = runtime.spawn({
            let (gate, token) = (gate.clone(), drops.slow_token());
            async move {
                gate.await;
                drop(token);
            }
        });
        until(|| gate.waiters() == 1);
        handle.cancel();
        handle.cancel();
        assert!(handle.wait_outcome().unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn cancel_while_a_future_runs_takes_effect_at_its_next_await() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (running, cancelled, reached) = (Gate::default(), Gate::default(), Gate::default());
        let handle = runtime.spawn({
            let (running, cancelled, reached) =
                (running.clone(), cancelled.clone(), reached.clone());
            async move {
                running.open();
                cancelled.block();
                reached.open();
                filch::yield_now().await;
                unreachable!("past an await after the cancellation");
            }
        });
        running.block();
        handle.cancel();
        cancelled.open();
        assert!(handle.wait_outcome().unwrap_err().is_cancelled());
        assert!(reached.is_open(), "it was not torn away in the middle");
    });
}

#[test]
fn cancel_while_a_job_runs_changes_nothing() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (running, cancelled) = (Gate::default(), Gate::default());
        let handle = runtime.spawn_fn({
            let (running, cancelled) = (running.clone(), cancelled.clone());
            move || {
                running.open();
                cancelled.block();
                5
            }
        });
        running.block();
        handle.cancel();
        cancelled.open();
        assert_eq!(handle.wait(), 5);
    });
}

#[test]
fn cancel_after_the_end_leaves_the_output() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let handle = runtime.spawn(async { 6 });
        until(|| handle.is_finished());
        handle.cancel();
        assert_eq!(handle.wait(), 6);
    });
}

#[test]
fn ids_differ_and_names_are_kept() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let handles: Vec<_> =
            (0..100).map(|_| runtime.spawn(async { filch::current_id() })).collect();
        let ids: std::collections::HashSet<_> = handles.iter().map(|handle| handle.id()).collect();
        assert_eq!(ids.len(), 100);
        for handle in handles {
            let id = handle.id();
            assert_eq!(handle.wait(), Some(id));
        }
        let named = runtime.task().name(format!("task {}", 1)).spawn(async {});
        assert_eq!(named.name(), Some("task 1"));
        named.wait();
        let unnamed = runtime.spawn(async {});
        assert_eq!(unnamed.name(), None);
        unnamed.wait();
    });
}

#[test]
fn dropping_the_handle_neither_cancels_nor_detaches() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        let opener = gate.clone();
        runtime.block_on(async {
            let token = drops.token();
            drop(filch::spawn(async move {
                gate.await;
                drop(token);
            }));
            drop(filch::spawn_fn(move || opener.open()));
        });
        assert_eq!(drops.count(), 1, "the block_on waited for it, and it ran");
    });
}

#[test]
fn output_that_nobody_took_is_dropped_with_the_handle_and_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let token = drops.token();
        let handle = runtime.spawn(async move { token });
        until(|| handle.is_finished());
        assert_eq!(drops.count(), 0, "it belongs to the handle");
        drop(handle);
        assert_eq!(drops.count(), 1);

        let (token, gate) = (drops.token(), Gate::default());
        let handle = runtime.spawn({
            let gate = gate.clone();
            async move {
                gate.await;
                token
            }
        });
        drop(handle);
        gate.open();
        runtime.drain();
        assert_eq!(drops.count(), 2, "without a handle it goes at the end of the task");
    });
}

#[test]
fn output_that_was_taken_is_not_dropped_with_the_handle() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        let token = drops.token();
        let taken = runtime.block_on(async {
            let mut handle = filch::spawn(async move { token });
            let taken = (&mut handle).await;
            drop(handle);
            taken
        });
        assert_eq!(drops.count(), 0);
        drop(taken);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn handles_and_tasks_that_end_at_the_same_time_drop_the_output_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        for i in 0..2_000 {
            let token = drops.token();
            let handle = runtime.spawn(async move { token });
            if i % 3 == 0 {
                std::thread::yield_now();
            }
            drop(handle);
        }
        runtime.drain();
        assert_eq!(drops.count(), 2_000);
    });
}

#[test]
fn waker_that_changes_between_polls_only_the_last_is_woken() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let gate = Gate::default();
        let mut handle = runtime.spawn(gate.clone());
        let wakers: Vec<_> = (0..3).map(|_| Arc::new(CountingWaker::default())).collect();
        for waker in &wakers {
            let waker = Waker::from(waker.clone());
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut handle).poll(&mut cx).is_pending());
            assert!(Pin::new(&mut handle).poll(&mut cx).is_pending());
        }
        gate.open();
        until(|| wakers[2].wakes() == 1);
        assert_eq!((wakers[0].wakes(), wakers[1].wakes()), (0, 0));
        assert_eq!(Arc::strong_count(&wakers[0]), 1, "a waker that was replaced is dropped");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut handle).poll(&mut cx).is_ready());
        until(|| Arc::strong_count(&wakers[2]) == 1);
    });
}

#[test]
fn handle_dropped_with_a_waker_in_it_drops_the_waker() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let gate = Gate::default();
        let mut handle = runtime.spawn(gate.clone());
        let counting = Arc::new(CountingWaker::default());
        let waker = Waker::from(counting.clone());
        assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_pending());
        drop((handle, waker));
        assert_eq!(Arc::strong_count(&counting), 1);
        gate.open();
        runtime.drain();
        assert_eq!(counting.wakes(), 0);
    });
}

#[test]
fn handle_that_moves_from_one_awaiter_to_another_wakes_the_second() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let gate = Gate::default();
        let mut handle = runtime.spawn({
            let gate = gate.clone();
            async move {
                gate.await;
                9
            }
        });
        let polled = Gate::default();
        let first = runtime.spawn({
            let polled = polled.clone();
            async move {
                poll_fn(|cx| {
                    assert!(Pin::new(&mut handle).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                polled.open();
                handle
            }
        });
        polled.block();
        let handle = first.wait();
        let second = runtime.spawn(handle);
        gate.open();
        assert_eq!(second.wait(), 9);
    });
}

#[test]
fn handle_awaited_in_another_runtime_wakes_its_task_there() {
    watched(|dog| {
        let (here, there) = (dog.rig(1), dog.rig(1));
        let gate = Gate::default();
        let remote = there.spawn({
            let gate = gate.clone();
            async move {
                gate.await;
                1
            }
        });
        let local = here.spawn(async move { remote.await + filch::spawn(async { 1 }).await });
        gate.open();
        assert_eq!(local.wait(), 2);
        let remote = there.spawn_fn(|| panic!("over there"));
        assert_eq!(panic_of(|| here.block_on(remote)), "over there");
        assert_eq!((here.drain(), there.drain()), (vec![], vec![]));
    });
}

#[test]
fn outcome_after_it_was_taken_panics() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let text = panic_of(|| {
            runtime.block_on(async {
                let mut handle = filch::spawn(async { 1 });
                assert_eq!((&mut handle).await, 1);
                handle.await
            })
        });
        assert!(text.contains("was taken before"), "{text}");
        runtime.assert_alive();
    });
}
