//! Permits that users see.
//!
//! Not here: who gets them when (`permits`).

use std::fmt;
use std::sync::Arc;

use super::coop;
use super::permits::{self, Attempt, Permits};

/// A number of permits: whoever has one may go on, the others wait, first come, first served.
///
/// ```
/// use filch::sync::Semaphore;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
///
/// static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
/// let two = Arc::new(Semaphore::new(2));
/// filch::block_on(async {
///     for _ in 0..10 {
///         let two = two.clone();
///         drop(filch::spawn(async move {
///             let _permit = two.acquire().await.unwrap();
///             assert!(AT_ONCE.fetch_add(1, SeqCst) < 2);
///             filch::yield_now().await;
///             AT_ONCE.fetch_sub(1, SeqCst);
///         }));
///     }
/// });
/// ```
///
/// # Fairness
/// Permits are handed out in the order of arrival. One who needs many is not overtaken by those who
/// need few.
#[derive(Debug)]
pub struct Semaphore {
    permits: Permits,
}

impl Semaphore {
    /// As many permits as there can be.
    pub const MAX_PERMITS: usize = permits::MOST;

    /// A semaphore with so many permits.
    ///
    /// ```
    /// static ONE: filch::sync::Semaphore = filch::sync::Semaphore::new(1);
    /// assert_eq!(ONE.available_permits(), 1);
    /// ```
    ///
    /// # Panics
    /// If they are more than [`Semaphore::MAX_PERMITS`].
    pub const fn new(permits: usize) -> Self {
        Self { permits: Permits::new(permits) }
    }

    /// How many permits nobody has, at this moment.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(3);
    /// let _two = semaphore.try_acquire_many(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Adds permits.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(0);
    /// semaphore.add_permits(1);
    /// assert!(semaphore.try_acquire().is_ok());
    /// ```
    ///
    /// # Panics
    /// If they become more than [`Semaphore::MAX_PERMITS`].
    #[track_caller]
    pub fn add_permits(&self, permits: usize) {
        assert!(permits <= Self::MAX_PERMITS, "too many permits");
        self.permits.give(permits);
    }

    /// Takes away up to `permits` that nobody has, for good, and returns how many.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(2), 2);
    /// assert_eq!(semaphore.forget_permits(2), 1);
    /// ```
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.permits.forget(permits)
    }

    /// Waits for a permit.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let semaphore = filch::sync::Semaphore::new(1);
    /// let permit = semaphore.acquire().await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the semaphore is closed.
    ///
    /// # Cancel safety
    /// Dropped, it gives up its place in the queue; no permit is lost.
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1).await
    }

    /// Waits for so many permits at once.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let semaphore = filch::sync::Semaphore::new(5);
    /// let _three = semaphore.acquire_many(3).await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the semaphore is closed.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        coop::take(&self.permits, permits as usize).await.map_err(|_| AcquireError(()))?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// As [`Semaphore::acquire`], with a permit that keeps the semaphore alive.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().await.unwrap();
    /// filch::spawn(async move { drop(permit) }).await;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the semaphore is closed.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1).await
    }

    /// As [`Semaphore::acquire_many`], with a permit that keeps the semaphore alive.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(5));
    /// let three = semaphore.acquire_many_owned(3).await.unwrap();
    /// assert_eq!(three.num_permits(), 3);
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the semaphore is closed.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_many_owned(
        self: Arc<Self>,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        coop::take(&self.permits, permits as usize).await.map_err(|_| AcquireError(()))?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits })
    }

    /// Takes a permit if there is one and nobody waits.
    ///
    /// ```
    /// use filch::sync::{Semaphore, TryAcquireError};
    /// let semaphore = Semaphore::new(1);
    /// let _permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// ```
    ///
    /// # Errors
    /// If there is none, or the semaphore is closed.
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes so many permits if they are there and nobody waits.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(2);
    /// assert!(semaphore.try_acquire_many(3).is_err());
    /// assert!(semaphore.try_acquire_many(2).is_ok());
    /// ```
    ///
    /// # Errors
    /// If there are too few, or the semaphore is closed.
    pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.attempt(permits)?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// As [`Semaphore::try_acquire`], with a permit that keeps the semaphore alive.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(1));
    /// assert!(semaphore.try_acquire_owned().is_ok());
    /// ```
    ///
    /// # Errors
    /// If there is none, or the semaphore is closed.
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`Semaphore::try_acquire_many`], with a permit that keeps the semaphore alive.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(1));
    /// assert!(semaphore.try_acquire_many_owned(2).is_err());
    /// ```
    ///
    /// # Errors
    /// If there are too few, or the semaphore is closed.
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.attempt(permits)?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits })
    }

    fn attempt(&self, permits: u32) -> Result<(), TryAcquireError> {
        match self.permits.try_take(permits as usize) {
            Attempt::Taken => Ok(()),
            Attempt::Short => Err(TryAcquireError::NoPermits),
            Attempt::Closed => Err(TryAcquireError::Closed),
        }
    }

    /// Blocks until there is a permit. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(1);
    /// assert!(semaphore.blocking_acquire().is_ok());
    /// ```
    ///
    /// # Errors
    /// If the semaphore is closed.
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.blocking_acquire_many(1)
    }

    /// Blocks until there are so many permits. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(2);
    /// assert_eq!(semaphore.blocking_acquire_many(2).unwrap().num_permits(), 2);
    /// ```
    ///
    /// # Errors
    /// If the semaphore is closed.
    pub fn blocking_acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        coop::block_on(self.permits.take(permits as usize)).map_err(|_| AcquireError(()))?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// Refuses everybody from now on, those that wait too. Permits that somebody has stay valid.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let semaphore = filch::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().await.is_err());
    /// # });
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether [`Semaphore::close`] was called.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

