//! A loop as a job: queued, in pieces that others may take, and waited for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filch::Job;

fn process(x: u64) -> u64 {
    x * x + 1
}

fn main() {
    let data: Arc<Vec<AtomicU64>> = Arc::new((0..1000).map(AtomicU64::new).collect());

    // The loop owns what it uses: nothing dangles while it goes on.
    let cells = data.clone();
    let work = Job::for_each(0..data.len(), 64, move |i| {
        let x = cells[i].load(Ordering::Relaxed);
        cells[i].store(process(x), Ordering::Relaxed);
    });
    work.clone().run();
    println!("the loop goes on meanwhile");
    work.wait();

    let all = data.iter().zip(0..).all(|(cell, x)| cell.load(Ordering::Relaxed) == process(x));
    assert!(all, "each element once");
    println!("1000 elements processed");
}
