//! A timer's states, one step at a time.

use std::sync::atomic::AtomicUsize as Count;
use std::task::Wake;

use super::super::wheel::LATEST;
use super::*;

#[derive(Default)]
struct Bell(Count);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // ORDERING: Relaxed, one thread at a time.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), Waker::from(bell))
}

fn rings(bell: &Bell) -> usize {
    // ORDERING: Relaxed, one thread at a time.
    bell.0.load(Ordering::Relaxed)
}

fn timer() -> Pin<Box<Timer>> {
    Box::pin(Timer::new())
}

/// Fires what is due, and returns how many that were.
fn fire(timers: &Timers, now: u64, mut budget: usize) -> (usize, Expiry) {
    let mut batch = Batch::new();
    let expiry = timers.expire(now, &mut budget, &mut batch);
    (batch.drain().map(Waker::wake).count(), expiry)
}

#[test]
fn registered_timer_fires_once_when_due() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut timer = timer();
    assert_eq!(timer.as_mut().poll(&waker), Polled::Idle);
    assert_eq!(
        timer.as_mut().register(&timers, 1 << 20, 0, waker.clone()).unwrap(),
        Registered::Nearest
    );
    assert_eq!(timer.as_mut().poll(&waker), Polled::Waits);
    assert_eq!(fire(&timers, (1 << 20) - 1, 9), (0, Expiry::Done));
    assert_eq!(fire(&timers, 1 << 20, 9), (1, Expiry::Done));
    assert_eq!(fire(&timers, 1 << 30, 9), (0, Expiry::Done));
    assert_eq!((timer.as_mut().poll(&waker), rings(&bell)), (Polled::Fired, 1));
    assert_eq!(timers.nearest(), NEVER);
}

#[test]
fn a_past_deadline_is_due_at_registration() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut timer = timer();
    let registered = timer.as_mut().register(&timers, 1 << 20, 1 << 21, waker).unwrap();
    assert_eq!(registered, Registered::Due);
    assert!(timer.is_fired());
    assert_eq!((rings(&bell), Arc::strong_count(&bell)), (0, 1), "nobody waits, nothing is kept");
}

#[test]
fn only_an_earlier_deadline_has_to_be_announced() {
    let timers = Arc::new(Timers::new());
    let (_, waker) = bell();
    let [mut first, mut later, mut earlier] = [timer(), timer(), timer()];
    let nearest = |timer: &mut Pin<Box<Timer>>, at| {
        timer.as_mut().register(&timers, at, 0, waker.clone()).unwrap() == Registered::Nearest
    };
    assert!(nearest(&mut first, 2 << 20));
    assert!(!nearest(&mut later, 3 << 20));
    assert!(nearest(&mut earlier, 1 << 20));
    assert_eq!(timers.nearest(), 1 << 20);
}

#[test]
fn cancelled_timer_gives_its_waker_back_and_asks_for_one_look() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut timer = timer();
    let _ = timer.as_mut().register(&timers, 1 << 20, 0, waker.clone()).unwrap();
    assert!(timer.as_mut().cancel().is_some_and(|back| back.data() == waker.data()));
    assert!(timer.as_mut().cancel().is_none());
    assert_eq!((fire(&timers, 1 << 30, 9).0, rings(&bell)), (0, 0));
    assert_eq!(timers.nearest(), NEVER);
    assert_eq!(timer.as_mut().poll(&waker), Polled::Idle);
}

#[test]
fn the_last_waker_is_woken() {
    let timers = Arc::new(Timers::new());
    let ((old, old_waker), (new, new_waker)) = (bell(), bell());
    let mut timer = timer();
    let _ = timer.as_mut().register(&timers, 1 << 20, 0, old_waker).unwrap();
    assert_eq!(timer.as_mut().poll(&new_waker), Polled::Waits);
    assert_eq!(Arc::strong_count(&old), 1, "the old waker was dropped");
    assert_eq!(fire(&timers, 1 << 20, 9).0, 1);
    assert_eq!((rings(&old), rings(&new)), (0, 1));
}

#[test]
fn a_look_fires_no_more_than_its_budget() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut all: Vec<_> = (0..100).map(|_| timer()).collect();
    for timer in &mut all {
        let _ = timer.as_mut().register(&timers, 1 << 20, 0, waker.clone()).unwrap();
    }
    assert_eq!(fire(&timers, 1 << 20, 5), (5, Expiry::More));
    assert!(timers.nearest() <= 1 << 20, "there is more to do");
    assert_eq!(fire(&timers, 1 << 20, 1000), (Batch::SIZE, Expiry::More));
    while fire(&timers, 1 << 20, 7).1 == Expiry::More {}
    assert_eq!(rings(&bell), 100);
    assert_eq!(timers.nearest(), NEVER);
}

