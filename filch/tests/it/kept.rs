//! Futures that began in a runtime and outlive it: kept elsewhere, or forgotten.
//!
//! The end of a runtime waits for tasks and for `block_on`, not for a future that nobody in it polls. Afterwards such a future
//! may be polled and dropped anywhere.

mod others;

use std::any::Any;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use filch::sync::mpmc;
use filch::{Builder, Group, Handle, JoinError, Runtime, Shutdown, ShutdownReport};

use crate::kit::{eventually, receive};
use crate::support::Drops;
use crate::watchdog::watched;

type Kept = Pin<Box<dyn Future<Output = String> + Send>>;

fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

/// How a runtime may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Drain,
    DrainFor,
    Abort,
    Drop,
}

const ENDS: [End; 4] = [End::Drain, End::DrainFor, End::Abort, End::Drop];

impl End {
    fn of(self, runtime: Runtime) -> ShutdownReport {
        match self {
            End::Drain => runtime.shutdown(Shutdown::Drain),
            // Longer than the watchdog waits.
            End::DrainFor => runtime.shutdown(Shutdown::DrainFor(Duration::from_secs(3600))),
            End::Abort => runtime.shutdown(Shutdown::Abort),
            End::Drop => {
                drop(runtime);
                ShutdownReport::default()
            }
        }
    }

    /// Ends the runtime on another thread; panics if that never ends.
    #[track_caller]
    fn in_time(self, runtime: Runtime) -> ShutdownReport {
        let (tx, rx) = mpsc::channel();
        let thread = std::thread::spawn(move || tx.send(self.of(runtime)));
        let report = receive(&rx, "the end of the runtime");
        thread.join().unwrap().unwrap();
        report
    }

    fn drains(self) -> bool {
        matches!(self, End::Drain | End::DrainFor)
    }
}

/// What a single poll comes to.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Pending,
    Ready(String),
    Panicked(String),
}

