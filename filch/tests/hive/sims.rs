//! Random posts, delayed posts, attachments and detachments under a thousand schedules: every task that was
//! taken runs once, and every other comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use filch::testkit::{Sim, random, sleep, spawn_thread};
use filch::{Builder, Handle, NewWorker, Shutdown, WorkerId};

/// What became of all tasks.
#[derive(Clone, Default)]
struct Account(Arc<Counts>);

#[derive(Default)]
struct Counts {
    posted: AtomicUsize,
    ran: AtomicUsize,
    returned: AtomicUsize,
    wrong_place: AtomicUsize,
}

impl Account {
    /// A task that says that it ran, on `there` if it is for one worker.
    fn task(&self, there: Option<WorkerId>) -> impl FnOnce() + Send + 'static {
        self.0.posted.fetch_add(1, Ordering::Relaxed);
        let account = self.clone();
        move || {
            account.0.ran.fetch_add(1, Ordering::Relaxed);
            let here = filch::worker::current().map(|worker| worker.id());
            if there.is_some() && here != there {
                account.0.wrong_place.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn returned(&self, count: usize) {
        self.0.returned.fetch_add(count, Ordering::Relaxed);
    }

    fn check(&self) {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let counts = &self.0;
        assert_eq!(read(&counts.posted), read(&counts.ran) + read(&counts.returned));
        assert_eq!(read(&counts.wrong_place), 0);
    }
}

fn below(limit: u64) -> u64 {
    random() % limit
}

/// One poster: random posts of every kind, and changes of the crew.
fn post_at_random(hive: &Handle, account: &Account, steps: usize) {
    for _ in 0..steps {
        let workers = hive.workers();
        let someone = workers[below(workers.len() as u64) as usize].id;
        match below(9) {
            0 => account.returned(hive.post(account.task(None)).is_err().into()),
            1 => {
                let tasks: Vec<_> = (0..3).map(|_| account.task(None)).collect();
                account
                    .returned(hive.post_batch(tasks).map_err(|e| e.task.len()).err().unwrap_or(0));
            }
            2 => account.returned(hive.post_compute(account.task(None)).is_err().into()),
            3 | 4 => {
                let posted = hive.post_to(someone, account.task(Some(someone)));
                account.returned(posted.is_err().into());
            }
            5 => {
                let delay = Duration::from_micros(below(5_000));
                let posted = hive.post_delayed(delay, account.task(None));
                account.returned(posted.is_err().into());
            }
            6 => {
                let role = if below(2) == 0 { NewWorker::io() } else { NewWorker::compute() };
                let _ = hive.attach(role);
            }
            7 => drop(hive.detach(someone).wait()),
            _ => {
                let task = account.task(Some(someone));
                let made = hive.spawn_to(someone, move || async move {
                    filch::time::sleep(Duration::from_micros(10)).await;
                    task();
                });
                account.returned(made.is_err().into());
            }
        }
    }
}

#[test]
fn random_posts_attachments_and_detachments_lose_no_task_under_a_thousand_schedules() {
    Sim::new().check(0..1000, || {
        let account = Account::default();
        let builder = Builder::new().workers(1).attachable_workers(2).io_spares(1);
        let runtime = builder.ring_capacity(4).explore_yields(1).build().unwrap();
        let other = {
            let (hive, account) = (runtime.handle(), account.clone());
            spawn_thread(move || post_at_random(&hive, &account, 6))
        };
        post_at_random(&runtime, &account, 6);
        other.join().unwrap();
        runtime.shutdown(Shutdown::Drain);
        account.check();
    });
}

#[test]
fn a_hive_that_is_run_ends_with_all_its_tasks_under_many_schedules() {
    Sim::new().check(0..300, || {
        let account = Account::default();
        let hive = Builder::new().io_workers(2).compute_workers(1).io_spares(1).hive().unwrap();
        post_at_random(&hive, &account, 3);
        let other = {
            let (hive, account) = (hive.handle(), account.clone());
            spawn_thread(move || {
                post_at_random(&hive, &account, 3);
                sleep(Duration::from_micros(below(100)));
                hive.request_shutdown(Shutdown::Drain);
            })
        };
        hive.run().unwrap();
        other.join().unwrap();
        account.check();
    });
}

#[test]
fn a_post_that_races_with_a_detach_runs_or_comes_back_under_many_schedules() {
    Sim::new().check(0..500, || {
        let account = Account::default();
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let leaver = runtime.workers()[1].id;
        let poster = {
            let (hive, account) = (runtime.handle(), account.clone());
            spawn_thread(move || {
                for _ in 0..3 {
                    let posted = hive.post_to(leaver, account.task(Some(leaver)));
                    account.returned(posted.is_err().into());
                }
            })
        };
        runtime.detach(leaver).wait().unwrap();
        poster.join().unwrap();
        runtime.shutdown(Shutdown::Drain);
        account.check();
    });
}

#[test]
fn a_post_that_races_with_the_detach_of_one_that_is_registered_is_kept_or_comes_back() {
    Sim::new().check(0..300, || {
        let account = Account::default();
        let hive = Builder::new().io_workers(2).hive().unwrap();
        let leaver = hive.workers()[1].id;
        let poster = {
            let (hive, account) = (hive.handle(), account.clone());
            spawn_thread(move || {
                let posted = hive.post_to(leaver, account.task(Some(leaver)));
                account.returned(posted.is_err().into());
            })
        };
        let left = hive.detach(leaver).wait();
        poster.join().unwrap();
        let returned = account.0.returned.load(Ordering::Relaxed);
        assert_eq!(left.is_ok(), returned == 1, "{left:?}");
        hive.request_shutdown(Shutdown::Drain);
        hive.run().unwrap();
        account.check();
    });
}
