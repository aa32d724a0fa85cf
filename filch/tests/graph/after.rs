//! Tasks that come after others, made on the fly.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Context;

use filch::graph::Milestone;
use filch::testkit::{self, Sim};
use filch::{Builder, Handle, JoinHandle, Shutdown, scope, spawn_after, wait_all};

mod alone;

/// A grid in which each cell comes after those above and to the left.
fn wavefront(side: usize) -> usize {
    let cells: Arc<Vec<AtomicUsize>> = Arc::new((0..side * side).map(|_| 0.into()).collect());
    let mut ends: Vec<Milestone> = Vec::new();
    for at in 0..side * side {
        let (row, column) = (at / side, at % side);
        let (up, left) = ((row > 0).then(|| &ends[at - side]), (column > 0).then(|| &ends[at - 1]));
        let cells = cells.clone();
        let task = spawn_after((up, left), move || {
            let of = |there: bool, at: usize| if there { cells[at].load(Relaxed) } else { 0 };
            let (up, left) =
                (of(row > 0, at.wrapping_sub(side)), of(column > 0, at.wrapping_sub(1)));
            cells[at].store(1 + up.max(left), Relaxed);
        });
        ends.push(task.milestone());
    }
    spawn_after(&ends, move || cells[side * side - 1].load(Relaxed)).wait()
}

#[test]
fn each_comes_after_those_that_it_names() {
    assert_eq!(wavefront(20), 39);
}

#[filch::test(sim, seeds = 300)]
fn a_grid_is_in_order_whatever_the_order_of_events() {
    assert_eq!(wavefront(4), 7);
}

#[test]
fn one_that_has_ended_is_no_hindrance() {
    let first = spawn_after((), || 1);
    let end = first.milestone();
    first.wait();
    assert!(end.is_finished());
    assert_eq!(spawn_after([&end, &end], || 2).wait(), 2);
}

/// A waker that asks a milestone when it is woken.
struct Asks(Milestone, AtomicUsize);

impl std::task::Wake for Asks {
    fn wake(self: Arc<Self>) {
        self.1.store(if self.0.is_finished() { 1 } else { 2 }, Relaxed);
    }
}

#[test]
fn who_is_woken_by_the_end_of_a_task_finds_its_milestone_finished() {
    let (open, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel::<()>();
    let runtime = Builder::new().workers(1).build().unwrap();
    let mut task = runtime.handle().task().spawn_after((), move || {
        began.send(()).unwrap();
        gate.recv().unwrap();
    });
    begun.recv().unwrap();
    let asks = Arc::new(Asks(task.milestone(), AtomicUsize::new(0)));
    let waker = asks.clone().into();
    let mut cx = Context::from_waker(&waker);
    assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
    assert!(!task.milestone().is_finished());
    open.send(()).unwrap();
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(asks.1.load(Relaxed), 1, "1: finished; 2: not; 0: not woken");
}

#[test]
fn the_same_one_may_be_named_twice() {
    let (open, gate) = mpsc::channel::<()>();
    let first = spawn_after((), move || gate.recv().unwrap());
    let second = spawn_after((&first, &first), || 2);
    open.send(()).unwrap();
    assert_eq!(second.wait(), 2);
}

#[test]
fn a_panic_skips_what_comes_after_and_is_told_by_its_own_handle() {
    let bad = spawn_after((), || panic!("boom"));
    let good = spawn_after((), || 1);
    let second = spawn_after((&bad, &good), || unreachable!());
    let third = spawn_after(&second, || unreachable!());
    assert!(third.wait_outcome().unwrap_err().is_cancelled());
    assert!(second.wait_outcome().unwrap_err().is_cancelled());
    assert!(bad.wait_outcome().unwrap_err().is_panic());
    assert_eq!(good.wait(), 1);
}

#[test]
fn one_that_comes_after_a_failure_later_is_skipped_too() {
    let bad = spawn_after((), || panic!("boom"));
    let end = bad.milestone();
    assert!(bad.wait_outcome().unwrap_err().is_panic());
    assert!(spawn_after(end, || ()).wait_outcome().unwrap_err().is_cancelled());
}

#[test]
fn a_cancelled_dependent_is_gone_before_what_it_waits_for() {
    let (open, gate) = mpsc::channel::<()>();
    let first = spawn_after((), move || gate.recv().unwrap());
    let kept = Arc::new(());
    let second = spawn_after(&first, {
        let kept = kept.clone();
        move || drop(kept)
    });
    let third = spawn_after(&second, || unreachable!());
    second.cancel();
    assert!(third.wait_outcome().unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&kept), 1, "its closure is dropped");
    open.send(()).unwrap();
    first.wait();
    assert!(second.wait_outcome().unwrap_err().is_cancelled());
}

