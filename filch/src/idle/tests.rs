use std::{
    sync::{Arc, Mutex},
    thread,
};

use proptest::prelude::*;

use super::{Cause, Comes, Counts, Idle, Notify, NotifyMany, Owes, Pairing, Role, Sentry, Ticket};
use crate::base::{
    parker::Parker,
    repeated,
    shim::{AtomicBool, AtomicUsize, Ordering},
};

fn lane_of(workers: u32) -> Idle {
    let idle = Idle::new(Sentry::Unarmed, Pairing::Symmetric);
    for _ in 0..workers {
        assert_eq!(idle.join(), Sentry::Unarmed);
    }
    idle
}

fn counts(searching: u32, awake: u32, sleeping: u32) -> Counts {
    Counts { searching, awake, sleeping, sentry: Sentry::Unarmed, short: false }
}

#[test]
fn push_with_a_sleeper_and_nobody_searching_wakes_the_last_to_park() {
    let idle = lane_of(3);
    let tickets = [0, 2].map(|id| idle.prepare(id, Role::Working, Comes::AtOnce));
    assert_eq!(idle.notify(), Notify::Wake(2));
    assert_eq!(idle.counts(), counts(1, 2, 1));
    assert_eq!(idle.notify(), Notify::Nobody, "worker 2 searches");
    let [_, ticket] = tickets;
    assert_eq!(idle.resume(ticket).cause, Cause::Chosen);
    assert_eq!(idle.found(), Owes::Notify);
    assert_eq!(idle.notify(), Notify::Wake(0), "the chain goes on");
}

#[test]
fn a_late_sleeper_is_chosen_last_and_nobody_relies_on_it() {
    let idle = lane_of(3);
    let early = [0, 1].map(|id| idle.prepare(id, Role::Working, Comes::AtOnce));
    let late = idle.prepare(2, Role::Working, Comes::Late);
    assert_eq!(idle.notify(), Notify::Wake(1), "though another lay down last");
    let [_first, second] = early;
    assert_eq!(idle.resume(second).cause, Cause::Chosen);
    let _ = idle.found();
    assert_eq!(idle.notify(), Notify::Wake(0));
    let _ = idle.found();
    assert_eq!(idle.notify(), Notify::WakeLate(2));
    assert_eq!(idle.counts(), counts(0, 3, 0), "it does not search");
    let second = idle.prepare(1, Role::Working, Comes::AtOnce);
    assert_eq!(idle.notify(), Notify::Wake(1), "though nobody has heard of the late one");
    assert_eq!(idle.resume(late).cause, Cause::Specific);
    assert_eq!(idle.resume(second).cause, Cause::Chosen);
}

#[test]
fn a_wide_push_calls_late_sleepers_when_the_others_are_not_enough() {
    let idle = lane_of(3);
    let _early = [0, 1].map(|id| idle.prepare(id, Role::Working, Comes::AtOnce));
    let late = idle.prepare(2, Role::Working, Comes::Late);
    let mut woken = Vec::new();
    assert_eq!(idle.notify_many(3, &mut woken), NotifyMany::Done);
    assert_eq!(woken, [1, 0, 2]);
    assert_eq!(idle.counts(), counts(2, 3, 0));
    assert_eq!(idle.resume(late).cause, Cause::Specific);
    let late = idle.prepare(2, Role::Working, Comes::Late);
    assert_eq!(idle.resume(late).cause, Cause::Alone);
    let _late = idle.prepare(2, Role::Working, Comes::Late);
    let mut woken = Vec::new();
    idle.wake_all(&mut woken);
    assert_eq!(woken, [2]);
}

#[test]
fn a_push_for_which_one_comes_late_asks_for_the_sentry_unless_it_watches() {
    let idle = lane_of(3);
    let late = [0, 1].map(|id| idle.prepare(id, Role::Working, Comes::Late));
    assert_eq!(idle.notify(), Notify::WakeLate(1), "worker 2 is awake, and may be for long");
    assert!(idle.arm());
    assert_eq!(idle.notify(), Notify::Wake(0), "relies on the sentry");
    assert_eq!(late.map(|ticket| idle.resume(ticket).cause), [Cause::Specific; 2]);
}

