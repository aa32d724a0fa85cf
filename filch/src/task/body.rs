//! Bodies: what a task runs, and its end.
//!
//! B1. A cell is `header, stage, slot` (a slot in pinned tasks only); the stage is the body until
//!     the body is dropped, then the outcome until somebody takes or drops it. The state word says
//!     which (T2, T5), so no tag is stored.
//! B2. The order of the end: body dropped, outcome stored, DONE, waiter woken, cell freed, dependents told, unit
//!     given back. So a group that is finished has no body left, and no output without a handle.
//! B3. No panic of the user's code leaves this file: in a run it becomes the outcome, and in the drop
//!     of a cancelled body too; in that of a body with another outcome it goes to the group, in the drop
//!     of an output that nobody wants it ends.
//!
//! Not here: which thread calls (`sched`), how a handle waits (`join`).

use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll};

use super::context;
use super::group::{Fallout, Group, GroupRef, Payload, guard_user_code};
use super::header::{Begins, Birth, Header, Kind, Ran, RawTask, Vtable};
use super::state::{Fate, Pause};
use super::waker;

/// Why a task has no value.
pub(crate) enum Failure {
    Cancelled,
    Panicked(Box<Panicked>),
}

/// A panic that waits for the handle, with the group that gets it if nobody asks.
pub(crate) struct Panicked {
    pub(crate) fallout: Fallout,
    group: GroupRef,
}

impl Panicked {
    /// # Safety
    /// The task of `header` is not DONE.
    pub(crate) unsafe fn new(header: &Header, payload: Payload) -> Box<Self> {
        // SAFETY: H3, by the caller's promise.
        let group = unsafe { header.group() }.to_ref();
        Box::new(Self { fallout: Fallout::of(header, payload), group })
    }

    /// A task that never ran has told so already.
    pub(crate) fn deliver(self) {
        if NeverRan::of(&self.fallout.payload).is_none() {
            self.group.deliver(self.fallout);
        }
    }
}

/// In place of a panic's payload: the task never ran, and why.
pub(crate) struct NeverRan {
    /// The system's error number, if no thread could be started for the task; else nobody took it.
    pub(crate) errno: Option<i32>,
    pub(crate) reason: String,
}

impl NeverRan {
    pub(crate) fn of(payload: &Payload) -> Option<&Self> {
        payload.downcast_ref()
    }
}

/// The payload of an unwinding that is a cancellation.
struct CancelledHere;

/// Whether an unwinding is a cancellation.
pub(crate) fn is_cancellation(payload: &Payload) -> bool {
    payload.is::<CancelledHere>()
}

/// Unwinds as cancelled if the current group is: whoever waits here goes with the rest.
pub(crate) fn unwind_with_the_group() {
    let group = context::with(|cx| cx.group.get());
    // SAFETY: X2, whoever set it keeps the group.
    if unsafe { group.as_ref() }.is_some_and(Group::is_cancelled) {
        std::panic::resume_unwind(Box::new(CancelledHere));
    }
}

/// Unwinds the running task as cancelled; outside of a task, panics with the reason.
#[track_caller]
pub(crate) fn unwind_cancelled(why: &str) -> ! {
    unwind_with_the_group();
    if context::with(|cx| cx.task.get()).is_null() {
        panic!("{why}");
    }
    std::panic::resume_unwind(Box::new(CancelledHere))
}

/// What a task came to.
pub(crate) type Outcome<T> = Result<T, Failure>;

#[repr(C)]
pub(crate) struct Cell<B: Body> {
    header: Header,
    stage: Stage<B, B::Output>,
    /// Where a pinned task belongs; constant, also after the body is gone.
    slot: B::Slot,
}

union Stage<B, T> {
    body: ManuallyDrop<B>,
    outcome: ManuallyDrop<Outcome<T>>,
}

/// The slot of a task that runs anywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoSlot;

impl From<NoSlot> for Option<u32> {
    fn from(_: NoSlot) -> Self {
        None
    }
}

/// A future bound to a worker slot.
pub(crate) struct PinnedFuture<F> {
    slot: u32,
    /// Tells the worker that it still has pinned tasks.
    _pin: Rc<()>,
    future: F,
}

/// Something a task can run.
pub(crate) trait Body {
    type Output;
    const KIND: Kind;
    const BEGINS: Begins = Begins::AtBirth;

    /// Runs once; `Pending` only for futures.
    ///
    /// # Safety
    /// `this` is pinned in its cell and owned by the caller. A job's body is moved out.
    unsafe fn run(this: *mut Self, task: RawTask) -> Poll<Self::Output>;

    /// Whether `run` leaves the body in place to be dropped.
    const STAYS: bool = true;

    /// The number of a worker slot for pinned bodies, nothing for others.
    type Slot: Copy + Into<Option<u32>>;

