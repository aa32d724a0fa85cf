//! Every panic is delivered once: to whoever takes the outcome, else to the group, else to the hook.

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
