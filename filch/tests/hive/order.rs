//! The order of a worker's step is a promise: events, posts to the worker, timers, its own tasks, those from
//! outside, those of others, the wait. And no source starves another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use filch::testkit::{Clock, ManualClock};
use filch::{Builder, EventCore, NewWorker, Pumped, worker};

use crate::support::{until, watched};

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
