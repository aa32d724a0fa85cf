//! A task that finds everything ready lets others go first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use filch::Runtime;
use filch::sync::{Mutex, Notify, RwLock, Semaphore, mpmc, watch};
use filch::time::timeout;

use crate::watchdog::watched;

/// Runs a task that never waits, until another one on the same worker has run.
fn lets_others_run<F>(greedy: impl FnOnce(Arc<AtomicBool>) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    watched(move |dog| {
        let rig = dog.rig_of(Runtime::builder().single_thread(true));
        rig.block_on(async move {
            let seen = Arc::new(AtomicBool::new(false));
            let task = filch::spawn(greedy(seen.clone()));
            drop(filch::spawn(async move { seen.store(true, Ordering::SeqCst) }));
            task.await;
        });
    });
}

/// `operation` is ready each time.
macro_rules! lets_others_run {
    ($($name:ident: $setup:expr, $state:ident => $operation:expr;)+) => {$(
        #[test]
        fn $name() {
            lets_others_run(|seen: Arc<AtomicBool>| async move {
                let $state = $setup;
                while !seen.load(Ordering::SeqCst) {
                    $operation;
                }
            });
        }
    )+};
}

lets_others_run! {
    free_mutex_that_is_locked_for_ever: Mutex::new(0), lock => *lock.lock().await += 1;
    free_rwlock_that_is_read_for_ever: RwLock::new(0), lock => drop(lock.read().await);
    permits_that_are_taken_for_ever: Semaphore::new(1), s => drop(s.acquire().await);
    kept_sign_that_is_heard_for_ever: Notify::new(), n => { n.notify_one(); n.notified().await };
    channel_that_is_never_empty: mpmc::bounded(1), c => {
        c.0.send(1).await.unwrap();
        c.1.recv().await.unwrap();
    };
    value_that_changes_for_ever: watch::channel(0), w => {
        w.0.send(1).unwrap();
        let mut receiver = w.1.clone();
        receiver.changed().await.unwrap();
    };
}

#[test]
fn poll_of_more_waiting_operations_than_the_budget_has_reaches_the_last() {
    watched(|dog| {
        let rig = dog.rig_of(Runtime::builder().single_thread(true));
        rig.block_on(async {
            let (never, empty) = mpmc::bounded::<()>(1);
            let (sender, receiver) = mpmc::bounded(1);
            sender.try_send(()).unwrap();
            let task = filch::spawn(async move {
                let mut waiting: Vec<_> = (0..1000).map(|_| Box::pin(empty.recv())).collect();
                let mut last = Box::pin(receiver.recv());
                std::future::poll_fn(|cx| {
                    for future in &mut waiting {
                        assert!(future.as_mut().poll(cx).is_pending());
                    }
                    last.as_mut().poll(cx)
                })
                .await
            });
            assert_eq!(task.await, Ok(()));
            drop(never);
        });
    });
}

#[test]
fn blocking_operation_with_a_spent_budget_goes_on() {
    watched(|dog| {
        let rig = dog.rig(1);
        rig.block_on(async {
            let task = filch::spawn(async {
                let lock = Mutex::new(0);
                for _ in 0..10_000 {
                    *lock.blocking_lock() += 1;
                }
                lock.into_inner()
            });
            assert_eq!(task.await, 10_000);
        });
    });
}

#[test]
fn timeout_of_a_task_whose_budget_is_spent_does_not_discard_a_value_that_is_there() {
    watched(|dog| {
        let rig = dog.rig_of(Runtime::builder().single_thread(true));
        let task = rig.spawn(async {
            let value = filch::spawn(async { 7 });
            while !value.is_finished() {
                filch::yield_now().await;
            }
            let (permits, mut spend) = (Semaphore::new(1), true);
            let mut late = pin!(timeout(Duration::ZERO, value));
            poll_fn(|cx| {
                if std::mem::take(&mut spend) {
                    while pin!(permits.acquire()).poll(cx).is_ready() {}
                }
                late.as_mut().poll(cx)
            })
            .await
        });
        assert_eq!(task.wait(), Ok(7));
    });
}

#[test]
fn timeout_of_a_future_that_spends_the_budget_in_every_poll_elapses() {
    watched(|dog| {
        let rig = dog.rig_of(Runtime::builder().single_thread(true));
        let task = rig.spawn(async {
            let permits = Semaphore::new(1);
            timeout(Duration::from_millis(1), async {
                loop {
                    drop(permits.acquire().await);
                }
            })
            .await
        });
        let elapsed: Result<(), _> = task.wait();
        assert!(elapsed.is_err());
    });
}