    fn slot(&self) -> Self::Slot;

    /// Told what came of the task once it is DONE, while it still has its unit.
    #[inline(always)]
    fn ended(_: Self::Slot, _: Fate) {}
}

/// A body made from a future.
pub(crate) struct FutureBody<F>(pub(crate) F);

/// A body made from a closure.
pub(crate) struct JobBody<F>(pub(crate) F);

impl<F: Future> Body for FutureBody<F> {
    type Output = F::Output;
    type Slot = NoSlot;
    const KIND: Kind = Kind::Future;

    fn slot(&self) -> NoSlot {
        NoSlot
    }

    unsafe fn run(this: *mut Self, task: RawTask) -> Poll<F::Output> {
        // SAFETY: the caller owns the body.
        let future = unsafe { &mut (*this).0 };
        // SAFETY: pinned, by the caller's promise: a cell never moves.
        let future = unsafe { Pin::new_unchecked(future) };
        // SAFETY: the caller runs the task.
        unsafe { poll(future, task) }
    }
}

impl<F: Future> Body for PinnedFuture<F> {
    type Output = F::Output;
    type Slot = u32;
    const KIND: Kind = Kind::Pinned;

    unsafe fn run(this: *mut Self, task: RawTask) -> Poll<F::Output> {
        // SAFETY: the caller owns the body.
        let future = unsafe { &mut (*this).future };
        // SAFETY: pinned, by the caller's promise: a cell never moves.
        let future = unsafe { Pin::new_unchecked(future) };
        // SAFETY: the caller runs the task.
        unsafe { poll(future, task) }
    }

    fn slot(&self) -> u32 {
        self.slot
    }
}

impl<F> PinnedFuture<F> {
    pub(crate) fn new(slot: u32, pin: Rc<()>, future: F) -> Self {
        Self { slot, _pin: pin, future }
    }
}

impl<F: FnOnce() -> T, T> Body for JobBody<F> {
    type Output = T;
    type Slot = NoSlot;
    const KIND: Kind = Kind::Job;

    fn slot(&self) -> NoSlot {
        NoSlot
    }
    const STAYS: bool = false;

    unsafe fn run(this: *mut Self, _: RawTask) -> Poll<T> {
        // SAFETY: the caller owns the body, and by `STAYS` nobody reads it again.
        let job = unsafe { this.read() };
        Poll::Ready((job.0)())
    }
}

/// A body made from a closure, for the micro lane.
pub(crate) struct MicroBody<F>(pub(crate) F);

impl<F: FnOnce() -> T, T> Body for MicroBody<F> {
    type Output = T;
    type Slot = NoSlot;
    const KIND: Kind = Kind::Future;

    fn slot(&self) -> NoSlot {
        NoSlot
    }
    const STAYS: bool = false;

    unsafe fn run(this: *mut Self, _: RawTask) -> Poll<T> {
        // SAFETY: the caller owns the body, and by `STAYS` nobody reads it again.
        let closure = unsafe { this.read() };
        Poll::Ready((closure.0)())
    }
}

/// A body made from a closure for the worker in a slot.
pub(crate) struct PostedBody<F> {
    pub(crate) slot: u32,
    pub(crate) closure: F,
}

impl<F: FnOnce() -> T, T> Body for PostedBody<F> {
    type Output = T;
    type Slot = u32;
    const KIND: Kind = Kind::Posted;

    fn slot(&self) -> u32 {
        self.slot
    }
    const STAYS: bool = false;

    unsafe fn run(this: *mut Self, _: RawTask) -> Poll<T> {
        // SAFETY: the caller owns the body, and by `STAYS` nobody reads it again.
        let posted = unsafe { this.read() };
        Poll::Ready((posted.closure)())
    }
}

/// A future that is made by the worker that it stays on. Until then it is a closure, which may be sent and
/// be dropped anywhere.
pub(crate) struct MadeThere<M, F> {
    slot: u32,
    stage: Making<M, F>,
}

enum Making<M, F> {
    To(Option<M>),
    Made { future: F, _pin: Rc<()> },
}

impl<M, F> MadeThere<M, F> {
    /// `make` returns the guard of a pinned body beside the future.
    pub(crate) fn new(slot: u32, make: M) -> Self {
        Self { slot, stage: Making::To(Some(make)) }
    }
}

impl<M: FnOnce() -> (Rc<()>, F), F: Future> Body for MadeThere<M, F> {
    type Output = F::Output;
    type Slot = u32;
    const KIND: Kind = Kind::Pinned;

    fn slot(&self) -> u32 {
        self.slot
    }

