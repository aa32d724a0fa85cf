//! The life of a hive: registered, run by its caller, asked to stop, ended with all its tasks.

use std::future::{Future, poll_fn};
use std::io::{BufRead, BufReader, Read, Write};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};
use std::time::Duration;

use filch::testkit::FakeCore;
use filch::{
    Builder, DetachError, EventCore, Graph, NewWorker, Role, Shutdown, WorkerState, worker,
};

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

/// Panics when it is dropped, and so does its waker.
struct Brittle(FakeCore);

struct BrittleWaker(Waker);

impl EventCore for Brittle {
    fn poll(&mut self) -> usize {
        self.0.poll()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.0.park(timeout);
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(BrittleWaker(self.0.waker())))
    }
}

impl Wake for BrittleWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        resume_unwind(Box::new("the core"));
    }
}

impl Drop for BrittleWaker {
    fn drop(&mut self) {
        resume_unwind(Box::new("its waker"));
    }
}

fn brittle(compute: usize) -> Builder {
    let builder = Builder::new().io_workers(1).compute_workers(compute);
    builder.event_core(|_| Box::new(Brittle(FakeCore::new())))
}

#[test]
fn a_core_that_panics_in_its_drop_does_not_cost_the_report() {
    watched(|| {
        let runtime = brittle(1).build().unwrap();
        let stuck = runtime.spawn(std::future::pending::<()>()).id();
        let report = runtime.shutdown(Shutdown::Abort);
        assert_eq!(report.unfinished.iter().map(|task| task.id).collect::<Vec<_>>(), [stuck]);

        let hive = brittle(1).hive().unwrap();
        let (handle, stuck) = (hive.handle(), hive.spawn(std::future::pending::<()>()).id());
        hive.post(move || handle.request_stop()).unwrap();
        let report = hive.run().unwrap();
        assert_eq!(report.unfinished.iter().map(|task| task.id).collect::<Vec<_>>(), [stuck]);

        // Nobody has run it: no thread has ever had the core.
        assert!(brittle(1).hive().unwrap().shutdown(Shutdown::Drain).unfinished.is_empty());
    });
}

#[test]
fn a_callback_of_a_pump_that_panics_in_its_drop_does_not_cost_the_report() {
    struct Callback;
    impl Drop for Callback {
        fn drop(&mut self) {
            resume_unwind(Box::new("the callback"));
        }
    }
    watched(|| {
        let hive = brittle(1).hive().unwrap();
        let stuck = hive.spawn(std::future::pending::<()>()).id();
        let callback = Callback;
        let pump = hive.pump(move || _ = &callback).unwrap();
        let report = pump.finish(Shutdown::Abort);
        assert_eq!(report.unfinished.iter().map(|task| task.id).collect::<Vec<_>>(), [stuck]);
    });
}

#[test]
fn each_panic_of_a_hook_for_threads_reaches_the_hook_for_panics() {
    watched(|| {
        let (send, panics) = mpsc::channel();
        let builder = Builder::new().io_workers(2).compute_workers(1);
        let line = line!() + 1;
        let builder = builder.on_thread_start(|_| resume_unwind(Box::new("start")));
        let builder = builder.on_thread_stop(|_| resume_unwind(Box::new("stop"))).on_panic(
            move |panic: filch::PanicInfo| {
                let name = panic.name.clone().unwrap();
                send.send((panic.message().to_owned(), name, panic.task, panic.spawned_at))
                    .unwrap();
            },
        );
        let runtime = builder.build().unwrap();
        assert_eq!(runtime.spawn_fn(|| 7).wait(), 7, "they work all the same");
        runtime.shutdown(Shutdown::Drain);
        let mut panics: Vec<_> = panics.try_iter().collect();
        panics.sort_by_key(|panic| panic.1.clone());
        let said: Vec<_> = panics.iter().map(|panic| (&*panic.0, &*panic.1)).collect();
        let expected = [
            ("start", "on_thread_start of cpu-0"),
            ("start", "on_thread_start of io-0"),
            ("start", "on_thread_start of io-1"),
            ("stop", "on_thread_stop of cpu-0"),
            ("stop", "on_thread_stop of io-0"),
            ("stop", "on_thread_stop of io-1"),
        ];
        assert_eq!(said, expected);
        assert!(panics.iter().all(|panic| panic.2 == 0 && panic.3.file().ends_with("life.rs")));
        assert_eq!(panics[0].3.line(), line);
    });
}

const CHILD: &str = "FILCH_TEST_WAITS_FOR_NOBODY";

