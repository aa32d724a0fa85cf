//! The root task and its children run on the workers; the main thread sleeps until all are done
//! and then has the root's value. `wait_all` does the same for many roots.

use std::sync::atomic::{AtomicUsize, Ordering};

static CHILDREN: AtomicUsize = AtomicUsize::new(0);

async fn root() -> &'static str {
    for _ in 0..3 {
        // Into the queue of the worker that runs the root; an idle one may steal it.
        drop(filch::spawn(async {
            filch::yield_now().await;
            CHILDREN.fetch_add(1, Ordering::SeqCst);
        }));
    }
    "the root's value"
}

fn main() {
    let value = filch::block_on(async { filch::spawn(root()).await });
    println!("{value}, after {} children", CHILDREN.load(Ordering::SeqCst));
    assert_eq!(CHILDREN.load(Ordering::SeqCst), 3);

    let squares = filch::wait_all((0..5u32).map(|i| filch::spawn(async move { i * i })));
    println!("{squares:?}");
    assert_eq!(squares, [0, 1, 4, 9, 16]);
}
