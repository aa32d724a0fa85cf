//! An operation in every interleaving of its completion with a poll, a drop and a cancel.

use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed as AnyOrder};
use std::task::{Wake, Waker};

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Abandoned, CANCELED, Completion, Key, Late, Polled, Slots, Told};

/// What happened, counted; no part of what is modelled.
#[derive(Default)]
struct Record {
    wakes: Count,
    finished: Count,
    dropped: Count,
}

struct Waking(std::sync::Arc<Record>);

impl Wake for Waking {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.wakes.fetch_add(1, AnyOrder);
    }
}

/// The buffer of an operation: how often it was let go, and whether the kernel was done with it.
struct Buffer(std::sync::Arc<Record>);

impl Late for Buffer {
    fn finish(self: Box<Self>, _: Completion) {
        self.0.finished.fetch_add(1, AnyOrder);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, AnyOrder);
    }
}

type Driver = Arc<Mutex<Slots>>;

fn complete(driver: &Driver, key: Key, result: i32) {
    let mut woken = Vec::new();
    let completion = Completion { result, flags: 0 };
    let (told, _) = driver.lock().unwrap().complete(key, completion, &mut woken);
    match told {
        Told::Waiters => {}
        Told::Late(late, completion) => late.finish(completion),
        Told::Dispose(..) => unreachable!("no stream"),
    }
    woken.into_iter().for_each(Waker::wake);
}

fn poll(driver: &Driver, key: Key, waker: &Waker) -> Polled {
    let mut clone = Some(waker.clone());
    driver.lock().unwrap().poll(key, waker, &mut clone)
}

fn with_operation(
    kernel: impl Fn(&Driver, Key) + Send + Sync + 'static,
    future: impl Fn(&Driver, Key, &Waker, &std::sync::Arc<Record>) + Send + Sync + 'static,
) {
    let (kernel, future) = (std::sync::Arc::new(kernel), std::sync::Arc::new(future));
    loom::model(move || {
        let record = std::sync::Arc::new(Record::default());
        let waker = Waker::from(std::sync::Arc::new(Waking(record.clone())));
        let driver: Driver = Arc::new(Mutex::new(Slots::default()));
        let key = driver.lock().unwrap().insert(waker.clone());
        let thread = {
            let (driver, kernel) = (driver.clone(), kernel.clone());
            thread::spawn(move || kernel(&driver, key))
        };
        future(&driver, key, &waker, &record);
        thread.join().unwrap();
        if record.finished.load(AnyOrder) + record.dropped.load(AnyOrder) > 0 {
            assert_eq!(record.dropped.load(AnyOrder), 1, "a buffer is let go once");
            assert_eq!(record.finished.load(AnyOrder), 1, "and only after its completion");
        } else if driver.lock().unwrap().len() > 0 {
            assert_eq!(record.wakes.load(AnyOrder), 1, "who waits is woken");
            assert!(matches!(poll(&driver, key, &waker), Polled::Done(_)));
        }
        assert_eq!(driver.lock().unwrap().len(), 0, "nothing is left");
    });
}

#[test]
fn loom_completion_meets_a_poll() {
    with_operation(
        |driver, key| complete(driver, key, 7),
        |driver, key, waker, _| {
            if let Polled::Done(completion) = poll(driver, key, waker) {
                assert_eq!(completion.result, 7);
            }
        },
    );
}

#[test]
fn loom_completion_meets_a_drop() {
    with_operation(
        |driver, key| complete(driver, key, 7),
        |driver, key, _, record| {
            let late = Box::new(Buffer(record.clone()));
            let (abandoned, waker) = driver.lock().unwrap().abandon(key, late);
            drop(waker);
            match abandoned {
                Abandoned::InFlight => {}
                Abandoned::Done(late, completion) => late.finish(completion),
                Abandoned::Never(_) => unreachable!("nobody evacuates"),
            }
        },
    );
}

#[test]
fn loom_completion_wins_over_a_cancel() {
    with_operation(
        |driver, key| complete(driver, key, 7),
        |driver, key, waker, _| {
            let in_flight = driver.lock().unwrap().wish_to_cancel(key);
            if in_flight {
                // The kernel's answer to the cancel finds an operation that has ended: no answer.
            }
            if let Polled::Done(completion) = poll(driver, key, waker) {
                assert_eq!(completion.result, 7);
            }
        },
    );
}

#[test]
fn loom_an_evacuated_operation_moves_unless_it_has_ended() {
    with_operation(
        |driver, key| {
            complete(driver, key, CANCELED);
        },
        |driver, key, waker, record| {
            // Polled once before, perhaps; then to its end.
            let _ = poll(driver, key, waker);
            if driver.lock().unwrap().get(key).is_some() {
                while record.wakes.load(AnyOrder) == 0 {
                    thread::yield_now();
                }
                assert_eq!(poll(driver, key, waker), Polled::Moves);
            }
        },
    );
}
