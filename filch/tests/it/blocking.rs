//! Waiting from any thread neither deadlocks, nor multiplies threads, nor costs processor time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use filch::{Builder, Handle, JoinHandle, Runtime};

use crate::kit::{Gate, PATIENCE, eventually, in_child, receive, threads_named};

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let left = filch::spawn_fn(move || fib(n - 1));
    let right = filch::spawn_fn(move || fib(n - 2));
    let (left, right) = filch::wait((left, right));
    left + right
}

/// The most workers that were ever alive at the same time, told by hooks: nothing is sampled.
#[derive(Default)]
struct Peak {
    alive: AtomicUsize,
    most: AtomicUsize,
}

impl Peak {
    fn watched(self: &Arc<Self>, builder: Builder) -> Builder {
        let (starts, stops) = (self.clone(), self.clone());
        builder
            .on_thread_start(move |_| {
                let alive = starts.alive.fetch_add(1, Ordering::SeqCst) + 1;
                starts.most.fetch_max(alive, Ordering::SeqCst);
            })
            .on_thread_stop(move |_| {
                stops.alive.fetch_sub(1, Ordering::SeqCst);
            })
    }
}

#[test]
fn recursion_by_spawn_and_wait_needs_at_most_eight_threads() {
    in_child("blocking::recursion_by_spawn_and_wait_needs_at_most_eight_threads", &[], || {
        let peak = Arc::new(Peak::default());
        let runtime = peak.watched(Builder::new().workers(2)).build().unwrap();
        assert_eq!(runtime.spawn_fn(|| fib(25)).wait(), 75_025);
        assert_eq!(runtime.block_on_fn(|| fib(20)), 6_765);
        // The workers, the sentry and this thread.
        let most = peak.most.load(Ordering::SeqCst) + 2;
        assert!(most <= 8, "{most} threads");
    });
}

/// What `f` costs this thread, in processor time.
fn cpu_time(f: impl FnOnce()) -> Duration {
    fn now() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a timespec of ours.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        assert_eq!(result, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    let before = now();
    f();
    now() - before
}

/// A second is what the bound is about; nothing is ordered by it.
const LONG: Duration = Duration::from_secs(1);

#[test]
fn foreign_thread_that_waits_uses_no_processor_time() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let waits: [fn(&Handle, Gate); 4] = [
        |runtime, gate| runtime.spawn(async move { gate.pass() }).wait(),
        |runtime, gate| runtime.block_on(runtime.spawn(async move { gate.pass() })),
        |runtime, gate| {
            runtime.block_on_fn(|| drop(filch::spawn(async move { gate.pass() })));
        },
        |runtime, gate| {
            runtime.block_on_fn(|| filch::scope(|s| s.spawn_async(async { gate.pass() })));
        },
    ];
    let waiters = waits.map(|wait| {
        let handle = runtime.handle();
        let (gate, opener) = Gate::new();
        (std::thread::spawn(move || cpu_time(|| wait(&handle, gate))), opener)
    });
    std::thread::sleep(LONG);
    for (waiter, opener) in waiters {
        drop(opener);
        let spent = waiter.join().unwrap();
        assert!(spent < Duration::from_millis(1), "waiting cost {spent:?}");
    }
}

