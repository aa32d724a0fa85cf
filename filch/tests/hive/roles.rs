//! Roles and crews: who is there, and what a role without workers says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use filch::{Builder, NewWorker, PostRefusal, Priority, Role, Shutdown, WorkerState, worker};

use crate::support::{Drops, Gate, occupy, receive, until, watched};

#[test]
fn workers_have_ids_names_roles_crews_and_states() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let physics = NewWorker::compute().name("physics-1").crew("physics");
        let physics = hive.attach(physics).unwrap();
        let workers = hive.workers();
        let names: Vec<_> = workers.iter().map(|w| (&*w.name, &*w.crew, w.role)).collect();
        assert_eq!(names, [("io-0", "io", Role::Io), ("physics-1", "physics", Role::Compute)]);
        assert!(workers.iter().all(|worker| worker.state == WorkerState::Registered));
        assert_eq!(workers[1].id, physics);
        assert_ne!(workers[0].id, workers[1].id);
    });
}

#[test]
fn a_worker_is_idle_busy_or_blocked() {
    watched(|| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let io = runtime.workers()[0].id;
        let state = || runtime.workers()[0].state;
        until(|| state() == WorkerState::Idle);
        let gate = Gate::default();
        occupy(&runtime, io, &gate);
        assert_eq!(state(), WorkerState::Busy);
        gate.open();
        let (send, told) = mpsc::channel::<()>();
        let waits = runtime.spawn_fn(move || {
            let _ = told.recv();
        });
        let handle = runtime.handle();
        runtime.post_to(io, move || handle.block_on(waits)).unwrap();
        until(|| state() == WorkerState::Blocked);
        drop(send);
        until(|| state() == WorkerState::Idle);
    });
}

#[test]
fn a_role_without_workers_hands_the_task_back() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let refused = hive.post_compute(|| ()).unwrap_err();
        assert_eq!(refused.reason, PostRefusal::NoWorkers { role: Role::Compute });
        let refused = hive.post_compute_batch([|| (), || ()]).unwrap_err();
        assert_eq!(refused.task.len(), 2);
        assert!(hive.task().try_spawn_fn(|| ()).is_err());

        let hive = Builder::new().compute_workers(1).hive().unwrap();
        let refused = hive.post(|| ()).unwrap_err();
        assert_eq!(refused.reason, PostRefusal::NoWorkers { role: Role::Io });
        assert!(hive.post_batch([|| ()]).is_err());
        let delay = std::time::Duration::from_millis(1);
        assert!(hive.post_delayed(delay, || ()).is_err());
        assert!(hive.task().try_spawn(async {}).is_err());
    });
}

#[test]
fn a_hive_of_compute_workers_alone_runs_while_its_caller_waits() {
    watched(|| {
        let hive = Builder::new().compute_workers(2).hive().unwrap();
        let (here, handle) = (std::thread::current().id(), hive.handle());
        hive.post_compute(move || {
            assert_ne!(std::thread::current().id(), here);
            handle.request_stop();
        })
        .unwrap();
        hive.run().unwrap();
    });
}

#[test]
fn a_role_gets_its_first_worker_while_the_runtime_runs() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let handle = hive.handle();
        hive.post(move || {
            assert!(handle.post_compute(|| ()).is_err());
            handle.attach(NewWorker::compute()).unwrap();
            let stop = handle.clone();
            handle.post_compute(move || stop.request_shutdown(Shutdown::Drain)).unwrap();
        })
        .unwrap();
        hive.run().unwrap();
    });
}

