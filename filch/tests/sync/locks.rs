//! Mutex, read-write lock, semaphore, notify, condvar, barrier, latch, once-cell.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use filch::sync::{
    Barrier, Condvar, Latch, Lazy, Mutex, Notify, OnceCell, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard, Semaphore,
};

use crate::Hand;
use crate::watchdog::watched;

#[test]
fn attempt_on_a_held_mutex_fails_whatever_it_read_before() {
    let lock = Mutex::new(());
    for _ in 0..3 {
        let guard = lock.try_lock().unwrap();
        let waiting = Hand::waiting(lock.lock());
        assert!(lock.try_lock().is_err() && lock.try_lock().is_err());
        drop(guard);
        drop(waiting);
    }
}

#[test]
fn released_mutex_wakes_the_first_and_one_only() {
    let lock = Mutex::new(());
    let guard = lock.try_lock().unwrap();
    let (mut first, second) = (Hand::waiting(lock.lock()), Hand::waiting(lock.lock()));
    drop(guard);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let guard = first.poll().expect("it is free");
    drop(guard);
    assert_eq!(second.wakes(), 1);
}

#[test]
fn waiter_that_lost_the_race_is_told_again() {
    let lock = Mutex::new(());
    let guard = lock.try_lock().unwrap();
    let mut waiting = Hand::waiting(lock.lock());
    drop(guard);
    let barged = lock.try_lock().expect("free, though somebody was told");
    assert!(waiting.poll().is_none());
    drop(barged);
    assert_eq!(waiting.wakes(), 2);
    assert!(waiting.poll().is_some());
}

#[test]
fn waiter_that_lost_for_long_is_handed_the_lock() {
    watched(|_| {
        let lock = Mutex::new(());
        let mut guard = lock.try_lock().unwrap();
        let mut waiting = Hand::waiting(lock.lock());
        // Each time it is told, somebody is quicker, until it has lost patience.
        loop {
            drop(guard);
            match lock.try_lock() {
                Ok(next) => guard = next,
                Err(_) => break,
            }
            assert!(waiting.poll().is_none());
        }
        assert!(waiting.poll().is_some(), "it was handed the lock");
        assert!(lock.try_lock().is_ok());
    });
}

#[test]
fn waiter_that_gives_up_does_not_take_the_turn_of_the_one_before_it() {
    let lock = Mutex::new(());
    let mut guard = lock.try_lock().unwrap();
    let begin = std::time::Instant::now();
    let mut first = Hand::waiting(lock.lock());
    drop(guard);
    guard = lock.try_lock().expect("somebody was told, and is late");
    loop {
        let is_due = begin.elapsed() >= std::time::Duration::from_millis(2);
        assert!(first.poll().is_none());
        drop(Hand::waiting(lock.lock()));
        drop(guard);
        match lock.try_lock() {
            Ok(_) if is_due => panic!("it has lost patience"),
            Ok(next) => guard = next,
            Err(_) => break,
        }
    }
    assert!(first.poll().is_some(), "it was handed the lock");
}

#[test]
fn panic_under_a_lock_releases_it_and_poisons_nothing() {
    let (mutex, rwlock) = (Mutex::new(0), RwLock::new(0));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        *mutex.blocking_lock() += 1;
        let (_one, _two) = (mutex.blocking_lock(), rwlock.blocking_write());
        panic!("under both");
    }));
    assert!(panicked.is_err());
    assert_eq!(*mutex.try_lock().unwrap(), 1);
    assert!(rwlock.try_write().is_ok());
}

#[test]
fn reader_behind_a_waiting_writer_waits_for_it() {
    let lock = RwLock::new(0);
    let reader = lock.try_read().unwrap();
    let mut writer = Hand::waiting(lock.write());
    let mut late = Hand::waiting(lock.read());
    assert!(lock.try_read().is_err());
    drop(reader);
    assert_eq!((writer.wakes(), late.wakes()), (1, 0));
    drop(writer.poll().unwrap());
    assert_eq!(late.wakes(), 1);
    assert!(late.poll().is_some());
}

#[test]
fn writer_that_gives_up_lets_readers_behind_it_in() {
    let lock = RwLock::new(0);
    let reader = lock.try_read().unwrap();
    let writer = Hand::waiting(lock.write());
    let mut readers = [Hand::waiting(lock.read()), Hand::waiting(lock.read())];
    drop(writer);
    assert!(readers.iter_mut().all(|reader| reader.poll().is_some()));
    drop(reader);
}

