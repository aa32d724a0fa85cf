//! Ends with a deadline of a hive that is run or pumped: its caller goes though a task still runs, and a thread
//! of the runtime takes the place of the main worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use filch::{
    Builder, Handle, JoinHandle, NewWorker, Pumped, Role, Runtime, Shutdown, ShutdownReport,
    WorkerInfo,
};

use crate::support::{Books, Gate, receive, until, watched};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(100);

/// The only I/O worker is the main one.
fn hive(name: &str) -> Runtime {
    Builder::new().io_workers(1).compute_workers(1).thread_name(name).hive().unwrap()
}

/// A straggler, which waits for the gate, and then for a future and a timer of the runtime.
fn spawn_straggler(handle: &Handle, gate: &Gate) -> (JoinHandle<()>, mpsc::Receiver<()>) {
    let (started, starts) = mpsc::channel();
    let gate = gate.clone();
    let job = handle.task().name("straggler").spawn_fn(move || {
        started.send(()).unwrap();
        gate.pass();
        assert!(filch::spawn(async {}).wait_outcome().unwrap_err().is_cancelled());
        filch::block_on(filch::time::sleep(MS));
    });
    (job, starts)
}

/// Asks for the end once the straggler runs.
fn ask(handle: Handle, starts: mpsc::Receiver<()>, how: Shutdown) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        receive(&starts);
        handle.request_shutdown(how);
    })
}

/// A pump whose end is asked for beside a straggler, and then finished: that returns, and names the straggler.
fn finish_beside_a_straggler(name: &str, first: impl FnOnce(&Handle), how: Shutdown) {
    let hive = hive(name);
    let (handle, gate) = (hive.handle(), Gate::default());
    let pump = hive.pump(|| ()).unwrap();
    let (job, starts) = spawn_straggler(&handle, &gate);
    receive(&starts);
    first(&handle);
    let report = pump.finish(how);
    assert_eq!(report.still_running[0].id, job.id(), "{report}");
    gate.open();
    job.wait_outcome().unwrap();
    until(|| !has_threads(name));
}

fn has_threads(prefix: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.any(|name| name.starts_with(prefix))
}

#[test]
fn run_returns_at_the_deadline_and_the_straggler_goes_on_with_a_worker_in_its_place() {
    watched(|| {
        for how in [Shutdown::AbortFor(MS), Shutdown::DrainFor(MS)] {
            let hive = hive("hb1");
            let (handle, gate) = (hive.handle(), Gate::default());
            let (job, starts) = spawn_straggler(&handle, &gate);
            let asks = ask(handle.clone(), starts, how);
            let report = hive.run().unwrap();
            asks.join().unwrap();
            assert!(report.in_background, "{report}");
            assert_eq!(report.still_running[0].id, job.id(), "{report}");
            assert_eq!(report.still_running[0].thread.as_deref(), Some("hb1-cpu-0"));
            gate.open();
            job.wait_outcome().unwrap();
            until(|| !has_threads("hb1"));
            assert!(handle.tasks().is_empty());
        }
    });
}

#[test]
fn a_single_threaded_hive_leaves_its_deque_to_the_successor() {
    watched(|| {
        let hive = Builder::new().single_thread(true).thread_name("hb2").hive().unwrap();
        let (handle, gate) = (hive.handle(), Gate::default());
        let (started, starts) = mpsc::channel();
        let pass = gate.clone();
        let closure = handle.spawn_blocking(move || {
            started.send(()).unwrap();
            pass.pass();
            let job = filch::spawn_fn(|| ()).wait_outcome().unwrap_err().is_cancelled();
            job && filch::spawn(async {}).wait_outcome().unwrap_err().is_cancelled()
        });
        let asks = ask(handle.clone(), starts, Shutdown::AbortFor(MS));
        assert!(hive.run().unwrap().in_background);
        asks.join().unwrap();
        gate.open();
        assert!(closure.wait());
        until(|| !has_threads("hb2"));
    });
}

