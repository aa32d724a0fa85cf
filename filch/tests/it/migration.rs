//! The current group belongs to the task, not to the thread it happens to run on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Drops, Gate, until};
use crate::watchdog::watched;

#[test]
fn task_that_migrates_spawns_into_its_own_group() {
    watched(|dog| {
        let runtime = dog.rig(3);
        // Strangers hop over the same workers all the time.
        let (stop, strangers) = (Gate::default(), Drops::default());
        for _ in 0..6 {
            let (stop, token) = (stop.clone(), strangers.token());
            drop(runtime.spawn(async move {
                while !stop.is_open() {
                    filch::yield_now().await;
                    drop(filch::spawn(async {}));
                }
                drop(token);
            }));
        }
        for _ in 0..20 {
            let children = Drops::default();
            runtime.block_on(async {
                for _ in 0..4 {
                    let children = children.clone();
                    drop(filch::spawn(async move {
                        for _ in 0..20 {
                            filch::spawn_fn(|| ()).await;
                            filch::yield_now().await;
                            let token = children.token();
                            drop(filch::spawn(async move {
                                filch::yield_now().await;
                                drop(token);
                            }));
                        }
                    }));
                }
            });
            assert_eq!(children.count(), 80, "a child was in another group");
            assert_eq!(strangers.count(), 0);
        }
        stop.open();
        runtime.drain();
        assert_eq!(strangers.count(), 6);
    });
}

#[test]
fn stranger_that_never_ends_does_not_hold_up_a_block_on_beside_it() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (gate, started) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
        runtime.block_on(async {
            // The runtime's own task is spawned while the worker runs members of this group.
            let handle = filch::Handle::current();
            for _ in 0..10 {
                filch::spawn(async { filch::yield_now().await }).await;
                let (gate, started) = (gate.clone(), started.clone());
                drop(handle.spawn(async move {
                    started.fetch_add(1, Ordering::SeqCst);
                    drop(filch::spawn(gate.clone()));
                    gate.await;
                }));
            }
            while started.load(Ordering::SeqCst) < 10 {
                filch::yield_now().await;
            }
        });
        until(|| gate.waiters() == 20);
        gate.open();
        runtime.drain();
    });
}

#[test]
fn block_on_inside_a_task_gives_the_task_its_group_back() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let (late, gate) = (Drops::default(), Gate::default());
            filch::block_on_fn(|| {
                filch::block_on(async { filch::spawn(async {}).await });
                // After the inner one: this child belongs to the outer again.
                let (token, wait) = (late.token(), gate.clone());
                drop(filch::spawn(async move {
                    wait.await;
                    drop(token);
                }));
                let opener = gate.clone();
                drop(filch::spawn_fn(move || opener.open()));
            });
            assert_eq!(late.count(), 1);
        });
    });
}

#[test]
fn thread_outside_of_any_structure_has_no_group_left_over() {
    watched(|dog| {
        let runtime = dog.rig(1);
        runtime.block_on(async { filch::spawn_fn(|| ()).await });
        // A job that this thread claimed ran here with its group; that is over too.
        runtime.spawn_fn(|| ()).wait();
        assert_eq!(filch::current_id(), None);
        let name = filch::Handle::current().config().thread_name.clone();
        let other = dog.rig_of(filch::Runtime::builder().workers(1).thread_name("other"));
        other.block_on(async {});
        assert_eq!(filch::Handle::current().config().thread_name, name);
    });
}