#[test]
fn a_scope_waits_for_dependents_that_borrow() {
    let count = AtomicUsize::new(0);
    for _ in 0..50 {
        count.store(0, Relaxed);
        scope(|s| {
            let a = s.spawn_after((), |_| _ = count.fetch_add(1, Relaxed));
            let b = s.spawn_after(&a, |s| {
                count.fetch_add(10, Relaxed);
                s.spawn_after((), |_| _ = count.fetch_add(100, Relaxed));
            });
            s.spawn_after((a, b), |_| _ = count.fetch_add(1000, Relaxed));
        });
        assert_eq!(count.load(Relaxed), 1111);
    }
}

#[test]
#[should_panic(expected = "boom")]
fn a_panic_that_nobody_takes_goes_to_the_scope() {
    scope(|s| {
        let bad = s.spawn_after((), |_| panic!("boom"));
        s.spawn_after(bad, |_| unreachable!());
    });
}

#[test]
fn block_on_waits_for_dependents_that_were_let_go() {
    let count = Arc::new(AtomicUsize::new(0));
    filch::block_on(async {
        let mut last = None;
        for _ in 0..100 {
            let count = count.clone();
            last = Some(spawn_after(last, move || _ = count.fetch_add(1, Relaxed)));
        }
    });
    assert_eq!(count.load(Relaxed), 100);
}

#[test]
fn a_cancelled_group_takes_its_dependents_along() {
    let runtime = Builder::new().workers(2).build().unwrap();
    let outside = Arc::new(Mutex::new(None));
    let (open, gate) = mpsc::channel::<()>();
    let first = runtime.block_on(async { spawn_after((), || 0).milestone() });
    let slow = runtime.handle().task().spawn_after(first, move || gate.recv().unwrap());
    let end = slow.milestone();
    let kept = outside.clone();
    let result: Result<(), &str> = runtime.block_on(filch::group(async |g| {
        *kept.lock().unwrap() = Some(spawn_after(end, || unreachable!()));
        g.cancel();
        Err("cancelled")
    }));
    assert!(result.is_err());
    let dependent = outside.lock().unwrap().take().unwrap();
    assert!(dependent.is_finished(), "the group has ended, and `slow` has not");
    assert!(dependent.wait_outcome().unwrap_err().is_cancelled());
    open.send(()).unwrap();
    slow.wait();
}

#[test]
fn an_aborted_runtime_drops_what_waits() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel::<()>();
    let slow = runtime.handle().task().spawn_after((), move || {
        began.send(()).unwrap();
        gate.recv().unwrap();
    });
    let late = runtime.handle().task().spawn_after(&slow, || unreachable!());
    begun.recv().unwrap();
    let opener = std::thread::spawn(move || {
        // The abort has cancelled it by then, or does so while it is queued.
        assert!(late.wait_outcome().unwrap_err().is_cancelled());
        open.send(()).unwrap();
    });
    runtime.shutdown(Shutdown::Abort);
    opener.join().unwrap();
}

/// A gate of a simulation, closed at first.
#[derive(Clone, Default)]
struct Gate(Arc<(testkit::Mutex<bool>, testkit::Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }
}

#[test]
fn an_aborted_runtime_drops_what_waits_though_who_asked_sleeps_and_no_worker_is_free() {
    Sim::new().check(0..100, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let gate = Gate::default();
        let pass = gate.clone();
        let slow = runtime.handle().task().spawn_after((), move || pass.pass());
        let late = runtime.handle().task().spawn_after(&slow, || unreachable!());
        let last = runtime.handle().task().spawn_after(&late, || unreachable!());
        let opener = testkit::spawn_thread(move || {
            assert!(last.wait_outcome().unwrap_err().is_cancelled());
            assert!(late.wait_outcome().unwrap_err().is_cancelled());
            gate.open();
        });
        runtime.shutdown(Shutdown::Abort);
        opener.join().unwrap();
    });
}

