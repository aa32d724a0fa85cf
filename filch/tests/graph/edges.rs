//! Where one part of a graph meets another at a bad moment: ends, drops, panics, values without bytes.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};

use filch::graph::{Canceller, Cause, Own, Semaphore, Stopped};
use filch::{Builder, Graph, Priority, Shutdown};

use crate::support::{Drops, Gate, panic_of, until};
use crate::watchdog::watched;

#[test]
fn run_of_nothing_can_be_dropped_and_the_next_is_awaited() {
    watched(|_| {
        let g = Arc::new(Graph::new());
        drop(g.run_async());
        drop(g.run_async().wait());
        drop(g.run_async());
        assert!(g.run_async().is_finished());
    });
}

/// A future that waits once and then panics.
async fn late_panic() {
    filch::yield_now().await;
    resume_unwind(Box::new("late"))
}

#[test]
fn panic_after_a_wait_is_told_by_the_run_and_by_nobody_else() {
    watched(|dog| {
        let rig = dog.rig(2);
        let mut g = Graph::new();
        let bad = g.async_node("bad", late_panic);
        let after = g.node("after", || ());
        g.precede(bad, after);
        let error = rig.block_on_fn(|| g.try_run().map(drop).unwrap_err());
        let [failure] = error.failures() else { panic!("one failure: {error:?}") };
        assert_eq!(failure.name(), "bad");
        let Cause::Panic(payload) = failure.cause() else { panic!("it panicked: {error:?}") };
        assert_eq!(payload.downcast_ref(), Some(&"late"));
        assert_eq!(error.skipped(), [after.id()]);
        assert_eq!(rig.drain(), [""; 0]);
    });
}

/// Panics when dropped.
struct Bomb(Drops);

impl Drop for Bomb {
    fn drop(&mut self) {
        drop(self.0.token());
        resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn future_whose_drop_panics_fails_its_node() {
    watched(|dog| {
        let (rig, drops) = (dog.rig(2), Drops::default());
        let mut g = Graph::new();
        let bad = g.async_node("bad", || {
            let bomb = Bomb(drops.clone());
            async move {
                let mut polls = 0;
                // Kept until the future goes.
                poll_fn(|cx| {
                    let _ = &bomb;
                    polls += 1;
                    cx.waker().wake_by_ref();
                    if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
                })
                .await;
            }
        });
        let error = rig.block_on_fn(|| g.try_run().map(drop).unwrap_err());
        assert_eq!(error.failures()[0].node(), bad.id());
        assert!(matches!(error.failures()[0].cause(), Cause::Panic(_)));
        assert_eq!(drops.count(), 1);
        assert_eq!(rig.drain(), [""; 0]);
    });
}

/// An error that panics when dropped.
#[derive(Debug)]
struct SpitefulError;

impl Drop for SpitefulError {
    fn drop(&mut self) {
        resume_unwind(Box::new("dropped"));
    }
}

impl std::fmt::Display for SpitefulError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("spiteful")
    }
}

impl std::error::Error for SpitefulError {}

#[test]
fn error_whose_drop_panics_does_not_keep_a_run_that_was_let_go() {
    watched(|dog| {
        let rig = dog.rig(2);
        let gate = Gate::default();
        let mut g = Graph::new();
        let block = gate.clone();
        g.try_node("bad", move || {
            block.block();
            Err::<(), _>(SpitefulError)
        });
        let g = Arc::new(g);
        let run = g.clone();
        rig.spawn_fn(move || drop(run.run_async())).wait();
        gate.open();
        // Hangs if the run kept its unit.
        rig.drain();
        drop(Arc::into_inner(g).expect("the run has given the graph back"));
    });
}

#[test]
fn error_whose_drop_panics_goes_with_a_handle_that_is_dropped_late() {
    watched(|_| {
        let mut g = Graph::new();
        g.try_node("bad", || Err::<(), _>(SpitefulError));
        let g = Arc::new(g);
        let run = g.run_async();
        until(|| run.is_finished());
        drop(run);
    });
}

/// A value without bytes of which there is to be one for each that was made.
struct Unique;

#[test]
fn value_without_bytes_that_a_node_took_is_gone() {
    let mut g = Graph::new();
    let unique = g.node("unique", || Unique);
    g.node("takes it", |Own(_): Own<Unique>| ()).after(unique);
    let run = g.run();
    assert!(run.get(unique).is_none());
    assert!(panic_of(|| run.take(unique)).contains("taken before"));
}