#[test]
fn a_look_moves_no_more_than_its_budget() {
    let timers = Arc::new(Timers::new());
    let (_, waker) = bell();
    // All in one slot of a high level: the first is due, the others have to move.
    const MANY: usize = if cfg!(miri) { 50 } else { 1000 };
    let mut all: Vec<_> = (0..MANY).map(|_| timer()).collect();
    for (i, timer) in all.iter_mut().enumerate() {
        let deadline = (1 << 40) + ((i as u64) << 18);
        let _ = timer.as_mut().register(&timers, deadline, 0, waker.clone()).unwrap();
    }
    let (mut looks, mut batch) = (0, Batch::new());
    loop {
        let mut budget = 5;
        let expiry = timers.expire(1 << 40, &mut budget, &mut batch);
        looks += 1;
        if expiry == Expiry::Done {
            break;
        }
        assert_eq!(budget, 0, "there is more to do, for another look");
        assert!(timers.nearest() <= 1 << 40);
    }
    assert!(looks > MANY / (5 * MOVES + 1), "{looks} looks");
    assert_eq!(batch.drain().count(), 1);
}

#[test]
fn a_wheel_that_is_opened_again_begins_anew() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut timer = timer();
    let mut batch = Batch::new();
    for round in 1..4 {
        let now = round << 30;
        let _ = timer.as_mut().register(&timers, now + 100, now, waker.clone()).unwrap();
        timers.shut(Shut::Left);
        assert_eq!(timers.expire(NEVER - 1, &mut 9, &mut batch), Expiry::Done, "it is another's");
        assert_eq!(timers.close(&mut batch), Expiry::Done);
        batch.drain().for_each(Waker::wake);
        let refused = timer.as_mut().register(&timers, now + 100, now, waker.clone());
        assert_eq!(refused.unwrap_err().why, Shut::Left);
        timers.open();
        let again = timer.as_mut().register(&timers, now + 100, now, waker.clone()).unwrap();
        assert_eq!(again, Registered::Nearest, "not due at once");
        assert_eq!(timers.expire(now + 99, &mut 9, &mut batch), Expiry::Done);
        assert_eq!((batch.drain().count(), timers.len()), (0, 1));
        assert_eq!(timers.expire(now + 100, &mut 9, &mut batch), Expiry::Done);
        assert_eq!((batch.drain().count(), timers.len()), (1, 0));
        assert_eq!(rings(&bell), round as usize);
    }
}

#[test]
fn timers_of_a_closed_wheel_are_woken_unfired() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut all: Vec<_> = (0..50).map(|_| timer()).collect();
    for (i, timer) in all.iter_mut().enumerate() {
        let deadline = if i % 2 == 0 { LATEST } else { 1 << (20 + i % 30) };
        let _ = timer.as_mut().register(&timers, deadline, 0, waker.clone()).unwrap();
    }
    timers.shut(Shut::Ended);
    let mut batch = Batch::new();
    loop {
        let expiry = timers.close(&mut batch);
        batch.drain().for_each(Waker::wake);
        if expiry == Expiry::Done {
            break;
        }
    }
    assert_eq!(rings(&bell), 50);
    assert!(all.iter_mut().all(|timer| timer.as_mut().poll(&waker) == Polled::Idle));
    let again = all[0].as_mut().register(&timers, 1 << 40, 0, waker.clone());
    assert_eq!(again.unwrap_err().why, Shut::Ended, "nobody would look");
    assert!(!all[0].is_fired());
    drop(timers);
    drop(all);
    drop(waker);
    assert_eq!(Arc::strong_count(&bell), 1);
}

#[test]
fn a_wheel_whose_runtime_has_ended_stays_shut() {
    let timers = Arc::new(Timers::new());
    let (_bell, waker) = bell();
    let mut timer = timer();
    timers.shut(Shut::Ended);
    let mut refused = || timer.as_mut().register(&timers, 1 << 20, 0, waker.clone());
    timers.open();
    assert_eq!(refused().unwrap_err().why, Shut::Ended);
    timers.shut(Shut::Left);
    assert_eq!(refused().unwrap_err().why, Shut::Ended);
}

#[test]
fn a_timer_may_be_dropped_on_another_thread_after_its_wheel() {
    let timers = Arc::new(Timers::new());
    let (bell, waker) = bell();
    let mut timer = timer();
    let _ = timer.as_mut().register(&timers, 1 << 20, 0, waker).unwrap();
    drop(timers);
    std::thread::spawn(move || drop(timer)).join().unwrap();
    assert_eq!(Arc::strong_count(&bell), 1);
}
