//! The order of a worker's step is a promise: events, posts to the worker, timers, its own tasks, those from
//! outside, those of others, the wait. And no source starves another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use filch::testkit::{Clock, FakeCore, ManualClock};
use filch::{Builder, EventCore, NewWorker, Pumped, Shutdown, worker};

use crate::support::{Gate, until, watched};

const MS: Duration = Duration::from_millis(1);

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, what: impl Into<String>) -> impl FnOnce() + Send + 'static {
    let (log, what) = (log.clone(), what.into());
    move || log.lock().unwrap().push(what)
}

/// A pump is the worker that a test can move by hand.
#[test]
fn a_step_serves_posts_then_timers_then_its_own_tasks_then_those_from_outside() {
    watched(|| {
        let clock = Arc::new(ManualClock::new());
        let builder = Builder::new().io_workers(1).clock(Clock::Manual(clock.clone()));
        let hive = builder.hive().unwrap();
        let (ui, log) = (hive.workers()[0].id, Log::default());
        let mut pump = hive.pump(|| ()).unwrap();
        let handle = pump.handle().clone();
        // In the first frame the worker fills its own queues, and the rest comes from outside.
        let (inside, outside) = (log.clone(), log.clone());
        let fill = move || {
            // The first of each source may run in this frame.
            worker::post_local(|| ()).unwrap();
            worker::post_local(note(&inside, "local")).unwrap();
            worker::post_self(note(&inside, "self")).unwrap();
        };
        handle.post_to(ui, fill).unwrap();
        assert_eq!(pump.run(Duration::ZERO), Pumped::More);
        drop(handle.post_delayed(MS, note(&outside, "timer")).unwrap());
        clock.advance(MS);
        handle.post(note(&outside, "outside")).unwrap();
        handle.post_to(ui, note(&outside, "posted")).unwrap();
        assert_eq!(pump.run(Duration::from_secs(1)), Pumped::Idle);
        let order = log.lock().unwrap().join(" ");
        // A timer makes its task ready: it is the newest of the worker's own.
        assert_eq!(order, "self posted timer local outside");
    });
}

#[test]
fn a_step_serves_events_posts_timers_its_own_those_from_outside_those_of_others_and_then_waits() {
    watched(|| {
        let (clock, log, gate) = (Arc::new(ManualClock::new()), Log::default(), Gate::default());
        let builder = Builder::new().io_spares(0).clock(Clock::Manual(clock.clone()));
        let hive = builder.hive().unwrap();
        let core = FakeCore::new();
        let events = core.events();
        let main = hive.attach(NewWorker::io().event_core(core)).unwrap();
        let other = hive.attach(NewWorker::io()).unwrap();
        let handle = hive.handle();
        // All of it comes to be inside one event, with which a sleep ends: the next step finds it.
        let (noted, told) = (log.clone(), events.clone());
        let fill = move || {
            // First, so that nobody else is there to run the others.
            let (stop, open, stolen) = (handle.clone(), gate.clone(), note(&noted, "stolen"));
            let last = move || {
                stolen();
                open.open();
                stop.request_shutdown(Shutdown::Drain);
            };
            let (send, there) = std::sync::mpsc::channel();
            let keep = move || {
                worker::post_local(last).unwrap();
                send.send(()).unwrap();
                gate.pass();
            };
            handle.post_to(other, keep).unwrap();
            there.recv().unwrap();
            told.push(note(&noted, "event"));
            worker::post_self(note(&noted, "self")).unwrap();
            handle.post_to(main, note(&noted, "posted")).unwrap();
            drop(worker::post_self_delayed(MS, note(&noted, "timer")).unwrap());
            worker::post_local(note(&noted, "local")).unwrap();
            let (outside, from) = (note(&noted, "outside"), handle.clone());
            std::thread::spawn(move || from.post(outside).unwrap()).join().unwrap();
            told.take_timeouts();
            clock.advance(MS);
        };
        let start = events.clone();
        let waits = move || {
            until(|| start.take_timeouts().last() == Some(&None));
            start.push(fill);
        };
        let starter = std::thread::spawn(waits);
        hive.run().unwrap();
        starter.join().unwrap();
        let order = log.lock().unwrap().join(" ");
        assert_eq!(order, "event self posted timer local outside stolen");
        let timeouts = events.take_timeouts();
        let work = timeouts.iter().position(|timeout| timeout.is_none()).unwrap_or(timeouts.len());
        assert!(work >= 1, "it waits when all of it has run, and not before: {timeouts:?}");
        assert!(timeouts[..work].iter().all(|timeout| *timeout == Some(Duration::ZERO)));
    });
}

/// Notes its turns.
struct Turns(Arc<AtomicUsize>);

impl EventCore for Turns {
    fn poll(&mut self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst);
        0
    }

    fn park(&mut self, _: Option<Duration>) {
        std::thread::yield_now();
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }
}

