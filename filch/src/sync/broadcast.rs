//! A channel whose every message goes to every receiver.
//!
//! D1. Messages are numbered. The queue has the last of them, `capacity` at most; a receiver has the
//!     number of the message that it will receive next.
//! D2. A receiver that falls behind the queue is told how many it has missed, and goes on with the
//!     oldest that is left.
//! D3. A message stays until all who were to receive it have, or are gone, or it is pushed out.
//! D4. Messages are cloned and dropped outside of the lock.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::Stream;

use super::coop;
use super::permits::MOST;
use super::turn::{Step, Turn, lock, poll_under};
use super::waiters::{Key, Waiters};
use crate::base::shim::Mutex;

/// A channel that keeps the last `capacity` messages for receivers that are behind: exactly as many as
/// asked for, which is not rounded up to a power of two.
///
/// ```
/// use filch::sync::broadcast;
/// filch::block_on(async {
///     let (sender, mut one) = broadcast::channel(8);
///     let mut two = sender.subscribe();
///     sender.send("hello").unwrap();
///     assert_eq!((one.recv().await, two.recv().await), (Ok("hello"), Ok("hello")));
/// });
/// ```
///
/// # Panics
/// If the capacity is zero, or more than `usize::MAX / 8`, which no memory holds.
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel holds one message at least");
    assert!(capacity <= MOST, "a channel for {capacity} messages: {MOST} at most");
    let state = State {
        messages: VecDeque::new(),
        first: 0,
        capacity,
        senders: 1,
        receivers: 1,
        waiters: Waiters::new(),
    };
    let channel = Arc::new(Mutex::new(state));
    (Sender { channel: channel.clone() }, Receiver { channel, next: 0, slot: None })
}

struct State<T> {
    messages: VecDeque<Message<T>>,
    /// The number of the first message in the queue (D1).
    first: u64,
    capacity: usize,
    senders: usize,
    receivers: usize,
    /// Receivers that wait. A ticket is true when its holder was woken.
    waiters: Waiters<bool>,
}

struct Message<T> {
    value: Arc<T>,
    /// How many are still to receive it (D3).
    wanted: usize,
}

impl<T> State<T> {
    /// The number of the message that comes next.
    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// Takes what nobody wants any more, or has no room, from the front of the queue.
    fn trim(&mut self) -> Vec<Arc<T>> {
        let mut gone = Vec::new();
        while let Some(message) = self.messages.front()
            && (message.wanted == 0 || self.messages.len() > self.capacity)
        {
            gone.extend(self.messages.pop_front().map(|message| message.value));
            self.first += 1;
        }
        gone
    }

    fn wake_all(&mut self, turn: &mut Turn) {
        while let Some(waker) = self.waiters.pop_front(true) {
            turn.wakers.push(waker);
        }
    }

