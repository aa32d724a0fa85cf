//! Stack jobs: the second half of a `join`, on the stack of the thread that waits for it.
//!
//! J1. The entry of a stack job is in the deque of its owner's worker from `push` until the owner
//!     takes it back or a thief takes it. Whoever has taken the entry has the body.
//! J2. The job stays where it is, and its memory there, until the owner has taken it back or the
//!     latch is set. So `join` returns, by value or by panic, only then.
//! J3. A thief stores the outcome before it sets the latch (L1 of `latch`), and no panic leaves it.
//! J4. The owner's task, and with it the group, outlive the job (X2): the owner is inside of both.
//! J5. An entry's lowest bit tells a stack job from a task; both are aligned to more than that.
//!
//! There is no state word, no reference count and no allocation: a stack job that nobody steals
//! is written once and read once.
//!
//! Not here: who takes what when (`sched/forks.rs`), the faces (`fork`).

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::context::{self, Below, Frame};
use super::group::{Group, Payload};
use super::header::{Header, RawTask};
use super::latch::Latch;

/// J5.
const STACK: usize = 1;

/// What every stack job begins with.
#[repr(C)]
pub(crate) struct Fork {
    /// Calls the body and stores its outcome (J3); the caller has taken the entry.
    run: unsafe fn(NonNull<Fork>),
    group: *const Group,
    task: *const Header,
    pub(crate) latch: Latch,
}

const _: () = assert!(align_of::<Fork>() > STACK && align_of::<Header>() > STACK);

/// The second half of a `join`.
#[repr(C)]
pub(crate) struct StackJob<F, R> {
    fork: Fork,
    stage: UnsafeCell<Stage<F, R>>,
}

/// The body until it is called, then, if a thief called it, its outcome.
#[repr(C)]
union Stage<F, R> {
    body: ManuallyDrop<F>,
    outcome: ManuallyDrop<Result<R, Payload>>,
}

/// Where one side of a join runs, seen from the thread that called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// On the thread that called the join.
    Here,
    /// On another thread, which took it.
    Stolen,
}

impl<F: FnOnce(Side) -> R, R> StackJob<F, R> {
    /// A job for the task and group that run here.
    #[inline(always)]
    pub(crate) fn new(body: F) -> Self {
        let (group, task) = context::with(|cx| (cx.group.get(), cx.task.get()));
        Self {
            fork: Fork { run: Self::run, group, task, latch: Latch::new() },
            stage: UnsafeCell::new(Stage { body: ManuallyDrop::new(body) }),
        }
    }

    /// The entry to push (J5). From then on the job stays where it is (J2).
    #[inline(always)]
    pub(crate) fn entry(&self) -> RawTask {
        let job = NonNull::from(self).cast::<Header>();
        RawTask(job.map_addr(|address| address | STACK))
    }

    #[inline(always)]
    pub(crate) fn fork(&self) -> &Fork {
        &self.fork
    }

    /// Moves the body out.
    ///
    /// # Safety
    /// The caller has taken the entry back (J1), and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn take_body(&self) -> F {
        // SAFETY: J1, the stage is the caller's and holds the body, which it moves out once.
        unsafe { self.stage.get().cast::<F>().read() }
    }

    /// Moves the outcome out.
    ///
    /// # Safety
    /// The latch is set, and the caller calls this once.
    pub(crate) unsafe fn take_outcome(&self) -> Result<R, Payload> {
        // SAFETY: J3, the stage holds what the thief has stored, and the caller moves it out once.
        unsafe { self.stage.get().cast::<Result<R, Payload>>().read() }
    }

    /// # Safety
    /// As [`Fork::run`]: `fork` is the start of a job of this type, whose entry the caller has.
    unsafe fn run(fork: NonNull<Fork>) {
        // SAFETY: by the caller's promise; J2, it is alive.
        let job = unsafe { fork.cast::<Self>().as_ref() };
        // SAFETY: J1, the caller has the entry.
        let body = unsafe { job.take_body() };
        let outcome = catch_unwind(AssertUnwindSafe(|| body(Side::Stolen)));
        let stage = Stage { outcome: ManuallyDrop::new(outcome) };
        // SAFETY: J1, the stage is ours and the body gone from it.
        unsafe { job.stage.get().write(stage) };
    }
}

/// A stack job that somebody has taken from a deque.
#[derive(Clone, Copy)]
pub(crate) struct Taken(NonNull<Fork>);

impl Taken {
    pub(crate) fn fork(&self) -> &Fork {
        // SAFETY: J2, a job that is taken and not set is there; `run` gives it up.
        unsafe { self.0.as_ref() }
    }

    /// Calls the body as a part of its owner's task, and stores the outcome. The latch is left to
    /// set, by the pointer returned.
    ///
    /// # Safety
    /// The caller has taken the entry (J1), and calls this once.
    pub(crate) unsafe fn run(self) -> *const Latch {
        let fork = self.fork();
        let frame = NonNull::new(fork.group.cast_mut()).map(|group| {
            // SAFETY: J4.
            unsafe { Frame::enter(group.as_ptr(), fork.task, u32::MAX) }
        });
        let below = fork.task.is_null().then(Below::nobody);
        // SAFETY: by the caller's promise.
        unsafe { (fork.run)(self.0) };
        drop((below, frame));
        &raw const fork.latch
    }
}

impl RawTask {
    /// Whether the entry is that of a stack job (J5).
    #[inline(always)]
    pub(crate) fn is_stack_job(self) -> bool {
        self.0.addr().get() & STACK != 0
    }

    /// Whether the entry is that of a task: neither a stack job's nor a node's.
    #[inline(always)]
    pub(crate) fn is_task(self) -> bool {
        !self.is_stack_job() && self.as_node().is_none()
    }

    /// The stack job whose entry the caller has taken, unless it is a task's.
    #[inline(always)]
    pub(crate) fn as_stack_job(self) -> Option<Taken> {
        if !self.is_stack_job() {
            return None;
        }
        let address = self.0.as_ptr().map_addr(|address| address & !STACK);
        NonNull::new(address.cast()).map(Taken)
    }
}
