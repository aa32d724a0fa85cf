//! Ways in which a run ends early: cancelled, out of time, or because a node failed. The graph is as good as new afterwards.

use std::sync::Arc;
use std::time::Duration;

use filch::Graph;
use filch::graph::{Canceller, OnFailure, Stopped};

fn main() {
    let canceller = Canceller::new();
    let mut g = Graph::new();
    let first = g.node("first", || canceller.cancel());
    let second = g.node("second", || ());
    g.precede(first, second);
    let error = g.runner().canceller(&canceller).try_run().unwrap_err();
    println!("{error}");
    assert_eq!(error.stopped(), Some(Stopped::Cancelled));
    g.run();

    let mut g = Graph::new();
    let slow = g.async_node("slow", || filch::time::sleep(Duration::from_millis(20)));
    let after = g.node("after", || ());
    g.precede(slow, after);
    let error = g.runner().timeout(Duration::from_millis(1)).try_run().unwrap_err();
    println!("{error}");
    assert_eq!((error.stopped(), error.skipped()), (Some(Stopped::Deadline), &[after.id()][..]));

    // A failure skips what depends on it. The rest runs, or is cancelled too.
    let mut g = Graph::new();
    let parse = g.try_node("parse", || "12x".parse::<u32>());
    let double = g.node("double", |n: &u32| 2 * n).after(&parse);
    let error = g.runner().on_failure(OnFailure::Cancel).try_run().unwrap_err();
    println!("{error}");
    assert_eq!((error.failures()[0].name(), error.skipped()), ("parse", &[double.id()][..]));

    // A run that goes on by itself is cancelled through its handle.
    let mut g = Graph::new();
    let sleeps: Vec<_> = (0..10)
        .map(|_| g.async_node("sleep", || filch::time::sleep(Duration::from_millis(1))))
        .collect();
    g.linearize(&sleeps);
    let run = Arc::new(g).run_async();
    run.cancel();
    let error = run.wait_outcome().unwrap_err();
    println!("{error}");
    assert!(!error.skipped().is_empty());
}
