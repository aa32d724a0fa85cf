//! Futures that stay on their thread, and tasks that give way.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use crate::support::{Drops, Gate, panic_of, until};
use crate::watchdog::watched;

#[test]
fn local_future_that_is_not_send_gives_its_value() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let sum = runtime.block_on(filch_spawn_local_sum(&runtime));
        assert_eq!(sum, 5);
    });
}

fn filch_spawn_local_sum(runtime: &filch::Runtime) -> filch::JoinHandle<i32> {
    runtime.spawn(async {
        filch::spawn_local(async {
            let shared = Rc::new(Cell::new(2));
            filch::yield_now().await;
            shared.set(shared.get() + 3);
            shared.get()
        })
        .await
    })
}

#[test]
fn local_future_stays_on_its_thread_when_other_threads_wake_it() {
    watched(|dog| {
        let runtime = dog.rig(3);
        let gates: Vec<_> = (0..50).map(|_| Gate::default()).collect();
        let drops = Drops::default();
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (gates, drops) = (gates.clone(), drops.clone());
                runtime.spawn(async move {
                    let home = thread::current().id();
                    let local = filch::spawn_local(async move {
                        let on_its_thread = OnDrop(Rc::new(home), drops.token());
                        for gate in gates {
                            gate.await;
                            assert_eq!(thread::current().id(), *on_its_thread.0);
                        }
                    });
                    local.await;
                })
            })
            .collect();
        for gate in &gates {
            until(|| gate.waiters() > 0);
            // The last is woken from here, by a foreign thread; some from a compute worker.
            let gate = gate.clone();
            runtime.spawn_fn(move || gate.open()).wait();
        }
        filch::wait_all(tasks);
        assert_eq!(drops.count(), 6);
    });
}

struct OnDrop(Rc<ThreadId>, #[allow(dead_code, reason = "counts its drop")] crate::support::Token);

impl Drop for OnDrop {
    fn drop(&mut self) {
        assert_eq!(thread::current().id(), *self.0, "dropped on another thread");
    }
}

#[test]
fn local_future_is_dropped_on_its_thread_when_cancelled_from_another() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let (inner, token) = (gate.clone(), drops.token());
        let cancelled = runtime.spawn(async move {
            let home = Rc::new(thread::current().id());
            filch::spawn_local(async move {
                let _on_its_thread = OnDrop(home, token);
                inner.await;
            })
        });
        let local = cancelled.wait();
        until(|| gate.waiters() == 1);
        local.cancel();
        assert!(local.wait_outcome().unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn local_future_is_dropped_on_its_thread_at_shutdown() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let (inner, token) = (gate.clone(), drops.token());
        drop(runtime.spawn(async move {
            let home = Rc::new(thread::current().id());
            drop(filch::spawn_local(async move {
                let _on_its_thread = OnDrop(home, token);
                inner.await;
            }));
        }));
        until(|| gate.waiters() == 1);
        let report = runtime.shutdown(filch::Shutdown::Abort);
        assert_eq!(report.unfinished.len(), 1);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn spawn_local_off_an_io_worker_panics_and_says_why() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let on_a_foreign_thread = panic_of(|| drop(filch::spawn_local(async {})));
        let in_block_on =
            panic_of(|| runtime.block_on(async { filch::spawn_local(async {}).await }));
        let job = runtime.spawn_fn(|| filch::spawn_local(async {}).id());
        let on_a_compute_worker = panic_of(|| runtime.block_on(job));
        for text in [on_a_foreign_thread, in_block_on, on_a_compute_worker] {
            assert!(text.starts_with("spawn_local needs a task on an I/O worker"), "{text}");
        }
        runtime.assert_alive();
    });
}

#[test]
fn spawn_local_in_a_job_that_a_waiter_may_run_panics() {
    watched(|dog| {
        let threads = filch::Runtime::builder().io_workers(1).compute_workers(1);
        for builder in [threads, filch::Runtime::builder().single_thread(true)] {
            let runtime = dog.rig_of(builder);
            let local = || drop(filch::spawn_local(async {}));
            let in_block_on = runtime.spawn(async move {
                filch::block_on_fn(|| drop(filch::spawn_fn(local)));
            });
            let in_scope = runtime.spawn(async move {
                filch::scope(|s| s.spawn(move |_| local()));
            });
            for task in [in_block_on, in_scope] {
                // By whatever worker ran it.
                let text = panic_of(|| task.wait());
                assert!(text.starts_with("spawn_local "), "{text}");
            }
            runtime.assert_alive();
        }
    });
}

