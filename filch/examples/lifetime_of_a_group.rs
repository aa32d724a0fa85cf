//! Parent A spawns child B. When `block_on_fn` returns, both have ended *and* what they captured
//! is freed, so nothing of theirs outlives the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts its drop.
struct Captured(&'static str, Arc<AtomicUsize>);

impl Drop for Captured {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
        println!("what {} captured is freed", self.0);
    }
}

fn main() {
    let freed = Arc::new(AtomicUsize::new(0));
    let (of_a, of_b) = (Captured("A", freed.clone()), Captured("B", freed.clone()));

    filch::block_on_fn(move || {
        let _of_a = of_a;
        println!("A runs, and submits B");
        drop(filch::spawn_fn(move || {
            let _of_b = of_b;
            println!("B runs");
        }));
        println!("A ends");
    });

    println!("block_on returns");
    assert_eq!(freed.load(SeqCst), 2);
    assert_eq!(Arc::strong_count(&freed), 1);
}
