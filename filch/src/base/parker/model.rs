//! Models of K1 to K3.

use std::time::Instant;

use loom::{sync::Arc, thread};

use super::{Parker, Unparked};
use crate::base::shim::{AtomicUsize, Ordering};

#[test]
fn loom_token_given_at_any_time_ends_the_park() {
    loom::model(|| {
        let parker = Arc::new(Parker::new());
        let giver = {
            let parker = parker.clone();
            thread::spawn(move || parker.unpark())
        };
        parker.park();
        giver.join().unwrap();
    });
}

#[test]
fn loom_park_after_two_tokens_sees_both_givers() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let parker = Arc::new(Parker::new());
        let data = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let givers = [0, 1].map(|i| {
            let (parker, data) = (parker.clone(), data.clone());
            thread::spawn(move || {
                data[i].store(1, Ordering::Relaxed);
                parker.unpark();
            })
        });
        // Without a giver's write there must be a token to come, so this always ends.
        while data.iter().any(|d| d.load(Ordering::Relaxed) == 0) {
            parker.park();
        }
        for giver in givers {
            giver.join().unwrap();
        }
    });
}

#[test]
fn loom_token_that_meets_a_deadline_is_taken_now_or_by_the_next_park() {
    loom::model(|| {
        let parker = Arc::new(Parker::new());
        let giver = {
            let parker = parker.clone();
            thread::spawn(move || parker.unpark())
        };
        if parker.park_until(Some(Instant::now())) == Unparked::Timeout {
            parker.park();
        }
        giver.join().unwrap();
        assert_eq!(
            parker.park_until(Some(Instant::now())),
            Unparked::Timeout,
            "one unpark is one token"
        );
    });
}
