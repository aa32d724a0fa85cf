//! Locks that ThreadSanitizer sees, in place of std's under `--cfg filch_tsan`.
//!
//! std is not rebuilt with the sanitizer, so what its locks do under contention is invisible, and
//! everything that they protect is reported. These spin, which is fair enough for tests.
//!
//! Y1. `locked` is true exactly while a guard exists, which alone reaches the value.
//! Y2. What is set once is written under `setting`, while `is_set` is false, and from then on only read.
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

#[derive(Debug, Default)]
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    setting: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: Y2, it is written by one thread, and read by all when that is over.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        let (is_set, setting) = (AtomicBool::new(false), Mutex::new(()));
        Self { is_set, setting, value: UnsafeCell::new(None) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // ORDERING: Acquire pairs with the Release in `fill`: the value is seen whole.
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: Y2, it is set.
        unsafe { (*self.value.get()).as_ref() }
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        *self.is_set.get_mut() = false;
        self.value.get_mut().take()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let _setting = self.setting.lock();
        match self.get() {
            Some(_) => Err(value),
            None => {
                self.fill(value);
                Ok(())
            }
        }
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _setting = self.setting.lock();
            if self.get().is_none() {
                self.fill(init());
            }
        }
        self.get().expect("just set")
    }

    /// Under `setting`, of what is not set.
    fn fill(&self, value: T) {
        // SAFETY: Y2.
        unsafe { *self.value.get() = Some(value) };
        // ORDERING: Release pairs with the Acquire in `get`.
        self.is_set.store(true, Ordering::Release);
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
