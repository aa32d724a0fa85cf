//! Workers that are entered on one thread, one on top of the other: adopted threads, pumps, hives that are run.
//! Whoever ends first, the thread is never left with a worker that is gone.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::Duration;

use filch::testkit::FakeCore;
use filch::{AdoptError, Adopted, Builder, EventCore, Handle, NewWorker, Pump, Pumped, Runtime};
use filch::{Graph, Job, Shutdown, WorkerId, join, worker};

use crate::support::{receive, until, watched};

const LONG: Duration = Duration::from_secs(100);

thread_local! {
    /// For code that cannot capture it: closures that are sent, event cores, wakers.
    static GUARD: RefCell<Option<Adopted>> = const { RefCell::new(None) };
    /// Whom the next waker that this thread wakes asks for an adoption.
    static ASKS: RefCell<Option<Handle>> = const { RefCell::new(None) };
    static PUMP: RefCell<Option<Pump>> = const { RefCell::new(None) };
}

/// A runtime with a place for one thread, and a name that [`here`] sees.
fn adopting() -> Runtime {
    Builder::new().workers(1).adoptable_threads(1).thread_name("adopting").build().unwrap()
}

fn hive() -> Runtime {
    Builder::new().io_workers(1).compute_workers(1).thread_name("hive").hive().unwrap()
}

fn pump() -> Pump {
    hive().pump(|| ()).unwrap()
}

/// The runtime that what is spawned here goes to.
fn here() -> String {
    Handle::current().config().thread_name.clone()
}

fn drop_guard() {
    GUARD.with(|guard| guard.take().expect("it was put there")).emancipate();
}

/// The adoption has ended: the thread is nobody's, and the place free.
#[track_caller]
fn assert_ended(runtime: &Runtime) {
    assert!(worker::current().is_none());
    assert!(!["adopting", "hive"].contains(&here().as_str()), "what is spawned goes to {}", here());
    match runtime.adopt() {
        Ok(adopted) => adopted.emancipate(),
        Err(error) => panic!("the place is not free: {error}"),
    }
    assert_eq!(filch::spawn_fn(|| 1).wait(), 1);
}

#[test]
fn an_adoption_that_ends_in_the_name_of_a_pump_ends_with_it() {
    watched(|| {
        let (runtime, mut pump) = (adopting(), pump());
        let adopted = runtime.adopt().unwrap();
        pump.enter(move || drop(adopted));
        assert_ended(&runtime);
    });
}

#[test]
fn an_adoption_that_ends_in_a_frame_of_a_pump_ends_with_it() {
    watched(|| {
        let (runtime, mut pump) = (adopting(), pump());
        GUARD.set(Some(runtime.adopt().unwrap()));
        pump.handle().post_to(pump.worker(), drop_guard).unwrap();
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert_ended(&runtime);
    });
}

#[test]
fn an_adoption_that_ends_while_a_pump_panics_ends_with_it() {
    watched(|| {
        let (runtime, mut pump) = (adopting(), pump());
        let adopted = runtime.adopt().unwrap();
        let panics = AssertUnwindSafe(|| {
            pump.enter(move || {
                let _adopted = adopted;
                std::panic::resume_unwind(Box::new(()));
            })
        });
        assert!(catch_unwind(panics).is_err());
        assert_ended(&runtime);
    });
}

#[test]
fn an_adoption_that_ends_under_two_pumps_ends_with_the_last() {
    watched(|| {
        let (runtime, mut one, mut two) = (adopting(), pump(), pump());
        let (adopted, ui) = (runtime.adopt().unwrap(), one.worker());
        one.enter(|| {
            two.enter(move || drop(adopted));
            assert_eq!(worker::current().map(|here| here.id()), Some(ui));
        });
        assert_ended(&runtime);
    });
}

/// Runs a hive whose main worker's event core does `event` on this thread, and ends it then.
fn run_with_event(event: impl FnOnce() + Send + 'static) {
    let core = FakeCore::new();
    let events = core.events();
    let hive = Builder::new().compute_workers(1).thread_name("hive").hive().unwrap();
    hive.attach(NewWorker::io().event_core(core)).unwrap();
    let handle = hive.handle();
    events.push(move || {
        event();
        handle.request_stop();
    });
    hive.run().unwrap();
}

#[test]
fn an_adoption_that_ends_in_an_event_core_of_a_hive_ends_with_its_run() {
    watched(|| {
        let runtime = adopting();
        GUARD.set(Some(runtime.adopt().unwrap()));
        run_with_event(drop_guard);
        assert_ended(&runtime);
    });
}

