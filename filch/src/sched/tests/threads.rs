//! Threads that cannot start: who says so, and who does not wait for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::base::parker::Parker;
use crate::base::thread::refused::refuse;
use crate::error::BuildError;
use crate::sched::core::{EventCore, ParkCore};
use crate::sched::shared::Phase;
use crate::sched::shutdown::Shutdown;
use crate::{Builder, IoBackend, Role};

const PATIENCE: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

/// Calls `f` on a thread of its own; panics if that never ends.
#[track_caller]
fn bounded<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(f()));
    receive.recv_timeout(PATIENCE).expect("it ends")
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Spawns a job the first time that its worker looks for events.
struct SpawningCore {
    inner: ParkCore,
    spawned: Option<mpsc::Sender<()>>,
}

impl EventCore for SpawningCore {
    fn poll(&mut self) -> usize {
        if let Some(spawned) = self.spawned.take() {
            drop(crate::spawn_fn(|| ()));
            spawned.send(()).unwrap();
        }
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.poll();
        self.inner.park(timeout);
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }
}

#[test]
fn a_build_that_fails_drops_a_job_that_an_event_core_has_spawned_for_a_missing_worker() {
    let error = bounded(|| {
        let (spawned, spawns) = mpsc::channel();
        let _refused = refuse("tn1-cpu", move || spawns.recv_timeout(PATIENCE).unwrap());
        let builder = Builder::new().io_workers(1).compute_workers(1).thread_name("tn1");
        let core = move |info: crate::WorkerInfo| {
            let spawned = (info.role == Role::Io && info.index == 0).then(|| spawned.clone());
            Box::new(SpawningCore { inner: ParkCore::new(), spawned }) as Box<dyn EventCore>
        };
        builder.event_core(core).build().unwrap_err()
    });
    assert!(matches!(&error, BuildError::Thread { name, .. } if name == "tn1-cpu-0"), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("cannot start thread \"tn1-cpu-0\": "), "{text}");
    assert!(text.ends_with("(a limit of processes, threads or memory)"), "{text}");
}

