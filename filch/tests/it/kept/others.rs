//! Futures other than groups that outlive their runtime.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use filch::sync::{Mutex, Notify, Semaphore, mpmc};

use super::{ENDS, End, Kept, Seen, begun, poll_here, poll_in_task, runtime};
use crate::kit::{Gate, eventually};
use crate::watchdog::watched;

type Trigger = Box<dyn FnOnce() + Send>;

/// A future that waits for something other than a runtime, and what makes it ready.
type Waiting = (&'static str, fn() -> (Kept, Trigger));

const WAITING: [Waiting; 6] = [
    ("recv", || {
        let (sender, receiver) = mpmc::bounded(1);
        let kept = async move { format!("{:?}", receiver.recv().await) };
        (Box::pin(kept), Box::new(move || sender.try_send(7).unwrap()))
    }),
    ("send", || {
        let (sender, receiver) = mpmc::bounded(1);
        sender.try_send(6).unwrap();
        let kept = async move { format!("{:?}", sender.send(7).await) };
        (Box::pin(kept), Box::new(move || assert_eq!(receiver.try_recv(), Ok(6))))
    }),
    ("lock", || {
        let mutex = Arc::new(Mutex::new(7));
        let guard = mutex.clone().try_lock_owned().unwrap();
        let kept = async move { format!("{:?}", *mutex.lock().await) };
        (Box::pin(kept), Box::new(move || drop(guard)))
    }),
    ("permit", || {
        let semaphore = Arc::new(Semaphore::new(0));
        let giver = semaphore.clone();
        let kept = async move { format!("{:?}", semaphore.acquire().await.is_ok()) };
        (Box::pin(kept), Box::new(move || giver.add_permits(1)))
    }),
    ("notified", || {
        let notify = Arc::new(Notify::new());
        let notifier = notify.clone();
        let kept = async move { format!("{:?}", notify.notified().await) };
        (Box::pin(kept), Box::new(move || notifier.notify_one()))
    }),
    ("oneshot", || {
        let (sender, receiver) = filch::sync::oneshot::channel();
        let kept = async move { format!("{:?}", receiver.await) };
        (Box::pin(kept), Box::new(move || sender.send(7).unwrap()))
    }),
];

#[test]
fn channels_locks_and_permits_go_on_after_the_end() {
    watched(|_| {
        for (end, (name, make)) in ENDS.into_iter().flat_map(|end| WAITING.map(|kind| (end, kind)))
        {
            let runtime = runtime();
            let (future, trigger) = make();
            let mut kept = begun(&runtime, || future);
            let (future, _trigger) = make();
            drop(begun(&runtime, || future));
            let (future, _trigger) = make();
            std::mem::forget(begun(&runtime, || future));
            end.in_time(runtime);
            assert_eq!(poll_here(&mut kept), Seen::Pending, "{name}");
            let waiter = std::thread::spawn(move || futures_lite::future::block_on(kept));
            trigger();
            eventually("the end of the wait", || waiter.is_finished());
            assert!(!waiter.join().unwrap().is_empty(), "{name}");
        }
    });
}

/// They have lost their wheel, and go to that of the runtime that polls them next.
#[test]
fn sleeps_go_on_in_the_runtime_that_polls_them_next() {
    let kinds: [fn(Duration) -> Kept; 3] = [
        |time| Box::pin(async move { format!("{:?}", filch::time::sleep(time).await) }),
        |time| {
            let never = filch::time::timeout(time, pending::<()>());
            Box::pin(async move { format!("{:?}", never.await.is_err()) })
        },
        |time| {
            let start = filch::time::Instant::now() + time;
            let mut ticks = filch::time::interval_at(start, time);
            Box::pin(async move { format!("{:?}", ticks.tick().await >= start) })
        },
    ];
    watched(move |_| {
        for (end, make) in ENDS.into_iter().flat_map(|end| kinds.map(|make| (end, make))) {
            let (ends, stays) = (runtime(), runtime());
            let long = Duration::from_secs(3600);
            let mut kept = begun(&ends, move || make(long));
            drop(begun(&ends, move || make(long)));
            std::mem::forget(begun(&ends, move || make(long)));
            // Long enough to begin in one runtime and short enough to be waited for in another.
            let mut soon = ends.spawn(async move {
                let mut future = make(Duration::from_millis(20));
                poll_in_task(&mut future).await;
                future
            });
            let soon = stays.block_on(&mut soon);
            end.in_time(ends);
            // Also on a thread of no runtime: by the default one.
            assert_eq!(poll_here(&mut kept), Seen::Pending);
            drop(soon);
            let soon = begun(&stays, move || make(Duration::from_millis(20)));
            drop(stays);
            futures_lite::future::block_on(soon);
            drop(kept);
        }
    });
}

/// A future of a task, which a gate lets go on.
type OfTask = fn(Gate, Arc<Notify>) -> Kept;

#[test]
fn handles_of_jobs_that_ran_give_their_values_after_the_end() {
    let kinds: [OfTask; 3] = [
        |gate, _| {
            let value = filch::cpu(move || {
                gate.pass();
                7
            });
            Box::pin(async move { format!("{:?}", value.await) })
        },
        |gate, _| {
            let handle = filch::spawn_blocking(move || {
                gate.pass();
                7
            });
            Box::pin(async move { format!("{:?}", handle.await) })
        },
        |_, notify| {
            let handle = filch::spawn(async move {
                notify.notified().await;
                7
            });
            Box::pin(async move { format!("{:?}", handle.await) })
        },
    ];
    watched(move |_| {
        for (end, make) in ENDS.into_iter().flat_map(|end| kinds.map(|make| (end, make))) {
            let runtime = runtime();
            let ((gate, opener), notify) = (Gate::new(), Arc::new(Notify::new()));
            let notified = notify.clone();
            let mut kept = begun(&runtime, move || make(gate, notified));
            notify.notify_one();
            drop(opener);
            let seen = match end.drains() {
                true => {
                    end.in_time(runtime);
                    poll_here(&mut kept)
                }
                // An abort might come before the job has begun.
                false => {
                    let value = runtime.spawn(kept).wait();
                    end.in_time(runtime);
                    Seen::Ready(value)
                }
            };
            assert_eq!(seen, Seen::Ready("7".into()), "{end:?}");
        }
    });
}

#[test]
fn handles_of_tasks_that_an_abort_has_dropped_say_so() {
    let graph: fn() -> Kept = || {
        let mut graph = filch::Graph::new();
        graph.async_node("never", pending::<()>);
        let run = Arc::new(graph).run_async().outcome();
        Box::pin(async move { format!("{:?}", run.await.is_err()) })
    };
    let task: fn() -> Kept = || {
        let outcome = filch::spawn(pending::<()>()).outcome();
        Box::pin(async move { format!("{:?}", outcome.await.unwrap_err().is_cancelled()) })
    };
    watched(move |_| {
        for (end, make) in
            [End::Abort, End::Drop].into_iter().flat_map(|end| [(end, graph), (end, task)])
        {
            let runtime = runtime();
            let mut kept = begun(&runtime, make);
            drop(begun(&runtime, make));
            std::mem::forget(begun(&runtime, make));
            end.in_time(runtime);
            assert_eq!(poll_here(&mut kept), Seen::Ready("true".into()), "{end:?}");
        }
    });
}
