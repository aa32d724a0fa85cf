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
