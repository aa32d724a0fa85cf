//! Readiness in every interleaving: a caller that finds nothing, and news that come meanwhile.

use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed as AnyOrder};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::thread;

use super::{Direction, Look, News, Readiness};
use crate::base::shim::{AtomicUsize, Ordering};
use crate::io::waiters::{Waiter, Waits};

/// Counts its wakes; no part of what is modelled.
#[derive(Default)]
struct Wakes(Count);

impl Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, AnyOrder);
    }
}

/// Reads as a future does: until there is something, or it is told that it will be woken.
fn read_or_wait(readiness: &Readiness, bytes: &AtomicUsize, waker: &Waker) -> bool {
    let who = Waiter::nameless(waker);
    loop {
        match readiness.look(Direction::Read) {
            Look::Closed => return true,
            Look::Blocked if readiness.wait(Direction::Read, who) => return false,
            Look::Blocked => {}
            Look::Ready(seen) => {
                // ORDERING: Acquire pairs with the Release below: the system's own order.
                if bytes.load(Ordering::Acquire) > 0 {
                    return true;
                }
                readiness.clear(Direction::Read, seen);
            }
        }
    }
}

fn told(news: News, arrives: bool) {
    loom::model(move || {
        let shared = Arc::new((Readiness::new(), AtomicUsize::new(0)));
        let teller = {
            let shared = shared.clone();
            thread::spawn(move || {
                if arrives {
                    // ORDERING: Release pairs with the Acquire above.
                    shared.1.store(1, Ordering::Release);
                }
                let mut woken = Vec::new();
                shared.0.tell(news, &mut woken);
                woken.into_iter().for_each(Waker::wake);
            })
        };
        let wakes = std::sync::Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let done = read_or_wait(&shared.0, &shared.1, &waker);
        teller.join().unwrap();
        if !done {
            assert_eq!(wakes.0.load(AnyOrder), 1, "it waits, and nobody will wake it");
            assert!(read_or_wait(&shared.0, &shared.1, &waker));
        }
    });
}

#[test]
fn loom_news_during_a_call_that_finds_nothing_are_not_lost() {
    told(News::READ, true);
}

#[test]
fn loom_the_end_of_the_driver_reaches_who_waits() {
    told(News::CLOSED, false);
}

#[test]
fn loom_clearing_one_direction_keeps_the_other() {
    loom::model(|| {
        let readiness = Arc::new(Readiness::new());
        let other = {
            let readiness = readiness.clone();
            thread::spawn(move || {
                if let Look::Ready(seen) = readiness.look(Direction::Write) {
                    readiness.clear(Direction::Write, seen);
                }
            })
        };
        if let Look::Ready(seen) = readiness.look(Direction::Read) {
            readiness.clear_short(Direction::Read, seen);
        }
        other.join().unwrap();
        assert_eq!(readiness.look(Direction::Read), Look::Blocked);
        assert_eq!(readiness.look(Direction::Write), Look::Blocked);
    });
}

#[test]
fn loom_who_gives_up_takes_no_other_with_it() {
    loom::model(|| {
        let readiness = Arc::new(Readiness::new());
        let Look::Ready(seen) = readiness.look(Direction::Read) else { unreachable!("D1") };
        readiness.clear(Direction::Read, seen);
        let wakers: [_; 3] = std::array::from_fn(|_| std::sync::Arc::new(Wakes::default()));
        let polls = |waits: &mut Waits<'_, Readiness>, wakes: &std::sync::Arc<Wakes>| {
            let waker = Waker::from(wakes.clone());
            waits.poll(&Context::from_waker(&waker), |readiness, who| {
                match readiness.wait(Direction::Read, who) {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                }
            })
        };
        let mut waits: [_; 3] = std::array::from_fn(|_| Waits::at(&*readiness));
        for (waits, wakes) in waits.iter_mut().zip(&wakers) {
            assert!(polls(waits, wakes).is_pending());
        }
        let teller = {
            let readiness = readiness.clone();
            thread::spawn(move || {
                let mut woken = Vec::new();
                readiness.tell(News::READ, &mut woken);
                woken.into_iter().for_each(Waker::wake);
            })
        };
        let [_first, goes, _stays] = waits;
        drop(goes);
        teller.join().unwrap();
        let wakes = wakers.map(|wakes| wakes.0.load(AnyOrder));
        assert_eq!((wakes[0], wakes[2]), (1, 1), "who still waits is woken");
    });
}
