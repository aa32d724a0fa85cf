//! Subflows: a node that makes a graph when it runs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use filch::Graph;

/// The sum of a range, halved by subflows until it is small.
fn sum_of<'env>(g: &mut Graph<'env>, from: u64, to: u64, sum: &'env AtomicU64) {
    if to - from <= 100 {
        g.node("leaf", move || _ = sum.fetch_add((from..to).sum(), Relaxed));
        return;
    }
    let middle = from + (to - from) / 2;
    for (from, to) in [(from, middle), (middle, to)] {
        g.subflow(format!("{from}..{to}"), move |sub| sum_of(sub, from, to, sum));
    }
}

fn main() {
    let sum = AtomicU64::new(0);
    let mut g = Graph::new();
    let all = g.subflow("all", |sub| sum_of(sub, 0, 1000, &sum));
    // What follows a subflow comes after all of it.
    let check = g.node("check", || assert_eq!(sum.swap(0, Relaxed), 499_500));
    g.precede(all, check);
    g.run_n(2);
    println!("the numbers below 1000 add up to 499500");

    // A retained one is made once and run again.
    let made = AtomicUsize::new(0);
    let mut g = Graph::new();
    g.retained_subflow("kept", |sub| {
        made.fetch_add(1, Relaxed);
        sub.node("step", || ());
    });
    g.run_n(10);
    println!("made {} time, run 10 times", made.load(Relaxed));
    assert_eq!(made.load(Relaxed), 1);
}