#[test]
fn a_push_for_which_one_comes_late_asks_for_a_spare_while_the_crew_is_short() {
    let idle = Idle::new(Sentry::Armed, Pairing::Asymmetric);
    let _ = [idle.join(), idle.join()];
    idle.set_short(true);
    let late = idle.prepare(0, Role::Working, Comes::Late);
    assert_eq!(idle.notify(), Notify::WakeLate(0));
    assert_eq!(idle.resume(late).cause, Cause::Specific);
}

#[test]
fn a_wide_push_that_calls_late_sleepers_alone_asks_for_the_sentry_unless_it_watches() {
    let idle = lane_of(3);
    let mut late = [0, 1].map(|id| idle.prepare(id, Role::Working, Comes::Late));
    let mut woken = Vec::new();
    assert_eq!(idle.notify_many(1, &mut woken), NotifyMany::Saturated, "another sleeps, as late");
    assert_eq!(idle.notify_many(2, &mut woken), NotifyMany::Saturated);
    assert_eq!(woken, [1, 0]);
    assert_eq!(late.map(|ticket| idle.resume(ticket).cause), [Cause::Specific; 2]);
    late = [0, 1].map(|id| idle.prepare(id, Role::Working, Comes::Late));
    assert!(idle.try_search(1));
    assert_eq!(idle.notify_many(2, &mut woken), NotifyMany::Done, "worker 2 searches");
    assert_eq!(idle.found(), Owes::Notify);
    assert!(idle.arm());
    assert_eq!(idle.notify_many(2, &mut woken), NotifyMany::Done, "the sentry watches");
    assert_eq!(woken, [1, 0, 1, 0]);
    assert_eq!(late.map(|ticket| idle.resume(ticket).cause), [Cause::Specific; 2]);
}

#[test]
fn push_with_all_awake_asks_for_the_sentry_once() {
    let idle = lane_of(2);
    assert_eq!(idle.notify(), Notify::Saturated);
    assert!(idle.arm());
    assert!(!idle.arm());
    assert_eq!(idle.notify(), Notify::Nobody);
    assert!(!idle.try_disarm(), "workers are awake");
    let tickets = [0, 1].map(|id| idle.prepare(id, Role::Working, Comes::AtOnce));
    assert!(idle.try_disarm());
    assert!(!idle.try_disarm());
    assert_eq!(idle.counts(), counts(0, 0, 2));
    assert_eq!(idle.notify(), Notify::Wake(1), "sleepers come before the sentry");
    for ticket in tickets {
        assert_eq!(idle.resume(ticket).sentry, Sentry::Unarmed);
    }
}

#[test]
fn worker_that_resumes_or_joins_is_told_whether_the_sentry_watches() {
    let idle = lane_of(1);
    assert!(idle.arm());
    let ticket = idle.prepare(0, Role::Working, Comes::AtOnce);
    assert_eq!(idle.cancel(ticket).sentry, Sentry::Armed);
    let ticket = idle.prepare(0, Role::Working, Comes::AtOnce);
    assert_eq!(idle.notify(), Notify::Wake(0));
    assert_eq!(idle.resume(ticket).sentry, Sentry::Armed);
    assert_eq!(idle.join(), Sentry::Armed);
}

#[test]
fn worker_woken_for_its_mail_is_not_a_searcher() {
    let idle = lane_of(3);
    let tickets = [0, 1, 2].map(|id| idle.prepare(id, Role::Working, Comes::AtOnce));
    assert!(idle.wake_specific(1));
    assert!(!idle.wake_specific(1), "it is awake now");
    assert!(!idle.wake_specific(77), "nobody has this number");
    assert_eq!(idle.counts(), counts(0, 1, 2));
    assert_eq!(idle.notify(), Notify::Wake(2));
    let mut woken = Vec::new();
    idle.wake_all(&mut woken);
    assert_eq!(woken, [0]);
    let causes = tickets.map(|ticket| idle.resume(ticket).cause);
    assert_eq!(causes, [Cause::Specific, Cause::Specific, Cause::Chosen]);
    assert_eq!(idle.counts(), counts(1, 3, 0));
}

