//! A sign without a value.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::bell::{Bell, Listener, Unheard};
use super::coop;

/// Tells one task, or all that wait, that something has happened.
///
/// A sign for one that finds nobody waiting is kept for the next who comes; a second one beside it is
/// not.
///
/// ```
/// use filch::sync::Notify;
/// use std::sync::Arc;
///
/// let ready = Arc::new(Notify::new());
/// filch::block_on(async {
///     let waiting = ready.clone();
///     let task = filch::spawn(async move {
///         waiting.notified().await;
///         "told"
///     });
///     ready.notify_one();
///     assert_eq!(task.await, "told");
/// });
/// ```
#[derive(Debug)]
pub struct Notify {
    bell: Bell,
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl Notify {
    /// Nothing has happened.
    ///
    /// ```
    /// static READY: filch::sync::Notify = filch::sync::Notify::new();
    /// READY.notify_one();
    /// filch::block_on(READY.notified());
    /// ```
    pub const fn new() -> Self {
        Self { bell: Bell::new(Unheard::Kept) }
    }

    /// Wakes the one who has waited longest, or the next who comes.
    ///
    /// ```
    /// let notify = filch::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notify_one(); // kept once
    /// filch::block_on(notify.notified());
    /// ```
    pub fn notify_one(&self) {
        self.bell.ring_one();
    }

    /// Wakes everybody whose [`Notify::notified`] was called before, polled or not. Nothing is kept.
    ///
    /// ```
    /// let notify = filch::sync::Notify::new();
    /// let (one, two) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// filch::block_on(async { (one.await, two.await) });
    /// ```
    pub fn notify_waiters(&self) {
        self.bell.ring_all();
    }

    /// Waits for a sign.
    ///
    /// ```
    /// let notify = filch::sync::Notify::new();
    /// notify.notify_one();
    /// filch::block_on(notify.notified());
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, it gives up its place in the queue; a sign that it was given goes to another.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, listener: self.bell.listener() }
    }

    /// Blocks until there is a sign. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let notify = filch::sync::Notify::new();
    /// notify.notify_one();
    /// notify.blocking_notified();
    /// ```
    pub fn blocking_notified(&self) {
        coop::block_on(self.notified());
    }
}

/// The future of [`Notify::notified`].
///
/// ```
/// let notify = filch::sync::Notify::new();
/// let notified: filch::sync::Notified<'_> = notify.notified();
/// notify.notify_waiters();
/// filch::block_on(notified);
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    listener: Listener,
}

impl Notified<'_> {
    /// Takes its place in the queue now, and not at the first poll; true if there is a sign already.
    ///
    /// ```
    /// let notify = filch::sync::Notify::new();
    /// let mut first = notify.notified();
    /// assert!(!first.enable());
    /// notify.notify_one();
    /// assert!(first.enable());
    /// ```
    pub fn enable(&mut self) -> bool {
        self.notify.bell.enable(&mut self.listener)
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { notify, listener } = &mut *self;
        coop::poll_counted(cx, |cx| notify.bell.poll(listener, cx))
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.notify.bell.leave(&mut self.listener);
    }
}
