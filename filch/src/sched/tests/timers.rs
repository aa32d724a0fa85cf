//! Timers: budgets, whom a deadline wakes, who fires for whom.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::base::clock::Listener;
use crate::base::shim::Mutex;
use crate::config::Config;
use crate::idle::Sentry;
use crate::sched::rig::{Rig, config};
use crate::sched::sentry::Beats;
use crate::sched::shared::lock;
use crate::sched::timers::Wheels;
use crate::spawn::yield_now;
use crate::time::{Sleep, sleep};
use crate::timer::{Clock, LATEST, NEVER};

const MS: Duration = Duration::from_millis(1);

/// Has worker 0 run a task that sleeps and then notes `what`, up to its sleep.
fn sleeper(rig: &Rig, time: Duration, what: impl Into<String>) {
    let noted = rig.log.noting(what);
    drop(rig.as_worker(0, |_| {
        rig.task().spawn(async move {
            sleep(time).await;
            noted.await;
        })
    }));
    rig.step(0);
}

/// Has a compute worker, in slot 1, register a timer.
fn register_elsewhere(rig: &Rig, time: Duration) -> Arc<Mutex<Option<Pin<Box<Sleep>>>>> {
    let place = Arc::new(Mutex::new(None));
    let to = place.clone();
    let job = rig.task().spawn_fn(move || {
        let mut sleep = Box::pin(sleep(time));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        *lock(&to) = Some(sleep);
    });
    drop(job);
    while lock(&place).is_none() {
        rig.advance(1);
    }
    place
}

#[test]
fn a_step_fires_no_more_timers_than_its_budget() {
    let rig = Rig::new(Config { timer_budget: 5, ..config(1, 0) });
    (0..20).for_each(|n| sleeper(&rig, MS, n.to_string()));
    rig.clock.advance(MS);
    let mut steps = 0;
    while rig.log.len() < 20 {
        let before = rig.log.len();
        rig.step(0);
        assert!(rig.log.len() - before <= 5, "others have their turn");
        steps += 1;
        assert!(steps < 10, "nothing keeps timers from firing");
    }
}

#[test]
fn tasks_that_respawn_for_ever_do_not_keep_timers_from_firing() {
    let rig = Rig::new(config(1, 0));
    sleeper(&rig, MS, "timer");
    let busy = super::respawn_for_ever(&rig, "busy");
    rig.step(0);
    rig.clock.advance(MS);
    rig.steps(0, 3);
    assert!(rig.log.has("timer"));
    busy.cancel();
}

#[test]
fn tasks_that_come_before_every_sleep_do_not_keep_timers_from_firing() {
    let rig = Rig::new(config(1, 0));
    sleeper(&rig, MS, "timer");
    for _ in 0..10 {
        while !rig.is_empty_handed(0) {
            rig.advance(0);
        }
        rig.inject("late");
        rig.clock.advance(MS);
        rig.advance(0);
    }
    assert!(rig.log.has("timer"));
}

#[test]
fn timers_wait_for_no_more_than_100_us_of_tasks() {
    let rig = Rig::new(Config { local_budget: 1 << 14, io_interval: 1 << 14, ..config(1, 0) });
    sleeper(&rig, MS, "timer");
    let (log, clock) = (rig.log.clone(), rig.clock.clone());
    let busy = rig.as_worker(0, |_| {
        rig.task().spawn(async move {
            loop {
                log.note("busy");
                clock.advance(MS / 25);
                yield_now().await;
            }
        })
    });
    while !rig.log.has("timer") {
        rig.step(0);
    }
    let polls = super::before(&rig.log.take(), "timer");
    assert!((25..=30).contains(&polls), "fired after {polls} polls, due after 25");
    busy.cancel();
}

#[test]
fn an_earlier_deadline_from_elsewhere_wakes_the_sleeping_worker() {
    let rig = Rig::new(config(1, 1));
    rig.put_to_sleep();
    let _first = register_elsewhere(&rig, 5 * MS);
    assert_eq!(rig.wakes(&[0]), [1]);
    rig.drive();
    let _later = register_elsewhere(&rig, 7 * MS);
    assert_eq!(rig.wakes(&[0]), [1], "it wakes before that anyway");
    let _earlier = register_elsewhere(&rig, 3 * MS);
    assert_eq!(rig.wakes(&[0]), [2]);
    rig.drive();
    *lock(&_earlier) = None;
    let _again = register_elsewhere(&rig, 3 * MS);
    assert_eq!(rig.wakes(&[0]), [2], "it wakes then, though that timer has gone");
}

#[test]
fn a_deadline_for_a_worker_that_is_awake_arms_the_sentry() {
    let rig = Rig::new(config(1, 1));
    let _timer = register_elsewhere(&rig, 5 * MS);
    assert_eq!(rig.wakes(&[0]), [0]);
    assert_eq!(rig.counts(0).sentry, Sentry::Armed);
}

#[test]
fn a_worker_with_a_timer_is_watched_whenever_it_is_awake() {
    let rig = Rig::new(config(1, 0));
    sleeper(&rig, MS, "timer");
    rig.put_to_sleep();
    assert!(rig.shared.lanes[0].idle.try_disarm());
    rig.startle(0);
    assert_eq!(rig.counts(0).sentry, Sentry::Armed);
}

#[test]
fn the_sentry_fires_the_timers_of_a_stuck_worker() {
    let rig = Rig::new(config(2, 0));
    sleeper(&rig, MS, "timer");
    rig.as_worker(0, |_| {
        drop(rig.task().spawn(poll_fn(|_| {
            let rig = Rig::here();
            let (lane, mut beats) = (&rig.shared.lanes[0], Beats::default());
            rig.clock.advance(MS);
            rig.shared.round(lane, &mut beats);
            assert!(!lane.has_ready(&rig.shared.slots), "stuck is who was there twice");
            rig.shared.round(lane, &mut beats);
            // Here the sentry's thread is that of worker 0, so the task is in its slot now.
            rig.shared.round(lane, &mut beats);
            while !rig.log.has("timer") {
                rig.advance(1);
            }
            Poll::Ready(())
        })));
    });
    rig.step(0);
    assert!(rig.log.has("timer"));
}

#[test]
fn a_clock_moved_by_hand_wakes_the_sleepers() {
    let rig = Rig::new(config(2, 0));
    sleeper(&rig, MS, "timer");
    rig.put_to_sleep();
    rig.clock.advance(MS);
    rig.shared.clock_moved();
    rig.drive();
    assert!(rig.log.has("timer"));
    assert!(rig.record(0).parks.iter().all(Option::is_none), "M4");
}

#[test]
fn naps_end_at_the_deadline_and_there_is_none_without() {
    let wheels = Wheels::new(1, &Clock::Real);
    let now = std::time::Instant::now() + Duration::from_secs(1);
    let time = wheels.time(now);
    for (nearest, nap) in [
        (time + 1, Some(Duration::from_nanos(1))),
        (time + 1_999_999, Some(Duration::from_nanos(1_999_999))),
        (time, Some(Duration::ZERO)),
        (time - 1_000_000, Some(Duration::ZERO)),
        (0, Some(Duration::ZERO)),
        (LATEST, None),
        (NEVER, None),
    ] {
        assert_eq!(wheels.nap(nearest, now), nap);
    }
    assert_eq!(wheels.deadline(now + Duration::from_secs(1 << 40)), LATEST);
}
