//! `group`: async structure. The first error or panic cancels the rest, and all are waited for.
//!
//! U1. The group's future is ready only when every child has ended and its body is dropped.
//! U2. A group future that is dropped before cancels its children and leaves them, as long as they
//!     last, to the enclosing group. Children are `'static`, so that this is sound.
//! U3. The result is the body's panic, else the first panic of a child that nobody took, else the
//!     first of all errors, else the body's value.
//! U4. The group begins where its future is first polled: one that never is holds nothing up.
//! U5. The body is polled and dropped in the frame of the group, by whoever polls or drops the future.
//! U6. While the body waits, the waker of the last poll waits for the failure of the group. So a group that fails
//!     (G5 of `task/group.rs`) has its future polled, which drops the body, unless it is to finish.
//! U7. The end of the runtime waits for the children, and not for a future that nobody in the runtime
//!     polls: it gives that future's unit back (G6 of `task/group`). If its body had not ended, the
//!     next poll panics; who polls from outside is woken for that. Dropping it is always fine.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::base::shim::Mutex;
use crate::config::UnhandledPanic;
use crate::sched::shared::{Phase, Shared};
use crate::spawn::{self, Place, TaskBuilder};
use crate::sync::Latch;
use crate::task::body::{is_cancellation, unwind_cancelled};
use crate::task::budget;
use crate::task::context::{self, Frame};
use crate::task::group::{
    self, Fallout, GroupRef, OnPanic, Payload, Tracking, UnitInUse, guard_user_code,
};
use crate::task::join::JoinHandle;

/// Where the children of a [`group`] are spawned. It may be cloned and sent to children.
///
/// It may outlive its group and its runtime: what it spawns then comes back as cancelled.
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
    end: Arc<End<E>>,
}

/// What the body and the children know of the end of their group.
struct End<E> {
    /// The first (U3).
    error: Mutex<Option<E>>,
    /// Opened by a cancel and at the end, if anybody has asked for it.
    cancelled: Latch,
}

impl<E> End<E> {
    fn new() -> Arc<Self> {
        Arc::new(Self { error: Mutex::new(None), cancelled: Latch::new(1) })
    }

    fn keep(&self, error: E) {
        let refused = {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            match &*first {
                Some(_) => Some(error),
                None => first.replace(error),
            }
        };
        // The user's code runs outside of the lock.
        drop(refused);
    }

    fn take(&self) -> Option<E> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The group wakes it once, when it is cancelled or at its end.
impl<E: Send + 'static> Wake for End<E> {
    fn wake(self: Arc<Self>) {
        self.cancelled.count_down();
    }
}

