//! Threads of the program that become workers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use filch::{AdoptError, Builder, Shutdown, join};

use crate::kit::{Gate, receive};
use crate::watchdog::watched;

/// A runtime that adopts so many threads.
fn adopting(workers: usize, threads: usize) -> Builder {
    Builder::new().workers(workers).adoptable_threads(threads)
}

#[test]
fn an_adopted_thread_spawns_joins_and_waits_in_its_runtime() {
    watched(|dog| {
        let runtime = dog.rig_of(adopting(1, 1));
        let adopted = runtime.adopt().unwrap();
        assert_eq!(filch::Handle::current().config().adoptable_threads, 1);
        assert_eq!(filch::spawn_fn(|| 1).wait() + filch::spawn(async { 2 }).wait(), 3);
        assert_eq!(join(|| 1, || 2), (1, 2));
        let mut v = [1, 2, 3];
        filch::scope(|s| v.iter_mut().for_each(|x| s.spawn(move |_| *x *= 2)));
        assert_eq!(v, [2, 4, 6]);
        assert_eq!(filch::block_on(async { filch::spawn(async { 4 }).await }), 4);
        adopted.emancipate();
        assert_ne!(filch::Handle::current().config().adoptable_threads, 1, "the default runtime");
    });
}

#[test]
fn jobs_of_an_adopted_thread_are_stolen_by_workers_and_by_other_adopted_threads() {
    watched(|dog| {
        let runtime = dog.rig_of(adopting(1, 2));
        let _adopted = runtime.adopt().unwrap();
        let (began, begin) = mpsc::channel();
        let here = std::thread::current().id();
        join(
            move || assert_ne!(receive(&begin, "a thief"), here),
            move || began.send(std::thread::current().id()).unwrap(),
        );
    });
}

#[test]
fn more_threads_than_slots_are_refused_until_one_leaves() {
    let runtime = adopting(1, 2).build().unwrap();
    let handle = runtime.handle();
    let first = runtime.adopt().unwrap();
    let (gate, opener) = Gate::new();
    let (adopted, is_adopted) = mpsc::channel();
    let second = std::thread::spawn({
        let handle = handle.clone();
        move || {
            let _adopted = handle.adopt().unwrap();
            adopted.send(()).unwrap();
            gate.pass();
        }
    });
    receive(&is_adopted, "the second thread");
    let third = std::thread::spawn({
        let handle = handle.clone();
        move || handle.adopt().map(drop)
    });
    let refused = third.join().unwrap().unwrap_err();
    assert_eq!(refused, AdoptError::NoSlot { adoptable_threads: 2 });
    assert!(refused.to_string().contains("adoptable_threads is 2"), "{refused}");
    drop(opener);
    second.join().unwrap();
    std::thread::spawn(move || drop(handle.adopt().unwrap())).join().unwrap();
    drop(first);
}

#[test]
fn adopting_twice_or_where_it_cannot_be_is_an_error() {
    let runtime = adopting(1, 2).build().unwrap();
    let adopted = runtime.adopt().unwrap();
    assert_eq!(runtime.adopt().unwrap_err(), AdoptError::IsWorker);
    let other = adopting(1, 1).build().unwrap();
    assert_eq!(other.adopt().unwrap_err(), AdoptError::IsWorker);
    drop(adopted);
    let handle = runtime.handle();
    let inside = handle.clone();
    let on_a_worker = runtime.spawn_fn(move || inside.adopt().map(drop));
    assert_eq!(runtime.block_on(on_a_worker).unwrap_err(), AdoptError::IsWorker);
    assert_eq!(
        filch::block_on_fn(|| handle.adopt().map(drop)).unwrap_err(),
        AdoptError::InsideCall
    );
    runtime.shutdown(Shutdown::Drain);
    assert_eq!(handle.adopt().unwrap_err(), AdoptError::ShutDown);
}

#[test]
fn a_guard_dropped_inside_a_join_is_a_panic_and_nothing_is_lost() {
    thread_local! {
        static GUARD: std::cell::RefCell<Option<filch::Adopted>> = const { std::cell::RefCell::new(None) };
    }
    watched(|dog| {
        let runtime = dog.rig_of(adopting(1, 1));
        GUARD.set(Some(runtime.adopt().unwrap()));
        let result = catch_unwind(|| join(|| drop(GUARD.take()), || ()));
        assert!(result.is_err());
        assert_eq!(join(|| 1, || 2), (1, 2), "it keeps its place");
    });
}

#[test]
fn jobs_that_an_adopted_thread_leaves_behind_are_run_by_others() {
    watched(|dog| {
        let runtime = dog.rig_of(adopting(1, 1));
        let ran = Arc::new(AtomicUsize::new(0));
        let (gate, opener) = Gate::new();
        // The only worker is busy, so the jobs stay in the queue of the thread that leaves.
        let busy = runtime.spawn_fn(move || gate.pass());
        let handles: Vec<_> = std::thread::scope(|s| {
            s.spawn(|| {
                let _adopted = runtime.adopt().unwrap();
                let job = |ran: Arc<AtomicUsize>| move || ran.fetch_add(1, Ordering::Relaxed);
                (0..100).map(|_| filch::spawn_fn(job(ran.clone()))).collect()
            })
            .join()
            .unwrap()
        });
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        drop(opener);
        runtime.block_on(async move {
            busy.await;
            filch::wait_all_async(handles).await;
        });
        assert_eq!(ran.load(Ordering::Relaxed), 100);
    });
}

#[test]
fn threads_come_and_go_rapidly_while_work_runs() {
    watched(|dog| {
        let runtime = dog.rig_of(adopting(2, 3));
        let ran = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for round in 0..200 {
                        let adopted = runtime.adopt().unwrap();
                        filch::scope(|s| {
                            for _ in 0..round % 5 {
                                s.spawn(|_| _ = ran.fetch_add(1, Ordering::Relaxed));
                            }
                        });
                        join(
                            || ran.fetch_add(1, Ordering::Relaxed),
                            || ran.fetch_add(1, Ordering::Relaxed),
                        );
                        drop(adopted);
                    }
                });
            }
        });
        assert_eq!(ran.into_inner(), 3 * (200 * 2 + 400));
    });
}

#[test]
fn a_runtime_ends_while_a_thread_is_adopted() {
    watched(|dog| {
        let runtime = adopting(1, 1).build().unwrap();
        let _ = dog;
        let adopted = runtime.adopt().unwrap();
        assert_eq!(join(|| 1, || 2), (1, 2));
        runtime.shutdown(Shutdown::Drain);
        let result = catch_unwind(AssertUnwindSafe(|| join(|| 1, || 2)));
        assert!(result.is_err(), "the runtime has shut down");
        drop(adopted);
    });
}
