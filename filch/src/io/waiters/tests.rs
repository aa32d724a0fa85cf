//! Who is woken, and who has gone.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Count {
    fn wakes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn counted() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), count.into())
}

/// Nothing that it waits for ever comes.
fn poll_never(at: &SharedWaiters, who: Waiter<'_>) -> Poll<()> {
    at.wait(who, || true)
}

#[test]
fn who_gives_up_wakes_nobody_and_leaves_nothing() {
    let shared = SharedWaiters::default();
    let (stays, waker) = counted();
    let mut waits = Waits::at(&shared);
    assert!(waits.poll(&Context::from_waker(&waker), poll_never).is_pending());
    let (goes, waker) = counted();
    for _ in 0..3 {
        let mut waits = Waits::at(&shared);
        assert!(waits.poll(&Context::from_waker(&waker), poll_never).is_pending());
    }
    drop(waker);
    assert_eq!((stays.wakes(), goes.wakes()), (0, 0));
    assert_eq!(Arc::strong_count(&goes), 1, "its waker has gone with it");
    shared.wake_all();
    assert_eq!((stays.wakes(), goes.wakes()), (1, 0));
}

#[test]
fn two_waits_of_one_task_do_not_take_each_others_waker() {
    let shared = SharedWaiters::default();
    let (task, waker) = counted();
    let cx = Context::from_waker(&waker);
    let mut stays = Waits::at(&shared);
    let mut goes = Waits::at(&shared);
    assert!(stays.poll(&cx, poll_never).is_pending());
    assert!(goes.poll(&cx, poll_never).is_pending());
    drop(goes);
    shared.wake_all();
    assert_eq!(task.wakes(), 1);
}

#[test]
fn a_wait_that_moves_to_another_task_wakes_that_one() {
    let shared = SharedWaiters::default();
    let ((old, first), (new, second)) = (counted(), counted());
    let mut waits = Waits::at(&shared);
    assert!(waits.poll(&Context::from_waker(&first), poll_never).is_pending());
    assert!(waits.poll(&Context::from_waker(&second), poll_never).is_pending());
    shared.wake_all();
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
}

#[test]
fn polls_without_an_id_are_kept_once_for_each_waker() {
    let shared = SharedWaiters::default();
    let ((one, first), (two, second)) = (counted(), counted());
    for waker in [&first, &second, &first] {
        let cx = Context::from_waker(waker);
        assert!(shared.wait(Waiter::from(&cx), || true).is_pending());
    }
    shared.wake_all();
    assert_eq!((one.wakes(), two.wakes()), (1, 1));
}

#[test]
fn ids_of_all_threads_differ() {
    let take = || (0..1000).map(|_| WaitId::fresh().0).collect::<Vec<_>>();
    let mut ids = take();
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take)).collect();
    threads.into_iter().for_each(|thread| ids.append(&mut thread.join().unwrap()));
    let different: HashSet<_> = ids.iter().collect();
    assert_eq!(different.len(), ids.len());
    assert!(!different.contains(&0), "zero asks for a block");
}
