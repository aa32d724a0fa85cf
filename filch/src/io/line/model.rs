//! Every order of two who meet at a line or a gate.

use std::future::poll_fn;
use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::{Gate, Line};
use crate::base::shim::UnsafeCell;

struct Guarded {
    line: Line,
    count: UnsafeCell<u32>,
}

// SAFETY: N1, only who holds the line touches the count.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn add(&self) {
        block_on(poll_fn(|cx| self.line.poll_take(cx)));
        self.count.with_mut(|count| {
            // SAFETY: N1.
            unsafe { *count += 1 };
        });
        self.line.let_go();
    }
}

#[test]
fn loom_line_hands_over() {
    loom::model(|| {
        let guarded = Arc::new(Guarded { line: Line::new(), count: UnsafeCell::new(0) });
        let other = guarded.clone();
        let thread = thread::spawn(move || other.add());
        guarded.add();
        thread.join().unwrap();
        guarded.count.with(|count| {
            // SAFETY: the other thread has ended.
            assert_eq!(unsafe { *count }, 2);
        });
    });
}

#[test]
fn loom_gate_opens() {
    loom::model(|| {
        let gate = Arc::new(Gate::new());
        gate.add();
        let other = gate.clone();
        let thread = thread::spawn(move || other.finish());
        block_on(poll_fn(|cx| gate.poll_open(cx)));
        thread.join().unwrap();
    });
}
