//! Which task is next: high before newest before oldest.
//!
//! N1. The newest-task slot gives at most `slot_streak` tasks in a row while others wait, so a
//!     pair of tasks that wake each other cannot keep the ring from running.
//! N2. A pull from the injector takes at most a fair share, and runs the first of it.
//! N3. On a worker of both roles, futures come before jobs, but for every fourth periodic look: tasks
//!     that never stop waking do not keep jobs from running.

use std::ptr::{self, NonNull};

use super::worker::Worker;
use crate::base::shim::Ordering;
use crate::queue::injector::Injector;
use crate::task::header::{Header, RawTask};

impl Worker {
    /// The next task of this worker's own, or a high one of its lane.
    #[inline]
    pub(crate) fn next_local(&self) -> Option<RawTask> {
        self.next_high().or_else(|| self.next_own())
    }

    #[inline]
    pub(crate) fn next_high(&self) -> Option<RawTask> {
        pop_one(&self.lane().high, 0)
    }

    /// The next task of this worker's own.
    #[inline]
    pub(crate) fn next_own(&self) -> Option<RawTask> {
        if self.runs_futures()
            && let Some(task) = self.next_future()
        {
            return Some(task);
        }
        if self.runs_jobs() { self.next_job() } else { None }
    }

    /// As `next_own`, with the turns changed (N3).
    pub(crate) fn next_own_job_first(&self) -> Option<RawTask> {
        let job = if self.runs_jobs() { self.next_job() } else { None };
        job.or_else(|| self.next_own())
    }

    /// Slot, then ring; the ring first once the slot has had its turn (N1).
    #[inline]
    fn next_future(&self) -> Option<RawTask> {
        let streak = self.streak.get();
        if streak < self.shared().config.slot_streak
            && let Some(task) = self.take_newest()
        {
            self.streak.set(streak + 1);
            return Some(task);
        }
        self.streak.set(0);
        // SAFETY: S3, we are the owner.
        let oldest = unsafe { self.slot().ring.pop() }.map(RawTask);
        oldest.or_else(|| self.take_newest())
    }

    /// Whether something lies in the newest-task slot.
    pub(crate) fn has_newest(&self) -> bool {
        // ORDERING: Relaxed, only this thread fills the slot.
        !self.slot().newest.load(Ordering::Relaxed).is_null()
    }

    /// Empties the newest-task slot.
    #[inline]
    pub(crate) fn take_newest(&self) -> Option<RawTask> {
        let newest = &self.slot().newest;
        // ORDERING: Relaxed, only a look; the swap decides.
        if newest.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // ORDERING: Acquire pairs with the Release in `push_newest`. The sentry may come first.
        NonNull::new(newest.swap(ptr::null_mut(), Ordering::Acquire)).map(RawTask)
    }

    #[inline]
    pub(crate) fn next_job(&self) -> Option<RawTask> {
        // SAFETY: S3, we are the owner.
        unsafe { self.slot().deque.pop() }.map(RawTask)
    }

    /// The task that waits longest among those that full rings gave up.
    pub(crate) fn next_oldest_spilled(&self) -> Option<RawTask> {
        self.lane().spill.pop_oldest_task().map(RawTask)
    }

    /// The newest batch that a full ring gave up: the first to run, the others into our ring,
    /// which is empty.
    pub(crate) fn next_spilled(&self) -> Option<RawTask> {
        let batch = self.lane().spill.pop_newest()?;
        let moved = batch.len();
        let mut batch = batch.into_iter();
        let first = batch.next().map(RawTask);
        // SAFETY: S3, we are the owner.
        unsafe { self.slot().ring.push_batch(&mut batch) };
        batch.for_each(|task| self.push_ring(RawTask(task)));
        self.announce_moved(moved);
        first
    }

    /// A fair share of the injector: the first to run, the others into the ring (N2). Jobs come
    /// one at a time, because a batch of heavy ones in one deque would be hoarded.
    pub(crate) fn next_injected(&self) -> Option<RawTask> {
        let lane = self.lane();
        if lane.injector.is_empty() {
            return None;
        }
        let (first, taken) = self.pull(&lane.injector, self.fair_share());
        if taken > 0 {
            self.slot().counters.injector_pulls.add(1);
            self.announce_moved(taken);
        }
        first
    }

    /// Moving is pushing: what came along with the task in hand is announced, unless this worker
    /// searches, for then `stop_searching` does it.
    pub(crate) fn announce_moved(&self, moved: usize) {
        if moved > 1 && !self.searching.get() {
            self.shared().notify(self.lane());
        }
    }

    /// How many tasks one pull may take.
    pub(crate) fn fair_share(&self) -> usize {
        if !self.runs_futures() {
            return 1;
        }
        let (lane, ring) = (self.lane(), &self.slot().ring);
        let fair = lane.injector.len() / lane.workers() + 1;
        let room = ring.free().min(ring.capacity() / 2);
        // The first does not go into the ring, so there is always room for one.
        fair.min(room).min(self.shared().config.global_batch).max(1)
    }

    /// Takes up to `share` tasks, from a random shard on: the first is returned, the others go
    /// into the ring, which has room for them.
    fn pull(&self, injector: &Injector<Header>, share: usize) -> (Option<RawTask>, usize) {
        let start = self.rng.borrow_mut().below(injector.shards());
        let mut first = None;
        let taken = injector.pop_batch(share, start, &mut |item| match first {
            None => first = Some(RawTask(item)),
            Some(_) => self.push_ring(RawTask(item)),
        });
        (first, taken)
    }

    /// A low task, if nothing better was found.
    pub(crate) fn next_low(&self) -> Option<RawTask> {
        pop_one(&self.lane().low, 0)
    }
}

fn pop_one(queue: &Injector<Header>, shard: usize) -> Option<RawTask> {
    if queue.is_empty() {
        return None;
    }
    let mut task = None;
    queue.pop_batch(1, shard, &mut |item| task = Some(RawTask(item)));
    task
}