#[test]
fn a_closure_that_no_thread_can_be_started_for_says_so() {
    let panics = Arc::new(AtomicUsize::new(0));
    let count = panics.clone();
    let runtime = Builder::new()
        .workers(1)
        .thread_name("tn2")
        .on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst))
        .build()
        .unwrap();
    let refused = refuse("tn2-block", || ());
    let handle = runtime.task().name("reader").spawn_blocking(|| 1);
    let line = line!() - 1;
    let error = handle.wait_outcome().unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic());
    let text = error.to_string();
    let site = format!("\"reader\" spawned at {}:{line}:", file!());
    assert!(text.starts_with("no thread could be started for task "), "{text}");
    assert!(text.contains(&site), "{text}");
    assert!(text.contains("cannot start thread \"tn2-block-0\": "), "{text}");
    assert!(text.contains("(a limit of processes"), "{text}");
    // Whoever waits for the value panics with it.
    let waits = runtime.spawn_blocking(|| 1);
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waits.wait()));
    let payload = waited.unwrap_err().downcast::<String>().unwrap();
    assert!(payload.starts_with("no thread could be started for task "), "{payload}");
    drop(runtime.spawn_blocking(|| 1));
    assert_eq!(panics.load(Ordering::SeqCst), 0, "nobody panicked");
    assert!(
        runtime.describe().to_string().contains("refused: cannot start thread \"tn2-block-0\"")
    );
    drop(refused);
    assert_eq!(runtime.spawn_blocking(|| 1).wait(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_system_call_that_no_thread_can_be_started_for_says_so() {
    let runtime =
        Builder::new().workers(1).thread_name("tn3").io_backend(IoBackend::Epoll).build().unwrap();
    let refused = refuse("tn3-block", || ());
    let read = || runtime.block_on(crate::fs::read("/proc/self/status"));
    let text = read().unwrap_err().to_string();
    assert!(text.contains("no thread could be started for the system call: "), "{text}");
    assert!(text.contains("(a limit of processes, threads or memory)"), "{text}");
    drop(refused);
    assert!(!read().unwrap().is_empty());
}

/// Nobody but the dropper can drop the job, and the end goes on when it can start.
#[test]
fn a_dropper_that_cannot_start_says_so() {
    let runtime = Builder::new()
        .io_workers(1)
        .compute_workers(1)
        .compute_spares(0)
        .thread_name("tn4")
        .build()
        .unwrap();
    let (send, receives) = mpsc::channel::<crate::JoinHandle<()>>();
    let (started, starts) = mpsc::channel();
    let waiter = runtime.spawn_fn(move || {
        started.send(()).unwrap();
        crate::block_on(receives.recv().unwrap().outcome()).unwrap_err().is_cancelled()
    });
    starts.recv_timeout(PATIENCE).unwrap();
    send.send(runtime.spawn_fn(|| ())).unwrap();
    let refused = refuse("tn4-drop", || ());
    let handle = runtime.handle();
    let ends = std::thread::spawn(move || runtime.shutdown(Shutdown::Abort));
    eventually("it says so", || {
        let text = handle.describe().to_string();
        text.contains("refused: cannot start thread \"tn4-drop\"")
    });
    drop(refused);
    ends.join().unwrap();
    assert!(waiter.wait());
}

#[test]
fn a_hive_whose_threads_cannot_start_names_them_and_reports_what_it_dropped() {
    let refused = refuse("tn5-cpu", || ());
    let hive =
        || Builder::new().io_workers(1).compute_workers(1).thread_name("tn5").hive().unwrap();
    let error = bounded(move || hive().run().unwrap_err().to_string());
    assert!(error.starts_with("cannot start thread \"tn5-cpu-0\": "), "{error}");
    let (report, handle) = bounded(move || {
        let hive = hive();
        drop(hive.task().name("kept").spawn_fn(|| ()));
        let handle = hive.handle();
        (hive.shutdown(Shutdown::Drain), handle)
    });
    assert_eq!(report.unfinished[0].name.as_deref(), Some("kept"), "{report}");
    assert!(handle.describe().to_string().contains("refused: cannot start thread \"tn5-cpu-0\""));
    drop(refused);
}

/// A closure that blocks until the sender is dropped; it runs.
fn occupy_a_blocker(handle: &crate::Handle) -> (mpsc::Sender<()>, crate::JoinHandle<bool>) {
    let (release, held) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let closure = handle.spawn_blocking(move || {
        started.send(()).unwrap();
        let _ = held.recv();
        // Whoever still runs may need a worker.
        crate::spawn(async {}).wait_outcome().unwrap_err().is_cancelled()
    });
    starts.recv_timeout(PATIENCE).unwrap();
    (release, closure)
}

/// Threads may start again, and what still ran may end: then nothing of the runtime is left.
fn goes_by_itself(
    release: mpsc::Sender<()>,
    closure: crate::JoinHandle<bool>,
    refused: impl Sized,
    handle: crate::Handle,
) {
    drop(release);
    assert!(bounded(move || closure.wait()));
    drop(refused);
    let pool = Arc::downgrade(&handle.arc().pool);
    drop(handle);
    eventually("the rest goes by itself", || pool.strong_count() == 0);
}

#[test]
fn a_hive_whose_threads_cannot_start_ends_at_its_deadline_beside_a_straggler() {
    for how in [Shutdown::AbortFor(MS), Shutdown::DrainFor(MS)] {
        let refused = refuse("tn7-cpu", || ());
        let hive =
            Builder::new().io_workers(1).compute_workers(1).thread_name("tn7").hive().unwrap();
        let handle = hive.handle();
        let (release, closure) = occupy_a_blocker(&handle);
        let report = bounded(move || hive.shutdown(how));
        assert!(report.in_background, "{report}");
        assert_eq!(report.still_running[0].id, closure.id(), "{report}");
        goes_by_itself(release, closure, refused, handle);
    }
}

#[test]
fn a_run_whose_threads_cannot_start_returns_at_the_deadline_that_it_gets_meanwhile() {
    let refused = refuse("tn8-cpu", || ());
    let hive = Builder::new().io_workers(1).compute_workers(1).thread_name("tn8").hive().unwrap();
    let handle = hive.handle();
    let (release, closure) = occupy_a_blocker(&handle);
    let impatient = std::thread::spawn({
        let handle = handle.clone();
        move || {
            eventually("the end has begun", || handle.task().try_spawn(async {}).is_err());
            handle.escalate(Shutdown::AbortFor(MS));
        }
    });
    let error = bounded(move || hive.run().unwrap_err().to_string());
    assert!(error.starts_with("cannot start thread \"tn8-cpu-0\": "), "{error}");
    impatient.join().unwrap();
    goes_by_itself(release, closure, refused, handle);
}

/// Waits for a closure when it is dropped.
struct WaitsInDrop(Option<crate::JoinHandle<()>>);

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        self.0.take().unwrap().wait();
    }
}

