//! A value that many watch: receivers see the last one, not all.
//!
//! A1. `version` is raised after each change, under the write lock of the value; a receiver has the
//!     version that it has seen.
//! A2. A receiver that waits looks at the version under the lock of the waiters; a sender takes that
//!     lock after it has raised it. So a change is seen, or its receiver woken.
//! A3. The value is under a lock that a simulation sees, because the user holds it (`borrow`); user code
//!     that panics under it poisons nothing.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use super::coop;
use super::turn::{Step, Turn, poll_under};
use super::waiters::{Key, Waiters};
use crate::base::shim::{AtomicUsize, Mutex, Ordering};
use crate::testkit::{RwLock, RwLockReadGuard, RwLockWriteGuard};

mod receiver;
mod sender;

pub use super::broadcast::SendError;
pub use receiver::Receiver;
pub use sender::Sender;

/// A channel that holds one value, `initial` at first.
///
/// ```
/// use filch::sync::watch;
/// filch::block_on(async {
///     let (sender, mut receiver) = watch::channel("start");
///     assert_eq!(*receiver.borrow(), "start");
///     drop(filch::spawn(async move { sender.send("changed").unwrap() }));
///     receiver.changed().await.unwrap();
///     assert_eq!(*receiver.borrow_and_update(), "changed");
/// });
/// ```
pub fn channel<T>(initial: T) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel {
        value: RwLock::new(initial),
        version: AtomicUsize::new(0),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        changing: Mutex::new(Waiters::new()),
        closing: Mutex::new(Waiters::new()),
    });
    (Sender::new(channel.clone()), Receiver::new(channel, 0))
}

struct Channel<T> {
    value: RwLock<T>,
    /// How often it was changed (A1).
    version: AtomicUsize,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// Receivers that wait for a change. A ticket is true when its holder was woken.
    changing: Mutex<Waiters<bool>>,
    /// Senders that wait for the last receiver to go.
    closing: Mutex<Waiters<bool>>,
}

impl<T> Channel<T> {
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.value.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn version(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `raise`: what led to the change is seen.
        self.version.load(Ordering::Acquire)
    }

    /// Under the write lock (A1).
    fn raise(&self) {
        // ORDERING: Release pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
    }

    fn senders(&self) -> usize {
        // ORDERING: Acquire pairs with the AcqRel of the drop of the last one.
        self.senders.load(Ordering::Acquire)
    }

    fn receivers(&self) -> usize {
        // ORDERING: Acquire pairs with the AcqRel of the drop of the last one.
        self.receivers.load(Ordering::Acquire)
    }
}

/// Wakes all who wait.
fn wake_all(waiters: &Mutex<Waiters<bool>>) {
    Turn::take(waiters, |waiters, turn| {
        while let Some(waker) = waiters.pop_front(true) {
            turn.wakers.push(waker);
        }
    });
}

/// Waits until `look` finds something (A2).
struct Until<'a, L> {
    waiters: &'a Mutex<Waiters<bool>>,
    look: L,
    slot: Option<Key>,
}

impl<'a, L> Until<'a, L> {
    fn new(waiters: &'a Mutex<Waiters<bool>>, look: L) -> Self {
        Self { waiters, look, slot: None }
    }
}

impl<R, L: FnMut() -> Option<R> + Unpin> Future for Until<'_, L> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let Self { waiters, look, slot } = &mut *self;
        poll_under(waiters, cx, |waiters, turn, waker| {
            if let Some(found) = look() {
                turn.leave(waiters, slot);
                return Step::Ready(found);
            }
            match *slot {
                // Woken for something that is not it.
                Some(key) if *waiters.ticket(key) => {
                    let Some(waker) = turn.clone_of_waker() else { return Step::Again };
                    waiters.relink_front(key, false, waker);
                    Step::Pending
                }
                _ => turn.wait(waiters, slot, waker, false),
            }
        })
    }
}

impl<L> Drop for Until<'_, L> {
    fn drop(&mut self) {
        if self.slot.is_some() {
            Turn::take(self.waiters, |waiters, turn| {
                turn.leave(waiters, &mut self.slot);
            });
        }
    }
}

async fn until<R>(waiters: &Mutex<Waiters<bool>>, look: impl FnMut() -> Option<R> + Unpin) -> R {
    coop::counted(Until::new(waiters, look)).await
}

fn block_until<R>(waiters: &Mutex<Waiters<bool>>, look: impl FnMut() -> Option<R> + Unpin) -> R {
    coop::block_on(Until::new(waiters, look))
}

/// The value, borrowed. While it is, senders wait: keep it short, and not across an await.
///
/// ```
/// let (_sender, receiver) = filch::sync::watch::channel(1);
/// let value: filch::sync::watch::Ref<'_, i32> = receiver.borrow();
/// assert_eq!((*value, value.has_changed()), (1, false));
/// ```
pub struct Ref<'a, T> {
    guard: RwLockReadGuard<'a, T>,
    changed: bool,
}

impl<T> Ref<'_, T> {
    /// Whether the receiver had not seen this value before; false on a sender.
    ///
    /// ```
    /// let (sender, mut receiver) = filch::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert!(receiver.borrow_and_update().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// All senders are gone.
///
/// ```
/// use filch::sync::watch::{self, RecvError};
/// let (sender, mut receiver) = watch::channel(1);
/// drop(sender);
/// assert_eq!(receiver.blocking_changed(), Err(RecvError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all senders are gone")
    }
}

impl Error for RecvError {}