#[test]
fn last_searcher_that_cancels_owes_a_notify() {
    let idle = lane_of(2);
    assert!(idle.try_search(2) && idle.try_search(2));
    let first = idle.prepare(0, Role::Searching, Comes::AtOnce);
    let second = idle.prepare(1, Role::Searching, Comes::AtOnce);
    assert!(!first.last_searcher && second.last_searcher);
    assert_eq!(idle.cancel(first).owes, Owes::Nothing);
    let resumed = idle.cancel(second);
    assert_eq!((resumed.cause, resumed.owes), (Cause::Alone, Owes::Notify));
    assert_eq!(idle.counts(), counts(0, 2, 0));
}

#[test]
fn last_searcher_that_was_chosen_before_it_cancels_goes_on_searching() {
    let idle = lane_of(1);
    assert!(idle.try_search(1));
    let ticket = idle.prepare(0, Role::Searching, Comes::AtOnce);
    assert_eq!(idle.notify(), Notify::Wake(0));
    let resumed = idle.cancel(ticket);
    assert_eq!((resumed.cause, resumed.owes), (Cause::Chosen, Owes::Nothing));
    assert_eq!(idle.found(), Owes::Notify);
}

#[test]
fn worker_that_cancels_after_the_sentry_left_owes_a_notify() {
    let idle = lane_of(1);
    assert!(idle.arm());
    assert_eq!(idle.notify(), Notify::Nobody, "relies on the sentry");
    let ticket = idle.prepare(0, Role::Working, Comes::AtOnce);
    assert!(idle.try_disarm());
    assert_eq!(idle.cancel(ticket).owes, Owes::Notify);
    assert_eq!(idle.notify(), Notify::Saturated);
}

#[test]
fn a_wide_push_wakes_as_many_as_it_asks_for_and_counts_those_that_search() {
    let idle = lane_of(5);
    assert!(idle.try_search(2));
    let tickets = [1, 2, 3, 4].map(|id| idle.prepare(id, Role::Working, Comes::AtOnce));
    let mut woken = Vec::new();
    assert_eq!(idle.notify_many(0, &mut woken), NotifyMany::Done);
    assert_eq!(idle.notify_many(1, &mut woken), NotifyMany::Done);
    assert!(woken.is_empty(), "one searches already");
    assert_eq!(idle.notify_many(3, &mut woken), NotifyMany::Done);
    assert_eq!(woken, [4, 3]);
    assert_eq!(idle.counts(), counts(3, 3, 2));
    assert_eq!(idle.notify_many(100, &mut woken), NotifyMany::Done);
    assert_eq!(woken, [4, 3, 2, 1]);
    let causes = tickets.map(|ticket| idle.resume(ticket).cause);
    assert_eq!(causes, [Cause::Chosen; 4]);
    for _ in 0..5 {
        let _ = idle.found();
    }
    assert_eq!(idle.notify_many(3, &mut woken), NotifyMany::Saturated);
}

#[test]
fn a_lane_without_a_sentry_asks_for_a_spare_only_while_it_is_short() {
    let idle = Idle::new(Sentry::Armed, Pairing::Asymmetric);
    assert_eq!(idle.join(), Sentry::Armed);
    assert!(idle.is_quiet_after_fork(false));
    assert_eq!(idle.notify(), Notify::Nobody);
    idle.set_short(true);
    assert!(!idle.is_quiet_after_fork(false));
    assert_eq!(idle.notify(), Notify::Saturated);
    assert!(idle.try_search(1));
    assert!(idle.is_quiet_after_fork(false), "somebody searches");
    assert_eq!(idle.found(), Owes::Notify);
    idle.set_short(false);
    assert!(idle.is_quiet_after_fork(false));
    let ticket = idle.prepare(0, Role::Working, Comes::AtOnce);
    assert!(!idle.is_quiet_after_fork(false), "somebody sleeps");
    assert_eq!(idle.notify(), Notify::Wake(0));
    assert_eq!(idle.resume(ticket).cause, Cause::Chosen);
}

