//! The counters tell what happened.

use std::time::Duration;

use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::spawn::{spawn, yield_now};

#[test]
fn polls_count_every_run_of_a_body() {
    let rig = Rig::new(config(1, 1));
    drop(rig.task().spawn(async {
        for _ in 0..4 {
            yield_now().await;
        }
    }));
    rig.inject("once");
    rig.inject_job("a job");
    rig.drive();
    assert_eq!(rig.counters(0).polls, 5 + 1);
    assert_eq!(rig.counters(1).polls, 1);
}

#[test]
fn a_steal_counts_the_try_the_success_and_what_it_moved() {
    let rig = Rig::new(config(2, 0));
    rig.fill_ring(0, ["a", "b", "c", "d", "e"]);
    rig.worker(1).victim.set(0);
    rig.advance(1);
    let counters = rig.counters(1);
    assert_eq!((counters.steals_tried, counters.steals_won, counters.stolen), (1, 1, 3));
    assert_eq!((counters.polls, counters.injector_pulls, counters.heavy_barriers), (1, 0, 0));
    rig.advance(1);
    assert_eq!(rig.counters(1).polls, 3);
    assert_eq!(rig.counters(0).polls, 0);
}

#[test]
fn a_steal_of_a_job_counts_its_barrier() {
    let rig = Rig::new(config(0, 2));
    rig.spawn_job(0, "a");
    rig.worker(1).victim.set(0);
    rig.advance(1);
    let counters = rig.counters(1);
    assert!(counters.steals_tried > 1, "the first try sees a job that is not ripe yet");
    assert_eq!((counters.steals_won, counters.stolen, counters.heavy_barriers), (1, 1, 1));
}

#[test]
fn pulls_parks_wakes_and_overflows_are_counted_once_each() {
    let rig = Rig::new(Config { ring_capacity: 4, ..config(2, 0) });
    rig.put_to_sleep();
    assert_eq!((rig.counters(0).parks, rig.counters(1).parks), (1, 1));
    rig.startle(0);
    let log = rig.log.clone();
    let parent = async move {
        // One in the slot, four in the ring, and the sixth finds it full.
        for n in 0..6 {
            drop(spawn(log.noting(n.to_string())));
        }
    };
    drop(rig.as_worker(0, |_| rig.task().spawn(parent)));
    rig.advance(0);
    let counters = rig.counters(0);
    assert_eq!((counters.overflows, counters.wakes), (1, 1));
    assert_eq!(counters.injector_pulls, 0);
    rig.advance(0);
    assert_eq!(rig.counters(0).injector_pulls, 0, "what was spilled is no pull");
    rig.drive();
    assert_eq!(rig.log.len(), 6);
    assert_eq!(rig.counters(0).polls + rig.counters(1).polls, 7);
    assert_eq!(rig.counters(1).wakes, 0);
    assert_eq!((rig.counters(0).parks, rig.counters(1).parks), (2, 2));
    rig.inject("outside 1");
    rig.inject("outside 2");
    rig.drive();
    let pulls = rig.counters(0).injector_pulls + rig.counters(1).injector_pulls;
    assert_eq!(pulls, 1, "two in one pull");
    assert_eq!(rig.counters(0).polls + rig.counters(1).polls, 9);
}

#[test]
fn a_second_look_that_finds_work_is_no_park() {
    let rig = Rig::new(config(1, 0));
    rig.advance(0);
    rig.inject("work");
    rig.advance(0);
    assert_eq!(rig.counters(0).parks, 0);
    rig.drive();
    assert_eq!(rig.counters(0).parks, 1);
}

#[test]
fn busy_time_is_that_between_waking_and_sleeping() {
    let rig = Rig::new(config(1, 0));
    rig.put_to_sleep();
    let before = rig.counters(0).busy_ns;
    rig.clock.advance(Duration::from_secs(3600));
    let works = async {
        Rig::here().clock.advance(Duration::from_millis(5));
        yield_now().await;
        Rig::here().clock.advance(Duration::from_millis(7));
    };
    drop(rig.task().spawn(works));
    rig.drive();
    assert_eq!(rig.counters(0).busy_ns - before, 12_000_000);
}
