//! The programs that the runtime was made for; also in `examples/`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::Drops;
use crate::watchdog::watched;

#[test]
fn spawned_closure_with_copied_captures_gives_its_sum() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (a, b) = (10, 20);
        let handle = runtime.spawn_fn(move || a + b);
        assert_eq!(handle.wait(), 30);
    });
}

#[test]
fn wait_for_two_types_gives_both_values() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (first, second) = (runtime.spawn_fn(|| 1), runtime.spawn_fn(|| 2.0));
        assert_eq!(filch::wait((first, second)), (1, 2.0));
    });
}

#[test]
fn block_on_a_parent_returns_after_its_child() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = lines.clone();
        runtime.block_on_fn(move || {
            log.lock().unwrap().push("parent starts");
            let parent = log.clone();
            let child = filch::spawn_fn(move || {
                crate::support::until(|| log.lock().unwrap().len() == 2);
                log.lock().unwrap().push("child ends");
            });
            parent.lock().unwrap().push("parent ends");
            drop(child);
        });
        assert_eq!(*lines.lock().unwrap(), ["parent starts", "parent ends", "child ends"]);
    });
}

#[test]
fn block_on_a_that_spawns_b_frees_both_before_it_returns() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..200 {
            let (drops, ran) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
            runtime.block_on_fn({
                let (a, drops, ran) = (drops.slow_token(), drops.clone(), ran.clone());
                move || {
                    let b = drops.token();
                    let child = filch::spawn_fn(move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        drop(b);
                    });
                    drop(child);
                    drop(a);
                }
            });
            assert_eq!((ran.load(Ordering::SeqCst), drops.count()), (1, 2));
        }
        assert_eq!(runtime.tasks().len(), 0);
    });
}

#[test]
fn block_on_root_task_spawns_into_a_workers_queue_and_gets_the_root_value() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let children = Arc::new(AtomicUsize::new(0));
        let count = children.clone();
        let value = runtime.block_on(async move {
            let root = filch::spawn(async move {
                for _ in 0..10 {
                    let count = count.clone();
                    drop(filch::spawn(async move { count.fetch_add(1, Ordering::SeqCst) }));
                }
                "slot"
            });
            root.await
        });
        assert_eq!((value, children.load(Ordering::SeqCst)), ("slot", 10));
    });
}

#[test]
fn wait_all_gives_the_values_in_the_order_of_the_handles() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let values = filch::wait_all((0..100).map(|i| runtime.spawn(async move { i })));
        assert!(values.into_iter().eq(0..100));
    });
}
