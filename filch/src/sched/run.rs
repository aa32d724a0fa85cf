//! One task on a worker: from its entry, which came out of a queue, to what becomes of it.
//!
//! A task runs inside of a beat, by which the sentry and neighbours see that the worker is inside of it, and
//! with the worker's deque open if that runs jobs. Runs may nest: a task that waits has others run.
//!
//! Not here: which task is next (`next`), jobs of trees (`forks`) and nodes of graphs (`nodes`).

use std::sync::Arc;

use super::worker::Worker;
use crate::base::shim::Ordering;
use crate::queue::deque::Deque;
use crate::task::context;
use crate::task::group::Group;
use crate::task::header::{Header, Ran, RawTask};
use crate::task::job;
use crate::task::state::Start;

/// How things were before a task.
#[must_use]
pub(super) struct Entered {
    beat: u64,
    deque: *const Deque<Header>,
}

impl Worker {
    /// Runs a task whose entry this worker has taken out of a queue.
    pub(crate) fn run(&self, task: RawTask) {
        if self.searching.get() {
            self.stop_searching();
        }
        if let Some(job) = task.as_stack_job() {
            return self.run_fork(job);
        }
        if let Some(node) = task.as_node() {
            return self.run_node(node);
        }
        // SAFETY: T4, the entry keeps the cell alive.
        let start = unsafe { task.header() }.state.start();
        // SAFETY: that was the start.
        unsafe { self.run_started(task, start) };
    }

    /// # Safety
    /// `start` is what [`crate::task::state::State::start`] has just returned.
    pub(super) unsafe fn run_started(&self, task: RawTask, start: Start) {
        let start = match start {
            // The entry is gone, and with it what kept the cell for us.
            Start::Tombstone => return,
            // SAFETY: that was the last reference.
            Start::TombstoneLast => return unsafe { task.free() },
            Start::Run | Start::Detached if self.is_aborting() => Start::Cancelled,
            Start::Detached => {
                // SAFETY: `start` gave us the body, which keeps the cell.
                let header = unsafe { task.header() };
                // SAFETY: `start` gave us the body, and no frame was entered for it.
                unsafe { self.shared().adopt(header) };
                Start::Run
            }
            start => start,
        };
        // SAFETY: `start` gave us the body, which keeps the cell.
        let header = unsafe { task.header() };
        // SAFETY: the task is not DONE (T2), so its group is there, and it runs next.
        unsafe { Group::open_ledger(header.group_ptr()) };
        if header.vtable.tree.is_none() {
            // N6: a job of a tree sees to it itself.
            job::settle();
        }
        let entered = self.enter_task();
        // SAFETY: `start` gave us the body.
        let ran = unsafe { task.execute(start, self.shared().config.poll_budget as u32) };
        self.leave_task(entered);
        if ran == Ran::Requeue {
            self.requeue(task);
        }
        self.settle_for_others();
    }

    /// Runs a job that this thread has claimed through its handle.
    ///
    /// # Safety
    /// `start` is what [`crate::task::state::State::claim`] has just returned.
    pub(crate) unsafe fn run_claimed(&self, task: RawTask, start: Start) {
        let entered = self.enter_task();
        // SAFETY: by the caller's promise.
        let ran = unsafe { task.execute(start, self.shared().config.poll_budget as u32) };
        debug_assert_eq!(ran, Ran::Settled, "jobs do not yield");
        self.leave_task(entered);
        self.settle_for_others();
    }

    /// Tells the sentry that a task begins, and lets it fork if this worker runs jobs (X5).
    #[inline]
    pub(super) fn enter_task(&self) -> Entered {
        let slot = self.slot();
        slot.counters.polls.add(1);
        // ORDERING: Relaxed, only this thread writes the beat.
        let beat = slot.beat.load(Ordering::Relaxed);
        // ORDERING: Relaxed, the sentry compares readings that are milliseconds apart.
        slot.beat.store((beat + 1) | 1, Ordering::Relaxed);
        let deque =
            if self.runs_jobs() { self.open_deque() } else { context::with(|cx| cx.deque.get()) };
        Entered { beat, deque }
    }

    /// Lets this thread fork into this worker's deque (X5); returns what was open before.
    #[inline]
    pub(super) fn open_deque(&self) -> *const Deque<Header> {
        context::with(|cx| {
            cx.idle.set(Arc::as_ptr(&self.lane().idle));
            cx.deque.replace(&self.slot().deque)
        })
    }

    /// The beat goes on, with the parity of before the task: nested runs keep it odd.
    #[inline]
    pub(super) fn leave_task(&self, entered: Entered) {
        context::with(|cx| cx.deque.set(entered.deque));
        let slot = self.slot();
        // ORDERING: Relaxed, only this thread writes the beat.
        let beat = slot.beat.load(Ordering::Relaxed);
        let step = if entered.beat % 2 == beat % 2 { 2 } else { 1 };
        // ORDERING: Relaxed, as in `enter_task`.
        slot.beat.store(beat + step, Ordering::Relaxed);
    }

    /// C4: what goes on after a task is the worker's loop, which settles before it rests; or a task
    /// that waited, perhaps of another group; or a guest between two calls. Those do not settle.
    #[inline]
    pub(super) fn settle_for_others(&self) {
        let group = context::with(|cx| cx.group.get());
        let settles_later =
            if group.is_null() { !self.is_guest() } else { Group::is_in_ledger(group) };
        if !settles_later {
            Group::settle();
        }
    }

    /// Shows the sentry that the task in hand makes progress.
    pub(crate) fn beat(&self) {
        let slot = self.slot();
        // ORDERING: Relaxed, only this thread writes the beat.
        let beat = slot.beat.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as in `enter_task`.
        slot.beat.store(beat + 2, Ordering::Relaxed);
    }
}
