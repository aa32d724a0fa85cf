//! Ends with a deadline: they return although a task still runs, and say which; the rest of the end goes on
//! without the caller.

use std::future::pending;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use filch::{Builder, JoinHandle, Runtime, Shutdown, ShutdownReport, TaskState};

use crate::kit::{Gate, Opener, assert_no_thread_named, eventually, in_child, receive};

const MS: Duration = Duration::from_millis(1);

/// An end that takes longer than this has waited for the straggler.
const LONG: Duration = Duration::from_secs(30);

fn runtime(name: &str) -> Runtime {
    Builder::new().workers(2).thread_name(name).build().unwrap()
}

/// Ends the runtime on another thread; panics if that takes as long as the straggler.
#[track_caller]
fn end(runtime: Runtime, how: Shutdown) -> ShutdownReport {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        let began = Instant::now();
        tx.send((runtime.shutdown(how), began.elapsed()))
    });
    let (report, time) = receive(&rx, "the end of the runtime");
    assert!(time < LONG, "it took {time:?}");
    report
}

/// What a task is stuck in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stuck {
    Blocking,
    Job,
    /// A future inside of a poll.
    Poll,
    /// A future inside of a poll, inside of a `block_on` there.
    BlockOn,
}

/// Spawns a task that is stuck until the opener is dropped; returns once it runs.
fn spawn_stuck(runtime: &Runtime, stuck: Stuck) -> (JoinHandle<u32>, Opener) {
    let (gate, opener) = Gate::new();
    let (started, starts) = mpsc::channel();
    let body = move || {
        started.send(()).unwrap();
        gate.pass();
        7
    };
    let task = runtime.task().name("straggler");
    let handle = match stuck {
        Stuck::Blocking => task.spawn_blocking(body),
        Stuck::Job => task.spawn_fn(body),
        Stuck::Poll => task.spawn(async move { body() }),
        Stuck::BlockOn => task.spawn(async move { filch::block_on(async move { body() }) }),
    };
    receive(&starts, "the straggler runs");
    (handle, opener)
}

#[test]
fn an_end_with_a_deadline_returns_beside_a_straggler_and_names_it_with_its_thread() {
    for stuck in [Stuck::Blocking, Stuck::Job, Stuck::Poll, Stuck::BlockOn] {
        for how in [Shutdown::AbortFor(20 * MS), Shutdown::DrainFor(MS)] {
            let runtime = runtime("bnd");
            let (handle, opener) = spawn_stuck(&runtime, stuck);
            let waiting = runtime.task().name("waiting").spawn(pending::<()>());
            eventually("it waits", || {
                runtime.tasks().iter().any(|task| task.state == TaskState::Waiting)
            });
            let report = end(runtime, how);
            let text = report.to_string();
            assert_eq!(report.unfinished.len(), 2, "{stuck:?}: {text}");
            assert!(waiting.wait_outcome().unwrap_err().is_cancelled());
            assert!(report.in_background);
            let [straggler] = &report.still_running[..] else { panic!("{stuck:?}: {text}") };
            assert_eq!(straggler.id, handle.id());
            assert_eq!(straggler.name.as_deref(), Some("straggler"));
            assert_eq!(straggler.state, TaskState::Running);
            assert_eq!(straggler.spawned_at.file(), file!());
            let thread = match stuck {
                Stuck::Blocking => "bnd-block-0",
                Stuck::Job => "bnd-cpu-",
                Stuck::Poll | Stuck::BlockOn => "bnd-io-",
            };
            assert!(straggler.thread.as_deref().unwrap().starts_with(thread), "{text}");
            assert!(text.contains("1 task still there at the deadline:"), "{text}");
            assert!(text.contains(&format!("running on thread \"{thread}")), "{text}");
            drop(opener);
            assert_eq!(handle.wait_outcome().unwrap(), 7);
            assert_no_thread_named("bnd");
        }
    }
}

#[test]
fn an_abort_with_a_deadline_returns_at_once_when_all_tasks_are_gone() {
    let runtime = runtime("bno");
    drop(runtime.spawn(pending::<()>()));
    let began = Instant::now();
    let report = end(runtime, Shutdown::AbortFor(2 * LONG));
    assert!(began.elapsed() < LONG);
    assert_eq!((report.unfinished.len(), report.still_running.len()), (1, 0), "{report}");
    assert!(!report.in_background);
    assert_no_thread_named("bno");
}

