//! Models of Q1 to Q5.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Arc;
use loom::thread;

use super::{Attempt, Permits};
use crate::base::shim::UnsafeCell;
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

/// Who is refused sees what came before the end: a latch is made of this.
#[test]
fn loom_permits_closed_while_somebody_waits_refuse_it_and_pass_what_was_done() {
    check(|| {
        let shared = Arc::new((Permits::new(0), UnsafeCell::new(0)));
        let closer = {
            let shared = shared.clone();
            thread::spawn(move || {
                // SAFETY: it is read after the close; loom checks it.
                shared.1.with_mut(|value| unsafe { *value = 1 });
                shared.0.close();
            })
        };
        assert!(block_on(shared.0.take(1)).is_err());
        // SAFETY: written before the close; loom checks it.
        shared.1.with(|value| assert_eq!(unsafe { *value }, 1));
        closer.join().unwrap();
        assert_eq!(shared.0.try_take(1), Attempt::Closed);
    });
}

/// By way of the word, and by way of the list's lock, which others may not take.
#[test]
fn loom_permits_given_past_a_waiter_pass_what_was_done_under_them() {
    check(|| {
        let shared = Arc::new((Permits::new(1), UnsafeCell::new(0)));
        assert_eq!(shared.0.try_take(1), Attempt::Taken);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let taken = shared.0.try_take(1) == Attempt::Taken;
                if taken {
                    // SAFETY: the only permit is ours; loom checks it.
                    shared.1.with_mut(|sum| unsafe { *sum += 1 });
                    shared.0.give(1);
                }
                u32::from(taken)
            })
        };
        {
            let waiting = pin!(shared.0.take(1));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(waiting.poll(&mut cx).is_pending());
            // SAFETY: the only permit is ours; loom checks it.
            shared.1.with_mut(|sum| unsafe { *sum += 1 });
            shared.0.give(1);
            // Dropped when it was granted: it gives the permit back.
        }
        let taken = other.join().unwrap();
        block_on(shared.0.take(1)).unwrap();
        // SAFETY: the only permit is ours; loom checks it.
        shared.1.with(|sum| assert_eq!(unsafe { *sum }, 1 + taken));
    });
}