#[test]
fn upgrade_goes_before_a_writer_that_waits_for_it() {
    let lock = RwLock::new(0);
    let upgradable = lock.try_upgradable_read().unwrap();
    let other = lock.try_read().unwrap();
    let mut writer = Hand::waiting(lock.write());
    let mut upgrade = Hand::waiting(RwLockUpgradableReadGuard::upgrade(upgradable));
    drop(other);
    assert_eq!((upgrade.wakes(), writer.wakes()), (1, 0));
    let mut guard = upgrade.poll().unwrap();
    *guard += 1;
    let reader = RwLockWriteGuard::downgrade(guard);
    assert!(writer.poll().is_none());
    drop(reader);
    assert_eq!(*writer.poll().unwrap(), 1);
}

#[test]
fn dropped_upgrade_releases_the_lock_and_its_right() {
    let lock = RwLock::new(0);
    let other = lock.try_read().unwrap();
    let upgradable = lock.try_upgradable_read().unwrap();
    drop(Hand::waiting(RwLockUpgradableReadGuard::upgrade(upgradable)));
    drop(other);
    assert!(lock.try_write().is_ok());
    assert!(lock.try_upgradable_read().is_ok());
}

#[test]
fn dropped_wait_for_an_upgradable_guard_gives_its_right_back() {
    let lock = RwLock::new(0);
    let writer = lock.try_write().unwrap();
    drop(Hand::waiting(lock.upgradable_read()));
    drop(writer);
    assert!(lock.try_upgradable_read().is_ok());
}

#[test]
fn permits_are_handed_out_in_the_order_of_arrival() {
    let semaphore = Semaphore::new(0);
    let mut big = Hand::waiting(semaphore.acquire_many(3));
    let mut small = Hand::waiting(semaphore.acquire());
    semaphore.add_permits(2);
    assert_eq!((big.wakes(), small.wakes(), semaphore.available_permits()), (0, 0, 2));
    assert!(semaphore.try_acquire().is_err(), "nobody overtakes");
    semaphore.add_permits(2);
    assert!(big.poll().unwrap().is_ok() && small.poll().unwrap().is_ok());
    assert_eq!(semaphore.available_permits(), 4);
}

#[test]
fn taker_of_many_that_gives_up_lets_the_next_have_what_is_there() {
    let semaphore = Semaphore::new(1);
    let big = Hand::waiting(semaphore.acquire_many(3));
    let mut small = Hand::waiting(semaphore.acquire());
    drop(big);
    assert!(small.poll().is_some());
}

#[test]
fn permit_that_was_granted_and_not_collected_goes_on() {
    let semaphore = Semaphore::new(0);
    let (first, mut second) =
        (Hand::waiting(semaphore.acquire()), Hand::waiting(semaphore.acquire()));
    semaphore.add_permits(1);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    second.poll().unwrap().unwrap().forget();
    assert_eq!(semaphore.available_permits(), 0);
}

#[test]
fn closing_a_semaphore_refuses_those_that_wait_and_permits_stay_valid() {
    let semaphore = Semaphore::new(1);
    let permit = semaphore.try_acquire().unwrap();
    let mut waiting = Hand::waiting(semaphore.acquire());
    semaphore.close();
    assert!(waiting.poll().unwrap().is_err());
    drop(permit);
    assert_eq!(semaphore.available_permits(), 1);
    assert!(semaphore.blocking_acquire().is_err());
}

#[test]
#[should_panic(expected = "too many permits")]
fn more_permits_than_there_can_be_panic() {
    Semaphore::new(1).add_permits(Semaphore::MAX_PERMITS);
}

#[test]
fn too_many_permits_for_those_that_wait_panic_and_change_nothing() {
    let semaphore = Semaphore::new(1);
    let mut waiting = Hand::waiting(semaphore.acquire_many(3));
    let add = || semaphore.add_permits(Semaphore::MAX_PERMITS);
    assert!(catch_unwind(AssertUnwindSafe(add)).is_err());
    assert_eq!((semaphore.available_permits(), waiting.wakes()), (1, 0));
    semaphore.add_permits(2);
    assert!(waiting.poll().is_some());
}

#[test]
fn sign_that_enable_has_seen_is_heard_and_goes_to_nobody_else() {
    let notify = Notify::new();
    let mut first = notify.notified();
    assert!(!first.enable());
    notify.notify_one();
    assert!(first.enable() && first.enable());
    drop(first);
    assert!(Hand::new(notify.notified()).poll().is_none(), "heard once");
    notify.notify_one();
    let mut second = notify.notified();
    assert!(second.enable());
    drop(second);
    assert!(Hand::new(notify.notified()).poll().is_none(), "heard once");
}