#[test]
fn value_without_bytes_that_nobody_made_is_missing() {
    let mut g = Graph::new();
    let choose = g.condition("choose", || 1);
    let never = g.node("never", || -> Infallible { unreachable!() });
    g.precede(choose, never);
    let takes = g.node("takes", |Own(never): Own<Infallible>| match never {}).after(never);
    g.precede(choose, takes);
    let error = g.try_run().map(drop).unwrap_err();
    assert_eq!(error.failures()[0].node(), takes.id());
    assert!(error.to_string().contains("an input is missing"), "{error}");
}

#[test]
fn values_without_bytes_flow_in_graphs_that_loop() {
    let rounds = AtomicUsize::new(0);
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let unique = g.node("unique", || Unique);
    g.precede(start, unique);
    let unit = g.node("unit", |_: &Unique| ()).after(&unique);
    let last = g.node("last", |(): &()| _ = rounds.fetch_add(1, SeqCst)).after(&unit);
    let again = g.condition("again", || usize::from(rounds.load(SeqCst) == 3));
    g.precede(last, again);
    g.precede(again, unique);
    let run = g.run();
    assert_eq!(rounds.load(SeqCst), 3);
    assert!(run.get(unique).is_some());
}

/// A look at an output is good for as long as its run, however often there was one.
#[test]
fn output_that_was_looked_at_stays() {
    let mut g = Graph::new();
    let a = g.node("a", || vec![1]);
    let run = g.run();
    let first = run.get(a).unwrap();
    (0..1000).for_each(|_| assert_eq!(run.get(a), Some(first)));
    assert!(panic_of(|| run.take(a)).contains("borrowed"));
}

/// A canceller outlives runs that never began.
#[test]
fn canceller_forgets_a_run_that_could_not_begin() {
    watched(|_| {
        let runtime = Builder::new().workers(1).adoptable_threads(1).build().unwrap();
        let adopted = runtime.adopt().unwrap();
        runtime.shutdown(Shutdown::Drain);
        let canceller = Canceller::new();
        let mut g = Graph::new();
        g.node("a", || ());
        for _ in 0..3 {
            let runner = g.runner().canceller(&canceller).timeout(Duration::from_secs(9));
            let refused = catch_unwind(AssertUnwindSafe(|| drop(runner.try_run())));
            assert!(refused.is_err(), "the runtime has shut down");
        }
        drop(g);
        canceller.cancel();
        drop(adopted);
    });
}

#[test]
fn cancel_of_a_run_that_is_over_takes_nothing_back() {
    watched(|_| {
        let mut g = Graph::new();
        let a = g.node("a", || 7);
        let g = Arc::new(g);
        let run = g.run_async();
        until(|| run.is_finished());
        run.cancel();
        assert_eq!(run.wait_outcome().unwrap().take(a), 7);
    });
}

/// What an abort leaves is skipped, also where nodes have ranks.
#[test]
fn abort_skips_nodes_that_have_ranks() {
    watched(|_| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (gate, begun, ran) = (Gate::default(), Gate::default(), Arc::new(AtomicUsize::new(0)));
        let mut g = Graph::new();
        let (block, tell) = (gate.clone(), begun.clone());
        let first = g.node("first", move || {
            tell.open();
            block.block();
        });
        for _ in 0..20_000 {
            let ran = ran.clone();
            let node = g.node("", move || {
                // A worker looks up from time to time, and not after so many nodes.
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_micros(5) {}
                ran.fetch_add(1, SeqCst);
            });
            g.precede(first, node);
            g.prioritize(node, Priority::High);
        }
        let g = Arc::new(g);
        let handle = runtime.handle();
        let run = runtime.spawn_fn({
            let g = g.clone();
            move || std::mem::forget(g.run_async())
        });
        run.wait();
        begun.block();
        let ender = std::thread::spawn(move || runtime.shutdown(Shutdown::Abort));
        until(|| format!("{handle:?}").contains("Abort"));
        gate.open();
        ender.join().unwrap();
        assert!(ran.load(SeqCst) < 10_000, "{ran:?}");
    });
}

