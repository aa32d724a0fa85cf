//! Models of I1, I2, I4, I6 and I8. A lost wake-up shows as loom's deadlock report.
//!
//! The queues are counters with relaxed operations: whatever visibility a model relies on comes
//! from the protocol.

use std::{sync::Arc, time::Instant};

use loom::{
    model::Builder,
    thread::{self, JoinHandle},
};

use super::{Cause, Comes, Counts, Idle, Notify, Owes, Pairing, Role, Sentry};
use crate::base::{
    parker::Parker,
    shim::{AtomicUsize, Ordering},
};

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A lane with one shared queue, a mailbox for worker 0, and a parker for each worker.
struct Lane {
    idle: Idle,
    items: AtomicUsize,
    mail: AtomicUsize,
    parkers: Vec<Parker>,
}

impl Lane {
    fn with_workers(n: usize) -> Arc<Self> {
        // In loom both pairings are fences; the asymmetric one has more of them spelled out.
        let lane = Self {
            idle: Idle::new(Sentry::Unarmed, Pairing::Asymmetric),
            items: AtomicUsize::new(0),
            mail: AtomicUsize::new(0),
            parkers: (0..n).map(|_| Parker::new()).collect(),
        };
        for _ in 0..n {
            assert_eq!(lane.idle.join(), Sentry::Unarmed);
        }
        Arc::new(lane)
    }

    fn spawn(self: &Arc<Self>, body: impl FnOnce(&Lane) + Send + 'static) -> JoinHandle<()> {
        let lane = self.clone();
        thread::spawn(move || body(&lane))
    }

    fn post(&self) {
        self.items.fetch_add(1, Ordering::Relaxed);
        self.notify();
    }

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

    /// A load first, which may be stale, as in a real queue.
    fn take(&self, queue: &AtomicUsize) -> bool {
        let mut n = queue.load(Ordering::Relaxed);
        while n > 0 {
            match queue.compare_exchange(n, n - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => n = now,
            }
        }
        false
    }

    /// Runs worker `id` until it has taken one item; it ends as a working worker.
    fn work_until_one_item(&self, id: u32, mut role: Role) {
        loop {
            if self.take(&self.items) {
                if role == Role::Searching {
                    self.pay(self.idle.found());
                }
                return;
            }
            role = self.sleep(id, role, None);
        }
    }

    /// The two-phase sleep. Returns the role in which the worker is awake.
    fn sleep(&self, id: u32, role: Role, deadline: Option<Instant>) -> Role {
        let ticket = self.idle.prepare(id, role, Comes::AtOnce);
        let something = self.items.load(Ordering::Relaxed) > 0
            || (id == 0 && self.mail.load(Ordering::Relaxed) > 0);
        let resumed = if something {
            self.idle.cancel(ticket)
        } else {
            self.parkers[id as usize].park_until(deadline);
            self.idle.resume(ticket)
        };
        self.pay(resumed.owes);
        match resumed.cause {
            Cause::Chosen => Role::Searching,
            Cause::Specific | Cause::Alone => Role::Working,
        }
    }

    fn assert_all_working(&self, n: u32) {
        let expected =
            Counts { searching: 0, awake: n, sleeping: 0, sentry: Sentry::Unarmed, short: false };
        assert_eq!(self.idle.counts(), expected);
    }
}

#[test]
fn loom_poster_and_sleeper_never_both_miss_each_other() {
    explore(4, || {
        let lane = Lane::with_workers(1);
        let poster = lane.spawn(Lane::post);
        lane.work_until_one_item(0, Role::Working);
        poster.join().unwrap();
        lane.assert_all_working(1);
    });
}

#[test]
fn loom_two_posters_and_one_sleeper_leave_no_item() {
    explore(2, || {
        let lane = Lane::with_workers(1);
        let posters = [lane.spawn(Lane::post), lane.spawn(Lane::post)];
        lane.work_until_one_item(0, Role::Working);
        lane.work_until_one_item(0, Role::Working);
        for poster in posters {
            poster.join().unwrap();
        }
        lane.assert_all_working(1);
    });
}

/// Worker 0 comes so late that it is never there; the other takes all there is.
#[test]
fn loom_a_sleeper_that_comes_late_keeps_no_other_asleep() {
    explore(3, || {
        let lane = Lane::with_workers(2);
        let late = lane.idle.prepare(0, Role::Working, Comes::Late);
        let poster = lane.spawn(|lane| {
            lane.post();
            lane.post();
        });
        lane.work_until_one_item(1, Role::Working);
        lane.work_until_one_item(1, Role::Working);
        poster.join().unwrap();
        let late = lane.idle.resume(late);
        assert_ne!(late.cause, Cause::Chosen);
        lane.assert_all_working(2);
    });
}

