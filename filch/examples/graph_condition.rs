//! Conditions: a branch, several branches at once, and a loop.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::Graph;

fn main() {
    let (tosses, heads) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let sides = [1, 0, 1, 1, 1];

    // Toss again until there were three heads in a row. A weak edge leads back; it is not waited for.
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let toss = g.condition("toss", || sides[tosses.fetch_add(1, Relaxed)]);
    let tail = g.node("tail", || heads.store(0, Relaxed));
    let head = g.node("head", || _ = heads.fetch_add(1, Relaxed));
    let enough = g.condition("enough?", || usize::from(heads.load(Relaxed) == 3));
    let again = g.condition("again", || 0);
    let done = g.node("done", || ());
    g.precede(start, toss);
    g.precede(toss, [tail, head]);
    g.precede(tail, again);
    g.precede(head, enough);
    g.precede(enough, [again, done]);
    g.precede(again, toss);
    g.run();
    println!("three heads in a row after {} tosses", tosses.load(Relaxed));
    assert_eq!(tosses.load(Relaxed), 5);

    let hits = AtomicUsize::new(0);
    let mut g = Graph::new();
    let odd = g.multi_condition("the odd ones", || [1, 3]);
    let nodes: [_; 4] = std::array::from_fn(|n| {
        let hits = &hits;
        g.node(format!("{n}"), move || _ = hits.fetch_add(n, Relaxed))
    });
    g.precede(odd, nodes);
    g.run();
    println!("1 + 3 = {}", hits.load(Relaxed));
    assert_eq!(hits.load(Relaxed), 4);
}
