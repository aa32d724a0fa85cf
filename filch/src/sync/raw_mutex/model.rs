//! Models of M1 to M5.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::Raw;
use crate::base::shim::UnsafeCell;
use crate::sync::model::block_on;

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

struct Sum {
    lock: Raw,
    sum: UnsafeCell<u32>,
}

impl Sum {
    /// Whoever waits is due at once, or never.
    fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self { lock: Raw::with_patience(patience), sum: UnsafeCell::new(0) })
    }

    /// The lock is ours.
    fn add_one(&self) {
        // SAFETY: under the lock; loom checks it.
        self.sum.with_mut(|sum| unsafe { *sum += 1 });
        self.lock.unlock();
    }

    fn is(&self, expected: u32) {
        assert!(self.lock.try_lock());
        // SAFETY: under the lock; loom checks it.
        self.sum.with(|sum| assert_eq!(unsafe { *sum }, expected));
    }
}

/// Another thread adds one, when it has the lock.
fn adder(sum: &Arc<Sum>) -> thread::JoinHandle<()> {
    let sum = sum.clone();
    thread::spawn(move || {
        block_on(sum.lock.lock());
        sum.add_one();
    })
}

/// Another thread adds one, if the lock is free; returns how many it added.
fn attempt(sum: &Arc<Sum>) -> thread::JoinHandle<u32> {
    let sum = sum.clone();
    thread::spawn(move || {
        let taken = sum.lock.try_lock();
        if taken {
            sum.add_one();
        }
        u32::from(taken)
    })
}

fn excludes(patience: Duration) {
    check(3, move || {
        let sum = Sum::new(patience);
        let other = adder(&sum);
        for _ in 0..2 {
            block_on(sum.lock.lock());
            sum.add_one();
        }
        other.join().unwrap();
        sum.is(3);
    });
}

#[test]
fn loom_mutex_excludes_and_wakes_who_is_told() {
    excludes(Duration::MAX);
}

#[test]
fn loom_mutex_excludes_and_wakes_who_is_handed_the_lock() {
    excludes(Duration::ZERO);
}

#[test]
fn loom_mutex_attempt_never_takes_a_lock_that_is_held() {
    check(3, || {
        let sum = Sum::new(Duration::MAX);
        let others = [(); 2].map(|()| attempt(&sum));
        let taken: u32 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert!(taken >= 1);
        sum.is(taken);
    });
}

/// The lock is released while somebody waits, and taken by one who never touches the queue: the release
/// itself must pass on what was done under it.
#[test]
fn loom_mutex_released_past_a_waiter_passes_what_was_done() {
    check(3, || {
        let sum = Sum::new(Duration::MAX);
        assert!(sum.lock.try_lock());
        let other = attempt(&sum);
        {
            let waiting = pin!(sum.lock.lock());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(waiting.poll(&mut cx).is_pending());
            sum.add_one();
        }
        sum.is(1 + other.join().unwrap());
    });
}

fn dropped_waiter_passes_it_on(patience: Duration) {
    check(2, move || {
        let sum = Sum::new(patience);
        assert!(sum.lock.try_lock());
        let other = adder(&sum);
        {
            let first = pin!(sum.lock.lock());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(first.poll(&mut cx).is_pending());
            sum.add_one();
            // Dropped when it was told, or handed the lock, or waits behind the other.
        }
        other.join().unwrap();
        sum.is(2);
    });
}

#[test]
fn loom_mutex_waiter_dropped_when_told_tells_the_next() {
    dropped_waiter_passes_it_on(Duration::MAX);
}

#[test]
fn loom_mutex_waiter_dropped_when_handed_the_lock_releases_it() {
    dropped_waiter_passes_it_on(Duration::ZERO);
}
