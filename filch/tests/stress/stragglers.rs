//! What a task does that still runs when the end of its runtime has returned. The sanitizers look on.
//!
//! Each deed is done by a closure that blocks, by a job and by a future inside of a poll, after the report came;
//! then the straggler returns, and the threads of the runtime have to go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filch::net::TcpListener;
use filch::{Builder, Handle, Runtime, Shutdown};

const MS: Duration = Duration::from_millis(1);

/// How long something may take that would take for ever if it were broken.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Blocking,
    Job,
    Poll,
}

type Deed = fn(Handle);

/// Counts what has happened. By an atomic: ThreadSanitizer does not see what std does inside of its channels.
#[derive(Clone, Default)]
struct Event(Arc<AtomicUsize>);

/// Tells of its event when it is dropped.
struct Tells(Event);

impl Event {
    fn happen(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Blocks until it has happened so often.
    #[track_caller]
    fn wait(&self, times: usize) {
        let end = Instant::now() + PATIENCE;
        while self.0.load(Ordering::SeqCst) < times {
            assert!(Instant::now() < end, "it never happened");
            std::thread::sleep(MS / 10);
        }
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.happen();
    }
}

/// Has one task of each kind outlive the end of its runtime, and then do that.
fn outlive(name: &str, deed: Deed) {
    for how in [Shutdown::AbortFor(MS), Shutdown::DrainFor(Duration::ZERO)] {
        for kind in [Kind::Blocking, Kind::Job, Kind::Poll] {
            let runtime = Builder::new().workers(2).thread_name(name).build().unwrap();
            one_outlives(runtime, kind, how, deed);
        }
    }
    let single = || Builder::new().single_thread(true).thread_name(name).build().unwrap();
    for kind in [Kind::Blocking, Kind::Job, Kind::Poll] {
        one_outlives(single(), kind, Shutdown::AbortFor(MS), deed);
    }
    let end = Instant::now() + PATIENCE;
    while threads_named(name) > 0 {
        assert!(Instant::now() < end, "threads of {name} stay");
        std::thread::sleep(MS);
    }
}

fn one_outlives(runtime: Runtime, kind: Kind, how: Shutdown, deed: Deed) {
    let (started, released, done) = (Event::default(), Event::default(), Event::default());
    let (starts, release, is_done) = (started.clone(), released.clone(), done.clone());
    let handle = runtime.handle();
    let body = move || {
        // Also where the deed unwinds, because what it waits for was cancelled.
        let _done = Tells(done);
        started.happen();
        released.wait(1);
        deed(handle);
    };
    let task = runtime.task();
    let task = match kind {
        Kind::Blocking => task.spawn_blocking(body),
        Kind::Job => task.spawn_fn(body),
        Kind::Poll => task.spawn(async move { body() }),
    };
    starts.wait(1);
    let report = runtime.shutdown(how);
    assert_eq!(report.still_running.len(), 1, "{kind:?}: {report}");
    assert_eq!(report.still_running[0].id, task.id());
    release.happen();
    is_done.wait(1);
    if let Err(error) = task.wait_outcome() {
        assert!(error.is_cancelled(), "{kind:?}: {error}");
    }
}

/// How many threads of this process have names that begin so.
fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| comm(task.ok()?)).filter(|name| name.starts_with(prefix)).count()
}

#[test]
fn a_straggler_spawns_everything_and_waits_for_it() {
    outlive("os-sp", |_| {
        assert!(filch::spawn(async {}).wait_outcome().is_err());
        assert!(filch::spawn_fn(|| ()).wait_outcome().is_err());
        assert!(filch::spawn_blocking(|| ()).wait_outcome().is_err());
        filch::spawn(async {}).detach();
        drop(filch::spawn_fn(|| ()));
    });
}

