//! The test kit: cores, wakers, clocks and random numbers that a test writes, and programs under a thousand
//! schedules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use filch::testkit::{Clock, FakeCore, FakeEvents, ManualClock, ScriptedRng, Sim};
use filch::{Builder, NewWorker, Runtime, Shutdown, WorkerId, worker};

use crate::support::{until, watched};

const MS: Duration = Duration::from_millis(1);

/// A hive whose main worker has a fake core.
fn faked() -> (Runtime, WorkerId, FakeEvents) {
    let core = FakeCore::new();
    let events = core.events();
    let hive = Builder::new().hive().unwrap();
    let main = hive.attach(NewWorker::io().event_core(core)).unwrap();
    (hive, main, events)
}

#[test]
fn a_worker_waits_for_ever_without_work_and_not_at_all_with_it() {
    watched(|| {
        let (hive, _, events) = faked();
        let handle = hive.handle();
        let check = move || {
            until(|| events.take_timeouts().last() == Some(&None));
            let wakes = events.waker().count();
            let turns = handle.spawn(async {
                for _ in 0..3 {
                    filch::yield_now().await;
                }
            });
            turns.wait();
            assert_eq!(events.waker().count(), wakes + 1, "one post, one wake");
            assert!(events.waker().last().is_some());
            let mut timeouts = Vec::new();
            until(|| {
                timeouts.append(&mut events.take_timeouts());
                timeouts.last() == Some(&None)
            });
            timeouts.pop();
            assert!(!timeouts.is_empty());
            assert!(
                timeouts.iter().all(|timeout| *timeout == Some(Duration::ZERO)),
                "{timeouts:?}"
            );
            handle.request_stop();
        };
        let checker = std::thread::spawn(check);
        hive.run().unwrap();
        checker.join().unwrap();
    });
}

#[test]
fn a_worker_waits_up_to_its_next_deadline_and_no_longer_under_many_schedules() {
    Sim::new().check(0..200, || {
        let (hive, main, events) = faked();
        let ran = Arc::new(AtomicUsize::new(0));
        let (late, soon) = (ran.clone(), ran.clone());
        drop(hive.post_delayed(9 * MS, move || _ = late.fetch_add(1, Ordering::Relaxed)).unwrap());
        drop(hive.post_delayed(5 * MS, move || _ = soon.fetch_add(1, Ordering::Relaxed)).unwrap());
        let (handle, told) = (hive.handle(), events.clone());
        let stop = move || handle.request_shutdown(Shutdown::Drain);
        // Told by the core when the worker has begun to wait.
        hive.post_to(main, move || told.push(stop)).unwrap();
        hive.run().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 2);
        let waits = events.take_timeouts().into_iter().flatten().filter(|wait| !wait.is_zero());
        let waits: Vec<Duration> = waits.collect();
        assert!(waits.iter().all(|wait| *wait <= 5 * MS), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait > 3 * MS), "not in small naps: {waits:?}");
    });
}

