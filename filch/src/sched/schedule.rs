//! Where a ready task goes, and who is woken for it.
//!
//! | task | on a worker of its lane | elsewhere |
//! | --- | --- | --- |
//! | future | newest-task slot; what it displaces goes to the ring | the lane's injector |
//! | job | the worker's deque | the lane's injector |
//! | high or low | the lane's high or low queue | the same |
//! | blocking | the queue of `blockers` | the same |
//! | pinned, posted to a worker | its worker's private queue | its worker's mailbox |
//!
//! D1. Every push that makes work visible to others is followed by one `notify` of the lane, or, by
//!     a worker that searches, by the look of `Worker::pass_on`. The
//!     exceptions are covered by the sentry, which is armed: the newest-task slot, which is invisible; a
//!     task that goes back to its own worker's ring, which is not more work than before; and what an
//!     event core makes ready, which is shared when it is much or has waited for 100 µs.
//! D2. A foreign thread keeps the runtime alive until it has notified: the task it pushed may run,
//!     and the runtime end, before that.
//!
//! Not here: what the woken worker does (`worker`).

use std::ptr::NonNull;

use super::shared::{Lane, Shared};
use super::worker::Worker;
use crate::base::shim::Ordering;
use crate::config::hooks::Role;
use crate::idle::{Notify, NotifyMany};
use crate::queue::spill::Batch;
use crate::task::context;
use crate::task::header::{Header, Kind, RawTask};
use crate::task::state::Priority;

/// `Home::schedule`: from any thread.
///
/// # Safety
/// `shared` is a `Shared` that is alive at the call (the task holds a unit), and the caller may
/// push the task's entry.
pub(crate) unsafe fn from_anywhere(shared: *const (), task: RawTask) {
    let shared: *const Shared = shared.cast();
    // SAFETY: the worker of this thread lives as long as its loop, which we are inside of.
    if let Some(worker) = unsafe { Worker::of_runtime(shared) } {
        worker.accept(task);
        return;
    }
    // SAFETY: alive at the call.
    if unsafe { &*shared }.process().is_parent() {
        // W4 of `forked`.
        return;
    }
    // D2.
    // SAFETY: alive at the call.
    let shared = unsafe { Shared::to_arc(shared) };
    shared.inject(task);
}

/// `Home::begin`: from any thread.
///
/// # Safety
/// As for [`from_anywhere`]; the task is a job that waited, and the caller keeps its cell alive.
pub(crate) unsafe fn begin_from_anywhere(shared: *const (), task: RawTask) {
    let shared: *const Shared = shared.cast();
    // SAFETY: the worker of this thread lives as long as its loop, which we are inside of.
    if let Some(worker) = unsafe { Worker::of_runtime(shared) } {
        worker.shared().begin_job(Some(worker), task);
        return;
    }
    // SAFETY: alive at the call.
    if unsafe { &*shared }.process().is_parent() {
        // W4 of `forked`.
        return;
    }
    // D2.
    // SAFETY: alive at the call.
    let shared = unsafe { Shared::to_arc(shared) };
    shared.begin_job(None, task);
}

impl Shared {
    /// Queues a job that waited, whose cell the caller keeps alive, on the thread of `worker` if that is one. It can be claimed
    /// before anybody is woken for it, since a waker may be the user's code (T11 of `task/state`).
    fn begin_job(&self, worker: Option<&Worker>, task: RawTask) {
        // SAFETY: by the caller's promise.
        let header = unsafe { task.header() };
        let lane = self.lane_of(Kind::Job);
        let normal = header.state.priority() == Priority::Normal;
        let own = worker.filter(|worker| normal && worker.runs_jobs());
        match own {
            Some(worker) => {
                debug_assert!(std::ptr::eq(worker.lane(), lane));
                // SAFETY: S3, we are the owner.
                unsafe { worker.slot().deque.push(task.0) };
            }
            None => lane.push(header, task),
        }
        header.state.may_be_claimed();
        self.notify(lane);
        if own.is_none() {
            self.grow_with_load(lane);
        }
    }