/// What a wait is called, and the wait.
type NamedWait = (&'static str, fn() -> u32);

/// Ways to wait for work of both lanes.
const WAITS: [NamedWait; 7] = [
    ("wait for a future", || filch::spawn(async { 1 }).wait()),
    ("wait for a job", || filch::spawn_fn(|| 1).wait()),
    ("wait for both", || {
        let (a, b) = filch::wait((filch::spawn(async { 1 }), filch::spawn_fn(|| 0)));
        a + b
    }),
    ("block_on", || filch::block_on(async { filch::spawn(async { 1 }).await })),
    ("block_on_fn", || {
        filch::block_on_fn(|| {
            drop(filch::spawn(async {}));
            drop(filch::spawn_fn(|| ()));
            1
        })
    }),
    ("scope of jobs", || {
        let mut values = [0, 0, 0];
        filch::scope(|s| values.iter_mut().for_each(|value| s.spawn(move |_| *value = 1)));
        values.iter().sum::<u32>() - 2
    }),
    ("scope of futures", || {
        let mut value = 0;
        filch::scope(|s| s.spawn_async(async { value = filch::spawn(async { 1 }).await }));
        value
    }),
];

/// Runs `f` on a thread of each kind.
fn on_every_thread(runtime: &Runtime, what: &str, f: fn() -> u32) {
    let from = |kind: &str, run: &dyn Fn(mpsc::Sender<u32>)| {
        let (tx, rx) = mpsc::channel();
        run(tx);
        let Ok(value) = rx.recv_timeout(PATIENCE) else {
            let tasks = runtime.tasks();
            panic!("{what} on {kind} hangs: {tasks:#?}\n{}", runtime.describe());
        };
        assert_eq!(value, 1, "{what} on {kind}");
    };
    from("an I/O worker", &|tx| drop(runtime.spawn(async move { tx.send(f()) })));
    from("a compute worker", &|tx| drop(runtime.spawn_fn(move || tx.send(f()))));
    from("a foreign thread", &|tx| {
        let handle = runtime.handle();
        std::thread::spawn(move || tx.send(handle.block_on_fn(f)));
    });
    from("a foreign thread that polls", &|tx| {
        let handle = runtime.handle();
        std::thread::spawn(move || tx.send(handle.block_on(async { f() })));
    });
    from("a task that waits already", &|tx| {
        drop(runtime.spawn(async move {
            tx.send(filch::spawn_fn(move || filch::spawn(async move { f() }).wait()).wait())
        }));
    });
    from("a local task", &|tx| {
        drop(runtime.spawn(async move { tx.send(filch::spawn_local(async move { f() }).await) }));
    });
}

/// Tasks that wait on every worker of both lanes until the gate opens. What they wait for runs
/// on another runtime, so it needs none of these workers.
fn occupy(runtime: &Runtime, elsewhere: &Runtime, gate: &Gate) -> Vec<JoinHandle<()>> {
    let awaited = || {
        let gate = gate.clone();
        elsewhere.spawn(async move { gate.pass() })
    };
    let config = runtime.config();
    let io = (0..config.io_workers).map(|_| {
        let awaited = awaited();
        runtime.spawn(async move { awaited.wait() })
    });
    let compute = (0..config.compute_workers).map(|_| {
        let awaited = awaited();
        runtime.spawn_fn(move || awaited.wait())
    });
    io.chain(compute).collect()
}

#[test]
fn every_wait_ends_on_every_thread() {
    for workers in [1, 2] {
        let runtime = Builder::new().workers(workers).build().unwrap();
        for (what, f) in WAITS {
            on_every_thread(&runtime, what, f);
        }
    }
}

#[test]
fn every_wait_ends_on_every_thread_of_one() {
    let runtime = Builder::new().single_thread(true).build().unwrap();
    for (what, f) in WAITS {
        on_every_thread(&runtime, what, f);
    }
}

#[test]
fn every_wait_ends_while_all_workers_of_both_lanes_wait() {
    let runtime = Builder::new().workers(1).compute_spares(8).build().unwrap();
    let elsewhere = Builder::new().workers(1).build().unwrap();
    let (gate, opener) = Gate::new();
    let handles = occupy(&runtime, &elsewhere, &gate);
    eventually("both workers wait", || {
        runtime.snapshot().workers.iter().filter(|worker| worker.blocked).count() == 2
    });
    for (what, f) in WAITS {
        on_every_thread(&runtime, what, f);
    }
    assert!(!gate.is_open());
    drop(opener);
    filch::wait_all(handles);
}

/// A waiter never runs unrelated work on top of a lock that it holds.
#[test]
fn a_lock_held_across_a_wait_is_not_taken_by_other_work_of_the_same_thread() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let lock = Arc::new(std::sync::Mutex::new(()));
    let users: Vec<_> = (0..100)
        .map(|_| {
            let lock = lock.clone();
            runtime.spawn_fn(move || {
                let guard = lock.lock().unwrap();
                filch::scope(|s| (0..4).for_each(|_| s.spawn(|_| std::hint::spin_loop())));
                filch::spawn_fn(|| ()).wait();
                drop(guard);
            })
        })
        .collect();
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        filch::wait_all(users);
        tx.send(()).unwrap();
    });
    receive(&rx, "all have had the lock");
}

