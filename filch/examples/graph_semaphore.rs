//! Semaphores: at most so many nodes at a time, and no thread waits for them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::Graph;
use filch::graph::Semaphore;

fn main() {
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let enter = |weight: usize| {
        let used = now.fetch_add(weight, Relaxed) + weight;
        most.fetch_max(used, Relaxed);
        std::thread::yield_now();
        now.fetch_sub(weight, Relaxed);
    };
    let memory = Semaphore::new(4);
    let mut g = Graph::new();
    let enter = &enter;
    let small: Vec<_> = (0..40).map(|n| g.node(format!("small {n}"), move || enter(1))).collect();
    let big: Vec<_> = (0..10).map(|n| g.node(format!("big {n}"), move || enter(3))).collect();
    g.limit(&small, &memory, 1);
    g.limit(&big, &memory, 3);
    g.run_n(5);
    println!("never more than {} of 4 in use", most.load(Relaxed));
    assert!(most.load(Relaxed) <= 4);
    assert_eq!(memory.available(), 4);
}
