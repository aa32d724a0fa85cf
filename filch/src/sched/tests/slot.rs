//! The newest-task slot: its turn is bounded, thieves leave it alone, the sentry empties it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::base::shim::Mutex;
use crate::config::Config;
use crate::idle::Sentry;
use crate::sched::crew::Summons;
use crate::sched::rig::{Rig, config};
use crate::sched::sentry::Beats;
use crate::sched::shared::lock;
use crate::spawn::{spawn, yield_now};

/// Two tasks of worker 0 that wake each other for ever.
fn ping_pong(rig: &Rig) {
    let wakers: Arc<Mutex<[Option<Waker>; 2]>> = Arc::default();
    for side in 0..2 {
        let (wakers, log) = (wakers.clone(), rig.log.clone());
        let player = poll_fn(move |cx| {
            log.note("ping-pong");
            let mut wakers = lock(&wakers);
            wakers[side] = Some(cx.waker().clone());
            let other = wakers[1 - side].clone();
            drop(wakers);
            if let Some(other) = other {
                other.wake();
            }
            Poll::<()>::Pending
        });
        drop(rig.as_worker(0, |_| rig.task().spawn(player)));
    }
}

/// The longest run of `what` before the last entry that is something else.
fn longest_run(log: &[String], what: &str) -> usize {
    let last = log.iter().rposition(|entry| entry != what).expect("something else");
    log[..last].split(|entry| entry != what).map(<[String]>::len).max().unwrap_or(0)
}

#[test]
fn a_pair_that_wakes_each_other_has_the_slot_at_most_so_often_in_a_row() {
    for slot_streak in [1, 2, 3, 7] {
        let rig = Rig::new(Config { slot_streak, ..config(1, 0) });
        ping_pong(&rig);
        rig.step(0);
        rig.log.take();
        rig.fill_ring(0, (0..20).map(|n| n.to_string()));
        (0..20).for_each(|_| rig.step(0));
        let log = rig.log.take();
        assert_eq!(longest_run(&log, "ping-pong"), slot_streak);
        let others: Vec<&String> = log.iter().filter(|entry| *entry != "ping-pong").collect();
        assert_eq!(others.len(), 20, "nobody starves");
        assert!(others.iter().enumerate().all(|(n, entry)| **entry == n.to_string()));
    }
}

#[test]
fn a_chain_of_spawns_does_not_keep_the_ring_from_its_turn() {
    fn successor(log: crate::sched::rig::Log) -> impl Future<Output = ()> + Send + 'static {
        // The successor's type would contain itself: it is boxed.
        let next = move |log| {
            Box::pin(successor(log)) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
        };
        async move {
            log.note("link");
            drop(spawn(next(log)));
        }
    }
    let rig = Rig::new(config(1, 0));
    rig.fill_ring(0, (0..10).map(|n| n.to_string()));
    drop(rig.as_worker(0, |_| rig.task().spawn(successor(rig.log.clone()))));
    rig.step(0);
    let log = rig.log.take();
    assert_eq!(longest_run(&log, "link"), 3);
    assert!(log.contains(&"9".to_owned()));
}

#[test]
fn thieves_leave_the_slot_alone_and_the_sentry_is_armed_for_it() {
    let rig = Rig::new(config(2, 0));
    assert_eq!(rig.counts(0).sentry, Sentry::Unarmed);
    rig.spawn(0, "newest");
    assert_eq!(rig.counts(0).sentry, Sentry::Armed);
    while !rig.is_asleep(1) {
        rig.advance(1);
    }
    assert_eq!(rig.wakes(&[0, 1]), [0, 0], "a push into the slot wakes nobody");
    rig.advance(0);
    assert_eq!(rig.log.take(), ["newest"]);
}

/// A task of worker 0 that spawns "child" and then is stuck while `meanwhile` happens.
fn stuck(rig: &Rig, meanwhile: impl FnOnce(&Rig) + Send + 'static) {
    let log = rig.log.clone();
    let task = async move {
        drop(spawn(log.noting("child")));
        meanwhile(&Rig::here());
        log.note("parent ends");
    };
    drop(rig.as_worker(0, |_| rig.task().spawn(task)));
}

fn rounds(rig: &Rig, beats: &mut Beats, count: usize) {
    for _ in 0..count {
        rig.shared.round(&rig.shared.lanes[0], beats);
        rig.drive();
    }
}

