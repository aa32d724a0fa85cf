//! Models of a timer: who fires it, who drops it, who polls it anew and who ends its wheel, at once.
//! Links and wakers are loom's cells, so whoever touches them out of turn is a race.

use std::sync::atomic::AtomicUsize as Count;
use std::task::Wake;

use loom::thread;

use super::*;

/// A waker that counts; what it counts is read when all threads are joined.
#[derive(Default)]
struct Bell(Count);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // ORDERING: Relaxed, read after a join.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn pair() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (bell.clone(), Waker::from(bell))
    }

    fn rings(&self) -> usize {
        // ORDERING: Relaxed, all threads are joined.
        self.0.load(Ordering::Relaxed)
    }
}

const DEADLINE: u64 = 1 << 20;

fn registered(timers: &Arc<Timers>, waker: &Waker) -> Pin<Box<Timer>> {
    let mut timer = Box::pin(Timer::new());
    let registered = timer.as_mut().register(timers, DEADLINE, 0, waker.clone()).unwrap();
    assert_ne!(registered, Registered::Due);
    timer
}

/// Fires what is due and wakes it; returns how many that were.
fn fire(timers: &Timers) -> usize {
    let mut batch = Batch::new();
    let mut budget = 10;
    let _ = timers.expire(2 * DEADLINE, &mut budget, &mut batch);
    batch.drain().map(Waker::wake).count()
}

#[test]
fn loom_timer_fired_while_dropped() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (bell, waker) = Bell::pair();
        let timer = registered(&timers, &waker);
        let other = timers.clone();
        let firer = thread::spawn(move || fire(&other));
        drop(timer);
        let fired = firer.join().unwrap();
        assert_eq!(bell.rings(), fired);
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1, "no waker is lost, none is dropped twice");
        assert_eq!(fire(&timers), 0);
        assert_eq!(timers.nearest(), NEVER);
    });
}

#[test]
fn loom_timer_fired_while_polled_with_another_waker() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let ((old, old_waker), (new, new_waker)) = (Bell::pair(), Bell::pair());
        let mut timer = registered(&timers, &old_waker);
        let other = timers.clone();
        let firer = thread::spawn(move || assert_eq!(fire(&other), 1));
        let polled = timer.as_mut().poll(&new_waker);
        firer.join().unwrap();
        assert_eq!(old.rings() + new.rings(), 1);
        match polled {
            Polled::Fired => assert_eq!(old.rings(), 1),
            Polled::Waits => assert_eq!(new.rings(), 1, "who was told to wait is woken"),
            Polled::Idle => panic!("nobody took it out"),
        }
        assert!(timer.is_fired());
        drop((timer, old_waker, new_waker));
        assert_eq!(Arc::strong_count(&old) + Arc::strong_count(&new), 2);
    });
}

#[test]
fn loom_timer_polled_again_with_the_same_waker_without_the_lock() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (bell, waker) = Bell::pair();
        let mut timer = registered(&timers, &waker);
        let other = timers.clone();
        let firer = thread::spawn(move || fire(&other));
        let polled = timer.as_mut().poll(&waker);
        drop(timer);
        firer.join().unwrap();
        assert!(polled == Polled::Fired || polled == Polled::Waits);
        assert!(bell.rings() <= 1);
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1);
    });
}

#[test]
fn loom_two_firers_fire_once() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (bell, waker) = Bell::pair();
        let timer = registered(&timers, &waker);
        let other = timers.clone();
        let sentry = thread::spawn(move || fire(&other));
        let fired = fire(&timers);
        assert_eq!(fired + sentry.join().unwrap(), 1);
        assert_eq!(bell.rings(), 1);
        assert!(timer.is_fired());
    });
}

/// The task is polled on another thread than where its timer was registered, and reset there.
#[test]
fn loom_timer_migrates_and_is_reset_while_fired() {
    loom::model(|| {
        let (here, there) = (Arc::new(Timers::new()), Arc::new(Timers::new()));
        let (bell, waker) = Bell::pair();
        let mut timer = registered(&here, &waker);
        let (home, new_waker) = (there.clone(), waker.clone());
        let owner = thread::spawn(move || {
            let old = timer.as_mut().cancel();
            let missed = old.is_none();
            drop(old);
            let registered = timer.as_mut().register(&home, DEADLINE, 0, new_waker).unwrap();
            assert_eq!(registered, Registered::Nearest);
            (timer, missed)
        });
        let fired = fire(&here);
        let (timer, missed) = owner.join().unwrap();
        assert_eq!(fired == 1, missed);
        assert!(!timer.is_fired(), "a timer that was reset is not due");
        assert_eq!(fire(&there), 1);
        assert!(timer.is_fired());
        drop((timer, waker));
        assert_eq!(bell.rings(), fired + 1);
        assert_eq!(Arc::strong_count(&bell), 1);
    });
}

#[test]
fn loom_wheel_closed_while_timer_is_dropped() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (bell, waker) = Bell::pair();
        let timer = registered(&timers, &waker);
        let runtime = thread::spawn(move || {
            let mut batch = Batch::new();
            timers.shut(Shut::Left);
            assert_eq!(timers.close(&mut batch), Expiry::Done);
            batch.drain().for_each(Waker::wake);
        });
        drop(timer);
        runtime.join().unwrap();
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1);
    });
}