/// The semaphore is closed.
///
/// ```
/// let semaphore = filch::sync::Semaphore::new(1);
/// semaphore.close();
/// let error: filch::sync::AcquireError = semaphore.blocking_acquire().unwrap_err();
/// assert_eq!(error.to_string(), "the semaphore is closed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireError(());

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore is closed")
    }
}

impl std::error::Error for AcquireError {}

/// Why there is no permit at once.
///
/// ```
/// use filch::sync::{Semaphore, TryAcquireError};
/// assert_eq!(Semaphore::new(0).try_acquire().unwrap_err(), TryAcquireError::NoPermits);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore is closed.
    Closed,
    /// There are too few, or others wait.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the semaphore is closed",
            Self::NoPermits => "there are too few permits",
        })
    }
}

impl std::error::Error for TryAcquireError {}

/// Permits of a [`Semaphore`]; dropped, they go back.
///
/// ```
/// let semaphore = filch::sync::Semaphore::new(3);
/// let permit: filch::sync::SemaphorePermit<'_> = semaphore.try_acquire_many(2).unwrap();
/// assert_eq!(permit.num_permits(), 2);
/// ```
#[derive(Debug)]
#[must_use = "the permits go back when this is dropped"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: u32,
}

/// As [`SemaphorePermit`], without a lifetime: it keeps the semaphore alive.
///
/// ```
/// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(3));
/// let permit: filch::sync::OwnedSemaphorePermit = semaphore.try_acquire_owned().unwrap();
/// std::thread::spawn(move || drop(permit)).join().unwrap();
/// ```
#[derive(Debug)]
#[must_use = "the permits go back when this is dropped"]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: u32,
}

impl<'a> SemaphorePermit<'a> {
    /// How many there are.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.try_acquire().unwrap().num_permits(), 1);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits as usize
    }

    /// Keeps them from going back, for good.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(3);
    /// semaphore.try_acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of `other`.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire().unwrap();
    /// permit.merge(semaphore.try_acquire().unwrap());
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    ///
    /// # Panics
    /// If they are of different semaphores.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(std::ptr::eq(self.semaphore, other.semaphore), "permits of different semaphores");
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Parts with `count` of them; `None` if there are fewer.
    ///
    /// ```
    /// let semaphore = filch::sync::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire_many(3).unwrap();
    /// assert_eq!(permit.split(1).unwrap().num_permits(), 1);
    /// assert!(permit.split(3).is_none());
    /// ```
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let count = u32::try_from(count).ok()?;
        self.permits = self.permits.checked_sub(count)?;
        Some(Self { semaphore: self.semaphore, permits: count })
    }
}

impl OwnedSemaphorePermit {
    /// How many there are.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(3));
    /// assert_eq!(semaphore.try_acquire_owned().unwrap().num_permits(), 1);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits as usize
    }

    /// Keeps them from going back, for good.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(3));
    /// semaphore.clone().try_acquire_owned().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of `other`.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(3));
    /// let mut permit = semaphore.clone().try_acquire_owned().unwrap();
    /// permit.merge(semaphore.try_acquire_owned().unwrap());
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    ///
    /// # Panics
    /// If they are of different semaphores.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(Arc::ptr_eq(&self.semaphore, &other.semaphore), "permits of different semaphores");
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Parts with `count` of them; `None` if there are fewer.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(filch::sync::Semaphore::new(3));
    /// let mut permit = semaphore.try_acquire_many_owned(3).unwrap();
    /// assert_eq!(permit.split(1).unwrap().num_permits(), 1);
    /// ```
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let count = u32::try_from(count).ok()?;
        self.permits = self.permits.checked_sub(count)?;
        Some(Self { semaphore: self.semaphore.clone(), permits: count })
    }

    /// The semaphore that they are of.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let semaphore = Arc::new(filch::sync::Semaphore::new(3));
    /// let permit = semaphore.clone().try_acquire_owned().unwrap();
    /// assert!(Arc::ptr_eq(permit.semaphore(), &semaphore));
    /// ```
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.permits.give(self.permits as usize);
        }
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.permits.give(self.permits as usize);
        }
    }
}