#[test]
fn posts_to_a_crew_go_to_its_members_in_turn() {
    watched(|| {
        let runtime = Builder::new().workers(1).attachable_workers(2).build().unwrap();
        let crew = || NewWorker::compute().crew("physics");
        let members = [runtime.attach(crew()).unwrap(), runtime.attach(crew()).unwrap()];
        let (send, receive_from) = mpsc::channel();
        for _ in 0..4 {
            let send = send.clone();
            let tell = move || send.send(worker::current().unwrap().id()).unwrap();
            runtime.post_to_crew("physics", tell).unwrap();
        }
        let ran: Vec<_> = (0..4).map(|_| receive(&receive_from)).collect();
        for member in members {
            assert_eq!(ran.iter().filter(|&&id| id == member).count(), 2);
        }
        let refused = runtime.post_to_crew("audio", || ()).unwrap_err();
        assert_eq!(refused.reason, PostRefusal::NoCrew);
    });
}

/// What a future that is refused panics with.
fn message(panics: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    *payload.downcast().expect("a text")
}

const NEVER: &str = "was refused: the runtime has no cpu worker and no room to attach one \
                     (`compute_workers` and `attachable_workers` are 0)";

#[test]
fn a_hive_that_can_never_have_compute_workers_refuses_jobs_and_says_why() {
    watched(|| {
        let hive = Builder::new().io_workers(1).attachable_workers(0).hive().unwrap();
        let refused = hive.spawn_fn(|| ());
        assert!(refused.is_finished());
        let error = refused.wait_outcome().unwrap_err();
        assert!(error.is_cancelled() && !error.is_panic());
        assert!(error.to_string().ends_with(NEVER), "{error}");
        let said = message(|| hive.spawn_fn(|| ()).wait());
        assert!(said.ends_with(NEVER), "{said}");
        let said = message(|| hive.block_on(async { filch::cpu(|| ()).await }));
        assert!(said.ends_with(NEVER), "{said}");
        assert!(hive.task().try_spawn_fn(|| ()).is_err());
        // Nobody has the handle: nobody is told of a panic that is none.
        drop(hive.spawn_fn(|| ()));
    });
}

#[test]
fn a_job_of_a_hive_without_compute_workers_waits_for_one_to_be_attached() {
    watched(|| {
        let hive = Builder::new().io_workers(1).attachable_workers(1).hive().unwrap();
        let early = hive.spawn_fn(|| 6);
        let handle = hive.handle();
        let program = hive.spawn(async move {
            let late = Box::pin(filch::cpu(|| 7));
            let attach = async {
                filch::yield_now().await;
                handle.attach(NewWorker::compute()).unwrap();
            };
            let (late, ()) = filch::join!(late, attach);
            handle.request_shutdown(Shutdown::Drain);
            late + early.await
        });
        hive.run().unwrap();
        assert_eq!(program.wait(), 13);
    });
}

#[test]
fn jobs_that_no_worker_was_attached_for_are_dropped_at_every_end() {
    let ends = [Shutdown::Drain, Shutdown::Abort, Shutdown::DrainFor(Duration::from_millis(1))];
    for how in ends {
        watched(move || {
            let drops = Drops::default();
            for run in [true, false] {
                let hive = Builder::new().io_workers(1).hive().unwrap();
                let job = || {
                    let token = drops.token();
                    move || drop(token)
                };
                let jobs: Vec<_> = (0..3).map(|_| hive.spawn_fn(job())).collect();
                drop(hive.task().priority(Priority::High).spawn_fn(job()));
                drop(hive.spawn_fn(job()));
                drop(filch::Handle::task(&hive).spawn_after((), job()));
                // In the end none is taken any more.
                let late = hive.handle();
                let spawns_late = hive.spawn(async move {
                    late.request_shutdown(how);
                    while late.task().try_spawn(async {}).is_ok() {
                        filch::yield_now().await;
                    }
                    filch::spawn_fn(|| ()).outcome().await.map_err(|error| error.is_cancelled())
                });
                match run {
                    true => drop(hive.run().unwrap()),
                    false => drop(hive.shutdown(how)),
                }
                assert_eq!(drops.count(), if run { 6 } else { 12 });
                for job in jobs {
                    assert!(job.wait_outcome().unwrap_err().is_cancelled());
                }
                let _ = spawns_late.wait_outcome();
            }
        });
    }
}
