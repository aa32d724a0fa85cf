//! `group`: the first error or panic cancels the rest, and all are waited for.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use filch::Group;

use crate::support::{Drops, Gate, panic_of, until};
use crate::watchdog::watched;

#[test]
fn value_of_the_body_comes_after_all_children() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let result: Result<&str, ()> = runtime.block_on(async {
            filch::group(async |g| {
                for _ in 0..20 {
                    let (a, b) = (drops.slow_token(), drops.token());
                    drop(g.spawn(async move {
                        filch::yield_now().await;
                        drop(a);
                        Ok(())
                    }));
                    drop(g.spawn_fn(move || {
                        drop(b);
                        Ok(())
                    }));
                }
                Ok("value")
            })
            .await
        });
        assert_eq!((result, drops.count()), (Ok("value"), 40));
    });
}

#[test]
fn first_error_cancels_the_rest_and_waits_for_them() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..20 {
            let (drops, gate) = (Drops::default(), Gate::default());
            let result: Result<(), &str> = runtime.block_on(async {
                filch::group(async |g| {
                    for _ in 0..10 {
                        let (token, gate) = (drops.slow_token(), gate.clone());
                        drop(g.spawn(async move {
                            gate.await;
                            drop(token);
                            Ok(())
                        }));
                    }
                    drop(g.spawn(async { Err::<(), _>("first") }));
                    Ok(())
                })
                .await
            });
            assert_eq!((result, drops.count()), (Err("first"), 10));
            assert!(!gate.is_open());
        }
    });
}

#[test]
fn error_of_a_job_cancels_the_rest() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, asked) = (Drops::default(), Gate::default());
        let result: Result<(), u8> = runtime.block_on(async {
            filch::group(async |g| {
                let token = drops.token();
                drop(g.spawn(async move {
                    let _token = token;
                    pending::<()>().await;
                    Ok(())
                }));
                let failed = g.spawn_fn(|| Err::<(), _>(3));
                assert_eq!(failed.await, None);
                assert!(g.is_cancelled());
                asked.open();
                Ok(())
            })
            .finish_body()
            .await
        });
        assert_eq!((result, drops.count()), (Err(3), 1));
        assert!(asked.is_open());
    });
}

#[test]
fn error_of_the_body_cancels_the_children() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let result: Result<(), &str> = runtime.block_on(async {
            filch::group(async |g| {
                let token = drops.token();
                drop(g.spawn(async move {
                    let _token = token;
                    pending::<Result<(), _>>().await
                }));
                Err("body")
            })
            .await
        });
        assert_eq!((result, drops.count()), (Err("body"), 1));
    });
}

#[test]
fn first_of_two_errors_is_the_result() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let result: Result<(), &str> = runtime.block_on(async {
            filch::group(async |g| {
                let first = g.spawn_fn(|| Err::<(), _>("first"));
                first.await;
                Err("second")
            })
            .await
        });
        assert_eq!(result, Err("first"));
    });
}

#[test]
fn child_that_fails_is_reported_as_cancelled_by_its_handle() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let asked = Gate::default();
        let result: Result<(), &str> = runtime.block_on(async {
            filch::group(async |g| {
                let child = g.spawn(async { Err::<(), _>("its error") });
                assert!(child.outcome().await.unwrap_err().is_cancelled());
                asked.open();
                Ok(())
            })
            .finish_body()
            .await
        });
        assert_eq!(result, Err("its error"));
        assert!(asked.is_open());
    });
}

