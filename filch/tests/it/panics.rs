//! Every panic is delivered once: to whoever takes the outcome, else to the group, else to the hook.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::par::prelude::*;
use filch::{Runtime, UnhandledPanic};

use crate::support::{Gate, panic_of, text_of, until};
use crate::watchdog::watched;

#[test]
fn outcome_that_is_taken_leaves_nothing_for_the_group() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on(async {
            let error = filch::spawn(async { panic!("taken") }).outcome().await;
            assert!(error.unwrap_err().is_panic());
            let error = filch::spawn_fn(|| panic!("taken")).wait_outcome();
            assert!(error.unwrap_err().is_panic());
        });
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn panic_of_a_task_whose_handle_is_dropped_continues_in_block_on() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| {
            runtime.block_on(async { drop(filch::spawn(async { panic!("unclaimed") })) })
        });
        assert_eq!(text, "unclaimed");
        let text =
            panic_of(|| runtime.block_on_fn(|| drop(filch::spawn_fn(|| panic!("unclaimed job")))));
        assert_eq!(text, "unclaimed job");
        assert_eq!(runtime.drain(), [""; 0], "delivered once");
    });
}

#[test]
fn handle_dropped_after_the_panic_delivers_it_then() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| {
            runtime.block_on_fn(|| {
                let handle = filch::spawn(async { panic!("late") });
                until(|| handle.is_finished());
                drop(handle);
            })
        });
        assert_eq!(text, "late");
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn handle_dropped_after_its_group_has_closed_delivers_to_the_hook() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let handle = runtime.block_on(async { filch::spawn(async { panic!("after the end") }) });
        assert!(handle.is_finished());
        assert_eq!(runtime.uncollected(), [""; 0]);
        drop(handle);
        assert_eq!(runtime.uncollected(), ["after the end"]);
        assert_eq!(runtime.drain(), ["after the end"]);
    });
}

#[test]
fn task_of_the_runtime_itself_delivers_to_the_hook() {
    watched(|dog| {
        let runtime = dog.rig(2);
        drop(runtime.spawn(async { panic!("nobody's") }));
        assert_eq!(runtime.drain(), ["nobody's"]);
    });
}

#[test]
fn first_panic_of_several_continues_and_the_others_reach_the_hook() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| {
            runtime.block_on(async {
                let first = filch::spawn(async { panic!("first") });
                while !first.is_finished() {
                    filch::yield_now().await;
                }
                drop(first);
                let second = filch::spawn_fn(|| panic!("second"));
                while !second.is_finished() {
                    filch::yield_now().await;
                }
                drop(second);
            })
        });
        assert_eq!(text, "first");
        assert_eq!(runtime.drain(), ["second"]);
    });
}

#[test]
fn panic_of_the_body_wins_and_that_of_a_child_reaches_the_hook() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| {
            runtime.block_on(async {
                drop(filch::spawn(async { panic!("child") }));
                panic!("body")
            })
        });
        assert_eq!(text, "body");
        assert_eq!(runtime.drain(), ["child"]);
    });
}

#[test]
fn panic_of_a_grandchild_continues_in_the_nearest_block_on() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let value = runtime.block_on(async {
            let text = filch::spawn_fn(|| {
                panic_of(|| {
                    filch::block_on_fn(|| {
                        drop(filch::spawn_fn(|| drop(filch::spawn(async { panic!("deep") }))));
                    })
                })
            });
            text.await
        });
        assert_eq!(value, "deep");
        assert_eq!(runtime.drain(), [""; 0], "the outer one knows nothing of it");
    });
}

#[test]
fn of_many_panics_each_is_delivered_exactly_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let mut expected: Vec<String> = (0..100).map(|i| format!("panic {i}")).collect();
        let text = panic_of(|| {
            runtime.block_on_fn(|| {
                for i in 0..50 {
                    drop(filch::spawn(async move { panic!("panic {i}") }));
                    let i = i + 50;
                    drop(filch::spawn_fn(move || panic!("panic {i}")));
                }
            })
        });
        let mut delivered = runtime.drain();
        delivered.push(text);
        delivered.sort();
        expected.sort();
        assert_eq!(delivered, expected);
    });
}