#[test]
fn an_abort_without_any_time_returns_with_what_is_there() {
    let runtime = runtime("bnz");
    let (handle, opener) = spawn_stuck(&runtime, Stuck::Job);
    let report = end(runtime, Shutdown::AbortFor(Duration::ZERO));
    assert_eq!(report.still_running[0].id, handle.id());
    drop(opener);
    assert_eq!(handle.wait(), 7);
    assert_no_thread_named("bnz");
}

/// The deadline of a `DrainFor` comes, and then tasks are dropped, one of which takes its time.
#[test]
fn tasks_that_a_worker_cannot_drop_are_reported_with_the_one_that_keeps_it() {
    let runtime = Builder::new()
        .io_workers(1)
        .io_spares(0)
        .compute_workers(1)
        .thread_name("bnk")
        .build()
        .unwrap();
    let (stuck, opener) = spawn_stuck(&runtime, Stuck::Poll);
    let queued = runtime.spawn(async {});
    let report = end(runtime, Shutdown::DrainFor(MS));
    let states: Vec<_> = report.still_running.iter().map(|task| (task.id, task.state)).collect();
    let expected = [(stuck.id(), TaskState::Running), (queued.id(), TaskState::Queued)];
    assert_eq!(states, expected, "{report}");
    drop(opener);
    assert_eq!(stuck.wait(), 7);
    assert!(queued.wait_outcome().unwrap_err().is_cancelled());
    assert_no_thread_named("bnk");
}

#[test]
fn a_block_on_of_another_thread_holds_up_no_end_with_a_deadline() {
    let runtime = runtime("bnb");
    let handle = runtime.handle();
    let (gate, opener) = Gate::new();
    let (started, starts) = mpsc::channel();
    let inside = std::thread::spawn(move || {
        handle.block_on(async move {
            started.send(()).unwrap();
            gate.pass();
            filch::spawn(async { 1 }).outcome().await.unwrap_err().is_cancelled()
        })
    });
    receive(&starts, "the call is inside");
    let report = end(runtime, Shutdown::AbortFor(MS));
    assert!(report.in_background && report.still_running.is_empty(), "{report}");
    assert!(report.to_string().contains("a call outside of all tasks"), "{report}");
    drop(opener);
    assert!(inside.join().unwrap(), "what it spawned was cancelled at birth");
    assert_no_thread_named("bnb");
}

/// The job runs on a thread of the program, which waits for it.
#[test]
fn a_straggler_on_a_thread_of_the_program_is_named_without_a_thread() {
    let runtime = Builder::new().workers(1).thread_name("bnf").build().unwrap();
    let (busy, opener) = spawn_stuck(&runtime, Stuck::Job);
    let (gate, own_opener) = Gate::new();
    let (started, starts) = mpsc::channel();
    let job = runtime.task().name("claimed").spawn_fn(move || {
        started.send(()).unwrap();
        gate.pass();
    });
    let waiter = std::thread::spawn(move || job.wait());
    receive(&starts, "the waiter runs the job");
    let report = end(runtime, Shutdown::AbortFor(MS));
    let claimed = report.still_running.iter().find(|t| t.name.as_deref() == Some("claimed"));
    assert_eq!(claimed.unwrap().thread, None, "{report}");
    drop(own_opener);
    waiter.join().unwrap();
    drop(opener);
    assert_eq!(busy.wait(), 7);
    assert_no_thread_named("bnf");
}

#[test]
fn a_second_runtime_and_the_default_one_do_not_notice_the_end_in_the_background() {
    let (first, second) = (runtime("bn1"), runtime("bn2"));
    let (handle, opener) = spawn_stuck(&first, Stuck::Job);
    let other = first.handle();
    let report = end(first, Shutdown::AbortFor(MS));
    assert!(report.in_background);
    assert_eq!(second.spawn(async { 1 }).wait(), 1);
    assert_eq!(filch::spawn_fn(|| 2).wait(), 2);
    assert!(other.task().try_spawn(async {}).is_err(), "it has ended for everybody else");
    second.shutdown(Shutdown::Drain);
    drop(opener);
    assert_eq!(handle.wait(), 7);
    assert_no_thread_named("bn1");
    assert!(other.tasks().is_empty());
}

#[test]
fn an_end_in_the_background_rests() {
    let runtime = runtime("bnr");
    let (handle, opener) = spawn_stuck(&runtime, Stuck::Job);
    let other = runtime.handle();
    end(runtime, Shutdown::AbortFor(MS));
    eventually("all sleep but the straggler", || {
        let awake: usize = other.snapshot().lanes.iter().map(|lane| lane.awake).sum();
        awake == 1
    });
    drop(opener);
    assert_eq!(handle.wait(), 7);
    assert_no_thread_named("bnr");
}