#[test]
fn sign_for_one_that_is_dropped_goes_to_the_next_or_is_kept() {
    let notify = Notify::new();
    let (first, mut second) = (Hand::waiting(notify.notified()), Hand::waiting(notify.notified()));
    notify.notify_one();
    drop(first);
    assert!(second.poll().is_some());
    let third = Hand::waiting(notify.notified());
    notify.notify_one();
    drop(third);
    assert!(Hand::new(notify.notified()).poll().is_some(), "kept");
    assert!(Hand::new(notify.notified()).poll().is_none(), "once");
}

#[test]
fn sign_for_all_reaches_those_that_were_not_polled_and_none_that_come_later() {
    let notify = Notify::new();
    let (mut polled, mut fresh) = (Hand::waiting(notify.notified()), Hand::new(notify.notified()));
    notify.notify_waiters();
    assert!(polled.poll().is_some() && fresh.poll().is_some());
    assert!(Hand::new(notify.notified()).poll().is_none());
}

#[test]
fn notification_of_a_condvar_wait_that_is_dropped_while_it_wants_the_lock_goes_on() {
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    let mut first = Hand::waiting(changed.wait(lock.try_lock().unwrap()));
    let mut second = Hand::waiting(changed.wait(lock.try_lock().unwrap()));
    let guard = lock.try_lock().unwrap();
    changed.notify_one();
    assert!(first.poll().is_none(), "notified, and the lock is taken");
    drop(first);
    drop(guard);
    assert!(second.poll().is_some());
}

#[test]
fn barrier_lets_as_many_go_as_it_is_for_and_begins_again() {
    let barrier = Barrier::new(2);
    for _ in 0..3 {
        let mut first = Hand::waiting(barrier.wait());
        let leader = Hand::new(barrier.wait()).poll().expect("it is full");
        assert!(leader.is_leader() && !first.poll().unwrap().is_leader());
    }
}

#[test]
fn arrival_that_is_dropped_has_not_come() {
    let barrier = Barrier::new(2);
    drop(Hand::waiting(barrier.wait()));
    let mut first = Hand::waiting(barrier.wait());
    assert!(Hand::new(barrier.wait()).poll().is_some());
    assert!(first.poll().is_some());
}

#[test]
fn latch_opens_at_zero_for_good() {
    let latch = Latch::new(2);
    let mut waiting = Hand::waiting(latch.wait());
    latch.count_down();
    assert_eq!(waiting.wakes(), 0);
    latch.count_down();
    assert!(waiting.poll().is_some());
    assert!(Hand::new(latch.wait()).poll().is_some());
    assert!(catch_unwind(|| Latch::new(0).count_down()).is_err());
}

#[test]
fn cell_whose_maker_is_dropped_is_made_by_the_next() {
    let cell = OnceCell::new();
    let first = Hand::waiting(cell.get_or_init(async || std::future::pending::<u32>().await));
    let mut second = Hand::waiting(cell.get_or_init(async || 2));
    assert_eq!(cell.set(3), Err(filch::sync::SetError::Initializing(3)));
    drop(first);
    assert_eq!(second.poll(), Some(&2));
    let panicking = Lazy::new(|| async { if true { panic!("no value") } else { 1 } });
    let mut asks = Hand::new(panicking.get());
    assert!(catch_unwind(AssertUnwindSafe(|| asks.poll())).is_err());
    drop(asks);
    assert_eq!(panicking.try_get(), None);
}

#[test]
fn thread_that_blocks_in_a_lock_on_the_only_worker_is_replaced() {
    watched(|dog| {
        let rig = dog.rig(1);
        let lock = Arc::new(Mutex::new(0));
        let guard = lock.clone().try_lock_owned().unwrap();
        rig.block_on(async {
            let blocked = lock.clone();
            let task = filch::spawn(async move { *blocked.blocking_lock() += 1 });
            // Runs only if another thread takes the worker's place.
            filch::spawn(async move { drop(guard) }).await;
            task.await;
        });
        assert_eq!(*lock.try_lock().unwrap(), 1);
    });
}

#[test]
fn tasks_of_several_workers_count_under_one_lock() {
    watched(|dog| {
        let rig = dog.rig(4);
        let sum = Arc::new(Mutex::new(0));
        rig.block_on(async {
            for task in 0..16 {
                let sum = sum.clone();
                drop(filch::spawn(async move {
                    for turn in 0..200 {
                        let mut sum = sum.lock().await;
                        let before = *sum;
                        if (turn + task) % 7 == 0 {
                            filch::yield_now().await;
                        }
                        *sum = before + 1;
                    }
                }));
            }
        });
        assert_eq!(*sum.try_lock().unwrap(), 16 * 200);
    });
}
