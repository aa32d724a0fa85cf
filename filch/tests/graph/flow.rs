//! Conditions, loops, subflows, modules, schedulers, semaphores, priorities, async nodes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::graph::Semaphore;
use filch::{Graph, Priority};

#[test]
fn a_loop_runs_until_its_condition_says_otherwise() {
    let rounds = AtomicUsize::new(0);
    let mut g = Graph::new();
    let start = g.node("start", || rounds.store(0, Relaxed));
    let body = g.node("body", || _ = rounds.fetch_add(1, Relaxed));
    let again = g.condition("again", || usize::from(rounds.load(Relaxed) == 1000));
    let done = g.node("done", || assert_eq!(rounds.load(Relaxed), 1000));
    g.linearize([start.id(), body.id(), again.id()]);
    g.precede(again, (body, done));
    g.run_n(3);
    assert_eq!(rounds.load(Relaxed), 1000);
}

#[test]
fn a_choice_out_of_range_ends_the_branch() {
    let mut g = Graph::new();
    let choice = g.condition("choice", || 7);
    let never = g.node("never", || unreachable!());
    let after = g.node("after", || unreachable!());
    g.precede(choice, never);
    g.precede(never, after);
    g.run_n(2);
}

#[test]
fn counters_are_right_again_after_a_branch_that_was_not_taken() {
    let (side, joins) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut g = Graph::new();
    let choice = g.condition("choice", || side.load(Relaxed));
    let plain = g.node("plain", || ());
    let taken = g.node("taken", || ());
    let join = g.node("join", || _ = joins.fetch_add(1, Relaxed));
    g.precede(choice, taken);
    g.succeed(join, (plain, taken));
    side.store(1, Relaxed);
    g.run();
    assert_eq!(joins.load(Relaxed), 0);
    side.store(0, Relaxed);
    g.run_n(2);
    assert_eq!(joins.load(Relaxed), 2);
}

#[test]
fn a_subflow_is_over_before_what_follows() {
    let count = AtomicUsize::new(0);
    let mut g = Graph::new();
    let parts = g.subflow("parts", |sub| {
        for _ in 0..10 {
            let first = sub.node("", || _ = count.fetch_add(1, Relaxed));
            let nested =
                sub.subflow("", |sub| _ = sub.node("", || _ = count.fetch_add(1, Relaxed)));
            sub.precede(first, nested);
        }
    });
    let check = g.node("check", || assert_eq!(count.swap(0, Relaxed), 20));
    g.precede(parts, check);
    g.run_n(3);
}

#[test]
fn a_semaphore_is_never_exceeded_and_nobody_starves() {
    let (wide, narrow) = (Semaphore::new(3), Semaphore::new(2));
    let (at_work, most, ran) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut g = Graph::new();
    for n in 0..60 {
        let node = g.node("", || {
            most.fetch_max(at_work.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::yield_now();
            at_work.fetch_sub(1, Relaxed);
            ran.fetch_add(1, Relaxed);
        });
        g.limit(node, &wide, 1 + n % 3);
        if n % 2 == 0 {
            g.limit(node, &narrow, 1 + n % 2);
        }
    }
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| g.run_n(3));
        }
    });
    assert_eq!(ran.load(Relaxed), 3 * 3 * 60);
    assert!(most.load(Relaxed) <= 3);
    assert_eq!((wide.available(), narrow.available()), (3, 2));
}

#[test]
fn who_is_ready_runs_by_priority() {
    let runtime = filch::Builder::new().single_thread(true).build().unwrap();
    let order = std::sync::Arc::new(Mutex::new(Vec::new()));
    let mut g = Graph::new();
    let start = g.node("start", || ());
    for (n, priority) in [Priority::Low, Priority::Normal, Priority::High].into_iter().enumerate() {
        let order = order.clone();
        let node = g.node("", move || order.lock().unwrap().push(n));
        g.precede(start, node);
        g.prioritize(node, priority);
    }
    runtime.block_on(async move { filch::cpu(move || drop(g.run())).await });
    assert_eq!(*order.lock().unwrap(), [2, 1, 0]);
}

#[test]
fn an_async_node_waits_without_a_thread() {
    let mut g = Graph::new();
    let nodes: Vec<_> = (0..100)
        .map(|n| {
            g.async_node("", move || async move {
                filch::yield_now().await;
                filch::time::sleep(std::time::Duration::from_micros(100)).await;
                n
            })
        })
        .collect();
    let sum = g.placeholder("sum");
    g.succeed(sum, &nodes);
    for _ in 0..3 {
        let run = g.run();
        assert_eq!(nodes.iter().map(|&node| run.take(node)).sum::<i32>(), 4950);
    }
}