/// Worker 0 comes so late that it is never there, and worker 1, which a deadline wakes, is then busy for ever:
/// it has taken the item, or was woken to, or the sentry watches, though it had begun to go.
#[test]
fn loom_item_for_which_one_comes_late_is_watched() {
    explore(3, || {
        let lane = Lane::with_workers(2);
        assert!(lane.idle.arm());
        let late = lane.idle.prepare(0, Role::Working, Comes::Late);
        let sentry = lane.spawn(|lane| {
            lane.idle.try_disarm();
        });
        let poster = lane.spawn(|lane| {
            lane.items.fetch_add(1, Ordering::Relaxed);
            if let Notify::WakeLate(_) | Notify::Saturated = lane.idle.notify() {
                lane.idle.arm();
            }
        });
        let ticket = lane.idle.prepare(1, Role::Working, Comes::AtOnce);
        let taken = lane.take(&lane.items);
        let resumed = if taken { lane.idle.cancel(ticket) } else { lane.idle.resume(ticket) };
        let searches = resumed.cause == Cause::Chosen;
        poster.join().unwrap();
        sentry.join().unwrap();
        let watched = lane.idle.counts().sentry == Sentry::Armed;
        assert!(taken || searches || watched, "the item is left to who comes late");
        assert_ne!(lane.idle.resume(late).cause, Cause::Chosen);
    });
}

/// Each worker takes one item and is then busy for ever, as far as the other knows. The poster
/// may see the searcher and wake nobody; then the searcher owes the other worker its wake-up,
/// whether it found its item while it searched or by the second look of its sleep.
#[test]
fn loom_last_searcher_with_work_wakes_the_next_for_what_it_leaves() {
    explore(3, || {
        let lane = Lane::with_workers(2);
        assert!(lane.idle.try_search(1));
        let searcher = lane.spawn(|lane| lane.work_until_one_item(0, Role::Searching));
        let sleeper = lane.spawn(|lane| lane.work_until_one_item(1, Role::Working));
        lane.post();
        lane.post();
        searcher.join().unwrap();
        sleeper.join().unwrap();
        lane.assert_all_working(2);
    });
}

#[test]
fn loom_last_searcher_to_park_sees_what_a_poster_left_to_it() {
    explore(4, || {
        let lane = Lane::with_workers(1);
        assert!(lane.idle.try_search(1));
        let poster = lane.spawn(Lane::post);
        lane.work_until_one_item(0, Role::Searching);
        poster.join().unwrap();
        lane.assert_all_working(1);
    });
}

/// A thief moves an item from one queue to its own and stops searching while another searcher
/// goes to sleep. Whoever is last must see the item or wake somebody who will.
#[test]
fn loom_a_batch_moved_by_a_finder_is_seen_by_the_last_sleeper() {
    explore(4, || {
        let lane = Lane::with_workers(2);
        let own = Arc::new(AtomicUsize::new(0));
        assert!(lane.idle.try_search(2) && lane.idle.try_search(2));
        let finder = {
            let own = own.clone();
            lane.spawn(move |lane| {
                own.store(1, Ordering::Relaxed);
                lane.pay(lane.idle.found());
            })
        };
        let mut role = Role::Searching;
        while own.load(Ordering::Relaxed) == 0 {
            let ticket = lane.idle.prepare(1, role, Comes::AtOnce);
            let resumed = if own.load(Ordering::Relaxed) > 0 {
                lane.idle.cancel(ticket)
            } else {
                lane.parkers[1].park();
                lane.idle.resume(ticket)
            };
            role = match resumed.cause {
                Cause::Chosen => Role::Searching,
                Cause::Specific | Cause::Alone => Role::Working,
            };
        }
        if role == Role::Searching {
            lane.pay(lane.idle.found());
        }
        finder.join().unwrap();
        lane.assert_all_working(2);
    });
}

#[test]
fn loom_mail_and_item_for_one_sleeper_are_both_served() {
    explore(3, || {
        let lane = Lane::with_workers(1);
        let poster = lane.spawn(Lane::post);
        let sender = lane.spawn(|lane| {
            lane.mail.fetch_add(1, Ordering::Relaxed);
            if lane.idle.wake_specific(0) {
                lane.parkers[0].unpark();
            }
        });
        let (mut role, mut item, mut mail) = (Role::Working, false, false);
        loop {
            item |= lane.take(&lane.items);
            mail |= lane.take(&lane.mail);
            if item && mail {
                break;
            }
            role = lane.sleep(0, role, None);
        }
        if role == Role::Searching {
            lane.pay(lane.idle.found());
        }
        poster.join().unwrap();
        sender.join().unwrap();
        lane.assert_all_working(1);
    });
}

/// A deadline ends the park while a notifier chooses the worker: it is counted once, in the role
/// that it was told, and the late token costs at most one spurious return.
#[test]
fn loom_deadline_that_meets_a_notifier_keeps_the_counts() {
    explore(4, || {
        let lane = Lane::with_workers(1);
        let poster = lane.spawn(Lane::post);
        let role = lane.sleep(0, Role::Working, Some(Instant::now()));
        lane.work_until_one_item(0, role);
        poster.join().unwrap();
        lane.assert_all_working(1);
    });
}

