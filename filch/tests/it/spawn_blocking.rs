//! Closures that block, on threads apart from the workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filch::testkit::{Clock, ManualClock};
use filch::{Builder, Shutdown, TaskState};

use crate::kit::{assert_no_thread_named, eventually, threads_named};
use crate::support::{Drops, Gate, panic_of, role, until};
use crate::watchdog::watched;

struct OpensWhenDropped(Gate);

impl Drop for OpensWhenDropped {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn one() -> Builder {
    Builder::new().workers(1)
}

#[test]
fn value_comes_back_from_a_thread_that_is_no_worker() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let task = runtime.spawn(async { filch::spawn_blocking(|| (role(), 7)).await });
        assert_eq!(runtime.block_on(task), (None, 7));
        assert_eq!(runtime.spawn_blocking(|| 8).wait(), 8);
    });
}

#[test]
fn no_thread_exists_before_the_first_use_and_its_name_says_what_it_is() {
    watched(|dog| {
        let runtime = dog.rig_of(one().thread_name("sb1"));
        assert_eq!(threads_named("sb1-block").len(), 0);
        let name = runtime.spawn_blocking(|| std::thread::current().name().map(str::to_owned));
        assert_eq!(name.wait().as_deref(), Some("sb1-block-0"));
        drop(runtime);
        assert_no_thread_named("sb1-block");
    });
}

#[test]
fn tasks_and_jobs_go_on_while_every_blocking_thread_is_busy() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(2));
        let gate = Gate::default();
        let blocked: Vec<_> = (0..8)
            .map(|_| {
                let gate = gate.clone();
                runtime.spawn_blocking(move || gate.block())
            })
            .collect();
        until(|| runtime.snapshot().blocking.queued == 6);
        runtime.assert_alive();
        gate.open();
        filch::wait_all(blocked);
    });
}

#[test]
fn at_most_so_many_run_at_a_time() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(3));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all = (0..60).map(|_| {
            let (now, most) = (now.clone(), most.clone());
            runtime.spawn_blocking(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        filch::wait_all(all.collect::<Vec<_>>());
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
        assert!(runtime.snapshot().blocking.threads <= 3);
    });
}

#[test]
fn one_thread_runs_closures_in_the_order_of_their_spawns() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(1));
        let (gate, order) = (Gate::default(), Arc::new(Mutex::new(Vec::new())));
        let closed = gate.clone();
        let first = runtime.spawn_blocking(move || closed.block());
        let all: Vec<_> = (0..50)
            .map(|i| {
                let order = order.clone();
                runtime.spawn_blocking(move || order.lock().unwrap().push(i))
            })
            .collect();
        gate.open();
        filch::wait((first, all));
        assert!(order.lock().unwrap().iter().copied().eq(0..50));
    });
}

#[test]
fn idle_threads_go_and_come_back() {
    watched(|dog| {
        let builder = one().thread_name("sb2").blocking_keep_alive(Duration::from_millis(2));
        let runtime = dog.rig_of(builder);
        for _ in 0..3 {
            filch::wait_all((0..4).map(|_| runtime.spawn_blocking(|| ())).collect::<Vec<_>>());
            eventually("idle threads go", || runtime.snapshot().blocking.threads == 0);
            assert_no_thread_named("sb2-block");
        }
    });
}

#[test]
fn an_idle_thread_stays_while_its_time_has_not_come() {
    watched(|dog| {
        let clock = Arc::new(ManualClock::new());
        let keep_alive = Duration::from_millis(1);
        let builder = one().clock(Clock::Manual(clock.clone())).blocking_keep_alive(keep_alive);
        let runtime = dog.rig_of(builder);
        runtime.spawn_blocking(|| ()).wait();
        until(|| runtime.snapshot().blocking.idle == 1);
        clock.advance(Duration::from_secs(1));
        eventually("the thread goes", || runtime.snapshot().blocking.threads == 0);
    });
}

#[test]
fn an_idle_thread_is_used_again() {
    watched(|dog| {
        let runtime = dog.rig(1);
        for _ in 0..200 {
            runtime.spawn_blocking(|| ()).wait();
            until(|| runtime.snapshot().blocking.idle == 1);
        }
        assert_eq!(runtime.snapshot().blocking.threads, 1);
    });
}

#[test]
fn panic_goes_to_the_handle_else_to_the_group() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let error = runtime.spawn_blocking(|| panic!("kept")).wait_outcome().unwrap_err();
        assert!(error.is_panic());
        let text = panic_of(|| {
            runtime.block_on_fn(|| drop(filch::spawn_blocking(|| panic!("dropped"))));
        });
        assert_eq!(text, "dropped");
        assert_eq!(runtime.spawn_blocking(|| 1).wait(), 1, "the threads live on");
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn group_ends_after_closures_below_it_however_deep() {
    watched(|dog| {
        let runtime = dog.rig(1);
        for _ in 0..50 {
            let drops = Drops::default();
            let (a, b, c) = (drops.slow_token(), drops.slow_token(), drops.slow_token());
            let result: Result<(), ()> = runtime.block_on(filch::group(async move |_| {
                drop(filch::spawn_blocking(move || {
                    drop(filch::spawn_blocking(move || drop(a)));
                    filch::block_on_fn(|| drop(filch::spawn(async move { drop(b) })));
                    drop(c);
                }));
                Ok(())
            }));
            assert_eq!((result, drops.count()), (Ok(()), 3));
        }
    });
}