/// A core of the program's own is called by its own thread only, and it is gone when `run` has returned.
#[test]
fn the_main_workers_own_core_goes_with_its_thread() {
    watched(|| {
        let (books, gate) = (Books::default(), Gate::default());
        let hive =
            Builder::new().io_workers(0).compute_workers(1).thread_name("hb3").hive().unwrap();
        hive.attach(NewWorker::io().event_core(books.core())).unwrap();
        let handle = hive.handle();
        let (job, starts) = spawn_straggler(&handle, &gate);
        let asks = ask(handle.clone(), starts, Shutdown::AbortFor(MS));
        assert!(hive.run().unwrap().in_background);
        asks.join().unwrap();
        drop(books.take());
        gate.open();
        job.wait_outcome().unwrap();
        until(|| !has_threads("hb3"));
        assert!(books.take().is_empty(), "nobody called it any more");
    });
}

#[test]
fn a_pump_ends_at_the_deadline_and_asks_for_no_frame_after_that() {
    watched(|| {
        let hive = hive("hb4");
        let (handle, gate) = (hive.handle(), Gate::default());
        let (asked, (ask_frame, frames)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel());
        let count = asked.clone();
        let wake = move || {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = ask_frame.send(());
        };
        let mut pump = hive.pump(wake).unwrap();
        let (job, starts) = spawn_straggler(&handle, &gate);
        let asks = ask(handle.clone(), starts, Shutdown::AbortFor(MS));
        loop {
            receive(&frames);
            if pump.run(LONG) == Pumped::Stopped {
                break;
            }
        }
        asks.join().unwrap();
        let report = pump.finish(Shutdown::Abort);
        assert_eq!(report.still_running[0].id, job.id(), "{report}");
        let before = asked.load(Ordering::SeqCst);
        gate.open();
        job.wait_outcome().unwrap();
        until(|| !has_threads("hb4"));
        assert_eq!(asked.load(Ordering::SeqCst), before);
    });
}

#[test]
fn a_hive_that_was_never_run_ends_at_the_deadline_too() {
    watched(|| {
        let hive = hive("hb5");
        let (handle, gate) = (hive.handle(), Gate::default());
        let (started, starts) = mpsc::channel();
        let pass = gate.clone();
        let closure = handle.spawn_blocking(move || {
            started.send(()).unwrap();
            pass.pass();
        });
        receive(&starts);
        let report = hive.shutdown(Shutdown::AbortFor(MS));
        assert_eq!(report.still_running[0].id, closure.id(), "{report}");
        gate.open();
        closure.wait();
        until(|| !has_threads("hb5"));
    });
}

#[test]
fn a_drain_of_a_hive_becomes_an_abort() {
    watched(|| {
        let hive = hive("hb6");
        let handle = hive.handle();
        let endless = hive.spawn(std::future::pending::<()>());
        hive.request_shutdown(Shutdown::Drain);
        let escalates = std::thread::spawn(move || {
            until(|| handle.task().try_spawn(async {}).is_err());
            handle.escalate(Shutdown::Abort);
        });
        let report = hive.run().unwrap();
        escalates.join().unwrap();
        assert_eq!(report.unfinished[0].id, endless.id(), "{report}");
        assert!(!has_threads("hb6-"));
    });
}

/// The usual flow: the program asks for the end, and its loop, which has ended, says how long that may take.
#[test]
fn finish_gives_an_end_that_was_asked_for_a_deadline() {
    watched(|| {
        for how in [Shutdown::AbortFor(MS), Shutdown::DrainFor(MS)] {
            finish_beside_a_straggler("hb7", Handle::request_stop, how);
        }
    });
}

#[test]
fn shutting_down_before_the_run_gives_an_end_that_was_asked_for_a_deadline() {
    watched(|| {
        for how in [Shutdown::AbortFor(MS), Shutdown::DrainFor(MS)] {
            let hive = hive("hb8");
            let gate = Gate::default();
            let closure = occupy_a_blocker(&hive, &gate);
            hive.request_stop();
            let report = hive.shutdown(how);
            assert_eq!(report.still_running[0].id, closure.id(), "{report}");
            gate.open();
            closure.wait();
            until(|| !has_threads("hb8"));
        }
    });
}

