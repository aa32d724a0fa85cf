//! Crews that grow with the load, whoever makes it and whatever the cores do.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use filch::testkit::{Clock, ManualClock};
use filch::{Builder, EventCore, JoinHandle, Priority, Runtime, spawn_after};

use crate::support::{Books, Gate, receive, watched};

/// One compute worker, which others may join.
fn builder() -> Builder {
    Builder::new().io_workers(1).compute_workers(1).attachable_workers(2).elastic(true)
}

/// Has the compute worker wait for a gate, once it does.
fn block(runtime: &Runtime, gate: &Gate) -> JoinHandle<()> {
    let (send, there) = mpsc::channel();
    let pass = gate.clone();
    let blocked = runtime.spawn_fn(move || {
        send.send(()).unwrap();
        pass.pass();
    });
    receive(&there);
    blocked
}

#[test]
fn a_crew_grows_for_a_dependent_that_an_io_worker_spawns() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let gate = Gate::default();
        let blocked = block(&runtime, &gate);
        runtime.spawn(async move { drop(spawn_after((), move || gate.open())) }).wait();
        blocked.wait();
    });
}

#[test]
fn a_crew_grows_for_a_dependent_that_does_not_lie_in_its_spawners_deque() {
    for priority in [Priority::High, Priority::Low] {
        watched(move || {
            let runtime = builder().build().unwrap();
            let (send, ended) = mpsc::channel();
            let block = move || {
                let gate = Gate::default();
                let open = gate.clone();
                drop(filch::task().priority(priority).spawn_after((), move || open.open()));
                gate.pass();
                send.send(()).unwrap();
            };
            runtime.post_compute(block).unwrap();
            receive(&ended);
        });
    }
}

/// Whether the cores of a runtime that are made from now on panic.
#[derive(Clone, Default)]
struct Broken(Arc<AtomicBool>);

impl Broken {
    fn set(&self, broken: bool) {
        self.0.store(broken, Ordering::SeqCst);
    }

    fn builder(&self) -> Builder {
        let (broken, books) = (self.0.clone(), Books::default());
        builder().event_core(move |_| {
            assert!(!broken.load(Ordering::SeqCst), "no core");
            Box::new(books.core())
        })
    }
}

#[test]
fn a_worker_for_the_load_whose_core_panics_takes_nobody_along() {
    watched(|| {
        let broken = Broken::default();
        let runtime = broken.builder().build().unwrap();
        broken.set(true);
        let (send, ran) = mpsc::channel();
        let tell = |number| {
            let send = send.clone();
            move || send.send(number).unwrap()
        };
        // Each but the last is taken while more wait and nobody is free.
        let tasks: Vec<_> = (0..6).map(tell).collect();
        runtime.post_compute_batch(tasks).unwrap();
        let mut all: Vec<_> = (0..6).map(|_| receive(&ran)).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_crew_grows_again_after_a_core_that_panicked() {
    watched(|| {
        let broken = Broken::default();
        let runtime = broken.builder().build().unwrap();
        let gate = Gate::default();
        let blocked = block(&runtime, &gate);
        broken.set(true);
        runtime.post_compute(|| ()).unwrap();
        broken.set(false);
        runtime.post_compute(move || gate.open()).unwrap();
        blocked.wait();
    });
}

#[test]
fn a_crew_whose_cores_always_panic_does_not_ask_for_one_at_every_post() {
    watched(|| {
        let (clock, asked) = (Arc::new(ManualClock::new()), Arc::new(AtomicUsize::new(0)));
        let (broken, books) = (Broken::default(), Books::default());
        let (is_broken, count) = (broken.0.clone(), asked.clone());
        let core = move |_| {
            if is_broken.load(Ordering::SeqCst) {
                count.fetch_add(1, Ordering::SeqCst);
                resume_unwind(Box::new("no core"));
            }
            Box::new(books.core()) as Box<dyn EventCore>
        };
        let builder = builder().clock(Clock::Manual(clock.clone())).event_core(core);
        let runtime = builder.build().unwrap();
        broken.set(true);
        let gate = Gate::default();
        let blocked = block(&runtime, &gate);
        let asked_by_posts = || {
            (0..100).for_each(|_| runtime.post_compute(|| ()).unwrap());
            asked.swap(0, Ordering::SeqCst)
        };
        assert_eq!(asked_by_posts(), 3, "some are tried at once");
        assert_eq!(asked_by_posts(), 0);
        for wait in [8, 16, 32] {
            clock.advance(Duration::from_millis(wait - 1));
            assert_eq!(asked_by_posts(), 0, "not before {wait} ms");
            clock.advance(Duration::from_millis(1));
            assert_eq!(asked_by_posts(), 1, "after {wait} ms");
        }
        gate.open();
        blocked.wait();
    });
}
