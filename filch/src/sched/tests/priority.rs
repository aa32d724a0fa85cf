//! Priorities, on both lanes: high first, low last, and nobody waits for ever.

use super::{before, respawn_for_ever, respawn_job_for_ever};
use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::spawn::yield_now;
use crate::task::state::Priority;

/// Of four periodic looks one begins with the low queue (`worker`).
const LOW_LOOK: usize = 4;

fn inject(rig: &Rig, priority: Priority, what: &str) {
    drop(rig.task().priority(priority).spawn(rig.log.noting(what)));
}

fn inject_job(rig: &Rig, priority: Priority, what: &'static str) {
    let log = rig.log.clone();
    drop(rig.task().priority(priority).spawn_fn(move || log.note(what)));
}

#[test]
fn high_precedes_slot_and_ring_and_low_follows_everything() {
    let rig = Rig::new(Config { explore_tries: Some(64), ..config(2, 0) });
    inject(&rig, Priority::Low, "low");
    rig.inject("outside");
    rig.fill_ring(1, ["neighbour"]);
    rig.fill_ring(0, ["ring"]);
    rig.spawn(0, "newest");
    inject(&rig, Priority::High, "high 1");
    inject(&rig, Priority::High, "high 2");
    (0..5).for_each(|_| rig.step(0));
    let expected = ["high 1", "high 2", "newest", "ring", "outside", "neighbour", "low"];
    assert_eq!(rig.log.take(), expected);
}

#[test]
fn high_jobs_precede_the_deque_and_low_jobs_follow_everything() {
    let rig = Rig::new(Config { explore_tries: Some(64), ..config(0, 2) });
    inject_job(&rig, Priority::Low, "low");
    rig.inject_job("outside");
    rig.spawn_job(1, "neighbour");
    rig.spawn_job(0, "own");
    inject_job(&rig, Priority::High, "high 1");
    inject_job(&rig, Priority::High, "high 2");
    (0..5).for_each(|_| rig.step(0));
    let expected = ["high 1", "high 2", "own", "outside", "neighbour", "low"];
    assert_eq!(rig.log.take(), expected);
}

#[test]
fn a_task_spawned_on_a_worker_obeys_its_priority_too() {
    let rig = Rig::new(config(1, 0));
    let log = rig.log.clone();
    drop(rig.task().spawn(async move {
        for (priority, what) in
            [(Priority::Low, "low"), (Priority::Normal, "normal"), (Priority::High, "high")]
        {
            drop(crate::spawn::task().priority(priority).spawn(log.noting(what)));
        }
    }));
    rig.drive();
    assert_eq!(rig.log.take(), ["high", "normal", "low"]);
}

#[test]
fn a_task_keeps_its_priority_when_it_yields_and_is_woken() {
    let rig = Rig::new(config(1, 0));
    for (priority, what) in [(Priority::Low, "low"), (Priority::High, "high")] {
        let log = rig.log.clone();
        drop(rig.task().priority(priority).spawn(async move {
            for _ in 0..3 {
                log.note(what);
                yield_now().await;
            }
        }));
    }
    rig.fill_ring(0, ["normal"]);
    rig.drive();
    assert_eq!(rig.log.take(), ["high", "high", "high", "normal", "low", "low", "low"]);
}

#[test]
fn low_tasks_run_within_four_looks_of_each_other_while_normal_ones_respawn() {
    for global_interval in [1, 2, 7, 61] {
        let rig = Rig::new(Config { global_interval, ..config(1, 0) });
        drop(respawn_for_ever(&rig, "normal"));
        (0..3).for_each(|_| inject(&rig, Priority::Low, "low"));
        let bound = LOW_LOOK * global_interval;
        let mut log = Vec::new();
        while log.len() < 3 * bound {
            rig.step(0);
            log.extend(rig.log.take());
        }
        for n in 1..=3 {
            let seen = log[..n * bound].iter().filter(|entry| *entry == "low").count();
            assert!(seen >= n, "{seen} of {n} low tasks in {} ticks", n * bound);
        }
    }
}

#[test]
fn low_jobs_run_within_four_looks_of_each_other_while_normal_ones_respawn() {
    for global_interval in [1, 2, 7, 61] {
        let rig = Rig::new(Config { global_interval, ..config(0, 1) });
        let log = rig.log.clone();
        drop(rig.as_worker(0, |_| {
            rig.task().spawn_fn(move || respawn_job_for_ever(log, Priority::Normal))
        }));
        (0..3).for_each(|_| inject_job(&rig, Priority::Low, "low"));
        let bound = LOW_LOOK * global_interval;
        let mut log = Vec::new();
        while log.len() < 3 * bound {
            rig.step(0);
            log.extend(rig.log.take());
        }
        for n in 1..=3 {
            let seen = log[..n * bound].iter().filter(|entry| *entry == "low").count();
            assert!(seen >= n, "{seen} of {n} low jobs in {} ticks", n * bound);
        }
    }
}

#[test]
fn normal_tasks_run_within_an_interval_while_high_ones_respawn() {
    for global_interval in [2, 7, 61] {
        for place in ["outside", "ring"] {
            let rig = Rig::new(Config { global_interval, ..config(1, 0) });
            let log = rig.log.clone();
            let forever = super::yield_for_ever(log, "high");
            drop(rig.task().priority(Priority::High).spawn(forever));
            match place {
                "ring" => rig.fill_ring(0, ["normal"]),
                _ => rig.inject("normal"),
            }
            rig.steps(0, 2 * global_interval);
            let waited = before(&rig.log.take(), "normal");
            assert!(waited <= global_interval, "{place}: {waited}");
        }
    }
}

#[test]
fn normal_jobs_run_within_an_interval_while_high_ones_respawn() {
    for global_interval in [2, 7, 61] {
        let rig = Rig::new(Config { global_interval, ..config(0, 1) });
        rig.spawn_job(0, "normal");
        let log = rig.log.clone();
        drop(rig.task().priority(Priority::High).spawn_fn(move || {
            respawn_job_for_ever(log, Priority::High);
        }));
        rig.steps(0, 2 * global_interval);
        let waited = before(&rig.log.take(), "normal");
        assert!(waited <= global_interval, "{waited}");
    }
}
