//! A lock that many may read under, or one write.
//!
//! V1. There are [`READERS`] permits. A read guard stands for one, a write guard for all: so a writer
//!     excludes everybody, and nobody overtakes one who waits (Q3 of `permits`).
//! V2. An upgradable guard stands for one permit and the only one of `upgrade`, so at most one reader
//!     can wait for the others to leave. It waits before all others: a writer ahead of it would wait
//!     for it in turn.
//!
//! Not here: poison.

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::coop;
use super::mutex::TryLockError;
use super::permits::{Attempt, Permits, Place};

mod guards;
pub use guards::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};

/// How many can read at once.
const READERS: usize = (u32::MAX >> 3) as usize;

/// A lock for many readers or one writer, whose guards may be held across an `.await`.
///
/// ```
/// use filch::sync::RwLock;
/// # filch::block_on(async {
/// let lock = RwLock::new(5);
/// {
///     let (one, two) = (lock.read().await, lock.read().await);
///     assert_eq!(*one + *two, 10);
/// }
/// *lock.write().await += 1;
/// assert_eq!(*lock.read().await, 6);
/// # });
/// ```
///
/// # Fairness
/// First come, first served: a reader that comes after a waiting writer waits for it. So a task that
/// has a read guard must not wait for a second one of the same lock: a writer may wait in between.
///
/// # Panics
/// A panic while the lock is held releases it. There is no poison.
pub struct RwLock<T: ?Sized> {
    permits: Permits,
    upgrade: Permits,
    value: UnsafeCell<T>,
}

// SAFETY: V1, a value that is reached by one writer at a time may be moved between threads by it.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: V1, as above; readers on several threads share the value.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// A panic releases the lock; whether the value may be used after it is up to its type.
impl<T: ?Sized + UnwindSafe> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    /// A lock that is free.
    ///
    /// ```
    /// static LOCK: filch::sync::RwLock<u32> = filch::sync::RwLock::new(7);
    /// assert_eq!(*LOCK.blocking_read(), 7);
    /// ```
    pub const fn new(value: T) -> Self {
        Self {
            permits: Permits::new(READERS),
            upgrade: Permits::new(1),
            value: UnsafeCell::new(value),
        }
    }

    /// The value.
    ///
    /// ```
    /// assert_eq!(filch::sync::RwLock::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// Takes permits that are never closed.
async fn take(permits: &Permits, place: Place, need: usize) {
    let taken = match place {
        Place::Last => coop::take(permits, need).await,
        Place::First => coop::counted(permits.take_at(place, need)).await,
    };
    debug_assert_eq!(taken, Ok(()), "these permits are never closed");
}

/// As `take`, blocking.
fn block(permits: &Permits, need: usize) {
    let taken = coop::block_on(permits.take(need));
    debug_assert_eq!(taken, Ok(()), "these permits are never closed");
}