    /// The message number `next`, or why there is none. The number goes on.
    fn take(&mut self, next: &mut u64) -> Result<Taken<T>, TryRecvError> {
        if *next < self.first {
            let missed = self.first - *next;
            *next = self.first;
            return Err(TryRecvError::Lagged(missed));
        }
        let Some(message) = self.messages.get_mut((*next - self.first) as usize) else {
            let closed = self.senders == 0;
            return Err(if closed { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        *next += 1;
        message.wanted -= 1;
        let value = message.value.clone();
        Ok(Taken { value, gone: self.trim() })
    }
}

/// A message on its way to a receiver, and those that are dropped with it (D4).
struct Taken<T> {
    value: Arc<T>,
    gone: Vec<Arc<T>>,
}

impl<T: Clone> Taken<T> {
    fn into_value(self) -> T {
        drop(self.gone);
        Arc::unwrap_or_clone(self.value)
    }
}

/// Sends to all receivers; clones are ends of the same channel.
///
/// ```
/// let (sender, mut receiver) = filch::sync::broadcast::channel(2);
/// sender.clone().send(1).unwrap();
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
pub struct Sender<T> {
    channel: Arc<Mutex<State<T>>>,
}

/// Receives every message that is sent after its making.
///
/// ```
/// let (sender, mut receiver) = filch::sync::broadcast::channel(2);
/// sender.send(1).unwrap();
/// assert_eq!(receiver.blocking_recv(), Ok(1));
/// ```
pub struct Receiver<T> {
    channel: Arc<Mutex<State<T>>>,
    /// D1.
    next: u64,
    /// Where it waits as a stream.
    slot: Option<Key>,
}

impl<T> Sender<T> {
    /// Sends a message to all receivers, and returns how many they are. It does not wait: if the
    /// queue is full, the oldest message goes.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::broadcast::channel(2);
    /// let _other = sender.subscribe();
    /// assert_eq!(sender.send(1), Ok(2));
    /// ```
    ///
    /// # Errors
    /// With the message, if there is no receiver.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        let message = Arc::new(message);
        let sent = Turn::take(&self.channel, |state, turn| {
            let receivers = state.receivers;
            if receivers == 0 {
                return Err(message);
            }
            state.messages.push_back(Message { value: message, wanted: receivers });
            state.wake_all(turn);
            Ok((receivers, state.trim()))
        });
        match sent {
            Ok((receivers, _gone)) => Ok(receivers),
            // Nobody else has seen it.
            Err(message) => Err(SendError(Arc::into_inner(message).expect("D4"))),
        }
    }

    /// A receiver of every message from now on.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// let mut late = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(late.try_recv(), Ok(2));
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        subscribe(&self.channel)
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::broadcast::channel::<u32>(2);
    /// drop(receiver);
    /// assert_eq!(sender.receiver_count(), 0);
    /// ```
    pub fn receiver_count(&self) -> usize {
        lock(&self.channel).receivers
    }

    /// How many messages wait for somebody.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// assert_eq!(sender.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        lock(&self.channel).messages.len()
    }

    /// Whether no message waits for anybody.
    ///
    /// ```
    /// assert!(filch::sync::broadcast::channel::<u32>(2).0.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are ends of one channel.
    ///
    /// ```
    /// let (sender, _receiver) = filch::sync::broadcast::channel::<u32>(2);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

fn subscribe<T>(channel: &Arc<Mutex<State<T>>>) -> Receiver<T> {
    let mut state = lock(channel);
    state.receivers += 1;
    Receiver { channel: channel.clone(), next: state.end(), slot: None }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.channel).senders += 1;
        Self { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        Turn::take(&self.channel, |state, turn| {
            state.senders -= 1;
            if state.senders == 0 {
                state.wake_all(turn);
            }
        });
    }
}

impl<T> Receiver<T> {
    /// How many messages wait for this receiver, those included that it has missed.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        (lock(&self.channel).end() - self.next) as usize
    }

    /// Whether no message waits for this receiver.
    ///
    /// ```
    /// assert!(filch::sync::broadcast::channel::<u32>(2).1.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Another receiver, of every message from now on.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// assert!(receiver.resubscribe().is_empty());
    /// ```
    pub fn resubscribe(&self) -> Self {
        subscribe(&self.channel)
    }

    /// Whether all senders are gone; what they have sent can still be received.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::broadcast::channel::<u32>(2);
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        lock(&self.channel).senders == 0
    }
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next message.
    ///
    /// ```
    /// use filch::sync::broadcast::{self, RecvError};
    /// # filch::block_on(async {
    /// let (sender, mut receiver) = broadcast::channel(2);
    /// (1..=3).for_each(|i| drop(sender.send(i)));
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Err(RecvError::Lagged(1)));
    /// assert_eq!(receiver.recv().await, Ok(2));
    /// assert_eq!(receiver.recv().await, Ok(3));
    /// assert_eq!(receiver.recv().await, Err(RecvError::Closed));
    /// # });
    /// ```
    ///
    /// # Errors
    /// If messages were missed, once for all of them; if all senders are gone and nothing is left.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has taken no message.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        coop::counted(Recv { receiver: self, slot: None }).await.map(Taken::into_value)
    }

    /// Takes the next message if there is one.
    ///
    /// ```
    /// use filch::sync::broadcast::{self, TryRecvError};
    /// let (sender, mut receiver) = broadcast::channel(2);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    /// As [`Receiver::recv`], or if there is none.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let taken = lock(&self.channel).take(&mut self.next);
        taken.map(Taken::into_value)
    }

    /// As [`Receiver::recv`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::broadcast::channel(2);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.blocking_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        coop::block_on(Recv { receiver: self, slot: None }).map(Taken::into_value)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        leave(&self.channel, &mut self.slot);
        let gone = {
            let mut state = lock(&self.channel);
            state.receivers -= 1;
            let unseen = self.next.saturating_sub(state.first) as usize;
            for message in state.messages.iter_mut().skip(unseen) {
                message.wanted -= 1;
            }
            state.trim()
        };
        drop(gone);
    }
}

