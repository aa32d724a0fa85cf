//! Who is woken by a push, and by whom the next.

use crate::base::shim::{AtomicUsize, Ordering};
use crate::config::Config;
use crate::par::prelude::*;
use crate::sched::rig::{Log, Rig, config};
use crate::spawn::{spawn, spawn_fn};

fn total(wakes: Vec<usize>) -> usize {
    wakes.iter().sum()
}

#[test]
fn a_push_wakes_exactly_one_and_the_next_push_nobody_while_that_one_searches() {
    let rig = Rig::new(config(4, 0));
    rig.put_to_sleep();
    rig.inject("a");
    assert_eq!(total(rig.wakes(&[0, 1, 2, 3])), 1);
    (0..9).for_each(|n| rig.inject(n.to_string()));
    assert_eq!(total(rig.wakes(&[0, 1, 2, 3])), 1);
    rig.drive();
    assert_eq!(rig.log.len(), 10);
}

#[test]
fn a_push_to_the_own_ring_wakes_a_thief() {
    let rig = Rig::new(config(2, 0));
    rig.put_to_sleep();
    rig.startle(0);
    let log = rig.log.clone();
    let parent = async move {
        let rig = Rig::here();
        drop(spawn(log.noting("displaced")));
        assert_eq!(rig.record(1).wakes, 0, "the slot is this worker's next task");
        drop(spawn(log.noting("newest")));
        assert_eq!(rig.record(1).wakes, 1);
        rig.drive();
        log.note("parent ends");
    };
    drop(rig.as_worker(0, |_| rig.task().spawn(parent)));
    rig.drive();
    assert_eq!(rig.log.take(), ["displaced", "parent ends", "newest"]);
}

#[test]
fn a_push_to_the_own_deque_wakes_a_thief() {
    let rig = Rig::new(config(0, 2));
    rig.put_to_sleep();
    rig.startle(0);
    let log = rig.log.clone();
    let parent = move || {
        let (rig, child) = (Rig::here(), log.clone());
        drop(spawn_fn(move || child.note("child")));
        assert_eq!(rig.record(1).wakes, 1);
        rig.drive();
        log.note("parent ends");
    };
    drop(rig.as_worker(0, |_| rig.task().spawn_fn(parent)));
    rig.drive();
    assert_eq!(rig.log.take(), ["child", "parent ends"]);
}

/// A loop on worker 0 of four; the other three sleep. Returns how many it has woken by the time its
/// first item is reached.
fn woken_by_a_loop_of(items: usize) -> usize {
    let rig = Rig::new(config(0, 4));
    rig.put_to_sleep();
    rig.startle(0);
    let woken = AtomicUsize::new(usize::MAX);
    rig.as_worker(0, |_| {
        (0..items).into_par_iter().with_max_len(1).for_each(|_| {
            let now = total(Rig::here().wakes(&[1, 2, 3]));
            // ORDERING: Relaxed, one thread.
            woken.fetch_min(now, Ordering::Relaxed);
        });
    });
    rig.drive();
    // ORDERING: Relaxed, one thread.
    woken.load(Ordering::Relaxed)
}

#[test]
fn a_loop_wakes_as_many_as_it_has_pieces_at_once_and_nobody_for_one() {
    assert_eq!(woken_by_a_loop_of(1), 0);
    assert_eq!(woken_by_a_loop_of(2), 1);
    assert_eq!(woken_by_a_loop_of(4), 3);
    assert_eq!(woken_by_a_loop_of(100), 3);
}

/// Holds its worker until `all` have started; the others are moved meanwhile.
fn hold(log: &Log, all: usize) {
    log.note("started");
    let rig = Rig::here();
    while log.len() < all {
        assert!(rig.move_any(), "{} of {all} tasks run, and everybody else sleeps", log.len());
    }
}

#[test]
fn a_batch_wakes_worker_after_worker_until_all_of_it_runs() {
    for seed in 0..300 {
        let workers = 2 + seed as usize % 4;
        let rig = Rig::seeded(Config { injector_shards: 2, ..config(workers, 0) }, seed);
        rig.put_to_sleep();
        let log = Log::default();
        for _ in 0..workers {
            let log = log.clone();
            drop(rig.task().spawn(async move { hold(&log, workers) }));
        }
        rig.drive();
        assert_eq!(log.len(), workers, "seed {seed}");
    }
}

#[test]
fn a_batch_of_jobs_wakes_worker_after_worker_until_all_of_it_runs() {
    for seed in 0..300 {
        let workers = 2 + seed as usize % 4;
        let rig = Rig::seeded(config(0, workers), seed);
        rig.put_to_sleep();
        let log = Log::default();
        for _ in 0..workers {
            let log = log.clone();
            drop(rig.task().spawn_fn(move || hold(&log, workers)));
        }
        rig.drive();
        assert_eq!(log.len(), workers, "seed {seed}");
    }
}

#[test]
fn children_of_one_task_wake_worker_after_worker_until_all_run() {
    for seed in 0..300 {
        let workers = 2 + seed as usize % 4;
        let rig = Rig::seeded(config(workers, 0), seed);
        rig.put_to_sleep();
        let (log, noted) = (Log::default(), rig.log.clone());
        drop(rig.task().spawn(async move {
            // One more than run at once, for the slot of this worker is its own.
            for _ in 0..workers {
                let log = log.clone();
                drop(spawn(async move { hold(&log, workers - 1) }));
            }
            let rig = Rig::here();
            while log.len() < workers - 1 {
                assert!(rig.move_any(), "{} of {} run", log.len(), workers - 1);
            }
            noted.note("parent ends");
        }));
        rig.drive();
        assert_eq!(rig.log.take(), ["parent ends"], "seed {seed}");
    }
}

#[test]
fn what_a_pull_moves_along_is_announced() {
    let rig = Rig::new(config(2, 0));
    rig.put_to_sleep();
    rig.startle(0);
    // Pushed by somebody who has not come to wake anybody yet.
    for n in 0..4 {
        let task = rig.loose(n.to_string());
        // SAFETY: the entry is ours, and lives until it is popped.
        unsafe { rig.shared.lanes[0].injector.push(task.0, 0) };
    }
    assert_eq!(rig.record(1).wakes, 0);
    rig.advance(0);
    assert_eq!((rig.log.len(), rig.record(1).wakes), (1, 1));
    rig.drive();
    assert_eq!(rig.log.len(), 4);
}

#[test]
fn a_small_batch_does_not_wake_everybody() {
    for (seed, batch) in (0..100).flat_map(|seed| (1..4).map(move |batch| (seed, batch))) {
        let rig = Rig::seeded(config(6, 0), seed);
        rig.put_to_sleep();
        (0..batch).for_each(|n| rig.inject(n.to_string()));
        rig.drive();
        let woken = total(rig.wakes(&[0, 1, 2, 3, 4, 5]));
        assert!(woken <= batch + 1, "seed {seed}: {woken} woken for {batch}");
    }
}
