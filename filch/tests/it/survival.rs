//! Code of the user's that panics where nobody can take it does not take a worker with it.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::support::{Drops, Gate, Token, panic_of, until};
use crate::watchdog::watched;

/// Panics when dropped.
struct Bomb(#[allow(dead_code, reason = "counts its drop")] Token);

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn body_whose_drop_panics_delivers_it_to_the_group() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        let text = panic_of(|| {
            runtime.block_on(async {
                let bomb = Bomb(drops.token());
                let cancelled = filch::spawn(async move {
                    let _bomb = bomb;
                    pending::<()>().await;
                });
                // And its handle is dropped.
                cancelled.cancel();
            })
        });
        assert_eq!((text.as_str(), drops.count()), ("dropped", 1));
        let bomb = Bomb(drops.token());
        drop(runtime.spawn_fn(move || drop(bomb)));
        until(|| drops.count() == 2);
        runtime.assert_alive();
        assert_eq!(runtime.drain(), ["dropped"]);
    });
}

#[test]
fn output_whose_drop_panics_ends_there() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        runtime.block_on(async {
            for _ in 0..8 {
                let (a, b) = (Bomb(drops.token()), Bomb(drops.token()));
                drop(filch::spawn(async move { a }));
                drop(filch::spawn_fn(move || b));
            }
            let bomb = Bomb(drops.token());
            let handle = filch::spawn(async move { bomb });
            while !handle.is_finished() {
                filch::yield_now().await;
            }
            drop(handle);
        });
        assert_eq!(drops.count(), 17);
        runtime.assert_alive();
    });
}

/// A panic whose payload panics again when it is dropped, the last time with a plain text.
struct Chain(u32);

impl Drop for Chain {
    fn drop(&mut self) {
        if self.0 > 0 && !std::thread::panicking() {
            std::panic::panic_any(Chain(self.0 - 1));
        }
    }
}

struct ChainOnDrop(#[allow(dead_code, reason = "counts its drop")] Token);

impl Drop for ChainOnDrop {
    fn drop(&mut self) {
        std::panic::panic_any(Chain(3));
    }
}

#[test]
fn payload_whose_drop_panics_ends_there_too() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        runtime.block_on(async {
            for _ in 0..8 {
                let (a, b) = (ChainOnDrop(drops.token()), ChainOnDrop(drops.token()));
                drop(filch::spawn(async move { a }));
                drop(filch::spawn_fn(move || b));
            }
        });
        assert_eq!(drops.count(), 16);
        runtime.assert_alive();
    });
}

struct PanicsOnWake;

impl Wake for PanicsOnWake {
    fn wake(self: Arc<Self>) {
        panic!("woken");
    }
}

#[test]
fn waker_that_panics_leaves_the_worker_and_the_output() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let waker = Waker::from(Arc::new(PanicsOnWake));
        for _ in 0..8 {
            let gate = Gate::default();
            let mut task = runtime.spawn({
                let gate = gate.clone();
                async move {
                    gate.await;
                    1
                }
            });
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
            gate.open();
            assert_eq!(runtime.block_on(task), 1);
        }
        runtime.assert_alive();
    });
}

#[test]
fn waker_that_panics_at_the_end_of_a_group_leaves_the_worker() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let waker = Waker::from(Arc::new(PanicsOnWake));
        runtime.block_on(async {
            let gate = Gate::default();
            let inner = gate.clone();
            let mut group = Box::pin(filch::group(async |g: filch::Group<()>| {
                drop(g.spawn(async move {
                    inner.await;
                    Ok(())
                }));
                Ok(7)
            }));
            assert!(group.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            gate.open();
            filch::spawn(async {}).await;
            assert_eq!(group.await, Ok(7));
        });
        runtime.assert_alive();
    });
}

#[test]
fn hook_that_panics_leaves_the_worker() {
    watched(|_| {
        let (tx, rx) = std::sync::mpsc::channel();
        let tx = std::sync::Mutex::new(tx);
        let runtime = filch::Runtime::builder()
            .workers(1)
            .on_panic(move |panic| {
                tx.lock().unwrap().send(panic.message().to_owned()).unwrap();
                std::panic::resume_unwind(Box::new("the hook's own"));
            })
            .build()
            .unwrap();
        for _ in 0..8 {
            drop(runtime.spawn(async { panic!("a") }));
            drop(runtime.spawn_fn(|| panic!("b")));
        }
        let heard: Vec<String> = rx.iter().take(16).collect();
        assert_eq!(heard.iter().filter(|text| *text == "a").count(), 8);
        assert_eq!(runtime.spawn(async { 1 }).wait() + runtime.block_on(runtime.spawn_fn(|| 2)), 3);
    });
}

#[test]
fn value_of_block_on_whose_drop_panics_yields_to_the_panic_of_a_child() {
    watched(|dog| {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                panic!("the value");
            }
        }
        let runtime = dog.rig(1);
        let text = panic_of(|| {
            runtime.block_on(async {
                drop(filch::spawn(async { panic!("child") }));
                Loud
            })
        });
        assert_eq!(text, "child");
        runtime.assert_alive();
    });
}

#[test]
fn thousand_panics_leave_every_worker() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let before = runtime.snapshot().workers.len();
        for i in 0..500 {
            drop(runtime.spawn(async move { panic!("{i}") }));
            drop(runtime.spawn_fn(move || panic!("{i}")));
        }
        until(|| runtime.uncollected().len() == 1_000);
        runtime.assert_alive();
        assert!(runtime.snapshot().workers.len() >= before);
    });
}
