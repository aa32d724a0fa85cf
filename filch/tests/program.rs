//! A small program for Miri: each part of the scheduler once, on real threads, in few steps.
//!
//! Everything here is tested more closely elsewhere. This file exists because Miri runs a program some thousand
//! times slower than the machine does: see the stage `miri` in `.ci/run`.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use filch::sync::{Mutex, mpmc, oneshot};
use filch::{Builder, Graph, Job, Runtime, Shutdown};

/// A runtime with this many workers of each kind.
fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).guest_threads(1).build().expect("a runtime")
}

/// Counts what was dropped.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Token(Arc<AtomicUsize>);

impl Drops {
    fn token(&self) -> Token {
        Token(self.0.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn fib(n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn tasks_and_jobs_give_their_values_to_tasks_and_threads() {
    let runtime = runtime(2);
    let sum = runtime.block_on(async {
        let tasks: Vec<_> = (0..4).map(|n| filch::spawn(async move { n })).collect();
        let jobs: Vec<_> = (0..4).map(|n| filch::spawn_fn(move || n)).collect();
        let mut sum = 0;
        for handle in tasks.into_iter().chain(jobs) {
            filch::yield_now().await;
            sum += handle.await;
        }
        sum
    });
    assert_eq!(sum, 12);
    assert_eq!(runtime.spawn(async { "task" }).wait(), "task");
    assert_eq!(runtime.spawn_fn(|| "job").wait(), "job");
    assert_eq!(runtime.spawn_blocking(|| "closure").wait(), "closure");
}

#[test]
fn names_sites_and_ids_are_told_while_the_task_lives() {
    let runtime = runtime(1);
    let named = runtime.task().name("named").spawn(pending::<()>());
    let plain = runtime.spawn(pending::<()>());
    assert_eq!((named.name(), plain.name()), (Some("named"), None));
    assert_eq!(runtime.tasks().len(), 2);
    named.cancel();
    let error = runtime.block_on(named.outcome()).unwrap_err();
    assert!(error.is_cancelled());
}

#[test]
fn joins_nest_on_workers_and_on_threads_from_outside() {
    let runtime = runtime(2);
    assert_eq!(runtime.spawn_fn(|| fib(6)).wait(), 8);
    assert_eq!(runtime.block_on_fn(|| fib(5)), 5);
    let mut numbers: Vec<u32> = (0..20).rev().collect();
    runtime.block_on_fn(|| {
        filch::scope(|s| {
            let (a, b) = numbers.split_at_mut(10);
            s.spawn(|_| a.sort_unstable());
            s.spawn(|_| b.sort_unstable());
        });
    });
    assert_eq!((numbers[0], numbers[10]), (10, 0));
}

#[test]
fn parallel_iterator_adds_up() {
    use filch::par::prelude::*;
    let runtime = runtime(2);
    let sum = runtime.block_on_fn(|| (0..40_u32).into_par_iter().map(|n| n * 2).sum::<u32>());
    assert_eq!(sum, 1560);
}

#[test]
fn panic_of_a_task_and_of_a_stolen_half_reaches_who_waits() {
    let runtime = Builder::new().workers(2).on_panic(|_| ()).build().unwrap();
    let task = runtime.spawn(async { std::panic::resume_unwind(Box::new("task")) });
    let error = runtime.block_on(task.outcome()).unwrap_err();
    assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "task");
    let both = || filch::join(|| (), || std::panic::resume_unwind(Box::new("half")));
    let job = runtime.spawn_fn(move || {
        both();
    });
    let error = runtime.block_on(job.outcome()).unwrap_err();
    assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "half");
}

#[test]
fn group_ends_with_its_first_error_and_drops_all_children() {
    let runtime = runtime(2);
    let drops = Drops::default();
    let result: Result<(), &str> = runtime.block_on(filch::group({
        let drops = drops.clone();
        async move |g| {
            for _ in 0..3 {
                let token = drops.token();
                drop(g.spawn(async move {
                    pending::<()>().await;
                    drop(token);
                    Ok(())
                }));
            }
            drop(g.spawn_fn(|| Err::<(), _>("first")));
            Ok(())
        }
    }));
    assert_eq!((result, drops.count()), (Err("first"), 3));
}

#[test]
fn timers_fire_in_order_and_are_dropped_unfired() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let never = filch::time::sleep(Duration::from_secs(1000));
        let first = filch::time::sleep(Duration::from_millis(1));
        let (mut never, first) = (pin!(never), pin!(first));
        filch::race!(
            async {
                never.as_mut().await;
                panic!("1000 seconds are not over")
            },
            first
        );
        let late = filch::time::timeout(Duration::from_millis(1), pending::<()>()).await;
        assert!(late.is_err());
    });
    let task = runtime.spawn(filch::time::sleep(Duration::from_millis(2)));
    task.wait();
}

