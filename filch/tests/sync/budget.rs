//! A task that finds everything ready lets others go first.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filch::Runtime;
use filch::sync::{Mutex, Notify, RwLock, Semaphore, mpmc, watch};

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