#[test]
fn last_searcher_with_work_owes_nothing_where_nobody_could_be_told() {
    let idle = Idle::new(Sentry::Armed, Pairing::Asymmetric);
    let sentries = [idle.join(), idle.join()];
    assert_eq!(sentries, [Sentry::Armed; 2]);
    assert!(idle.try_search(1));
    assert_eq!(idle.found(), Owes::Nothing, "everybody is awake");
    let ticket = idle.prepare(1, Role::Working, Comes::AtOnce);
    assert!(idle.try_search(1));
    assert_eq!(idle.found(), Owes::Notify, "one sleeps");
    assert_eq!(idle.resume(ticket).cause, Cause::Alone);
    idle.set_short(true);
    assert!(idle.try_search(1));
    assert_eq!(idle.found(), Owes::Notify, "a spare may be needed");
}

#[test]
fn search_stops_at_its_limit() {
    let idle = lane_of(3);
    assert!(!idle.try_search(0));
    assert!(idle.try_search(2) && idle.try_search(2));
    assert!(!idle.try_search(2));
    assert_eq!(idle.found(), Owes::Nothing);
    assert_eq!(idle.found(), Owes::Notify);
}

#[test]
fn worker_number_may_be_used_again_after_its_worker_has_left() {
    let idle = lane_of(1);
    let ticket = idle.prepare(5, Role::Working, Comes::AtOnce);
    assert_eq!(idle.resume(ticket).cause, Cause::Alone);
    idle.leave();
    assert_eq!(idle.counts(), counts(0, 0, 0));
    assert_eq!(idle.join(), Sentry::Unarmed);
    let ticket = idle.prepare(5, Role::Working, Comes::AtOnce);
    assert_eq!(idle.notify(), Notify::Wake(5));
    assert_eq!(idle.resume(ticket).cause, Cause::Chosen);
}

#[test]
#[should_panic(expected = "at most 65535 workers")]
#[cfg_attr(miri, ignore = "makes a million workers")]
fn worker_beyond_the_counters_is_refused() {
    let _ = lane_of(super::MAX_WORKERS + 1);
}

#[test]
#[should_panic(expected = "too high")]
fn worker_number_beyond_the_counters_is_refused() {
    let _ = lane_of(1).prepare(super::MAX_WORKERS, Role::Working, Comes::AtOnce);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "W1")]
fn searcher_counted_twice_is_caught() {
    let idle = lane_of(1);
    assert!(idle.try_search(9));
    assert!(idle.try_search(9));
}

/// One worker as a sequential reader of the protocol would describe it.
enum Worker {
    Working,
    Searching,
    Asleep(Ticket),
    Woken(Ticket, Cause),
}

/// The reference: a list of workers and the order in which they went to sleep.
struct Reference {
    workers: Vec<Worker>,
    asleep: Vec<u32>,
    armed: Sentry,
}

impl Reference {
    fn counts(&self) -> Counts {
        let count = |f: fn(&Worker) -> bool| self.workers.iter().filter(|w| f(w)).count() as u32;
        Counts {
            searching: count(|w| matches!(w, Worker::Searching | Worker::Woken(_, Cause::Chosen))),
            awake: count(|w| !matches!(w, Worker::Asleep(_))),
            sleeping: self.asleep.len() as u32,
            sentry: self.armed,
            short: false,
        }
    }

