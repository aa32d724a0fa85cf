//! Locks that a simulation sees: waiting for one is a switch, and a deadlock names who holds it.
//!
//! On an ordinary thread they are `std`'s, in name, signature and behaviour.
//!
//! J1. On a participant nobody blocks in the system: an attempt that fails waits in the simulation
//!     for the release, which wakes all who wait.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

use crate::base::sim::{self, Key, What};

/// Who holds a lock, as far as participants do.
#[derive(Debug, Default)]
struct Holder(sync::Mutex<Option<(usize, &'static Location<'static>)>>);

impl Holder {
    fn set(&self, holder: Option<(usize, &'static Location<'static>)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = holder;
    }

    fn get(&self) -> Option<(usize, &'static Location<'static>)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self) -> Key {
        Key::Address(std::ptr::from_ref(self).addr())
    }

    /// Takes the lock: by `block` on an ordinary thread, by attempts on a participant (J1).
    fn take<G>(
        &self,
        at: &'static Location<'static>,
        block: impl FnOnce() -> LockResult<G>,
        attempt: impl Fn() -> TryLockResult<G>,
    ) -> LockResult<G> {
        sim::point();
        let Some(me) = sim::number() else { return block() };
        loop {
            let result = match attempt() {
                Ok(guard) => Ok(guard),
                Err(TryLockError::Poisoned(error)) => Err(error),
                Err(TryLockError::WouldBlock) => {
                    let what = What::Lock { wanted: at, held: self.get() };
                    sim::wait(self.key(), None, what);
                    continue;
                }
            };
            self.set(Some((me, at)));
            return result;
        }
    }

    /// After the release.
    fn released(&self) {
        if sim::is_on() {
            self.set(None);
            sim::wake(self.key());
            sim::point();
        }
    }
}

fn map<G, H>(result: LockResult<G>, f: impl FnOnce(G) -> H) -> LockResult<H> {
    match result {
        Ok(guard) => Ok(f(guard)),
        Err(error) => Err(PoisonError::new(f(error.into_inner()))),
    }
}

fn map_try<G, H>(result: TryLockResult<G>, f: impl FnOnce(G) -> H) -> TryLockResult<H> {
    match result {
        Ok(guard) => Ok(f(guard)),
        Err(TryLockError::Poisoned(error)) => {
            Err(TryLockError::Poisoned(PoisonError::new(f(error.into_inner()))))
        }
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
    }
}

/// `std::sync::Mutex`, for programs that hold it across a switch of a [`Sim`](super::Sim).
///
/// ```
/// use filch::testkit::{Mutex, Sim};
/// Sim::new().check(0..20, || {
///     let sum = Mutex::new(0);
///     filch::scope(|s| {
///         for i in 0..3 {
///             let sum = &sum;
///             s.spawn(move |_| {
///                 let mut sum = sum.lock().unwrap();
///                 *sum += filch::join(|| i, || 1).0; // a switch, with the lock held
///             });
///         }
///     });
///     assert_eq!(sum.into_inner().unwrap(), 3);
/// });
/// ```
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    holder: Holder,
    inner: sync::Mutex<T>,
}

/// The right to what a [`Mutex`] holds.
///
/// ```
/// let lock = filch::testkit::Mutex::new(1);
/// let mut guard: filch::testkit::MutexGuard<'_, i32> = lock.lock().unwrap();
/// *guard += 1;
/// assert_eq!(*guard, 2);
/// ```
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    /// There until the drop.
    inner: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A lock that is free.
    ///
    /// ```
    /// assert_eq!(*filch::testkit::Mutex::new(7).lock().unwrap(), 7);
    /// ```
    pub const fn new(value: T) -> Self {
        Self { holder: Holder(sync::Mutex::new(None)), inner: sync::Mutex::new(value) }
    }

    /// The value.
    ///
    /// ```
    /// assert_eq!(filch::testkit::Mutex::new(7).into_inner().unwrap(), 7);
    /// ```
    ///
    /// # Errors
    /// If a holder panicked.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free and takes it.
    ///
    /// ```
    /// let lock = filch::testkit::Mutex::new(7);
    /// assert_eq!(*lock.lock().unwrap(), 7);
    /// ```
    ///
    /// # Errors
    /// If a holder panicked.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let at = Location::caller();
        let taken = self.holder.take(at, || self.inner.lock(), || self.inner.try_lock());
        map(taken, |inner| self.guard(inner))
    }

    /// Takes the lock if it is free.
    ///
    /// ```
    /// let lock = filch::testkit::Mutex::new(7);
    /// let guard = lock.try_lock().unwrap();
    /// assert!(lock.try_lock().is_err());
    /// # drop(guard);
    /// ```
    ///
    /// # Errors
    /// If it is not free, or a holder panicked.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        sim::point();
        let at = Location::caller();
        map_try(self.inner.try_lock(), |inner| {
            if let Some(me) = sim::number() {
                self.holder.set(Some((me, at)));
            }
            self.guard(inner)
        })
    }

    fn guard<'a>(&'a self, inner: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { lock: self, inner: Some(inner) }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_deref().expect("there until the drop")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_deref_mut().expect("there until the drop")
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            self.lock.holder.released();
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// `std::sync::RwLock`, for programs that hold it across a switch of a [`Sim`](super::Sim).
///
/// ```
/// use filch::testkit::{RwLock, Sim};
/// Sim::new().check(0..20, || {
///     let table = RwLock::new(1);
///     filch::join(
///         || filch::join(|| *table.read().unwrap(), || *table.read().unwrap()),
///         || *table.write().unwrap() += 1,
///     );
///     assert_eq!(table.into_inner().unwrap(), 2);
/// });
/// ```
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized> {
    holder: Holder,
    inner: sync::RwLock<T>,
}

