//! Composition: graphs as nodes of other graphs, and a graph run inside a node.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::Graph;

fn main() {
    let washed = AtomicUsize::new(0);
    let mut laundry = Graph::new();
    let wash = laundry.node("wash", || ());
    let dry = laundry.node("dry", || _ = washed.fetch_add(1, Relaxed));
    laundry.precede(wash, dry);

    // One graph may be a module of several places; its runs may overlap.
    let mut week = Graph::new();
    let monday = week.module("monday", &laundry);
    let others = ["thursday", "sunday"].map(|day| week.module(day, &laundry));
    week.precede(monday, others);

    let mut month = Graph::new();
    let weeks: Vec<_> = (1..=4).map(|n| month.module(format!("week {n}"), &week)).collect();
    month.linearize(&weeks);
    month.run();
    println!("{} loads in a month", washed.load(Relaxed));
    assert_eq!(washed.swap(0, Relaxed), 12);

    // Inside a node, `run` is how a worker runs a graph without being blocked.
    let mut g = Graph::new();
    g.node("by hand", || laundry.run_n(2));
    g.run();
    println!("{} more by hand", washed.load(Relaxed));
    assert_eq!(washed.load(Relaxed), 2);
}