impl<E> Clone for Group<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), end: self.end.clone() }
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
/// The first error or panic cancels the rest, and drops the body at its next await.
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
/// So a loop that accepts connections needs no word about its end: it ends when a child fails.
///
/// ```
/// use filch::sync::mpmc;
/// let (calls, listener) = mpmc::unbounded::<u32>();
/// for call in [1, 2, 0, 3] {
///     calls.try_send(call).unwrap();
/// }
/// let result: Result<(), String> = filch::block_on(filch::group(async |g| {
///     loop {
///         let call = listener.recv().await.unwrap();
///         drop(g.spawn(async move {
///             if call == 0 { Err("a bad call".to_owned()) } else { Ok(()) }
///         }));
///     }
/// }));
/// assert_eq!(result, Err("a bad call".to_owned()));
/// ```
///
/// [`finish_body`](GroupFuture::finish_body) is for a body that must run to its end, and
/// [`unhandled_panic`](GroupFuture::unhandled_panic) for children whose panics the others should survive.
///
/// # Errors
/// The first error of the body or a child, also if the body has its value already.
///
/// # Panics
/// Once all have ended: with the panic of the body or of its destructor; else with the first panic of a
/// child whose handle was dropped, which wins over errors. Other panics go to
/// [`on_panic`](crate::Builder::on_panic). If the runtime has ended,
/// see below.
///
/// # Futures that outlive their runtime
/// The group belongs to the runtime in which its future is first polled. Later polls may come from
/// other tasks, threads and runtimes. The end of the runtime waits for the children, and for a task or
/// `block_on` of the runtime that polls the future; it does not wait for a future that is kept
/// elsewhere or was forgotten:
///
/// * A poll after the end panics with "the runtime has ended", unless the body had ended before: then
///   the group's result is there. A task of another runtime that awaits the future is woken for this.
/// * While a runtime drops its tasks, a poll from outside panics in the same way.
/// * The future may be dropped at any time.
/// * A [`Group`] that is still there is cancelled, and what it spawns comes back as cancelled.
///
/// A [`block_on`](crate::block_on()) returns when the groups that began in it are gone. So do not return
/// the future of such a group from it: `block_on` would wait for what only its caller can drop.
///
/// ```
/// use std::{future::{Future, pending}, task::Poll};
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let mut kept = runtime
///     .spawn(async {
///         let mut group = Box::pin(filch::group(async |_| pending::<Result<(), ()>>().await));
///         std::future::poll_fn(|cx| Poll::Ready(group.as_mut().poll(cx).is_pending())).await;
///         group
///     })
///     .wait();
/// runtime.shutdown(filch::Shutdown::Drain); // does not wait for `kept`
/// let poll = std::panic::AssertUnwindSafe(|| filch::block_on(kept.as_mut()));
/// let panic = std::panic::catch_unwind(poll).unwrap_err();
/// assert!(panic.downcast_ref::<&str>().unwrap().contains("the runtime has ended"));
/// # Ok::<(), filch::BuildError>(())
/// ```
///
/// # Cancel safety
/// Dropping the future drops the body and cancels the children. They belong to the enclosing group from
/// then on, so whoever waits for that also waits until they are gone.
#[track_caller]
pub fn group<T, E, F>(body: F) -> GroupFuture<T, E, impl Future<Output = Result<T, E>>>
where
    F: AsyncFnOnce(Group<E>) -> Result<T, E>,
    E: Send + 'static,
{
    let end = End::new();
    let ours = end.clone();
    let body = async move {
        // U4: whoever polls the body has entered the group.
        let inner = spawn::current(|_, group, _| group.to_ref());
        body(Group { inner, end: ours }).await
    };
    GroupFuture {
        group: None,
        end,
        stage: Stage::Body { body },
        when_failed: WhenFailed::DropBody,
        unhandled_panic: None,
        site: Location::caller(),
    }
}

impl<E> Group<E> {
    /// A group inside the one that is current.
    fn inside_current(end: Arc<End<E>>, unhandled_panic: Option<UnhandledPanic>) -> Self {
        spawn::current(|shared, parent, _| {
            let parent = parent.to_ref();
            let on_panic = match unhandled_panic.unwrap_or(shared.config.unhandled_panic) {
                UnhandledPanic::Propagate => OnPanic::Cancel,
                UnhandledPanic::Report => OnPanic::Report,
            };
            let Some(inner) = group::Group::inside(&parent, on_panic, Tracking::Yes) else {
                panic!("the runtime has shut down");
            };
            shared.note_group(&inner);
            Self { inner, end }
        })
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
    /// The body goes on: it may clean up, and its value is the result. If it waits for something else,
    /// [`Group::cancelled`] tells it.
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

    /// Whether the group was cancelled, by an error, a panic, [`Group::cancel`], or the end of its runtime.
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

    /// Waits until the group is cancelled: by an error, a panic, [`Group::cancel`], or together with an
    /// enclosing group. With a clone that is kept longer, also until the group has ended.
    ///
    /// For the body, which [`Group::cancel`] does not end; for one that
    /// [finishes](GroupFuture::finish_body); and for what runs beside the group.
    ///
    /// ```
    /// let result: Result<&str, ()> = filch::block_on(filch::group(async |g| {
    ///     let stop = g.clone();
    ///     drop(g.spawn(async move { Ok(stop.cancel()) }));
    ///     filch::select! {
    ///         () = g.cancelled() => Ok("stopped"),
    ///         () = std::future::pending() => unreachable!(),
    ///     }
    /// }));
    /// assert_eq!(result, Ok("stopped"));
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn cancelled(&self) {
        if self.inner.on_cancel(|| Waker::from(self.end.clone())) {
            self.end.cancelled.wait().await;
        } else {
            poll_fn(|cx| budget::poll_proceed(cx)).await;
        }
    }

    fn fail(&self, error: E) {
        self.end.keep(error);
        self.inner.fail();
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
    end: Arc<End<E>>,
    stage: Stage<T, B>,
    when_failed: WhenFailed,
    /// `None`: as the runtime has it.
    unhandled_panic: Option<UnhandledPanic>,
    /// Where [`group`] was called.
    site: &'static Location<'static>,
}

/// Whether the runtime of a group waits for who polls its future (U7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Poller {
    Inside,
    Outside,
}

impl Poller {
    fn of(group: &GroupRef) -> Self {
        match context::is_inside(group.home().shared) {
            true => Self::Inside,
            false => Self::Outside,
        }
    }
}

enum Stage<T, B> {
    Body {
        body: B,
    },
    /// The body has ended; the children have not.
    Waiting {
        end: BodyEnd<T>,
    },
    /// All is over.
    Over,
}

/// What came of the body: its value, nothing if it failed or was dropped, or its panic.
type BodyEnd<T> = Result<Option<T>, Payload>;

/// What the failure of a child does to the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenFailed {
    DropBody,
    FinishBody,
}

