//! A driver by itself: what it owes to its sleeper, and what it must not do.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering as O};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::Waker;
use std::thread;

use super::*;
use crate::io::readiness::Direction;
use crate::io::request::Request;

/// More than a test takes, and not for ever: what sleeps too long fails.
const LONG: Duration = Duration::from_millis(500);

/// How long nothing must happen.
const MOMENT: Duration = Duration::from_millis(30);

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(O::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, O::SeqCst);
    }
}

/// A driver with a ring, ended at last.
struct Ringed {
    driver: Arc<Driver>,
    told: Arc<Count>,
    /// Ready, and never ready.
    ready: OwnedFd,
    never: OwnedFd,
}

const KIND: Kind = Kind::Uring(Mode::Cooperative);

impl Ringed {
    fn new() -> Option<Self> {
        if let Err(error) = Uring::probe(Mode::Cooperative) {
            eprintln!("\n*** NOT TESTED ON IO_URING: {error} ***\n");
            return None;
        }
        let (ready, never) = (sys::eventfd().unwrap(), sys::eventfd().unwrap());
        sys::signal(&ready);
        let driver = Arc::new(Driver::new(Instant::now(), Home::default()));
        Some(Self { driver, told: Arc::default(), ready, never })
    }

    fn start(&self, fd: &OwnedFd, count: usize) {
        let request = Request::Poll { fd: fd.as_raw_fd(), direction: Direction::Read };
        for _ in 0..count {
            let waker = Waker::from(self.told.clone());
            // SAFETY: it points to nothing.
            let started =
                unsafe { self.driver.start(Caller::Owner, KIND, &request, Performer::Ring, waker) };
            assert!(started.is_ok());
        }
    }
}

impl Drop for Ringed {
    fn drop(&mut self) {
        self.driver.end(|| Ending::Close, &mut Batch::new());
    }
}

#[test]
fn nobody_sleeps_on_a_backlog() {
    let Some(ringed) = Ringed::new() else { return };
    // More than the queue holds, and what completes comes last.
    ringed.start(&ringed.never, 600);
    ringed.start(&ringed.ready, 1);
    ringed.driver.park(Some(LONG), &mut Batch::new());
    assert_eq!(ringed.told.get(), 1, "it was not submitted before the sleep");
}

#[test]
fn an_overflow_ends_no_wake() {
    let Some(ringed) = Ringed::new() else { return };
    let driver = &ringed.driver;
    let slept = thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let mut batch = Batch::new();
            // More completions than the queue holds, of which nearly none is taken.
            driver.set_room(1);
            for _ in 0..16 {
                ringed.start(&ringed.ready, 256);
                driver.visit(Caller::Owner, &mut batch);
            }
            sys::signal(driver.eventfd.get().unwrap());
            driver.visit(Caller::Owner, &mut batch);
            driver.set_room(BUDGET);
            while ringed.told.get() < 16 * 256 {
                driver.visit(Caller::Owner, &mut batch);
            }
            ringed.start(&ringed.never, 1);
            // What is left of the wakes so far.
            for _ in 0..4 {
                driver.visit(Caller::Owner, &mut batch);
                driver.park(Some(Duration::from_millis(1)), &mut batch);
            }
            let begin = Instant::now();
            driver.park(Some(LONG), &mut batch);
            begin.elapsed()
        });
        while ringed.told.get() < 16 * 256 {
            thread::yield_now();
        }
        // Again and again: the last of the sleeps is the one that counts.
        while !owner.is_finished() {
            if !driver.word.is_up() {
                driver.ring();
            }
            thread::yield_now();
        }
        owner.join().unwrap()
    });
    assert!(slept < LONG, "no wake has reached it");
}

#[test]
fn a_time_that_never_comes_is_slept_through() {
    let Some(ringed) = Ringed::new() else { return };
    let times = [1 << 34, 1 << 62, u64::MAX].map(Duration::from_secs);
    let (wakes, woken) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            ringed.start(&ringed.never, 1);
            for time in times {
                ringed.driver.park(Some(time), &mut Batch::new());
                wakes.send(()).unwrap();
            }
        });
        for time in times {
            let early = woken.recv_timeout(MOMENT);
            assert_eq!(early, Err(RecvTimeoutError::Timeout), "after {time:?}, it says");
            ringed.driver.ring();
            woken.recv().unwrap();
        }
    });
}

