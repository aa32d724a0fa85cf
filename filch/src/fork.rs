//! Fork-join: `join` and its kin.
//!
//! J1. `join` returns, by value or by panic, only when neither closure runs or can begin to run any
//!     more; so both may borrow from the caller's stack.
//! J2. The second closure lies in the deque of the caller's worker while the first one runs. If
//!     nobody has taken it by then, the caller takes it back and calls it: no allocation, no lock, no
//!     fence and no read-modify-write, unless it was the only entry.
//! J3. Every fork is visible to thieves at once, and sleepers are told, so no second half waits
//!     behind a first half while a worker is idle.
//! J4. A thread without a deque is lent one for the call (`sched/adopt.rs`). If all are out, it
//!     calls one closure after the other.
//! J5. Both closures are called, also if the first one panics. Its panic is caught, and goes on once
//!     the second has ended: so that one runs on a thread that does not panic, and may panic itself.
//! J6. If the second closure panics, the value of the first is dropped before that panic goes on, wherever the
//!     second ran. A panic of that drop ends here: during the unwinding it would end the process.
//!
//! Not here: what the caller does while a thief has the second half (`sched/forks.rs`).

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::block_on::AbortOnUnwind;
use crate::idle::Idle;
use crate::queue::deque::{Deque, Index, Retract};
use crate::sched::adopt;
use crate::sched::shared::{Phase, Shared};
use crate::sched::worker::Worker;
use crate::spawn::{self, Member};
use crate::task::context::{self, Frame};
use crate::task::group::{Group, Payload, guard_user_code};
use crate::task::header::Header;
pub(crate) use crate::task::stack::Side;
use crate::task::stack::StackJob;

mod many;

pub use many::{Joined, join_all, join_many};

/// Calls both closures, perhaps at the same time, and returns both values.
///
/// Works on any thread. While the first closure runs here, an idle worker may take the second; if
/// none does, it is called here afterwards, and the join has cost a few nanoseconds. While a worker
/// has the second, this thread runs only what that one forks: a lock that is held across a join is
/// never wanted by unrelated work on top of it.
///
/// ```
/// fn fib(n: u32) -> u32 {
///     if n < 2 {
///         return n;
///     }
///     let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// assert_eq!(fib(12), 144);
/// ```
///
/// # Panics
/// If a closure panics, once both have ended: both are always called, whichever panics. If both
/// panic, the caller sees the panic of the first closure, and the other one is dropped. If only the second
/// panics, the value of the first is dropped before its panic goes on; a panic of that drop ends there.
/// [`std::thread::panicking`] is false in a closure although the other one has panicked.
///
/// ```
/// let mut called = false;
/// let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
///     filch::join(|| -> u32 { panic!("first") }, || called = true)
/// }));
/// assert!(panicked.is_err() && called);
/// ```
#[inline]
pub fn join<RA: Send, RB: Send>(
    a: impl FnOnce() -> RA + Send,
    b: impl FnOnce() -> RB + Send,
) -> (RA, RB) {
    join_sides(|_| a(), |_| b())
}

/// As [`join`]; each side learns where it runs, which tells a loop whether somebody is idle.
#[inline]
pub(crate) fn join_sides<RA: Send, RB: Send>(
    a: impl FnOnce(Side) -> RA + Send,
    b: impl FnOnce(Side) -> RB + Send,
) -> (RA, RB) {
    match Site::here() {
        Some(site) => site.join(a, b),
        None => join_elsewhere(a, b),
    }
}

/// The way of a thread that has no deque (J4). Inlined, so that the closures are put together for the
/// call here and nowhere before: those of a thread that has one stay in registers.
#[inline(always)]
fn join_elsewhere<RA: Send, RB: Send>(
    a: impl FnOnce(Side) -> RA + Send,
    b: impl FnOnce(Side) -> RB + Send,
) -> (RA, RB) {
    lent(move || match Site::here() {
        Some(site) => site.join(a, b),
        None => join_in_turn(a, b),
    })
}

/// Calls a half, and catches its panic (J5, J6). Only references go through `catch_unwind`: each of its
/// frames has a copy of what does in a build that is not optimised, and recursion is deep.
#[inline(always)]
fn caught<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
    let (mut f, mut value) = (Some(f), None);
    let result = catch_unwind(AssertUnwindSafe(|| {
        if let Some(f) = f.take() {
            value = Some(f());
        }
    }));
    result.map(|()| value.expect("it returned"))
}

