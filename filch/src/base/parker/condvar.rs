//! Blocking with a lock and a condition variable: where there is no futex, and in the models.
//!
//! C1. The predicate (word is PARKED) is read under the lock, and `wake` passes through the lock
//!     between the change of the word and the notification. So either the waiter reads the
//!     changed word or it waits already when the notification comes.

use std::{sync::PoisonError, time::Duration};

use super::{Gate, PARKED};
use crate::base::shim::{AtomicU32, Condvar, Mutex, Ordering};

#[derive(Debug)]
pub(super) struct CondvarGate {
    /// Protects no data: it orders the predicate and the notification (C1).
    lock: Mutex<()>,
    changed: Condvar,
}

impl Default for CondvarGate {
    fn default() -> Self {
        Self { lock: Mutex::new(()), changed: Condvar::new() }
    }
}

impl Gate for CondvarGate {
    fn wait(&self, word: &AtomicU32, timeout: Option<Duration>) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed, the lock orders it against the swap before `wake` (C1).
        if word.load(Ordering::Relaxed) != PARKED {
            return;
        }
        match timeout {
            None => drop(self.changed.wait(guard)),
            Some(timeout) => wait_timeout(&self.changed, guard, timeout),
        }
    }

    fn wake(&self, _word: &AtomicU32) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }
}

#[cfg(not(loom))]
fn wait_timeout(
    changed: &Condvar,
    guard: crate::base::shim::MutexGuard<'_, ()>,
    timeout: Duration,
) {
    drop(changed.wait_timeout(guard, timeout));
}

#[cfg(loom)]
fn wait_timeout(
    _changed: &Condvar,
    _guard: crate::base::shim::MutexGuard<'_, ()>,
    _timeout: Duration,
) {
    panic!("time does not pass in a model: use a deadline that has passed");
}