impl Seen {
    fn panicked_with(&self, part: &str) -> bool {
        matches!(self, Self::Panicked(text) if text.contains(part))
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

/// Polls once, here.
fn poll_here(future: &mut Kept) -> Seen {
    poll_with(future, &mut Context::from_waker(Waker::noop()))
}

fn poll_with(future: &mut Kept, cx: &mut Context<'_>) -> Seen {
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Seen::Pending,
        Ok(Poll::Ready(value)) => Seen::Ready(value),
        Err(payload) => Seen::Panicked(text_of(&*payload)),
    }
}

/// Polls once, as the task that this is.
async fn poll_in_task(future: &mut Kept) -> Seen {
    poll_fn(|cx| Poll::Ready(poll_with(future, cx))).await
}

/// A future that was polled once in a task of the runtime, and is here now.
fn begun(runtime: &Handle, make: impl FnOnce() -> Kept + Send + 'static) -> Kept {
    runtime
        .spawn(async move {
            let mut future = make();
            assert_eq!(poll_in_task(&mut future).await, Seen::Pending);
            future
        })
        .wait()
}

fn endless_group() -> Kept {
    Box::pin(async {
        let result: Result<(), ()> = filch::group(async |_| pending().await).await;
        format!("{result:?}")
    })
}

/// A group in a group in a group, each of which waits for the next.
fn nested_groups() -> Kept {
    Box::pin(async {
        let result = filch::group(async |_| {
            filch::group(async |_| filch::group(async |_| pending::<Result<(), ()>>().await).await)
                .await
        });
        format!("{:?}", result.await)
    })
}

fn group_under_a_timeout() -> Kept {
    Box::pin(async {
        let group = filch::group(async |_| pending::<Result<(), ()>>().await);
        format!("{:?}", filch::time::timeout(Duration::from_secs(3600), group).await)
    })
}

const GROUPS: [fn() -> Kept; 3] = [endless_group, nested_groups, group_under_a_timeout];

const ENDED: &str = "the runtime has ended";

/// Each kind of group with each end.
fn all_cases() -> impl Iterator<Item = (End, fn() -> Kept)> {
    ENDS.into_iter().flat_map(|end| GROUPS.map(|make| (end, make)))
}

#[test]
fn runtime_ends_beside_a_kept_group_that_then_panics_when_polled() {
    watched(|_| {
        for (end, make) in all_cases() {
            let runtime = runtime();
            let mut kept = begun(&runtime, make);
            assert!(end.in_time(runtime).unfinished.is_empty());
            let seen = poll_here(&mut kept);
            assert!(seen.panicked_with(ENDED), "{end:?}: {seen:?}");
        }
    });
}

#[test]
fn runtime_ends_beside_a_forgotten_group() {
    watched(|_| {
        for (end, make) in all_cases() {
            let runtime = runtime();
            std::mem::forget(begun(&runtime, make));
            end.in_time(runtime);
        }
    });
}

#[test]
fn group_that_its_runtime_did_not_wait_for_is_dropped_once() {
    watched(|_| {
        for end in ENDS {
            let (runtime, drops) = (runtime(), Drops::default());
            let token = drops.token();
            let kept = begun(&runtime, move || {
                Box::pin(async move {
                    let group = filch::group(async move |g: Group<()>| {
                        let _token = token;
                        let result = pending().await;
                        drop(g);
                        result
                    });
                    format!("{:?}", group.await as Result<(), ()>)
                })
            });
            end.in_time(runtime);
            assert_eq!(drops.count(), 0);
            drop(kept);
            assert_eq!(drops.count(), 1);
        }
    });
}

#[test]
fn group_may_be_polled_and_dropped_elsewhere_before_the_end() {
    watched(|_| {
        for (end, make) in all_cases() {
            let runtime = runtime();
            let mut kept = begun(&runtime, make);
            for _ in 0..3 {
                assert_eq!(poll_here(&mut kept), Seen::Pending);
            }
            drop(kept);
            end.in_time(runtime);
        }
    });
}

#[test]
fn group_dropped_beside_the_end_gives_its_unit_back_once() {
    watched(|_| {
        for (end, make) in (0..20).flat_map(|_| all_cases()) {
            let runtime = runtime();
            let kept: Vec<_> = (0..4).map(|_| begun(&runtime, make)).collect();
            let start = Arc::new(Barrier::new(3));
            let mut halves = kept.into_iter();
            let droppers = [2, 2].map(|share| {
                let (mine, start) =
                    (halves.by_ref().take(share).collect::<Vec<_>>(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    drop(mine);
                })
            });
            start.wait();
            end.in_time(runtime);
            droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
        }
    });
}

/// An endless group that sends its handle.
fn group_that_tells(tx: mpsc::Sender<Group<()>>) -> Kept {
    Box::pin(async move {
        let result: Result<(), ()> = filch::group(async |g| {
            tx.send(g).unwrap();
            pending().await
        })
        .await;
        format!("{result:?}")
    })
}

/// A group that spawns a child with each poll, until `stop` says so.
fn busy_group(born: Arc<AtomicUsize>) -> Kept {
    Box::pin(async move {
        let result: Result<(), ()> = filch::group(async |g| {
            loop {
                let born = born.clone();
                drop(g.spawn(async move {
                    born.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                }));
                drop(filch::spawn_fn(|| ()));
                filch::yield_now().await;
            }
        })
        .await;
        format!("{result:?}")
    })
}

/// A drain runs all that is spawned; so who spawns without an end is aborted.
#[test]
fn group_polled_elsewhere_without_a_pause_goes_on_until_the_end() {
    watched(|_| {
        for end in (0..10).flat_map(|_| [End::Abort, End::Drop]) {
            let (runtime, born) = (runtime(), Arc::new(AtomicUsize::new(0)));
            let counter = born.clone();
            let mut kept = begun(&runtime, || busy_group(counter));
            let poller = std::thread::spawn(move || {
                loop {
                    match poll_here(&mut kept) {
                        Seen::Pending => {}
                        seen => break seen,
                    }
                }
            });
            eventually("children are born", || born.load(Ordering::SeqCst) > 10);
            end.in_time(runtime);
            let seen = poller.join().unwrap();
            assert!(seen.panicked_with(ENDED), "{end:?}: {seen:?}");
        }
    });
}

#[test]
fn abort_ends_beside_a_thread_that_spawns_into_a_group_without_a_pause() {
    watched(|_| {
        for end in (0..10).flat_map(|_| [End::Abort, End::Drop]) {
            let runtime = runtime();
            let (tx, rx) = mpsc::channel();
            let kept = begun(&runtime, move || group_that_tells(tx));
            let group = rx.recv().unwrap();
            let spawner = std::thread::spawn(move || {
                while !group.spawn(async { Ok(()) }).wait_outcome().is_err_and(|e| e.is_cancelled())
                {
                    drop(group.spawn(pending::<Result<(), ()>>()));
                }
                for _ in 0..100 {
                    drop(group.spawn_fn(|| Ok(())));
                }
            });
            end.in_time(runtime);
            spawner.join().unwrap();
            drop(kept);
        }
    });
}

#[test]
fn drain_ends_beside_a_thread_that_polls_without_a_pause() {
    watched(|_| {
        for (end, make) in all_cases().filter(|(end, _)| end.drains()) {
            let runtime = runtime();
            let mut kept = begun(&runtime, make);
            let (polled, was_polled) = mpsc::channel();
            let poller = std::thread::spawn(move || {
                loop {
                    match poll_here(&mut kept) {
                        Seen::Pending => drop(polled.send(())),
                        seen => break seen,
                    }
                }
            });
            receive(&was_polled, "a poll elsewhere");
            end.in_time(runtime);
            let seen = poller.join().unwrap();
            assert!(seen.panicked_with(ENDED), "{end:?}: {seen:?}");
        }
    });
}

#[test]
fn task_of_another_runtime_that_awaits_a_group_is_told_of_the_end() {
    watched(|_| {
        for (end, make) in all_cases() {
            let (ends, stays) = (runtime(), runtime());
            let kept = begun(&ends, make);
            let (polled, was_polled) = mpsc::channel();
            let waiter = stays.spawn(async move {
                let mut kept = kept;
                assert_eq!(poll_in_task(&mut kept).await, Seen::Pending);
                polled.send(()).unwrap();
                kept.await
            });
            receive(&was_polled, "the poll elsewhere");
            end.in_time(ends);
            let panic = waiter.wait_outcome().unwrap_err();
            assert!(panic.to_string().contains(ENDED), "{end:?}: {panic}");
        }
    });
}

#[test]
fn drain_runs_the_children_of_a_kept_group_to_their_end() {
    watched(|_| {
        for end in ENDS.into_iter().filter(|end| end.drains()) {
            let (runtime, ran) = (runtime(), Arc::new(AtomicUsize::new(0)));
            let (go, may_go) = mpmc::bounded::<()>(1);
            let counter = ran.clone();
            let kept = begun(&runtime, move || {
                Box::pin(async move {
                    let result: Result<(), ()> = filch::group(async |g| {
                        drop(g.spawn(async move {
                            may_go.recv().await.unwrap();
                            filch::spawn_fn(move || counter.fetch_add(1, Ordering::SeqCst)).await;
                            Ok(())
                        }));
                        pending().await
                    })
                    .await;
                    format!("{result:?}")
                })
            });
            let handle = runtime.handle();
            let ending = std::thread::spawn(move || end.of(runtime));
            eventually("the drain has begun", || handle.task().try_spawn(async {}).is_err());
            go.try_send(()).unwrap();
            eventually("the end of the drain", || ending.is_finished());
            assert!(ending.join().unwrap().unfinished.is_empty());
            assert_eq!(ran.load(Ordering::SeqCst), 1);
            drop(kept);
        }
    });
}

/// Some time of the runtime's, in which a drain looks at it more than once.
async fn a_while() {
    for _ in 0..20 {
        filch::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn drain_waits_for_groups_that_tasks_and_block_on_poll() {
    watched(|_| {
        for end in ENDS.into_iter().filter(|end| end.drains()) {
            let runtime = runtime();
            // Kept ones besides, which the drain does not wait for.
            let kept = [begun(&runtime, endless_group), begun(&runtime, nested_groups)];
            let (began, has_begun) = mpsc::channel();
            let body = move || {
                let began = began.clone();
                filch::group(async move |_| {
                    began.send(()).unwrap();
                    a_while().await;
                    filch::group(async |_| {
                        a_while().await;
                        Ok::<_, ()>(())
                    })
                    .await
                })
            };
            let task = runtime.spawn(body());
            let handle = runtime.handle();
            let blocked = std::thread::spawn(move || handle.block_on(body()));
            (0..2).for_each(|_| receive(&has_begun, "the begin of a group"));
            assert!(end.in_time(runtime).unfinished.is_empty());
            assert_eq!(task.wait(), Ok(()));
            assert_eq!(blocked.join().unwrap(), Ok(()));
            drop(kept);
        }
    });
}

#[test]
fn handle_of_a_group_that_lives_on_outside_spawns_nothing_after_the_end() {
    watched(|_| {
        for end in ENDS {
            let runtime = runtime();
            let (tx, rx) = mpsc::channel();
            let kept = begun(&runtime, move || group_that_tells(tx));
            let group = rx.recv().unwrap();
            // While the runtime is there, it does.
            assert_eq!(group.spawn(async { Ok(7) }).wait(), 7);
            end.in_time(runtime);
            for group in [group.clone(), group] {
                assert!(group.spawn(async { Ok(7) }).wait_outcome().unwrap_err().is_cancelled());
                assert!(group.spawn_fn(|| Ok(7)).wait_outcome().unwrap_err().is_cancelled());
                assert!(group.is_cancelled());
                group.cancel();
            }
            drop(kept);
        }
    });
}

/// What the error of a refused task says after the task's number.
fn reason<T>(outcome: Result<T, JoinError>) -> String {
    let error = outcome.err().expect("it is refused");
    assert!(error.is_cancelled() && !error.is_panic(), "{error}");
    let text = error.to_string();
    let (task, reason) = text.split_once(" was refused: ").unwrap_or_else(|| panic!("{text}"));
    assert_eq!(task, format!("task {}", error.id()));
    reason.to_owned()
}

#[test]
fn spawn_into_a_group_says_that_the_group_or_the_runtime_has_ended() {
    watched(|_| {
        for end in ENDS {
            let runtime = runtime();
            let (tx, rx) = mpsc::channel();
            let kept = begun(&runtime, move || group_that_tells(tx));
            let group = rx.recv().unwrap();
            let over = runtime.block_on(filch::group(async |g: Group<()>| Ok(g))).unwrap();
            let spawn = |group: &Group<()>| {
                let future = reason(group.spawn(async { Ok(7) }).wait_outcome());
                assert_eq!(reason(group.spawn_fn(|| Ok(7)).wait_outcome()), future);
                future
            };
            assert_eq!(spawn(&over), "the group has ended");
            end.in_time(runtime);
            assert_eq!(spawn(&group), ENDED);
            assert_eq!(spawn(&over), ENDED);
            drop(kept);
        }
    });
}

#[test]
fn spawn_into_a_group_says_that_the_runtime_drops_its_tasks() {
    watched(|_| {
        let runtime = runtime();
        let (tx, rx) = mpsc::channel();
        let kept = begun(&runtime, move || group_that_tells(tx));
        let group = rx.recv().unwrap();
        let (started, starts) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let holds_up = runtime.spawn_blocking(move || {
            started.send(()).unwrap();
            let _ = held.recv();
        });
        receive(&starts, "a closure that holds up the end");
        let handle = runtime.handle();
        let ending = std::thread::spawn(move || End::Abort.of(runtime));
        let mut said = String::new();
        eventually("the abort", || {
            let outcome = group.spawn(async { Ok(()) }).wait_outcome();
            said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
            said.contains("refused")
        });
        assert!(said.ends_with("the runtime is shutting down"), "{said}");
        assert_eq!(reason(handle.spawn(async {}).wait_outcome()), "the runtime is shutting down");
        drop(release);
        holds_up.wait();
        ending.join().unwrap();
        drop(kept);
    });
}

#[test]
fn handle_of_a_runtime_that_has_ended_says_so_whatever_it_spawns() {
    watched(|_| {
        for end in ENDS {
            let runtime = Builder::new().workers(1).adoptable_threads(1).build().unwrap();
            let (handle, adopted) = (runtime.handle(), runtime.adopt().unwrap());
            end.in_time(runtime);
            assert_eq!(reason(handle.spawn(async {}).wait_outcome()), ENDED);
            assert_eq!(reason(handle.spawn_fn(|| ()).wait_outcome()), ENDED);
            assert_eq!(reason(handle.spawn_blocking(|| ()).wait_outcome()), ENDED);
            assert_eq!(reason(handle.task().spawn_after((), || ()).wait_outcome()), ENDED);
            let mut cpu: Kept = Box::pin(filch::cpu(String::new));
            let seen = poll_here(&mut cpu);
            assert!(seen.panicked_with(ENDED), "{seen:?}");
            drop(adopted);
            let refused = handle.post(|| ()).unwrap_err();
            assert!(refused.to_string().ends_with("has ended"), "{refused}");
        }
    });
}

#[test]
fn group_whose_body_had_ended_gives_its_result_after_the_end() {
    watched(|_| {
        for end in ENDS {
            let runtime = runtime();
            let (go, may_go) = mpmc::bounded::<()>(1);
            let mut kept = begun(&runtime, move || {
                Box::pin(async move {
                    let result: Result<u8, ()> = filch::group(async |g| {
                        drop(g.spawn(async move {
                            may_go.recv().await.unwrap();
                            Ok(())
                        }));
                        Ok(7)
                    })
                    .await;
                    format!("{result:?}")
                })
            });
            if end.drains() {
                go.try_send(()).unwrap();
            }
            end.in_time(runtime);
            assert_eq!(poll_here(&mut kept), Seen::Ready("Ok(7)".into()), "{end:?}");
        }
    });
}

#[test]
fn runtime_ends_beside_an_output_with_a_group_in_it() {
    watched(|_| {
        for (end, make) in all_cases() {
            let runtime = runtime();
            let handle = runtime.spawn(async move {
                let mut future = make();
                poll_in_task(&mut future).await;
                future
            });
            eventually("the task has ended", || handle.is_finished());
            end.in_time(runtime);
            let seen = poll_here(&mut handle.wait());
            assert!(seen.panicked_with(ENDED), "{end:?}: {seen:?}");
        }
    });
}

/// The end happens inside of a task and of a `block_on` of another runtime.
#[test]
fn runtime_inside_another_ends_beside_kept_groups() {
    watched(|_| {
        let outer = runtime();
        for (end, make) in all_cases() {
            let inside = move || {
                let inner = runtime();
                let mut kept = begun(&inner, make);
                end.of(inner);
                let seen = poll_here(&mut kept);
                assert!(seen.panicked_with(ENDED), "{end:?}: {seen:?}");
            };
            outer.block_on(async { inside() });
            outer.spawn(async move { inside() }).wait();
            outer.spawn_fn(inside).wait();
        }
    });
}

/// A `block_on` waits for the groups that began in it, as long as there is a runtime.
#[test]
fn block_on_that_has_forgotten_a_group_returns_at_the_end_of_the_runtime() {
    watched(|_| {
        for (end, make) in all_cases() {
            let (runtime, other) = (runtime(), runtime());
            let (tx, rx) = mpsc::channel();
            let handle = runtime.handle();
            let blocked = other.spawn_blocking(move || {
                handle.block_on(async move {
                    let mut future = make();
                    assert_eq!(poll_in_task(&mut future).await, Seen::Pending);
                    std::mem::forget(future);
                    tx.send(()).unwrap();
                });
            });
            receive(&rx, "the begin of the group");
            end.in_time(runtime);
            blocked.wait();
        }
    });
}

#[test]
fn runtime_ends_beside_a_group_that_an_adopted_thread_began() {
    watched(|_| {
        for (end, make) in all_cases() {
            let runtime = Builder::new().workers(1).adoptable_threads(1).build().unwrap();
            let mut kept = make();
            let adopted = runtime.adopt().unwrap();
            assert_eq!(poll_here(&mut kept), Seen::Pending);
            drop(adopted);
            end.in_time(runtime);
            let seen = poll_here(&mut kept);
            assert!(seen.panicked_with(ENDED), "{end:?}: {seen:?}");
        }
    });
}

#[test]
fn hive_ends_beside_a_kept_group() {
    watched(|_| {
        for make in GROUPS {
            let hive = Builder::new().workers(1).hive().unwrap();
            let handle = hive.handle();
            let runner = std::thread::spawn(move || hive.run().unwrap());
            let mut kept = begun(&handle, make);
            handle.request_stop();
            eventually("the end of the hive", || runner.is_finished());
            assert!(runner.join().unwrap().unfinished.is_empty());
            let seen = poll_here(&mut kept);
            assert!(seen.panicked_with(ENDED), "{seen:?}");
        }
    });
}

/// Nobody has run it, so its end runs it.
#[test]
fn hive_that_was_never_run_ends_beside_a_block_on_that_has_forgotten_a_group() {
    watched(|_| {
        for (end, make) in all_cases() {
            let hive = Builder::new().workers(1).hive().unwrap();
            let (handle, (tx, rx)) = (hive.handle(), mpsc::channel());
            let blocked = std::thread::spawn(move || {
                handle.block_on(async move {
                    let mut future = make();
                    assert_eq!(poll_in_task(&mut future).await, Seen::Pending);
                    std::mem::forget(future);
                    tx.send(()).unwrap();
                });
            });
            receive(&rx, "the begin of the group");
            end.in_time(hive);
            blocked.join().unwrap();
        }
    });
}
