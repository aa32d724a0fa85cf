//! Forks beside other runtimes, adopted threads and wakers that misbehave.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use filch::{Adopted, Builder, EventCore, Handle, Role, Shutdown, join};

use crate::kit::{Gate, eventually, receive};
use crate::watchdog::watched;

/// Waits until all compute workers of a runtime but so many sleep.
fn until_all_sleep_but(awake: usize, runtime: &Handle) {
    eventually("the others sleep", || {
        let lanes = runtime.snapshot().lanes;
        lanes.iter().any(|lane| lane.role == Role::Compute && lane.awake == awake)
    });
}

#[test]
fn after_a_call_of_another_runtime_a_fork_wakes_the_own_workers() {
    watched(|dog| {
        let (a, b) = (dog.rig(2), dog.rig(1));
        let (own, other) = (a.handle(), b.handle());
        a.block_on(a.spawn_fn(move || {
            assert_eq!(other.block_on_fn(|| join(|| 1, || 2)), (1, 2));
            // The other runtime is busy: nobody of it sleeps.
            let (gate, opener) = Gate::new();
            let busy = other.spawn_fn(move || gate.pass());
            until_all_sleep_but(1, &own);
            let (began, begin) = mpsc::channel();
            join(move || receive(&begin, "a thief"), move || began.send(()).unwrap());
            drop(opener);
            busy.wait();
        }));
    });
}

#[test]
fn after_a_call_of_a_runtime_that_is_gone_a_fork_asks_its_own() {
    watched(|dog| {
        let a = dog.rig(2);
        a.block_on(a.spawn_fn(|| {
            let b = Builder::new().workers(1).build().unwrap();
            b.block_on_fn(|| join(|| 1, || 2));
            drop(b);
            assert_eq!(join(|| 1, || 2), (1, 2));
        }));
    });
}

#[test]
fn a_runtime_ends_while_its_adopted_thread_forks_for_another() {
    watched(|dog| {
        let a = Builder::new().workers(1).adoptable_threads(1).build().unwrap();
        let b = dog.rig(1);
        let (gate, opener) = Gate::new();
        // The worker of the other is busy, so that the thread claims the job itself.
        let (held, in_hand) = mpsc::channel();
        let busy = b.spawn_fn(move || {
            held.send(()).unwrap();
            gate.pass();
        });
        receive(&in_hand, "the worker");
        let (forked, fork) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        let (handle, other) = (a.handle(), b.handle());
        let thread = thread::spawn(move || {
            let _adopted = handle.adopt().unwrap();
            let first = move || {
                forked.send(()).unwrap();
                receive(&end, "the end of the runtime");
                1
            };
            let job = other.spawn_fn(move || join(first, || 2));
            assert_eq!(job.wait(), (1, 2));
        });
        receive(&fork, "the fork");
        a.shutdown(Shutdown::Drain);
        ended.send(()).unwrap();
        thread.join().unwrap();
        drop(opener);
        b.block_on(busy);
    });
}

thread_local! {
    static GUARD: RefCell<Option<Adopted>> = const { RefCell::new(None) };
}

/// Drops the guard of the thread on which it is woken.
struct Leaves(AtomicBool);

impl Wake for Leaves {
    fn wake(self: Arc<Self>) {
        // The guard's drop panics here, which ends at the waker.
        let guard = GUARD.take();
        self.0.store(true, Ordering::Relaxed);
        drop(guard);
    }
}

#[test]
fn a_waker_at_the_end_of_a_task_cannot_take_the_thread_away_from_it() {
    watched(|dog| {
        let a = dog.rig_of(Builder::new().workers(1).adoptable_threads(1));
        let (gate, opener) = Gate::new();
        let (held, in_hand) = mpsc::channel();
        let busy = a.spawn_fn(move || {
            held.send(()).unwrap();
            gate.pass();
        });
        receive(&in_hand, "the worker");
        let handle = a.handle();
        thread::spawn(move || {
            GUARD.set(Some(handle.adopt().unwrap()));
            let (tx, rx) = mpsc::channel();
            let mut group = pin!(filch::group(async |g: filch::Group<()>| {
                tx.send(g.spawn_fn(|| Ok(1))).unwrap();
                Ok(())
            }));
            let leaves = Arc::new(Leaves(AtomicBool::new(false)));
            let waker = Waker::from(leaves.clone());
            assert!(group.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(rx.recv().unwrap().wait(), Some(1));
            assert!(leaves.0.load(Ordering::Relaxed), "woken on this thread");
            assert_eq!(join(|| 1, || 2), (1, 2), "the thread is still adopted");
        })
        .join()
        .unwrap();
        drop(opener);
        a.block_on(busy);
    });
}

/// An event core whose waker panics once, when it is told to.
#[derive(Default)]
struct Bed {
    thread: Mutex<Option<thread::Thread>>,
    panics: Arc<AtomicBool>,
}

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        if let Some(thread) = &*self.thread.lock().unwrap() {
            thread.unpark();
        }
        assert!(!self.panics.swap(false, Ordering::Relaxed), "a waker panics");
    }
}

struct Core(Arc<Bed>);

impl EventCore for Core {
    fn poll(&mut self) -> usize {
        self.0.thread.lock().unwrap().get_or_insert_with(thread::current);
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) => thread::park_timeout(timeout),
            None => thread::park(),
        }
    }

    fn waker(&self) -> Waker {
        self.0.clone().into()
    }
}

#[test]
fn a_join_survives_a_waker_that_panics_when_the_fork_wakes_its_worker() {
    watched(|dog| {
        let panics = Arc::new(AtomicBool::new(false));
        let shared = panics.clone();
        let builder = Builder::new().workers(2).event_core(move |_| {
            Box::new(Core(Bed { panics: shared.clone(), ..Bed::default() }.into()))
        });
        let runtime = dog.rig_of(builder);
        let own = runtime.handle();
        runtime.block_on(runtime.spawn_fn(move || {
            until_all_sleep_but(1, &own);
            panics.store(true, Ordering::Relaxed);
            assert_eq!(join(|| 1, || 2), (1, 2), "the panic ends at the waker");
            assert!(!panics.load(Ordering::Relaxed), "somebody was woken");
        }));
        assert_eq!(runtime.block_on(runtime.spawn_fn(|| 7)), 7);
    });
}
