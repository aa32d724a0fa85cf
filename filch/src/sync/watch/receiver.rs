//! The end that sees the value.

use std::fmt;
use std::sync::Arc;

use super::super::coop;
use super::{Channel, RecvError, Ref, block_until, until, wake_all};
use crate::base::shim::Ordering;

/// Sees the value; a clone has seen what this one has.
///
/// ```
/// let (sender, receiver) = filch::sync::watch::channel(1);
/// let other = receiver.clone();
/// sender.send(2).unwrap();
/// assert_eq!((*receiver.borrow(), *other.borrow()), (2, 2));
/// ```
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    /// A1.
    seen: usize,
}

impl<T> Receiver<T> {
    /// The caller has counted it.
    pub(super) fn new(channel: Arc<Channel<T>>, seen: usize) -> Self {
        Self { channel, seen }
    }

    /// The value, without having seen it.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow(), 2);
    /// assert!(receiver.has_changed().unwrap());
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        let guard = self.channel.read();
        let changed = self.channel.version() != self.seen;
        Ref { guard, changed }
    }

    /// The value, which is seen now.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow_and_update(), 2);
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let guard = self.channel.read();
        let version = self.channel.version();
        let changed = std::mem::replace(&mut self.seen, version) != version;
        Ref { guard, changed }
    }

    /// Whether there is a value that was not seen.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// ```
    ///
    /// # Errors
    /// If all senders are gone.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        if self.channel.senders() == 0 {
            return Err(RecvError);
        }
        Ok(self.channel.version() != self.seen)
    }

    /// Makes the value count as not seen.
    ///
    /// ```
    /// let (_sender, mut receiver) = filch::sync::watch::channel(1);
    /// receiver.mark_changed();
    /// assert!(receiver.has_changed().unwrap());
    /// ```
    pub fn mark_changed(&mut self) {
        self.seen = self.channel.version().wrapping_sub(1);
    }

    /// Makes the value count as seen.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// receiver.mark_unchanged();
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.channel.version();
    }

    /// Waits for a value that was not seen, which is then seen.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, mut receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// receiver.changed().await.unwrap();
    /// drop(sender);
    /// assert!(receiver.changed().await.is_err());
    /// # });
    /// ```
    ///
    /// # Errors
    /// If all senders are gone, and the last value was seen.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, nothing counts as seen.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        let Self { channel, seen } = self;
        *seen = until(&channel.changing, || news(channel, *seen)).await?;
        Ok(())
    }

    /// As [`Receiver::changed`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// receiver.blocking_changed().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Receiver::changed`].
    pub fn blocking_changed(&mut self) -> Result<(), RecvError> {
        let Self { channel, seen } = self;
        *seen = block_until(&channel.changing, || news(channel, *seen))?;
        Ok(())
    }

    /// Waits for a value of which the condition is true, be it the one that there is.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, mut receiver) = filch::sync::watch::channel(1);
    /// sender.send(5).unwrap();
    /// assert_eq!(*receiver.wait_for(|value| *value > 3).await.unwrap(), 5);
    /// # });
    /// ```
    ///
    /// # Errors
    /// If all senders are gone, and it is not true of the last value.
    ///
    /// # Panics
    /// If the condition does.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for(
        &mut self,
        mut condition: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        let Self { channel, seen } = self;
        let mut over = false;
        // Counted first: what is found is borrowed, and not held across an await.
        coop::proceed().await;
        loop {
            {
                let guard = channel.read();
                let version = channel.version();
                let changed = std::mem::replace(seen, version) != version;
                if condition(&guard) {
                    return Ok(Ref { guard, changed });
                }
            }
            if over {
                return Err(RecvError);
            }
            // Once more after the end: the last value may have come between the look and it.
            over = until(&channel.changing, || news(channel, *seen)).await.is_err();
        }
    }

    /// Whether both are ends of one channel.
    ///
    /// ```
    /// let (_sender, receiver) = filch::sync::watch::channel(1);
    /// assert!(receiver.same_channel(&receiver.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

/// The version, if it is not `seen`; the end of the senders, if it is.
fn news<T>(channel: &Channel<T>, seen: usize) -> Option<Result<usize, RecvError>> {
    // Before the version: the last sender's last value is seen.
    let over = channel.senders() == 0;
    match channel.version() {
        version if version != seen => Some(Ok(version)),
        _ if over => Some(Err(RecvError)),
        _ => None,
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        // ORDERING: Relaxed, the handle that is cloned keeps the count above zero.
        self.channel.receivers.fetch_add(1, Ordering::Relaxed);
        Self { channel: self.channel.clone(), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // ORDERING: AcqRel pairs with the Acquire in `Channel::receivers`.
        if self.channel.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            wake_all(&self.channel.closing);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("value", &*self.borrow()).finish()
    }
}