/// Waits for a task when it is dropped.
struct Joins(Option<JoinHandle<()>>);

impl Drop for Joins {
    fn drop(&mut self) {
        let outcome = self.0.take().unwrap().wait_outcome();
        assert!(outcome.unwrap_err().is_cancelled());
    }
}

#[test]
fn an_abort_cancels_all_before_it_drops_what_waits() {
    Sim::new().check(0..100, || {
        let runtime = Builder::new().io_workers(1).compute_workers(1).build().unwrap();
        let gate = Gate::default();
        let pass = gate.clone();
        let slow = runtime.handle().task().spawn_after((), move || pass.pass());
        // A large one, which a walk comes to last.
        let ballast = [7; 3000];
        let other = runtime.spawn(async move {
            std::future::pending::<()>().await;
            std::hint::black_box(&ballast);
        });
        let joins = Joins(Some(other));
        let late = runtime.handle().task().spawn_after(&slow, move || {
            let _joins = joins;
            unreachable!()
        });
        let opener = testkit::spawn_thread(move || {
            let outcome: Result<(), _> = late.wait_outcome();
            assert!(outcome.unwrap_err().is_cancelled());
            gate.open();
        });
        runtime.shutdown(Shutdown::Abort);
        opener.join().unwrap();
    });
}

#[test]
fn a_drained_runtime_runs_what_waits() {
    let runtime = Builder::new().workers(2).build().unwrap();
    let handle = runtime.handle();
    let first = handle.task().spawn_after((), || 1);
    let second = handle.task().spawn_after(&first, || 2);
    runtime.shutdown(Shutdown::Drain);
    assert_eq!((first.wait(), second.wait()), (1, 2));
    let late = handle.task().spawn_after((), || 3);
    assert!(late.milestone().is_finished());
    assert!(late.wait_outcome().unwrap_err().is_cancelled());
}

#[test]
fn dependents_are_made_by_many_threads_at_once() {
    let root = spawn_after((), || 0);
    let end = root.milestone();
    let counts: Vec<usize> = std::thread::scope(|s| {
        let spawn = |_| {
            let end = end.clone();
            s.spawn(move || wait_all((0..200).map(|n| spawn_after(&end, move || n))).len())
        };
        (0..4).map(spawn).collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(counts, [200; 4]);
    root.wait();
}

#[test]
fn a_task_in_the_middle_makes_more_of_them() {
    let outer = spawn_after((), || {
        let inner: Vec<_> = (0..10).map(|n| spawn_after((), move || n)).collect();
        let all = spawn_after(&inner, || ());
        all.wait();
        inner.into_iter().map(|inner| inner.wait()).sum::<i32>()
    });
    let after = spawn_after(&outer, || "after");
    assert_eq!(filch::block_on(async { (outer.await, after.await) }), (45, "after"));
}

struct Panics;

impl filch::graph::Dependencies for Panics {
    fn each(&self, _: &mut impl FnMut(&Milestone)) {
        panic!("no dependencies")
    }
}

#[test]
fn a_list_of_dependencies_that_panics_leaves_nobody_waiting() {
    let caught = std::panic::catch_unwind(|| {
        scope(|s| s.spawn_after(Panics, |_| unreachable!()));
    });
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "no dependencies");
}

/// A chain of them that waits for one, held by its last member alone.
fn chain(first: &filch::graph::Dependent<()>, runtime: &Handle) -> filch::graph::Dependent<()> {
    let mut last = runtime.task().spawn_after(first, || ());
    for _ in 0..100_000 {
        last = runtime.task().spawn_after(&last, || ());
    }
    last
}

#[test]
fn a_long_chain_takes_no_stack_to_fail_or_to_be_aborted() {
    for way in [Shutdown::Drain, Shutdown::Abort] {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let first = runtime.handle().task().spawn_after((), move || gate.recv().unwrap());
        let last = chain(&first, &runtime.handle());
        match way {
            // Whoever comes after it fails with it.
            Shutdown::Drain => drop(open),
            _ => drop(open.send(())),
        }
        runtime.shutdown(way);
        drop(first.wait_outcome());
        drop(last.wait_outcome());
    }
}
