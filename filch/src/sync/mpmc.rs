//! Channels with many senders and many receivers; each message goes to one of them.
//!
//! C1. Room: messages in the queue and room that was granted are never more than the capacity. Room
//!     that a message leaves goes to the sender that has waited longest, so senders do not overtake.
//! C2. While receivers wait, no more messages lie in the queue than receivers were told of them: each
//!     message tells one; one that is told and dropped tells the next. Streams that wait before it are
//!     told beside it, and do not count.
//! C3. A message is with its sender, in the queue or with its receiver, and leaves the queue only
//!     into the hands of a caller: nothing is lost when a future is dropped.
//! C4. Messages and wakers are dropped outside of the lock.
//! C5. A permit that was given before the close may still be used: receivers are told of the end when
//!     the last one is gone, so no message comes after it.
//!
//! One lock around a queue: as quick as the lock-free queue that was measured beside it, and less to prove
//! (docs/adr/0024-sync.md).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::permits::MOST;
use super::turn::{Turn, lock};
use super::waiters::Waiters;
use crate::base::shim::{AtomicUsize, Mutex, Ordering};

mod error;
mod receiver;
mod sender;

pub use error::{RecvError, SendError, TryRecvError, TrySendError};
pub use receiver::{Receiver, WeakReceiver};
pub use sender::{Permit, Sender, WeakSender};

/// A channel for `capacity` messages: a sender waits while it is full.
///
/// ```
/// use filch::sync::mpmc;
/// filch::block_on(async {
///     let (sender, receiver) = mpmc::bounded(2);
///     for _ in 0..3 {
///         let sender = sender.clone();
///         drop(filch::spawn(async move {
///             for i in 0..10 {
///                 sender.send(i).await.unwrap();
///             }
///         }));
///     }
///     drop(sender); // the channel closes when the last one is gone
///     let mut sum = 0;
///     while let Ok(i) = receiver.recv().await {
///         sum += i;
///     }
///     assert_eq!(sum, 3 * 45);
/// });
/// ```
///
/// # Panics
/// If the capacity is zero, or more than `usize::MAX / 8`, which no memory holds.
#[track_caller]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel holds one message at least");
    assert!(
        capacity <= MOST,
        "a channel for {capacity} messages: {MOST} at most; `unbounded` makes one that is never full"
    );
    channel(capacity)
}

/// A channel that is never full: senders do not wait.
///
/// ```
/// let (sender, receiver) = filch::sync::mpmc::unbounded();
/// for i in 0..1000 {
///     sender.try_send(i).unwrap();
/// }
/// assert_eq!(receiver.len(), 1000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(usize::MAX)
}

fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel {
        state: Mutex::new(State {
            messages: VecDeque::new(),
            capacity,
            granted: 0,
            reserved: 0,
            closed: false,
            senders: Waiters::new(),
            receivers: Waiters::new(),
            closing: Waiters::new(),
        }),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
    });
    (Sender::new(channel.clone()), Receiver::new(channel))
}

struct Channel<T> {
    state: Mutex<State<T>>,
    /// Living handles; the last of a kind closes the channel.
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

struct State<T> {
    messages: VecDeque<T>,
    /// `usize::MAX` if there is no limit.
    capacity: usize,
    /// Room that senders were given and have not used (C1).
    granted: usize,
    /// Permits that are out (C5); counted in `granted` too.
    reserved: usize,
    closed: bool,
    senders: Waiters<Room>,
    receivers: Waiters<Told>,
    /// Who waits for the end.
    closing: Waiters<()>,
}

/// What became of a sender's wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Wanted,
    /// Counted in `granted`.
    Granted,
}

/// Whether a receiver was told of a message (C2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    /// Not, and it waits as a stream: it may never be polled again, so that it being told is no reason
    /// not to tell the next.
    NoStream,
    Yes,
}

impl<T> State<T> {
    fn has_room(&self) -> bool {
        self.messages.len() + self.granted < self.capacity && self.senders.is_empty()
    }

