//! The body of a `group`: a failure drops it, unless it finishes; a cancel does not, and tells it.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use filch::Group;

use crate::support::{CountingWaker, Drops, Gate, panic_of};
use crate::watchdog::watched;

#[test]
fn error_of_a_child_drops_a_body_that_would_never_end() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, served) = (Drops::default(), Gate::default());
        let result: Result<(), &str> = runtime.block_on(filch::group(async |g| {
            let (body, child) = (drops.token(), drops.slow_token());
            drop(g.spawn(async move {
                let _child = child;
                pending::<Result<(), &str>>().await
            }));
            let gate = served.clone();
            drop(g.spawn(async move {
                gate.await;
                Err::<(), _>("lost")
            }));
            let _body = body;
            // As a loop that accepts connections.
            loop {
                filch::yield_now().await;
                served.open();
                pending::<()>().await;
            }
        }));
        assert_eq!((result, drops.count()), (Err("lost"), 2));
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn panic_of_a_child_drops_a_body_that_would_never_end() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for job in [false, true] {
            let drops = Drops::default();
            let text = panic_of(|| {
                runtime.block_on(filch::group(async |g: Group<()>| {
                    let _body = drops.token();
                    match job {
                        true => drop(g.spawn_fn(|| -> Result<(), ()> { panic!("child") })),
                        false => drop(g.spawn(async { panic!("child") as Result<(), ()> })),
                    }
                    pending::<Result<(), ()>>().await
                }))
            });
            assert_eq!((text.as_str(), drops.count()), ("child", 1));
        }
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn error_drops_a_body_that_is_polled_by_another_executor_and_beside_others() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let (one, two) = (drops.token(), drops.token());
        let result = runtime.block_on_fn(|| {
            futures_lite::future::block_on(filch::group(async move |g: Group<&str>| {
                let _body = one;
                drop(g.spawn(async { Err::<(), _>("left") }));
                pending::<Result<(), &str>>().await
            }))
        });
        assert_eq!(result, Err("left"));
        let result = runtime.block_on(async move {
            let group = filch::group(async move |g: Group<&str>| {
                let _body = two;
                drop(g.spawn(async { Err::<(), _>("right") }));
                pending::<Result<(), &str>>().await
            });
            filch::select! {
                () = pending() => Ok(()),
                result = group => result,
            }
        });
        assert_eq!((result, drops.count()), (Err("right"), 2));
    });
}

/// Panics when dropped; before that, says in whose group it is.
struct LoudInGroup(Gate);

impl Drop for LoudInGroup {
    fn drop(&mut self) {
        let gate = self.0.clone();
        // Joins the group whose body this is dropped with, and is cancelled with it.
        drop(filch::spawn(async move {
            gate.await;
        }));
        panic!("destructor of the body");
    }
}

#[test]
fn panic_of_a_dropped_bodys_destructor_continues_once_all_have_ended() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let text = panic_of(|| {
            runtime.block_on(filch::group(async |g: Group<&str>| {
                let _loud = LoudInGroup(gate.clone());
                let child = drops.slow_token();
                drop(g.spawn(async move {
                    let _child = child;
                    pending::<Result<(), &str>>().await
                }));
                drop(g.spawn(async { Err::<(), _>("an error too") }));
                pending::<Result<(), &str>>().await
            }))
        });
        assert_eq!((text.as_str(), drops.count()), ("destructor of the body", 1));
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn body_that_finishes_runs_to_its_end_after_a_failure() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let finished = AtomicUsize::new(0);
        let body = async |g: Group<&'static str>| {
            g.cancelled().await;
            assert!(g.is_cancelled());
            for _ in 0..10 {
                filch::yield_now().await;
            }
            finished.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let failing = filch::group(async |g| {
            drop(g.spawn(async { Err::<(), _>("lost") }));
            body(g).await
        });
        assert_eq!(runtime.block_on(failing.finish_body()), Err("lost"));
        let text = panic_of(|| {
            let panicking = filch::group(async |g: Group<&'static str>| {
                drop(g.spawn_fn(|| -> Result<(), _> { panic!("child") }));
                body(g).await
            });
            runtime.block_on(panicking.finish_body())
        });
        assert_eq!((text.as_str(), finished.load(Ordering::SeqCst)), ("child", 2));
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn error_of_a_child_wins_over_the_value_that_the_body_has_already() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, ended) = (Gate::default(), Drops::default());
        let result = runtime.block_on(async {
            let (inner, value) = (gate.clone(), ended.token());
            let mut group = Box::pin(filch::group(async move |g| {
                drop(g.spawn(async move {
                    inner.await;
                    Err::<(), _>("late")
                }));
                Ok(value)
            }));
            poll_fn(|cx| {
                assert!(group.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            gate.open();
            group.await.map(drop)
        });
        assert_eq!((result, ended.count()), (Err("late"), 1));
    });
}

