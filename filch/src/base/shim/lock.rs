//! A lock that ThreadSanitizer sees, in place of std's under `--cfg filch_tsan`.
//!
//! std is not rebuilt with the sanitizer, so what its locks do under contention is invisible, and
//! everything that they protect is reported. This one spins, which is fair enough for tests.
//!
//! Y1. `locked` is true exactly while a guard exists, which alone reaches the value.
//!
//! Not here: poison, because nobody asks for it. Errors exist for the sake of std's signatures.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::thread::yield_now;
#[cfg(test)]
use std::time::Duration;

use super::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: Y1, one thread at a time reaches the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // ORDERING: Acquire pairs with the Release in the guard's drop: the value is seen whole.
        while self.locked.swap(true, Ordering::Acquire) {
            yield_now();
        }
        Ok(MutexGuard(self))
    }
}

impl<T> Mutex<T> {
    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        // ORDERING: Acquire as in `lock`.
        if self.locked.swap(true, Ordering::Acquire) {
            return Err(TryLockError::WouldBlock);
        }
        Ok(MutexGuard(self))
    }

    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.value.get_mut())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Y1.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `lock`.
        self.0.locked.store(false, Ordering::Release);
    }
}

/// Every wait ends early, which a condition variable may do.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Condvar;

#[cfg(test)]
impl Condvar {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.0;
        drop(guard);
        yield_now();
        mutex.lock()
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
    ) -> LockResult<MutexGuard<'a, T>> {
        self.wait(guard)
    }

    pub(crate) fn notify_one(&self) {}
}
