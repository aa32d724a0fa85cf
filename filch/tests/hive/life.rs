//! The life of a hive: registered, run by its caller, asked to stop, ended with all its tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use filch::{Builder, DetachError, NewWorker, Role, Shutdown, WorkerState, worker};

use crate::support::{Drops, Gate, receive, watched};

const MS: Duration = Duration::from_millis(1);

#[test]
fn before_it_is_run_a_hive_has_no_threads_and_keeps_posts_of_every_kind() {
    watched(|| {
        let hive =
            Builder::new().io_workers(2).compute_workers(1).thread_name("kept").hive().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = {
            let ran = ran.clone();
            move || _ = ran.fetch_add(1, Ordering::SeqCst)
        };
        hive.post(count.clone()).unwrap();
        hive.post_batch([count.clone(), count.clone()]).unwrap();
        hive.post_compute(count.clone()).unwrap();
        for worker in hive.workers() {
            assert_eq!(worker.state, WorkerState::Registered);
            hive.post_to(worker.id, count.clone()).unwrap();
        }
        drop(hive.post_delayed(MS, count.clone()).unwrap());
        let counted = count.clone();
        drop(hive.spawn(async move { counted() }));
        drop(hive.spawn_fn(count));
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.starts_with("kept-")).count(), 0);
        hive.request_shutdown(Shutdown::Drain);
        let report = hive.run().unwrap();
        assert!(report.unfinished.is_empty());
        assert_eq!(ran.load(Ordering::SeqCst), 10);
    });
}

#[test]
fn the_caller_of_run_is_the_first_io_worker_that_was_attached() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        hive.attach(NewWorker::compute()).unwrap();
        let ui = hive.attach(NewWorker::io().name("ui")).unwrap();
        hive.attach(NewWorker::io()).unwrap();
        let (here, handle) = (std::thread::current().id(), hive.handle());
        hive.post_to(ui, move || {
            assert_eq!(std::thread::current().id(), here);
            let worker = worker::current().unwrap();
            assert_eq!((worker.id(), worker.name()), (ui, "ui".to_owned()));
            assert_eq!(worker.role(), Role::Io);
            handle.request_stop();
        })
        .unwrap();
        hive.run().unwrap();
        assert!(worker::current().is_none(), "only while it runs");
    });
}

#[test]
fn a_stop_from_any_thread_ends_the_run_though_everybody_sleeps() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(2).hive().unwrap();
        let handle = hive.handle();
        let stopper = std::thread::spawn(move || {
            crate::support::until(|| {
                let lanes = handle.snapshot().lanes;
                lanes.iter().all(|lane| lane.asleep == 2)
            });
            handle.request_stop();
        });
        hive.run().unwrap();
        stopper.join().unwrap();
    });
}

#[test]
fn a_stop_drops_every_task_before_run_returns() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(1).hive().unwrap();
        let drops = Drops::default();
        for worker in hive.workers() {
            let token = drops.token();
            let made = hive.spawn_to(worker.id, move || async move {
                std::future::pending::<()>().await;
                drop(token);
            });
            drop(made.unwrap());
            let token = drops.token();
            drop(hive.post_delayed(1_000_000 * MS, move || drop(token)).unwrap());
        }
        // From outside: a task that asks may have ended or not when it is heard.
        let handle = hive.handle();
        let stopper = std::thread::spawn(move || {
            crate::support::until(|| handle.snapshot().lanes[0].asleep == 2);
            handle.request_stop();
        });
        let report = hive.run().unwrap();
        stopper.join().unwrap();
        assert_eq!(drops.count(), 6);
        assert_eq!(report.unfinished.len(), 6, "{report}");
    });
}

#[test]
fn a_task_that_asks_for_the_stop_and_waits_is_dropped_and_the_only_one_that_is_unfinished() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(1).hive().unwrap();
        let (drops, handle) = (Drops::default(), hive.handle());
        let token = drops.token();
        let asks = hive.spawn(async move {
            handle.spawn_fn(|| ()).await;
            handle.request_stop();
            std::future::pending::<()>().await;
            drop(token);
        });
        let report = hive.run().unwrap();
        assert_eq!(drops.count(), 1);
        assert!(asks.is_finished());
        let unfinished: Vec<_> = report.unfinished.iter().map(|task| task.id).collect();
        assert_eq!(unfinished, [asks.id()], "{report}");
    });
}