#[test]
fn without_spares_a_wait_still_ends_and_is_counted() {
    let runtime = Builder::new().workers(1).compute_spares(0).build().unwrap();
    assert_eq!(runtime.spawn_fn(|| fib(15)).wait(), 610);
    let (gate, opener) = Gate::new();
    let inside = gate.clone();
    let waiter = runtime.spawn_fn(move || filch::spawn(async move { inside.pass() }).wait());
    eventually("it is counted", || runtime.snapshot().total().spares_missing >= 1);
    let behind = runtime.spawn(async { filch::spawn_fn(|| 3).await });
    assert!(!behind.is_finished());
    drop(opener);
    waiter.wait();
    assert_eq!(behind.wait(), 3);
    assert_eq!(runtime.snapshot().total().spares, 0);
}

#[test]
fn a_spare_stands_in_for_a_compute_worker_that_waits_and_then_goes() {
    let runtime = Builder::new()
        .workers(1)
        .thread_name("wsp")
        .spare_keep_alive(Duration::from_millis(5))
        .build()
        .unwrap();
    let (gate, opener) = Gate::new();
    let inside = gate.clone();
    let waiter = runtime.spawn_fn(move || filch::spawn(async move { inside.pass() }).wait());
    eventually("it waits", || runtime.snapshot().total().spares >= 1);
    assert_eq!(runtime.block_on(runtime.spawn_fn(|| 5)), 5);
    assert!(!gate.is_open());
    drop(opener);
    waiter.wait();
    let regular = ["wsp-cpu-0", "wsp-io-0", "wsp-sentry"];
    eventually("the spare is gone", || threads_named("wsp") == regular);
}

/// A spare gives back what it holds of the group whose task it ran last before it stands by.
#[test]
fn a_spare_that_stands_by_right_after_a_task_does_not_hold_up_the_end() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let (first, first_opener) = Gate::new();
    let waiter = runtime.spawn_fn(move || filch::spawn(async move { first.pass() }).wait());
    let (second, second_opener) = Gate::new();
    let (started, starts) = mpsc::channel();
    let last = runtime.task().spawn_fn(move || {
        started.send(()).unwrap();
        second.pass();
    });
    receive(&starts, "the spare runs a job");
    drop(first_opener);
    waiter.wait();
    drop(second_opener);
    // Not `wait`, which might run it here.
    runtime.block_on(last);
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || tx.send(runtime.shutdown(filch::Shutdown::Drain)));
    assert!(receive(&rx, "the runtime has ended").unfinished.is_empty());
}

/// The end of a group is announced when its last worker runs out of work; whom that wakes must
/// not be left behind in the slot of a worker that goes to sleep.
#[test]
fn owner_of_a_group_that_ends_on_an_idle_worker_runs_on() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let (tx, rx) = mpsc::channel();
    for round in 0..100 {
        let tx = tx.clone();
        drop(runtime.spawn(async move {
            let result = filch::group(async |group| {
                drop(group.spawn(async {
                    filch::yield_now().await;
                    Ok::<_, ()>(())
                }));
                Ok(round)
            });
            tx.send(result.await).unwrap();
        }));
        assert_eq!(receive(&rx, "the group's result"), Ok(round));
    }
}

#[test]
fn block_on_with_no_spare_left_runs_its_own_jobs_of_every_priority() {
    let runtime =
        Builder::new().io_workers(1).compute_workers(1).compute_spares(0).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let inside = ran.clone();
    let job = runtime.spawn_fn(move || {
        filch::block_on_fn(|| {
            for priority in [filch::Priority::Low, filch::Priority::Normal, filch::Priority::High] {
                let ran = inside.clone();
                drop(filch::task().priority(priority).spawn_fn(move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                }));
            }
        });
        inside.load(Ordering::SeqCst)
    });
    assert_eq!(runtime.block_on(job), 3);
}

#[test]
fn block_on_with_no_spare_left_drops_its_own_cancelled_jobs_of_every_priority() {
    for priority in [filch::Priority::Low, filch::Priority::Normal, filch::Priority::High] {
        let runtime =
            Builder::new().io_workers(1).compute_workers(1).compute_spares(0).build().unwrap();
        let (tx, rx) = mpsc::channel();
        drop(runtime.spawn(async move {
            let result: Result<(), ()> = filch::group(async |g| {
                let group = g.clone();
                drop(g.spawn_fn(move || {
                    filch::block_on_fn(|| {
                        drop(filch::task().priority(priority).spawn_fn(|| ()));
                        group.cancel();
                    });
                    Ok(())
                }));
                Ok(())
            })
            .await;
            tx.send(result).unwrap();
        }));
        assert_eq!(receive(&rx, "the cancelled group"), Ok(()));
    }
}