#[test]
fn cancel_does_not_end_the_body_which_hears_of_it() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let result: Result<&str, ()> = runtime.block_on(filch::group(async |g| {
            let stop = g.clone();
            drop(g.spawn(async move {
                stop.cancel();
                Ok(())
            }));
            let heard = filch::select! {
                () = g.cancelled() => "heard",
                () = pending() => unreachable!(),
            };
            // The body goes on, as long as it likes.
            for _ in 0..10 {
                filch::yield_now().await;
            }
            g.cancelled().await;
            Ok(heard)
        }));
        assert_eq!(result, Ok("heard"));
    });
}

#[test]
fn failure_after_a_cancel_drops_the_body() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, cancelled) = (Gate::default(), Gate::default());
        let result: Result<(), &str> = runtime.block_on(filch::group(async |g| {
            let (running, opens, waits) = (Gate::default(), gate.clone(), cancelled.clone());
            let started = running.clone();
            drop(g.spawn_fn(move || {
                started.open();
                waits.block();
                opens.open();
                Err::<(), _>("after the cancel")
            }));
            running.await;
            g.cancel();
            cancelled.open();
            pending().await
        }));
        assert_eq!((result, gate.is_open()), (Err("after the cancel"), true));
    });
}

#[test]
fn cancel_of_an_enclosing_group_is_heard() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let told = Gate::default();
        let result: Result<(), ()> = runtime.block_on(filch::group(async |outer| {
            let (inside, opens) = (Gate::default(), told.clone());
            let reached = inside.clone();
            // A job that runs is not dropped.
            drop(outer.spawn_fn(move || {
                filch::block_on(filch::group(async |inner: Group<()>| {
                    reached.open();
                    inner.cancelled().await;
                    opens.open();
                    Ok(())
                }))
            }));
            inside.await;
            outer.cancel();
            Ok(())
        }));
        assert_eq!((result, told.is_open()), (Ok(()), true));
    });
}

#[test]
fn end_of_a_group_ends_the_wait_for_its_cancel() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let waits = Gate::default();
        let result: Result<Group<()>, ()> = runtime.block_on(filch::group(async |g: Group<()>| {
            let (clone, waiting) = (g.clone(), waits.clone());
            drop(runtime.spawn(async move {
                let mut cancelled = pin!(clone.cancelled());
                poll_fn(|cx| {
                    let poll = cancelled.as_mut().poll(cx);
                    waiting.open();
                    poll
                })
                .await;
                assert!(!clone.is_cancelled());
            }));
            // One that gives up leaves the other waiting.
            let mut dropped = Box::pin(g.cancelled());
            poll_fn(|cx| {
                assert!(dropped.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(dropped);
            waits.await;
            Ok(g)
        }));
        runtime.block_on(result.unwrap().cancelled());
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn body_of_a_dropped_group_is_dropped_in_it_and_its_panic_goes_on() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let gate = Gate::default();
        let text = panic_of(|| {
            runtime.block_on(async {
                let loud = LoudInGroup(gate.clone());
                let mut group = Box::pin(filch::group(async move |_: Group<()>| {
                    let _loud = loud;
                    pending::<Result<(), ()>>().await
                }));
                poll_fn(|cx| Poll::Ready(group.as_mut().poll(cx).is_pending())).await;
                // The task that its destructor spawns is cancelled with the group: nobody opens the gate.
                drop(group);
            })
        });
        assert_eq!(text, "destructor of the body");
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn failure_beside_a_body_that_runs_waits_or_ends_is_never_missed() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for round in 0..600 {
            let (drops, gate) = (Drops::default(), Gate::default());
            let (token, opens) = (drops.token(), gate.clone());
            let group = filch::group(async move |g| {
                let _token = token;
                // Both begin at once.
                let begin = gate.clone();
                drop(g.spawn(async move {
                    begin.await;
                    Err::<(), _>("failed")
                }));
                drop(g.spawn_fn(move || {
                    gate.block();
                    Err::<(), _>("failed")
                }));
                opens.open();
                for _ in 0..round % 5 {
                    filch::yield_now().await;
                }
                if round % 3 == 0 { Ok(()) } else { pending().await }
            });
            // As a task, which moves between workers, or on this thread.
            let result = match round % 2 {
                0 => runtime.spawn(group).wait(),
                _ => runtime.block_on(group),
            };
            assert_eq!((result, drops.count()), (Err("failed"), 1), "round {round}");
        }
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn end_that_a_poll_brings_about_wakes_nobody() {
    watched(|dog| {
        let runtime = dog.rig(1);
        runtime.block_on_fn(|| {
            let counting = Arc::new(CountingWaker::default());
            let waker = Waker::from(counting.clone());
            let mut group = Box::pin(filch::group(async |_: Group<()>| Ok(1)));
            assert_eq!(group.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(1)));
            assert_eq!(counting.wakes(), 0);
        });
    });
}
