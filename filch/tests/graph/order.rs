//! Static graphs: order, counts, outputs, concurrent and repeated runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use filch::Graph;
use filch::graph::Own;
use proptest::prelude::*;

#[test]
fn a_diamond_passes_its_values() {
    let mut g = Graph::new();
    let load = g.node("load", || vec![1, 2, 3]);
    let left = g.node("left", |x: &Vec<i32>| x.iter().sum::<i32>()).after(&load);
    let right = g.node("right", |x: &Vec<i32>| x.len()).after(&load);
    let merge = g.node("merge", |l: &i32, r: &usize| (*l, *r)).after((&left, &right));
    for _ in 0..3 {
        assert_eq!(g.run().take(merge), (6, 3));
    }
}

#[test]
fn an_output_can_move_along_a_chain() {
    let mut g = Graph::new();
    let mut last = g.node("first", || vec![0]);
    for n in 1..10 {
        last = g
            .node("next", move |Own(mut v): Own<Vec<i32>>| {
                v.push(n);
                v
            })
            .after(last);
    }
    assert_eq!(g.run().take(last), (0..10).collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "is taken by value")]
fn an_output_is_owned_by_one() {
    let mut g = Graph::new();
    let a = g.node("a", || 1);
    g.node("b", |Own(_): Own<i32>| ()).after(a);
    g.node("c", |_: &i32| ()).after(&a);
}

#[test]
#[should_panic(expected = "another graph")]
fn handles_of_other_graphs_are_refused() {
    let mut g = Graph::new();
    let a = Graph::new().node("a", || ());
    let b = g.node("b", || ());
    g.precede(b, a);
}

#[test]
fn a_cycle_is_named() {
    let mut g = Graph::new();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| g.node(name, || ()));
    g.linearize([a, b, c, d]);
    g.precede(d, b);
    assert_eq!(g.prepare().unwrap_err().to_string(), "the graph has a cycle: b -> c -> d -> b");
}

#[test]
fn many_runs_of_one_graph_at_once() {
    let total = AtomicUsize::new(0);
    let mut g = Graph::new();
    let nodes: Vec<_> = (0..50).map(|_| g.node("", || _ = total.fetch_add(1, Relaxed))).collect();
    g.linearize(&nodes[..25]);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| g.run_n(25));
        }
    });
    assert_eq!(total.load(Relaxed), 4 * 25 * 50);
}

#[test]
fn a_run_inside_a_node_of_a_run() {
    let total = AtomicUsize::new(0);
    let mut inner = Graph::new();
    for _ in 0..20 {
        inner.node("", || _ = total.fetch_add(1, Relaxed));
    }
    let mut g = Graph::new();
    for _ in 0..20 {
        g.node("", || drop(inner.run()));
    }
    g.run();
    assert_eq!(total.load(Relaxed), 400);
}

#[test]
fn an_async_run_may_be_awaited_forgotten_and_dropped() {
    let mut g = Graph::new();
    let total = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let total = total.clone();
        g.node("", move || _ = total.fetch_add(1, Relaxed));
    }
    let g = Arc::new(g);
    filch::block_on(async {
        g.run_async().await;
        drop(g.run_async());
        std::mem::forget(g.run_async());
    });
    assert_eq!(total.load(Relaxed), 30);
}

#[test]
fn bodies_and_outputs_are_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (bodies, outputs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut g = Graph::new();
    for _ in 0..5 {
        let body = Counted(&bodies);
        let outputs = &outputs;
        g.node("", move || {
            let _ = &body;
            Counted(outputs)
        });
    }
    drop(g.run());
    assert_eq!(outputs.load(Relaxed), 5);
    g.run();
    drop(g);
    assert_eq!((bodies.load(Relaxed), outputs.load(Relaxed)), (5, 10));
}

/// Edges from lower to higher numbers.
fn edges() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (2..200_usize).prop_flat_map(|n| {
        let edge = (0..n, 1..n).prop_map(move |(a, step)| {
            let b = (a + step) % n;
            (a.min(b), a.max(b))
        });
        (Just(n), proptest::collection::vec(edge, 0..3 * n))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_node_runs_once_after_its_predecessors((n, edges) in edges(), runs in 1..4_usize) {
        let clock = AtomicU32::new(0);
        let times: Vec<_> = (0..n).map(|_| (AtomicU32::new(0), AtomicU32::new(0))).collect();
        let mut g = Graph::new();
        let nodes: Vec<_> = times
            .iter()
            .map(|(time, count)| {
                let clock = &clock;
                g.node("", move || {
                    count.fetch_add(1, Relaxed);
                    time.store(clock.fetch_add(1, Relaxed), Relaxed);
                })
            })
            .collect();
        for &(a, b) in &edges {
            g.precede(nodes[a], nodes[b]);
        }
        for run in 1..=runs {
            g.run();
            for (_, count) in &times {
                prop_assert_eq!(count.load(Relaxed), run as u32);
            }
            for &(a, b) in &edges {
                prop_assert!(times[a].0.load(Relaxed) < times[b].0.load(Relaxed));
            }
        }
    }
}
