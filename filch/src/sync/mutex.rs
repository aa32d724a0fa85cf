//! A lock that tasks wait for without a thread.
//!
//! U1. A guard stands for `LOCKED` (M1 of `raw_mutex`), so it alone reaches the value.
//!
//! Not here: poison. A panic under the lock releases it, and the value is as the panic left it.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::coop;
use super::raw_mutex::Raw;

/// A mutual exclusion lock whose guard may be held across an `.await`.
///
/// Use `std::sync::Mutex` where the lock is never held across an await: it is cheaper.
///
/// ```
/// use filch::sync::Mutex;
/// use std::sync::Arc;
///
/// let sum = Arc::new(Mutex::new(0));
/// filch::block_on(async {
///     for i in 0..10 {
///         let sum = sum.clone();
///         drop(filch::spawn(async move {
///             let mut sum = sum.lock().await;
///             filch::yield_now().await;
///             *sum += i;
///         }));
///     }
/// });
/// assert_eq!(*sum.blocking_lock(), 45);
/// ```
///
/// # Fairness
/// A lock that is free goes to whoever asks first, also past those that wait. One that has waited for
/// half a millisecond is next, and then those that have waited as long, in the order of arrival: nobody
/// starves.
///
/// # Panics
/// A panic while the lock is held releases it. There is no poison: the value is as the panic left it.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    raw: Raw,
    value: UnsafeCell<T>,
}

// SAFETY: U1, one guard at a time reaches the value, wherever it is.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: U1, as above; a value that is sent from guard to guard need not be `Sync`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// A panic releases the lock; whether the value may be used after it is up to its type.
impl<T: ?Sized + UnwindSafe> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    /// A lock that is free.
    ///
    /// ```
    /// static LOCK: filch::sync::Mutex<u32> = filch::sync::Mutex::new(7);
    /// assert_eq!(*LOCK.blocking_lock(), 7);
    /// ```
    pub const fn new(value: T) -> Self {
        Self { raw: Raw::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// ```
    /// assert_eq!(filch::sync::Mutex::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let lock = filch::sync::Mutex::new(1);
    /// *lock.lock().await += 1;
    /// assert_eq!(*lock.lock().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it gives up its place in the queue; nothing else is lost.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        self.acquire().await;
        MutexGuard { lock: self }
    }

    /// As [`Mutex::lock`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let lock = std::sync::Arc::new(filch::sync::Mutex::new(1));
    /// let mut guard = lock.clone().lock_owned().await;
    /// filch::spawn(async move { *guard += 1 }).await;
    /// assert_eq!(*lock.lock().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        self.acquire().await;
        OwnedMutexGuard { lock: self }
    }

    async fn acquire(&self) {
        if coop::now(|| self.raw.try_lock().then_some(())).is_none() {
            coop::counted(self.raw.lock()).await;
        }
    }

    /// Takes the lock if it is free.
    ///
    /// ```
    /// let lock = filch::sync::Mutex::new(1);
    /// let guard = lock.try_lock().unwrap();
    /// assert!(lock.try_lock().is_err());
    /// drop(guard);
    /// assert!(lock.try_lock().is_ok());
    /// ```
    ///
    /// # Errors
    /// If somebody has it.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        if self.raw.try_lock() { Ok(MutexGuard { lock: self }) } else { Err(TryLockError(())) }
    }

    /// As [`Mutex::try_lock`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// let lock = std::sync::Arc::new(filch::sync::Mutex::new(1));
    /// let guard = lock.clone().try_lock_owned().unwrap();
    /// assert!(lock.try_lock_owned().is_err());
    /// # drop(guard);
    /// ```
    ///
    /// # Errors
    /// If somebody has it.
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        if self.raw.try_lock() { Ok(OwnedMutexGuard { lock: self }) } else { Err(TryLockError(())) }
    }

    /// Blocks until the lock is free. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let lock = filch::sync::Mutex::new(1);
    /// *lock.blocking_lock() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        if !self.raw.try_lock() {
            coop::block_on(self.raw.lock());
        }
        MutexGuard { lock: self }
    }

    /// As [`Mutex::blocking_lock`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// let lock = std::sync::Arc::new(filch::sync::Mutex::new(1));
    /// let guard = lock.blocking_lock_owned();
    /// assert_eq!(*guard, 1);
    /// ```
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        if !self.raw.try_lock() {
            coop::block_on(self.raw.lock());
        }
        OwnedMutexGuard { lock: self }
    }

    /// The value, without a lock: nobody else can reach it.
    ///
    /// ```
    /// let mut lock = filch::sync::Mutex::new(1);
    /// *lock.get_mut() = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => out.field("value", &&*guard).finish(),
            Err(_) => out.field("value", &format_args!("<locked>")).finish(),
        }
    }
}

/// The lock is not free.
///
/// ```
/// let lock = filch::sync::Mutex::new(());
/// let _guard = lock.blocking_lock();
/// let error: filch::sync::TryLockError = lock.try_lock().unwrap_err();
/// assert_eq!(error.to_string(), "the lock is taken");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryLockError(pub(super) ());

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock is taken")
    }
}

impl std::error::Error for TryLockError {}

/// The right to what a [`Mutex`] holds; dropped, it releases the lock.
///
/// ```
/// let lock = filch::sync::Mutex::new(vec![1]);
/// let mut guard: filch::sync::MutexGuard<'_, Vec<i32>> = lock.blocking_lock();
/// guard.push(2);
/// assert_eq!(*guard, [1, 2]);
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
}

/// As [`MutexGuard`], without a lifetime: it keeps the lock alive.
///
/// ```
/// use std::sync::Arc;
/// let lock = Arc::new(filch::sync::Mutex::new(1));
/// let guard: filch::sync::OwnedMutexGuard<i32> = lock.blocking_lock_owned();
/// assert_eq!(std::thread::spawn(move || *guard).join().unwrap(), 1);
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct OwnedMutexGuard<T: ?Sized> {
    lock: Arc<Mutex<T>>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The lock that it is of.
    ///
    /// ```
    /// use filch::sync::{Mutex, MutexGuard};
    /// let lock = Mutex::new(1);
    /// let guard = lock.blocking_lock();
    /// assert!(std::ptr::eq(MutexGuard::mutex(&guard), &lock));
    /// ```
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.lock
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// The lock that it is of.
    ///
    /// ```
    /// use filch::sync::{Mutex, OwnedMutexGuard};
    /// use std::sync::Arc;
    /// let lock = Arc::new(Mutex::new(1));
    /// let guard = lock.clone().blocking_lock_owned();
    /// assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &lock));
    /// ```
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.lock
    }
}

macro_rules! guard {
    ($($guard:ty),+) => {$(
        impl<T: ?Sized> Deref for $guard {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: U1, and shared as long as the guard is.
                unsafe { &*self.lock.value.get() }
            }
        }

        impl<T: ?Sized> DerefMut for $guard {
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: U1, and borrowed as long as the guard is.
                unsafe { &mut *self.lock.value.get() }
            }
        }

        impl<T: ?Sized> Drop for $guard {
            fn drop(&mut self) {
                self.lock.raw.unlock();
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    )+};
}
guard!(MutexGuard<'_, T>, OwnedMutexGuard<T>);

// SAFETY: a shared guard gives `&T` and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for OwnedMutexGuard<T> {}
