//! A worker that never runs dry still sees everything else, and no task keeps the worker.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use super::{Gate, before, respawn_for_ever, respawn_job_for_ever, yield_for_ever};
use crate::config::Config;
use crate::sched::rig::{Rig, config};
use crate::sched::shared::Phase;
use crate::task::state::Priority;

/// Steps that only `io_interval` ends.
fn busy(io: usize, compute: usize) -> Config {
    Config { local_budget: 1 << 20, io_interval: 7, global_interval: 7, ..config(io, compute) }
}

#[test]
fn a_busy_worker_sees_its_mailbox_within_an_interval() {
    let rig = Rig::new(busy(1, 0));
    let gate = Arc::new(Gate::default());
    let (waiting, log) = (gate.clone(), rig.log.clone());
    let pinned = async move {
        waiting.pass().await;
        log.note("inbound");
    };
    rig.spawn_pinned(0, pinned);
    drop(respawn_for_ever(&rig, "own"));
    let opener = async move { gate.open() };
    rig.steps(0, 3);
    rig.log.take();
    drop(rig.task().spawn(opener));
    rig.steps(0, 3);
    assert!(before(&rig.log.take(), "inbound") <= 2 * 7);

    let rig = Rig::new(busy(1, 0));
    drop(respawn_for_ever(&rig, "own"));
    rig.note_events();
    rig.steps(0, 4);
    let log = rig.log.take();
    let longest = log.split(|entry| entry == "events").map(<[String]>::len).max();
    assert_eq!(longest, Some(7), "events are polled once in an interval");
}

#[test]
fn a_busy_worker_sees_the_injector_within_an_interval() {
    let rig = Rig::new(busy(1, 0));
    drop(respawn_for_ever(&rig, "own"));
    rig.steps(0, 3);
    rig.log.take();
    rig.inject("outside");
    rig.steps(0, 2);
    assert!(before(&rig.log.take(), "outside") <= 7);
}

#[test]
fn a_busy_compute_worker_sees_the_injector_within_an_interval() {
    let rig = Rig::new(busy(0, 1));
    let log = rig.log.clone();
    drop(rig.as_worker(0, |_| {
        rig.task().spawn_fn(move || respawn_job_for_ever(log, Priority::Normal))
    }));
    rig.steps(0, 3);
    rig.log.take();
    rig.inject_job("outside");
    rig.steps(0, 2);
    assert!(before(&rig.log.take(), "outside") <= 7);
}

#[test]
fn a_busy_worker_sees_the_abort_within_an_interval() {
    for kind in ["future", "private", "job"] {
        let rig = if kind == "job" { Rig::new(busy(0, 1)) } else { Rig::new(busy(1, 0)) };
        let log = rig.log.clone();
        match kind {
            "future" => drop(respawn_for_ever(&rig, "own")),
            "private" => {
                rig.spawn_pinned(0, yield_for_ever(log, "own"));
            }
            _ => drop(rig.as_worker(0, |_| {
                rig.task().spawn_fn(move || respawn_job_for_ever(log, Priority::Normal))
            })),
        }
        rig.steps(0, 3);
        rig.leave_root();
        rig.shared.advance(Phase::Aborting);
        rig.log.take();
        rig.steps(0, 2);
        assert!(rig.log.len() <= 7, "{kind}: {} more", rig.log.len());
        rig.drive();
        assert!(rig.shared.tasks().is_empty(), "{kind}: is gone");
    }
}

#[test]
fn a_busy_worker_sees_the_stop_at_its_next_step() {
    let rig = Rig::new(busy(1, 0));
    let forever = respawn_for_ever(&rig, "own");
    rig.steps(0, 3);
    forever.cancel();
    rig.abort();
    drop(respawn_for_ever(&rig, "refused"));
    rig.shared.advance(Phase::Stopped);
    rig.log.take();
    rig.shared.wake_all();
    rig.drive();
    assert_eq!(rig.log.len(), 0);
}

#[test]
fn a_task_that_awaits_ready_handles_yields_when_its_budget_is_spent() {
    let rig = Rig::new(Config { poll_budget: 10, ..config(1, 0) });
    let handles: Vec<_> = (0..100).map(|n| rig.task().spawn(async move { n })).collect();
    rig.drive();
    let polls = rig.counters(0).polls;
    let log = rig.log.clone();
    let greedy = async move {
        for handle in handles {
            handle.await;
            log.note("ready");
        }
        log.note("ends");
    };
    drop(rig.as_worker(0, |_| rig.task().spawn(greedy)));
    drop(respawn_for_ever(&rig, "other"));
    while !rig.log.has("ends") {
        rig.step(0);
    }
    let (polls, log) = (rig.counters(0).polls - polls, rig.log.take());
    let runs: Vec<usize> = log
        .split(|entry| entry == "other")
        .map(|run| run.iter().filter(|entry| *entry == "ready").count())
        .filter(|&run| run > 0)
        .collect();
    assert_eq!(runs, [10; 10], "ten operations at a time, and the other in between");
    let others = log.iter().filter(|entry| *entry == "other").count() as u64;
    assert_eq!(polls, 10 + others);
}

#[test]
fn a_budget_is_fresh_at_every_poll() {
    let rig = Rig::new(Config { poll_budget: 3, ..config(1, 0) });
    let log = rig.log.clone();
    drop(rig.task().spawn(async move {
        for n in 0..20 {
            crate::spawn::spawn(async {}).await;
            log.note(n.to_string());
        }
    }));
    rig.drive();
    assert_eq!(rig.log.len(), 20);
}

#[test]
fn a_poll_of_more_waiting_handles_than_the_budget_reaches_the_last() {
    let rig = Rig::new(Config { poll_budget: 3, ..config(1, 0) });
    let mut waiting: Vec<_> =
        (0..5).map(|_| rig.task().spawn(std::future::pending::<()>())).collect();
    let mut last = rig.task().spawn(async {});
    rig.drive();
    let log = rig.log.clone();
    drop(rig.task().spawn(std::future::poll_fn(move |cx| {
        for handle in &mut waiting {
            assert!(pin!(handle).poll(cx).is_pending());
        }
        let end = pin!(&mut last).poll(cx);
        if end.is_ready() {
            log.note("seen");
        }
        end
    })));
    for _ in 0..20 {
        if rig.log.has("seen") {
            return;
        }
        rig.step(0);
    }
    panic!("the poll never reaches it");
}