    /// Appends a message, for which there is room (C1).
    fn push(&mut self, message: T, turn: &mut Turn) {
        debug_assert!(self.messages.len() + self.granted < self.capacity, "C1");
        self.messages.push_back(message);
        self.tell_one(turn);
    }

    /// C2.
    fn tell_one(&mut self, turn: &mut Turn) {
        while let Some((_, &told)) = self.receivers.front() {
            turn.wakers.push(self.receivers.pop_front(Told::Yes).flatten());
            if told != Told::NoStream {
                return;
            }
        }
    }

    /// Takes the oldest message.
    fn pop(&mut self, turn: &mut Turn) -> Option<T> {
        let message = self.messages.pop_front()?;
        self.grant_room(turn);
        Some(message)
    }

    /// C1.
    fn grant_room(&mut self, turn: &mut Turn) {
        if self.messages.len() + self.granted < self.capacity
            && let Some(waker) = self.senders.pop_front(Room::Granted)
        {
            self.granted += 1;
            turn.wakers.push(waker);
        }
    }

    /// Room that was granted is not used.
    fn give_room_back(&mut self, turn: &mut Turn) {
        debug_assert!(self.granted > 0, "C1");
        self.granted -= 1;
        self.grant_room(turn);
    }

    /// Whether no message will come (C5).
    fn is_over(&self) -> bool {
        self.closed && self.reserved == 0
    }

    /// Hands out a permit, for room that was granted.
    fn reserve(&mut self) {
        debug_assert!(self.reserved < self.granted && !self.closed, "C5");
        self.reserved += 1;
    }

    /// A permit is used, or not; the room is still granted.
    fn unreserve(&mut self, turn: &mut Turn) {
        self.reserved -= 1;
        self.tell_of_the_end(turn);
    }

    /// C5.
    fn tell_of_the_end(&mut self, turn: &mut Turn) {
        while self.is_over()
            && let Some(waker) = self.receivers.pop_front(Told::Yes)
        {
            turn.wakers.push(waker);
        }
    }

    /// Everybody who waits finds out.
    fn close(&mut self, turn: &mut Turn) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        while let Some(waker) = self.senders.pop_front(Room::Wanted) {
            turn.wakers.push(waker);
        }
        self.tell_of_the_end(turn);
        while let Some(waker) = self.closing.pop_front(()) {
            turn.wakers.push(waker);
        }
        true
    }
}

impl<T> Channel<T> {
    /// Sends if there is room.
    fn send_now(&self, message: &mut Option<T>) -> Option<()> {
        Turn::take(&self.state, |state, turn| {
            if state.closed || !state.has_room() {
                return None;
            }
            state.push(message.take()?, turn);
            Some(())
        })
    }

    /// Receives if there is a message.
    fn receive_now(&self) -> Option<T> {
        Turn::take(&self.state, State::pop)
    }

    fn close(&self) -> bool {
        Turn::take(&self.state, |state, turn| state.close(turn))
    }

    /// The last receiver is gone: nobody will take what is in the queue.
    fn discard(&self) {
        self.close();
        let messages = std::mem::take(&mut lock(&self.state).messages);
        drop(messages);
    }

    /// Whether no receiver is left; under the lock, because [`Channel::discard`] takes it afterwards.
    fn is_abandoned(&self) -> bool {
        count(&self.receivers) == 0
    }
}

/// Counts a new handle of a kind of which there is one.
fn add_handle(count: &AtomicUsize) {
    // ORDERING: Relaxed, the handle that is cloned keeps the count above zero.
    count.fetch_add(1, Ordering::Relaxed);
}

/// Counts a new handle if there is one.
fn revive(count: &AtomicUsize) -> bool {
    // ORDERING: Relaxed, as in `add_handle`: a count above zero stays so while it is raised.
    let raise = |count: usize| (count > 0).then_some(count + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise).is_ok()
}

