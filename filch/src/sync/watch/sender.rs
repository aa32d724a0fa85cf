//! The end that changes the value.

use std::fmt;
use std::sync::Arc;

use super::{Channel, Receiver, Ref, SendError, until, wake_all};
use crate::base::shim::Ordering;

/// Changes the value; clones are ends of the same channel.
///
/// ```
/// let (sender, receiver) = filch::sync::watch::channel(1);
/// sender.send(2).unwrap();
/// assert_eq!(*receiver.borrow(), 2);
/// ```
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Self { channel }
    }

    /// Whether both are ends of one channel.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::watch::channel(1);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    /// How many senders there are.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::watch::channel(1);
    /// let _other = sender.clone();
    /// assert_eq!(sender.sender_count(), 2);
    /// ```
    pub fn sender_count(&self) -> usize {
        self.channel.senders()
    }

    /// Puts a new value in place of the old one, and tells the receivers.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow(), 2);
    /// ```
    ///
    /// # Errors
    /// With the value, if there is no receiver.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        drop(self.send_replace(value));
        Ok(())
    }

    /// As [`Sender::send`], but also if there is no receiver; returns the old value.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::watch::channel(1);
    /// assert_eq!(sender.send_replace(2), 1);
    /// ```
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }

    /// Changes the value in place, and tells the receivers, if there are any.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// sender.send_modify(|value| *value += 1);
    /// assert_eq!(*receiver.borrow(), 2);
    /// ```
    ///
    /// # Panics
    /// If `modify` does; the value is as it left it, and nobody is told.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and tells the receivers if `modify` says that it did.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// assert!(!sender.send_if_modified(|value| *value > 1));
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    ///
    /// # Panics
    /// As [`Sender::send_modify`].
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.channel.write();
        let modified = modify(&mut value);
        if modified {
            self.channel.raise();
        }
        drop(value);
        if modified {
            wake_all(&self.channel.changing);
        }
        modified
    }

    /// The value.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::watch::channel(1);
    /// assert_eq!(*sender.borrow(), 1);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref { guard: self.channel.read(), changed: false }
    }

    /// A new receiver, which has seen the value that there is.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::watch::channel(1);
    /// assert!(!sender.subscribe().has_changed().unwrap());
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        // ORDERING: AcqRel; a send that finds no receiver comes before this one, whole.
        self.channel.receivers.fetch_add(1, Ordering::AcqRel);
        let seen = {
            let _value = self.channel.read();
            self.channel.version()
        };
        Receiver::new(self.channel.clone(), seen)
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::watch::channel(1);
    /// assert_eq!(sender.receiver_count(), 1);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.channel.receivers()
    }

    /// Whether there is no receiver.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// drop(receiver);
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, receiver) = filch::sync::watch::channel(1);
    /// filch::join!(sender.closed(), async { drop(receiver) });
    /// assert!(sender.is_closed());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closed(&self) {
        until(&self.channel.closing, || self.is_closed().then_some(())).await;
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // ORDERING: Relaxed, the handle that is cloned keeps the count above zero.
        self.channel.senders.fetch_add(1, Ordering::Relaxed);
        Self { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // ORDERING: AcqRel pairs with the Acquire in `Channel::senders`.
        if self.channel.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            wake_all(&self.channel.changing);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("value", &*self.borrow()).finish()
    }
}