#[test]
fn a_drain_that_waits_for_ever_becomes_an_abort() {
    let runtime = runtime("bne");
    drop(runtime.task().name("endless").spawn(pending::<()>()));
    let handle = runtime.handle();
    let impatient = std::thread::spawn(move || {
        eventually("the drain has begun", || handle.task().try_spawn(async {}).is_err());
        handle.escalate(Shutdown::Abort);
    });
    let report = end(runtime, Shutdown::Drain);
    impatient.join().unwrap();
    assert_eq!(report.unfinished[0].name.as_deref(), Some("endless"));
    assert!(!report.in_background);
    assert_no_thread_named("bne");
}

#[test]
fn an_abort_that_waits_for_ever_gets_a_deadline() {
    let runtime = runtime("bnd2");
    let (stuck, opener) = spawn_stuck(&runtime, Stuck::Blocking);
    let handle = runtime.handle();
    let impatient = std::thread::spawn(move || {
        eventually("the end has begun", || handle.task().try_spawn(async {}).is_err());
        handle.escalate(Shutdown::AbortFor(MS));
    });
    let report = end(runtime, Shutdown::Drain);
    impatient.join().unwrap();
    assert_eq!(report.still_running[0].id, stuck.id(), "{report}");
    drop(opener);
    assert_eq!(stuck.wait(), 7);
    assert_no_thread_named("bnd2");
}

#[test]
fn an_escalation_before_the_end_counts_and_one_that_is_less_strict_does_not() {
    let first = runtime("bnl");
    drop(first.spawn(pending::<()>()));
    first.escalate(Shutdown::AbortFor(LONG));
    first.escalate(Shutdown::Drain);
    let report = end(first, Shutdown::Drain);
    assert_eq!(report.unfinished.len(), 1, "{report}");
    let second = runtime("bnl");
    let handle = second.handle();
    let (gate, opener) = Gate::new();
    let done = second.spawn_fn(move || {
        gate.pass();
        3
    });
    let mild = std::thread::spawn(move || {
        eventually("the drain has begun", || handle.task().try_spawn(async {}).is_err());
        handle.escalate(Shutdown::Drain);
        drop(opener);
    });
    assert!(end(second, Shutdown::DrainFor(2 * LONG)).unfinished.is_empty());
    mild.join().unwrap();
    assert_eq!(done.wait(), 3);
    assert_no_thread_named("bnl");
}

#[test]
fn tasks_name_the_thread_of_those_that_run() {
    let runtime = runtime("bnt");
    let (handle, opener) = spawn_stuck(&runtime, Stuck::Blocking);
    let waiting = runtime.spawn(pending::<()>());
    let thread = |id| runtime.tasks().into_iter().find(|task| task.id == id).unwrap().thread;
    assert_eq!(thread(handle.id()).as_deref(), Some("bnt-block-0"));
    eventually("it waits", || thread(waiting.id()).is_none());
    drop(opener);
    assert_eq!(handle.wait(), 7);
}

/// The only compute worker is inside of a job that awaits another one, which no worker is free to drop.
#[test]
fn an_abort_drops_a_queued_job_that_the_only_worker_awaits() {
    let runtime = Builder::new()
        .io_workers(1)
        .compute_workers(1)
        .compute_spares(0)
        .thread_name("bnq")
        .build()
        .unwrap();
    let (send, receives) = mpsc::channel::<JoinHandle<()>>();
    let (started, starts) = mpsc::channel();
    let waiter = runtime.spawn_fn(move || {
        started.send(()).unwrap();
        let queued = receives.recv().unwrap();
        filch::block_on(queued.outcome()).unwrap_err().is_cancelled()
    });
    receive(&starts, "the worker is taken");
    send.send(runtime.spawn_fn(|| ())).unwrap();
    let report = end(runtime, Shutdown::Abort);
    assert_eq!(report.unfinished.len(), 2, "{report}");
    assert!(waiter.wait());
    assert_no_thread_named("bnq");
}

#[test]
fn a_process_may_exit_beside_stragglers() {
    in_child("bounded::a_process_may_exit_beside_stragglers", &[], || {
        for stuck in [Stuck::Blocking, Stuck::Job, Stuck::Poll, Stuck::BlockOn] {
            let runtime = runtime("bnx");
            let (handle, opener) = spawn_stuck(&runtime, stuck);
            assert!(end(runtime, Shutdown::AbortFor(MS)).in_background);
            std::mem::forget((handle, opener));
        }
    });
}