#[test]
fn a_straggler_joins_and_runs_loops() {
    use filch::par::prelude::*;
    outlive("os-jo", |_| {
        fn fib(n: u64) -> u64 {
            if n < 2 {
                return n;
            }
            let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        assert_eq!(fib(12), 144);
        assert_eq!((0..1000_u64).into_par_iter().sum::<u64>(), 499_500);
    });
}

#[test]
fn a_straggler_panics() {
    for kind in [Kind::Blocking, Kind::Job, Kind::Poll] {
        let runtime = Builder::new().workers(2).thread_name("os-pa").build().unwrap();
        let (started, released) = (Event::default(), Event::default());
        let (starts, release) = (started.clone(), released.clone());
        let body = move || {
            started.happen();
            released.wait(1);
            std::panic::resume_unwind(Box::new(17));
        };
        let task = match kind {
            Kind::Blocking => runtime.spawn_blocking(body),
            Kind::Job => runtime.spawn_fn(body),
            Kind::Poll => runtime.spawn(async move { body() }),
        };
        starts.wait(1);
        assert!(runtime.shutdown(Shutdown::AbortFor(MS)).in_background);
        release.happen();
        let payload = task.wait_outcome().map(|(): ()| ()).unwrap_err().into_panic();
        assert_eq!(*payload.downcast::<i32>().unwrap(), 17);
    }
}

#[test]
fn a_straggler_ends_a_scope() {
    outlive("os-sc", |_| {
        let (mut local, others) = (0, AtomicUsize::new(0));
        filch::scope(|s| {
            s.spawn(|_| local += 1);
            s.spawn_async(async { others.store(1, Ordering::SeqCst) });
        });
        // They are members of a runtime that aborts: called or dropped, but never later than this.
        assert!(local <= 1);
    });
}

#[test]
fn a_straggler_ends_a_group() {
    outlive("os-gr", |_| {
        let result = filch::block_on(filch::group(async |group| {
            drop(group.spawn(std::future::pending::<Result<(), ()>>()));
            Err::<(), ()>(())
        }));
        assert!(result.is_err());
    });
}

#[test]
fn a_straggler_sleeps() {
    outlive("os-sl", |_| {
        let began = Instant::now();
        filch::block_on(filch::time::sleep(3 * MS));
        assert!(began.elapsed() >= 3 * MS);
        let late = filch::block_on(filch::time::timeout(MS, std::future::pending::<()>()));
        assert!(late.is_err());
    });
}

#[test]
fn a_straggler_uses_and_drops_a_socket() {
    outlive("os-so", |_| {
        filch::block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let there = std::thread::spawn(move || std::net::TcpStream::connect(address).unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            let there = there.join().unwrap();
            let (written, _) = stream.write_all(b"late".to_vec()).await;
            written.unwrap();
            drop((stream, listener, there));
        });
    });
}

#[test]
fn a_straggler_drops_the_last_handle() {
    outlive("os-lh", drop);
}

#[test]
fn a_straggler_asks_its_runtime_things() {
    outlive("os-as", |handle| {
        assert!(handle.task().try_spawn(async {}).is_err(), "it closed for strangers");
        assert!(!handle.tasks().is_empty());
        assert!(!handle.describe().to_string().is_empty());
        handle.escalate(Shutdown::Abort);
        drop(handle.post(|| ()));
    });
}

#[test]
fn a_straggler_uses_other_runtimes() {
    outlive("os-ot", |_| {
        let other = Builder::new().workers(1).build().unwrap();
        assert_eq!(other.block_on(async { filch::spawn(async { 1 }).await }), 1);
        assert_eq!(other.shutdown(Shutdown::Drain).to_string(), "all tasks finished");
    });
}

/// The wait of a straggler ends when somebody else has the last handle to what it waits for.
#[test]
fn stragglers_wait_for_each_other() {
    let runtime = Builder::new().workers(2).thread_name("os-ea").build().unwrap();
    let (started, released) = (Event::default(), Event::default());
    let (starts, began, release) = (started.clone(), started.clone(), released.clone());
    let first = runtime.spawn_blocking(move || {
        began.happen();
        released.wait(1);
        5
    });
    let second = runtime.spawn_fn(move || {
        started.happen();
        first.wait()
    });
    starts.wait(2);
    let report = runtime.shutdown(Shutdown::AbortFor(MS));
    assert_eq!(report.still_running.len(), 2, "{report}");
    release.happen();
    assert_eq!(second.wait(), 5);
}

/// Threads that wait and spawn from outside race with the rest of the end.
#[test]
fn strangers_race_with_the_rest_of_an_end() {
    for _ in 0..10 {
        let runtime = Builder::new().workers(2).build().unwrap();
        let (started, released) = (Event::default(), Event::default());
        let (starts, release) = (started.clone(), released.clone());
        let straggler = runtime.spawn_fn(move || {
            started.happen();
            released.wait(1);
            filch::join(|| 1, || 2)
        });
        starts.wait(1);
        let handle = runtime.handle();
        let strangers: Vec<_> = (0..3)
            .map(|_| {
                let handle = handle.clone();
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        let _ = handle.spawn(async {}).wait_outcome();
                        let _ = handle.spawn_fn(|| ()).wait_outcome();
                        let _ = handle.tasks();
                    }
                })
            })
            .collect();
        runtime.shutdown(Shutdown::AbortFor(MS));
        release.happen();
        drop(handle);
        assert_eq!(straggler.wait(), (1, 2));
        strangers.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