/// A closure that blocks until the gate opens; it runs.
fn occupy_a_blocker(handle: &Handle, gate: &Gate) -> JoinHandle<()> {
    let (started, starts) = mpsc::channel();
    let pass = gate.clone();
    let closure = handle.spawn_blocking(move || {
        started.send(()).unwrap();
        pass.pass();
    });
    receive(&starts);
    closure
}

#[test]
fn an_abort_of_a_drain_with_a_deadline_keeps_the_deadline() {
    watched(|| {
        let first = |handle: &Handle| handle.request_shutdown(Shutdown::DrainFor(MS));
        finish_beside_a_straggler("hb9", first, Shutdown::Abort);
    });
}

#[test]
fn a_pump_and_an_unrun_hive_that_are_dropped_leave_a_drain_as_it_is() {
    watched(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        for pumped in [true, false] {
            let (hive, count) = (hive("hba"), ran.clone());
            drop(hive.post_delayed(MS, move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap());
            hive.request_shutdown(Shutdown::Drain);
            if pumped { drop(hive.pump(|| ()).unwrap()) } else { drop(hive) }
        }
        assert_eq!(ran.load(Ordering::SeqCst), 2);
    });
}

/// Has the hook of the compute worker for its end say that it has begun, and block until the gate opens.
fn whose_worker_stays(name: &str, gate: &Gate) -> (Builder, mpsc::Receiver<()>) {
    let (pass, (stopping, stops)) = (gate.clone(), mpsc::channel());
    let stop = move |info: WorkerInfo| {
        if info.role == Role::Compute {
            let _ = stopping.send(());
            pass.pass();
        }
    };
    let builder = Builder::new().io_workers(1).compute_workers(1).thread_name(name);
    (builder.on_thread_stop(stop), stops)
}

/// The report names the compute worker's thread, which then ends. On a busy machine others may need longer to end than
/// they have.
fn check_thread_left(report: &ShutdownReport, prefix: &str, gate: &Gate) {
    assert!(report.in_background && report.still_running.is_empty(), "{report}");
    let name = format!("{prefix}-cpu-0");
    assert!(report.to_string().contains(&format!("{name:?}")), "{report}");
    assert!(report.threads_left.contains(&name), "{report}");
    gate.open();
    until(|| !has_threads(prefix));
}

#[test]
fn an_end_with_a_deadline_leaves_a_thread_that_does_not_end_and_names_it() {
    watched(|| {
        for how in [Shutdown::AbortFor(MS), Shutdown::DrainFor(MS)] {
            let check = |end: &dyn Fn(Builder) -> ShutdownReport| {
                let gate = Gate::default();
                let (builder, _stops) = whose_worker_stays("hbb", &gate);
                check_thread_left(&end(builder), "hbb", &gate);
            };
            check(&|builder| builder.build().unwrap().shutdown(how));
            check(&|builder| builder.hive().unwrap().pump(|| ()).unwrap().finish(how));
            check(&|builder| {
                let hive = builder.hive().unwrap();
                hive.request_shutdown(how);
                hive.run().unwrap()
            });
        }
    });
}

#[test]
fn an_end_whose_threads_do_not_end_may_get_a_deadline_meanwhile() {
    watched(|| {
        let check = |end: &dyn Fn(Runtime) -> ShutdownReport| {
            let gate = Gate::default();
            let (builder, stops) = whose_worker_stays("hbc", &gate);
            let hive = builder.hive().unwrap();
            let handle = hive.handle();
            // An end of a hive without tasks starts no thread.
            drop(hive.spawn(async {}));
            hive.request_stop();
            let impatient = std::thread::spawn(move || {
                receive(&stops);
                handle.escalate(Shutdown::AbortFor(MS));
            });
            let report = end(hive);
            impatient.join().unwrap();
            check_thread_left(&report, "hbc", &gate);
        };
        check(&|hive| hive.run().unwrap());
        check(&|hive| hive.pump(|| ()).unwrap().finish(Shutdown::Drain));
        check(&|hive| hive.shutdown(Shutdown::Drain));
    });
}