/// Calls a second half here (J6). A value without a destructor needs no care, and costs none.
#[inline(always)]
fn beside<RA, RB>(ra: RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    if mem::needs_drop::<RA>() { both(ra, caught(b)) } else { (ra, b()) }
}

/// The value of the first half, with what the second has left (J6).
#[inline(always)]
fn both<RA, RB>(ra: RA, second: std::thread::Result<RB>) -> (RA, RB) {
    match second {
        Ok(rb) => (ra, rb),
        Err(payload) => {
            guard_user_code(|| drop(ra));
            resume_unwind(payload)
        }
    }
}

/// Calls one closure after the other (J4, J5).
fn join_in_turn<RA, RB>(a: impl FnOnce(Side) -> RA, b: impl FnOnce(Side) -> RB) -> (RA, RB) {
    match caught(|| a(Side::Here)) {
        Ok(ra) => beside(ra, || b(Side::Here)),
        Err(payload) => {
            guard_user_code(|| drop(b(Side::Here)));
            resume_unwind(payload)
        }
    }
}

/// Runs `f` on this thread as one of the job lane, if it has a place for it (J4).
///
/// # Panics
/// If `f` does, or outside of any task if the runtime has shut down.
#[inline]
pub(crate) fn on_worker<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if Site::here().is_some() { f() } else { lent(f) }
}

/// Runs `f` on this thread, which is lent a deque if there is one left.
#[cold]
#[inline(never)]
fn lent<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let shared = spawn::current(|shared, group, member| {
        shared.process().check();
        if member == Member::No && !(shared.phase() == Phase::Open && group.try_enter()) {
            panic!("the runtime has shut down");
        }
        // The pointer of the home and not the reference: it is the one the `Arc` gave.
        // SAFETY: the reference shows that it is alive.
        (unsafe { Shared::to_arc(shared.root.home().shared.cast()) }, member)
    });
    let (shared, member) = shared;
    let _call = (member == Member::No).then(|| Call::new(&shared.root));
    adopt::with_deque(&shared, f).unwrap_or_else(|f| f())
}

/// A call from outside of any structure: it works for the runtime's own group, a unit of which it
/// was given.
struct Call {
    root: *const Group,
    frame: Option<Frame>,
}

impl Call {
    fn new(root: &Group) -> Self {
        // SAFETY: X2, the unit, given back after the frame.
        let frame = unsafe { Frame::enter(root.as_ptr(), std::ptr::null(), u32::MAX) };
        Self { root: root.as_ptr(), frame: Some(frame) }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        drop(self.frame.take());
        // SAFETY: the call's unit; the caller holds the runtime.
        unsafe { Group::leave(self.root) };
        // C4: an adopted thread goes on outside of any task, and has no loop that settles.
        Group::settle();
        adopt::end_left();
    }
}

/// How many threads the current runtime can bring to bear on a loop.
pub(crate) fn width() -> usize {
    spawn::current(|shared, _, _| {
        let compute = &shared.lanes[shared.lanes.len() - 1];
        compute.workers() + shared.config.adoptable_threads
    })
}

/// Tells that work for `pieces` threads is about to be forked here: with the first fork as many are
/// woken, at once, and not one after the other. Not before it: who is woken too early finds
/// nothing, perhaps on this very processor while this thread has to wait.
pub(crate) fn announce(pieces: usize) -> Announced {
    let mut announced = Announced { outer: None };
    // J4: who was lent no deque forks nothing, and its worker, if any, is of another lane.
    if pieces < 2 || Site::here().is_none() {
        return announced;
    }
    // SAFETY: used within this call only.
    let Some(worker) = (unsafe { Worker::current() }) else { return announced };
    let counts = worker.lane().idle.counts();
    if counts.sleeping > 0 && counts.searching == 0 {
        let outer = worker.announced.get();
        worker.announced.set(outer.max(pieces - 1));
        announced.outer = Some(outer);
    } else {
        worker.shared().notify_many(worker.lane(), pieces - 1);
    }
    announced
}

