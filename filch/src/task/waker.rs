//! Wakers of tasks: a thin pointer and one reference each.
//!
//! W1. A waker owns one reference, so the cell is there; nothing else of the task need be.
//! W2. Only a wake that wins QUEUED goes on to the runtime, and until its entry is pushed the
//!     task is not DONE (T3; T10 for a job that waits), so the group and its runtime are there too (H3).
//! W3. A job that waits has no waker and is not detached. It is queued by `begin_task` or `cancel_task`, which list it for those who
//!     help before its entry is pushed: once it can be claimed, whoever waits for it or for its group finds it.
//!
//! Not here: where the woken task goes (`sched/schedule.rs`, through `group::Home`).

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::header::{Header, Kind, RawTask};
use super::state::{State, Wake};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// A waker that borrows the reference of whoever runs the task.
///
/// # Safety
/// The cell stays alive while the result is used.
pub(crate) unsafe fn borrowed(task: RawTask) -> ManuallyDrop<Waker> {
    let raw = RawWaker::new(task.0.as_ptr().cast_const().cast(), &VTABLE);
    // SAFETY: the functions of the table keep the contract of `RawWaker`; never dropped, so the
    // reference it would own (W1) need not exist.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
}

/// Whether `waker` is that of the task at `header`.
pub(crate) fn is_of(waker: &Waker, header: *const Header) -> bool {
    waker.data() == header.cast() && std::ptr::eq(waker.vtable(), &VTABLE)
}

fn task(data: *const ()) -> RawTask {
    debug_assert!(!data.is_null());
    // SAFETY: `borrowed` made it from a non-null pointer.
    RawTask(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) })
}

/// Queues the task if nobody has, through its runtime.
///
/// # Safety
/// The caller keeps the cell alive.
#[inline]
pub(crate) unsafe fn wake_task(task: RawTask) {
    // SAFETY: by the caller's promise.
    let _ = unsafe { ask(task, State::wake) };
}

/// Has the body dropped instead of run, as soon as nobody runs it.
///
/// # Safety
/// The caller keeps the cell alive.
pub(crate) unsafe fn cancel_task(task: RawTask) {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    if header.vtable.kind != Kind::Job {
        // SAFETY: by the caller's promise.
        let _ = unsafe { ask(task, State::cancel) };
        return;
    }
    match header.state.cancel() {
        // SAFETY: we won QUEUED. It waited: who waits for it may drop it now, if no worker is free to.
        Wake::Schedule => unsafe { queue_waiting(task) },
        // T11: as above, also if somebody else has won QUEUED just now.
        Wake::Nothing => _ = header.state.let_push(),
    }
}

/// Has the body dropped instead of run, of a task that is queued, running or done: there is nothing to push. Also for who is
/// about to push its entry (T11).
pub(crate) fn cancel_queued(header: &Header) {
    let asked = header.state.cancel();
    debug_assert_eq!(asked, Wake::Nothing, "{:?} was not queued", header.id);
}

/// Has a job that waits begin, unless it was cancelled before.
///
/// # Safety
/// The caller keeps the cell alive.
pub(crate) unsafe fn begin_task(task: RawTask) {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    debug_assert_eq!(header.vtable.kind, Kind::Job);
    if header.state.wake() == Wake::Schedule {
        // SAFETY: we won QUEUED.
        unsafe { queue_waiting(task) };
    }
}

/// Queues a job that waited (W3).
///
/// # Safety
/// The caller keeps the cell alive and has just won QUEUED.
unsafe fn queue_waiting(task: RawTask) {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    // SAFETY: W2.
    let group = unsafe { header.group() };
    if group.is_tracked() {
        // SAFETY: by the caller's promise.
        unsafe { group.enlist(task) };
    }
    // SAFETY: W2, and we won the right to push the entry.
    unsafe { group.home().begin(task) };
}

/// Has the task moved to the runtime's own group before it next runs.
///
/// # Safety
/// The caller keeps the cell alive.
pub(crate) unsafe fn detach_task(task: RawTask) {
    // SAFETY: by the caller's promise.
    let _ = unsafe { ask(task, State::detach) };
}

/// Makes a request, and queues the task if that is left to us.
///
/// # Safety
/// The caller keeps the cell alive.
#[inline]
unsafe fn ask(task: RawTask, request: impl FnOnce(&State) -> Wake) -> Wake {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    let asked = request(&header.state);
    if asked == Wake::Schedule {
        debug_assert_ne!(
            header.vtable.kind,
            Kind::Job,
            "W3: {:?} would begin too early",
            header.id
        );
        // SAFETY: W2.
        let home = unsafe { header.group() }.home();
        // SAFETY: W2, and we won the right to push the entry.
        unsafe { home.schedule(task) };
    }
    asked
}

/// # Safety
/// `data` is that of a waker of this table, which owns a reference (W1).
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: W1.
    unsafe { task(data).header() }.state.add_ref();
    RawWaker::new(data, &VTABLE)
}

/// # Safety
/// `data` is that of a waker of this table, whose reference is given up (W1).
unsafe fn wake(data: *const ()) {
    // SAFETY: W1.
    unsafe { wake_task(task(data)) };
    // SAFETY: W1, the reference is consumed.
    unsafe { task(data).unref() };
}

/// # Safety
/// `data` is that of a waker of this table, which owns a reference (W1).
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: W1.
    unsafe { wake_task(task(data)) };
}

/// # Safety
/// `data` is that of a waker of this table, whose reference is given up (W1).
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: W1, the reference is consumed.
    unsafe { task(data).unref() };
}
