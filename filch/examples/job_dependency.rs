//! A parent and two children: the parent has ended when all three have. It joins its children, and
//! orders nothing: whoever wants an order waits.

use std::sync::atomic::{AtomicU32, Ordering};

use filch::Job;

static ENDED: AtomicU32 = AtomicU32::new(0);

fn step(name: &str) {
    println!("{name}");
    ENDED.fetch_add(1, Ordering::Relaxed);
}

fn main() {
    let parent = Job::new(|_| step("parent"));
    let first = parent.child(|_| step("first child"));
    let second = parent.child(|_| step("second child"));

    first.run();
    second.run();
    // To wait for a parent that was never run would panic, and say where it was made.
    parent.run_and_wait();

    assert_eq!(ENDED.load(Ordering::Relaxed), 3);
}
