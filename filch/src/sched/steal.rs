//! Exploring: whose work an idle worker takes.
//!
//! Victims are the lane's slots and, after them, the injector's shards, numbered in one row. The
//! search starts where the last one succeeded (work tends to stay where it was), then goes
//! anywhere at random, a bounded number of times, at last with a pause between tries.
//!
//! X1. Random probing guarantees nothing; only the full look of the two-phase sleep does.
//! X2. The stop is read between tries.
//! X3. A worker that holds no right to search (the limit is reached) does not explore.
//! X4. How many tries with a pause follow, up to `explore_yields`, is learnt: half as many after a
//!     search that found nothing, more after one that did or a sleep that was too short to pay.
//! X5. A job is stolen once it has lain for a moment (`is_ripe`): a theft costs thief and owner a
//!     microsecond each, which a job that its owner is about to take back is not worth. Jobs below one
//!     that was seen so are ripe too, and so is everything for a thief that was woken for it.

use std::hint::spin_loop;

use super::worker::{Found, Worker};
use crate::base::sim;
use crate::queue::deque::{self, Deque};
use crate::queue::ring;
use crate::task::header::{Header, RawTask};

/// Hints to the processor in one pause between tries. Guessed: a few hundred cycles.
const PAUSE_HINTS: usize = 8;

/// Pauses between two looks of a thief of jobs. Measured: see ADR 0016.
const JOB_STRIDE: usize = 8;

/// Pauses before a job is ripe. Measured: some 2 µs, about what a theft costs its owner.
const RIPE_PAUSES: usize = 16;

/// Gives way between tries: to the other thread of the core, not to the system. After a
/// `sched_yield` on a loaded machine the thread may be gone for milliseconds, and everybody relies
/// on it meanwhile, because it is counted as searching.
pub(super) fn pause() {
    sim::point();
    (0..PAUSE_HINTS).for_each(|_| spin_loop());
}

impl Worker {
    /// Looks for work beyond the own queues, which are empty.
    pub(crate) fn explore(&self) -> Found {
        let lane = self.lane();
        if !self.searching.get() {
            if !lane.idle.try_search(lane.searchers) {
                return self.found_low();
            }
            self.searching.set(true);
        }
        let config = &self.shared().config;
        let tries = config.tries_among(lane.workers);
        let mut victim = self.victim.get();
        let mut attempt = 0;
        while attempt < tries + self.patience.get() {
            attempt += if attempt < tries { 1 } else { self.stride() };
            if let Some(task) = self.try_victim(victim) {
                self.victim.set(victim);
                if attempt > tries {
                    self.gain_patience();
                }
                return Found::Task(task);
            }
            if self.is_stopped() {
                return Found::Stop;
            }
            // Who pushed these relied on us, because we search.
            if let Some(task) = self.next_high() {
                return Found::Task(task);
            }
            if self.has_private() {
                break;
            }
            if attempt >= tries
                && let Some(task) = self.next_low()
            {
                return Found::Task(task);
            }
            if attempt > tries {
                (0..self.stride()).for_each(|_| pause());
            }
            victim = self.rng.borrow_mut().below(lane.width() + lane.injector.shards());
        }
        self.patience.set(self.patience.get() / 2);
        Found::Nothing
    }

    /// How many pauses make one: a look at the deque of a worker that forks takes the line away
    /// that it writes every few nanoseconds, so thieves of jobs look in less often.
    fn stride(&self) -> usize {
        if self.runs_futures() { 1 } else { JOB_STRIDE }
    }

    /// Waiting has paid off, or would have: the next search may pause more often (X4).
    pub(crate) fn gain_patience(&self) {
        let most = self.shared().config.explore_yields;
        self.patience.set(most.min(2 * self.patience.get() + 8));
    }

    fn found_low(&self) -> Found {
        self.next_low().map_or(Found::Nothing, Found::Task)
    }

    /// Looks at every victim once: the second look before a sleep saw something.
    pub(crate) fn sweep(&self) -> Option<RawTask> {
        let all = self.lane().width() + self.lane().injector.shards();
        let start = self.rng.borrow_mut().below(all);
        (0..all)
            .find_map(|i| self.try_victim((start + i) % all))
            .or_else(|| self.next_spilled())
            .or_else(|| self.next_low())
    }

    /// One try at one victim: half of a ring, one job of a deque, or a share of a shard.
    fn try_victim(&self, victim: usize) -> Option<RawTask> {
        let lane = self.lane();
        let counters = &self.slot().counters;
        counters.steals_tried.add(1);
        let width = lane.width();
        let (task, moved) = if victim >= width {
            let share = self.fair_share();
            let mut first = None;
            let taken = lane.injector.steal_from(victim - width, share, &mut |item| match first {
                None => first = Some(RawTask(item)),
                Some(_) => self.push_ring(RawTask(item)),
            });
            (first, taken)
        } else if lane.slot_of(victim as u32) == self.index() {
            (None, 0)
        } else {
            self.steal_from_slot(lane.slot_of(victim as u32))
        };
        if task.is_some() {
            counters.steals_won.add(1);
            counters.stolen.add(moved as u64);
            self.announce_moved(moved);
        }
        task
    }

    fn steal_from_slot(&self, index: usize) -> (Option<RawTask>, usize) {
        let victim = &self.shared().slots[index];
        if self.runs_futures() && !victim.ring.is_empty() {
            // SAFETY: S3, the destination is our own ring, and the victim is another worker.
            let stolen = unsafe { victim.ring.steal_into(&self.slot().ring) };
            if let ring::Steal::Taken { first, moved } = stolen {
                return (Some(RawTask(first)), moved);
            }
        }
        if self.runs_jobs() && self.is_ripe(index, &victim.deque, || false) {
            self.slot().counters.heavy_barriers.add(1);
            if let deque::Steal::Taken(job) = victim.deque.steal() {
                self.note_theft(RawTask(job), index);
                return (Some(RawTask(job)), 1);
            }
        }
        (None, 0)
    }

    /// Whether the oldest job in the deque of slot `index` is there to stay (X5). Takes a moment,
    /// unless the job was seen before or `hurry` says not to.
    pub(super) fn is_ripe(
        &self,
        index: usize,
        deque: &Deque<Header>,
        hurry: impl Fn() -> bool,
    ) -> bool {
        let Some((top, bottom)) = deque.bounds() else { return false };
        let (slot, seen) = self.ripe.get();
        if (slot == index && top < seen) || self.woken.replace(false) {
            return true;
        }
        for _ in 0..RIPE_PAUSES {
            if sim::cuts_short() {
                break;
            }
            pause();
            if hurry() {
                return false;
            }
        }
        let stays = deque.bounds().is_some_and(|(now, _)| now == top);
        if stays {
            self.ripe.set((index, bottom));
        }
        stays
    }
}