#[test]
fn what_is_about_to_be_cancelled_is_not_cancelled_again() {
    let Some(ringed) = Ringed::new() else { return };
    ringed.start(&ringed.never, 1000);
    let flying = || match &ringed.driver.lock().backend {
        Backend::Uring(uring) => uring.flying(),
        _ => unreachable!("opened above"),
    };
    assert!(ringed.driver.cancel_all(Ending::Evacuate).is_some());
    let once = flying();
    assert!(ringed.driver.cancel_all(Ending::Evacuate).is_some());
    assert_eq!(flying(), once);
}

#[test]
fn a_ring_is_not_closed_under_a_visitor() {
    let Some(ringed) = Ringed::new() else { return };
    ringed.start(&ringed.never, 1);
    let Errand::Uring(plan) = ringed.driver.errand(Caller::Other) else {
        unreachable!("opened above")
    };
    let closer = {
        let driver = ringed.driver.clone();
        thread::spawn(move || driver.end(|| Ending::Close, &mut Batch::new()))
    };
    thread::sleep(MOMENT);
    // SAFETY: no memory is involved.
    let open = unsafe { libc::fcntl(plan.fd, libc::F_GETFD) } >= 0;
    let _ = ringed.driver.enter(Caller::Owner, plan, &mut Batch::new());
    ringed.driver.leave(Caller::Other);
    closer.join().unwrap();
    assert!(open, "its number may mean something else by now");
}

/// How many of the operations of a driver have to begin anew.
fn moving(ringed: &Ringed) -> usize {
    ringed.told.get()
}

#[test]
fn denied_ring_gives_back_what_it_was_never_given() {
    // Of entries that were submitted before, of those that are queued: few, all that the queue holds, more.
    for before in [0, 1, 100, 256, 300] {
        for queued in [1, 50, 255, 256, 600] {
            let Some(ringed) = Ringed::new() else { return };
            let mut batch = Batch::new();
            if before > 0 {
                ringed.start(&ringed.never, before);
                for _ in 0..3 {
                    ringed.driver.visit(Caller::Owner, &mut batch);
                }
            }
            assert_eq!(moving(&ringed), 0);
            ringed.start(&ringed.never, queued);
            let replaced = ringed.driver.refused(Caller::Owner, libc::EPERM, &mut batch);
            assert_eq!(replaced, Replaced::Yes);
            batch.deliver();
            assert_eq!(moving(&ringed), queued, "{before} before");
            assert_eq!(ringed.driver.denied(), Some(libc::EPERM));
            // The rest is cancelled without an entry, or goes on. A visit tells some of it.
            for _ in 0..3 {
                ringed.driver.visit(Caller::Owner, &mut batch);
            }
            let cancelled = moving(&ringed) - queued;
            assert!(cancelled == before || cancelled == 0, "{cancelled} of {before}");
        }
    }
}

#[test]
fn denied_ring_is_left_to_its_owner_by_others() {
    let Some(ringed) = Ringed::new() else { return };
    ringed.start(&ringed.never, 1);
    let mut batch = Batch::new();
    assert_eq!(ringed.driver.refused(Caller::Other, libc::EPERM, &mut batch), Replaced::Yes);
    assert_eq!((moving(&ringed), ringed.driver.denied()), (0, None));
}

#[test]
fn fallback_tells_what_is_ready_and_sleeps_on_the_rest() {
    let Some(ringed) = Ringed::new() else { return };
    ringed.start(&ringed.never, 1);
    let mut batch = Batch::new();
    let replaced = ringed.driver.refused(Caller::Owner, libc::EPERM, &mut batch);
    assert_eq!(replaced, Replaced::Yes);
    batch.deliver();
    ringed.start(&ringed.never, 3);
    ringed.start(&ringed.ready, 2);
    ringed.driver.visit(Caller::Owner, &mut batch);
    assert_eq!(moving(&ringed), 3);
    // The kernel interrupts one of them when it lets go of the ring.
    let begin = Instant::now();
    (0..3).for_each(|_| ringed.driver.park(Some(MOMENT), &mut batch));
    assert!(begin.elapsed() >= 2 * MOMENT, "it did not sleep");
    // All three wait for one descriptor.
    sys::signal(&ringed.never);
    ringed.driver.park(Some(LONG), &mut batch);
    ringed.driver.visit(Caller::Owner, &mut batch);
    assert_eq!(moving(&ringed), 6);
}
