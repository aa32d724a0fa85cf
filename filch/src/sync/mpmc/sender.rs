//! The end that messages go in.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Channel, Room, SendError, TrySendError, add_handle, drop_handle, revive};
use crate::sync::coop;
use crate::sync::turn::{Step, Turn, poll_under};
use crate::sync::waiters::Key;
use crate::time::timeout;

/// The end of a channel that messages go in; clones are ends of the same channel.
///
/// ```
/// let (sender, receiver) = filch::sync::mpmc::bounded(1);
/// sender.try_send("hello").unwrap();
/// assert_eq!(receiver.try_recv(), Ok("hello"));
/// ```
pub struct Sender<T> {
    pub(super) channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Self { channel }
    }

    /// Sends a message, when there is room for it.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// sender.send(1).await.unwrap();
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// # });
    /// ```
    ///
    /// # Errors
    /// With the message, if the channel is closed.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has not sent, and the message is dropped with it. To keep the
    /// message, [`reserve`](Sender::reserve) first.
    pub async fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = Some(message);
        match coop::now(|| self.channel.send_now(&mut message)) {
            Some(()) => Ok(()),
            None => coop::counted(Send { channel: &self.channel, message, slot: None }).await,
        }
    }

    /// Sends a message if there is room.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::mpmc::bounded(1);
    /// assert!(sender.try_send(1).is_ok());
    /// assert!(sender.try_send(2).is_err());
    /// ```
    ///
    /// # Errors
    /// With the message, if there is none, or the channel is closed.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        Turn::take(&self.channel.state, |state, turn| match message {
            message if state.closed => Err(TrySendError::Closed(message)),
            message if !state.has_room() => Err(TrySendError::Full(message)),
            message => {
                state.push(message, turn);
                Ok(())
            }
        })
    }

    /// As [`Sender::send`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// let thread = std::thread::spawn(move || sender.blocking_send(1).unwrap());
    /// assert_eq!(receiver.blocking_recv(), Ok(1));
    /// # thread.join().unwrap();
    /// ```
    ///
    /// # Errors
    /// With the message, if the channel is closed.
    pub fn blocking_send(&self, message: T) -> Result<(), SendError<T>> {
        coop::block_on(Send { channel: &self.channel, message: Some(message), slot: None })
    }

    /// As [`Sender::send`], but waits no longer than `duration` for room.
    ///
    /// ```
    /// use filch::sync::mpmc::{self, TrySendError};
    /// use std::time::Duration;
    /// # filch::block_on(async {
    /// let (sender, _receiver) = mpmc::bounded(1);
    /// assert_eq!(sender.send_timeout(1, Duration::from_secs(1)).await, Ok(()));
    /// let full = sender.send_timeout(2, Duration::from_millis(1)).await;
    /// assert_eq!(full, Err(TrySendError::Full(2)));
    /// # });
    /// ```
    ///
    /// # Errors
    /// With the message, if the channel is closed or the time is up.
    ///
    /// # Cancel safety
    /// As [`Sender::send`].
    pub async fn send_timeout(
        &self,
        message: T,
        duration: Duration,
    ) -> Result<(), TrySendError<T>> {
        match timeout(duration, self.reserve()).await {
            Ok(Ok(permit)) => {
                permit.send(message);
                Ok(())
            }
            Ok(Err(_)) => Err(TrySendError::Closed(message)),
            Err(_) => Err(TrySendError::Full(message)),
        }
    }

    /// Waits for room, which is then the caller's.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// let permit = sender.reserve().await.unwrap();
    /// assert!(sender.is_full());
    /// permit.send(1);
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the channel is closed.
    ///
    /// # Cancel safety
    /// Dropped, it gives up its place in the queue; no room is lost.
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        coop::counted(Reserve { channel: &self.channel, slot: None }).await?;
        Ok(Permit { channel: &self.channel })
    }

    /// Takes room if there is some.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::mpmc::bounded::<u32>(1);
    /// let permit = sender.try_reserve().unwrap();
    /// assert!(sender.try_reserve().is_err());
    /// # drop(permit);
    /// ```
    ///
    /// # Errors
    /// If there is none, or the channel is closed.
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        Turn::take(&self.channel.state, |state, _| match () {
            () if state.closed => Err(TrySendError::Closed(())),
            () if !state.has_room() => Err(TrySendError::Full(())),
            () => {
                state.granted += 1;
                state.reserve();
                Ok(())
            }
        })?;
        Ok(Permit { channel: &self.channel })
    }

    /// Waits until the channel is closed, for instance because the last receiver is gone.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, receiver) = filch::sync::mpmc::bounded::<u32>(1);
    /// filch::join!(sender.closed(), async { drop(receiver) });
    /// assert!(sender.is_closed());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closed(&self) {
        coop::counted(Closing { channel: &self.channel, slot: None }).await;
    }

    /// A handle that does not keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::mpmc::bounded::<u32>(1);
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(sender);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { channel: Arc::downgrade(&self.channel) }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        add_handle(&self.channel.senders);
        Self { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if drop_handle(&self.channel.senders) {
            self.channel.close();
        }
    }
}

