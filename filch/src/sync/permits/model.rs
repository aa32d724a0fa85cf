//! Models of Q1 to Q5.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Arc;
use loom::thread;

use super::{Attempt, Permits};
use crate::base::shim::{AtomicUsize, Ordering, UnsafeCell};
use crate::sync::model::block_on;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn loom_permits_pass_what_was_done_under_them() {
    check(|| {
        let shared = Arc::new((Permits::new(1), UnsafeCell::new(0)));
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || add_one(&shared))
        };
        add_one(&shared);
        worker.join().unwrap();
        // SAFETY: both have ended.
        shared.1.with(|sum| assert_eq!(unsafe { *sum }, 2));
        assert_eq!(shared.0.available(), 1);
    });
}

fn add_one(shared: &(Permits, UnsafeCell<u32>)) {
    block_on(shared.0.take(1)).unwrap();
    // SAFETY: the only permit is ours; loom checks it.
    shared.1.with_mut(|sum| unsafe { *sum += 1 });
    shared.0.give(1);
}

#[test]
fn loom_permits_given_one_by_one_serve_who_needs_two() {
    check(|| {
        let permits = Arc::new(Permits::new(0));
        let givers = [(); 2].map(|()| {
            let permits = permits.clone();
            thread::spawn(move || permits.give(1))
        });
        block_on(permits.take(2)).unwrap();
        for giver in givers {
            giver.join().unwrap();
        }
        assert_eq!(permits.available(), 0);
    });
}

#[test]
fn loom_permits_of_a_dropped_taker_go_to_the_next() {
    check(|| {
        let permits = Arc::new(Permits::new(0));
        let giver = {
            let permits = permits.clone();
            thread::spawn(move || permits.give(1))
        };
        {
            // Polled once, and dropped before, while or after it is served.
            let first = pin!(permits.take(1));
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(taken) = first.poll(&mut cx) {
                taken.unwrap();
                permits.give(1);
            }
        }
        block_on(permits.take(1)).unwrap();
        giver.join().unwrap();
        assert_eq!(permits.available(), 0);
        assert_eq!(permits.try_take(1), Attempt::Short);
    });
}

#[test]
fn loom_permits_closed_while_somebody_waits_refuse_it() {
    check(|| {
        let permits = Arc::new(Permits::new(0));
        let said = Arc::new(AtomicUsize::new(0));
        let closer = {
            let (permits, said) = (permits.clone(), said.clone());
            thread::spawn(move || {
                said.store(1, Ordering::Relaxed);
                permits.close();
            })
        };
        assert!(block_on(permits.take(1)).is_err());
        closer.join().unwrap();
        assert_eq!(permits.try_take(1), Attempt::Closed);
    });
}
