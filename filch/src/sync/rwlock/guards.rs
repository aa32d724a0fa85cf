//! The guards of a `RwLock`, and what one turns into.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{READERS, RwLock, TryLockError, attempt, take};
use crate::sync::permits::{Permits, Place};

/// The right to read what a [`RwLock`] holds.
///
/// ```
/// let lock = filch::sync::RwLock::new(1);
/// let guard: filch::sync::RwLockReadGuard<'_, i32> = lock.blocking_read();
/// assert_eq!(*guard, 1);
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
}

/// The right to write what a [`RwLock`] holds.
///
/// ```
/// let lock = filch::sync::RwLock::new(1);
/// let mut guard: filch::sync::RwLockWriteGuard<'_, i32> = lock.blocking_write();
/// *guard = 2;
/// assert!(lock.try_read().is_err());
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
}

/// The right to read what a [`RwLock`] holds, and to become its writer; one exists at a time.
///
/// ```
/// use filch::sync::{RwLock, RwLockUpgradableReadGuard};
/// let lock = RwLock::new(1);
/// let reader = lock.try_upgradable_read().unwrap();
/// let mut writer = RwLockUpgradableReadGuard::try_upgrade(reader).unwrap();
/// *writer = 2;
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockUpgradableReadGuard<'a, T: ?Sized> {
    reader: RwLockReadGuard<'a, T>,
    right: UpgradeRight<'a>,
}

/// The only permit of `upgrade` (V2).
pub(super) struct UpgradeRight<'a>(&'a Permits);

impl<'a> UpgradeRight<'a> {
    /// The permit was taken.
    pub(super) fn new(upgrade: &'a Permits) -> Self {
        Self(upgrade)
    }
}

impl Drop for UpgradeRight<'_> {
    fn drop(&mut self) {
        self.0.give(1);
    }
}

/// As [`RwLockReadGuard`], without a lifetime: it keeps the lock alive.
///
/// ```
/// # filch::block_on(async {
/// let lock = std::sync::Arc::new(filch::sync::RwLock::new(1));
/// let guard: filch::sync::OwnedRwLockReadGuard<i32> = lock.read_owned().await;
/// assert_eq!(*guard, 1);
/// # });
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct OwnedRwLockReadGuard<T: ?Sized> {
    lock: Arc<RwLock<T>>,
}

/// As [`RwLockWriteGuard`], without a lifetime: it keeps the lock alive.
///
/// ```
/// # filch::block_on(async {
/// let lock = std::sync::Arc::new(filch::sync::RwLock::new(1));
/// let mut guard: filch::sync::OwnedRwLockWriteGuard<i32> = lock.clone().write_owned().await;
/// *guard = 2;
/// assert!(lock.try_read().is_err());
/// # });
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    lock: Arc<RwLock<T>>,
}

macro_rules! guard {
    ([$($life:lifetime)?] $guard:ty, $lock:ty, $permits:expr) => {
        impl<$($life,)? T: ?Sized> $guard {
            /// The permits were taken (V1).
            pub(super) fn new(lock: $lock) -> Self {
                Self { lock }
            }
        }

        impl<$($life,)? T: ?Sized> Deref for $guard {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: V1, nobody else writes, and this guard is shared meanwhile.
                unsafe { &*self.lock.value.get() }
            }
        }

        impl<$($life,)? T: ?Sized> Drop for $guard {
            fn drop(&mut self) {
                self.lock.permits.give($permits);
            }
        }

        impl<$($life,)? T: ?Sized + fmt::Debug> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($life,)? T: ?Sized + fmt::Display> fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}
guard!(['a] RwLockReadGuard<'a, T>, &'a RwLock<T>, 1);
guard!(['a] RwLockWriteGuard<'a, T>, &'a RwLock<T>, READERS);
guard!([] OwnedRwLockReadGuard<T>, Arc<RwLock<T>>, 1);
guard!([] OwnedRwLockWriteGuard<T>, Arc<RwLock<T>>, READERS);

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: V1, nobody else reads or writes, and this guard is borrowed meanwhile.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for OwnedRwLockWriteGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: V1, nobody else reads or writes, and this guard is borrowed meanwhile.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Becomes a reader, before anybody else writes.
    ///
    /// ```
    /// use filch::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new(1);
    /// let reader = RwLockWriteGuard::downgrade(lock.blocking_write());
    /// assert_eq!(*reader, *lock.try_read().unwrap());
    /// ```
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let lock = ManuallyDrop::new(this).lock;
        lock.permits.give(READERS - 1);
        RwLockReadGuard::new(lock)
    }
}

impl<'a, T: ?Sized> RwLockUpgradableReadGuard<'a, T> {
    /// The permits of both kinds were taken (V2).
    pub(super) fn new(lock: &'a RwLock<T>, right: UpgradeRight<'a>) -> Self {
        Self { reader: RwLockReadGuard::new(lock), right }
    }

    /// Waits for the other readers to leave, and becomes the writer, before all others.
    ///
    /// ```
    /// use filch::sync::{RwLock, RwLockUpgradableReadGuard};
    /// # filch::block_on(async {
    /// let lock = RwLock::new(1);
    /// let reader = lock.upgradable_read().await;
    /// *RwLockUpgradableReadGuard::upgrade(reader).await += 1;
    /// assert_eq!(*lock.read().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it releases the lock.
    pub async fn upgrade(this: Self) -> RwLockWriteGuard<'a, T> {
        take(&this.reader.lock.permits, Place::First, READERS - 1).await;
        this.into_writer()
    }

    /// Becomes the writer if nobody else reads or waits.
    ///
    /// ```
    /// use filch::sync::{RwLock, RwLockUpgradableReadGuard};
    /// let lock = RwLock::new(1);
    /// let (reader, other) = (lock.try_upgradable_read().unwrap(), lock.try_read().unwrap());
    /// let reader = RwLockUpgradableReadGuard::try_upgrade(reader).unwrap_err();
    /// drop(other);
    /// assert!(RwLockUpgradableReadGuard::try_upgrade(reader).is_ok());
    /// ```
    ///
    /// # Errors
    /// With the guard, if somebody does.
    pub fn try_upgrade(this: Self) -> Result<RwLockWriteGuard<'a, T>, Self> {
        match attempt(&this.reader.lock.permits, READERS - 1) {
            Ok(()) => Ok(this.into_writer()),
            Err(TryLockError(())) => Err(this),
        }
    }

    /// Gives up the right to become the writer.
    ///
    /// ```
    /// use filch::sync::{RwLock, RwLockUpgradableReadGuard};
    /// let lock = RwLock::new(1);
    /// let reader = RwLockUpgradableReadGuard::downgrade(lock.try_upgradable_read().unwrap());
    /// assert!(lock.try_upgradable_read().is_ok());
    /// # drop(reader);
    /// ```
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        this.reader
    }

    /// All other permits were taken (V1).
    fn into_writer(self) -> RwLockWriteGuard<'a, T> {
        let Self { reader, right } = self;
        drop(right);
        RwLockWriteGuard::new(ManuallyDrop::new(reader).lock)
    }
}

impl<T: ?Sized> Deref for RwLockUpgradableReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.reader
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockUpgradableReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