#[test]
fn the_newest_task_of_a_stuck_worker_is_rescued_in_the_second_round() {
    let rig = Rig::new(config(2, 0));
    stuck(&rig, |rig| {
        let mut beats = Beats::default();
        rig.drive();
        rounds(rig, &mut beats, 1);
        assert!(rig.is_asleep(1) && rig.log.len() == 0, "the first round only reads the beat");
        rounds(rig, &mut beats, 1);
        assert_eq!(rig.log.len(), 1, "the second has it moved and somebody woken");
    });
    rig.advance(0);
    assert_eq!(rig.log.take(), ["child", "parent ends"]);
    assert_eq!(rig.counters(0).rescues, 1);
    assert_eq!(rig.counters(1).polls, 1);
}

#[test]
fn a_ring_that_grew_without_a_wake_is_found_when_its_worker_is_stuck() {
    let rig = Rig::new(config(2, 0));
    rig.put_to_sleep();
    rig.startle(0);
    let log = rig.log.clone();
    let long = async move {
        let (rig, mut beats) = (Rig::here(), Beats::default());
        rounds(&rig, &mut beats, 1);
        assert!(rig.is_asleep(1) && rig.record(1).wakes == 0);
        rounds(&rig, &mut beats, 1);
        log.note("long ends");
    };
    let log = rig.log.clone();
    let short = async move {
        yield_now().await;
        log.note("requeued");
    };
    rig.as_worker(0, |worker| {
        drop(rig.task().spawn(long));
        worker.push_ring(worker.take_newest().expect("it is in the slot"));
        drop(rig.task().spawn(short));
    });
    rig.advance(0);
    assert_eq!(rig.log.take(), ["requeued", "long ends"]);
}

#[test]
fn a_worker_that_moves_keeps_its_newest_task() {
    let rig = Rig::new(config(1, 0));
    let beats = Arc::new(Mutex::new(Beats::default()));
    for _ in 0..5 {
        let beats = beats.clone();
        stuck(&rig, move |rig| rig.shared.round(&rig.shared.lanes[0], &mut lock(&beats)));
    }
    rig.advance(0);
    rig.shared.round(&rig.shared.lanes[0], &mut lock(&beats));
    rig.shared.round(&rig.shared.lanes[0], &mut lock(&beats));
    assert_eq!(rig.counters(0).rescues, 0);
    assert_eq!(rig.shared.lanes[0].crew.stuck(), 0);
}

/// A rig of `workers` whose one spare stands by.
fn with_a_spare(workers: usize) -> std::rc::Rc<Rig> {
    let rig = Rig::new(Config { io_spares: 1, ..config(workers, 0) });
    let crew = &rig.shared.lanes[0].crew;
    crew.goes_out();
    assert_eq!(crew.summon(), Summons::Vacant(workers));
    crew.comes_back();
    assert!(crew.stand_by(workers));
    rig
}

#[test]
fn a_spare_is_called_when_all_are_stuck_and_something_is_ready() {
    let rig = with_a_spare(1);
    stuck(&rig, |rig| {
        let mut beats = Beats::default();
        rounds(rig, &mut beats, 4);
        assert!(!rig.shared.lanes[0].crew.was_summoned(1), "it may be back in a moment");
        rounds(rig, &mut beats, 1);
        assert!(rig.shared.lanes[0].crew.was_summoned(1));
        assert_eq!(rig.record(1).wakes, 1);
        rig.occupy(1);
        rig.drive();
        rounds(rig, &mut beats, 3);
        assert_eq!(rig.record(1).wakes, 1, "nothing is ready any more");
    });
    rig.advance(0);
    assert_eq!(rig.log.take(), ["child", "parent ends"]);
}

#[test]
fn no_spare_is_called_while_somebody_is_not_stuck() {
    let rig = with_a_spare(2);
    stuck(&rig, |rig| rounds(rig, &mut Beats::default(), 6));
    rig.advance(0);
    assert_eq!(rig.log.take(), ["child", "parent ends"]);
    assert!(!rig.shared.lanes[0].crew.was_summoned(2));
}

#[test]
fn no_spare_is_called_for_a_stuck_worker_that_holds_up_nothing() {
    let rig = with_a_spare(1);
    let alone = async { rounds(&Rig::here(), &mut Beats::default(), 6) };
    drop(rig.as_worker(0, |_| rig.task().spawn(alone)));
    rig.advance(0);
    assert!(!rig.shared.lanes[0].crew.was_summoned(1));
}