    unsafe fn run(this: *mut Self, task: RawTask) -> Poll<F::Output> {
        // SAFETY: the caller owns the body.
        let stage = unsafe { &mut (*this).stage };
        if let Making::To(make) = stage {
            let make = make.take().expect("made once, or dropped with the panic of the making");
            let (pin, future) = make();
            *stage = Making::Made { future, _pin: pin };
        }
        let Making::Made { future, .. } = stage else { unreachable!("made above") };
        // SAFETY: pinned, by the caller's promise: a cell never moves.
        let future = unsafe { Pin::new_unchecked(future) };
        // SAFETY: the caller runs the task.
        unsafe { poll(future, task) }
    }
}

/// A body made from a closure that blocks.
pub(crate) struct BlockingBody<F>(pub(crate) F);

impl<F: FnOnce() -> T, T> Body for BlockingBody<F> {
    type Output = T;
    type Slot = NoSlot;
    const KIND: Kind = Kind::Blocking;

    fn slot(&self) -> NoSlot {
        NoSlot
    }
    const STAYS: bool = false;

    unsafe fn run(this: *mut Self, _: RawTask) -> Poll<T> {
        // SAFETY: the caller owns the body, and by `STAYS` nobody reads it again.
        let closure = unsafe { this.read() };
        Poll::Ready((closure.0)())
    }
}

/// What an unwinding makes of a task.
///
/// # Safety
/// The caller owns the body of `task`, which is not DONE.
#[cold]
pub(crate) unsafe fn failure(task: RawTask, payload: Payload) -> Failure {
    if is_cancellation(&payload) {
        return Failure::Cancelled;
    }
    // SAFETY: the task is not DONE, so its cell is there.
    let header = unsafe { task.header() };
    // SAFETY: by the caller's promise.
    Failure::Panicked(unsafe { Panicked::new(header, payload) })
}

/// # Safety
/// The caller runs `task`.
unsafe fn poll<F: Future>(future: Pin<&mut F>, task: RawTask) -> Poll<F::Output> {
    // SAFETY: the cell outlives the run.
    let waker = unsafe { waker::borrowed(task) };
    future.poll(&mut PollContext::from_waker(&waker))
}

impl<B: Body> Cell<B> {
    const VTABLE: Vtable = Vtable {
        kind: B::KIND,
        begins: B::BEGINS,
        run: Self::run,
        abandon: Self::abandon,
        take: Self::take,
        discard: Self::discard,
        slot: Self::slot,
        tree: None,
    };

    /// Makes a task in a fresh cell. The caller gets the right to push its entry and the
    /// reference of its handle.
    ///
    /// # Safety
    /// `at` is a fresh cell of the pool for this type; the birth's group gave a unit to the task.
    pub(crate) unsafe fn create(at: NonNull<u8>, birth: Birth, body: B) -> RawTask {
        let cell: NonNull<Self> = at.cast();
        let task = RawTask(cell.cast());
        let word = birth.word;
        // SAFETY: the cell is large enough; only the address is computed.
        let slot = unsafe { &raw mut (*cell.as_ptr()).slot };
        // SAFETY: the cell is ours.
        unsafe { slot.write(body.slot()) };
        // SAFETY: as above.
        unsafe { Self::body(task).write(body) };
        // SAFETY: as above (H1).
        unsafe { birth.write(task.0, const { &Self::VTABLE }) };
        // SAFETY: all fields are initialised but the state word, which is valid at all times (T1).
        unsafe { task.header() }.state.publish(word);
        task
    }

    /// Where the body of `task` is. Its owner may use it (T2).
    fn body(task: RawTask) -> *mut B {
        let cell: *mut Self = task.0.as_ptr().cast();
        // SAFETY: `create` made the cell of this type; only the address is computed.
        unsafe { (&raw mut (*cell).stage.body).cast() }
    }

    /// Where the outcome of `task` is. Its owner may use it (T5).
    fn outcome(task: RawTask) -> *mut Outcome<B::Output> {
        let cell: *mut Self = task.0.as_ptr().cast();
        // SAFETY: `create` made the cell of this type; only the address is computed.
        unsafe { (&raw mut (*cell).stage.outcome).cast() }
    }

    /// # Safety
    /// As [`Vtable::run`]: the caller owns the body (T2).
    unsafe fn run(task: RawTask) -> Ran {
        let body = Self::body(task);
        // SAFETY: T2, the caller owns the body; a cell never moves, so it is pinned.
        let result = catch_unwind(AssertUnwindSafe(|| unsafe { B::run(body, task) }));
        let mut outcome = match result {
            Ok(Poll::Pending) => return Self::pend(task),
            Ok(Poll::Ready(value)) => Ok(value),
            // SAFETY: we run the task, so it is not DONE.
            Err(payload) => Err(unsafe { failure(task, payload) }),
        };
        if B::STAYS
            // SAFETY: T2, still ours.
            && let Failure::Panicked(panicked) = unsafe { Self::drop_body(task) }
        {
            match outcome {
                Err(Failure::Cancelled) => outcome = Err(Failure::Panicked(panicked)),
                // The handle has another outcome, and only one.
                Ok(_) | Err(Failure::Panicked(_)) => panicked.deliver(),
            }
        }
        // SAFETY: the body is gone.
        unsafe { Self::end(task, outcome) }
    }