#[test]
fn a_worker_waits_to_the_nanosecond_for_its_next_deadline_by_a_clock_that_is_moved_by_hand() {
    watched(|| {
        let (clock, core) = (Arc::new(ManualClock::new()), FakeCore::new());
        let events = core.events();
        let hive = Builder::new().clock(Clock::Manual(clock.clone())).hive().unwrap();
        hive.attach(NewWorker::io().event_core(core)).unwrap();
        let handle = hive.handle();
        let check = move || {
            // Visits without a wait, and at last a wait of so long; of no other time.
            let waits_for = |time: Option<Duration>| {
                let mut waits = Vec::new();
                until(|| {
                    waits.extend(events.take_timeouts());
                    waits.last() == Some(&time)
                });
                waits.retain(|wait| *wait != Some(Duration::ZERO));
                assert!(waits.iter().all(|wait| *wait == time), "{waits:?}, not {time:?}");
            };
            let (second, ns) = (Duration::from_secs(1), Duration::from_nanos(1));
            waits_for(None);
            let late = handle.post_delayed(100 * second, || ()).unwrap();
            waits_for(Some(100 * second));
            let soon = handle.post_delayed(40 * second + ns, || ()).unwrap();
            waits_for(Some(40 * second + ns));
            clock.advance(30 * second);
            waits_for(Some(10 * second + ns));
            clock.advance(10 * second + ns);
            soon.wait();
            waits_for(Some(60 * second - ns));
            // With work it does not wait, whatever the next deadline.
            let turns = handle.spawn(async {
                for _ in 0..3 {
                    filch::yield_now().await;
                }
            });
            turns.wait();
            waits_for(Some(60 * second - ns));
            clock.advance(60 * second - ns);
            late.wait();
            waits_for(None);
            handle.request_stop();
        };
        let checker = std::thread::spawn(check);
        hive.run().unwrap();
        checker.join().unwrap();
    });
}

#[test]
fn events_that_a_script_writes_come_before_posts_and_may_post() {
    watched(|| {
        let (hive, main, events) = faked();
        let (handle, order) = (hive.handle(), Arc::new(AtomicUsize::new(0)));
        let (first, second) = (order.clone(), order.clone());
        hive.post_to(main, move || assert_eq!(first.fetch_add(1, Ordering::SeqCst), 1)).unwrap();
        events.push(move || {
            assert_eq!(second.fetch_add(1, Ordering::SeqCst), 0);
            // A stop would drop the post, if it is heard before that runs.
            let stop = move || handle.clone().request_shutdown(Shutdown::Drain);
            worker::post_self(stop).unwrap();
        });
        hive.run().unwrap();
        assert_eq!(order.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_delayed_post_goes_to_the_lighter_of_the_two_that_a_script_picks() {
    watched(|| {
        let clock = Clock::Manual(Arc::new(ManualClock::new()));
        let rng = ScriptedRng::new();
        let builder = Builder::new().io_workers(4).compute_workers(1).clock(clock).rng(rng.clone());
        let runtime = builder.build().unwrap();
        let timers = || -> Vec<usize> {
            runtime.snapshot().workers[..4].iter().map(|worker| worker.timers).collect()
        };
        let post = || drop(runtime.post_delayed(MS, || ()).unwrap());
        // Of 2 and, of the others, the first: 0. The first drawn wins a tie.
        rng.push_posts([2, 0]);
        post();
        assert_eq!(timers(), [0, 0, 1, 0]);
        rng.push_posts([2, 0]);
        post();
        assert_eq!(timers(), [1, 0, 1, 0]);
        // Of 0 and, of the others, the last: 3.
        rng.push_posts([0, 2]);
        post();
        assert_eq!(timers(), [1, 0, 1, 1]);
        rng.push_posts([1, 2, 1, 2, 1, 2]);
        (0..3).for_each(|_| post());
        assert_eq!(timers(), [1, 2, 1, 2]);
        assert_eq!(rng.posts_left(), 0);
    });
}

#[filch::test(sim, seeds = 1000)]
async fn attached_workers_run_what_they_are_posted_until_they_are_detached() {
    let builder = Builder::new().workers(1).attachable_workers(1).io_spares(1);
    let runtime = builder.build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for worker in [NewWorker::io(), NewWorker::compute()] {
        let id = runtime.attach(worker).unwrap();
        let count = ran.clone();
        let task = move || {
            assert_eq!(worker::current().unwrap().id(), id);
            count.fetch_add(1, Ordering::Relaxed);
        };
        runtime.post_to(id, task.clone()).unwrap();
        let detach = runtime.detach(id);
        let late = runtime.post_to(id, task).is_ok();
        detach.await.unwrap();
        assert_eq!(ran.swap(0, Ordering::Relaxed), 1 + usize::from(late));
    }
    runtime.shutdown(Shutdown::Drain);
}