impl<T, E, B> GroupFuture<T, E, B> {
    /// Lets the body run to its end after a child has failed.
    ///
    /// For a body that has something to finish which its destructors cannot: to say goodbye to a peer, or
    /// to collect what the children have left behind. The children are cancelled all the same, and the
    /// error is the result. To learn of it, the body has [`Group::cancelled`]; it asks children for their
    /// [`outcome`](JoinHandle::outcome), because awaiting the handle of a cancelled child ends it.
    ///
    /// ```
    /// let mut goodbye = false;
    /// let group = filch::group(async |g| {
    ///     drop(g.spawn(async { Err::<(), _>("no route") }));
    ///     g.cancelled().await;
    ///     filch::yield_now().await;
    ///     goodbye = true;
    ///     Ok(())
    /// });
    /// assert_eq!(filch::block_on(group.finish_body()), Err("no route"));
    /// assert!(goodbye);
    /// ```
    pub fn finish_body(mut self) -> Self {
        self.when_failed = WhenFailed::FinishBody;
        self
    }

    /// Sets what becomes of a panic of a child whose handle was dropped. The default is that of the
    /// runtime ([`Config::unhandled_panic`](crate::Config::unhandled_panic)).
    ///
    /// A server reports: one bad request does not end the others.
    ///
    /// ```
    /// use filch::UnhandledPanic;
    /// let group = filch::group(async |g| {
    ///     drop(g.spawn(async { if true { panic!("one bad request") } else { Ok(()) } }));
    ///     Ok::<_, ()>(g.spawn(async { Ok("served") }).await)
    /// });
    /// assert_eq!(filch::block_on(group.unhandled_panic(UnhandledPanic::Report)), Ok("served"));
    /// ```
    pub fn unhandled_panic(mut self, policy: UnhandledPanic) -> Self {
        self.unhandled_panic = Some(policy);
        self
    }
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
        let (end, policy) = (&this.end, this.unhandled_panic);
        let group = this.group.get_or_insert_with(|| Group::inside_current(end.clone(), policy));
        // W1 of `sched/forked`.
        group.inner.home().process.check();
        if let Stage::Body { body } = &mut this.stage {
            let poller = Poller::of(&group.inner);
            let Some(unit) = group.unit_for(poller) else {
                panic!("the runtime has ended: a group that began in it cannot go on");
            };
            // SAFETY: as above.
            let body = unsafe { Pin::new_unchecked(body) };
            let finishes = this.when_failed == WhenFailed::FinishBody;
            // U6.
            let goes_on = finishes || group.inner.set_waiter_for_failure(cx.waker());
            let polled = if goes_on { group.poll_body(body, cx) } else { Poll::Ready(Ok(None)) };
            let Poll::Ready(end) = polled else {
                if finishes && poller == Poller::Outside {
                    // U7: the end of the runtime wakes it.
                    let waits = group.inner.set_waiter(cx.waker());
                    debug_assert!(waits, "W2 of `task/owner`");
                }
                return Poll::Pending;
            };
            // Given back also if the drop of the body panics.
            let _unit = unit.into_last();
            group.drop_body(&mut this.stage, end, this.site);
            // Giving the unit up may end the group, which is no reason to wake who polls here.
            group.inner.clear_waiter();
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
    /// Calls what belongs to the body as a member of the group (U5).
    fn catch<R>(&self, f: impl FnOnce() -> R) -> Result<R, Payload> {
        // SAFETY: X2, our reference keeps the group for the call.
        let frame = unsafe { Frame::inside(Arc::as_ptr(&self.inner)) };
        let result = catch_unwind(AssertUnwindSafe(f));
        frame.merge();
        result
    }

    /// Polls the body, and cancels the children if it fails.
    fn poll_body<T, B>(&self, body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<BodyEnd<T>>
    where
        B: Future<Output = Result<T, E>>,
    {
        let end = match self.catch(|| body.poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(value))) => Ok(Some(value)),
            Ok(Poll::Ready(Err(error))) => {
                self.end.keep(error);
                self.inner.cancel();
                Ok(None)
            }
            // The body waited for a child that was cancelled with the rest.
            Err(payload) if is_cancellation(&payload) => Ok(None),
            Err(payload) => {
                self.inner.cancel();
                Err(payload)
            }
        };
        Poll::Ready(end)
    }