#[test]
fn an_adoption_that_ends_in_a_task_of_a_hive_that_is_run_ends_with_its_run() {
    watched(|| {
        let (runtime, hive) = (adopting(), hive());
        GUARD.set(Some(runtime.adopt().unwrap()));
        let (main, handle) = (hive.workers()[0].id, hive.handle());
        let task = move || {
            drop_guard();
            handle.request_stop();
        };
        hive.post_to(main, task).unwrap();
        hive.run().unwrap();
        assert_ended(&runtime);
    });
}

/// Calls `f` inside of each kind of call of another runtime and of the current one.
fn inside_each(other: &Runtime, f: impl Fn()) {
    f();
    other.block_on_fn(&f);
    other.block_on(async { f() });
    filch::block_on_fn(&f);
    filch::block_on(async { f() });
    filch::scope(|_| f());
    filch::scope(|_| other.block_on_fn(|| filch::scope(|_| f())));
}

#[test]
fn an_adoption_that_ends_in_an_event_core_inside_of_any_call_ends_with_that() {
    watched(|| {
        let (runtime, other) = (adopting(), Builder::new().workers(1).build().unwrap());
        let rounds = std::cell::Cell::new(0);
        inside_each(&other, || rounds.set(rounds.get() + 1));
        // One at a time: the guard is dropped inside of one call, on top of a fresh adoption.
        for chosen in 0..rounds.get() {
            GUARD.set(Some(runtime.adopt().unwrap()));
            let round = std::cell::Cell::new(0);
            inside_each(&other, || {
                if round.replace(round.get() + 1) == chosen {
                    run_with_event(drop_guard);
                }
            });
            assert_ended(&runtime);
        }
    });
}

#[test]
fn an_adoption_that_ends_in_a_pump_inside_of_a_join_or_a_graph_ends_with_that() {
    watched(|| {
        let runtime = adopting();
        PUMP.set(Some(pump()));
        let here = std::thread::current().id();
        let leaves = move || {
            if std::thread::current().id() == here && GUARD.with_borrow(Option::is_some) {
                let mut pump = PUMP.take().unwrap();
                pump.enter(drop_guard);
                PUMP.set(Some(pump));
            }
        };
        GUARD.set(Some(runtime.adopt().unwrap()));
        assert_eq!(join(leaves, || 2).1, 2);
        assert_ended(&runtime);

        GUARD.set(Some(runtime.adopt().unwrap()));
        let mut graph = Graph::new();
        (0..8).for_each(|i| _ = graph.node(format!("{i}"), leaves));
        graph.run();
        // Perhaps another thread ran all.
        drop(GUARD.take());
        assert_ended(&runtime);
        drop(PUMP.take());
    });
}

#[test]
fn a_guard_that_is_dropped_in_the_body_of_a_scope_panics_and_the_adoption_ends_with_the_scope() {
    watched(|| {
        let runtime = adopting();
        let adopted = runtime.adopt().unwrap();
        let body = AssertUnwindSafe(|| filch::scope(|_| drop(adopted)));
        assert!(catch_unwind(body).is_err());
        assert_ended(&runtime);

        let adopted = runtime.adopt().unwrap();
        let body = AssertUnwindSafe(|| {
            filch::block_on_fn(|| {
                let _adopted = adopted;
                std::panic::resume_unwind(Box::new(()));
            })
        });
        assert!(catch_unwind(body).is_err(), "and not two panics");
        assert_ended(&runtime);
    });
}

#[test]
fn an_adoption_that_ends_in_a_job_that_the_thread_waits_for_ends_with_the_wait() {
    watched(|| {
        let runtime = adopting();
        let on_this_thread = |jobs: usize| {
            GUARD.set(Some(runtime.adopt().unwrap()));
            let here = std::thread::current().id();
            let drops = move || drop(GUARD.take().filter(|_| std::thread::current().id() == here));
            let job = Job::new(move |job| match jobs {
                1 => drops(),
                _ => job.child(move |_| drops()).run(),
            });
            job.clone().run();
            // The guard panics: it is dropped inside of a call.
            let waited = catch_unwind(AssertUnwindSafe(|| job.wait()));
            let kept = GUARD.take();
            assert_eq!(waited.is_err(), kept.is_none());
            drop(kept);
            waited.is_err()
        };
        for jobs in [1, 2] {
            // Once more if another worker has taken the job.
            until(|| on_this_thread(jobs));
            assert_ended(&runtime);
        }
    });
}

#[test]
fn a_guard_may_be_dropped_inside_of_a_call_of_another_runtime() {
    watched(|| {
        let (runtime, other) = (adopting(), Builder::new().workers(1).build().unwrap());
        let adopted = runtime.adopt().unwrap();
        other.block_on_fn(move || drop(adopted));
        assert_ended(&runtime);
    });
}

