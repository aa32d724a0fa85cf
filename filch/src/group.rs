//! `group`: async structure. The first error or panic cancels the rest, and all are waited for.
//!
//! U1. The group's future is ready only when every child has ended and its body is dropped.
//! U2. A group future that is dropped before cancels its children and leaves them, as long as they
//!     last, to the enclosing group. Children are `'static`, so that this is sound.
//! U3. The first of the body's error and the children's errors is the result.
//! U4. The group begins where its future is first polled: one that never is holds nothing up.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use crate::base::shim::Mutex;
use crate::spawn::{self, Place, TaskBuilder};
use crate::task::body::{is_cancellation, unwind_cancelled};
use crate::task::budget;
use crate::task::context::Frame;
use crate::task::group::{self, GroupRef, OnPanic, Payload, Tracking};
use crate::task::join::JoinHandle;

/// Where the children of a [`group`] are spawned. It may be cloned and sent to children.
///
/// ```
/// let result: Result<u32, ()> = filch::block_on(filch::group(async |g| {
///     let child = g.spawn(async { Ok(20) });
///     Ok(child.await + 1)
/// }));
/// assert_eq!(result, Ok(21));
/// ```
pub struct Group<E> {
    inner: GroupRef,
    error: Arc<Mutex<Option<E>>>,
}

impl<E> Clone for Group<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), error: self.error.clone() }
    }
}

impl<E> fmt::Debug for Group<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("cancelled", &self.inner.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Runs `body`, which spawns children into the group, and is ready when all of them have ended.
/// The first error or panic cancels the rest.
///
/// ```
/// let result: Result<(), &str> = filch::block_on(filch::group(async |g| {
///     drop(g.spawn(std::future::pending::<Result<(), _>>()));
///     drop(g.spawn(async { Err::<(), _>("first") }));
///     Ok(())
/// }));
/// assert_eq!(result, Err("first"));
/// ```
///
/// # Errors
/// The first error of the body or a child.
///
/// # Panics
/// If the body or a child panics: once all have ended.
///
/// # Cancel safety
/// Dropping the future cancels the children. They belong to the enclosing group from then on, so
/// whoever waits for that also waits until they are gone.
pub fn group<T, E, F>(body: F) -> GroupFuture<T, E, impl Future<Output = Result<T, E>>>
where
    F: AsyncFnOnce(Group<E>) -> Result<T, E>,
    E: Send + 'static,
{
    let error = Arc::<Mutex<Option<E>>>::default();
    let ours = error.clone();
    let body = async move {
        // U4: whoever polls the body has entered the group.
        let inner = spawn::current(|_, group, _| group.to_ref());
        body(Group { inner, error: ours }).await
    };
    GroupFuture { group: None, error, stage: Stage::Body { body } }
}

impl<E> Group<E> {
    /// A group inside the one that is current.
    fn inside_current(error: Arc<Mutex<Option<E>>>) -> Self {
        let parent = spawn::current(|_, group, _| group.to_ref());
        let Some(inner) = group::Group::inside(&parent, OnPanic::Cancel, Tracking::Yes) else {
            panic!("the runtime has shut down");
        };
        Self { inner, error }
    }
}

impl<E: Send + 'static> Group<E> {
    /// Spawns a future into the group. Its error, if it comes to one, is the group's; the handle
    /// then reports the child as cancelled.
    ///
    /// ```
    /// let result: Result<u32, ()> = filch::block_on(filch::group(async |g| {
    ///     Ok(g.spawn(async { Ok(1) }).await)
    /// }));
    /// assert_eq!(result, Ok(1));
    /// ```
    #[track_caller]
    pub fn spawn<T, F>(&self, future: F) -> JoinHandle<T>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
    {
        let group = self.clone();
        TaskBuilder::at(Place::Group(self.inner.clone())).spawn(async move {
            match future.await {
                Ok(value) => value,
                Err(error) => {
                    group.fail(error);
                    // With the rest, or alone if it was detached: at this await.
                    spawn::cancel_current();
                    std::future::pending().await
                }
            }
        })
    }

    /// Spawns a closure into the group, on the job lane. Its error is the group's.
    ///
    /// ```
    /// let result: Result<u32, ()> = filch::block_on(filch::group(async |g| {
    ///     Ok(g.spawn_fn(|| Ok(6)).await.unwrap())
    /// }));
    /// assert_eq!(result, Ok(6));
    /// ```
    #[track_caller]
    pub fn spawn_fn<T, F>(&self, job: F) -> JoinHandle<Option<T>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
    {
        let group = self.clone();
        TaskBuilder::at(Place::Group(self.inner.clone()))
            .spawn_fn(move || job().map_err(|error| group.fail(error)).ok())
    }

    /// Cancels every child and everything below them. The group still waits until they are gone.
    ///
    /// ```
    /// let result: Result<(), ()> = filch::block_on(filch::group(async |g| {
    ///     drop(g.spawn(std::future::pending::<Result<(), ()>>()));
    ///     g.cancel();
    ///     Ok(())
    /// }));
    /// assert_eq!(result, Ok(()));
    /// ```
    pub fn cancel(&self) {
        self.inner.cancel();
    }

    /// Whether the group was cancelled, by an error, a panic, or [`Group::cancel`].
    ///
    /// ```
    /// filch::block_on(filch::group(async |g| {
    ///     assert!(!g.is_cancelled());
    ///     g.cancel();
    ///     assert!(g.is_cancelled());
    ///     Ok::<_, ()>(())
    /// })).unwrap();
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }

    fn fail(&self, error: E) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.inner.cancel();
    }
}