#[test]
fn hook_hears_the_name_and_the_place_of_the_task() {
    watched(|_| {
        let (tx, rx) = std::sync::mpsc::channel();
        let tx = std::sync::Mutex::new(tx);
        let runtime = filch::Runtime::builder()
            .workers(1)
            .on_panic(move |panic| {
                let file = panic.spawned_at.file().to_owned();
                tx.lock().unwrap().send((panic.task, panic.name, file)).unwrap();
            })
            .build()
            .unwrap();
        let gate = Gate::default();
        let handle = runtime.task().name("careless").spawn({
            let gate = gate.clone();
            async move {
                gate.await;
                panic!()
            }
        });
        let id = handle.id().to_string();
        drop::<filch::JoinHandle<()>>(handle);
        gate.open();
        let (task, name, file) = rx.recv().unwrap();
        assert_eq!((task.to_string(), name.as_deref()), (id, Some("careless")));
        assert!(file.ends_with("panics.rs"), "{file}");
    });
}

/// Panics when dropped, with this text.
struct Loud(&'static str);

impl Drop for Loud {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

async fn keeps(_loud: Loud) {
    std::future::pending().await
}

/// The text of the panic that came of a task.
fn text_from<T>(outcome: Result<T, filch::JoinError>) -> String {
    let Err(error) = outcome else { panic!("it has a value") };
    match error.is_panic() {
        true => text_of(&*error.into_panic()),
        false => error.to_string(),
    }
}

#[test]
fn panic_of_a_cancelled_bodys_destructor_reaches_the_holder_of_the_handle() {
    watched(|dog| {
        // One worker of each kind, which is busy: nothing else begins before the cancel.
        let runtime =
            dog.rig_of(filch::Runtime::builder().workers(1).io_spares(0).blocking_threads(1));
        let (busy, gate) = (Gate::default(), Gate::default());
        let occupy = || {
            let (busy, gate) = (busy.clone(), gate.clone());
            move || {
                busy.open();
                gate.block();
            }
        };
        let waits = runtime.spawn(keeps(Loud("future")));
        let pinned = runtime.spawn(async { filch::spawn_local(keeps(Loud("pinned"))) });
        let pinned = pinned.wait();
        let blocker = runtime.spawn_blocking(occupy());
        busy.block();
        let blocking = runtime.spawn_blocking({
            let loud = Loud("blocking");
            move || drop(loud)
        });
        for handle in [&waits, &pinned, &blocking] {
            handle.cancel();
        }
        assert_eq!(text_from(runtime.block_on(waits.outcome())), "future");
        assert_eq!(text_from(runtime.block_on(pinned.outcome())), "pinned");
        gate.open();
        assert_eq!(text_from(blocking.wait_outcome()), "blocking");
        blocker.wait();
        assert_eq!(runtime.drain(), [""; 0], "delivered once");
    });
}

#[test]
fn panic_of_a_cancelled_jobs_destructor_reaches_the_holder_of_the_handle() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (busy, gate) = (Gate::default(), Gate::default());
        let (opens, waits) = (busy.clone(), gate.clone());
        let blocker = runtime.spawn_fn(move || {
            opens.open();
            waits.block();
        });
        busy.block();
        let loud = Loud("job");
        let job = runtime.spawn_fn(move || drop(loud));
        job.cancel();
        gate.open();
        assert_eq!(text_from(runtime.block_on(job.outcome())), "job");
        blocker.wait();
        assert_eq!(runtime.drain(), [""; 0], "delivered once");
    });
}

#[test]
fn panic_of_a_cancelled_trees_destructor_continues_in_whoever_waits() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let text: Result<String, ()> = runtime.block_on(filch::group(async |g| {
            g.cancel();
            let loud = Loud("tree");
            let job = filch::Job::new(move |_| drop(loud));
            // Into a group that is cancelled already.
            job.clone().run();
            Ok(panic_of(|| job.wait()))
        }));
        assert_eq!(text.as_deref(), Ok("tree"));
        assert_eq!(runtime.drain(), [""; 0], "delivered once");
    });
}

#[test]
fn panic_of_a_cancelled_bodys_destructor_continues_in_the_group_if_nobody_holds_the_handle() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let text = panic_of(|| {
            runtime.block_on(async {
                filch::spawn(keeps(Loud("nobody holds it"))).cancel();
            })
        });
        assert_eq!(text, "nobody holds it");
        assert_eq!(runtime.drain(), [""; 0], "delivered once");
    });
}

const POLICIES: [UnhandledPanic; 2] = [UnhandledPanic::Propagate, UnhandledPanic::Report];