#[test]
fn panic_of_a_child_cancels_the_rest_and_continues_after_them() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let text = panic_of(|| {
            runtime.block_on(async {
                filch::group(async |g: Group<()>| {
                    for _ in 0..10 {
                        let token = drops.slow_token();
                        drop(g.spawn(async move {
                            let _token = token;
                            pending::<Result<(), ()>>().await
                        }));
                    }
                    drop(g.spawn_fn(|| -> Result<(), ()> { panic!("child") }));
                    Ok(())
                })
                .await
            })
        });
        assert_eq!((text.as_str(), drops.count()), ("child", 10));
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn panic_of_the_body_cancels_the_children_and_continues_after_them() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let text = panic_of(|| {
            runtime.block_on(async {
                filch::group(async |g: Group<()>| -> Result<(), ()> {
                    let token = drops.slow_token();
                    drop(g.spawn(async move {
                        let _token = token;
                        pending::<Result<(), ()>>().await
                    }));
                    filch::yield_now().await;
                    panic!("body")
                })
                .await
            })
        });
        assert_eq!((text.as_str(), drops.count()), ("body", 1));
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn panic_that_the_body_takes_through_the_handle_is_nobody_elses() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let result: Result<bool, ()> = runtime.block_on(async {
            filch::group(async |g| {
                let child = g.spawn(async { panic!("taken") as Result<(), ()> });
                Ok(child.outcome().await.unwrap_err().is_panic() && !g.is_cancelled())
            })
            .await
        });
        assert_eq!(result, Ok(true));
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn error_in_an_inner_group_stays_there() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let result: Result<i32, u8> = runtime.block_on(async {
            filch::group(async |outer| {
                let child = outer.spawn(async {
                    let inner: Result<(), u8> = filch::group(async |g| {
                        drop(g.spawn(pending::<Result<(), u8>>()));
                        drop(g.spawn(async { Err::<(), _>(1) }));
                        Ok(())
                    })
                    .await;
                    assert_eq!(inner, Err(1));
                    Ok(5)
                });
                let value = child.await;
                assert!(!outer.is_cancelled());
                Ok(value)
            })
            .await
        });
        assert_eq!(result, Ok(5));
    });
}

#[test]
fn error_in_an_outer_group_cancels_the_inner_ones_too() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let result: Result<(), u8> = runtime.block_on(async {
            filch::group(async |outer| {
                let (token, inner_gate) = (drops.slow_token(), gate.clone());
                drop(outer.spawn(async move {
                    filch::group(async |inner| {
                        drop(inner.spawn(async move {
                            inner_gate.await;
                            drop(token);
                            Ok(())
                        }));
                        Ok(())
                    })
                    .await
                }));
                while gate.waiters() == 0 {
                    filch::yield_now().await;
                }
                Err(2)
            })
            .await
        });
        assert_eq!((result, drops.count()), (Err(2), 1));
    });
}

#[test]
fn cancel_ends_the_children_and_the_body_has_its_value() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let result: Result<i32, ()> = runtime.block_on(async {
            filch::group(async |g| {
                let token = drops.token();
                drop(g.spawn(async move {
                    let _token = token;
                    pending::<Result<(), ()>>().await
                }));
                g.cancel();
                let late = g.spawn(pending::<Result<(), ()>>());
                assert!(late.outcome().await.unwrap_err().is_cancelled(), "cancelled from birth");
                Ok(1)
            })
            .await
        });
        assert_eq!((result, drops.count()), (Ok(1), 1));
    });
}

#[test]
fn unfinished_group_that_is_dropped_cancels_its_children_and_the_block_on_waits_for_them() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..20 {
            let (drops, gate) = (Drops::default(), Gate::default());
            runtime.block_on(async {
                let group = filch::group(async |g: Group<()>| {
                    let (token, gate) = (drops.slow_token(), gate.clone());
                    drop(g.spawn(async move {
                        gate.await;
                        drop(token);
                        Ok(())
                    }));
                    pending::<Result<(), ()>>().await
                });
                let mut group = Box::pin(group);
                poll_fn(|cx| {
                    assert!(group.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                drop(group);
            });
            assert_eq!(drops.count(), 1);
        }
    });
}

#[test]
fn job_of_a_dropped_group_that_runs_is_waited_for_and_its_panic_goes_to_the_block_on() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| {
            runtime.block_on(async {
                let (running, dropped) = (Gate::default(), Gate::default());
                let mut group = Box::pin(filch::group(async |g: Group<()>| {
                    let (running, dropped) = (running.clone(), dropped.clone());
                    drop(g.spawn_fn(move || -> Result<(), ()> {
                        running.open();
                        dropped.block();
                        panic!("orphan")
                    }));
                    pending::<Result<(), ()>>().await
                }));
                poll_fn(|cx| Poll::Ready(group.as_mut().poll(cx).is_pending())).await;
                running.block();
                drop(group);
                dropped.open();
            })
        });
        assert_eq!(text, "orphan");
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn group_that_is_never_polled_holds_nothing_up() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let unpolled = runtime.block_on(async { filch::group(async |_| Ok::<_, ()>(1)) });
        // It becomes a group where it is first polled.
        assert_eq!(runtime.block_on(unpolled), Ok(1));
        runtime.block_on(async {
            std::mem::forget(filch::group(async |_: Group<()>| Ok(())));
        });
        runtime.drain();
    });
}

