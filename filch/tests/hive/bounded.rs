//! Ends with a deadline of a hive that is run or pumped: its caller goes though a task still runs, and a thread
//! of the runtime takes the place of the main worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use filch::{Builder, Handle, JoinHandle, NewWorker, Pumped, Runtime, Shutdown};

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