    fn wake(&mut self, id: u32, cause: Cause) {
        self.asleep.retain(|&other| other != id);
        let worker = &mut self.workers[id as usize];
        *worker = match std::mem::replace(worker, Worker::Working) {
            Worker::Asleep(ticket) => Worker::Woken(ticket, cause),
            _ => panic!("worker {id} was not asleep"),
        };
    }

    fn after_push(&self) -> Notify {
        let c = self.counts();
        match (c.searching, self.asleep.last(), c.sentry) {
            (0, Some(&id), _) => Notify::Wake(id),
            (0, None, Sentry::Unarmed) => Notify::Saturated,
            _ => Notify::Nobody,
        }
    }

    /// The worker takes its next turn; `fork` chooses where there is a choice.
    fn turn(&mut self, idle: &Idle, id: u32, fork: bool) {
        let others_search = self.counts().searching > 1;
        // Nothing is owed where a notify would wake nobody and say nothing new.
        let pointless = self.asleep.is_empty() && self.armed == Sentry::Armed;
        let expected_debt = super::notify_if(!others_search && !pointless);
        let slot = id as usize;
        let next = match std::mem::replace(&mut self.workers[slot], Worker::Working) {
            Worker::Working if fork => {
                assert!(idle.try_search(u32::MAX));
                Worker::Searching
            }
            Worker::Working => {
                self.asleep.push(id);
                Worker::Asleep(idle.prepare(id, Role::Working, Comes::AtOnce))
            }
            Worker::Searching if fork => {
                assert_eq!(idle.found(), expected_debt);
                Worker::Working
            }
            Worker::Searching => {
                self.asleep.push(id);
                let ticket = idle.prepare(id, Role::Searching, Comes::AtOnce);
                assert_eq!(ticket.last_searcher, !others_search);
                Worker::Asleep(ticket)
            }
            Worker::Asleep(ticket) => {
                self.asleep.retain(|&other| other != id);
                let sentry_left = (ticket.sentry, self.armed) == (Sentry::Armed, Sentry::Unarmed);
                let debt = super::notify_if(ticket.last_searcher || sentry_left);
                let resumed = idle.cancel(ticket);
                assert_eq!((resumed.cause, resumed.owes), (Cause::Alone, debt));
                Worker::Working
            }
            Worker::Woken(ticket, cause) => {
                let resumed = idle.resume(ticket);
                assert_eq!((resumed.cause, resumed.owes), (cause, Owes::Nothing));
                assert_eq!(resumed.sentry, self.armed);
                match cause {
                    Cause::Chosen => Worker::Searching,
                    _ => Worker::Working,
                }
            }
        };
        self.workers[slot] = next;
    }

    fn operate(&mut self, idle: &Idle, op: u8, id: u32, fork: bool) {
        match op {
            0 => {
                let expected = self.after_push();
                assert_eq!(idle.notify(), expected);
                if let Notify::Wake(id) = expected {
                    self.wake(id, Cause::Chosen);
                }
            }
            1 => {
                let mut woken = Vec::new();
                idle.wake_all(&mut woken);
                assert!(woken.iter().eq(self.asleep.iter().rev()));
                woken.into_iter().for_each(|id| self.wake(id, Cause::Specific));
            }
            2 => {
                let asleep = self.asleep.contains(&id);
                assert_eq!(idle.wake_specific(id), asleep);
                if asleep {
                    self.wake(id, Cause::Specific);
                }
            }
            3 => {
                assert_eq!(idle.arm(), self.armed == Sentry::Unarmed);
                self.armed = Sentry::Armed;
            }
            4 => {
                let may = self.armed == Sentry::Armed && self.counts().awake == 0;
                assert_eq!(idle.try_disarm(), may);
                if may {
                    self.armed = Sentry::Unarmed;
                }
            }
            _ => self.turn(idle, id, fork),
        }
    }
}

