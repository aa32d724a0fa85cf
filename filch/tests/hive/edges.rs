//! Edges of a hive's life: changes of the crew beside the run and the stop, order, and ends that come early.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use filch::testkit::{Clock, FakeCore, ManualClock, Sim, spawn_thread, switch_point};
use filch::{Builder, DetachError, NewWorker, PostRefusal, Shutdown, worker};

use crate::support::{Drops, Gate, occupy, receive, watched};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_registered_worker_that_keeps_posts_starts_though_somebody_asks_for_it_during_the_run() {
    Sim::new().check(0..100, || {
        let hive = Builder::new().io_workers(2).io_spares(0).hive().unwrap();
        let (second, handle) = (hive.workers()[1].id, hive.handle());
        let ran = Drops::default();
        let token = ran.token();
        hive.post_to(second, move || drop(token)).unwrap();
        let asker = spawn_thread(move || {
            let _ = handle.detach(second).wait();
        });
        hive.request_shutdown(Shutdown::Drain);
        assert!(hive.run().unwrap().unfinished.is_empty());
        asker.join().unwrap();
        assert_eq!(ran.count(), 1);
    });
}

#[test]
fn timers_fire_where_nobody_runs_async_tasks() {
    watched(|| {
        for room in [0, 1] {
            let builder = Builder::new().compute_workers(1).attachable_workers(room);
            let hive = builder.hive().unwrap();
            let handle = hive.handle();
            let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
            for _ in 0..3 {
                let begin = Instant::now();
                handle.block_on(async {
                    filch::join!(filch::time::sleep(2 * MS), filch::time::sleep(MS));
                });
                assert!(begin.elapsed() >= 2 * MS);
            }
            handle.request_stop();
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_clock_that_is_moved_by_hand_fires_timers_where_nobody_runs_async_tasks() {
    watched(|| {
        let clock = Arc::new(ManualClock::new());
        let builder = Builder::new().compute_workers(1).clock(Clock::Manual(clock.clone()));
        let hive = builder.hive().unwrap();
        let handle = hive.handle();
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        let (send, woken) = mpsc::channel();
        let (sleeper, sleeping) = (handle.clone(), mpsc::channel());
        let waiter = std::thread::spawn(move || {
            sleeper.block_on(async {
                let mut sleep = std::pin::pin!(filch::time::sleep(10 * MS));
                let mut first = true;
                std::future::poll_fn(|cx| {
                    let polled = sleep.as_mut().poll(cx);
                    if std::mem::take(&mut first) {
                        sleeping.0.send(()).unwrap();
                    }
                    polled
                })
                .await;
            });
            send.send(()).unwrap();
        });
        receive(&sleeping.1);
        clock.advance(9 * MS);
        assert!(woken.try_recv().is_err());
        clock.advance(MS);
        receive(&woken);
        waiter.join().unwrap();
        handle.request_stop();
        thread.join().unwrap();
    });
}

#[test]
fn posts_from_one_thread_to_its_own_worker_keep_their_order() {
    watched(|| {
        let hive = Builder::new().io_workers(1).private_budget(2).hive().unwrap();
        let (ui, handle) = (hive.workers()[0].id, hive.handle());
        let order = Arc::new(Mutex::new(Vec::new()));
        // This thread will be the worker, so all of these are posted from one thread.
        for number in 0..10 {
            let (order, handle) = (order.clone(), handle.clone());
            let task = move || {
                order.lock().unwrap().push(number);
                if number == 0 {
                    let last = move || {
                        order.lock().unwrap().push(10);
                    };
                    handle.post_to(ui, last).unwrap();
                }
            };
            hive.post_to(ui, task).unwrap();
        }
        hive.request_shutdown(Shutdown::Drain);
        hive.run().unwrap();
        assert_eq!(*order.lock().unwrap(), (0..=10).collect::<Vec<_>>());
    });
}

#[test]
fn a_task_that_posts_itself_for_ever_is_handed_back_to_let_its_worker_leave() {
    fn tick(refused: mpsc::Sender<PostRefusal>) {
        let send = refused.clone();
        if let Err(error) = worker::post_self(move || tick(send)) {
            refused.send(error.reason).unwrap();
        }
    }
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let leaver = runtime.workers()[1].id;
        let (send, refused) = mpsc::channel();
        runtime.post_to(leaver, move || tick(send)).unwrap();
        runtime.detach(leaver).wait().unwrap();
        assert_eq!(receive(&refused), PostRefusal::Leaving);
    });
}

#[test]
fn a_run_whose_threads_cannot_start_drops_what_was_kept_and_says_so() {
    watched(|| {
        let builder = Builder::new().io_workers(1).compute_workers(1);
        let hive = builder.stack_size(1 << 47).hive().unwrap();
        let drops = Drops::default();
        let keep = || {
            let token = drops.token();
            move || drop(token)
        };
        hive.post(keep()).unwrap();
        hive.post_compute(keep()).unwrap();
        hive.post_to(hive.workers()[0].id, keep()).unwrap();
        hive.post_to(hive.workers()[1].id, keep()).unwrap();
        drop(hive.post_delayed(MS, keep()).unwrap());
        let waits = keep();
        drop(hive.spawn(async move {
            std::future::pending::<()>().await;
            waits();
        }));
        hive.run().unwrap_err();
        assert_eq!(drops.count(), 6);
    });
}

#[test]
fn an_elastic_crew_does_not_grow_before_it_is_run() {
    watched(|| {
        let builder = Builder::new().io_workers(1).compute_workers(1).elastic(true);
        let hive = builder.hive().unwrap();
        for _ in 0..3 {
            hive.post(|| ()).unwrap();
            hive.post_compute(|| ()).unwrap();
        }
        assert_eq!(hive.workers().len(), 2);
    });
}

#[test]
fn a_worker_that_came_while_nobody_was_main_may_leave() {
    watched(|| {
        let hive = Builder::new().compute_workers(1).hive().unwrap();
        let handle = hive.handle();
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        // So it runs.
        let (send, there) = mpsc::channel();
        handle.post_compute(move || send.send(()).unwrap()).unwrap();
        receive(&there);
        let first = handle.attach(NewWorker::io()).unwrap();
        handle.attach(NewWorker::io()).unwrap();
        handle.detach(first).wait().unwrap();
        handle.request_stop();
        thread.join().unwrap();
    });
}

#[test]
fn a_delayed_post_from_a_dispatch_beside_the_stop_is_taken_or_handed_back() {
    Sim::new().check(0..100, || {
        let core = FakeCore::new();
        let events = core.events();
        let hive = Builder::new().hive().unwrap();
        hive.attach(NewWorker::io().event_core(core)).unwrap();
        let (told, handle) = (Arc::new(AtomicUsize::new(0)), hive.handle());
        let counted = told.clone();
        events.push(move || {
            // An answer, one or the other, and no panic.
            let _ = worker::post_self_delayed(1000 * MS, || ());
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let stopper = spawn_thread(move || {
            switch_point();
            handle.request_stop();
        });
        hive.run().unwrap();
        stopper.join().unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn an_attachment_beside_the_end_leaves_no_wheel_open() {
    Sim::new().check(0..100, || {
        let builder = Builder::new().io_workers(1).compute_workers(1).attachable_workers(1);
        let runtime = builder.build().unwrap();
        let handle = runtime.handle();
        let attacher = spawn_thread(move || drop(handle.attach(NewWorker::io())));
        let handle = runtime.handle();
        runtime.shutdown(Shutdown::Abort);
        attacher.join().unwrap();
        assert!(handle.workers().is_empty() || handle.post(|| ()).is_err());
        assert!(handle.attach(NewWorker::io()).is_err());
    });
}

#[test]
fn an_attachment_names_its_own_worker_though_others_detach_everybody() {
    Sim::new().check(0..100, || {
        let builder = Builder::new().io_workers(1).compute_workers(1).attachable_workers(1);
        let runtime = builder.build().unwrap();
        let handle = runtime.handle();
        let detacher = spawn_thread(move || {
            for _ in 0..3 {
                for worker in handle.workers() {
                    let _ = handle.detach(worker.id).wait();
                }
            }
        });
        let (keep, before) = (runtime.workers()[0].id, runtime.workers().len());
        if let Ok(id) = runtime.attach(NewWorker::io()) {
            assert_ne!(id, keep);
            let other = runtime.workers().iter().any(|worker| worker.id == id);
            let answer = runtime.detach(id).wait();
            assert!(other || matches!(answer, Err(DetachError::Gone | DetachError::Leaving)));
        }
        detacher.join().unwrap();
        assert!(runtime.workers().len() <= before);
    });
}

#[test]
fn a_worker_is_not_given_a_name_that_threads_cannot_have() {
    watched(|| {
        let builder = Builder::new().workers(1).attachable_workers(1);
        let runtime = builder.build().unwrap();
        let worker = runtime.attach(NewWorker::io().name("a\0b")).unwrap();
        let status = runtime.workers().into_iter().find(|other| other.id == worker).unwrap();
        assert_eq!(status.name, "a\0b");
        runtime.detach(worker).wait().unwrap();
    });
}

#[test]
fn a_worker_that_is_asked_twice_answers_both() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let (leaver, gate) = (runtime.workers()[1].id, Gate::default());
        occupy(&runtime, leaver, &gate);
        let first = runtime.detach(leaver);
        assert!(matches!(runtime.detach(leaver).wait(), Err(DetachError::Leaving)));
        gate.open();
        first.wait().unwrap();
        assert!(matches!(runtime.detach(leaver).wait(), Err(DetachError::Gone)));
    });
}

#[test]
fn a_hive_runs_inside_a_task_of_another_runtime() {
    watched(|| {
        let outer = Builder::new().workers(1).build().unwrap();
        let ran = outer.block_on(outer.spawn(async {
            let hive = Builder::new().io_workers(1).compute_workers(1).hive().unwrap();
            let (ui, handle) = (hive.workers()[0].id, hive.handle());
            let (send, ran) = mpsc::channel();
            hive.post_to(ui, move || {
                let here = worker::current().unwrap().id();
                worker::post_self(move || send.send(here).unwrap()).unwrap();
                drop(handle.post_delayed(MS, {
                    let handle = handle.clone();
                    move || handle.request_shutdown(Shutdown::Drain)
                }));
            })
            .unwrap();
            assert!(hive.run().unwrap().unfinished.is_empty());
            receive(&ran) == ui
        }));
        assert!(ran);
    });
}