/// The future of [`group`].
///
/// ```
/// let future = filch::group(async |_| Ok::<_, ()>(1));
/// assert_eq!(filch::block_on(future), Ok(1));
/// ```
#[must_use = "futures do nothing unless awaited"]
pub struct GroupFuture<T, E, B> {
    /// `None` until the first poll (U4).
    group: Option<Group<E>>,
    error: Arc<Mutex<Option<E>>>,
    stage: Stage<T, B>,
}

enum Stage<T, B> {
    Body {
        body: B,
    },
    /// The body has ended; the children have not.
    Waiting {
        end: Result<Option<T>, Payload>,
    },
    /// All is over.
    Over,
}

impl<T, E, B> fmt::Debug for GroupFuture<T, E, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupFuture").field("group", &self.group).finish_non_exhaustive()
    }
}

impl<T, E, B> Future for GroupFuture<T, E, B>
where
    B: Future<Output = Result<T, E>>,
    E: Send + 'static,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll_counted(cx, |cx| self.poll_end(cx))
    }
}

impl<T, E, B> GroupFuture<T, E, B>
where
    B: Future<Output = Result<T, E>>,
    E: Send + 'static,
{
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        // SAFETY: `body` is pinned structurally and never moved; the rest is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let error = &this.error;
        let group = this.group.get_or_insert_with(|| Group::inside_current(error.clone()));
        if let Stage::Body { body } = &mut this.stage {
            // SAFETY: as above.
            let body = unsafe { Pin::new_unchecked(body) };
            let end = match group.poll_body(body, cx) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(result)) => Ok(result.map_err(|error| group.fail(error)).ok()),
                // The body waited for a child that was cancelled with the rest.
                Err(payload) if is_cancellation(&payload) => Ok(None),
                Err(payload) => {
                    group.inner.cancel();
                    Err(payload)
                }
            };
            // Also if the drop of the body panics.
            let _unit = OwnersUnit(&group.inner);
            this.stage = Stage::Waiting { end };
        }
        if group.inner.set_waiter(cx.waker()) {
            return Poll::Pending;
        }
        let Stage::Waiting { end } = std::mem::replace(&mut this.stage, Stage::Over) else {
            panic!("a group was polled after it was ready");
        };
        Poll::Ready(group.conclude(end))
    }
}

impl<E> Group<E> {
    /// Polls the body as a member of the group.
    fn poll_body<B: Future>(
        &self,
        body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Result<Poll<B::Output>, Payload> {
        // SAFETY: X2, our reference keeps the group for the call.
        let frame = unsafe { Frame::inside(Arc::as_ptr(&self.inner)) };
        let result = catch_unwind(AssertUnwindSafe(|| body.poll(cx)));
        frame.merge();
        result
    }

    /// The result, once every child is gone (U3); a panic goes on.
    fn conclude<T>(&self, end: Result<Option<T>, Payload>) -> Result<T, E> {
        let fallout = self.inner.close();
        match end {
            Err(payload) => {
                if let Some(fallout) = fallout {
                    // Closed by now: it goes to the hook.
                    self.inner.deliver(fallout);
                }
                resume_unwind(payload)
            }
            Ok(value) => {
                if let Some(fallout) = fallout {
                    resume_unwind(fallout.payload);
                }
                let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
                match (error, value) {
                    (Some(error), _) => Err(error),
                    (None, Some(value)) => Ok(value),
                    (None, None) => unwind_cancelled(
                        "the group was cancelled while its body waited for one of its children",
                    ),
                }
            }
        }
    }
}

/// Gives the group's first unit up when dropped; made once, when the body has ended.
struct OwnersUnit<'a>(&'a GroupRef);

impl Drop for OwnersUnit<'_> {
    fn drop(&mut self) {
        // SAFETY: the group's first unit, given up once: the stage changes with it.
        unsafe { group::Group::leave(Arc::as_ptr(self.0)) };
    }
}

impl<T, E, B> Drop for GroupFuture<T, E, B> {
    fn drop(&mut self) {
        let Some(Group { inner, .. }) = &self.group else { return };
        // U2; the unit goes last, so that the parent is still there for a panic.
        let _unit = match self.stage {
            Stage::Over => return,
            Stage::Body { .. } => Some(OwnersUnit(inner)),
            Stage::Waiting { .. } => None,
        };
        inner.cancel();
        inner.orphan();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
