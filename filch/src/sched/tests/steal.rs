//! Whose work an idle worker takes, how much of it, and when it stops looking.

use std::sync::Arc;

use super::Gate;
use crate::base::rng::Rng;
use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::sched::shared::Phase;
use crate::sched::worker::{Found, Worker};
use crate::task::header::RawTask;

/// Explores as worker `slot`, runs what it finds, and says whether it found something.
fn explore(rig: &Rig, slot: usize) -> bool {
    rig.as_worker(slot, |worker| match worker.explore() {
        Found::Task(task) => {
            worker.run(task);
            true
        }
        Found::Nothing | Found::Unripe => false,
        Found::Stop => panic!("nobody has stopped"),
    })
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

#[test]
fn a_thief_takes_half_rounded_up_of_any_backlog_and_runs_the_oldest() {
    for backlog in 1..=40 {
        let rig = Rig::new(config(2, 0));
        rig.fill_ring(0, names(0..backlog));
        rig.worker(1).victim.set(0);
        assert!(explore(&rig, 1));
        assert_eq!(rig.log.take(), ["0"], "backlog {backlog}");
        let (left, taken) = (backlog / 2, backlog - backlog / 2);
        assert_eq!(rig.shared.slots[0].ring.len(), left, "backlog {backlog}");
        assert_eq!(rig.shared.slots[1].ring.len(), taken - 1, "backlog {backlog}");
        while let Some(task) = rig.as_worker(1, Worker::next_local) {
            rig.as_worker(1, |worker| worker.run(task));
        }
        assert_eq!(rig.log.take(), names(1..taken), "in their old order");
    }
}

#[test]
fn a_lone_task_behind_a_long_one_is_stolen() {
    let rig = Rig::new(config(2, 0));
    rig.fill_ring(0, ["lone"]);
    let log = rig.log.clone();
    let long = async move {
        Rig::here().drive();
        log.note("long ends");
    };
    drop(rig.as_worker(0, |_| rig.task().spawn(long)));
    rig.advance(0);
    assert_eq!(rig.log.take(), ["lone", "long ends"]);
}

#[test]
fn a_lone_job_behind_a_long_one_is_stolen() {
    let rig = Rig::new(config(0, 2));
    rig.spawn_job(0, "lone");
    let log = rig.log.clone();
    let long = move || {
        Rig::here().drive();
        log.note("long ends");
    };
    drop(rig.as_worker(0, |_| rig.task().spawn_fn(long)));
    rig.advance(0);
    assert_eq!(rig.log.take(), ["lone", "long ends"]);
}

#[test]
fn a_thief_whose_ring_is_more_than_half_full_takes_nothing() {
    for (own, steals) in [(4, true), (5, false)] {
        let rig = Rig::new(Config { ring_capacity: 8, ..config(2, 0) });
        rig.fill_ring(0, names(0..8));
        rig.fill_ring(1, names(10..10 + own));
        rig.worker(1).victim.set(0);
        assert_eq!(explore(&rig, 1), steals, "{own} of 8 slots are in use");
        let left = if steals { 4 } else { 8 };
        assert_eq!(rig.shared.slots[0].ring.len(), left);
    }
}

#[test]
fn a_thief_that_comes_second_looks_elsewhere() {
    let rig = Rig::new(Config { explore_tries: Some(64), ..config(3, 0) });
    rig.fill_ring(0, names(0..8));
    rig.fill_ring(2, ["elsewhere"]);
    rig.worker(1).victim.set(0);
    let (stolen, found) = rig.shared.slots[0].ring.while_stolen_from(|| explore(&rig, 1));
    assert!(found);
    assert_eq!(rig.log.take(), ["elsewhere"]);
    assert_eq!(rig.worker(1).victim.get(), 2, "that is where the next search starts");
    rig.as_worker(2, |worker| stolen.into_iter().for_each(|task| worker.run(RawTask(task))));
}

#[test]
fn a_thief_takes_one_job_and_it_is_the_oldest() {
    let rig = Rig::new(config(0, 2));
    (0..6).for_each(|n| rig.spawn_job(0, n.to_string()));
    rig.worker(1).victim.set(0);
    assert!(explore(&rig, 1));
    assert_eq!(rig.log.take(), ["0"]);
    assert!(rig.shared.slots[1].deque.is_empty());
    assert_eq!(rig.counters(1).stolen, 1);
    rig.step(0);
    assert_eq!(rig.log.take(), ["5", "4", "3", "2", "1"]);
}

/// A random source whose next numbers below `n` are these.
fn source_of(n: usize, walk: &[usize]) -> Rng {
    let fits = |rng: &Rng| {
        let mut rng = rng.clone();
        walk.iter().all(|&step| rng.below(n) == step)
    };
    (0..).map(Rng::new).find(fits).expect("some seed begins like this")
}

#[test]
fn a_search_goes_from_the_sticky_victim_at_random_until_it_finds_something() {
    let rig = Rig::new(Config { injector_shards: 2, ..config(4, 0) });
    rig.fill_ring(1, ["a", "b"]);
    rig.fill_ring(3, ["c"]);
    let task = rig.loose("d");
    // SAFETY: the entry is ours, and lives until it is popped.
    unsafe { rig.shared.lanes[0].injector.push(task.0, 0) };
    let worker = rig.worker(0);
    worker.victim.set(2);
    *worker.rng.borrow_mut() = source_of(6, &[0, 0, 4]);

    assert!(explore(&rig, 0));
    assert_eq!(rig.log.take(), ["d"]);
    assert_eq!(worker.victim.get(), 4, "the shard is the sticky victim now");
    let counters = rig.counters(0);
    assert_eq!((counters.steals_tried, counters.steals_won, counters.stolen), (4, 1, 1));
    assert_eq!(rig.shared.slots[1].ring.len() + rig.shared.slots[3].ring.len(), 3);

    let task = rig.loose("e");
    // SAFETY: as above.
    unsafe { rig.shared.lanes[0].injector.push(task.0, 0) };
    assert!(explore(&rig, 0));
    assert_eq!(rig.counters(0).steals_tried, 5, "the next search starts there");
    assert_eq!(rig.log.take(), ["e"]);
}

#[test]
fn a_search_in_vain_ends_after_its_tries_and_yields() {
    for (workers, shards, yields) in [(1, 1, 0), (2, 1, 7), (4, 2, 150)] {
        let config =
            Config { injector_shards: shards, explore_yields: yields, ..config(workers, 0) };
        let rig = Rig::new(config);
        assert!(!explore(&rig, 0));
        let tried = rig.counters(0).steals_tried as usize;
        assert_eq!(tried, 2 * (workers + shards + 1) + yields);
        assert_eq!(rig.counts(0).searching, 1, "it searches until it sleeps");
    }
}

#[test]
fn the_stop_is_seen_between_two_tries() {
    let rig = Rig::new(Config { explore_yields: 150, ..config(2, 0) });
    rig.leave_root();
    rig.shared.advance(Phase::Stopped);
    rig.as_worker(0, |worker| assert_eq!(worker.explore(), Found::Stop));
    assert_eq!(rig.counters(0).steals_tried, 1);
}

#[test]
fn at_most_half_of_the_workers_search_and_the_others_do_not_look() {
    for (workers, limit) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
        let rig = Rig::new(config(workers, 0));
        for slot in 0..workers {
            assert!(!explore(&rig, slot));
            let searches = slot < limit;
            assert_eq!(rig.counters(slot).steals_tried > 0, searches, "{slot} of {workers}");
        }
        assert_eq!(rig.counts(0).searching as usize, limit);
    }
}

#[test]
fn a_task_that_others_wait_for_is_found_wherever_it_is_pushed() {
    for seed in 0..200 {
        let rig = Rig::seeded(Config { injector_shards: 4, ..config(4, 0) }, seed);
        let gate = Arc::new(Gate::default());
        for slot in 0..4 {
            let (gate, log) = (gate.clone(), rig.log.clone());
            let waits = async move {
                gate.pass().await;
                log.note("passed");
            };
            drop(rig.as_worker(slot, |_| rig.task().spawn(waits)));
        }
        rig.drive();
        gate.open();
        rig.drive();
        assert_eq!(rig.log.len(), 4, "seed {seed}");
    }
}