#[test]
fn closure_cancelled_before_its_start_is_dropped_unrun() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(1));
        let (gate, drops, ran) = (Gate::default(), Drops::default(), Gate::default());
        let (closed, token, never) = (gate.clone(), drops.token(), ran.clone());
        let first = runtime.spawn_blocking(move || closed.block());
        let second = runtime.spawn_blocking(move || {
            never.open();
            drop(token);
        });
        second.cancel();
        gate.open();
        first.wait();
        assert!(second.wait_outcome().unwrap_err().is_cancelled());
        assert!(!ran.is_open());
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn cancelled_group_drops_closures_that_have_not_started() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(1));
        let (gate, started, ran) = (Gate::default(), Gate::default(), Gate::default());
        let never = ran.clone();
        let result: Result<(), &str> = runtime.block_on(filch::group(async move |_| {
            let (closed, begun) = (gate.clone(), started.clone());
            drop(filch::spawn_blocking(move || {
                begun.open();
                closed.block();
            }));
            started.await;
            drop(filch::spawn_blocking(move || never.open()));
            // Opens when the cancelled group drops it.
            let opener = OpensWhenDropped(gate);
            drop(filch::spawn(async move {
                std::future::pending::<()>().await;
                drop(opener);
            }));
            Err("no")
        }));
        assert_eq!(result, Err("no"));
        assert!(!ran.is_open());
    });
}

#[test]
fn drain_runs_what_is_queued() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(1));
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let ran = ran.clone();
            drop(runtime.spawn_blocking(move || ran.fetch_add(1, Ordering::SeqCst)));
        }
        assert!(runtime.drain().is_empty());
        assert_eq!(ran.load(Ordering::SeqCst), 20);
    });
}

#[test]
fn abort_waits_for_what_runs_and_drops_what_is_queued() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(1));
        let (gate, started) = (Gate::default(), Gate::default());
        let (drops, ran) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let (closed, begun, count) = (gate.clone(), started.clone(), ran.clone());
        let first = runtime.spawn_blocking(move || {
            begun.open();
            closed.block();
            count.fetch_add(1, Ordering::SeqCst);
        });
        started.block();
        for _ in 0..5 {
            let (token, count) = (drops.token(), ran.clone());
            drop(runtime.spawn_blocking(move || {
                count.fetch_add(1, Ordering::SeqCst);
                drop(token);
            }));
        }
        let ender =
            std::thread::spawn(move || runtime.shutdown(Shutdown::DrainFor(Duration::ZERO)));
        gate.open();
        let report = ender.join().unwrap();
        first.wait();
        assert_eq!(drops.count(), 5);
        let ran = ran.load(Ordering::SeqCst);
        // Those that a thread took before the abort began have run.
        assert!(ran >= 1 && ran + report.unfinished.len() >= 6, "{ran} ran; {report}");
    });
}

#[test]
fn reports_show_what_runs_and_what_waits() {
    watched(|dog| {
        let runtime = dog.rig_of(one().blocking_threads(1));
        let (gate, started) = (Gate::default(), Gate::default());
        let (closed, begun) = (gate.clone(), started.clone());
        let first = runtime.task().name("first").spawn_blocking(move || {
            begun.open();
            closed.block();
        });
        started.block();
        let second = runtime.task().name("second").spawn_blocking(|| ());
        let tasks = runtime.tasks();
        let state = |name: &str| {
            tasks.iter().find(|task| task.name.as_deref() == Some(name)).map(|task| task.state)
        };
        assert_eq!(state("first"), Some(TaskState::Running));
        assert_eq!(state("second"), Some(TaskState::Queued));
        let blocking = runtime.snapshot().blocking;
        assert_eq!((blocking.threads, blocking.idle, blocking.queued), (1, 0, 1));
        let text = runtime.describe().to_string();
        assert!(text.contains("1 of 1 threads for what blocks, 0 idle; 1 queued"), "{text}");
        gate.open();
        filch::wait((first, second));
    });
}

#[test]
fn runtime_that_has_shut_down_reports_the_closure_as_cancelled() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let handle = runtime.handle();
        runtime.shutdown(Shutdown::Drain);
        let drops = Drops::default();
        let token = drops.token();
        let refused = handle.spawn_blocking(move || drop(token));
        assert_eq!(drops.count(), 1);
        assert!(refused.wait_outcome().unwrap_err().is_cancelled());
    });
}