    /// Drops the body, which has come to `end`. A panic of its destructor is the body's.
    fn drop_body<T, B>(
        &self,
        stage: &mut Stage<T, B>,
        end: BodyEnd<T>,
        site: &'static Location<'static>,
    ) {
        let end = match (self.catch(|| *stage = Stage::Over), end) {
            (Ok(()), end) => end,
            (Err(payload), end) if is_cancellation(&payload) => end,
            (Err(payload), Ok(value)) => {
                guard_user_code(|| drop(value));
                self.inner.cancel();
                Err(payload)
            }
            (Err(second), Err(first)) => {
                self.inner.report(fallout_of_body(second, site));
                Err(first)
            }
        };
        *stage = Stage::Waiting { end };
    }

    /// The future's unit, for a poll of the body; `None` if the runtime has ended, or drops its tasks and is
    /// not the poller's (U7).
    fn unit_for(&self, poller: Poller) -> Option<UnitInUse<'_>> {
        let unit = group::Group::use_unit(&self.inner)?;
        if poller == Poller::Outside {
            // SAFETY: S1 of `sched/shared`, by the unit that is in use.
            let shared = unsafe { &*self.inner.home().shared.cast::<Shared>() };
            if shared.phase() >= Phase::Aborting {
                drop(unit.into_last());
                self.inner.cancel();
                return None;
            }
        }
        Some(unit)
    }

    /// The result, once every child is gone (U3); a panic goes on.
    fn conclude<T>(&self, end: BodyEnd<T>) -> Result<T, E> {
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
                    // Not while the panic unwinds: a second one would end the process.
                    guard_user_code(|| drop(value));
                    resume_unwind(fallout.payload);
                }
                match (self.end.take(), value) {
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

/// A panic of the body that nobody else gets.
fn fallout_of_body(payload: Payload, site: &'static Location<'static>) -> Fallout {
    let task = context::with(|cx| cx.fresh_id());
    Fallout { payload, task, name: Some("body of a group".into()), site }
}

impl<T, E, B> Drop for GroupFuture<T, E, B> {
    fn drop(&mut self) {
        let Some(group) = &self.group else { return };
        // U2; the unit goes last, so that the parent is still there for a panic.
        let unit = match self.stage {
            Stage::Over => return,
            // U7: or the end of the runtime has given it back.
            Stage::Body { .. } => group::Group::take_unit(&group.inner),
            Stage::Waiting { .. } => None,
        };
        group.inner.cancel();
        let dropped = match self.stage {
            // U5; it is dropped where it is, so it stays pinned.
            Stage::Body { .. } if unit.is_some() => group.catch(|| self.stage = Stage::Over),
            // U7: the runtime may be gone, so the body is no member of the group any more.
            Stage::Body { .. } => catch_unwind(AssertUnwindSafe(|| self.stage = Stage::Over)),
            // The group may be finished, so nothing may join it.
            Stage::Waiting { .. } | Stage::Over => Ok(()),
        };
        group.inner.orphan();
        match dropped {
            Err(payload) if thread::panicking() => {
                // A second panic would end the process.
                group.inner.report(fallout_of_body(payload, self.site));
            }
            Err(payload) => resume_unwind(payload),
            Ok(()) => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