/// Whether the handle that is dropped was the last of its kind.
fn drop_handle(count: &AtomicUsize) -> bool {
    // ORDERING: AcqRel, the last one comes after what all others did.
    count.fetch_sub(1, Ordering::AcqRel) == 1
}

fn count(handles: &AtomicUsize) -> usize {
    // ORDERING: Relaxed, a number that may be old when it is read.
    handles.load(Ordering::Relaxed)
}

/// What both ends tell about the channel.
macro_rules! facts {
    ($end:ident) => {
        impl<T> $end<T> {
            /// How many messages wait to be received.
            ///
            /// ```
            /// let (sender, receiver) = filch::sync::mpmc::bounded(2);
            /// sender.try_send(1).unwrap();
            /// assert_eq!((sender.len(), receiver.len()), (1, 1));
            /// ```
            pub fn len(&self) -> usize {
                lock(&self.channel.state).messages.len()
            }

            /// Whether no message waits to be received.
            ///
            /// ```
            /// let (sender, receiver) = filch::sync::mpmc::bounded::<u32>(2);
            /// assert!(sender.is_empty() && receiver.is_empty());
            /// ```
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether a sender would wait.
            ///
            /// ```
            /// let (sender, _receiver) = filch::sync::mpmc::bounded(1);
            /// sender.try_send(1).unwrap();
            /// assert!(sender.is_full());
            /// ```
            pub fn is_full(&self) -> bool {
                !lock(&self.channel.state).has_room()
            }

            /// How many messages fit; `None` if there is no limit.
            ///
            /// ```
            /// assert_eq!(filch::sync::mpmc::bounded::<u32>(2).0.capacity(), Some(2));
            /// assert_eq!(filch::sync::mpmc::unbounded::<u32>().0.capacity(), None);
            /// ```
            pub fn capacity(&self) -> Option<usize> {
                let capacity = lock(&self.channel.state).capacity;
                (capacity != usize::MAX).then_some(capacity)
            }

            /// Closes the channel for senders, on either end; what is in it can still be received.
            /// False if it was closed.
            ///
            /// ```
            /// let (sender, receiver) = filch::sync::mpmc::bounded(2);
            /// sender.try_send(1).unwrap();
            /// assert!(sender.close());
            /// assert!(sender.try_send(2).is_err());
            /// assert_eq!((receiver.try_recv(), receiver.try_recv().is_err()), (Ok(1), true));
            /// ```
            pub fn close(&self) -> bool {
                self.channel.close()
            }

            /// Whether the channel is closed: by [`close`](Self::close), or because one end has no
            /// handle left.
            ///
            /// ```
            /// let (sender, receiver) = filch::sync::mpmc::bounded::<u32>(2);
            /// drop(receiver);
            /// assert!(sender.is_closed());
            /// ```
            pub fn is_closed(&self) -> bool {
                lock(&self.channel.state).closed
            }

            /// How many senders there are.
            ///
            /// ```
            /// let (sender, receiver) = filch::sync::mpmc::bounded::<u32>(2);
            /// let _other = sender.clone();
            /// assert_eq!(receiver.sender_count(), 2);
            /// ```
            pub fn sender_count(&self) -> usize {
                count(&self.channel.senders)
            }

            /// How many receivers there are.
            ///
            /// ```
            /// let (sender, receiver) = filch::sync::mpmc::bounded::<u32>(2);
            /// let _other = receiver.clone();
            /// assert_eq!(sender.receiver_count(), 2);
            /// ```
            pub fn receiver_count(&self) -> usize {
                count(&self.channel.receivers)
            }

            /// Whether both are ends of one channel.
            ///
            /// ```
            /// let (sender, _receiver) = filch::sync::mpmc::bounded::<u32>(2);
            /// assert!(sender.same_channel(&sender.clone()));
            /// ```
            pub fn same_channel(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.channel, &other.channel)
            }
        }

        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($end)).field("len", &self.len()).finish_non_exhaustive()
            }
        }
    };
}
facts!(Sender);
facts!(Receiver);
