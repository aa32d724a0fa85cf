//! The end of a runtime: drained, aborted or both, it leaves no thread and no body behind.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use filch::testkit::{Clock, ManualClock};
use filch::{Builder, Priority, Runtime, Shutdown, ShutdownReport, TaskState};

use crate::kit::{Gate, assert_no_thread_named, eventually, receive, threads_named};
use crate::support::panic_of;

fn runtime(name: &str) -> Runtime {
    Builder::new().workers(2).thread_name(name).build().unwrap()
}

/// Counts the bodies that are alive.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

struct Life(Arc<AtomicUsize>);

impl Alive {
    fn new_life(&self) -> Life {
        self.0.fetch_add(1, Ordering::SeqCst);
        Life(self.0.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the runtime on another thread; panics if that never ends.
#[track_caller]
fn end(runtime: Runtime, how: Shutdown) -> ShutdownReport {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || tx.send(runtime.shutdown(how)));
    receive(&rx, "the end of the runtime")
}

#[test]
fn drain_finishes_all_tasks_also_detached_ones_and_their_children() {
    let runtime = runtime("sdr");
    let done = Arc::new(AtomicUsize::new(0));
    let note = || {
        let done = done.clone();
        move || done.fetch_add(1, Ordering::SeqCst)
    };
    for _ in 0..100 {
        let (first, second, third) = (note(), note(), note());
        runtime
            .spawn(async move {
                for _ in 0..20 {
                    filch::yield_now().await;
                }
                first();
                filch::spawn(async move {
                    filch::yield_now().await;
                    second();
                    drop(filch::spawn_fn(third));
                })
                .detach();
            })
            .detach();
    }
    let report = end(runtime, Shutdown::Drain);
    assert!(report.unfinished.is_empty(), "{report}");
    assert_eq!(done.load(Ordering::SeqCst), 300);
    assert_no_thread_named("sdr");
}

/// Spawns tasks that will never end, in every state that a task can be in.
fn spawn_endless(runtime: &Runtime, alive: &Alive) {
    for priority in [Priority::High, Priority::Normal, Priority::Low] {
        let life = alive.new_life();
        drop(runtime.task().priority(priority).spawn(async move {
            let _life = life;
            pending::<()>().await;
        }));
    }
    let life = alive.new_life();
    drop(runtime.spawn(async move {
        let _life = life;
        loop {
            filch::yield_now().await;
        }
    }));
    let (life, in_group) = (alive.new_life(), alive.clone());
    drop(runtime.spawn(async move {
        let _life = life;
        let result = filch::group(async |group| {
            for _ in 0..3 {
                let life = in_group.new_life();
                drop(group.spawn(async move {
                    let _life = life;
                    pending::<Result<(), ()>>().await
                }));
            }
            pending::<Result<(), ()>>().await
        });
        let _ = result.await;
    }));
}

#[test]
fn abort_drops_pending_yielding_and_grouped_tasks() {
    let runtime = runtime("sab");
    let alive = Alive::default();
    spawn_endless(&runtime, &alive);
    eventually("all have started", || alive.count() == 8);
    end(runtime, Shutdown::Abort);
    assert_eq!(alive.count(), 0);
    assert_no_thread_named("sab");
}

#[test]
fn dropping_a_runtime_aborts_it() {
    let runtime = runtime("sdp");
    let alive = Alive::default();
    spawn_endless(&runtime, &alive);
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        tx.send(()).unwrap();
    });
    receive(&rx, "the end of the drop");
    assert_eq!(alive.count(), 0);
    assert_no_thread_named("sdp");
}

#[test]
fn abort_drops_queued_tasks_unrun_and_waits_for_running_jobs() {
    let runtime = Builder::new().workers(1).thread_name("saq").build().unwrap();
    let alive = Alive::default();
    let (gate, opener) = Gate::new();
    // Dropped by the abort: only then may the job go on.
    drop(runtime.spawn(async move {
        let _opener = opener;
        pending::<()>().await;
    }));
    let (started, starts) = mpsc::channel();
    let life = alive.new_life();
    let running = runtime.spawn_fn(move || {
        let _life = life;
        started.send(()).unwrap();
        gate.pass();
        "ran to its end"
    });
    receive(&starts, "the job runs");
    let queued: Vec<_> = (0..100)
        .map(|_| {
            let life = alive.new_life();
            runtime.spawn_fn(move || drop(life))
        })
        .collect();
    let report = end(runtime, Shutdown::Abort);
    assert_eq!(report.unfinished.len(), 102);
    assert_eq!(alive.count(), 0);
    assert_eq!(running.wait(), "ran to its end");
    for handle in queued {
        assert!(handle.wait_outcome().unwrap_err().is_cancelled());
    }
    assert_no_thread_named("saq");
}