/// Two sleepers, two posters: concurrent notifiers choose different workers or rely on one that
/// is on its way.
#[test]
fn loom_two_posters_and_two_sleepers_leave_no_item() {
    explore(2, || {
        let lane = Lane::with_workers(2);
        let poster = lane.spawn(Lane::post);
        let sleeper = lane.spawn(|lane| lane.work_until_one_item(1, Role::Working));
        lane.post();
        lane.work_until_one_item(0, Role::Working);
        poster.join().unwrap();
        sleeper.join().unwrap();
        lane.assert_all_working(2);
    });
}

#[test]
fn loom_awake_worker_relies_on_an_armed_sentry() {
    explore(4, || {
        let lane = Lane::with_workers(1);
        let sentry = lane.spawn(|lane| {
            if lane.idle.arm() {
                lane.idle.try_disarm();
            }
        });
        let poster = lane.spawn(Lane::post);
        let ticket = lane.idle.prepare(0, Role::Working, Comes::AtOnce);
        let resumed = lane.idle.resume(ticket);
        if resumed.sentry == Sentry::Armed {
            thread::yield_now();
            assert_eq!(lane.idle.counts().sentry, Sentry::Armed, "I6");
        }
        poster.join().unwrap();
        sentry.join().unwrap();
    });
}

/// The sentry sleeps without a deadline only after a disarm, so nobody may arm it in vain.
#[test]
fn loom_arm_that_meets_a_disarm_wakes_the_sentry_or_stays() {
    explore(4, || {
        let lane = Lane::with_workers(1);
        assert!(lane.idle.arm());
        let ticket = lane.idle.prepare(0, Role::Working, Comes::AtOnce);
        let sentry = lane.spawn(|lane| {
            if lane.idle.try_disarm() {
                lane.parkers[0].park();
                assert_eq!(lane.idle.counts().sentry, Sentry::Armed);
            }
        });
        assert_eq!(lane.idle.resume(ticket).cause, Cause::Alone);
        lane.items.fetch_add(1, Ordering::Relaxed);
        match lane.idle.notify() {
            Notify::Nobody => {}
            Notify::Saturated => {
                if lane.idle.arm() {
                    lane.parkers[0].unpark();
                }
            }
            Notify::Wake(_) | Notify::WakeLate(_) => unreachable!("nobody sleeps"),
        }
        sentry.join().unwrap();
    });
}

/// Two items were left to the sentry, which disarms while the worker looks for the second time.
/// The worker goes off with one of them; the other must not stay unwatched.
#[test]
fn loom_item_left_to_a_sentry_that_goes_is_watched_again() {
    explore(4, || {
        let lane = Lane::with_workers(1);
        assert!(lane.idle.arm());
        lane.items.store(2, Ordering::Relaxed);
        assert_eq!(lane.idle.notify(), Notify::Nobody);
        let sentry = lane.spawn(|lane| {
            lane.idle.try_disarm();
        });
        let ticket = lane.idle.prepare(0, Role::Working, Comes::AtOnce);
        let resumed = lane.idle.cancel(ticket);
        assert!(lane.take(&lane.items));
        if resumed.owes == Owes::Notify {
            assert_eq!(lane.idle.notify(), Notify::Saturated);
            assert!(lane.idle.arm());
        }
        sentry.join().unwrap();
        assert_eq!(lane.idle.counts().sentry, Sentry::Armed);
    });
}

/// A wide push wakes two sleepers at once, while one of them lies down: both items are taken.
#[test]
fn loom_wide_push_against_sleepers() {
    explore(2, || {
        let lane = Lane::with_workers(2);
        let workers =
            [0, 1].map(|id| lane.spawn(move |lane| lane.work_until_one_item(id, Role::Working)));
        lane.items.fetch_add(2, Ordering::Relaxed);
        let mut woken = Vec::new();
        let _ = lane.idle.notify_many(2, &mut woken);
        woken.iter().for_each(|&id| lane.parkers[id as usize].unpark());
        workers.map(|worker| worker.join().unwrap());
        assert_eq!(lane.items.load(Ordering::Relaxed), 0);
    });
}

/// A fork that finds nobody asleep and the crew complete relies on the one who goes out to see it.
#[test]
fn loom_fork_against_a_worker_that_goes_out() {
    explore(3, || {
        let lane = Lane::with_workers(1);
        let out = lane.spawn(|lane| {
            lane.idle.set_short(true);
            lane.idle.before_look();
            if lane.items.load(Ordering::Relaxed) > 0 {
                lane.mail.store(1, Ordering::Relaxed);
            }
        });
        lane.items.store(1, Ordering::Relaxed);
        let told = lane.idle.notify() == Notify::Saturated && lane.idle.counts().short;
        out.join().unwrap();
        let seen = lane.mail.load(Ordering::Relaxed) == 1;
        assert!(told || seen, "the fork is known to nobody");
    });
}