/// A way to have the panic "boom" where nobody holds a handle.
type Place = (&'static str, fn());

fn boom() {
    panic!("boom")
}

/// Whose panics nobody holds, but somebody waits for their group.
const WAITED_FOR: &[Place] = &[
    ("spawn", || drop(filch::spawn(async { boom() }))),
    ("spawn_fn", || drop(filch::spawn_fn(boom))),
    ("spawn_blocking", || drop(filch::spawn_blocking(boom))),
    ("spawn_local", || drop(filch::spawn(async { drop(filch::spawn_local(async { boom() })) }))),
    ("spawn_after", || drop(filch::spawn_after((), boom))),
    ("Job", || filch::Job::new(|_| boom()).run()),
    ("child of a Job", || {
        let parent = filch::Job::new(|job| job.child(|_| boom()).run());
        parent.run();
    }),
    ("handle that is dropped late", || {
        let handle = filch::spawn(async { boom() });
        until(|| handle.is_finished());
        drop(handle);
    }),
    ("cancelled body", || {
        filch::spawn(keeps(Loud("boom"))).cancel();
    }),
    ("graph that nobody waits for", || {
        let mut graph = filch::Graph::new();
        graph.node("node", boom);
        drop(std::sync::Arc::new(graph).run_async());
    }),
    ("group that was dropped", || {
        let mut group = Box::pin(filch::group(async |g: filch::Group<()>| {
            drop(g.spawn_fn(|| -> Result<(), ()> { panic!("boom") }));
            // Nothing else may drop the job before it has started.
            std::future::pending::<Result<(), ()>>().await
        }));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(group.as_mut().poll(&mut cx).is_pending());
        until(|| filch::Handle::current().tasks().is_empty());
        drop(group);
    }),
];

#[test]
fn panic_in_a_group_that_is_waited_for_goes_by_the_policy() {
    watched(|dog| {
        for policy in POLICIES {
            for (name, place) in WAITED_FOR {
                let runtime = dog.rig_of(Runtime::builder().workers(1).unhandled_panic(policy));
                let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on_fn(place)));
                let hook = match policy {
                    UnhandledPanic::Report => {
                        assert!(ended.is_ok(), "{name} continues");
                        vec!["boom"]
                    }
                    _ => {
                        let payload = ended.expect_err(name);
                        assert_eq!(text_of(&*payload), "boom", "{name}");
                        vec![]
                    }
                };
                assert_eq!(runtime.drain(), hook, "{name}, {policy:?}");
            }
        }
    });
}

#[test]
fn panic_that_somebody_asks_for_continues_there_under_every_policy() {
    const HELD: &[Place] = &[
        ("spawn", || filch::spawn(async { boom() }).wait()),
        ("spawn, awaited", || filch::block_on(filch::spawn(async { boom() }))),
        ("spawn_fn", || filch::spawn_fn(boom).wait()),
        ("spawn_blocking", || filch::spawn_blocking(boom).wait()),
        ("cpu", || filch::block_on(filch::cpu(boom))),
        ("Job", || filch::Job::new(|_| boom()).run_and_wait()),
        ("join", || _ = filch::join(boom, || ())),
        ("second half of a join", || _ = filch::join(|| (), boom)),
        ("loop", || {
            (0..100).into_par_iter().for_each(|i| {
                if i == 50 {
                    boom()
                }
            })
        }),
        ("graph", || {
            let mut graph = filch::Graph::new();
            graph.node("node", boom);
            graph.run();
        }),
        ("stage", || {
            let mut pipeline = filch::Pipeline::new(1).items(0..9).for_each(|_| boom());
            let Err(error) = pipeline.run() else { return };
            panic!("{}", error.to_string().rsplit(' ').next().unwrap());
        }),
        ("body of a group", || {
            let group = filch::group(async |_| {
                boom();
                Ok::<_, ()>(())
            });
            _ = filch::block_on(group.unhandled_panic(UnhandledPanic::Report));
        }),
        ("body of a scope", || filch::scope(|_| boom())),
    ];
    watched(|dog| {
        for policy in POLICIES {
            let runtime = dog.rig_of(Runtime::builder().workers(2).unhandled_panic(policy));
            for (name, place) in HELD {
                let payload = catch_unwind(AssertUnwindSafe(|| runtime.block_on_fn(place)));
                assert_eq!(text_of(&*payload.expect_err(name)), "boom", "{name}, {policy:?}");
            }
            assert_eq!(runtime.drain(), [""; 0], "{policy:?}");
        }
    });
}

