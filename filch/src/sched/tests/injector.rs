//! The injector: periodic looks, fair shares, the first of a share runs first.

use std::time::Duration;

use super::{before, yield_for_ever};
use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::spawn::yield_now;

/// Counts that never end a step early.
fn unhurried(config: Config) -> Config {
    Config { local_budget: 1 << 20, io_interval: 1 << 20, ..config }
}

#[test]
fn every_interval_the_injector_precedes_the_ring() {
    let config = Config { global_interval: 5, global_batch: 1, ..unhurried(config(1, 0)) };
    let rig = Rig::new(config);
    rig.fill_ring(0, ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]);
    rig.inject("first");
    rig.inject("second");
    rig.step(0);
    let expected = ["r0", "r1", "r2", "r3", "first", "r4", "r5", "r6", "r7", "second", "r8"];
    assert_eq!(rig.log.take(), expected);
}

#[test]
fn every_interval_outside_jobs_precede_the_deque() {
    let config = Config { global_interval: 3, ..unhurried(config(0, 1)) };
    let rig = Rig::new(config);
    (0..5).for_each(|n| rig.spawn_job(0, n.to_string()));
    rig.inject_job("outside");
    rig.step(0);
    assert_eq!(rig.log.take(), ["4", "3", "outside", "2", "1", "0"]);
}

#[test]
fn private_tasks_that_respawn_do_not_keep_the_injector_from_its_turn() {
    for (private_budget, global_interval) in [(1, 5), (2, 2), (2, 4), (32, 2), (32, 61), (8, 64)] {
        let rig = Rig::new(Config { private_budget, global_interval, ..config(1, 0) });
        let forever = yield_for_ever(rig.log.clone(), "private");
        rig.spawn_pinned(0, forever);
        rig.step(0);
        rig.inject("outside");
        rig.log.take();
        rig.steps(0, 2 * global_interval);
        let waited = before(&rig.log.take(), "outside");
        // The look comes between two turns of the private tasks.
        let bound = global_interval.next_multiple_of(private_budget);
        assert!(waited <= bound, "{private_budget}, {global_interval}: {waited}");
    }
}

#[test]
fn the_interval_of_the_look_follows_the_time_that_tasks_take() {
    // Nanoseconds of a poll; ticks between two looks, between 2 and twice the configured 61.
    for (each, looks) in [(1, 122), (10_000, 20), (70_000, 2), (1_000_000_000, 2)] {
        let rig = Rig::new(Config { global_batch: 1, ..config(1, 0) });
        let log = rig.log.clone();
        let slow = async move {
            loop {
                Rig::here().clock.advance(Duration::from_nanos(each));
                log.note("slow");
                yield_now().await;
            }
        };
        drop(rig.as_worker(0, |_| rig.task().spawn(slow)));
        rig.steps(0, 200);
        rig.log.take();
        (0..5).for_each(|_| rig.inject("outside"));
        rig.steps(0, 20);
        let log = rig.log.take();
        let seen: Vec<usize> = (0..log.len()).filter(|&n| log[n] == "outside").collect();
        let distances: Vec<usize> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // The tasks from outside take no time, which stretches the interval a little. Of four
        // looks one begins with the own queue.
        let near = |distance: usize| (looks..=looks + 1).contains(&distance);
        let fits = |&d: &usize| near(d) || near(d.div_ceil(2));
        assert!(distances.iter().any(|&d| near(d)), "{each}: {distances:?}");
        assert!(distances.iter().all(fits), "{each}: {distances:?}");
    }
}

/// Workers, ring capacity, tasks in the ring, `global_batch`, tasks outside; tasks taken.
const SHARES: [(usize, usize, usize, usize, usize, usize); 11] = [
    (1, 256, 0, 16, 1, 1),
    (1, 256, 0, 16, 15, 15),
    (1, 256, 0, 16, 100, 16),
    (1, 256, 0, 1, 100, 1),
    (4, 256, 0, 128, 3, 1),
    (4, 256, 0, 128, 4, 2),
    (4, 256, 0, 128, 100, 26),
    (1, 8, 0, 128, 100, 4),
    (1, 8, 6, 128, 100, 2),
    // A full ring: the first is run, so one is taken all the same.
    (1, 8, 8, 128, 100, 1),
    (3, 64, 0, 128, 96, 32),
];

#[test]
fn a_pull_takes_a_fair_share_and_runs_the_first_of_it() {
    for (workers, ring_capacity, in_ring, global_batch, outside, share) in SHARES {
        let rig = Rig::new(Config { ring_capacity, global_batch, ..config(workers, 0) });
        rig.fill_ring(0, (0..in_ring).map(|n| format!("own {n}")));
        (0..outside).for_each(|n| rig.inject(n.to_string()));

        let (ring, injector) = (&rig.shared.slots[0].ring, &rig.shared.lanes[0].injector);
        rig.as_worker(0, |worker| {
            let first = worker.next_injected().expect("the injector is not empty");
            let case = (workers, ring_capacity, in_ring, global_batch, outside);
            assert_eq!(outside - injector.len(), share, "{case:?}");
            assert_eq!(ring.len(), in_ring + share - 1, "{case:?}");
            worker.run(first);
            while let Some(task) = worker.next_local() {
                worker.run(task);
            }
        });
        let own = (0..in_ring).map(|n| format!("own {n}"));
        let others = (1..share).map(|n| n.to_string());
        let expected: Vec<String> = ["0".to_owned()].into_iter().chain(own).chain(others).collect();
        assert_eq!(rig.log.take(), expected);
    }
}

#[test]
fn jobs_are_pulled_one_at_a_time() {
    let rig = Rig::new(config(0, 1));
    (0..40).for_each(|n| rig.inject_job(n.to_string()));
    rig.step(0);
    assert_eq!(rig.log.take(), ["0"]);
    assert_eq!(rig.shared.lanes[1].injector.len(), 39);
    assert!(rig.shared.slots[0].deque.is_empty());
    rig.drive();
    assert_eq!(rig.log.take(), (1..40).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_single_worker_of_both_roles_keeps_the_order_of_what_came_from_outside() {
    let rig = Rig::new(Config { single_thread: true, ..config(1, 1) });
    for n in (0..12).step_by(2) {
        rig.inject_job(n.to_string());
        rig.inject((n + 1).to_string());
    }
    rig.drive();
    assert_eq!(rig.log.take(), (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
}
