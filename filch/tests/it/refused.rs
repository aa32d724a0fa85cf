//! A runtime that closes says no, and gives back what it was offered.

use filch::Shutdown;

use crate::support::{Drops, Gate, until};
use crate::watchdog::watched;

#[test]
fn try_spawn_after_shutdown_hands_the_body_back_whole() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let handle = runtime.handle();
        runtime.shutdown(Shutdown::Drain);
        let drops = Drops::default();
        let token = drops.token();
        let refused = handle.task().try_spawn_fn(move || {
            drop(token);
            7
        });
        let job = refused.expect_err("closed").0;
        assert_eq!(drops.count(), 0, "handed back, not dropped");
        assert_eq!(job(), 7);
        assert_eq!(drops.count(), 1);
        let token = drops.token();
        let refused = handle.task().try_spawn(async move {
            drop(token);
            8
        });
        let future = refused.expect_err("closed").0;
        assert_eq!(drops.count(), 1, "handed back, not dropped");
        assert_eq!(filch::block_on(future), 8);
    });
}

#[test]
fn spawn_after_shutdown_drops_the_body_and_reports_it_cancelled() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let handle = runtime.handle();
        runtime.shutdown(Shutdown::Drain);
        let drops = Drops::default();
        let token = drops.token();
        let job = handle.spawn_fn(move || drop(token));
        assert!(job.is_finished());
        assert_eq!(drops.count(), 1);
        assert!(job.wait_outcome().unwrap_err().is_cancelled());
        let token = drops.token();
        let task = handle.spawn(async move { drop(token) });
        assert!(filch::block_on(task.outcome()).unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 2);
    });
}

#[test]
fn member_spawns_while_draining_and_stranger_is_refused() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (stranger, gate, drops) = (runtime.handle(), Gate::default(), Drops::default());
        let member = runtime.spawn({
            let (gate, drops) = (gate.clone(), drops.clone());
            async move {
                gate.await;
                let token = drops.token();
                drop(filch::spawn(async move { drop(token) }));
            }
        });
        let drain = std::thread::spawn(move || runtime.shutdown(Shutdown::Drain));
        until(|| stranger.task().try_spawn_fn(|| ()).is_err());
        gate.open();
        assert!(drain.join().unwrap().unfinished.is_empty());
        assert!(member.is_finished());
        assert_eq!(drops.count(), 1, "the member's child ran");
    });
}

#[test]
fn abort_drops_every_body_once_and_names_the_unfinished() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let (gate, token) = (gate.clone(), drops.token());
                runtime.task().name("waits").spawn(async move {
                    gate.await;
                    drop(token);
                })
            })
            .collect();
        until(|| gate.waiters() == 100);
        let report = runtime.shutdown(Shutdown::Abort);
        assert_eq!(report.unfinished.len(), 100);
        assert!(report.unfinished.iter().all(|task| task.name.as_deref() == Some("waits")));
        assert_eq!(drops.count(), 100);
        for task in waiting {
            assert!(task.wait_outcome().unwrap_err().is_cancelled());
        }
    });
}

#[test]
fn handle_used_on_a_thread_that_never_saw_the_runtime_runs_on_its_workers() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().workers(1).thread_name("afar"));
        let handle = runtime.handle();
        let name = |thread: std::thread::Thread| thread.name().unwrap_or("").to_owned();
        let (task, job) = std::thread::spawn(move || {
            let task = handle.spawn(async move { name(std::thread::current()) });
            let job = handle.spawn_fn(move || name(std::thread::current()));
            filch::block_on(async { (task.await, job.await) })
        })
        .join()
        .unwrap();
        assert!(task.starts_with("afar"), "{task}");
        assert!(job.starts_with("afar"), "{job}");
    });
}
