//! The two-phase sleep: whatever is pushed, wherever, whenever, somebody sees it.

use std::rc::Rc;
use std::sync::Arc;

use super::Gate;
use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::sched::shared::Phase;
use crate::task::state::Priority;

/// Where a push goes, seen from worker 0, which is about to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Mailbox,
    Queue(Priority),
    Neighbour,
    Spill,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Io,
    Compute,
}

fn sources() -> impl Iterator<Item = (Lane, Source)> {
    let queues = [Priority::High, Priority::Normal, Priority::Low].map(Source::Queue);
    let both = queues.into_iter().chain([Source::Neighbour, Source::Stop]);
    let io = both.clone().chain([Source::Spill, Source::Mailbox]).map(|source| (Lane::Io, source));
    io.chain(both.map(|source| (Lane::Compute, source)))
}

/// Three workers of one lane, all awake; a task pinned to worker 0 waits for the gate.
fn prepare(lane: Lane, source: Source, searcher_limit: Option<usize>) -> (Rc<Rig>, Arc<Gate>) {
    let (io, compute) = if lane == Lane::Io { (3, 0) } else { (0, 3) };
    let rig = Rig::new(Config { searcher_limit, ..config(io, compute) });
    let gate = Arc::new(Gate::default());
    if source == Source::Mailbox {
        let (waiting, log) = (gate.clone(), rig.log.clone());
        let pinned = async move {
            waiting.pass().await;
            log.note("work");
        };
        rig.spawn_pinned(0, pinned);
        rig.advance(0);
    }
    (rig, gate)
}

/// Pushes as anybody would, the wake included.
fn push(rig: &Rig, lane: Lane, source: Source, gate: &Gate) {
    let (log, future) = (rig.log.clone(), rig.log.noting("work"));
    match (source, lane) {
        (Source::Mailbox, _) => gate.open(),
        (Source::Queue(priority), Lane::Io) => drop(rig.task().priority(priority).spawn(future)),
        (Source::Queue(priority), Lane::Compute) => {
            drop(rig.task().priority(priority).spawn_fn(move || log.note("work")));
        }
        (Source::Neighbour, Lane::Io) => {
            rig.spawn(1, "work");
            rig.spawn(1, "displaces it");
        }
        (Source::Spill, _) => {
            let task = rig.as_worker(1, |worker| {
                drop(rig.task().spawn(future));
                worker.take_newest().expect("a future goes into the slot")
            });
            let lane = &rig.shared.lanes[0];
            lane.spill.push([task.0].into());
            rig.shared.notify(lane);
        }
        (Source::Neighbour, Lane::Compute) => rig.spawn_job(1, "work"),
        (Source::Stop, _) => {
            // What is left to do when all tasks are gone.
            rig.shared.advance(Phase::Stopped);
            rig.shared.wake_all();
            rig.log.note("work");
        }
    }
}

/// Ends the runtime's tasks where the stop comes next, as a shutdown does.
fn end_tasks(rig: &Rig, source: Source) {
    if source == Source::Stop {
        rig.leave_root();
    }
}

#[test]
fn a_push_between_the_search_and_the_sleep_is_seen() {
    for (lane, source) in sources() {
        let (rig, gate) = prepare(lane, source, None);
        end_tasks(&rig, source);
        rig.advance(0);
        assert!(rig.is_empty_handed(0), "{lane:?} {source:?}: it has searched in vain");
        push(&rig, lane, source, &gate);
        assert_eq!(rig.record(0).wakes, 0, "nobody is woken: it counts as searching");
        rig.advance(0);
        assert!(!rig.is_asleep(0), "{lane:?} {source:?}: missed by the second look");
        rig.drive();
        assert!(rig.log.take().contains(&"work".to_owned()), "{lane:?} {source:?}");
    }
}

#[test]
fn a_push_before_the_sleep_of_one_that_may_not_search_is_seen() {
    for (lane, source) in sources() {
        let (rig, gate) = prepare(lane, source, Some(1));
        end_tasks(&rig, source);
        rig.advance(2);
        rig.advance(0);
        assert!(rig.is_empty_handed(0) && rig.counters(0).steals_tried == 0);
        push(&rig, lane, source, &gate);
        rig.advance(0);
        assert!(!rig.is_asleep(0), "{lane:?} {source:?}: missed by the second look");
        rig.drive();
        assert!(rig.log.take().contains(&"work".to_owned()), "{lane:?} {source:?}");
    }
}

#[test]
fn a_push_after_the_second_look_wakes_the_sleeper() {
    for (lane, source) in sources() {
        let (rig, gate) = prepare(lane, source, None);
        end_tasks(&rig, source);
        rig.advance(0);
        rig.advance(0);
        assert!(rig.is_asleep(0));
        push(&rig, lane, source, &gate);
        assert_eq!(rig.record(0).wakes, 1, "{lane:?} {source:?}");
        rig.advance(0);
        rig.drive();
        assert!(rig.log.take().contains(&"work".to_owned()), "{lane:?} {source:?}");
    }
}

#[test]
fn what_a_mailbox_holds_wakes_its_owner_and_nobody_else() {
    let (rig, gate) = prepare(Lane::Io, Source::Mailbox, None);
    rig.put_to_sleep();
    gate.open();
    assert_eq!(rig.wakes(&[0, 1, 2]), [1, 0, 0]);
    rig.advance(0);
    assert_eq!(rig.counts(0).searching, 0, "it has work and does not search");
    rig.drive();
    assert_eq!(rig.log.take(), ["work"]);
}

#[test]
fn the_last_searcher_that_finds_work_at_its_second_look_wakes_the_next() {
    let rig = Rig::new(config(3, 0));
    rig.put_to_sleep();
    rig.startle(0);
    rig.advance(0);
    assert_eq!((rig.counts(0).searching, rig.counts(0).sleeping), (1, 2));
    rig.inject("first");
    rig.inject("second");
    assert_eq!(rig.wakes(&[1, 2]), [0, 0], "a searcher is relied on");
    rig.advance(0);
    assert_eq!(rig.log.take(), ["first"]);
    assert_eq!(rig.wakes(&[1, 2]).iter().sum::<usize>(), 1);
    rig.drive();
    assert_eq!(rig.log.take(), ["second"]);
}

#[test]
fn one_whom_an_event_woke_does_not_count_as_searching() {
    let rig = Rig::new(config(2, 0));
    rig.put_to_sleep();
    rig.startle(0);
    assert_eq!((rig.counts(0).searching, rig.counts(0).awake), (0, 1));
    rig.inject("work");
    assert_eq!(rig.record(1).wakes, 1, "nobody searches, so a push wakes somebody");
    rig.drive();
}

#[test]
fn one_whom_a_push_woke_counts_as_searching_before_it_moves() {
    let rig = Rig::new(config(2, 0));
    rig.put_to_sleep();
    rig.inject("work");
    assert_eq!((rig.counts(0).searching, rig.counts(0).sleeping), (1, 1));
    rig.drive();
    assert_eq!((rig.counts(0).searching, rig.counts(0).sleeping), (0, 2));
}

#[test]
fn an_early_end_of_a_park_leads_back_to_sleep() {
    for seed in 0..50 {
        let rig = Rig::seeded(config(3, 2), seed);
        for slot in [0, 1, 2, 3, 4, 0, 2, 4] {
            rig.put_to_sleep();
            rig.startle(slot);
        }
        rig.put_to_sleep();
        rig.inject("future");
        rig.inject_job("job");
        rig.put_to_sleep();
        assert_eq!(rig.log.len(), 2);
    }
}
