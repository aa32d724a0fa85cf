//! The order in which a step serves its sources, and how much of each.

use std::sync::Arc;

use super::Gate;
use crate::config::Config;
use crate::sched::rig::{Rig, config};

#[test]
fn a_step_serves_events_private_slot_ring_then_injector_then_others_then_parks() {
    let rig = Rig::new(config(2, 0));
    let gate = Arc::new(Gate::default());
    let (log, waiting) = (rig.log.clone(), gate.clone());
    let pinned = async move {
        waiting.pass().await;
        log.note("inbound");
    };
    rig.spawn_pinned(0, pinned);
    rig.step(0);
    gate.open();
    rig.spawn_pinned(0, rig.log.noting("private"));
    rig.fill_ring(0, ["ring 1", "ring 2"]);
    rig.spawn(0, "newest");
    rig.inject("outside");
    rig.fill_ring(1, ["neighbour"]);

    rig.note_events();
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "private", "inbound", "newest", "ring 1", "ring 2"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "outside"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "neighbour"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "park"]);
    assert_eq!(rig.record(0).parks, [None], "a regular worker sleeps without a deadline");
}

#[test]
fn a_step_of_a_compute_worker_serves_the_newest_job_then_injector_then_others() {
    let rig = Rig::new(config(0, 2));
    rig.spawn_job(0, "older");
    rig.spawn_job(0, "newer");
    rig.inject_job("outside");
    rig.spawn_job(1, "neighbour");

    rig.note_events();
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "newer", "older"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "outside"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "neighbour"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["events", "park"]);
}

#[test]
fn a_step_runs_no_more_than_its_budget_before_it_looks_at_events() {
    for (local_budget, io_interval, most) in [(4, 61, 4), (61, 3, 3), (1, 1, 1)] {
        let rig = Rig::new(Config { local_budget, io_interval, ..config(1, 0) });
        rig.fill_ring(0, (0..10).map(|n| n.to_string()));
        rig.note_events();
        for run in (0..10).collect::<Vec<_>>().chunks(most) {
            rig.step(0);
            let tasks = run.iter().map(|n| n.to_string());
            let expected: Vec<String> = std::iter::once("events".to_owned()).chain(tasks).collect();
            assert_eq!(rig.log.take(), expected, "budget {local_budget}, interval {io_interval}");
        }
    }
}

#[test]
fn a_step_runs_no_more_private_tasks_than_their_budget() {
    let rig = Rig::new(Config { private_budget: 2, ..config(1, 0) });
    for n in 0..5 {
        rig.spawn_pinned(0, rig.log.noting(n.to_string()));
    }
    rig.spawn(0, "newest");
    rig.step(0);
    assert_eq!(rig.log.take(), ["0", "1", "newest"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["2", "3"]);
    rig.step(0);
    assert_eq!(rig.log.take(), ["4"]);
}

#[test]
fn a_spare_parks_with_a_deadline_and_others_without() {
    let rig = Rig::new(Config { io_spares: 1, ..config(1, 0) });
    rig.occupy(1);
    rig.step(0);
    rig.step(1);
    assert_eq!(rig.record(0).parks, [None]);
    assert_eq!(rig.record(1).parks, [Some(rig.shared.config.spare_keep_alive)]);
}
