use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::base::parker::Parker;

#[test]
fn loom_waiter_is_woken_or_sees_the_end() {
    loom::model(|| {
        let ending = Arc::new(Ending::new());
        let parker = Arc::new(Parker::new());
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
        let waker = Waker::from(parker.clone());
        while ending.register(&waker) {
            parker.park();
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