/// Where a body was made and where it was dropped.
struct AtHome {
    made: ThreadId,
    dropped: Arc<Mutex<Vec<bool>>>,
    _not_send: std::rc::Rc<()>,
}

impl Drop for AtHome {
    fn drop(&mut self) {
        self.dropped.lock().unwrap().push(self.made == std::thread::current().id());
    }
}

#[test]
fn abort_drops_pinned_tasks_on_their_own_thread() {
    let runtime = runtime("spi");
    let dropped = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..10 {
        let dropped = dropped.clone();
        let spawner = runtime.spawn(async move {
            let made = std::thread::current().id();
            let body = AtHome { made, dropped, _not_send: std::rc::Rc::new(()) };
            drop(filch::spawn_local(async move {
                let _body = body;
                pending::<()>().await;
            }));
        });
        spawner.wait();
    }
    end(runtime, Shutdown::Abort);
    assert_eq!(*dropped.lock().unwrap(), [true; 10]);
    assert_no_thread_named("spi");
}

#[test]
fn drain_for_reports_exactly_the_unfinished() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Builder::new()
        .workers(1)
        .thread_name("sre")
        .clock(Clock::Manual(clock.clone()))
        .build()
        .unwrap();
    let (gate, opener) = Gate::new();
    runtime.spawn(async {}).wait();
    // Dropped by the abort, after the report was made: only then may the job go on.
    let waiting = runtime.task().name("waiting").spawn(async move {
        let _opener = opener;
        pending::<()>().await;
    });
    let (started, starts) = mpsc::channel();
    let running = runtime.task().name("running").spawn_fn(move || {
        started.send(()).unwrap();
        gate.pass();
    });
    receive(&starts, "the job runs");
    let line = line!() + 1;
    let queued = runtime.task().name("queued").spawn_fn(|| ());
    eventually("it waits", || runtime.tasks().iter().any(|t| t.state == TaskState::Waiting));
    clock.advance(Duration::from_secs(5));
    let ids = [waiting.id(), running.id(), queued.id()];
    let report = end(runtime, Shutdown::DrainFor(Duration::from_millis(1)));
    let text = report.to_string();
    assert_eq!(report.unfinished.len(), 3, "{text}");
    let states = [TaskState::Waiting, TaskState::Running, TaskState::Queued];
    for ((id, name), state) in ids.into_iter().zip(["waiting", "running", "queued"]).zip(states) {
        let task = report.unfinished.iter().find(|task| task.id == id).expect("reported");
        assert_eq!((task.name.as_deref(), task.state), (Some(name), state), "{text}");
        assert_eq!(task.spawned_at.file(), file!(), "{text}");
        assert_eq!(task.age, Duration::from_secs(5), "{text}");
        assert!(text.contains(&format!("\"{name}\" spawned at {}:", file!())), "{text}");
    }
    let site = report.unfinished.iter().find(|task| task.id == ids[2]).unwrap().spawned_at;
    assert_eq!(site.line(), line);
    assert!(text.starts_with("3 tasks unfinished:"), "{text}");
    assert_no_thread_named("sre");
}

/// The clock that births are taken from stands still while all sleep.
#[test]
fn age_of_a_task_does_not_include_the_idle_time_before_its_birth() {
    for from_inside in [false, true] {
        let clock = Arc::new(ManualClock::new());
        let runtime =
            Builder::new().workers(1).clock(Clock::Manual(clock.clone())).build().unwrap();
        runtime.spawn(async {}).wait();
        eventually("all sleep", || runtime.snapshot().lanes.iter().all(|lane| lane.awake == 0));
        clock.advance(Duration::from_secs(100));
        let idler = if from_inside {
            runtime.spawn(async { filch::spawn(pending::<()>()) }).wait()
        } else {
            runtime.spawn(pending::<()>())
        };
        clock.advance(Duration::from_secs(7));
        let task = runtime.tasks().into_iter().find(|task| task.id == idler.id()).unwrap();
        assert_eq!(task.age, Duration::from_secs(7), "from inside: {from_inside}");
    }
}

