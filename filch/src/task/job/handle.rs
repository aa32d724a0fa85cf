//! What is done with a job by those who have a handle to it: a reference to its cell.
//!
//! By the rules of `job`.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::{
    CANCELLED, CLOSED, Called, End, Job, Trunk, Waiter, ended, is_below, leave, trunk, unref_chain,
};
use crate::base::shim::Ordering;
use crate::task::context;
use crate::task::count::BATCH;
use crate::task::group::Group;
use crate::task::header::{Header, RawTask};
use crate::task::state::Launch;

impl Job {
    /// # Safety
    /// The caller owns a reference to `task`, a job made by `create`, and gives it up.
    pub(crate) unsafe fn from_owned(task: RawTask) -> Self {
        Self(task)
    }

    pub(crate) fn raw(&self) -> RawTask {
        self.0
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: our reference keeps the cell alive.
        unsafe { self.0.header() }
    }

    pub(super) fn trunk(&self) -> &Trunk {
        // SAFETY: our reference keeps the cell alive.
        unsafe { trunk(self.0) }
    }

    pub(super) fn address(&self) -> *const Header {
        self.0.0.as_ptr()
    }

    /// The parent of a job that the caller launches or runs (N1).
    pub(crate) fn parent(&self) -> Option<ManuallyDrop<Self>> {
        let parent = NonNull::new(self.trunk().parent.cast_mut())?;
        Some(ManuallyDrop::new(Self(RawTask(parent))))
    }

    /// Takes a unit for a child; false if the job has ended.
    #[must_use]
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        let this = self.trunk();
        if !ptr::eq(context::with(|cx| cx.purse.get()), self.address()) {
            return this.count.try_add(1);
        }
        // N6: this thread has called the closure.
        match this.purse.get() {
            0 => {
                this.count.add(BATCH);
                this.purse.set(BATCH - 1);
            }
            units => this.purse.set(units - 1),
        }
        true
    }

    /// Calls the closure of a fresh job here, within the running task, if this is its only handle.
    ///
    /// # Safety
    /// `group` is that of the task that runs here, on a worker, and the job has no parent.
    pub(crate) unsafe fn call_alone(self, group: *const Group) -> Called {
        let header = self.header();
        if !header.state.call_alone() {
            return Called::NotAlone(self);
        }
        // SAFETY: fresh, and nobody else has a handle.
        unsafe { header.join_group(group) };
        // SAFETY: the running task has a unit, and the job is called next.
        unsafe { Group::open_ledger(group) };
        let call = header.vtable.tree.as_ref().expect("a job of a tree").call;
        let outer = context::with(|cx| cx.task.replace(self.address()));
        // SAFETY: T8, the body is ours. No panic of the closure leaves the call.
        unsafe { call(self.0) };
        context::with(|cx| cx.task.set(outer));
        let this = self.trunk();
        let units = 1 + this.purse.replace(0);
        if header.state.is_alone() && this.count.is_only(units) {
            // N4.
            let end = this.take_failure();
            let task = ManuallyDrop::new(self).0;
            // SAFETY: the only reference was ours; body and failure are gone.
            unsafe { task.free_cell() };
            return Called::Ended(end);
        }
        header.state.end_call(Launch::Here);
        if this.count.sub(units) {
            // SAFETY: the count is finished, and the tree's reference is that of `end_call`.
            unsafe { ended(self.0) };
        }
        Called::Open(self)
    }

    /// Gives the unit of a child back that was dropped instead of run.
    ///
    /// # Safety
    /// The caller gives up a unit.
    pub(crate) unsafe fn leave_cancelled(&self) {
        self.trunk().fail(CANCELLED);
        // SAFETY: by the caller's promise.
        unsafe { leave(self.address()) };
    }

    /// Drops the reference that a child had while it was fresh (N1).
    ///
    /// # Safety
    /// The caller has launched that child, and calls once.
    pub(crate) unsafe fn forget_fresh_child(&self) {
        // SAFETY: by the caller's promise.
        unsafe { unref_chain(self.address()) };
    }

    /// Whether this job is a descendant of `other`, as far as the cell knows (N5).
    pub(crate) fn is_below(&self, other: &Self) -> bool {
        // SAFETY: our references keep the cells alive.
        unsafe { is_below(self.0, other.0) }
    }

    /// Whether the job and all below it have ended.
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `close`.
        self.trunk().waiters.load(Ordering::Acquire) == CLOSED
    }

    /// Has `waker` woken at the end; false if the job has ended.
    pub(crate) fn add_waiter(&self, waker: &Waker) -> bool {
        let waiters = &self.trunk().waiters;
        // ORDERING: Acquire pairs with the Release in `close`.
        let mut head = waiters.load(Ordering::Acquire);
        if head == CLOSED {
            return false;
        }
        let waiter = Box::into_raw(Box::new(Waiter { next: head, waker: waker.clone() }));
        loop {
            // ORDERING: Release pairs with the Acquire in `close`: the waker is seen. Acquire on
            // failure, as above.
            let pushed =
                waiters.compare_exchange(head, waiter, Ordering::Release, Ordering::Acquire);
            match pushed {
                Ok(_) => return true,
                Err(CLOSED) => {
                    // SAFETY: the box just made, which nobody has seen.
                    drop(unsafe { Box::from_raw(waiter) });
                    return false;
                }
                Err(now) => {
                    head = now;
                    // SAFETY: not in the list yet, so ours alone.
                    unsafe { (*waiter).next = now };
                }
            }
        }
    }

    /// What came of it; a panic is given once. The job has ended.
    pub(crate) fn take_end(&self) -> End {
        debug_assert!(self.is_closed());
        self.trunk().take_failure()
    }
}

impl Clone for Job {
    fn clone(&self) -> Self {
        self.header().state.add_handle();
        Self(self.0)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { self.0.unref() };
    }
}