#[test]
fn a_task_may_wait_in_its_drop_where_threads_cannot_start() {
    let panics = Arc::new(AtomicUsize::new(0));
    let count = panics.clone();
    let refused = refuse("tn9-cpu", || ());
    let hive = Builder::new()
        .io_workers(1)
        .compute_workers(1)
        .thread_name("tn9")
        .on_panic(move |_| _ = count.fetch_add(1, Ordering::SeqCst))
        .hive()
        .unwrap();
    let (started, starts) = mpsc::channel();
    let closure = hive.spawn_blocking(move || {
        started.send(()).unwrap();
        std::thread::sleep(50 * MS);
    });
    starts.recv_timeout(PATIENCE).unwrap();
    let waits = WaitsInDrop(Some(closure));
    drop(hive.spawn_fn(move || drop(waits)));
    let report = bounded(move || hive.shutdown(Shutdown::Abort));
    assert!(!report.in_background, "{report}");
    assert_eq!(panics.load(Ordering::SeqCst), 0, "nobody panicked");
    drop(refused);
}

#[test]
fn an_unrun_hive_that_has_ended_is_no_longer_unserved() {
    let hive = Builder::new().io_workers(1).hive().unwrap();
    let handle = hive.handle();
    assert!(handle.arc().pool.is_unserved());
    hive.shutdown(Shutdown::Abort);
    assert!(!handle.arc().pool.is_unserved());
}

/// Takes wakes in its `poll` too, as a loop does whose waker is one of its events.
struct GreedyCore {
    bed: Arc<Parker>,
    handle: Arc<OnceLock<crate::Handle>>,
}

impl EventCore for GreedyCore {
    fn poll(&mut self) -> usize {
        let Some(handle) = self.handle.get() else { return 0 };
        while handle.arc().phase() < Phase::Background {
            std::thread::sleep(MS);
        }
        // So that the wake has come.
        std::thread::sleep(20 * MS);
        self.bed.park_timeout(Duration::ZERO);
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            None => self.bed.park(),
            Some(timeout) => _ = self.bed.park_timeout(timeout),
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.bed.clone())
    }
}

#[test]
fn a_main_worker_goes_at_the_deadline_though_its_core_has_taken_the_wake() {
    let shown = Arc::new(OnceLock::new());
    let hive = {
        let shown = shown.clone();
        let core = move |info: crate::WorkerInfo| match info.role {
            Role::Io if info.index == 0 => {
                let (bed, handle) = (Arc::new(Parker::new()), shown.clone());
                Box::new(GreedyCore { bed, handle }) as Box<dyn EventCore>
            }
            _ => Box::new(ParkCore::new()),
        };
        Builder::new().io_workers(1).compute_workers(1).event_core(core).hive().unwrap()
    };
    let (release, held) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let closure = hive.spawn_blocking(move || {
        started.send(()).unwrap();
        held.recv().is_err()
    });
    starts.recv_timeout(PATIENCE).unwrap();
    let handle = hive.handle();
    _ = shown.set(hive.handle());
    handle.request_shutdown(Shutdown::AbortFor(MS));
    let report = bounded(move || hive.run().unwrap());
    assert!(report.in_background, "{report}");
    drop(release);
    assert!(closure.wait());
}

/// As the two above, where the main worker's successor is the thread that cannot start.
#[test]
fn a_bounded_end_of_a_hive_returns_also_if_no_successor_can_start() {
    let (report, gate) = bounded(|| {
        let hive =
            Builder::new().io_workers(1).compute_workers(1).thread_name("tn6").hive().unwrap();
        let (started, starts) = mpsc::channel();
        let (gate, pass) = mpsc::channel::<()>();
        drop(hive.spawn_fn(move || {
            started.send(()).unwrap();
            pass.recv().ok()
        }));
        let handle = hive.handle();
        let asks = std::thread::spawn(move || {
            starts.recv_timeout(PATIENCE).unwrap();
            handle.request_shutdown(Shutdown::AbortFor(Duration::from_millis(1)));
            refuse("tn6-io", || ())
        });
        let report = hive.run().unwrap();
        drop(asks.join().unwrap());
        (report, gate)
    });
    assert_eq!(report.still_running.len(), 1, "{report}");
    drop(gate);
}