fn attempt(permits: &Permits, need: usize) -> Result<(), TryLockError> {
    match permits.try_take(need) {
        Attempt::Taken => Ok(()),
        Attempt::Short | Attempt::Closed => Err(TryLockError(())),
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let lock = filch::sync::RwLock::new(1);
    /// assert_eq!(*lock.read().await, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it gives up its place in the queue; nothing else is lost.
    pub async fn read(&self) -> RwLockReadGuard<'_, T> {
        take(&self.permits, Place::Last, 1).await;
        RwLockReadGuard::new(self)
    }

    /// Waits until nobody reads or writes.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let lock = filch::sync::RwLock::new(1);
    /// *lock.write().await += 1;
    /// assert_eq!(*lock.read().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn write(&self) -> RwLockWriteGuard<'_, T> {
        take(&self.permits, Place::Last, READERS).await;
        RwLockWriteGuard::new(self)
    }

    /// Waits until nobody writes, nor reads with the right to become a writer, for a read guard
    /// that has that right.
    ///
    /// ```
    /// use filch::sync::{RwLock, RwLockUpgradableReadGuard};
    /// # filch::block_on(async {
    /// let lock = RwLock::new(vec![1]);
    /// let reader = lock.upgradable_read().await;
    /// if reader.len() == 1 {
    ///     RwLockUpgradableReadGuard::upgrade(reader).await.push(2);
    /// }
    /// assert_eq!(*lock.read().await, [1, 2]);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn upgradable_read(&self) -> RwLockUpgradableReadGuard<'_, T> {
        take(&self.upgrade, Place::Last, 1).await;
        // Given back if the wait for the second permit is dropped.
        let right = guards::UpgradeRight::new(&self.upgrade);
        take(&self.permits, Place::Last, 1).await;
        RwLockUpgradableReadGuard::new(self, right)
    }

    /// As [`RwLock::read`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let lock = std::sync::Arc::new(filch::sync::RwLock::new(1));
    /// let guard = lock.read_owned().await;
    /// assert_eq!(filch::spawn(async move { *guard }).await, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn read_owned(self: Arc<Self>) -> OwnedRwLockReadGuard<T> {
        take(&self.permits, Place::Last, 1).await;
        OwnedRwLockReadGuard::new(self)
    }

    /// As [`RwLock::write`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let lock = std::sync::Arc::new(filch::sync::RwLock::new(1));
    /// let mut guard = lock.clone().write_owned().await;
    /// filch::spawn(async move { *guard = 2 }).await;
    /// assert_eq!(*lock.read().await, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn write_owned(self: Arc<Self>) -> OwnedRwLockWriteGuard<T> {
        take(&self.permits, Place::Last, READERS).await;
        OwnedRwLockWriteGuard::new(self)
    }

    /// Reads if nobody writes or waits to.
    ///
    /// ```
    /// let lock = filch::sync::RwLock::new(1);
    /// let (one, two) = (lock.try_read().unwrap(), lock.try_read().unwrap());
    /// assert_eq!(*one, *two);
    /// ```
    ///
    /// # Errors
    /// If somebody does.
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        attempt(&self.permits, 1)?;
        Ok(RwLockReadGuard::new(self))
    }

    /// Writes if nobody reads, writes or waits to.
    ///
    /// ```
    /// let lock = filch::sync::RwLock::new(1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_write().is_err());
    /// drop(reader);
    /// *lock.try_write().unwrap() += 1;
    /// ```
    ///
    /// # Errors
    /// If somebody does.
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        attempt(&self.permits, READERS)?;
        Ok(RwLockWriteGuard::new(self))
    }

    /// As [`RwLock::try_read`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// let lock = std::sync::Arc::new(filch::sync::RwLock::new(1));
    /// let guard = lock.clone().try_read_owned().unwrap();
    /// assert!(lock.try_write_owned().is_err());
    /// assert_eq!(*guard, 1);
    /// ```
    ///
    /// # Errors
    /// If somebody writes or waits to.
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        attempt(&self.permits, 1)?;
        Ok(OwnedRwLockReadGuard::new(self))
    }

    /// As [`RwLock::try_write`], with a guard that keeps the lock alive.
    ///
    /// ```
    /// let lock = std::sync::Arc::new(filch::sync::RwLock::new(1));
    /// *lock.clone().try_write_owned().unwrap() += 1;
    /// assert_eq!(*lock.try_read_owned().unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// If somebody reads, writes or waits to.
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        attempt(&self.permits, READERS)?;
        Ok(OwnedRwLockWriteGuard::new(self))
    }

    /// Reads, with the right to become a writer, if that is possible at once.
    ///
    /// ```
    /// let lock = filch::sync::RwLock::new(1);
    /// let reader = lock.try_upgradable_read().unwrap();
    /// assert!(lock.try_upgradable_read().is_err());
    /// assert_eq!(*lock.try_read().unwrap(), *reader);
    /// ```
    ///
    /// # Errors
    /// If somebody writes, waits to, or has that right.
    pub fn try_upgradable_read(&self) -> Result<RwLockUpgradableReadGuard<'_, T>, TryLockError> {
        attempt(&self.upgrade, 1)?;
        let right = guards::UpgradeRight::new(&self.upgrade);
        attempt(&self.permits, 1)?;
        Ok(RwLockUpgradableReadGuard::new(self, right))
    }

    /// Blocks until nobody writes. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// assert_eq!(*filch::sync::RwLock::new(1).blocking_read(), 1);
    /// ```
    pub fn blocking_read(&self) -> RwLockReadGuard<'_, T> {
        block(&self.permits, 1);
        RwLockReadGuard::new(self)
    }

    /// Blocks until nobody reads or writes. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let lock = filch::sync::RwLock::new(1);
    /// *lock.blocking_write() = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn blocking_write(&self) -> RwLockWriteGuard<'_, T> {
        block(&self.permits, READERS);
        RwLockWriteGuard::new(self)
    }

    /// The value, without a lock: nobody else can reach it.
    ///
    /// ```
    /// let mut lock = filch::sync::RwLock::new(1);
    /// *lock.get_mut() = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => out.field("value", &&*guard).finish(),
            Err(_) => out.field("value", &format_args!("<locked>")).finish(),
        }
    }
}