#[test]
fn the_first_request_to_stop_counts() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let ran = Drops::default();
        let token = ran.token();
        let handle = hive.handle();
        hive.post(move || {
            handle.request_shutdown(Shutdown::Drain);
            handle.request_stop();
            drop(handle.post_delayed(MS, move || drop(token)).unwrap());
        })
        .unwrap();
        assert!(hive.run().unwrap().unfinished.is_empty());
        assert_eq!(ran.count(), 1);
    });
}

#[test]
fn a_hive_that_is_dropped_before_it_was_run_drops_what_it_kept() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(1).hive().unwrap();
        let drops = Drops::default();
        let task = || {
            let token = drops.token();
            move || {
                let _token = &token;
                panic!("ran")
            }
        };
        hive.post(task()).unwrap();
        hive.post_compute(task()).unwrap();
        hive.workers().iter().for_each(|worker| hive.post_to(worker.id, task()).unwrap());
        drop(hive.post_delayed(MS, task()).unwrap());
        drop(hive);
        assert_eq!(drops.count(), 6);
        // One with nothing to drop starts nothing.
        drop(Builder::new().io_workers(2).hive().unwrap());
    });
}

#[test]
fn shutting_down_before_the_run_drains_what_was_kept() {
    watched(|| {
        let hive = Builder::new().io_workers(1).compute_workers(1).hive().unwrap();
        let drops = Drops::default();
        let (one, two) = (drops.token(), drops.token());
        hive.post(move || drop(one)).unwrap();
        hive.post_compute(move || drop(two)).unwrap();
        assert!(hive.shutdown(Shutdown::Drain).unfinished.is_empty());
        assert_eq!(drops.count(), 2);
    });
}

#[test]
fn run_of_a_runtime_that_is_started_waits_for_the_stop() {
    watched(|| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let here = std::thread::current().id();
        let handle = runtime.handle();
        runtime
            .post(move || {
                assert_ne!(std::thread::current().id(), here);
                handle.request_stop();
            })
            .unwrap();
        runtime.run().unwrap();
    });
}

#[test]
fn the_main_worker_cannot_be_detached_before_or_while_it_runs() {
    watched(|| {
        let hive = Builder::new().io_workers(2).hive().unwrap();
        let main = hive.workers()[0].id;
        assert!(matches!(hive.detach(main).wait(), Err(DetachError::Main)));
        let handle = hive.handle();
        let check = async move {
            assert!(matches!(handle.detach(main).await, Err(DetachError::Main)));
            handle.request_stop();
        };
        drop(hive.spawn(check));
        hive.run().unwrap();
    });
}

#[test]
fn a_registered_worker_is_taken_back_unless_posts_are_kept_for_it() {
    watched(|| {
        let hive = Builder::new().io_workers(3).hive().unwrap();
        let [_, second, third] = [0, 1, 2].map(|at| hive.workers()[at].id);
        hive.post_to(second, || ()).unwrap();
        assert!(matches!(hive.detach(second).wait(), Err(DetachError::KeepsPosts)));
        hive.detach(third).wait().unwrap();
        assert_eq!(hive.workers().len(), 2);
        assert!(hive.post_to(third, || ()).is_err());
        hive.request_shutdown(Shutdown::Drain);
        hive.run().unwrap();
    });
}

#[test]
fn a_single_threaded_hive_lives_on_its_callers_thread() {
    watched(|| {
        let hive = Builder::new().single_thread(true).hive().unwrap();
        let (here, handle) = (std::thread::current().id(), hive.handle());
        hive.post_compute(move || {
            assert_eq!(std::thread::current().id(), here);
            let stop = handle.clone();
            let later = move || {
                assert_eq!(std::thread::current().id(), here);
                stop.request_stop();
            };
            drop(handle.post_delayed(MS, later).unwrap());
        })
        .unwrap();
        hive.run().unwrap();
    });
}

#[test]
fn others_run_the_micro_tasks_while_the_main_worker_is_stuck() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(1).hive().unwrap();
        let (ui, handle) = (hive.workers()[0].id, hive.handle());
        let (gate, (send, ran)) = (Gate::default(), mpsc::channel());
        let pass = gate.clone();
        hive.post_to(ui, move || pass.pass()).unwrap();
        let other = std::thread::spawn(move || {
            handle.post(move || send.send(()).unwrap()).unwrap();
            receive(&ran);
            gate.open();
            handle.request_stop();
        });
        hive.run().unwrap();
        other.join().unwrap();
    });
}