    /// Queues a ready task where any thread may, and wakes whom it takes.
    pub(crate) fn inject(&self, task: RawTask) {
        // SAFETY: the caller may push the entry, so the task is not DONE.
        let header = unsafe { task.header() };
        let kind = header.vtable.kind;
        if matches!(kind, Kind::Pinned | Kind::Posted) {
            // SAFETY: not DONE, the body is there.
            let slot = unsafe { (header.vtable.slot)(task) } as usize;
            return self.post(slot, task);
        }
        if kind == Kind::Blocking {
            return self.push_blocking(task);
        }
        let lane = self.lane_of(kind);
        lane.push(header, task);
        self.notify(lane);
        self.grow_with_load(lane);
    }

    /// Queues several ready tasks of one kind and of normal priority, and wakes one worker for all of them:
    /// who takes more than one passes the rest on (I4 of `idle`).
    pub(crate) fn push_many(&self, kind: Kind, tasks: impl Iterator<Item = RawTask>) {
        let lane = self.lane_of(kind);
        // SAFETY: the worker of this thread lives as long as its loop, which we are inside of.
        let worker = unsafe { Worker::of_runtime(self) };
        let here = worker.filter(|worker| std::ptr::eq(worker.lane(), lane));
        match here {
            Some(worker) if kind == Kind::Future && worker.runs_futures() => {
                tasks.for_each(|task| worker.push_ring(task));
            }
            Some(worker) if worker.runs_jobs() => {
                // The last first: the owner takes the newest, and so runs the batch in its order.
                let tasks: Vec<RawTask> = tasks.collect();
                for task in tasks.into_iter().rev() {
                    // SAFETY: S3, we are the owner.
                    unsafe { worker.slot().deque.push(task.0) };
                }
            }
            _ => {
                let hint = context::with(|cx| cx.number());
                // SAFETY: the entry is pushed once, and the task lives until it is popped (T4).
                tasks.for_each(|task| unsafe { lane.injector.push(task.0, hint) });
            }
        }
        self.notify(lane);
        self.grow_with_load(lane);
    }

    /// Puts a task into the mailbox of the worker in `slot` and wakes that worker.
    fn post(&self, slot: usize, task: RawTask) {
        // SAFETY: as in `inject`.
        unsafe { self.slots[slot].mailbox.push(task.0) };
        self.wake_slot(slot);
    }

    /// Wakes the worker in `slot` if it sleeps, after a push that only it can take.
    pub(crate) fn wake_slot(&self, slot: usize) {
        let lane = &self.lanes[self.slots[slot].lane];
        if lane.idle.wake_specific(lane.id_of(slot)) {
            self.unpark(slot);
        }
    }

    /// Wakes a worker of `lane` for work that was just pushed, if it takes one.
    #[inline]
    pub(crate) fn notify(&self, lane: &Lane) {
        match lane.idle.notify() {
            Notify::Nobody => {}
            Notify::Wake(id) => self.wake(lane, id),
            Notify::WakeLate(id) => {
                self.wake(lane, id);
                self.saturated(lane);
            }
            Notify::Saturated => self.saturated(lane),
        }
    }

    /// Wakes workers of `lane` so that as many as `wanted` look for work, or as many as there are.
    pub(crate) fn notify_many(&self, lane: &Lane, wanted: usize) {
        let mut woken = Vec::new();
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        match lane.idle.notify_many(wanted, &mut woken) {
            NotifyMany::Done => {}
            NotifyMany::Saturated => self.saturated(lane),
        }
        for id in woken {
            self.wake(lane, id);
        }
    }

    #[cold]
    fn wake(&self, lane: &Lane, id: u32) {
        // SAFETY: the worker of this thread lives as long as its loop, which we are inside of.
        if let Some(worker) = unsafe { Worker::of_runtime(self) } {
            worker.slot().counters.wakes.add(1);
        }
        self.unpark(lane.slot_of(id));
    }

    /// Work has come, and every worker of the lane is busy or comes late.
    #[cold]
    fn saturated(&self, lane: &Lane) {
        self.watch(lane);
        if lane.crew.is_short() {
            let _ = self.reinforce(lane);
        }
    }

    /// Has the sentry watch the lane.
    pub(crate) fn watch(&self, lane: &Lane) {
        if lane.runs_futures() && lane.idle.arm() {
            self.sentry.wake();
        }
    }
}

impl Lane {
    /// Whether the lane runs async tasks, whose workers the sentry watches.
    pub(crate) fn runs_futures(&self) -> bool {
        self.role != Role::Compute
    }