#[test]
fn tasks_that_yield_take_turns() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().single_thread(true));
        let turns = Arc::new(Mutex::new(Vec::new()));
        let together = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            for name in 0..3 {
                let (turns, together) = (turns.clone(), together.clone());
                drop(filch::spawn(async move {
                    together.fetch_add(1, Ordering::SeqCst);
                    while together.load(Ordering::SeqCst) < 3 {
                        filch::yield_now().await;
                    }
                    for _ in 0..50 {
                        turns.lock().unwrap().push(name);
                        filch::yield_now().await;
                    }
                }));
            }
        });
        let turns = turns.lock().unwrap();
        assert_eq!(turns.len(), 150);
        // Each runs at most a few times before the others: nobody is passed over for long.
        for name in 0..3 {
            let at: Vec<_> = (0..150).filter(|&i| turns[i] == name).collect();
            let longest = at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(longest <= 12, "task {name} waited for {longest} turns: {turns:?}");
        }
    });
}

#[test]
fn yield_in_a_loop_lets_a_task_from_outside_in() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().single_thread(true));
        let stop = Gate::default();
        let spinning = runtime.spawn({
            let stop = stop.clone();
            async move {
                while !stop.is_open() {
                    filch::yield_now().await;
                }
            }
        });
        let opener = stop.clone();
        runtime.spawn(async move { opener.open() }).wait();
        spinning.wait();
    });
}

/// Polls children each with a waker of its own, as combinators do; a child that was not woken is
/// not polled.
struct Each {
    children: Vec<Option<Child>>,
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Child {
    future: Boxed,
    flag: Arc<Flag>,
}

struct Flag {
    woken: Mutex<bool>,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        let outer = self.outer.lock().unwrap().clone();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl Each {
    fn new(futures: impl IntoIterator<Item = Boxed>) -> Self {
        let child = |future| {
            let flag = Flag { woken: Mutex::new(true), outer: Mutex::new(None) };
            Some(Child { future, flag: Arc::new(flag) })
        };
        Self { children: futures.into_iter().map(child).collect() }
    }
}

impl Future for Each {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        for slot in &mut self.children {
            let Some(child) = slot else { continue };
            *child.flag.outer.lock().unwrap() = Some(cx.waker().clone());
            if !std::mem::take(&mut *child.flag.woken.lock().unwrap()) {
                continue;
            }
            let waker = Waker::from(child.flag.clone());
            if child.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *slot = None;
            }
        }
        let done = self.children.iter().all(Option::is_none);
        if done { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn yield_inside_a_combinator_with_its_own_wakers_wakes_the_right_child() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let steps = Arc::new(AtomicUsize::new(0));
        let child = |steps: Arc<AtomicUsize>| -> Boxed {
            Box::pin(async move {
                for _ in 0..100 {
                    filch::yield_now().await;
                    steps.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let each = Each::new((0..10).map(|_| child(steps.clone())));
        runtime.spawn(each).wait();
        runtime.block_on(Each::new((0..10).map(|_| child(steps.clone()))));
        assert_eq!(steps.load(Ordering::SeqCst), 2_000);
    });
}

#[test]
fn handles_inside_a_combinator_outlast_the_poll_budget() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let handle = runtime.spawn(async {
            let futures = (0..2_000).map(|i| -> Boxed {
                let handle = filch::spawn(async move { i });
                Box::pin(async move { assert_eq!(handle.await, i) })
            });
            Each::new(futures.collect::<Vec<_>>()).await;
        });
        handle.wait();
    });
}

#[test]
fn yield_beside_a_future_that_is_woken_polls_both_again() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let handle = runtime.spawn(async {
            let gate = Gate::default();
            let opener = gate.clone();
            drop(filch::spawn(async move { opener.open() }));
            let mut gate = Box::pin(gate);
            let mut yields = 0;
            // Both share the task's waker: the yield must not swallow the wake.
            while poll_fn(|cx| Poll::Ready(gate.as_mut().poll(cx).is_pending())).await {
                filch::yield_now().await;
                yields += 1;
            }
            yields
        });
        handle.wait();
    });
}
