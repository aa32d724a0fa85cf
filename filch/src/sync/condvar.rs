//! A condition under a [`Mutex`].

use std::future::poll_fn;

use super::bell::{Bell, Listener, Unheard};
use super::coop;
use super::mutex::{Mutex, MutexGuard};

/// Waits until somebody says that what a [`Mutex`] holds has changed.
///
/// ```
/// use filch::sync::{Condvar, Mutex};
/// use std::sync::Arc;
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// filch::block_on(async {
///     let other = pair.clone();
///     drop(filch::spawn(async move {
///         *other.0.lock().await = true;
///         other.1.notify_one();
///     }));
///     let (ready, changed) = &*pair;
///     let guard = changed.wait_while(ready.lock().await, |ready| !*ready).await;
///     assert!(*guard);
/// });
/// ```
///
/// Unlike std's, a wait ends only because of a notification; still the condition may have changed
/// again by the time that the lock is taken.
#[derive(Debug)]
pub struct Condvar {
    bell: Bell,
}

/// A wait that has begun.
struct Waiting<'a> {
    bell: &'a Bell,
    listener: Listener,
    /// Whether the caller has the lock again; until then a sign may have to go to another.
    ended: bool,
}

impl<'a> Waiting<'a> {
    fn new(bell: &'a Bell) -> Self {
        let mut listener = bell.listener();
        bell.enable(&mut listener);
        Self { bell, listener, ended: false }
    }

    async fn heard(&mut self) {
        let Self { bell, listener, .. } = self;
        poll_fn(|cx| coop::poll_counted(cx, |cx| bell.poll(listener, cx))).await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.bell.leave(&mut self.listener);
        if !self.ended {
            self.bell.pass_on(&self.listener);
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// Nobody waits.
    ///
    /// ```
    /// static CHANGED: filch::sync::Condvar = filch::sync::Condvar::new();
    /// CHANGED.notify_all();
    /// ```
    pub const fn new() -> Self {
        Self { bell: Bell::new(Unheard::Lost) }
    }

    /// Releases the lock, waits for a notification, and takes the lock again. A notification that
    /// comes after the release is not missed.
    ///
    /// ```
    /// use filch::sync::{Condvar, Mutex};
    /// # filch::block_on(async {
    /// let (lock, changed) = (Mutex::new(0), Condvar::new());
    /// let (guard, ()) = filch::join!(
    ///     async { changed.wait(lock.lock().await).await },
    ///     async {
    ///         *lock.lock().await = 1;
    ///         changed.notify_one();
    ///     },
    /// );
    /// assert_eq!(*guard, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it waits no longer, and the lock is not held; a notification that it was given goes to
    /// another.
    pub async fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let lock: &'a Mutex<T> = MutexGuard::mutex(&guard);
        let mut waiting = Waiting::new(&self.bell);
        drop(guard);
        waiting.heard().await;
        let guard = lock.lock().await;
        waiting.ended = true;
        guard
    }

    /// As [`Condvar::wait`], until the condition is false.
    ///
    /// ```
    /// use filch::sync::{Condvar, Mutex};
    /// # filch::block_on(async {
    /// let (lock, changed) = (Mutex::new(1), Condvar::new());
    /// let guard = changed.wait_while(lock.lock().await, |value| *value == 0).await;
    /// assert_eq!(*guard, 1);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As [`Condvar::wait`].
    pub async fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let mut waited = false;
        while condition(&mut guard) {
            guard = self.wait(guard).await;
            waited = true;
        }
        if !waited {
            coop::proceed().await;
        }
        guard
    }

    /// As [`Condvar::wait`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// use filch::sync::{Condvar, Mutex};
    /// let (lock, changed) = (Mutex::new(false), Condvar::new());
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         *lock.blocking_lock() = true;
    ///         changed.notify_all();
    ///     });
    ///     let mut guard = lock.blocking_lock();
    ///     while !*guard {
    ///         guard = changed.blocking_wait(guard);
    ///     }
    /// });
    /// ```
    pub fn blocking_wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        coop::block_on(self.wait(guard))
    }

    /// Wakes the one who has waited longest, if somebody waits.
    ///
    /// ```
    /// filch::sync::Condvar::new().notify_one(); // nobody heard it
    /// ```
    pub fn notify_one(&self) {
        self.bell.ring_one();
    }

    /// Wakes all who wait.
    ///
    /// ```
    /// filch::sync::Condvar::new().notify_all();
    /// ```
    pub fn notify_all(&self) {
        self.bell.ring_all();
    }
}