/// A loop that has been announced; its end takes back what no fork has told.
#[must_use]
pub(crate) struct Announced {
    /// What was announced around it.
    outer: Option<usize>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        // SAFETY: used within this call only.
        if let (Some(outer), Some(worker)) = (self.outer, unsafe { Worker::current() }) {
            worker.announced.set(outer.min(worker.announced.get()));
        }
    }
}

/// Wakes as many as `pieces` jobs, which are queued here now, have work for, at once.
pub(crate) fn wake_for(pieces: usize) {
    // SAFETY: used within this call only.
    if let Some(worker) = unsafe { Worker::current() }
        && worker.runs_jobs()
        && pieces > 1
    {
        worker.shared().notify_many(worker.lane(), pieces - 1);
    }
}

/// Where this thread forks.
#[derive(Clone, Copy)]
struct Site<'a> {
    deque: &'a Deque<Header>,
    idle: &'a Idle,
}

impl Site<'_> {
    #[inline(always)]
    fn here() -> Option<Self> {
        let (deque, idle) = context::with(|cx| (cx.deque.get(), cx.idle.get()));
        // SAFETY: X5, the thread's own while it is set, and set again if a nested call cleared it.
        let deque = unsafe { deque.as_ref() }?;
        // SAFETY: set with the deque.
        let idle = unsafe { &*idle };
        Some(Self { deque, idle })
    }

    #[inline(always)]
    fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Side) -> RA,
        B: FnOnce(Side) -> RB,
    {
        let job = StackJob::new(b);
        // SAFETY: X5, the deque is this thread's. The job stays until it is taken back or has ended.
        let index = unsafe { self.deque.push(job.entry().0) };
        // J1, J5: nothing unwinds past the job, be it an event core's waker in `tell`.
        let first = caught(|| {
            if !self.idle.is_quiet_after_fork(self.deque.is_light(index)) {
                self.tell();
            }
            a(Side::Here)
        });
        let ra = match first {
            Ok(ra) => ra,
            Err(payload) => first_panicked(&job, index, payload),
        };
        // SAFETY: pushed above, on this thread.
        if unsafe { self.deque.retract(index) } == Retract::Taken {
            // SAFETY: taken back, once.
            let b = unsafe { job.take_body() };
            return beside(ra, || b(Side::Here));
        }
        match finish(&job, index) {
            Finish::Back(b) => beside(ra, || b(Side::Here)),
            Finish::Ended(outcome) => both(ra, outcome),
        }
    }
}

impl Site<'_> {
    /// Wakes whom the fork needs (J3).
    #[cold]
    fn tell(&self) {
        // SAFETY: used within this call only.
        if let Some(worker) = unsafe { Worker::current() } {
            // SAFETY: X5, the deque is this thread's.
            unsafe { self.deque.expect_thieves() };
            match worker.announced.replace(0) {
                0 => worker.shared().notify(worker.lane()),
                others => worker.shared().notify_many(worker.lane(), others),
            }
        }
    }
}

/// What became of a second half that could not simply be taken back.
enum Finish<B, RB> {
    Back(B),
    Ended(std::thread::Result<RB>),
}

/// The end of a join whose second half is not on top of the deque any more.
#[cold]
fn finish<B: FnOnce(Side) -> RB, RB>(job: &StackJob<B, RB>, index: Index) -> Finish<B, RB> {
    // J1: nothing may unwind past the job.
    let abort = AbortOnUnwind;
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::current() }.expect("X5: who forks has a worker");
    let finish = if worker.take_back(job.entry(), index) {
        // SAFETY: taken back, once.
        Finish::Back(unsafe { job.take_body() })
    } else {
        worker.wait_for_fork(job.fork());
        // SAFETY: the latch is set.
        Finish::Ended(unsafe { job.take_outcome() })
    };
    mem::forget(abort);
    finish
}

/// The end of a join whose first half has panicked (J5): that panic counts, another one ends here.
#[cold]
#[inline(never)]
fn first_panicked<B, RB>(job: &StackJob<B, RB>, index: Index, payload: Payload) -> !
where
    B: FnOnce(Side) -> RB,
{
    let finish = finish(job, index);
    guard_user_code(|| match finish {
        Finish::Back(b) => drop(b(Side::Here)),
        Finish::Ended(outcome) => drop(outcome),
    });
    resume_unwind(payload)
}
