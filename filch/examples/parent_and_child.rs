//! `block_on_fn` returns when the parent and every task below it has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

static CHILD_ENDED: AtomicBool = AtomicBool::new(false);

fn main() {
    filch::block_on_fn(|| {
        println!("Parent starts");

        // Nobody keeps the handle: the child still belongs to the parent.
        drop(filch::spawn_fn(|| {
            thread::sleep(Duration::from_millis(100));
            println!("Child ends");
            CHILD_ENDED.store(true, Ordering::SeqCst);
        }));

        println!("Parent ends");
    });

    println!("Both are gone");
    assert!(CHILD_ENDED.load(Ordering::SeqCst));
}