/// A [`Sender`] that does not keep the channel open.
///
/// ```
/// let (sender, _receiver) = filch::sync::mpmc::bounded(1);
/// let weak: filch::sync::mpmc::WeakSender<u32> = sender.downgrade();
/// weak.upgrade().unwrap().try_send(1).unwrap();
/// ```
pub struct WeakSender<T> {
    channel: Weak<Channel<T>>,
}

impl<T> WeakSender<T> {
    /// The sender, if another one is left.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::mpmc::bounded::<u32>(1);
    /// assert!(sender.downgrade().upgrade().is_some());
    /// ```
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let channel = self.channel.upgrade()?;
        revive(&channel.senders).then(|| Sender { channel })
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self { channel: self.channel.clone() }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakSender(..)")
    }
}

/// Room for one message; dropped, it goes to another.
///
/// ```
/// let (sender, receiver) = filch::sync::mpmc::bounded(1);
/// let permit: filch::sync::mpmc::Permit<'_, u32> = sender.try_reserve().unwrap();
/// permit.send(1);
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
#[must_use = "the room goes to another when this is dropped"]
pub struct Permit<'a, T> {
    channel: &'a Channel<T>,
}

impl<T> Permit<'_, T> {
    /// Sends a message. If the channel was closed since, it is dropped or received like those that
    /// came before.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// sender.try_reserve().unwrap().send(1);
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn send(self, message: T) {
        let channel = std::mem::ManuallyDrop::new(self).channel;
        let refused = Turn::take(&channel.state, |state, turn| {
            state.granted -= 1;
            let refused = if channel.is_abandoned() {
                Some(message)
            } else {
                state.push(message, turn);
                None
            };
            state.unreserve(turn);
            refused
        });
        drop(refused);
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        Turn::take(&self.channel.state, |state, turn| {
            state.give_room_back(turn);
            state.unreserve(turn);
        });
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit(..)")
    }
}

struct Send<'a, T> {
    channel: &'a Channel<T>,
    message: Option<T>,
    slot: Option<Key>,
}

// The message is moved, never pinned.
impl<T> Unpin for Send<'_, T> {}

impl<T> Future for Send<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { channel, message, slot } = &mut *self;
        poll_under(&channel.state, cx, |state, turn, waker| {
            let room = match *slot {
                _ if state.closed => None,
                None => state.has_room().then_some(()),
                Some(key) => (*state.senders.ticket(key) == Room::Granted).then_some(()),
            };
            if room.is_none() && !state.closed {
                return turn.wait(&mut state.senders, slot, waker, Room::Wanted);
            }
            if turn.leave(&mut state.senders, slot) == Some(Room::Granted) {
                state.granted -= 1;
            }
            let message = message.take().expect("polled after it was ready");
            if room.is_none() {
                return Step::Ready(Err(SendError(message)));
            }
            state.push(message, turn);
            Step::Ready(Ok(()))
        })
    }
}

impl<T> Drop for Send<'_, T> {
    fn drop(&mut self) {
        leave(self.channel, &mut self.slot);
    }
}

/// A sender that waits for room is dropped.
fn leave<T>(channel: &Channel<T>, slot: &mut Option<Key>) {
    if slot.is_none() {
        return;
    }
    Turn::take(&channel.state, |state, turn| {
        if turn.leave(&mut state.senders, slot) == Some(Room::Granted) {
            state.give_room_back(turn);
        }
    });
}

struct Reserve<'a, T> {
    channel: &'a Channel<T>,
    slot: Option<Key>,
}

impl<T> Future for Reserve<'_, T> {
    type Output = Result<(), SendError<()>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { channel, slot } = &mut *self;
        poll_under(&channel.state, cx, |state, turn, waker| {
            if state.closed {
                if turn.leave(&mut state.senders, slot) == Some(Room::Granted) {
                    state.granted -= 1;
                }
                return Step::Ready(Err(SendError(())));
            }
            match *slot {
                None if state.has_room() => {
                    state.granted += 1;
                    state.reserve();
                    Step::Ready(Ok(()))
                }
                Some(key) if *state.senders.ticket(key) == Room::Granted => {
                    turn.leave(&mut state.senders, slot);
                    state.reserve();
                    Step::Ready(Ok(()))
                }
                _ => turn.wait(&mut state.senders, slot, waker, Room::Wanted),
            }
        })
    }
}

impl<T> Drop for Reserve<'_, T> {
    fn drop(&mut self) {
        leave(self.channel, &mut self.slot);
    }
}

struct Closing<'a, T> {
    channel: &'a Channel<T>,
    slot: Option<Key>,
}

impl<T> Future for Closing<'_, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { channel, slot } = &mut *self;
        poll_under(&channel.state, cx, |state, turn, waker| {
            if !state.closed {
                return turn.wait(&mut state.closing, slot, waker, ());
            }
            turn.leave(&mut state.closing, slot);
            Step::Ready(())
        })
    }
}

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        if self.slot.is_some() {
            Turn::take(&self.channel.state, |state, turn| {
                turn.leave(&mut state.closing, &mut self.slot);
            });
        }
    }
}