#[test]
fn tasks_that_post_themselves_for_ever_starve_no_other_source() {
    watched(|| {
        let (turns, log) = (Arc::new(AtomicUsize::new(0)), Log::default());
        let hive = Builder::new().hive().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(Turns(turns.clone()))).unwrap();
        fn again_private() {
            let _ = worker::post_self(again_private);
        }
        fn again_local() {
            let _ = worker::post_local(again_local);
        }
        fn again_timer() {
            let _ = worker::post_self_delayed(Duration::ZERO, again_timer);
        }
        hive.post_to(ui, again_private).unwrap();
        hive.post_to(ui, again_local).unwrap();
        hive.post_to(ui, again_timer).unwrap();
        let handle = hive.handle();
        let watch = std::thread::spawn(move || {
            for round in 1..=5 {
                let before = turns.load(Ordering::SeqCst);
                handle.post_to(ui, note(&log, "posted")).unwrap();
                handle.post(note(&log, "outside")).unwrap();
                drop(handle.post_delayed(MS, note(&log, "timer")).unwrap());
                until(|| log.lock().unwrap().len() == 3 * round);
                until(|| turns.load(Ordering::SeqCst) > before);
            }
            handle.request_stop();
        });
        hive.run().unwrap();
        watch.join().unwrap();
    });
}

/// Notes at each turn how many tasks have run before it.
struct Tally {
    ran: Arc<AtomicUsize>,
    turns: Arc<Mutex<Vec<usize>>>,
}

impl EventCore for Tally {
    fn poll(&mut self) -> usize {
        self.turns.lock().unwrap().push(self.ran.load(Ordering::SeqCst));
        0
    }

    fn park(&mut self, _: Option<Duration>) {
        std::thread::yield_now();
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }
}

/// The most tasks that a worker runs between two turns of its core. `fill` makes them: each calls the closure
/// that it is given, once. There are no timers and no operations, which would end a step sooner.
fn most_between_two_turns(builder: Builder, fill: fn(Arc<dyn Fn() + Send + Sync>)) -> usize {
    const TASKS: usize = 100;
    let (ran, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let hive = builder.hive().unwrap();
    let core = Tally { ran: ran.clone(), turns: turns.clone() };
    let ui = hive.attach(NewWorker::io().event_core(core)).unwrap();
    let handle = hive.handle();
    let count: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        if ran.fetch_add(1, Ordering::SeqCst) + 1 == TASKS {
            handle.request_shutdown(Shutdown::Drain);
        }
    });
    let fill_all = move || (0..TASKS).for_each(|_| fill(count.clone()));
    hive.post_to(ui, fill_all).unwrap();
    hive.run().unwrap();
    let turns = turns.lock().unwrap();
    assert_eq!(turns.last(), Some(&TASKS));
    turns.windows(2).map(|turn| turn[1] - turn[0]).max().unwrap()
}

#[test]
fn between_two_turns_of_its_core_a_worker_runs_as_many_private_tasks_as_its_budget_and_no_more() {
    watched(|| {
        for budget in [1, 3, 16] {
            let builder = Builder::new().private_budget(budget);
            let most = most_between_two_turns(builder, |count| {
                worker::post_self(move || count()).unwrap();
            });
            assert_eq!(most, budget);
        }
    });
}

#[test]
fn between_two_turns_of_its_core_a_worker_runs_as_many_local_tasks_as_its_budget_and_no_more() {
    watched(|| {
        for budget in [1, 3, 16] {
            let builder = Builder::new().local_budget(budget);
            let most = most_between_two_turns(builder, |count| {
                worker::post_local(move || count()).unwrap();
            });
            assert_eq!(most, budget);
        }
    });
}

#[test]
fn a_task_that_posts_itself_again_and_again_goes_first_three_times_and_then_an_older_one() {
    watched(|| {
        let hive = Builder::new().io_workers(1).slot_streak(3).hive().unwrap();
        let (ui, log, handle) = (hive.workers()[0].id, Log::default(), hive.handle());
        fn again(handle: filch::Handle, log: Log, times: usize) {
            log.lock().unwrap().push("again".to_owned());
            let next = handle.clone();
            match times {
                0 => handle.request_shutdown(Shutdown::Drain),
                _ => handle.post(move || again(next, log, times - 1)).unwrap(),
            }
        }
        let noted = log.clone();
        let fill = move || {
            // Each is the worker's newest, until the next displaces it.
            handle.post(note(&noted, "old")).unwrap();
            handle.post(note(&noted, "less old")).unwrap();
            let next = handle.clone();
            handle.post(move || again(next, noted, 20)).unwrap();
        };
        hive.post_to(ui, fill).unwrap();
        hive.run().unwrap();
        let log = log.lock().unwrap();
        let places = ["old", "less old"].map(|name| log.iter().position(|n| n == name));
        assert_eq!(places, [Some(3), Some(7)], "{log:?}");
    });
}
