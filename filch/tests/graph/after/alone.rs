//! Dependents that nobody but their waiter can end: there is no other thread for them, or it is not woken yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use filch::graph::{Dependent, Milestone};
use filch::{Builder, EventCore, Priority, Role, Runtime, block_on_fn, spawn_after, task};

use crate::support::{Gate, panic_of, until};
use crate::watchdog::watched;

/// Runs `test` on the only thread of a runtime.
fn on_the_only_thread(test: impl FnOnce() + Send + 'static) {
    watched(|_| {
        let runtime = Builder::new().single_thread(true).io_spares(0).build().unwrap();
        let (end, ended) = mpsc::channel();
        // Not by waiting for it: that would run it here.
        let _job = runtime.handle().spawn_fn(move || {
            test();
            end.send(()).unwrap();
        });
        ended.recv().expect("the test has not panicked");
    });
}

/// A job of a runtime of its own, which ends when the gate is opened.
struct Elsewhere {
    gate: Gate,
    end: Milestone,
    _runtime: Runtime,
}

impl Elsewhere {
    fn new() -> Self {
        let runtime = Builder::new().workers(1).build().unwrap();
        let gate = Gate::default();
        let job = runtime.handle().task().spawn_after((), {
            let gate = gate.clone();
            move || gate.block()
        });
        Self { gate, end: job.milestone(), _runtime: runtime }
    }
}

#[test]
fn one_that_fails_with_another_is_dropped_by_who_waits_for_both() {
    on_the_only_thread(|| {
        let text = panic_of(|| {
            block_on_fn(|| {
                // In no deque, so found by the group's list alone.
                let high = || task().priority(Priority::High);
                let bad = high().spawn_after((), || panic!("boom"));
                high().spawn_after(&bad, || unreachable!());
            });
        });
        assert_eq!(text, "boom");
    });
}

#[test]
fn one_that_is_cancelled_while_it_waits_is_dropped_by_who_waits_for_its_group() {
    on_the_only_thread(|| {
        let first = Elsewhere::new();
        block_on_fn(|| {
            task().priority(Priority::Low).spawn_after(&first.end, || unreachable!()).cancel();
        });
        assert!(!first.end.is_finished());
        first.gate.open();
    });
}

/// What the cores of a runtime have in common.
#[derive(Default)]
struct Beds {
    /// Compute workers that sleep.
    asleep: AtomicUsize,
    /// Whether a waker is to stop.
    stops: AtomicBool,
    /// Whether one has.
    stopped: AtomicBool,
    /// Where.
    gate: Gate,
}

/// A core whose waker can be stopped before it wakes anybody.
struct Bed {
    beds: Arc<Beds>,
    role: Role,
    token: Arc<Token>,
}

struct Token {
    beds: Arc<Beds>,
    given: Mutex<bool>,
    news: Condvar,
}

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        if self.beds.stops.swap(false, Relaxed) {
            self.beds.stopped.store(true, Relaxed);
            self.beds.gate.block();
        }
        *self.given.lock().unwrap() = true;
        self.news.notify_one();
    }
}

impl EventCore for Bed {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let sleeper = usize::from(self.role == Role::Compute);
        self.beds.asleep.fetch_add(sleeper, Relaxed);
        let given = self.token.given.lock().unwrap();
        let mut given = match timeout {
            None => self.token.news.wait_while(given, |given| !*given).unwrap(),
            Some(time) => self.token.news.wait_timeout(given, time).unwrap().0,
        };
        *given = false;
        self.beds.asleep.fetch_sub(sleeper, Relaxed);
    }

    fn waker(&self) -> Waker {
        self.token.clone().into()
    }
}

/// Two workers, one of which sleeps; the other calls `test` with a dependent, which another thread has queued but woken nobody for.
fn queued_and_nobody_woken(test: impl FnOnce(Dependent<ThreadId>) + Send + 'static) {
    watched(|_| {
        let beds = Arc::new(Beds::default());
        let made = beds.clone();
        let builder = Builder::new().io_workers(1).compute_workers(2).compute_spares(0);
        let runtime = builder.event_core(move |info| {
            let (given, news) = Default::default();
            let token = Arc::new(Token { beds: made.clone(), given, news });
            Box::new(Bed { beds: made.clone(), role: info.role, token })
        });
        let runtime = runtime.build().unwrap();
        let (end, ended) = mpsc::channel();
        let _job = runtime.handle().spawn_fn(move || {
            let first = Elsewhere::new();
            let second = spawn_after(&first.end, || thread::current().id());
            until(|| beds.asleep.load(Relaxed) == 1);
            beds.stops.store(true, Relaxed);
            first.gate.open();
            until(|| beds.stopped.load(Relaxed));
            test(second);
            beds.gate.open();
            end.send(()).unwrap();
        });
        ended.recv().expect("the test has not panicked");
    });
}

#[test]
fn one_that_is_queued_runs_where_it_is_waited_for_before_anybody_is_woken() {
    queued_and_nobody_woken(|second| assert_eq!(second.wait(), thread::current().id()));
}

#[test]
fn one_that_is_queued_is_dropped_where_it_is_waited_for_before_anybody_is_woken() {
    queued_and_nobody_woken(|second| {
        second.cancel();
        assert!(second.wait_outcome().unwrap_err().is_cancelled());
    });
}
