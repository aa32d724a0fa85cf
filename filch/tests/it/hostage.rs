//! No hostages: a worker that blocks inside an async task holds up nothing but that task.
//!
//! Every test shows it by the order of events: the stuck tasks are released only after everything
//! else has finished.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use filch::{Builder, Handle, Priority, Runtime};

use crate::kit::{Gate, Opener, eventually, receive, threads_named};

fn runtime(io_workers: usize) -> Runtime {
    Builder::new().io_workers(io_workers).compute_workers(1).build().unwrap()
}

/// Collects the numbers that tasks send when they finish.
struct Finish {
    tx: Sender<usize>,
    rx: Receiver<usize>,
}

impl Finish {
    fn new() -> Self {
        let (tx, rx) = mpsc::channel();
        Self { tx, rx }
    }

    /// Waits for `count` tasks, while `gate` is closed.
    #[track_caller]
    fn all(&self, count: usize, gate: &Gate) {
        let mut seen: Vec<_> = (0..count).map(|_| receive(&self.rx, "a held task")).collect();
        assert!(!gate.is_open(), "the order proves nothing");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "a task ran twice");
    }
}

/// Spawns `count` futures into the current group: the last lies in the newest-task slot, the
/// others in the ring.
fn spawn_numbered(count: usize, done: &Sender<usize>) {
    for number in 0..count {
        let done = done.clone();
        drop(filch::spawn(async move {
            filch::yield_now().await;
            done.send(number).unwrap();
        }));
    }
}

/// A task that fills its worker's queue and then blocks the thread.
fn spawn_blocker(runtime: &Handle, gate: &Gate, held: usize, done: &Sender<usize>) {
    let (gate, done) = (gate.clone(), done.clone());
    drop(runtime.spawn(async move {
        spawn_numbered(held, &done);
        gate.pass();
    }));
}

