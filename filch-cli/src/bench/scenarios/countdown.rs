//! Countdown: tasks report that they have run, and one thread outside waits for the last.
//!
//! D1. `done` is called at most as often as `new` was told.
//! D2. What a task wrote before `done` is visible after `wait`.
//!
//! It is leaked, so that a task captures one word and no reference count is measured.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

#[repr(align(128))]
pub struct Countdown {
    left: AtomicUsize,
    waiter: Thread,
}

impl Countdown {
    /// Expects `count` calls of `done`; the calling thread is the one that may wait.
    pub fn new(count: usize) -> &'static Self {
        Box::leak(Box::new(Self { left: AtomicUsize::new(count), waiter: thread::current() }))
    }

    #[inline]
    pub fn done(&self) {
        // ORDERING: AcqRel chains every earlier `done` to the Acquire in `wait` (D2).
        let before = self.left.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "D1");
        if before == 1 {
            self.waiter.unpark();
        }
    }

    pub fn wait(&self) {
        debug_assert_eq!(self.waiter.id(), thread::current().id());
        // ORDERING: Acquire pairs with the AcqRel in `done` (D2).
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Countdown;
    use std::thread;

    #[test]
    fn wait_returns_after_the_last_done_of_many_threads() {
        let countdown = Countdown::new(400);
        let threads: Vec<_> = (0..4)
            .map(|_| thread::spawn(move || (0..100).for_each(|_| countdown.done())))
            .collect();
        countdown.wait();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn wait_for_nothing_returns_at_once() {
        Countdown::new(0).wait();
    }
}