#[test]
fn group_made_outside_belongs_to_the_runtime_that_polls_it() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().workers(1).thread_name("polled"));
        let group = filch::group(async |g: Group<()>| {
            let name = |thread: std::thread::Thread| thread.name().unwrap_or("").to_owned();
            Ok(g.spawn(async move { Ok(name(std::thread::current())) }).await)
        });
        let name = runtime.block_on(group).unwrap();
        assert!(name.starts_with("polled"), "{name}");
    });
}

#[test]
fn clone_used_after_the_end_is_refused() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, ran) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let kept: Result<Group<()>, ()> =
            runtime.block_on(async { filch::group(async |g| Ok(g)).await });
        let group = kept.unwrap();
        let (token, count) = (drops.token(), ran.clone());
        std::thread::spawn(move || {
            let late = group.spawn(async move {
                let _token = token;
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
            assert!(late.wait_outcome().unwrap_err().is_cancelled());
            let late = group.spawn_fn(|| Ok(()));
            assert!(late.wait_outcome().unwrap_err().is_cancelled());
        })
        .join()
        .unwrap();
        assert_eq!((drops.count(), ran.load(Ordering::SeqCst)), (1, 0));
        runtime.assert_alive();
    });
}

#[test]
fn foreign_thread_spawning_into_a_group_that_ends_is_waited_for_or_refused() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..300 {
            let ran = Drops::default();
            let spawned = Arc::new(AtomicUsize::new(0));
            let thread = runtime.block_on(async {
                let result: Result<_, ()> = filch::group(async |g: Group<()>| {
                    let (ran, spawned) = (ran.clone(), spawned.clone());
                    Ok(std::thread::spawn(move || {
                        for _ in 0..20 {
                            let token = ran.token();
                            let child = g.spawn(async move {
                                drop(token);
                                Ok(())
                            });
                            if child.wait_outcome().is_ok() {
                                spawned.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }))
                })
                .await;
                result.unwrap()
            });
            thread.join().unwrap();
            assert_eq!(ran.count(), 20, "run or refused, each body is dropped once");
        }
        runtime.assert_alive();
    });
}

#[test]
fn plain_spawn_inside_a_group_joins_it() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let result: Result<(), &str> = runtime.block_on(async {
            filch::group(async |g| {
                // In the body, before and after an await, and in a child.
                for _ in 0..2 {
                    let (token, gate) = (drops.token(), gate.clone());
                    drop(filch::spawn(async move {
                        gate.await;
                        drop(token);
                    }));
                    filch::spawn(async {}).await;
                }
                let (token, inner) = (drops.token(), gate.clone());
                g.spawn(async move {
                    drop(filch::spawn(async move {
                        inner.await;
                        drop(token);
                    }));
                    Ok(())
                })
                .await;
                while gate.waiters() < 3 {
                    filch::yield_now().await;
                }
                Err("ends them all")
            })
            .await
        });
        assert_eq!((result, drops.count()), (Err("ends them all"), 3));
    });
}

#[test]
fn block_on_and_scope_inside_a_cancelled_child_are_cancelled_too() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let result: Result<(), &str> = runtime.block_on(async {
            filch::group(async |g| {
                let (token, gate2) = (drops.token(), gate.clone());
                drop(g.spawn_fn(move || {
                    filch::block_on_fn(|| {
                        drop(filch::spawn(async move {
                            gate2.await;
                            drop(token);
                        }));
                    });
                    Ok(())
                }));
                let (token, gate2) = (drops.token(), gate.clone());
                drop(g.spawn_fn(move || {
                    filch::scope(|s| {
                        s.spawn_async(async move {
                            gate2.await;
                            drop(token);
                        });
                    });
                    Ok(())
                }));
                while gate.waiters() < 2 {
                    filch::yield_now().await;
                }
                Err("stop")
            })
            .await
        });
        assert_eq!((result, drops.count()), (Err("stop"), 2));
    });
}

#[test]
fn ten_thousand_children_one_after_the_other_leave_no_list_behind() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let result: Result<usize, ()> = runtime.block_on(async {
            filch::group(async |g| {
                // Finished children are swept from the list while the group goes on.
                for _ in 0..10_000 {
                    let token = drops.token();
                    g.spawn(async move {
                        drop(token);
                        Ok(())
                    })
                    .await;
                }
                Ok(filch::Handle::current().snapshot().task_bytes)
            })
            .await
        });
        assert_eq!(drops.count(), 10_000);
        let bytes = result.unwrap();
        assert!(bytes < 1 << 20, "{bytes} bytes for one live child at a time");
    });
}

