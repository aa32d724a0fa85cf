//! Graphs in hives that have workers of one role only.

use std::sync::Arc;

use filch::{Builder, Graph, Runtime, yield_now};

use crate::watchdog::watched;

/// Runs `test` beside a hive that runs, and stops it.
fn beside(hive: Runtime, test: impl FnOnce(&filch::Handle) + Send) {
    let handle = hive.handle();
    std::thread::scope(|s| {
        let runs = s.spawn(|| hive.run().unwrap());
        test(&handle);
        handle.request_stop();
        runs.join().unwrap();
    });
}

/// A future that waits, and what comes after it.
fn waits() -> (Graph<'static>, filch::graph::Node<u32>) {
    let mut g = Graph::new();
    let wait = g.async_node("wait", async || {
        yield_now().await;
        1
    });
    let last = g.node("last", |one: &u32| one + 1).after(&wait);
    (g, last)
}

#[test]
fn future_that_waits_fails_where_nobody_polls_it() {
    watched(|_| {
        let hive = Builder::new().compute_workers(1).hive().unwrap();
        beside(hive, |handle| {
            let (g, last) = waits();
            let run = move || g.try_run().map(drop).unwrap_err();
            let error = handle.task().spawn_fn(run).wait();
            assert_eq!(error.failures()[0].name(), "wait");
            assert_eq!(error.skipped(), [last.id()]);
        });
    });
}

#[test]
fn future_that_is_ready_at_once_needs_no_io_worker() {
    watched(|_| {
        let hive = Builder::new().compute_workers(1).hive().unwrap();
        beside(hive, |handle| {
            let mut g = Graph::new();
            let node = g.async_node("ready", async || 7);
            assert_eq!(handle.task().spawn_fn(move || g.run().take(node)).wait(), 7);
        });
    });
}

#[test]
fn graph_goes_on_where_nobody_runs_jobs() {
    watched(|_| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        beside(hive, |handle| {
            let (g, last) = waits();
            let g = Arc::new(g);
            let run = async move { g.run_async().await.take(last) };
            assert_eq!(handle.task().spawn(run).wait(), 2);
        });
    });
}
