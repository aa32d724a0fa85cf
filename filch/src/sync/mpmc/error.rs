//! Why a message was not sent or received. What failed to be sent is given back.

use std::error::Error;
use std::fmt;

/// The channel is closed; here is the message.
///
/// ```
/// use filch::sync::mpmc::{self, SendError};
/// let (sender, receiver) = mpmc::bounded(1);
/// drop(receiver);
/// assert_eq!(sender.blocking_send(7), Err(SendError(7)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why a message was not sent at once; here it is.
///
/// ```
/// use filch::sync::mpmc::{self, TrySendError};
/// let (sender, _receiver) = mpmc::bounded(1);
/// assert_eq!(sender.try_send(1), Ok(()));
/// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room, or others wait for it.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

/// The channel is closed and empty.
///
/// ```
/// use filch::sync::mpmc::{self, RecvError};
/// let (sender, receiver) = mpmc::bounded::<u32>(1);
/// drop(sender);
/// assert_eq!(receiver.blocking_recv(), Err(RecvError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// Why there is no message at once; in a `oneshot` channel too.
///
/// ```
/// use filch::sync::mpmc::{self, TryRecvError};
/// let (sender, receiver) = mpmc::bounded::<u32>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is none.
    Empty,
    /// There is none and will be none.
    Closed,
}

impl<T> SendError<T> {
    /// The message.
    ///
    /// ```
    /// assert_eq!(filch::sync::mpmc::SendError(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// The message.
    ///
    /// ```
    /// assert_eq!(filch::sync::mpmc::TrySendError::Full(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(message) | Self::Closed(message) => message,
        }
    }

    /// Whether there was no room.
    ///
    /// ```
    /// assert!(filch::sync::mpmc::TrySendError::Full(7).is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel is closed")
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the channel is full",
            Self::Closed(_) => "the channel is closed",
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel is closed and empty")
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => "the channel is closed and empty",
        })
    }
}

impl<T> Error for SendError<T> {}
impl<T> Error for TrySendError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
