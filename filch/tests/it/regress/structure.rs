//! Groups and scopes: what is cancelled, what ends, and when.

use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filch::{Group, Runtime};

use crate::support::{Drops, Gate, until};
use crate::watchdog::watched;

#[test]
fn detached_group_child_that_fails_ends() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let gate = Gate::default();
        let result: Result<(), &str> = runtime.block_on(filch::group(async |g| {
            let (gate, detached) = (gate.clone(), g.clone());
            let child = g.spawn(async move {
                gate.await;
                drop(detached);
                Err::<(), _>("late")
            });
            child.detach();
            Ok(())
        }));
        assert_eq!(result, Ok(()));
        gate.open();
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn foreign_spawn_into_a_group_survives_the_end_of_the_runtime() {
    watched(|dog| {
        for _ in 0..20 {
            let runtime = dog.rig(1);
            let foreign = runtime.block_on(async {
                let result: Result<_, ()> = filch::group(async |g| {
                    let ran = Gate::default();
                    let opens = ran.clone();
                    let foreign = std::thread::spawn(move || {
                        drop(g.spawn(async move {
                            opens.open();
                            Ok(())
                        }));
                    });
                    ran.await;
                    Ok(foreign)
                })
                .await;
                result.unwrap()
            });
            // The foreign thread may still be inside `spawn`.
            runtime.drain();
            foreign.join().unwrap();
        }
    });
}

#[test]
fn future_below_a_waiting_job_is_cancelled_with_the_group() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        let result: Result<(), ()> = runtime.block_on(filch::group(async |g| {
            let token = drops.token();
            drop(g.spawn_fn(move || {
                filch::block_on_fn(|| {
                    drop(filch::spawn(async move {
                        let _token = token;
                        pending::<()>().await;
                    }));
                });
                Ok(())
            }));
            // Until the job waits, and so has looked for members that it could help with.
            while !runtime.snapshot().workers.iter().any(|worker| worker.blocked) {
                std::thread::yield_now();
            }
            g.cancel();
            Ok(())
        }));
        assert_eq!((result, drops.count()), (Ok(()), 1));
    });
}

type Deep = Pin<Box<dyn Future<Output = Result<(), ()>> + Send>>;

/// So many groups, each in a child of the one before, around a child that never ends.
fn nest(levels: u32, reached: Gate) -> Deep {
    Box::pin(async move {
        if levels == 0 {
            reached.open();
            return pending().await;
        }
        filch::group(async move |g: Group<()>| {
            drop(g.spawn(nest(levels - 1, reached)));
            Ok(())
        })
        .await
    })
}

#[test]
fn hundred_thousand_nested_groups_are_cancelled_without_recursion() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let reached = Gate::default();
        let result = runtime.block_on(filch::group(async |g: Group<()>| {
            drop(g.spawn(nest(100_000, reached.clone())));
            reached.clone().await;
            g.cancel();
            Ok(())
        }));
        assert_eq!(result, Ok(()));
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn scope_whose_child_was_cancelled_does_not_return() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let returned = Arc::new(AtomicBool::new(false));
        let result: Result<(), ()> = runtime.block_on(filch::group(async |g| {
            let (inside, flag) = (Gate::default(), returned.clone());
            let reached = inside.clone();
            let job = g.spawn_fn(move || {
                filch::scope(|s| {
                    s.spawn_async(async {
                        reached.open();
                        pending().await
                    });
                });
                flag.store(true, Ordering::SeqCst);
                Ok(())
            });
            inside.await;
            g.cancel();
            assert!(job.outcome().await.unwrap_err().is_cancelled());
            Ok(())
        }));
        assert_eq!(result, Ok(()));
        assert!(!returned.load(Ordering::SeqCst));
        runtime.assert_alive();
        assert!(runtime.drain().is_empty());
    });
}

/// A panic's payload that panics with its like whenever it is dropped.
struct Endless;

impl Drop for Endless {
    fn drop(&mut self) {
        panic_any(Endless);
    }
}

#[test]
fn panic_payload_that_panics_in_its_drop_ends_there_and_the_scope_waits() {
    watched(|dog| {
        let builder = Runtime::builder().io_workers(1).compute_workers(1).compute_spares(0);
        let runtime = dog.rig_of(builder);
        let (started, gate) = (Gate::default(), Gate::default());
        let ended = AtomicBool::new(false);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on_fn(|| {
                filch::scope(|s| {
                    s.spawn(|_| {
                        started.open();
                        gate.block();
                        ended.store(true, Ordering::SeqCst);
                    });
                    started.block();
                    // The only worker is inside the child; so these run here, the newest first.
                    s.spawn(|_| gate.open());
                    s.spawn(|_| panic_any(Endless));
                    s.spawn(|_| panic_any(Endless));
                });
            });
        }));
        gate.open();
        assert!(ended.load(Ordering::SeqCst), "nothing unwinds past a child");
        let payload = unwound.unwrap_err();
        assert!(payload.is::<Endless>());
        std::mem::forget(payload);
        until(|| runtime.uncollected().len() == 1);
        runtime.assert_alive();
    });
}
