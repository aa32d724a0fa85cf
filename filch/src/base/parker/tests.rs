use std::{
    sync::Arc,
    task::{Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use super::{Bed, Gate, Parker, Unparked, condvar::CondvarGate};
use crate::base::repeated;
use crate::base::shim::{AtomicU32, AtomicUsize, Ordering};

/// Fails the test when the kernel would be entered.
#[derive(Debug, Default)]
struct ForbiddenGate;

impl Gate for ForbiddenGate {
    fn wait(&self, _word: &AtomicU32, _timeout: Option<Duration>) {
        panic!("waited");
    }

    fn wake(&self, _word: &AtomicU32) {
        panic!("woke");
    }
}

#[test]
fn unpark_of_a_thread_that_is_not_parked_stays_out_of_the_kernel() {
    let bed = Bed::<ForbiddenGate>::default();
    bed.unpark();
    bed.unpark();
    assert_eq!(bed.park_until(None), Unparked::Token);
    assert_eq!(bed.park_until(Some(Instant::now())), Unparked::Timeout);
    bed.unpark();
    assert_eq!(bed.park_until(Some(Instant::now())), Unparked::Token);
}

#[test]
fn token_given_before_park_ends_it_at_once_and_only_once() {
    let parker = Parker::new();
    parker.unpark();
    parker.unpark();
    parker.park();
    assert_eq!(parker.park_timeout(Duration::ZERO), Unparked::Timeout);
}

fn deadline_is_not_early<G: Gate>() {
    let bed = Bed::<G>::default();
    let deadline = Instant::now() + Duration::from_micros(1500);
    assert_eq!(bed.park_until(Some(deadline)), Unparked::Timeout);
    assert!(Instant::now() >= deadline);
}

#[test]
fn park_with_a_deadline_does_not_end_early() {
    deadline_is_not_early::<super::SystemGate>();
    deadline_is_not_early::<CondvarGate>();
}

#[test]
fn timeout_beyond_all_time_waits_for_the_token() {
    let parker = Arc::new(Parker::new());
    let giver = thread::spawn({
        let parker = parker.clone();
        move || parker.unpark()
    });
    assert_eq!(parker.park_timeout(Duration::MAX), Unparked::Token);
    giver.join().unwrap();
}

fn ping_pong<G: Gate + Send + Sync + 'static>(rounds: usize) {
    let beds = Arc::new([Bed::<G>::default(), Bed::<G>::default()]);
    let turn = Arc::new(AtomicUsize::new(0));
    let play = move |me: usize, beds: &[Bed<G>; 2], turn: &AtomicUsize| {
        for round in 0..rounds {
            let mine = 2 * round + me;
            // ORDERING: Relaxed, the token carries the visibility (K3).
            while turn.load(Ordering::Relaxed) != mine {
                beds[me].park_until(None);
            }
            turn.store(mine + 1, Ordering::Relaxed); // ORDERING: as above.
            beds[1 - me].unpark();
        }
    };
    let other = thread::spawn({
        let (beds, turn) = (beds.clone(), turn.clone());
        move || play(1, &beds, &turn)
    });
    play(0, &beds, &turn);
    other.join().unwrap();
    assert_eq!(turn.load(Ordering::Relaxed), 2 * rounds); // ORDERING: joined.
}

#[test]
fn two_threads_that_hand_a_token_back_and_forth_never_hang() {
    ping_pong::<super::SystemGate>(repeated(5_000));
    ping_pong::<CondvarGate>(repeated(5_000));
}

#[test]
fn waker_made_of_a_parker_unparks_it() {
    let parker = Arc::new(Parker::new());
    let waker = Waker::from(parker.clone());
    waker.wake_by_ref();
    parker.park();
    waker.wake();
    parker.park();
    parker.wake_by_ref();
    parker.park();
}
