//! Which task is next: high before newest before oldest.
//!
//! N1. The newest-task slot gives at most `slot_streak` tasks in a row while others wait, so a
//!     pair of tasks that wake each other cannot keep the ring from running.
//! N2. A pull from the injector takes at most a fair share, and runs the first of it.

use std::ptr::{self, NonNull};

use super::worker::Worker;
use crate::base::shim::Ordering;
use crate::queue::injector::Injector;
use crate::task::header::{Header, RawTask};

impl Worker {
    /// The next task of this worker's own, or a high one of its lane.
    #[inline]
    pub(crate) fn next_local(&self) -> Option<RawTask> {
        let lane = self.lane();
        if !lane.high.is_empty()
            && let Some(task) = pop_one(&lane.high, 0)
        {
            return Some(task);
        }
        if self.runs_futures()
            && let Some(task) = self.next_future()
        {
            return Some(task);
        }
        if self.runs_jobs() { self.next_job() } else { None }
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

    /// Whether the newest-task slot is full. Only its owner, who asks, fills it.
    #[inline]
    pub(crate) fn has_newest(&self) -> bool {
        // ORDERING: Relaxed, only a look; nothing is read through the pointer.
        !self.slot().newest.load(Ordering::Relaxed).is_null()
    }

    /// Empties the newest-task slot.
    #[inline]
    pub(crate) fn take_newest(&self) -> Option<RawTask> {
        if !self.has_newest() {
            return None;
        }
        // ORDERING: Acquire pairs with the Release in `push_newest`. The sentry may come first.
        NonNull::new(self.slot().newest.swap(ptr::null_mut(), Ordering::Acquire)).map(RawTask)
    }

    #[inline]
    pub(crate) fn next_job(&self) -> Option<RawTask> {
        // SAFETY: S3, we are the owner.
        unsafe { self.slot().deque.pop() }.map(RawTask)
    }

    /// The periodic look at what waits outside.
    pub(crate) fn next_outside(&self, low_first: bool) -> Option<RawTask> {
        if low_first && let Some(task) = self.next_low() {
            return Some(task);
        }
        self.next_injected()
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
        let fair = lane.injector.len() / lane.workers + 1;
        // One more than fits, because the first does not go into the ring.
        let room = ring.free().min(ring.capacity() / 2) + 1;
        fair.min(room).min(self.shared().config.global_batch)
    }

    /// Takes up to `share` tasks, from a random shard on: the first is returned, the others go
    /// into the ring, which has room for them.
    fn pull(&self, injector: &Injector<Header>, share: usize) -> (Option<RawTask>, usize) {
        let start = self.rng.borrow_mut().below(injector.shards());
        let mut first = None;
        let taken = injector.pop_batch(share, start, &mut |item| match first {
            None => first = Some(RawTask(item)),
            Some(_) => self.take_in(RawTask(item)),
        });
        (first, taken)
    }

    /// Puts a task from outside into the own queue that fits it.
    pub(crate) fn take_in(&self, task: RawTask) {
        // SAFETY: an entry that we hold keeps the cell alive (T4).
        let kind = unsafe { task.header() }.vtable.kind;
        if kind == crate::task::header::Kind::Job {
            // SAFETY: S3, we are the owner.
            unsafe { self.slot().deque.push(task.0) };
        } else {
            self.push_ring(task);
        }
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
