//! Failures, cancelling, deadlines: what runs, what is skipped, what is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use filch::Graph;
use filch::graph::{Canceller, Cause, OnFailure, Stopped};

#[test]
fn a_failure_skips_what_depends_on_it_and_nothing_else() {
    let ran = AtomicUsize::new(0);
    let bad = AtomicUsize::new(1);
    let mut g = Graph::new();
    let fails = g.try_node("fails", || if bad.load(Relaxed) == 1 { Err("no") } else { Ok(()) });
    let other = g.node("other", || _ = ran.fetch_add(1, Relaxed));
    let joined = g.node("joined", || _ = ran.fetch_add(10, Relaxed));
    let last = g.node("last", || _ = ran.fetch_add(100, Relaxed));
    g.succeed(joined, (fails.id(), other.id()));
    g.precede(joined, last);
    let error = g.try_run().unwrap_err();
    assert_eq!(error.failures().len(), 1);
    assert_eq!(error.failures()[0].name(), "fails");
    assert!(
        matches!(error.failures()[0].cause(), Cause::Error(error) if error.to_string() == "no")
    );
    let mut skipped = error.skipped().to_vec();
    skipped.sort();
    assert_eq!(skipped, [joined.id(), last.id()]);
    assert_eq!(ran.swap(0, Relaxed), 1);
    bad.store(0, Relaxed);
    g.run();
    assert_eq!(ran.load(Relaxed), 111, "the graph is as good as new");
}

#[test]
#[should_panic(expected = "boom")]
fn a_panic_goes_on_in_run() {
    let mut g = Graph::new();
    g.node("a", || panic!("boom"));
    g.run();
}

#[test]
fn a_cancelled_run_skips_the_rest_and_the_next_is_whole() {
    let canceller = Canceller::new();
    let ran = AtomicUsize::new(0);
    let mut g = Graph::new();
    let nodes: Vec<_> = (0..100)
        .map(|n| {
            let (ran, canceller) = (&ran, &canceller);
            g.node("", move || {
                ran.fetch_add(1, Relaxed);
                if n == 10 {
                    canceller.cancel();
                }
            })
        })
        .collect();
    g.linearize(&nodes);
    let error = g.runner().canceller(&canceller).try_run().unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::Cancelled));
    assert_eq!((ran.swap(0, Relaxed), error.skipped().len()), (11, 89));
    g.run();
    assert_eq!(ran.load(Relaxed), 100);
}

#[test]
fn a_failure_may_cancel_independent_nodes() {
    let mut g = Graph::new();
    let bad = g.node("bad", || panic!("no"));
    let chain: Vec<_> = (0..3).map(|_| g.node("", || ())).collect();
    g.linearize(&chain);
    g.precede(bad, &chain);
    let error = g.runner().on_failure(OnFailure::Cancel).try_run().unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::Cancelled));
    assert_eq!(error.skipped().len(), 3);
}

#[test]
fn a_deadline_stops_a_loop_that_never_ends() {
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let again = g.condition("again", || 0);
    g.precede(start, again);
    g.precede(again, again);
    let error = g.runner().timeout(Duration::from_millis(5)).try_run().unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::Deadline));
}

#[test]
fn a_handle_cancels_its_run() {
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let again = g.condition("again", || 0);
    g.precede(start, again);
    g.precede(again, again);
    let g = Arc::new(g);
    let run = g.run_async();
    run.cancel();
    assert_eq!(run.wait_outcome().unwrap_err().stopped(), Some(Stopped::Cancelled));
}

/// Counts how many of it are there.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn endless(alive: &Arc<AtomicUsize>) -> Graph<'static> {
    let mut g = Graph::new();
    for _ in 0..10 {
        let alive = alive.clone();
        g.async_node("endless", move || {
            let alive = Alive::new(&alive);
            async move {
                std::future::pending::<()>().await;
                drop(alive);
            }
        });
    }
    let last = g.node("last", || unreachable!());
    let all: Vec<_> = g.nodes().filter(|&node| node != last.id()).collect();
    g.succeed(last, &all);
    g
}

#[test]
fn a_cancelled_run_drops_the_futures_that_wait() {
    let alive = Arc::new(AtomicUsize::new(0));
    let g = Arc::new(endless(&alive));
    for _ in 0..20 {
        let run = g.run_async();
        while alive.load(Relaxed) < 5 {
            std::thread::yield_now();
        }
        run.cancel();
        let error = run.wait_outcome().unwrap_err();
        assert_eq!(alive.load(Relaxed), 0);
        assert_eq!((error.stopped(), error.skipped().len()), (Some(Stopped::Cancelled), 11));
        assert!(error.failures().is_empty());
    }
}

#[test]
fn a_deadline_drops_the_futures_that_wait() {
    let alive = Arc::new(AtomicUsize::new(0));
    let g = endless(&alive);
    let error = g.runner().timeout(Duration::from_millis(5)).try_run().unwrap_err();
    assert_eq!((error.stopped(), alive.load(Relaxed)), (Some(Stopped::Deadline), 0));
    assert_eq!(error.skipped().len(), 11);
}

#[test]
fn a_failure_that_cancels_drops_the_futures_that_wait() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut g = endless(&alive);
    g.async_node("bad", || async {
        filch::yield_now().await;
        panic!("boom")
    });
    let error = g.runner().on_failure(OnFailure::Cancel).try_run().unwrap_err();
    assert_eq!((error.failures().len(), alive.load(Relaxed)), (1, 0));
    assert!(matches!(error.failures()[0].cause(), Cause::Panic(_)), "also after it has waited");
}

#[filch::test(sim, seeds = 200)]
fn a_stop_reaches_every_future_whenever_it_comes() {
    let canceller = Canceller::new();
    let mut g = Graph::new();
    for _ in 0..3 {
        g.async_node("", || async {
            filch::yield_now().await;
            std::future::pending::<()>().await;
        });
    }
    g.node("cancel", || canceller.cancel());
    assert!(g.runner().canceller(&canceller).try_run().is_err());
}

#[test]
fn a_graph_without_a_beginning_is_refused() {
    let mut g = Graph::new();
    let a = g.node("a", || ());
    let back = g.condition("back", || 0);
    g.precede(a, back);
    g.precede(back, a);
    let error = g.prepare().unwrap_err();
    assert_eq!(error.to_string(), "the graph has no node to begin with: a -> back -> a");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(g.run()))).is_err());
    g.erase(a);
    g.erase(back);
    g.run();
}