struct Recv<'a, T> {
    receiver: &'a mut Receiver<T>,
    slot: Option<Key>,
}

impl<T> Future for Recv<'_, T> {
    type Output = Result<Taken<T>, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { receiver, slot } = &mut *self;
        poll_recv(&receiver.channel, &mut receiver.next, slot, cx)
    }
}

impl<T> Drop for Recv<'_, T> {
    fn drop(&mut self) {
        leave(&self.receiver.channel, &mut self.slot);
    }
}

impl<T: Clone> Stream for Receiver<T> {
    type Item = Result<T, RecvError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { channel, next, slot } = &mut *self;
        coop::poll_counted(cx, |cx| poll_recv(channel, next, slot, cx)).map(|taken| match taken {
            Err(RecvError::Closed) => None,
            taken => Some(taken.map(Taken::into_value)),
        })
    }
}

/// Takes the next message, or waits for it.
fn poll_recv<T>(
    channel: &Mutex<State<T>>,
    next: &mut u64,
    slot: &mut Option<Key>,
    cx: &Context<'_>,
) -> Poll<Result<Taken<T>, RecvError>> {
    poll_under(channel, cx, |state, turn, waker| {
        let result = match (state.take(next), *slot) {
            (Ok(taken), _) => Ok(taken),
            (Err(TryRecvError::Lagged(missed)), _) => Err(RecvError::Lagged(missed)),
            (Err(TryRecvError::Closed), _) => Err(RecvError::Closed),
            // A stream that was woken for a message that was then taken in another way.
            (Err(TryRecvError::Empty), Some(key)) if *state.waiters.ticket(key) => {
                let Some(waker) = turn.clone_of_waker() else { return Step::Again };
                state.waiters.relink_front(key, false, waker);
                return Step::Pending;
            }
            (Err(TryRecvError::Empty), _) => {
                return turn.wait(&mut state.waiters, slot, waker, false);
            }
        };
        turn.leave(&mut state.waiters, slot);
        Step::Ready(result)
    })
}

/// Waits no longer.
fn leave<T>(channel: &Mutex<State<T>>, slot: &mut Option<Key>) {
    if slot.is_some() {
        Turn::take(channel, |state, turn| {
            turn.leave(&mut state.waiters, slot);
        });
    }
}

/// There is no receiver; here is the message.
///
/// ```
/// use filch::sync::broadcast::{self, SendError};
/// let (sender, receiver) = broadcast::channel(1);
/// drop(receiver);
/// assert_eq!(sender.send(7), Err(SendError(7)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why there was no message.
///
/// ```
/// use filch::sync::broadcast::{self, RecvError};
/// let (sender, mut receiver) = broadcast::channel::<u32>(1);
/// drop(sender);
/// assert_eq!(receiver.blocking_recv(), Err(RecvError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// All senders are gone, and nothing is left.
    Closed,
    /// So many messages were pushed out before they were received.
    Lagged(u64),
}

/// Why there is no message at once.
///
/// ```
/// use filch::sync::broadcast::{self, TryRecvError};
/// let (_sender, mut receiver) = broadcast::channel::<u32>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is none.
    Empty,
    /// All senders are gone, and nothing is left.
    Closed,
    /// So many messages were pushed out before they were received.
    Lagged(u64),
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no receiver")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("all senders are gone"),
            Self::Lagged(missed) => write!(f, "{missed} messages were missed"),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no message yet"),
            Self::Closed => f.write_str("all senders are gone"),
            Self::Lagged(missed) => write!(f, "{missed} messages were missed"),
        }
    }
}

impl<T> Error for SendError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