/// Runs `f` with a runtime and a handle of it, on a thread of its own; the text of its panic.
fn dropped_inside(f: impl FnOnce(Runtime, mpsc::Sender<String>) + Send + 'static) -> String {
    let runtime = runtime("sin");
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || f(runtime, tx));
    receive(&rx, "the drop inside has ended")
}

const INSIDE: &str = "a runtime cannot end inside one of its own tasks: it would wait for itself";

#[test]
fn dropping_a_runtime_inside_its_own_task_panics() {
    let from_task = dropped_inside(|runtime, tx| {
        let handle = runtime.handle();
        drop(handle.spawn(async move { tx.send(panic_of(|| drop(runtime))) }));
    });
    assert_eq!(from_task, INSIDE);
    let from_job = dropped_inside(|runtime, tx| {
        let handle = runtime.handle();
        drop(handle.spawn_fn(move || tx.send(panic_of(|| drop(runtime)))));
    });
    assert_eq!(from_job, INSIDE);
    let by_shutdown = dropped_inside(|runtime, tx| {
        let handle = runtime.handle();
        drop(handle.spawn(async move {
            tx.send(panic_of(|| {
                runtime.shutdown(Shutdown::Drain);
            }))
        }));
    });
    assert_eq!(by_shutdown, INSIDE);
    let from_block_on = dropped_inside(|runtime, tx| {
        let handle = runtime.handle();
        handle.block_on(async { tx.send(panic_of(|| drop(runtime))).unwrap() });
    });
    assert_eq!(from_block_on, INSIDE);
}

/// The task that would wait for itself is not the innermost.
#[test]
fn dropping_a_runtime_inside_another_inside_its_own_task_panics() {
    let from_task = dropped_inside(|runtime, tx| {
        let handle = runtime.handle();
        drop(handle.spawn(async move {
            let other = Builder::new().workers(1).build().unwrap();
            let text = other.block_on(async { panic_of(|| drop(runtime)) });
            tx.send(text)
        }));
    });
    assert_eq!(from_task, INSIDE);
    let from_block_on = dropped_inside(|runtime, tx| {
        let other = Builder::new().workers(1).build().unwrap();
        let handle = runtime.handle();
        handle.block_on_fn(|| other.block_on_fn(|| tx.send(panic_of(|| drop(runtime))).unwrap()));
    });
    assert_eq!(from_block_on, INSIDE);
}

#[test]
fn a_runtime_may_be_dropped_inside_a_task_of_another() {
    let outer = runtime("sou");
    let inner = runtime("sii");
    let alive = Alive::default();
    spawn_endless(&inner, &alive);
    outer.spawn(async move { drop(inner) }).wait();
    assert_eq!(alive.count(), 0);
    assert_no_thread_named("sii");
    assert!(!threads_named("sou").is_empty());
}

#[test]
fn a_closed_runtime_hands_tasks_back_or_reports_them_as_cancelled() {
    let runtime = runtime("scl");
    let handle = runtime.handle();
    end(runtime, Shutdown::Drain);
    let alive = Alive::default();
    let life = alive.new_life();
    let refused = handle.task().try_spawn_fn(move || drop(life)).unwrap_err();
    assert_eq!(alive.count(), 1, "handed back, not dropped");
    (refused.0)();
    assert_eq!(alive.count(), 0);
    let life = alive.new_life();
    let refused = handle.task().try_spawn(async move { drop(life) }).unwrap_err();
    assert_eq!(alive.count(), 1, "handed back, not dropped");
    filch::block_on(refused.0);
    let life = alive.new_life();
    let cancelled = handle.spawn(async move { drop(life) });
    assert!(cancelled.is_finished());
    assert_eq!(alive.count(), 0);
    assert!(cancelled.wait_outcome().unwrap_err().is_cancelled());
    assert!(filch::block_on(handle.spawn_fn(|| 1).outcome()).unwrap_err().is_cancelled());
    assert_eq!(panic_of(|| handle.block_on(async {})), "the runtime has shut down");
}