/// The right to read what an [`RwLock`] holds.
///
/// ```
/// let lock = filch::testkit::RwLock::new(1);
/// let guard: filch::testkit::RwLockReadGuard<'_, i32> = lock.read().unwrap();
/// assert_eq!(*guard, 1);
/// ```
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// There until the drop.
    inner: Option<sync::RwLockReadGuard<'a, T>>,
}

/// The right to change what an [`RwLock`] holds.
///
/// ```
/// let lock = filch::testkit::RwLock::new(1);
/// let mut guard: filch::testkit::RwLockWriteGuard<'_, i32> = lock.write().unwrap();
/// *guard += 1;
/// assert_eq!(*guard, 2);
/// ```
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// There until the drop.
    inner: Option<sync::RwLockWriteGuard<'a, T>>,
}

impl<T> RwLock<T> {
    /// A lock that is free.
    ///
    /// ```
    /// assert_eq!(*filch::testkit::RwLock::new(7).read().unwrap(), 7);
    /// ```
    pub const fn new(value: T) -> Self {
        Self { holder: Holder(sync::Mutex::new(None)), inner: sync::RwLock::new(value) }
    }

    /// The value.
    ///
    /// ```
    /// assert_eq!(filch::testkit::RwLock::new(7).into_inner().unwrap(), 7);
    /// ```
    ///
    /// # Errors
    /// If a writer panicked.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    ///
    /// ```
    /// let lock = filch::testkit::RwLock::new(7);
    /// let (a, b) = (lock.read().unwrap(), lock.read().unwrap());
    /// assert_eq!(*a, *b);
    /// ```
    ///
    /// # Errors
    /// If a writer panicked.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let at = Location::caller();
        let taken = self.holder.take(at, || self.inner.read(), || self.inner.try_read());
        map(taken, |inner| RwLockReadGuard { lock: self, inner: Some(inner) })
    }

    /// Waits until nobody reads or writes.
    ///
    /// ```
    /// let lock = filch::testkit::RwLock::new(7);
    /// *lock.write().unwrap() = 8;
    /// assert_eq!(*lock.read().unwrap(), 8);
    /// ```
    ///
    /// # Errors
    /// If a writer panicked.
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let at = Location::caller();
        let taken = self.holder.take(at, || self.inner.write(), || self.inner.try_write());
        map(taken, |inner| RwLockWriteGuard { lock: self, inner: Some(inner) })
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_deref().expect("there until the drop")
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_deref().expect("there until the drop")
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_deref_mut().expect("there until the drop")
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        self.lock.holder.released();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        self.lock.holder.released();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// `std::sync::Condvar`, for the [`Mutex`] of this module.
///
/// ```
/// use std::sync::Arc;
/// use filch::testkit::{Condvar, Mutex, Sim, spawn_thread};
/// Sim::new().check(0..20, || {
///     let gate = Arc::new((Mutex::new(false), Condvar::new()));
///     let opener = gate.clone();
///     let thread = spawn_thread(move || {
///         *opener.0.lock().unwrap() = true;
///         opener.1.notify_one();
///     });
///     let open = gate.0.lock().unwrap();
///     assert!(*gate.1.wait_while(open, |open| !*open).unwrap());
///     thread.join().unwrap();
/// });
/// ```
#[derive(Debug, Default)]
pub struct Condvar {
    /// Its address names the condition, so it needs one of its own.
    inner: sync::Condvar,
}

impl Condvar {
    /// A condition that nobody waits for.
    ///
    /// ```
    /// filch::testkit::Condvar::new().notify_all();
    /// ```
    pub const fn new() -> Self {
        Self { inner: sync::Condvar::new() }
    }

    fn key(&self) -> Key {
        Key::Address(std::ptr::from_ref(&self.inner).addr())
    }

    /// Lets the lock go, waits for a notification, and takes the lock again.
    ///
    /// As with `std`'s, it may return without a notification: [`wait_while`](Self::wait_while) looks.
    ///
    /// ```
    /// use filch::testkit::{Condvar, FailureKind, Mutex, Sim};
    /// let failure = Sim::new().find(0..1, || {
    ///     let lock = Mutex::new(());
    ///     drop(Condvar::new().wait(lock.lock().unwrap()));
    /// });
    /// assert_eq!(failure.unwrap().kind(), FailureKind::Deadlock);
    /// ```
    ///
    /// # Errors
    /// If a holder panicked.
    #[track_caller]
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let lock = guard.lock;
        let inner = guard.inner.take().expect("there until the drop");
        if !sim::is_on() {
            return map(self.inner.wait(inner), |inner| lock.guard(inner));
        }
        // To unlock and to wait is one step: no switch in between.
        drop(inner);
        lock.holder.set(None);
        sim::wake(lock.holder.key());
        sim::wait(self.key(), None, What::Condition(Location::caller()));
        lock.lock()
    }

    /// Waits while `condition` holds.
    ///
    /// ```
    /// use filch::testkit::{Condvar, Mutex};
    /// let lock = Mutex::new(7);
    /// let guard = Condvar::new().wait_while(lock.lock().unwrap(), |n| *n != 7).unwrap();
    /// assert_eq!(*guard, 7);
    /// ```
    ///
    /// # Errors
    /// If a holder panicked.
    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Wakes one who waits; in a simulation the seed says which.
    ///
    /// ```
    /// filch::testkit::Condvar::new().notify_one();
    /// ```
    pub fn notify_one(&self) {
        self.inner.notify_one();
        sim::wake_one(self.key());
        sim::point();
    }

    /// Wakes all who wait.
    ///
    /// ```
    /// filch::testkit::Condvar::new().notify_all();
    /// ```
    pub fn notify_all(&self) {
        self.inner.notify_all();
        sim::wake(self.key());
        sim::point();
    }
}
