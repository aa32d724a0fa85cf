use std::task::Wake;

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::base::parker::Parker;

/// A bed that a waker ends the sleep in.
struct Bed(Parker);

impl Wake for Bed {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn loom_waiter_is_woken_or_sees_the_end() {
    loom::model(|| {
        let ending = Arc::new(Ending::new());
        let bed = std::sync::Arc::new(Bed(Parker::new()));
        ending.begin();
        let finisher = {
            let ending = ending.clone();
            thread::spawn(move || {
                let (keeper, waker) = ending.finish();
                assert_eq!(keeper, Keeper::Waiter);
                if let Some(waker) = waker {
                    waker.wake();
                }
            })
        };
        let waker = Waker::from(bed.clone());
        while ending.register(&waker) {
            bed.0.park();
        }
        assert!(ending.is_done());
        finisher.join().unwrap();
    });
}

#[test]
fn loom_waiter_that_goes_leaves_all_to_one() {
    loom::model(|| {
        let ending = Arc::new(Ending::new());
        ending.begin();
        assert!(ending.register(Waker::noop()));
        let finisher = {
            let ending = ending.clone();
            thread::spawn(move || ending.finish().0)
        };
        let mine = ending.let_go();
        let theirs = finisher.join().unwrap();
        assert!((mine == Keeper::Caller) ^ (theirs == Keeper::Caller), "one cleans up");
    });
}