#[test]
fn channels_and_locks_pass_values_between_tasks() {
    let runtime = runtime(2);
    let sum = runtime.block_on(async {
        let (sender, receiver) = mpmc::bounded(1);
        let sum = Arc::new(Mutex::new(0));
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let (receiver, sum) = (receiver.clone(), sum.clone());
                filch::spawn(async move {
                    while let Ok(n) = receiver.recv().await {
                        *sum.lock().await += n;
                    }
                })
            })
            .collect();
        drop(receiver);
        for n in 1..=4 {
            sender.send(n).await.expect("consumers are there");
        }
        drop(sender);
        for consumer in consumers {
            consumer.await;
        }
        *sum.lock().await
    });
    assert_eq!(sum, 10);
    let (sender, receiver) = oneshot::channel();
    let receiver = runtime.spawn(receiver);
    sender.send(7).expect("the receiver is there");
    assert_eq!(receiver.wait(), Ok(7));
}

#[test]
fn pinned_task_and_posts_run_on_their_worker() {
    let runtime = runtime(1);
    let there = runtime.spawn(async {
        let here = std::thread::current().id();
        let local = filch::spawn_local(async move {
            filch::yield_now().await;
            std::thread::current().id()
        });
        local.await == here
    });
    assert!(there.wait());
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.post(move || sender.send(1).expect("the test waits")).expect("it takes posts");
    assert_eq!(receiver.recv(), Ok(1));
}

#[test]
fn tree_of_jobs_ends_after_its_last_child() {
    let runtime = runtime(2);
    let count = Arc::new(AtomicUsize::new(0));
    runtime.block_on_fn(|| {
        let counts = count.clone();
        let root = Job::new(move |job| {
            for _ in 0..3 {
                let counts = counts.clone();
                job.run_child(move |_| {
                    counts.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        root.run_and_wait();
    });
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[test]
fn graph_runs_its_nodes_in_order_again_and_again() {
    let runtime = runtime(2);
    let count = AtomicUsize::new(0);
    let mut graph = Graph::new();
    let words = graph.node("words", || vec!["a", "b"]);
    let number = graph.node("number", |words: &Vec<&str>| words.len()).after(&words);
    let text = graph.node("text", |words: &Vec<&str>| words.join(" ")).after(&words);
    let _ = graph.node("beside", || count.fetch_add(1, Ordering::SeqCst));
    for _ in 0..2 {
        let run = runtime.block_on_fn(|| graph.run());
        assert_eq!((run.take(number), run.take(text)), (2, "a b".to_owned()));
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn closure_of_a_node_is_aligned_though_it_has_no_bytes() {
    #[repr(align(64))]
    struct Aligned;
    let aligned = Aligned;
    let mut graph = Graph::new();
    let at = graph.node("at", move || std::hint::black_box(&raw const aligned).addr());
    // Not on the default runtime, whose threads stay: Miri wants the program to end without any.
    let address = runtime(1).block_on_fn(|| graph.run().take(at));
    assert_eq!(address % 64, 0);
}

#[test]
fn abort_drops_tasks_that_wait_and_jobs_that_never_ran() {
    let runtime = runtime(1);
    let drops = Drops::default();
    for _ in 0..3 {
        let token = drops.token();
        runtime
            .spawn(async move {
                pending::<()>().await;
                drop(token);
            })
            .detach();
    }
    let token = drops.token();
    let sleeper = runtime.spawn(async move {
        filch::time::sleep(Duration::from_secs(1000)).await;
        drop(token);
    });
    let _ = runtime.shutdown(Shutdown::Abort);
    assert_eq!(drops.count(), 4);
    assert!(sleeper.is_finished());
}

#[test]
fn drain_waits_for_what_was_spawned() {
    let runtime = runtime(1);
    let drops = Drops::default();
    let token = drops.token();
    runtime
        .spawn(async move {
            filch::yield_now().await;
            filch::spawn_fn(move || drop(token)).detach();
        })
        .detach();
    let _ = runtime.shutdown(Shutdown::Drain);
    assert_eq!(drops.count(), 1);
}

#[test]
fn single_thread_does_all_of_it() {
    let runtime = Builder::new().single_thread(true).build().expect("a runtime");
    let sum = runtime.block_on(async {
        let (a, b) = (filch::spawn(async { 1 }), filch::spawn_fn(|| 2));
        a.await + b.await
    });
    assert_eq!(sum, 3);
}
