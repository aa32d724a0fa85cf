//! Code of the user's in places where the runtime did not expect it to call back.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use filch::{Group, JoinHandle, Shutdown};

use crate::support::{Gate, panic_of};
use crate::watchdog::watched;

#[test]
fn spawn_local_into_another_runtime_is_refused() {
    watched(|dog| {
        let (here, there) = (dog.rig(1), dog.rig(1));
        let other = there.handle();
        let task = here.spawn(async move {
            other.block_on(async { panic_of(|| filch::task().spawn_local(async {})) })
        });
        let text = here.block_on(task);
        assert!(text.starts_with("spawn_local needs a task on an I/O worker"), "{text}");
        here.assert_alive();
        there.assert_alive();
    });
}

/// Spawns when dropped.
struct SpawnsOnDrop;

impl Drop for SpawnsOnDrop {
    fn drop(&mut self) {
        drop(filch::spawn(async {}));
        drop(filch::spawn_fn(|| ()));
    }
}

#[test]
fn refused_body_whose_drop_spawns_is_harmless() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let handle = runtime.handle();
        runtime.shutdown(Shutdown::Drain);
        let spawner = SpawnsOnDrop;
        let task = handle.spawn(async move { drop(spawner) });
        assert!(task.wait_outcome().unwrap_err().is_cancelled());
        let spawner = SpawnsOnDrop;
        let job = handle.spawn_fn(move || drop(spawner));
        assert!(job.wait_outcome().unwrap_err().is_cancelled());
    });
}

/// Spawns when woken.
#[derive(Default)]
struct SpawnsOnWake {
    spawned: Mutex<Option<JoinHandle<i32>>>,
    woken: Gate,
}

impl Wake for SpawnsOnWake {
    fn wake(self: Arc<Self>) {
        let task = filch::spawn(async {
            filch::yield_now().await;
            5
        });
        *self.spawned.lock().unwrap() = Some(task);
        self.woken.open();
    }
}

#[test]
fn waker_that_spawns_joins_no_finished_group() {
    watched(|dog| {
        let runtime = dog.rig(1);
        for _ in 0..20 {
            let spawner = Arc::new(SpawnsOnWake::default());
            let waker = Waker::from(spawner.clone());
            let mut cx = Context::from_waker(&waker);
            runtime.block_on_fn(|| {
                let gate = Gate::default();
                let inner = gate.clone();
                let mut group = Box::pin(filch::group(async move |g: Group<()>| {
                    drop(g.spawn_fn(move || {
                        inner.block();
                        Ok(())
                    }));
                    Ok(())
                }));
                assert!(group.as_mut().poll(&mut cx).is_pending());
                gate.open();
                spawner.woken.block();
                assert_eq!(group.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
            });
            let task = spawner.spawned.lock().unwrap().take().unwrap();
            assert_eq!(task.wait(), 5);
        }
        runtime.assert_alive();
        assert!(runtime.drain().is_empty());
    });
}

/// Ready at once; its drop panics.
struct LoudBody;

impl Future for LoudBody {
    type Output = Result<(), ()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for LoudBody {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("body dropped");
        }
    }
}

#[test]
fn group_body_whose_drop_panics_gives_its_unit_back() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let text = panic_of(|| {
            runtime.block_on(async {
                let _ = filch::group(|_: Group<()>| LoudBody).await;
            })
        });
        assert_eq!(text, "body dropped");
        runtime.assert_alive();
        assert!(runtime.drain().is_empty());
    });
}
