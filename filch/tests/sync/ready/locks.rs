//! Locks, channels and signals.

use std::sync::Arc;
use std::time::Duration;

use filch::sync::{
    Barrier, Condvar, Latch, Lazy, Mutex, Notify, OnceCell, RwLock, RwLockUpgradableReadGuard,
    Semaphore, broadcast, mpmc, oneshot, watch,
};
use futures_lite::StreamExt;

use super::cases;

filch::task_local! {
    static NUMBER: u32;
}

cases! { CASES;
    "sync::Mutex::lock": let lock = Mutex::new(0) => *lock.lock().await += 1;
    "sync::Mutex::lock_owned": let lock = Arc::new(Mutex::new(0)) =>
        *lock.clone().lock_owned().await += 1;
    "sync::RwLock::read": let lock = RwLock::new(0) => lock.read().await;
    "sync::RwLock::write": let lock = RwLock::new(0) => *lock.write().await += 1;
    "sync::RwLock::upgradable_read": let lock = RwLock::new(0) => lock.upgradable_read().await;
    "sync::RwLock::read_owned": let lock = Arc::new(RwLock::new(0)) =>
        lock.clone().read_owned().await;
    "sync::RwLock::write_owned": let lock = Arc::new(RwLock::new(0)) =>
        *lock.clone().write_owned().await += 1;
    "sync::RwLockUpgradableReadGuard::upgrade": let lock = RwLock::new(0) => {
        let guard = lock.try_upgradable_read().unwrap();
        *RwLockUpgradableReadGuard::upgrade(guard).await += 1;
    };
    "sync::Semaphore::acquire": let s = Semaphore::new(1) => s.acquire().await.unwrap();
    "sync::Semaphore::acquire_many": let s = Semaphore::new(2) =>
        s.acquire_many(2).await.unwrap();
    "sync::Semaphore::acquire_owned": let s = Arc::new(Semaphore::new(1)) =>
        s.clone().acquire_owned().await.unwrap();
    "sync::Semaphore::acquire_many_owned": let s = Arc::new(Semaphore::new(2)) =>
        s.clone().acquire_many_owned(2).await.unwrap();
    "sync::Notify::notified": let n = Notify::new() => { n.notify_one(); n.notified().await };
    "sync::Barrier::wait": let barrier = Barrier::new(1) => barrier.wait().await;
    "sync::Condvar::wait_while": let (lock, condvar) = (Mutex::new(0), Condvar::new()) => {
        let guard = lock.try_lock().unwrap();
        drop(condvar.wait_while(guard, |_| false).await);
    };
    "sync::Latch::wait": let latch = Latch::new(0) => latch.wait().await;
    "sync::Latch::arrive_and_wait": let () = () => Latch::new(1).arrive_and_wait().await;
    "sync::OnceCell::get_or_init": let cell = OnceCell::from(7) =>
        assert_eq!(*cell.get_or_init(async || 8).await, 7);
    "sync::OnceCell::get_or_try_init": let cell = OnceCell::from(7) =>
        assert_eq!(cell.get_or_try_init(async || Err(())).await, Ok(&7));
    "sync::Lazy::get": let lazy = Lazy::new(|| async { 7 }) => assert_eq!(*lazy.get().await, 7);
    "sync::LocalKey::scope": let () = () => NUMBER.scope(7, async { NUMBER.get() }).await;
    "sync::mpmc::Sender::send": let (sender, receiver) = mpmc::bounded(1) => {
        sender.send(1).await.unwrap();
        receiver.try_recv().unwrap();
    };
    "sync::mpmc::Sender::send_timeout": let (sender, receiver) = mpmc::bounded(1) => {
        sender.send_timeout(1, Duration::from_secs(9)).await.unwrap();
        receiver.try_recv().unwrap();
    };
    "sync::mpmc::Sender::reserve": let (sender, _receiver) = mpmc::bounded::<()>(1) =>
        sender.reserve().await.unwrap();
    "sync::mpmc::Sender::closed": let (sender, _) = mpmc::bounded::<()>(1) => sender.closed().await;
    "sync::mpmc::Receiver::recv": let (sender, receiver) = mpmc::bounded(1) => {
        sender.try_send(1).unwrap();
        receiver.recv().await.unwrap();
    };
    "sync::mpmc::Receiver::recv_many": let (_sender, receiver) = mpmc::bounded::<()>(1) =>
        assert_eq!(receiver.recv_many(&mut Vec::new(), 0).await, 0);
    "sync::mpmc::Receiver: Stream": let (sender, mut receiver) = mpmc::bounded(1) => {
        sender.try_send(1).unwrap();
        receiver.next().await.unwrap();
    };
    "sync::broadcast::Receiver::recv": let (sender, mut receiver) = broadcast::channel(1) => {
        sender.send(1).unwrap();
        receiver.recv().await.unwrap();
    };
    "sync::broadcast::Receiver: Stream": let (sender, mut receiver) = broadcast::channel(1) => {
        sender.send(1).unwrap();
        receiver.next().await.unwrap().unwrap();
    };
    "sync::oneshot::channel": let () = () => {
        let (sender, receiver) = oneshot::channel();
        sender.send(1).unwrap();
        receiver.await.unwrap();
    };
    "sync::oneshot::Sender::closed": let (mut sender, _) = oneshot::channel::<()>() =>
        sender.closed().await;
    "sync::watch::Receiver::changed": let (sender, mut receiver) = watch::channel(0) => {
        sender.send(1).unwrap();
        receiver.changed().await.unwrap();
    };
    "sync::watch::Receiver::wait_for": let (_sender, mut receiver) = watch::channel(0) =>
        receiver.wait_for(|value| *value == 0).await.unwrap();
    "sync::watch::Sender::closed": let (sender, _) = watch::channel(0) => sender.closed().await;
}
