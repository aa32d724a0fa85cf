//! Futures that are dropped after any number of polls: no permit, message or wake-up is lost.
//!
//! Random programs over one lock or channel, polled by hand in a random order, and dropped at random. At
//! the end everything that is left is polled until nothing moves; a waiter without a wake is a lost one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use filch::sync::{Mutex, RwLock, Semaphore, mpmc};

use crate::support::{CountingWaker, Drops};

/// What a program does with its tasks: start, poll or drop the n-th.
#[derive(Clone, Copy, Debug)]
enum Act {
    Start(u8),
    Poll(usize),
    Drop(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => any::<u8>().prop_map(Act::Start),
        4 => any::<usize>().prop_map(Act::Poll),
        1 => any::<usize>().prop_map(Act::Drop),
    ];
    prop::collection::vec(act, 0..120)
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    wakes: Arc<CountingWaker>,
    /// Wakes that were answered by a poll.
    seen: usize,
}

impl Task {
    fn new(future: impl Future<Output = ()> + 'static) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default(), seen: 0 }
    }

    fn poll(&mut self) -> Poll<()> {
        self.seen = self.wakes.wakes();
        let waker = Waker::from(self.wakes.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.wakes.wakes() != self.seen
    }
}

/// Runs a program; returns the tasks that wait although nobody is left to wake them.
fn run(acts: &[Act], start: impl Fn(u8) -> Task) -> usize {
    let mut tasks: Vec<Task> = Vec::new();
    for act in acts {
        match *act {
            Act::Start(kind) => {
                let mut task = start(kind);
                if task.poll().is_pending() {
                    tasks.push(task);
                }
            }
            Act::Poll(n) if !tasks.is_empty() => {
                let n = n % tasks.len();
                if tasks[n].poll().is_ready() {
                    tasks.remove(n);
                }
            }
            Act::Drop(n) if !tasks.is_empty() => {
                tasks.remove(n % tasks.len());
            }
            Act::Poll(_) | Act::Drop(_) => {}
        }
    }
    while let Some(n) = tasks.iter().position(Task::is_woken) {
        if tasks[n].poll().is_ready() {
            tasks.remove(n);
        }
    }
    tasks.len()
}

/// Pending so many times, and awake.
async fn pause(polls: u8) {
    for _ in 0..polls {
        let mut first = true;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut first, false) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn mutex_is_free_at_the_end_and_nobody_waits(acts in acts()) {
        let lock = Arc::new(Mutex::new(0));
        let waiting = run(&acts, |kind| {
            let lock = lock.clone();
            Task::new(async move {
                let _guard = lock.lock().await;
                pause(kind % 3).await;
            })
        });
        prop_assert_eq!(waiting, 0);
        prop_assert!(lock.try_lock().is_ok());
    }

    #[test]
    fn rwlock_is_free_at_the_end_and_nobody_waits(acts in acts()) {
        let lock = Arc::new(RwLock::new(0));
        let waiting = run(&acts, |kind| {
            let lock = lock.clone();
            Task::new(async move {
                match kind % 4 {
                    0 => {
                        let _guard = lock.write().await;
                        pause(kind / 4 % 3).await;
                    }
                    1 => {
                        let guard = lock.upgradable_read().await;
                        pause(kind / 4 % 3).await;
                        let _writer = filch::sync::RwLockUpgradableReadGuard::upgrade(guard).await;
                        pause(1).await;
                    }
                    _ => {
                        let _guard = lock.read().await;
                        pause(kind / 4 % 3).await;
                    }
                }
            })
        });
        prop_assert_eq!(waiting, 0);
        prop_assert!(lock.try_write().is_ok());
        prop_assert!(lock.try_upgradable_read().is_ok());
    }

    #[test]
    fn semaphore_has_its_permits_at_the_end_and_nobody_waits(acts in acts()) {
        let semaphore = Arc::new(Semaphore::new(3));
        let waiting = run(&acts, |kind| {
            let semaphore = semaphore.clone();
            Task::new(async move {
                let _permits = semaphore.acquire_many(u32::from(kind % 4)).await.unwrap();
                pause(kind / 4 % 3).await;
            })
        });
        prop_assert_eq!(waiting, 0);
        prop_assert_eq!(semaphore.available_permits(), 3);
    }

    #[test]
    fn channel_loses_no_message_and_no_wake(acts in acts(), capacity in 1..4usize) {
        let drops = Drops::default();
        let (sender, receiver) = mpmc::bounded(capacity);
        let (sent, received) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let made = std::cell::Cell::new(0);
        run(&acts, |kind| {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            let (sent, received) = (Waker::from(sent.clone()), Waker::from(received.clone()));
            if kind % 2 == 0 {
                let token = drops.token();
                made.set(made.get() + 1);
                Task::new(async move {
                    if sender.send(token).await.is_ok() {
                        sent.wake();
                    }
                })
            } else {
                Task::new(async move {
                    if receiver.recv().await.is_ok() {
                        received.wake();
                    }
                })
            }
        });
        prop_assert_eq!(sent.wakes(), received.wakes() + receiver.len());
        drop((sender, receiver));
        prop_assert_eq!(drops.count(), made.get());
    }

    #[test]
    fn channel_has_nobody_waiting_at_the_end_who_could_go_on(acts in acts(), capacity in 1..4usize) {
        let (sender, receiver) = mpmc::bounded(capacity);
        let waiting = run(&acts, |kind| {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            if kind % 2 == 0 {
                Task::new(async move { sender.send(1).await.unwrap() })
            } else {
                Task::new(async move { assert_eq!(receiver.recv().await, Ok(1)) })
            }
        });
        // All that are left wait for the same: for room in a full channel, or for messages in an empty one.
        let settled = waiting == 0 || receiver.is_empty() || receiver.len() == capacity;
        prop_assert!(settled, "{} wait, {} messages", waiting, receiver.len());
    }
}
