//! The handle of a task: await it, take its outcome, cancel it.
//!
//! J1. A handle owns one reference and, by HANDLE, the output once the task is DONE (T5).
//! J2. The lowest bit of the pointer says that the output was taken; the handle is then only a
//!     reference.
//!
//! Dropping a handle neither cancels nor detaches: the task stays in its group.
//!
//! Not here: blocking (`wait`).

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use super::body::{Failure, NeverRan, Outcome as Stored, unwind_with_the_group};
use super::budget;
use super::context::{self, Unserved};
use super::group::guard_user_code;
use super::header::{Header, RawTask, TaskId};
use super::state::HandleDrop;
use super::waker::{cancel_task, detach_task};
use crate::pool::Pool;

/// The right to a task's output.
///
/// Awaiting it gives the output; a panic of the task continues in whoever awaits. Dropping it
/// neither cancels the task nor takes it out of its group.
///
/// ```
/// let sum = filch::block_on(async {
///     let a = filch::spawn(async { 1 });
///     let b = filch::spawn_fn(|| 2);
///     a.await + b.await
/// });
/// assert_eq!(sum, 3);
/// ```
///
/// # Panics
/// Awaiting a task that was cancelled panics; [`JoinHandle::outcome`] tells it apart.
///
/// # Cancel safety
/// Dropping the handle, or a future that awaits it by reference, loses nothing: the task goes on,
/// and an output that was not taken stays with the handle.
#[must_use = "the task goes on without its handle, but its output is lost with it"]
pub struct JoinHandle<T> {
    task: NonNull<Header>,
    output: PhantomData<T>,
}

// SAFETY: the cell is reached from any thread by design; what moves through the handle is `T`.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle only reads constants and makes state transitions.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

/// Why a task gave no output: it panicked, or it was cancelled.
///
/// ```
/// let handle = filch::spawn(async { panic!("no luck") });
/// let error = filch::block_on(handle.outcome()).unwrap_err();
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "no luck");
/// ```
pub struct JoinError {
    id: TaskId,
    failure: Failure,
}

/// Bit of J2.
const TAKEN: usize = 1;

impl<T> JoinHandle<T> {
    /// # Safety
    /// The caller owns the handle's reference, and the task's output is a `T`.
    pub(crate) unsafe fn new(task: RawTask) -> Self {
        Self { task: task.0, output: PhantomData }
    }

    pub(crate) fn raw(&self) -> RawTask {
        RawTask(self.task.map_addr(|addr| {
            std::num::NonZero::new(addr.get() & !TAKEN).expect("headers are not at address 0")
        }))
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: J1, the reference keeps the cell alive.
        unsafe { self.raw().header() }
    }

    fn is_taken(&self) -> bool {
        self.task.addr().get() & TAKEN != 0
    }

    /// The task's id.
    ///
    /// ```
    /// let handle = filch::spawn(async { filch::current_id() });
    /// let id = handle.id();
    /// assert_eq!(handle.wait(), Some(id));
    /// ```
    pub fn id(&self) -> TaskId {
        self.header().id
    }

