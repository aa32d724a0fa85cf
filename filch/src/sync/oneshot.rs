//! A channel for one message.
//!
//! S1. The message is with the sender, in the channel or with the receiver. What is left in the channel
//!     is dropped with its last end.
//! S2. Each end tells the other when it goes: `sent` or `dropped` for the receiver, `closed` for the
//!     sender.
//! S3. Messages and wakers are dropped outside of the lock.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub use super::mpmc::TryRecvError;

use super::coop;
use super::turn::lock;
use crate::base::shim::Mutex;

/// A channel for one message.
///
/// ```
/// use filch::sync::oneshot;
/// filch::block_on(async {
///     let (sender, receiver) = oneshot::channel();
///     drop(filch::spawn(async move { sender.send(42).unwrap() }));
///     assert_eq!(receiver.await, Ok(42));
/// });
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { message: None, end: End::Open, receiver: None, sender: None };
    let channel = Arc::new(Mutex::new(state));
    (Sender { channel: Some(channel.clone()) }, Receiver { channel, is_terminated: false })
}

struct State<T> {
    message: Option<T>,
    end: End,
    /// Who waits for the message.
    receiver: Option<Waker>,
    /// Who waits for the receiver to close.
    sender: Option<Waker>,
}

/// Whether the message can still come, and be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The sender is gone, with or without having sent.
    SenderGone,
    /// The receiver wants no message.
    ReceiverClosed,
}

/// Sends the message.
///
/// ```
/// let (sender, receiver) = filch::sync::oneshot::channel();
/// sender.send(1).unwrap();
/// assert_eq!(receiver.blocking_recv(), Ok(1));
/// ```
pub struct Sender<T> {
    /// There until it has sent.
    channel: Option<Arc<Mutex<State<T>>>>,
}

/// Receives the message: a future.
///
/// ```
/// let (sender, receiver) = filch::sync::oneshot::channel::<u32>();
/// drop(sender);
/// assert!(filch::block_on(receiver).is_err());
/// ```
///
/// # Cancel safety
/// A `&mut` reference to it can be awaited and dropped; no message is lost.
///
/// # Panics
/// If it is polled after it was ready.
#[must_use = "the message is lost if nobody receives it"]
pub struct Receiver<T> {
    channel: Arc<Mutex<State<T>>>,
    is_terminated: bool,
}

/// The sender is gone and has not sent.
///
/// ```
/// use filch::sync::oneshot::{self, RecvError};
/// let (sender, receiver) = oneshot::channel::<u32>();
/// drop(sender);
/// assert_eq!(receiver.blocking_recv(), Err(RecvError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl<T> Sender<T> {
    /// Sends the message.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::oneshot::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    ///
    /// # Errors
    /// With the message, if the receiver is gone or closed.
    pub fn send(mut self, message: T) -> Result<(), T> {
        let Some(channel) = self.channel.take() else { unreachable!("it has not sent") };
        let (refused, waker) = {
            let mut state = lock(&channel);
            match state.end {
                End::ReceiverClosed => (Some(message), None),
                _ => {
                    state.message = Some(message);
                    state.end = End::SenderGone;
                    (None, state.receiver.take())
                }
            }
        };
        waker.into_iter().for_each(Waker::wake);
        refused.map_or(Ok(()), Err)
    }

    /// Whether the receiver is gone or closed.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::oneshot::channel::<u32>();
    /// drop(receiver);
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| lock(channel).end == End::ReceiverClosed)
    }

    /// Waits until the receiver is gone or closed.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let (mut sender, receiver) = filch::sync::oneshot::channel::<u32>();
    /// filch::join!(sender.closed(), async { drop(receiver) });
    /// assert!(sender.is_closed());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closed(&mut self) {
        let Some(channel) = &self.channel else { return };
        poll_fn(|cx| {
            coop::poll_counted(cx, |cx| {
                poll_slot(channel, cx, |state| match state.end {
                    End::ReceiverClosed => Ok(()),
                    _ => Err(&mut state.sender),
                })
            })
        })
        .await;
    }
}