    /// After `Pending`: back into a queue, waiting, or cancelled meanwhile.
    fn pend(task: RawTask) -> Ran {
        // SAFETY: we run the task.
        let state = unsafe { &task.header().state };
        let yielded = context::with(|cx| cx.yielded.replace(false));
        let pause = match yielded {
            true if state.is_cancelled() => Pause::Cancelled,
            // T2: the entry keeps RUNNING, so that a yield costs no transition.
            true => Pause::Requeue,
            false => state.pause(),
        };
        match pause {
            Pause::Idle => Ran::Settled,
            Pause::Requeue => Ran::Requeue,
            Pause::Cancelled => {
                // SAFETY: T2, `pause` left us the body.
                unsafe { Self::abandon(task, Failure::Cancelled) }
            }
        }
    }

    /// # Safety
    /// As [`Vtable::abandon`]: the caller owns the body (T2).
    unsafe fn abandon(task: RawTask, failure: Failure) -> Ran {
        // SAFETY: T2, by the caller's promise.
        let failure = match unsafe { Self::drop_body(task) } {
            Failure::Cancelled => failure,
            panicked @ Failure::Panicked(_) => panicked,
        };
        // SAFETY: the body is gone.
        unsafe { Self::end(task, Err(failure)) }
    }

    /// Drops the body; says what came of a task that is cancelled by that.
    ///
    /// # Safety
    /// The caller owns the body (T2) and gives it up.
    unsafe fn drop_body(task: RawTask) -> Failure {
        // SAFETY: T2, the caller owns the body, and drops it once.
        let drop = || unsafe { Self::body(task).drop_in_place() };
        match catch_unwind(AssertUnwindSafe(drop)) {
            Ok(()) => Failure::Cancelled,
            // SAFETY: not DONE yet.
            Err(payload) => unsafe { failure(task, payload) },
        }
    }

    /// B2, from the outcome on.
    ///
    /// # Safety
    /// The caller owns the stage (T2, T5), and the body is gone from it.
    unsafe fn end(task: RawTask, outcome: Outcome<B::Output>) -> Ran {
        let fate = if outcome.is_ok() { Fate::Done } else { Fate::Failed };
        let cell: *const Self = task.0.as_ptr().cast_const().cast();
        // SAFETY: not DONE yet; `create` made the cell of this type and wrote the slot for good.
        let slot = unsafe { (*cell).slot };
        // SAFETY: we own the stage (T5) and the body is gone from it.
        unsafe { Self::outcome(task).write(outcome) };
        // SAFETY: not DONE yet: the cell and the group are there.
        let header = unsafe { task.header() };
        let group: *const Group = header.group_ptr();
        let finished = match header.state.finish() {
            Some(finished) => finished,
            None => {
                // SAFETY: T5, no handle: the outcome is ours.
                unsafe { Self::discard(task) };
                header.state.finish_without_output()
            }
        };
        let mut last = finished.last;
        if finished.waiter {
            // SAFETY: T6, the waker is ours.
            let waker = unsafe { header.take_waiter() };
            guard_user_code(|| waker.wake());
            last = header.state.unref();
        }
        if last {
            // SAFETY: no reference is left, body and output are gone.
            unsafe { task.free() };
        }
        B::ended(slot, fate);
        Ran::Ended(group)
    }

    /// # Safety
    /// As [`Vtable::take`]: the caller owns the outcome (T5), and `into` has room for it.
    unsafe fn take(task: RawTask, into: *mut ()) {
        // SAFETY: T5, the caller owns the outcome and takes it once.
        let outcome = unsafe { Self::outcome(task).read() };
        // SAFETY: the caller passes a place for an `Outcome` of this type.
        unsafe { into.cast::<Outcome<B::Output>>().write(outcome) };
    }

    /// # Safety
    /// As [`Vtable::discard`]: the caller owns the outcome (T5).
    unsafe fn discard(task: RawTask) {
        // SAFETY: T5, the caller owns the outcome and takes it once.
        let outcome = unsafe { Self::outcome(task).read() };
        match outcome {
            Err(Failure::Panicked(panicked)) => panicked.deliver(),
            outcome => {
                guard_user_code(|| drop(outcome));
            }
        }
    }

    /// # Safety
    /// The cell is alive, and of a pinned task.
    unsafe fn slot(task: RawTask) -> u32 {
        let cell: *mut Self = task.0.as_ptr().cast();
        // SAFETY: `create` made the cell of this type and wrote the slot for good.
        let slot = unsafe { (*cell).slot };
        slot.into().expect("only pinned tasks are asked for their slot")
    }
}