#[test]
fn while_a_runtime_drains_members_may_spawn_and_strangers_may_not() {
    let runtime = runtime("swd");
    let handle = runtime.handle();
    let (gate, opener) = Gate::new();
    let member = runtime.spawn(async move {
        gate.pass();
        filch::spawn(async { filch::spawn_fn(|| 8).await }).await
    });
    let stranger = std::thread::spawn(move || {
        eventually("it closes", || handle.task().try_spawn(async {}).is_err());
        drop(opener);
        handle.spawn(async {}).wait_outcome()
    });
    assert!(end(runtime, Shutdown::Drain).unfinished.is_empty());
    assert!(stranger.join().unwrap().unwrap_err().is_cancelled());
    assert_eq!(member.wait(), 8);
}

/// Tasks that spawn their successors, for ever.
fn respawn(priority: Priority, alive: Alive) {
    let life = alive.new_life();
    drop(filch::task().priority(priority).spawn(async move {
        filch::yield_now().await;
        respawn(priority, alive);
        drop(life);
    }));
}

fn respawn_job(priority: Priority, alive: Alive) {
    let life = alive.new_life();
    drop(filch::task().priority(priority).spawn_fn(move || {
        respawn_job(priority, alive);
        drop(life);
    }));
}

fn respawn_local(alive: Alive) {
    let life = alive.new_life();
    drop(filch::spawn_local(async move {
        filch::yield_now().await;
        respawn_local(alive);
        drop(life);
    }));
}

#[test]
fn tasks_that_respawn_for_ever_do_not_prevent_the_end() {
    for how in [Shutdown::Abort, Shutdown::DrainFor(Duration::from_millis(1))] {
        let runtime = runtime("srs");
        let alive = Alive::default();
        let inside = alive.clone();
        runtime
            .spawn(async move {
                for priority in [Priority::High, Priority::Normal, Priority::Low] {
                    respawn(priority, inside.clone());
                    respawn_job(priority, inside.clone());
                }
                respawn_local(inside);
            })
            .wait();
        let report = end(runtime, how);
        assert!(report.unfinished.len() <= 14, "{report}");
        if report.in_background {
            // A worker got no time on the processor inside of a task, and the deadline came first.
            eventually("the rest has ended", || alive.count() == 0);
        }
        assert_eq!(alive.count(), 0);
        assert_no_thread_named("srs");
    }
}

#[test]
fn wakers_and_handles_outlive_their_runtime() {
    let runtime = runtime("swa");
    let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
    let kept = wakers.clone();
    let pended = runtime.spawn(poll_fn(move |cx| {
        kept.lock().unwrap().push(cx.waker().clone());
        Poll::<()>::Pending
    }));
    let kept = wakers.clone();
    let finished = runtime.spawn(poll_fn(move |cx| {
        kept.lock().unwrap().push(cx.waker().clone());
        Poll::Ready(String::from("value"))
    }));
    let panicked = runtime.spawn_fn(|| std::panic::resume_unwind(Box::new(17)));
    let dropped = runtime.spawn(async { String::from("never taken") });
    eventually("all ran", || {
        finished.is_finished() && panicked.is_finished() && dropped.is_finished()
    });
    eventually("it waits", || wakers.lock().unwrap().len() >= 2);
    let handle = runtime.handle();
    drop(runtime);
    for waker in wakers.lock().unwrap().drain(..) {
        waker.wake_by_ref();
        waker.wake();
    }
    assert_eq!(finished.wait(), "value");
    assert!(pended.is_finished());
    pended.cancel();
    assert!(filch::block_on(pended.outcome()).unwrap_err().is_cancelled());
    let payload = panicked.wait_outcome().map(|(): ()| ()).unwrap_err().into_panic();
    assert_eq!(*payload.downcast::<i32>().unwrap(), 17);
    drop(dropped);
    assert!(handle.tasks().is_empty());
    assert_eq!(handle.snapshot().units, 0);
    assert_no_thread_named("swa");
}

/// Wakes race with the abort that drops the tasks.
#[test]
fn wakes_during_the_end_are_harmless() {
    for _ in 0..20 {
        let runtime = runtime("swe");
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        for _ in 0..50 {
            let kept = wakers.clone();
            drop(runtime.spawn(poll_fn(move |cx| {
                kept.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            })));
        }
        eventually("all wait", || wakers.lock().unwrap().len() >= 50);
        let waking: Vec<Waker> = wakers.lock().unwrap().clone();
        let thread = std::thread::spawn(move || {
            for _ in 0..20 {
                waking.iter().for_each(Waker::wake_by_ref);
            }
        });
        end(runtime, Shutdown::Abort);
        thread.join().unwrap();
    }
}