    /// Pushes the entry of `task`, which is the caller's to push, where any thread may.
    fn push(&self, header: &Header, task: RawTask) {
        let hint = context::with(|cx| cx.number());
        // SAFETY: the entry is pushed once, and the task lives until it is popped (T4).
        unsafe { self.queue(header.state.priority()).push(task.0, hint) };
    }

    fn queue(&self, priority: Priority) -> &crate::queue::injector::Injector<Header> {
        match priority {
            Priority::High => &self.high,
            Priority::Normal => &self.injector,
            Priority::Low => &self.low,
        }
    }
}

impl Worker {
    /// Queues a ready task, on the thread of this worker.
    #[inline]
    pub(crate) fn accept(&self, task: RawTask) {
        // SAFETY: the caller may push the entry, so the task is not DONE.
        let header = unsafe { task.header() };
        let normal = header.state.priority() == Priority::Normal;
        match header.vtable.kind {
            Kind::Future if normal && self.runs_futures() => self.push_newest(task),
            Kind::Job if normal && self.runs_jobs() => self.push_job(task),
            Kind::Pinned | Kind::Posted if self.is_home_of(task) => self.keep(task),
            _ => self.shared().inject(task),
        }
    }

    /// Whether a pinned task, whose cell the caller keeps alive, is pinned here.
    pub(crate) fn is_home_of(&self, task: RawTask) -> bool {
        // SAFETY: by the caller's promise.
        let header = unsafe { task.header() };
        // SAFETY: by the caller's promise.
        let ours = unsafe { self.cache().is_from_here(task.0.cast()) };
        // SAFETY: by the caller's promise.
        ours && unsafe { (header.vtable.slot)(task) } as usize == self.index()
    }

    /// Puts a future into the newest-task slot (D1).
    #[inline]
    fn push_newest(&self, task: RawTask) {
        // ORDERING: Release publishes the task to the sentry, which takes it with Acquire when we
        // are stuck; Acquire takes back what we or the sentry left.
        let old = self.slot().newest.swap(task.0.as_ptr(), Ordering::AcqRel);
        match NonNull::new(old) {
            Some(old) => {
                self.push_ring(RawTask(old));
                if self.delivering.get() {
                    self.ensure_watched();
                    self.held_back.set(true);
                } else {
                    self.shared().notify(self.lane());
                }
            }
            None => self.ensure_watched(),
        }
    }

    /// Moves what lies in the newest-task slot to where others find it.
    pub(crate) fn offer_newest(&self) {
        if let Some(newest) = self.take_newest() {
            self.push_ring(newest);
            self.shared().notify(self.lane());
        }
    }

    /// Queues a task that has just run and wants to run again, behind the others (D1).
    pub(crate) fn requeue(&self, task: RawTask) {
        // SAFETY: the entry is ours to push, so the task is not DONE.
        let header = unsafe { task.header() };
        match (header.vtable.kind, header.state.priority()) {
            (Kind::Pinned | Kind::Posted, _) => self.keep(task),
            (Kind::Future, Priority::Normal) => {
                self.push_ring(task);
                self.ensure_watched();
            }
            _ => self.shared().inject(task),
        }
    }

    /// Appends to the ring; when it is full, the oldest are spilled first.
    #[inline]
    pub(crate) fn push_ring(&self, task: RawTask) {
        // SAFETY: S3, we are the owner.
        if let Err(full) = unsafe { self.slot().ring.push(task.0) } {
            self.overflow(full.0);
        }
    }

    #[cold]
    fn overflow(&self, task: NonNull<Header>) {
        let (slot, lane) = (self.slot(), self.lane());
        slot.counters.overflows.add(1);
        let most = self.shared().config.outbound_batch_or_default();
        let mut batch = Batch::with_capacity(most);
        // SAFETY: S3, we are the owner.
        unsafe { slot.ring.take_oldest(most, &mut |item| batch.push_back(item)) };
        // SAFETY: S3, we are the owner.
        if let Err(full) = unsafe { slot.ring.push(task) } {
            // A thief is at work on the ring: the new task goes out alone.
            batch.push_back(full.0);
        }
        if !batch.is_empty() {
            lane.spill.push(batch);
            self.shared().notify(lane);
        }
    }

    /// Puts a job into the worker's deque; it runs jobs.
    #[inline]
    pub(crate) fn push_job(&self, task: RawTask) {
        // SAFETY: S3, we are the owner.
        unsafe { self.slot().deque.push(task.0) };
        self.shared().notify(self.lane());
    }
}
