//! A static graph: nodes, edges, and any number of runs.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::Graph;

fn main() {
    let (clock, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let now = || clock.fetch_add(1, Relaxed);

    let mut g = Graph::new();
    let a = g.node("A", now);
    let [b, c] = ["B", "C"].map(|name| g.node(name, now));
    let d = g.node("D", now);
    g.precede(a, [b, c]);
    g.succeed(d, [b, c]);

    // Nodes can be given something to do later, and be taken out again.
    let log = g.placeholder("log");
    g.fill(log, || _ = runs.fetch_add(1, Relaxed));
    g.precede(d, log);
    let mistake = g.node("mistake", || unreachable!());
    g.erase(mistake);

    print!("{g}");
    let run = g.run();
    let [a, b, c, d] = [a, b, c, d].map(|node| run.take(node));
    println!("A ran at {a}, B at {b}, C at {c}, D at {d}");
    assert!(a < b.min(c) && b.max(c) < d);
    drop(run);

    g.run_n(3);
    g.run_until(|_| runs.load(Relaxed) >= 10);
    println!("{} runs", runs.load(Relaxed));
    assert_eq!(runs.load(Relaxed), 10);

    let mut circle = Graph::new();
    let nodes = ["egg", "hen"].map(|name| circle.node(name, || ()));
    circle.linearize(nodes);
    circle.precede(nodes[1], nodes[0]);
    let cycle = circle.prepare().unwrap_err();
    println!("{cycle}");
    assert_eq!(cycle.names(), ["egg", "hen", "egg"]);
}