/// A node that waited for a permit goes on in its own runtime, whoever gave the permit back.
#[test]
fn permit_from_another_runtime_brings_no_node_there() {
    watched(|_| {
        let [one, two] =
            ["one", "two"].map(|name| Builder::new().workers(1).thread_name(name).build().unwrap());
        let one_at_a_time = Semaphore::new(1);
        let (held, parked) = (Gate::default(), Gate::default());
        let mut holder = Graph::new();
        let node = holder.node("holder", || {
            held.open();
            parked.block();
        });
        holder.limit(node, &one_at_a_time, 1);
        let at = std::sync::Mutex::new(String::new());
        let mut waiter = Graph::new();
        let (waits, tells) = (
            waiter.node("waits", || {
                *at.lock().unwrap() = std::thread::current().name().unwrap().to_owned();
            }),
            waiter.node("tells", || parked.open()),
        );
        let _ = tells;
        waiter.limit(waits, &one_at_a_time, 1);
        std::thread::scope(|s| {
            s.spawn(|| one.block_on_fn(|| drop(holder.run())));
            held.block();
            two.block_on(async {
                filch::scope(|s| s.spawn(|_| drop(waiter.run())));
            });
        });
        let at = at.lock().unwrap();
        assert!(!at.starts_with("one"), "it ran at {at}");
    });
}

#[test]
fn body_is_dropped_once_whatever_becomes_of_its_node() {
    let drops = Drops::default();
    let mut g = Graph::new();
    let body = || {
        let token = drops.token();
        move || _ = &token
    };
    let (a, b, c) = (g.node("a", body()), g.node("b", body()), g.node("c", body()));
    g.run();
    g.erase(a);
    assert_eq!(drops.count(), 1);
    g.fill(b, body());
    assert_eq!(drops.count(), 2);
    g.run();
    let _ = c;
    drop(g);
    assert_eq!(drops.count(), 4);
}

#[test]
fn graph_is_good_after_a_body_panicked_in_its_drop() {
    let drops = Drops::default();
    let ran = AtomicBool::new(false);
    let mut g = Graph::new();
    let bomb = Bomb(drops.clone());
    let a = g.node("a", move || _ = &bomb);
    let b = g.node("b", || ran.store(true, SeqCst));
    g.precede(a, b);
    g.run();
    assert!(catch_unwind(AssertUnwindSafe(|| g.erase(a))).is_err());
    assert_eq!((drops.count(), g.len()), (1, 1));
    ran.store(false, SeqCst);
    g.run();
    assert!(ran.load(SeqCst));
    let bomb = Bomb(drops.clone());
    let d = g.node("d", move || _ = &bomb);
    assert!(catch_unwind(AssertUnwindSafe(|| g.fill(d, || ran.store(false, SeqCst)))).is_err());
    assert_eq!(drops.count(), 2);
    g.run();
    assert!(!ran.load(SeqCst) || g.len() == 2);
}

/// Outputs that panic in their drop are all dropped, and the slot is given back.
#[test]
fn output_whose_drop_panics_leaves_the_graph_as_it_was() {
    let drops = Drops::default();
    let mut g = Graph::new();
    for _ in 0..3 {
        g.node("", || Bomb(drops.clone()));
    }
    for round in 1..=3 {
        drop(g.run());
        assert_eq!(drops.count(), 3 * round);
    }
}

#[test]
fn stopped_tells_a_cancel_before_the_run() {
    let canceller = Canceller::new();
    canceller.cancel();
    let mut g = Graph::new();
    let a = g.node("a", || ());
    let error = g.runner().canceller(&canceller).try_run().map(drop).unwrap_err();
    assert_eq!((error.stopped(), error.skipped()), (Some(Stopped::Cancelled), &[a.id()][..]));
}

#[test]
fn more_permits_than_a_number_holds_are_refused() {
    let all = Semaphore::new(u32::MAX);
    let mut g = Graph::new();
    let node = g.node("greedy", || ());
    g.limit(node, &all, u32::MAX);
    let more = catch_unwind(AssertUnwindSafe(|| g.limit(node, &all, 2)));
    let message = *more.expect_err("refused").downcast::<String>().expect("a message");
    assert!(message.contains("asks for 4294967297 permits of 4294967295"), "{message}");
    g.run();
    assert_eq!(all.available(), u32::MAX as usize);
}

#[test]
fn a_capacity_that_no_memory_holds_is_refused_with_the_numbers() {
    let payload = catch_unwind(|| drop(Graph::with_capacity(usize::MAX, 1))).expect_err("refused");
    let message = *payload.downcast::<String>().expect("a message");
    assert_eq!(message, format!("no memory for a graph with {} nodes and 1 edges", usize::MAX));
}