proptest! {
    #[test]
    fn every_sequence_of_calls_agrees_with_a_list_of_workers(
        calls in prop::collection::vec((0_u8..12, 0_u32..4, any::<bool>()), 0..repeated(200))
    ) {
        let idle = lane_of(4);
        let mut reference = Reference {
            workers: (0..4).map(|_| Worker::Working).collect(),
            asleep: Vec::new(),
            armed: Sentry::Unarmed,
        };
        for (op, id, fork) in calls {
            reference.operate(&idle, op, id, fork);
            prop_assert_eq!(idle.counts(), reference.counts());
        }
    }
}

/// A small scheduler: one locked queue, workers that search, sleep and chain.
struct Hive {
    idle: Idle,
    queue: Mutex<Vec<u32>>,
    done: AtomicUsize,
    stop: AtomicBool,
    parkers: Vec<Parker>,
}

impl Hive {
    fn notify(&self) {
        match self.idle.notify() {
            Notify::Wake(id) | Notify::WakeLate(id) => self.parkers[id as usize].unpark(),
            Notify::Nobody | Notify::Saturated => {}
        }
    }

    fn pay(&self, debt: Owes) {
        if debt == Owes::Notify {
            self.notify();
        }
    }

    fn push(&self, item: u32) {
        self.queue.lock().unwrap().push(item);
        self.notify();
    }

    fn run(&self, id: u32) {
        let mut role = Role::Working;
        // ORDERING: Acquire pairs with the Release of `stop` in the test.
        while !self.stop.load(Ordering::Acquire) {
            if role == Role::Working && self.idle.try_search(1) {
                role = Role::Searching;
            }
            let item = self.queue.lock().unwrap().pop();
            let Some(item) = item else {
                role = self.sleep(id, role);
                continue;
            };
            if role == Role::Searching {
                self.pay(self.idle.found());
                role = Role::Working;
            }
            if item > 0 {
                self.push(item - 1);
                self.push(item - 1);
            }
            // ORDERING: Relaxed, a count that the test polls; joins order the rest.
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        if role == Role::Searching {
            let _ = self.idle.found();
        }
        self.idle.leave();
    }

    fn sleep(&self, id: u32, role: Role) -> Role {
        let ticket = self.idle.prepare(id, role, Comes::AtOnce);
        // ORDERING: Acquire as in `run`.
        let stop = self.stop.load(Ordering::Acquire);
        let resumed = if stop || !self.queue.lock().unwrap().is_empty() {
            self.idle.cancel(ticket)
        } else {
            self.parkers[id as usize].park();
            self.idle.resume(ticket)
        };
        self.pay(resumed.owes);
        match resumed.cause {
            Cause::Chosen => Role::Searching,
            Cause::Specific | Cause::Alone => Role::Working,
        }
    }
}

#[test]
fn small_scheduler_runs_every_item_and_stops_with_all_counters_at_zero() {
    const WORKERS: u32 = 4;
    const ROUNDS: usize = repeated(200);
    const DEPTH: u32 = 5;
    let hive = Arc::new(Hive {
        idle: lane_of(WORKERS),
        queue: Mutex::default(),
        done: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        parkers: (0..WORKERS).map(|_| Parker::new()).collect(),
    });
    let workers = (0..WORKERS).map(|id| {
        let hive = hive.clone();
        thread::spawn(move || hive.run(id))
    });
    let workers: Vec<_> = workers.collect();
    for round in 1..=ROUNDS {
        hive.push(DEPTH);
        // ORDERING: Relaxed, polled until it arrives.
        while hive.done.load(Ordering::Relaxed) < round * ((2 << DEPTH) - 1) {
            let alive = workers.iter().all(|worker| !worker.is_finished());
            assert!(alive, "a worker died in round {round}");
            thread::yield_now();
        }
    }
    hive.stop.store(true, Ordering::Release); // ORDERING: pairs with the Acquire in `run`.
    let mut woken = Vec::new();
    hive.idle.wake_all(&mut woken);
    woken.into_iter().for_each(|id| hive.parkers[id as usize].unpark());
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(hive.idle.counts(), counts(0, 0, 0));
}