#[test]
fn panic_in_the_runtimes_own_group_reaches_the_hook_under_every_policy() {
    watched(|dog| {
        for policy in POLICIES {
            let runtime = dog.rig_of(Runtime::builder().workers(1).unhandled_panic(policy));
            drop(runtime.spawn(async { boom() }));
            drop(runtime.spawn_fn(boom));
            drop(runtime.spawn_blocking(boom));
            let gate = Gate::default();
            runtime.block_on(async {
                let gate = gate.clone();
                filch::spawn(async move {
                    gate.await;
                    boom();
                })
                .detach();
            });
            gate.open();
            assert!(runtime.handle().post(boom).is_ok());
            assert!(runtime.handle().post_compute(boom).is_ok());
            assert_eq!(runtime.drain(), ["boom"; 6], "{policy:?}");
        }
    });
}

#[test]
fn children_of_a_scope_go_by_the_policy_and_the_others_end() {
    watched(|dog| {
        for policy in POLICIES {
            let runtime = dog.rig_of(Runtime::builder().workers(2).unhandled_panic(policy));
            let ran = AtomicUsize::new(0);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on_fn(|| {
                    filch::scope(|s| {
                        s.spawn(|_| boom());
                        s.spawn_async(async { boom() });
                        for _ in 0..10 {
                            s.spawn(|_| _ = ran.fetch_add(1, Ordering::SeqCst));
                        }
                        "value"
                    })
                })
            }));
            assert_eq!(ran.into_inner(), 10);
            let reported = match policy {
                UnhandledPanic::Report => {
                    assert_eq!(ended.unwrap(), "value");
                    2
                }
                _ => {
                    assert_eq!(text_of(&*ended.unwrap_err()), "boom");
                    1
                }
            };
            assert_eq!(runtime.drain(), vec!["boom"; reported], "{policy:?}");
        }
    });
}

#[test]
fn group_that_reports_goes_on_and_its_own_word_wins_over_the_runtimes() {
    watched(|dog| {
        for (default, own) in [
            (UnhandledPanic::Propagate, Some(UnhandledPanic::Report)),
            (UnhandledPanic::Report, None),
        ] {
            let runtime = dog.rig_of(Runtime::builder().workers(2).unhandled_panic(default));
            let gate = Gate::default();
            let group = filch::group(async |g| {
                let waits = gate.clone();
                let lives = g.spawn(async move {
                    waits.await;
                    Ok("lives")
                });
                drop(g.spawn(async { if true { panic!("boom") } else { Ok(()) } }));
                drop(g.spawn_fn(|| if true { panic!("boom") } else { Ok(()) }));
                while runtime.uncollected().len() < 2 {
                    filch::yield_now().await;
                }
                assert!(!g.is_cancelled());
                gate.open();
                Ok::<_, ()>(lives.await)
            });
            let group = match own {
                Some(own) => group.unhandled_panic(own),
                None => group,
            };
            assert_eq!(runtime.block_on(group), Ok("lives"));
            assert_eq!(runtime.uncollected().len(), 2);
            // And the other way round.
            let text = panic_of(|| {
                let group = filch::group(async |g: filch::Group<()>| {
                    drop(g.spawn(async { if true { panic!("own") } else { Ok(()) } }));
                    std::future::pending::<Result<(), ()>>().await
                });
                runtime.block_on(group.unhandled_panic(UnhandledPanic::Propagate))
            });
            assert_eq!(text, "own");
            assert_eq!(runtime.drain(), ["boom"; 2]);
        }
    });
}

#[test]
fn error_ends_a_group_that_reports_panics() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let group = filch::group(async |g: filch::Group<&str>| {
            drop(g.spawn(async { if true { panic!("reported") } else { Ok(()) } }));
            while runtime.uncollected().is_empty() {
                filch::yield_now().await;
            }
            drop(g.spawn(async { Err::<(), _>("error") }));
            std::future::pending::<Result<(), _>>().await
        });
        let result = runtime.block_on(group.unhandled_panic(UnhandledPanic::Report));
        assert_eq!(result, Err("error"));
        assert_eq!(runtime.drain(), ["reported"]);
    });
}