/// An async door: `opened` is ready after `open`.
#[derive(Default)]
struct Signal {
    open: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }

    async fn opened(&self) {
        poll_fn(|cx| {
            *self.waker.lock().unwrap() = Some(cx.waker().clone());
            if self.open.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn is_awaited(&self) -> bool {
        self.waker.lock().unwrap().is_some()
    }
}

/// The gate is closed until the test's end; the opener is dropped before the runtime.
fn stuck(runtime: &Runtime) -> (&Runtime, Gate, Opener) {
    let (gate, opener) = Gate::new();
    (runtime, gate, opener)
}

#[test]
fn only_child_of_a_stuck_task_runs_on_the_other_worker() {
    let runtime = runtime(2);
    let (runtime, gate, _opener) = stuck(&runtime);
    let finish = Finish::new();
    spawn_blocker(runtime, &gate, 1, &finish.tx);
    finish.all(1, &gate);
}

#[test]
fn ring_and_newest_of_a_stuck_worker_are_served_by_the_other() {
    let runtime = runtime(2);
    let (runtime, gate, _opener) = stuck(&runtime);
    let finish = Finish::new();
    spawn_blocker(runtime, &gate, 100, &finish.tx);
    finish.all(100, &gate);
}

#[test]
fn ring_and_newest_of_a_single_stuck_worker_are_served_by_a_spare() {
    let runtime = runtime(1);
    let (runtime, gate, _opener) = stuck(&runtime);
    let finish = Finish::new();
    spawn_blocker(runtime, &gate, 100, &finish.tx);
    finish.all(100, &gate);
    assert!(runtime.snapshot().total().rescues >= 1, "the newest was taken from the slot");
}

#[test]
fn a_ring_that_overflows_before_its_worker_is_stuck_is_served() {
    let runtime = Builder::new().io_workers(1).compute_workers(1).ring_capacity(2).build().unwrap();
    let (runtime, gate, _opener) = stuck(&runtime);
    let finish = Finish::new();
    spawn_blocker(runtime, &gate, 100, &finish.tx);
    finish.all(100, &gate);
}

#[test]
fn when_all_workers_and_then_a_spare_are_stuck_the_next_spare_comes() {
    let runtime = runtime(2);
    let (runtime, gate, _opener) = stuck(&runtime);
    let finish = Finish::new();
    let inside = Arc::new(AtomicUsize::new(0));
    for expected in 1..=5 {
        let (gate, count) = (gate.clone(), inside.clone());
        drop(runtime.spawn(async move {
            count.fetch_add(1, Ordering::SeqCst);
            gate.pass();
        }));
        let now = || inside.load(Ordering::SeqCst) == expected;
        eventually("the blocker has a thread of its own", now);
    }
    runtime.block_on(async { spawn_numbered(100, &finish.tx) });
    finish.all(100, &gate);
}

/// Nobody was awake to see the push into the newest-task slot.
#[test]
fn child_of_a_stuck_task_runs_though_all_others_were_asleep() {
    for io_workers in [1, 2, 4] {
        let runtime = runtime(io_workers);
        let (runtime, gate, _opener) = stuck(&runtime);
        let finish = Finish::new();
        let (others_asleep, _open_at_end) = Gate::new();
        let (first, second, done) = (others_asleep.clone(), gate.clone(), finish.tx.clone());
        drop(runtime.spawn(async move {
            first.pass();
            spawn_numbered(1, &done);
            second.pass();
        }));
        eventually("all others sleep", || runtime.snapshot().lanes[0].asleep == io_workers - 1);
        others_asleep.open();
        finish.all(1, &gate);
    }
}

#[test]
fn work_from_outside_is_served_while_all_workers_are_stuck() {
    for io_workers in [1, 2] {
        let runtime = runtime(io_workers);
        let (runtime, gate, _opener) = stuck(&runtime);
        for _ in 0..io_workers {
            spawn_blocker(runtime, &gate, 0, &Finish::new().tx);
        }
        let all_stuck = || runtime.snapshot().workers.iter().filter(|w| w.in_task).count();
        eventually("all are inside a task", || all_stuck() >= io_workers);
        for priority in [Priority::Normal, Priority::High, Priority::Low] {
            let finish = Finish::new();
            for number in 0..10 {
                let done = finish.tx.clone();
                let task = async move { done.send(number).unwrap() };
                drop(runtime.task().priority(priority).spawn(task));
            }
            finish.all(10, &gate);
        }
    }
}

#[test]
fn tasks_that_a_stuck_task_had_woken_run() {
    for io_workers in [1, 2] {
        let runtime = runtime(io_workers);
        let (runtime, gate, _opener) = stuck(&runtime);
        let finish = Finish::new();
        let signals: Vec<_> = (0..10).map(|_| Arc::new(Signal::default())).collect();
        for (number, signal) in signals.iter().cloned().enumerate() {
            let done = finish.tx.clone();
            drop(runtime.spawn(async move {
                signal.opened().await;
                done.send(number).unwrap();
            }));
        }
        eventually("all wait", || signals.iter().all(|signal| signal.is_awaited()));
        let gate_inside = gate.clone();
        drop(runtime.spawn(async move {
            signals.iter().for_each(|signal| signal.open());
            gate_inside.pass();
        }));
        finish.all(10, &gate);
    }
}

#[test]
fn futures_and_jobs_of_a_stuck_single_thread_are_served() {
    let runtime = Builder::new().single_thread(true).build().unwrap();
    let (runtime, gate, _opener) = stuck(&runtime);
    let finish = Finish::new();
    let (gate_inside, done) = (gate.clone(), finish.tx.clone());
    drop(runtime.spawn(async move {
        spawn_numbered(10, &done);
        for number in 10..20 {
            let done = done.clone();
            drop(filch::spawn_fn(move || done.send(number).unwrap()));
        }
        gate_inside.pass();
    }));
    finish.all(20, &gate);
}

#[test]
fn a_full_compute_lane_does_not_hold_up_futures() {
    let runtime = runtime(1);
    let (runtime, gate, _opener) = stuck(&runtime);
    let inside = gate.clone();
    drop(runtime.spawn_fn(move || inside.pass()));
    let finish = Finish::new();
    runtime.block_on(async { spawn_numbered(10, &finish.tx) });
    finish.all(10, &gate);
}

#[test]
fn spares_of_stuck_workers_go_afterwards() {
    let runtime = Builder::new()
        .io_workers(1)
        .compute_workers(1)
        .thread_name("hgo")
        .spare_keep_alive(Duration::from_millis(5))
        .build()
        .unwrap();
    let regular = threads_named("hgo");
    assert_eq!(regular, ["hgo-cpu-0", "hgo-io-0", "hgo-sentry"]);
    for _ in 0..3 {
        let (gate, opener) = Gate::new();
        let finish = Finish::new();
        for _ in 0..3 {
            spawn_blocker(&runtime, &gate, 5, &finish.tx);
        }
        for _ in 0..15 {
            receive(&finish.rx, "a held task");
        }
        assert!(threads_named("hgo").len() >= regular.len() + 3, "{:?}", threads_named("hgo"));
        drop(opener);
        eventually("the spares are gone", || threads_named("hgo") == regular);
        assert_eq!(runtime.spawn(async { 7 }).wait(), 7);
    }
}

/// Two tasks that wake each other live in the newest-task slot; the ring has its turn after three.
#[test]
fn a_ping_pong_does_not_starve_the_ring() {
    const WARM: usize = 100;
    let runtime = runtime(1);
    let wakers: Arc<Mutex<[Option<Waker>; 2]>> = Arc::default();
    let (polls, ran_at) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let player = |me: usize| {
        let (wakers, polls, ran_at) = (wakers.clone(), polls.clone(), ran_at.clone());
        poll_fn(move |cx| {
            if polls.fetch_add(1, Ordering::SeqCst) + 1 == WARM {
                // The wake below displaces it from the slot into the ring.
                let (polls, ran_at) = (polls.clone(), ran_at.clone());
                let note = move || ran_at.store(polls.load(Ordering::SeqCst), Ordering::SeqCst);
                drop(filch::spawn(async move { note() }));
            }
            let other = {
                let mut wakers = wakers.lock().unwrap();
                wakers[me] = Some(cx.waker().clone());
                wakers[1 - me].clone()
            };
            if let Some(other) = other {
                other.wake();
            }
            if ran_at.load(Ordering::SeqCst) > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
    };
    let (ping, pong) = (runtime.spawn(player(0)), runtime.spawn(player(1)));
    eventually("the task in the ring ran", || ran_at.load(Ordering::SeqCst) > 0);
    filch::wait((ping, pong));
    let between = ran_at.load(Ordering::SeqCst) - WARM;
    // One more may come between by the periodic look.
    assert!(between <= runtime.config().slot_streak + 1, "{between} polls came first");
}

/// With one thread for both roles, a task that is always ready comes before jobs, but not for ever.
#[test]
fn a_task_that_yields_does_not_starve_jobs() {
    let runtime = Builder::new().single_thread(true).build().unwrap();
    let task = runtime.spawn(async {
        let ran = Arc::new(AtomicBool::new(false));
        let job = filch::spawn_fn({
            let ran = ran.clone();
            move || ran.store(true, Ordering::SeqCst)
        });
        while !ran.load(Ordering::SeqCst) {
            filch::yield_now().await;
        }
        job.await;
    });
    task.wait();
}