    /// The name the task was given, if any.
    ///
    /// ```
    /// let handle = filch::task().name("loader").spawn(async {});
    /// assert_eq!(handle.name(), Some("loader"));
    /// # handle.wait();
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.header().name()
    }

    /// Whether the task has ended, one way or another.
    ///
    /// ```
    /// let handle = filch::spawn(async {});
    /// filch::block_on(async { while !handle.is_finished() { filch::yield_now().await } });
    /// assert!(handle.is_finished());
    /// # handle.wait();
    /// ```
    pub fn is_finished(&self) -> bool {
        self.header().state.is_done()
    }

    /// Asks the task to end: a future is dropped at its next await, a job that has not started
    /// never starts. A job that runs, and a task that has ended, are not affected.
    ///
    /// Returns at once; awaiting the outcome tells when the body is gone. If its destructor panics, that panic is
    /// the outcome.
    ///
    /// ```
    /// let handle = filch::spawn(std::future::pending::<()>());
    /// handle.cancel();
    /// assert!(filch::block_on(handle.outcome()).unwrap_err().is_cancelled());
    /// ```
    pub fn cancel(&self) {
        // SAFETY: J1, the reference keeps the cell alive.
        unsafe { cancel_task(self.raw()) };
    }

    /// Lets the task go: it leaves its group for the runtime's own, so that nothing but the
    /// runtime's shutdown waits for it. Its output is dropped when it ends.
    ///
    /// The move takes effect when the task next runs. A job that already runs stays where it is.
    ///
    /// ```
    /// let (tx, rx) = std::sync::mpsc::channel();
    /// filch::block_on(async {
    ///     filch::spawn(async move { for _ in 0..9 { filch::yield_now().await } tx.send(1) }).detach();
    /// });
    /// assert_eq!(rx.recv(), Ok(1));
    /// ```
    pub fn detach(self) {
        // SAFETY: J1, the reference keeps the cell alive.
        unsafe { detach_task(self.raw()) };
    }

    /// A future of the outcome as a `Result` that tells a panic from a cancellation.
    ///
    /// ```
    /// let outcome = filch::block_on(filch::spawn(async { 5 }).outcome());
    /// assert_eq!(outcome.unwrap(), 5);
    /// ```
    pub fn outcome(self) -> Outcome<T> {
        Outcome(self)
    }

    /// Takes the output of a task that is done.
    pub(crate) fn take(&mut self) -> Result<T, JoinError> {
        assert!(!self.is_taken(), "the outcome of {:?} was taken before", self.id());
        debug_assert!(self.header().state.is_done());
        let mut stored = MaybeUninit::<Stored<T>>::uninit();
        // SAFETY: T5, the task is DONE and we hold the handle; J2, it is taken once.
        unsafe { (self.header().vtable.take)(self.raw(), stored.as_mut_ptr().cast()) };
        let id = self.id();
        self.task = self.task.map_addr(|addr| addr | TAKEN);
        // SAFETY: `take` wrote it.
        unsafe { stored.assume_init() }.map_err(|failure| JoinError { id, failure })
    }

    /// Has `waker` woken at the end; false if the task is done.
    pub(crate) fn set_waiter(&mut self, waker: &Waker) -> bool {
        let header = self.header();
        let state = &header.state;
        if state.is_done() {
            return false;
        }
        // SAFETY: J1, the reference keeps the cell alive.
        unsafe { self.raw().check_process() };
        if state.has_waiter() {
            let same = header.waiter.with(|slot| {
                // SAFETY: T6, while WAITER is set the slot is only read.
                let slot = unsafe { &*slot };
                // SAFETY: T6, while WAITER is set the slot is initialised.
                unsafe { slot.assume_init_ref() }.will_wake(waker)
            });
            if same {
                return !state.is_done();
            }
            if !state.clear_waiter() {
                return false;
            }
            // SAFETY: T6, the slot is ours again and initialised.
            let old = unsafe { header.take_waiter() };
            guard_user_code(|| drop(old));
        }
        let new = waker.clone();
        // SAFETY: T6, the slot is ours and empty.
        header.waiter.with_mut(|slot| unsafe { slot.write(MaybeUninit::new(new)) });
        if state.set_waiter() {
            return true;
        }
        // SAFETY: T6, DONE was set without WAITER, so the slot stayed ours.
        let unused = unsafe { header.take_waiter() };
        guard_user_code(|| drop(unused));
        false
    }

    /// Ready when the task has ended.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll_counted(cx, |cx| {
            if !self.set_waiter(cx.waker()) {
                return Poll::Ready(());
            }
            if Pool::is_any_unserved() {
                self.note_if_unserved();
            }
            Poll::Pending
        })
    }

    /// X9 of `context`.
    #[cold]
    fn note_if_unserved(&self) {
        // SAFETY: a header is the start of a cell (H1), which the handle keeps (J1).
        let pool = unsafe { Pool::of(self.raw().0.cast()) };
        if pool.is_unserved() {
            let task = Unserved::Task(self.id(), self.header().site());
            context::with(|cx| cx.unserved.set(Some(task)));
        }
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        self.poll_end(cx).map(|()| self.take())
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.get_mut().poll_outcome(cx).map(|outcome| outcome.unwrap_or_else(|e| e.resume()))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let task = self.raw();
        let header = self.header();
        if !self.is_taken() {
            match header.state.drop_handle() {
                HandleDrop::Alive => return,
                HandleDrop::AliveWithWaiter => {
                    // SAFETY: T6, the slot came back to us with a waker in it.
                    let old = unsafe { header.take_waiter() };
                    guard_user_code(|| drop(old));
                }
                // SAFETY: T5, the output is ours.
                HandleDrop::Done => unsafe { (header.vtable.discard)(task) },
            }
        }
        // SAFETY: J1.
        unsafe { task.unref() };
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("phase", &self.header().state.phase())
            .finish()
    }
}