#[test]
fn a_join_in_the_name_of_a_pump_inside_of_a_join_forks_for_the_hive() {
    watched(|| {
        let runtime = adopting();
        PUMP.set(Some(pump()));
        let adopted = runtime.adopt().unwrap();
        join(
            || {
                assert_eq!(here(), "adopting");
                // Another thread may not take this half: it has no pump.
                let mut pump = PUMP.take().unwrap();
                pump.enter(|| {
                    let (ran, runs) = mpsc::channel();
                    let first = move || assert_eq!(receive::<String>(&runs), "hive");
                    join(first, move || ran.send(here()).unwrap());
                    assert_eq!(here(), "hive");
                });
                drop(pump);
                assert_eq!(here(), "adopting");
            },
            || (),
        );
        drop(adopted);
        assert_ended(&runtime);
    });
}

#[test]
fn what_is_spawned_in_the_name_of_a_pump_is_the_hives_wherever_it_is_entered() {
    watched(|| {
        let (runtime, mut pump) = (adopting(), pump());
        let ui: WorkerId = pump.worker();
        let spawned = runtime.block_on_fn(|| {
            pump.enter(|| {
                assert_eq!(filch::current_id(), None);
                filch::spawn_local(async { (here(), worker::current().unwrap().id()) })
            })
        });
        while !spawned.is_finished() {
            assert_ne!(pump.run(LONG), Pumped::Stopped);
        }
        assert_eq!(spawned.wait(), ("hive".to_owned(), ui));
    });
}

#[test]
fn a_pump_that_is_dropped_in_the_name_of_another_leaves_that_as_it_was() {
    watched(|| {
        let (runtime, mut outer) = (adopting(), pump());
        let adopted = runtime.adopt().unwrap();
        let ui = outer.worker();
        outer.enter(|| {
            let mut inner = pump();
            let ended = inner.handle().spawn(std::future::pending::<()>());
            assert_ne!(inner.run(LONG), Pumped::Stopped);
            inner.enter(|| drop(filch::spawn(async {})));
            drop(inner);
            assert!(ended.is_finished());
            assert_eq!(worker::current().map(|here| here.id()), Some(ui));
            adopted.emancipate();
            assert_eq!(worker::current().map(|here| here.id()), Some(ui));
        });
        assert_eq!(outer.run(LONG), Pumped::Idle);
        assert_ended(&runtime);
        assert!(outer.finish(Shutdown::Drain).unfinished.is_empty());
    });
}

/// A core that waits to be woken, and whose waker drops the guard of the thread that wakes.
struct Hostile(mpsc::Receiver<()>, mpsc::Sender<()>);

struct HostileWaker(mpsc::Sender<()>);

impl EventCore for Hostile {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            None => drop(self.0.recv()),
            Some(timeout) => drop(self.0.recv_timeout(timeout)),
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(std::sync::Arc::new(HostileWaker(self.1.clone())))
    }
}

impl Wake for HostileWaker {
    fn wake(self: std::sync::Arc<Self>) {
        drop(GUARD.take());
        if let Some(handle) = ASKS.take() {
            assert_eq!(handle.adopt().unwrap_err(), AdoptError::InsideCall);
        }
        let _ = self.0.send(());
    }
}

fn hostile() -> Runtime {
    let builder = Builder::new().workers(1).adoptable_threads(1).thread_name("adopting");
    let core = |_| {
        let (send, receive) = mpsc::channel();
        Box::new(Hostile(receive, send)) as Box<dyn EventCore>
    };
    builder.event_core(core).build().unwrap()
}

#[test]
fn an_adoption_that_ends_in_a_waker_that_a_spawn_calls_ends_with_the_spawn() {
    watched(|| {
        let runtime = hostile();
        for _ in 0..10 {
            GUARD.set(Some(runtime.adopt().unwrap()));
            // Until the worker sleeps when it is told.
            until(|| {
                drop(filch::spawn_fn(|| ()));
                GUARD.with_borrow(Option::is_none)
            });
            assert_ended(&runtime);
        }
    });
}

#[test]
fn an_adoption_that_ends_in_a_waker_ends_at_the_latest_with_the_thread() {
    watched(|| {
        let runtime = hostile();
        for _ in 0..10 {
            std::thread::scope(|s| {
                s.spawn(|| {
                    GUARD.set(Some(runtime.adopt().unwrap()));
                    until(|| {
                        runtime.post_compute(|| ()).unwrap();
                        GUARD.with_borrow(Option::is_none)
                    });
                });
            });
            // The scope does not wait for the end of the thread, which gives the place back.
            until(|| runtime.adopt().is_ok());
        }
    });
}

#[test]
fn nobody_is_adopted_in_a_waker_that_the_library_calls() {
    watched(|| {
        let runtime = hostile();
        ASKS.set(Some(runtime.handle()));
        until(|| {
            runtime.post_compute(|| ()).unwrap();
            ASKS.with_borrow(Option::is_none)
        });
        assert_ended(&runtime);
    });
}
