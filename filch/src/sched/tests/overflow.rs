//! A full ring: the oldest are spilled, in order, and nothing is lost.

use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::spawn::spawn;
use crate::task::header::RawTask;

/// What was spilled, oldest first; it is run by worker 0 to be seen.
fn run_spilled(rig: &Rig) -> Vec<String> {
    rig.log.take();
    rig.as_worker(0, |worker| {
        while let Some(task) = worker.next_oldest_spilled() {
            worker.run(task);
        }
    });
    rig.log.take()
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

#[test]
fn a_full_ring_spills_its_oldest_in_order() {
    // The batch in the configuration, and what goes out of a ring of 8.
    for (outbound_batch, sent) in [(None, 4), (Some(1), 1), (Some(3), 3), (Some(8), 8)] {
        let rig = Rig::new(Config { ring_capacity: 8, outbound_batch, ..config(1, 0) });
        rig.fill_ring(0, names(0..9));
        assert_eq!(rig.shared.lanes[0].spill.len(), sent);
        assert_eq!(rig.shared.slots[0].ring.len(), 9 - sent);
        assert_eq!(rig.counters(0).overflows, 1);
        assert_eq!(run_spilled(&rig), names(0..sent));
        rig.step(0);
        assert_eq!(rig.log.take(), names(sent..9));
    }
}

#[test]
fn an_overflow_wakes_a_sleeper() {
    let rig = Rig::new(Config { ring_capacity: 2, ..config(2, 0) });
    rig.put_to_sleep();
    rig.startle(0);
    rig.fill_ring(0, names(0..2));
    assert_eq!(rig.record(1).wakes, 0);
    rig.fill_ring(0, names(2..3));
    assert_eq!(rig.record(1).wakes, 1);
    rig.drive();
    assert_eq!(rig.log.len(), 3);
}

#[test]
fn while_a_thief_is_at_work_the_new_task_goes_out_alone() {
    let rig = Rig::new(Config { ring_capacity: 8, ..config(2, 0) });
    rig.fill_ring(0, names(0..8));
    let ring = &rig.shared.slots[0].ring;
    let (stolen, ()) = ring.while_stolen_from(|| {
        rig.fill_ring(0, names(8..10));
        assert_eq!(ring.len(), 4, "the thief has the other half");
        assert_eq!(rig.shared.lanes[0].spill.len(), 2);
    });
    assert_eq!(run_spilled(&rig), names(8..10));
    rig.as_worker(1, |worker| stolen.into_iter().for_each(|task| worker.run(RawTask(task))));
    assert_eq!(rig.log.take(), names(0..4));
    rig.fill_ring(0, names(8..12));
    rig.step(0);
    assert_eq!(rig.log.take(), names(4..12));
}

#[test]
fn a_flood_of_children_overflows_again_and_again_and_each_runs_once() {
    for seed in 0..100 {
        let capacity = 2 << (seed % 3);
        let workers = 1 + seed as usize % 3;
        let rig = Rig::seeded(Config { ring_capacity: capacity, ..config(workers, 0) }, seed);
        let log = rig.log.clone();
        drop(rig.task().spawn(async move {
            for n in 0..100 {
                drop(spawn(log.noting(n.to_string())));
                // Thieves come at any time.
                if n % 7 == 0 {
                    Rig::here().move_any();
                }
            }
        }));
        rig.drive();
        let mut log = rig.log.take();
        log.sort_by_key(|entry| entry.parse::<usize>().ok());
        assert_eq!(log, names(0..100), "seed {seed}");
        let overflows: u64 = (0..workers).map(|slot| rig.counters(slot).overflows).sum();
        assert!(overflows > 0);
    }
}