/// The future of [`JoinHandle::outcome`].
///
/// ```
/// let outcome: filch::Outcome<u8> = filch::spawn(async { 1 }).outcome();
/// assert_eq!(filch::block_on(outcome).unwrap(), 1);
/// ```
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Outcome<T>(JoinHandle<T>);

impl<T> Future for Outcome<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll_outcome(cx)
    }
}

impl JoinError {
    /// The task that failed.
    ///
    /// ```
    /// let handle = filch::spawn(async { panic!() });
    /// let id = handle.id();
    /// assert_eq!(filch::block_on(handle.outcome()).unwrap_err().id(), id);
    /// ```
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Whether the task was cancelled before it ended, or never taken: by a runtime that is closing, or one
    /// that has no worker for it.
    ///
    /// ```
    /// let handle = filch::spawn(std::future::pending::<()>());
    /// handle.cancel();
    /// assert!(filch::block_on(handle.outcome()).unwrap_err().is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        !self.is_panic()
    }

    /// Whether the task panicked.
    ///
    /// ```
    /// let handle = filch::spawn_fn(|| panic!());
    /// assert!(handle.wait_outcome().unwrap_err().is_panic());
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.failure, Failure::Panicked(_)) && self.never_ran().is_none()
    }

    /// The payload of the panic.
    ///
    /// ```
    /// let handle = filch::spawn_fn(|| { std::panic::panic_any(42u8) });
    /// let payload = handle.wait_outcome().unwrap_err().into_panic();
    /// assert_eq!(*payload.downcast::<u8>().unwrap(), 42);
    /// ```
    ///
    /// # Panics
    /// If the task was cancelled instead.
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        assert!(self.never_ran().is_none(), "{self}: it did not panic");
        match self.failure {
            Failure::Panicked(panicked) => panicked.fallout.payload,
            Failure::Cancelled => panic!("task {} was cancelled, it did not panic", self.id),
        }
    }

    /// Why the task never ran, if that is so.
    pub(crate) fn never_ran(&self) -> Option<&NeverRan> {
        match &self.failure {
            Failure::Panicked(panicked) => NeverRan::of(&panicked.fallout.payload),
            Failure::Cancelled => None,
        }
    }

    /// Continues the panic of the task here; of a cancelled task, panics with a message.
    pub(crate) fn resume(self) -> ! {
        if self.never_ran().is_some() {
            unwind_with_the_group();
            panic!("{self}");
        }
        match self.failure {
            Failure::Panicked(panicked) => resume_unwind(panicked.fallout.payload),
            Failure::Cancelled => {
                unwind_with_the_group();
                panic!("task {} was cancelled", self.id)
            }
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::Cancelled => write!(f, "task {} was cancelled", self.id),
            Failure::Panicked(panicked) => {
                let payload = &panicked.fallout.payload;
                if let Some(NeverRan { errno, reason }) = NeverRan::of(payload) {
                    let id = self.id;
                    if errno.is_none() {
                        return write!(f, "task {id} was refused: {reason}");
                    }
                    let (name, site) = (&panicked.fallout.name, panicked.fallout.site);
                    let name = name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
                    return write!(
                        f,
                        "no thread could be started for task {id}{name} spawned at {site}: {reason}"
                    );
                }
                let text = payload
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                match text {
                    Some(text) => write!(f, "task {} panicked: {text}", self.id),
                    None => write!(f, "task {} panicked", self.id),
                }
            }
        }
    }
}

impl std::error::Error for JoinError {}