/// Threads wait for a hive, which is run once somebody has read that they do.
/// Begins to wait for a task before its hive is run. Returns how to end that.
fn wait_for_a_hive_that_is_run_meanwhile() -> impl FnOnce() {
    let hive = Builder::new().io_workers(1).compute_workers(1).hive().unwrap();
    let (end, ended) = filch::sync::oneshot::channel();
    let mut task = hive.spawn(async move { ended.await.unwrap() });
    let (told, polled) = mpsc::channel();
    let waiter = std::thread::Builder::new().name("served".into()).spawn(move || {
        filch::block_on(poll_fn(|cx| {
            let poll = Pin::new(&mut task).poll(cx);
            let _ = told.send(());
            poll
        }))
    });
    polled.recv().unwrap();
    let stop = hive.handle();
    let runs = std::thread::spawn(move || hive.run().unwrap());
    move || {
        end.send(()).unwrap();
        waiter.unwrap().join().unwrap();
        stop.request_stop();
        runs.join().unwrap();
    }
}

fn wait_for_nobody() {
    type Waits = Box<dyn FnOnce() -> i32 + Send>;
    let served = wait_for_a_hive_that_is_run_meanwhile();
    let builder = Builder::new().io_workers(1).compute_workers(1).adoptable_threads(1);
    let hive = builder.hive().unwrap();
    let spawn = |value| hive.task().name("kept").spawn(async move { value });
    let (task, polled, outcome) = (spawn(1), spawn(2), spawn(3));
    let elsewhere = Builder::new().workers(1).build().unwrap();
    let (inside, inline, adopts) = (hive.handle(), hive.handle(), hive.handle());
    let waiters: [(&str, Waits); 6] = [
        ("waits", Box::new(|| task.wait())),
        (
            "blocks",
            Box::new(move || {
                inside.block_on(async {
                    filch::time::sleep(MS).await;
                    0
                })
            }),
        ),
        ("awaits", Box::new(|| filch::block_on(polled))),
        (
            "elsewhere",
            Box::new(move || elsewhere.block_on(async { outcome.outcome().await.unwrap() })),
        ),
        (
            "runs",
            Box::new(move || {
                let mut graph = Graph::new();
                let node = graph.async_node("sleeps", || async {
                    filch::time::sleep(MS).await;
                    4
                });
                inline.block_on_fn(|| graph.run().take(node))
            }),
        ),
        (
            "run",
            Box::new(move || {
                let mut graph = Graph::new();
                let node = graph.async_node("polled", || async { 5 });
                let adopted = adopts.adopt().unwrap();
                let run = Arc::new(graph).run_async();
                drop(adopted);
                run.wait().take(node)
            }),
        ),
    ];
    let waiters = waiters
        .map(|(name, waits)| std::thread::Builder::new().name(name.into()).spawn(waits).unwrap());
    std::io::stdin().read_exact(&mut [0]).unwrap();
    served();
    let stop = hive.handle();
    let ending = std::thread::spawn(move || {
        let values = waiters.map(|waiter| waiter.join().unwrap());
        stop.request_stop();
        values
    });
    hive.run().unwrap();
    assert_eq!(ending.join().unwrap(), [1, 0, 2, 3, 4, 5]);
}

#[test]
fn whoever_waits_for_a_hive_that_nobody_runs_is_named_after_a_second_and_goes_on_waiting() {
    if std::env::var_os(CHILD).is_some() {
        return wait_for_nobody();
    }
    watched(|| {
        const TEST: &str = "life::whoever_waits_for_a_hive_that_nobody_runs_is_named_after_a_second_and_goes_on_waiting";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut lines = lines.filter(|line| line.starts_with("filch: "));
        let mut told: Vec<_> = lines.by_ref().take(6).collect();
        told.sort();
        let expected = [
            ("awaits", "task ", "spawned at filch/tests/hive/life.rs:"),
            ("blocks", "a `block_on`", ""),
            ("elsewhere", "task ", "spawned at filch/tests/hive/life.rs:"),
            ("run", "a run of a graph", ""),
            ("runs", "a run of a graph", ""),
            ("waits", "task ", "\"kept\" spawned at filch/tests/hive/life.rs:"),
        ];
        let hint = ", but nobody runs its hive: call `Runtime::run` or `Runtime::pump`";
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (line, (thread, begin, part)) in told.iter().zip(expected) {
            let begin = format!("filch: thread `{thread}` has waited a second for {begin}");
            assert!(line.starts_with(&begin), "{line}");
            assert!(line.contains(part) && line.contains(hint), "{line}");
        }
        child.stdin.take().unwrap().write_all(b"!").unwrap();
        assert_eq!(lines.next(), None, "the wait for a hive that is run by now is not named");
        assert!(child.wait().unwrap().success());
    });
}
