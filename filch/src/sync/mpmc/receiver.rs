//! The end that messages come out of.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures_lite::Stream;

use super::{Channel, RecvError, State, Told, TryRecvError, add_handle, drop_handle, revive};
use crate::sync::coop;
use crate::sync::turn::{Step, Turn, poll_under};
use crate::sync::waiters::Key;

/// The end of a channel that messages come out of; clones are ends of the same channel, and each
/// message goes to one of them.
///
/// ```
/// let (sender, receiver) = filch::sync::mpmc::bounded(2);
/// let other = receiver.clone();
/// sender.try_send(1).unwrap();
/// sender.try_send(2).unwrap();
/// assert_eq!((receiver.try_recv(), other.try_recv()), (Ok(1), Ok(2)));
/// ```
///
/// It is a [`Stream`] too, which ends when the channel is closed and empty:
///
/// ```
/// use futures_lite::StreamExt;
/// # filch::block_on(async {
/// let (sender, receiver) = filch::sync::mpmc::unbounded();
/// (1..=4).for_each(|i| sender.try_send(i).unwrap());
/// drop(sender);
/// assert_eq!(receiver.map(|i| i * i).collect::<Vec<_>>().await, [1, 4, 9, 16]);
/// # });
/// ```
pub struct Receiver<T> {
    pub(super) channel: Arc<Channel<T>>,
    /// Where it waits as a stream.
    slot: Option<Key>,
}

impl<T> Receiver<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Self { channel, slot: None }
    }

    /// Waits for a message.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// sender.send(1).await.unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// assert!(receiver.recv().await.is_err());
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the channel is closed and empty.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has taken no message.
    pub async fn recv(&self) -> Result<T, RecvError> {
        match coop::now(|| self.channel.receive_now()) {
            Some(message) => Ok(message),
            None => coop::counted(Recv { channel: &self.channel, slot: None }).await,
        }
    }

    /// Waits for a message, and appends it and what else is there to `buffer`, at most `limit` in all;
    /// returns how many. None means that the channel is closed and empty, or that `limit` is zero.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (sender, receiver) = filch::sync::mpmc::unbounded();
    /// (0..5).for_each(|i| sender.try_send(i).unwrap());
    /// let mut batch = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut batch, 3).await, 3);
    /// assert_eq!(receiver.recv_many(&mut batch, 3).await, 2);
    /// assert_eq!(batch, [0, 1, 2, 3, 4]);
    /// drop(sender);
    /// assert_eq!(receiver.recv_many(&mut batch, 3).await, 0);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has taken no message.
    pub async fn recv_many(&self, buffer: &mut Vec<T>, limit: usize) -> usize {
        if limit == 0 {
            coop::proceed().await;
            return 0;
        }
        let Ok(first) = self.recv().await else { return 0 };
        buffer.push(first);
        let rest = Turn::take(&self.channel.state, |state, turn| {
            let rest: Vec<T> = std::iter::from_fn(|| state.pop(turn)).take(limit - 1).collect();
            rest
        });
        let count = 1 + rest.len();
        buffer.extend(rest);
        count
    }

    /// Takes a message if there is one.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// sender.try_send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert!(receiver.try_recv().is_err());
    /// ```
    ///
    /// # Errors
    /// If there is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        Turn::take(&self.channel.state, |state, turn| match state.pop(turn) {
            Some(message) => Ok(message),
            None if state.is_over() => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        })
    }

    /// As [`Receiver::recv`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::mpmc::bounded(1);
    /// sender.blocking_send(1).unwrap();
    /// assert_eq!(receiver.blocking_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    /// If the channel is closed and empty.
    pub fn blocking_recv(&self) -> Result<T, RecvError> {
        coop::block_on(Recv { channel: &self.channel, slot: None })
    }

    /// A handle that does not keep the channel open.
    ///
    /// ```
    /// let (_sender, receiver) = filch::sync::mpmc::bounded::<u32>(1);
    /// let weak = receiver.downgrade();
    /// drop(receiver);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakReceiver<T> {
        WeakReceiver { channel: Arc::downgrade(&self.channel) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        add_handle(&self.channel.receivers);
        Self { channel: self.channel.clone(), slot: None }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        leave(&self.channel, &mut self.slot);
        if drop_handle(&self.channel.receivers) {
            self.channel.discard();
        }
    }
}

/// A [`Receiver`] that does not keep the channel open.
///
/// ```
/// let (_sender, receiver) = filch::sync::mpmc::bounded(1);
/// let weak: filch::sync::mpmc::WeakReceiver<u32> = receiver.downgrade();
/// assert!(weak.upgrade().is_some());
/// ```
pub struct WeakReceiver<T> {
    channel: Weak<Channel<T>>,
}

impl<T> WeakReceiver<T> {
    /// The receiver, if another one is left.
    ///
    /// ```
    /// let (_sender, receiver) = filch::sync::mpmc::bounded::<u32>(1);
    /// assert!(receiver.downgrade().upgrade().is_some());
    /// ```
    pub fn upgrade(&self) -> Option<Receiver<T>> {
        let channel = self.channel.upgrade()?;
        revive(&channel.receivers).then(|| Receiver::new(channel))
    }
}

impl<T> Clone for WeakReceiver<T> {
    fn clone(&self) -> Self {
        Self { channel: self.channel.clone() }
    }
}

impl<T> fmt::Debug for WeakReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakReceiver(..)")
    }
}

struct Recv<'a, T> {
    channel: &'a Channel<T>,
    slot: Option<Key>,
}

impl<T> Future for Recv<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { channel, slot } = &mut *self;
        poll_recv(channel, slot, cx, Told::No)
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Self { channel, slot } = &mut *self;
        coop::poll_counted(cx, |cx| poll_recv(channel, slot, cx, Told::NoStream).map(Result::ok))
    }
}

/// Takes a message, or waits for one with an entry of this kind.
fn poll_recv<T>(
    channel: &Channel<T>,
    slot: &mut Option<Key>,
    cx: &Context<'_>,
    kind: Told,
) -> Poll<Result<T, RecvError>> {
    poll_under(&channel.state, cx, |state, turn, waker| {
        if let Some(message) = state.pop(turn) {
            turn.leave(&mut state.receivers, slot);
            return Step::Ready(Ok(message));
        }
        if state.is_over() {
            turn.leave(&mut state.receivers, slot);
            return Step::Ready(Err(RecvError));
        }
        match *slot {
            Some(key) if *state.receivers.ticket(key) == Told::Yes => {
                wait_again(state, turn, key, kind)
            }
            _ => turn.wait(&mut state.receivers, slot, waker, kind),
        }
    })
}

/// What it was told of was taken by somebody else: it is the first again.
fn wait_again<T, R>(state: &mut State<T>, turn: &mut Turn, key: Key, kind: Told) -> Step<R> {
    let Some(waker) = turn.clone_of_waker() else { return Step::Again };
    state.receivers.relink_front(key, kind, waker);
    Step::Pending
}

/// Waits no longer; a message that it was told of goes to the next (C2).
fn leave<T>(channel: &Channel<T>, slot: &mut Option<Key>) {
    if slot.is_none() {
        return;
    }
    Turn::take(&channel.state, |state, turn| {
        let told = turn.leave(&mut state.receivers, slot) == Some(Told::Yes);
        if told && !state.messages.is_empty() {
            state.tell_one(turn);
        }
    });
}

impl<T> Drop for Recv<'_, T> {
    fn drop(&mut self) {
        leave(self.channel, &mut self.slot);
    }
}