/// Ready if `look` finds something; else the waker is put where it says, outside of the lock as far
/// as user code is concerned (S3).
fn poll_slot<T, R>(
    channel: &Mutex<State<T>>,
    cx: &Context<'_>,
    mut look: impl FnMut(&mut State<T>) -> Result<R, &mut Option<Waker>>,
) -> Poll<R> {
    let mut clone = None;
    loop {
        {
            let mut state = lock(channel);
            let slot = match look(&mut state) {
                Ok(found) => return Poll::Ready(found),
                Err(slot) => slot,
            };
            if slot.as_ref().is_some_and(|own| own.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            if clone.is_some() {
                std::mem::swap(slot, &mut clone);
                drop(state);
                drop(clone);
                return Poll::Pending;
            }
        }
        clone = Some(cx.waker().clone());
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let Some(channel) = self.channel.take() else { return };
        let (waker, own) = {
            let mut state = lock(&channel);
            if state.end == End::Open {
                state.end = End::SenderGone;
            }
            (state.receiver.take(), state.sender.take())
        };
        waker.into_iter().for_each(Waker::wake);
        drop(own);
    }
}

impl<T> Receiver<T> {
    /// Takes the message if it was sent.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::oneshot::channel();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    /// If it was not, or was received.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if self.is_terminated {
            return Err(TryRecvError::Closed);
        }
        let mut state = lock(&self.channel);
        match (state.message.take(), state.end) {
            (None, End::Open) => Err(TryRecvError::Empty),
            (message, _) => {
                self.is_terminated = true;
                message.ok_or(TryRecvError::Closed)
            }
        }
    }

    /// Blocks until the message is sent. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::oneshot::channel();
    /// let thread = std::thread::spawn(move || sender.send(1).unwrap());
    /// assert_eq!(receiver.blocking_recv(), Ok(1));
    /// # thread.join().unwrap();
    /// ```
    ///
    /// # Errors
    /// If the sender is gone and has not sent.
    pub fn blocking_recv(self) -> Result<T, RecvError> {
        coop::block_on(self)
    }

    /// Keeps the sender from sending; a message that was sent can still be received.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::oneshot::channel();
    /// receiver.close();
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    pub fn close(&mut self) {
        let waker = {
            let mut state = lock(&self.channel);
            if state.end == End::Open {
                state.end = End::ReceiverClosed;
            }
            state.sender.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether the message was received, or will not come and this end knows it.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::oneshot::channel();
    /// sender.send(1).unwrap();
    /// assert!(!receiver.is_terminated());
    /// receiver.try_recv().unwrap();
    /// assert!(receiver.is_terminated());
    /// ```
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// Whether no message is there to be received.
    ///
    /// ```
    /// let (sender, receiver) = filch::sync::oneshot::channel();
    /// assert!(receiver.is_empty());
    /// sender.send(1).unwrap();
    /// assert!(!receiver.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        lock(&self.channel).message.is_none()
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.is_terminated, "polled after it was ready");
        let received = coop::poll_counted(cx, |cx| {
            poll_slot(&this.channel, cx, |state| match (state.message.take(), state.end) {
                (Some(message), _) => Ok(Ok(message)),
                (None, End::Open) => Err(&mut state.receiver),
                (None, End::SenderGone | End::ReceiverClosed) => Ok(Err(RecvError)),
            })
        });
        this.is_terminated = received.is_ready();
        received
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let unused = {
            let mut state = lock(&self.channel);
            let waker = if state.end == End::Open {
                state.end = End::ReceiverClosed;
                state.sender.take()
            } else {
                None
            };
            (waker, state.message.take(), state.receiver.take())
        };
        unused.0.into_iter().for_each(Waker::wake);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("is_empty", &self.is_empty()).finish()
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sender is gone")
    }
}

impl Error for RecvError {}