#[test]
fn ten_thousand_children_at_once_are_all_cancelled() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (drops, gate) = (Drops::default(), Gate::default());
        let result: Result<(), &str> = runtime.block_on(async {
            filch::group(async |g| {
                for _ in 0..10_000 {
                    let (token, gate) = (drops.token(), gate.clone());
                    drop(g.spawn(async move {
                        gate.await;
                        drop(token);
                        Ok(())
                    }));
                }
                Err("all of you")
            })
            .await
        });
        assert_eq!((result, drops.count()), (Err("all of you"), 10_000));
    });
}

#[test]
fn group_beside_other_futures_of_a_task_keeps_its_frame_to_itself() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (gate, drops) = (Gate::default(), Drops::default());
        let opener = gate.clone();
        let result: Result<(), &str> = runtime.block_on(async {
            let group = filch::group(async |g| {
                drop(g.spawn(gate.clone_ok()));
                filch::yield_now().await;
                filch::yield_now().await;
                Err("ends the group")
            });
            let mut group = pin!(group);
            let mut result = None;
            // Between the group's polls, a spawn joins the enclosing group and is not cancelled.
            poll_fn(|cx| {
                let (token, gate) = (drops.token(), gate.clone());
                drop(filch::spawn(async move {
                    gate.await;
                    drop(token);
                }));
                match group.as_mut().poll(cx) {
                    Poll::Ready(r) => {
                        result = Some(r);
                        Poll::Ready(())
                    }
                    Poll::Pending => Poll::Pending,
                }
            })
            .await;
            assert_eq!(drops.count(), 0, "the group's error does not reach them");
            opener.open();
            result.unwrap()
        });
        assert_eq!(result, Err("ends the group"));
        assert!(drops.count() >= 1);
        until(|| runtime.tasks().is_empty());
    });
}

trait CloneOk {
    fn clone_ok(&self) -> impl Future<Output = Result<(), &'static str>> + Send + 'static;
}

impl CloneOk for Gate {
    fn clone_ok(&self) -> impl Future<Output = Result<(), &'static str>> + Send + 'static {
        let gate = self.clone();
        async move {
            gate.await;
            Ok(())
        }
    }
}

/// Returns from its wake only when the waiter is gone.
#[derive(Default)]
struct Farewell {
    woken: Gate,
    gone: Gate,
}

impl std::task::Wake for Farewell {
    fn wake(self: Arc<Self>) {
        self.woken.open();
        self.gone.block();
    }
}

/// Written over whatever has just been freed on this thread, of any size that a group may have.
fn blots() -> Vec<Vec<u8>> {
    (128..2048).step_by(8).flat_map(|size| [vec![u8::MAX; size], vec![u8::MAX; size]]).collect()
}

#[test]
fn waiter_that_is_gone_before_its_wake_returns_is_not_touched_again() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let blots = runtime.block_on(async {
            let (gate, farewell) = (Gate::default(), Arc::new(Farewell::default()));
            let inner = gate.clone();
            let mut group = Box::pin(filch::group(async |g: Group<()>| {
                drop(g.spawn(async move {
                    inner.await;
                    Ok(())
                }));
                Ok(7)
            }));
            let waker = Waker::from(farewell.clone());
            assert!(group.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            gate.open();
            farewell.woken.block();
            // The worker that ended the last child is inside the wake.
            let mut cx = Context::from_waker(Waker::noop());
            assert_eq!(group.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
            drop(group);
            let blots = blots();
            farewell.gone.open();
            blots
        });
        drop(blots);
        runtime.assert_alive();
    });
}

#[test]
fn error_of_a_sibling_is_the_result_while_the_body_awaits_another_child() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let result: Result<(), String> = runtime.block_on(filch::group(async |g| {
            let endless = g.spawn(std::future::pending::<Result<(), String>>());
            drop(g.spawn(async { Err::<(), _>("first".to_owned()) }));
            endless.await;
            Ok(())
        }));
        assert_eq!(result, Err("first".to_owned()));
    });
}

#[test]
fn body_that_cancels_its_group_and_awaits_a_child_is_cancelled_with_it() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let outcome = runtime
            .spawn(filch::group(async |g| {
                let endless = g.spawn(std::future::pending::<Result<(), String>>());
                g.cancel();
                endless.await;
                Ok(())
            }))
            .wait_outcome();
        assert!(outcome.unwrap_err().is_cancelled());
    });
}
