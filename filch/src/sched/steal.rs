//! Exploring: whose work an idle worker takes.
//!
//! Victims are the lane's slots and, after them, the injector's shards, numbered in one row. The
//! search starts where the last one succeeded (work tends to stay where it was), then goes
//! anywhere at random, a bounded number of times, at last with a pause between tries.
//!
//! X1. Random probing guarantees nothing; only the full look of the two-phase sleep does.
//! X2. The stop is read between tries.
//! X3. A worker that holds no right to search (the limit is reached) does not explore.
//! X4. How many tries with a pause follow, up to `explore_yields`, is learnt by thieves of futures: half as many after a
//!     search that found nothing, more after one that did or a sleep that was too short to pay, because
//!     somebody ended it for work. Completions are no such work: they come to the kernel first.
//! X5. A job is stolen once it is ripe (`ripe`).

use std::hint::spin_loop;
use std::time::Duration;

use super::worker::{Found, Worker};
use crate::base::sim;
use crate::queue::deque::{self, Deque};
use crate::queue::ring;
use crate::task::header::{Header, RawTask};

/// Hints to the processor in one pause between tries. Guessed; measured, a pause is 0.2 µs.
const PAUSE_HINTS: usize = 8;

/// Pauses of a thief of jobs for each of `explore_yields`: some 130 µs in all. Guessed; the best of
/// the few values tried (ADR 0016), as are those below.
const JOB_PATIENCE: usize = 4;

/// Pauses before its first look, and most between two: some 2 and 14 µs. Guessed.
const FIRST_GAP: usize = 8;
const LAST_GAP: usize = 64;

/// Pauses between two looks of a thief that has just run a node of a graph: 1 µs. Guessed. What a worker makes ready
/// beside the node in its hand it comes back for in a moment, and is taken without a barrier.
const NODE_GAP: usize = 4;

/// Pauses between two looks of a thief that has lost its patience and still sees jobs that are not ripe:
/// some 55 µs. Guessed.
pub(super) const TIRED_GAP: usize = 256;

/// A job that took less was not worth a theft. Guessed.
const BRIEF: Duration = Duration::from_micros(3);

impl Worker {
    /// Gives way between tries: to the other thread of the core, not to the system. After a
    /// `sched_yield` on a loaded machine the thread may be gone for milliseconds, and everybody relies
    /// on it meanwhile, because it is counted as searching.
    pub(super) fn pause(&self) {
        sim::point();
        (0..PAUSE_HINTS).for_each(|_| spin_loop());
        self.ripeness.paused();
    }

    /// Looks for work beyond the own queues, which are empty.
    pub(crate) fn explore(&self) -> Found {
        let lane = self.lane();
        if self.looks_after_drivers()
            && let Some(task) = self.next_local()
        {
            return Found::Task(task);
        }
        if !self.searching.get() {
            if !lane.idle.try_search(lane.searchers(&self.shared().config)) {
                return self.found_low();
            }
            self.searching.set(true);
        }
        let tries = self.shared().config.tries_among(lane.workers());
        let mut victim = self.victim.get();
        for attempt in 1..=tries {
            let low = attempt == tries && !self.ripeness.has_noted();
            if let Some(found) = self.probe(victim, low) {
                return found;
            }
            victim = self.random_victim();
        }
        if self.runs_futures() { self.linger() } else { self.linger_for_jobs() }
    }

    fn random_victim(&self) -> usize {
        let candidates = self.lane().width() + self.lane().injector.shards();
        let script = self.shared().script.as_ref();
        let scripted = script.and_then(|script| script.for_victim(candidates));
        scripted.unwrap_or_else(|| self.rng.borrow_mut().below(candidates))
    }

    /// One try, and a look at what else may end the search.
    fn probe(&self, victim: usize, low: bool) -> Option<Found> {
        if let Some(task) = self.try_victim(victim) {
            self.victim.set(victim);
            return Some(Found::Task(task));
        }
        self.end_of_search(low)
    }

    /// What ends a search besides a find: the stop, high tasks, whose pusher relied on us because we
    /// search, mail, and, when the normal ones have been looked for, low tasks; but no low one while a
    /// normal one ripens.
    fn end_of_search(&self, low: bool) -> Option<Found> {
        if self.is_stopped() {
            return Some(Found::Stop);
        }
        if let Some(task) = self.next_high() {
            return Some(Found::Task(task));
        }
        if self.has_private() {
            return Some(Found::Nothing);
        }
        if low { self.next_low().map(Found::Task) } else { None }
    }

    /// More tries, with a pause between them (X4).
    fn linger(&self) -> Found {
        if self.has_dense_timers() {
            // It will look again in a moment, when it wakes for them.
            return Found::Nothing;
        }
        for _ in 0..self.patience.get() {
            self.pause();
            if self.sees_completions() {
                // No find: what is there is this worker's own, and comes with the next step.
                return Found::Nothing;
            }
            if let Some(found) = self.probe(self.random_victim(), true) {
                self.gain_patience();
                return found;
            }
        }
        self.patience.set(self.patience.get() / 2);
        Found::Nothing
    }

    /// The same for a thief of jobs: looks at all victims, at growing distances. Each look takes a
    /// line away that a worker which forks writes every few nanoseconds, and each sleep of ours
    /// costs such a worker a wake-up; so few looks, for a longer time.
    fn linger_for_jobs(&self) -> Found {
        if self.ripeness.tired.replace(false) {
            return self.look_once_more();
        }
        let mut left = JOB_PATIENCE * self.shared().config.explore_yields;
        let nodes = self.found_node.get();
        let mut gap = if nodes { NODE_GAP } else { FIRST_GAP };
        while left > 0 {
            let ripens = self.ripeness.next_due().map_or(gap, |due| due.min(LAST_GAP));
            if let Some(found) = self.look_after(ripens.min(left)) {
                return found;
            }
            left -= ripens.min(left);
            gap = if nodes { NODE_GAP } else { LAST_GAP.min(2 * gap) };
        }
        self.look_once_more()
    }

    /// What a thief does that has lost its patience: sleep, unless it still sees jobs that may ripen. The
    /// second look before the sleep would see them too, at the price of a barrier.
    fn look_once_more(&self) -> Found {
        if self.ripeness.next_due().is_none() {
            return Found::Nothing;
        }
        if let Some(found) = self.look_after(TIRED_GAP) {
            return found;
        }
        if let Some(task) = self.next_low() {
            return Found::Task(task);
        }
        self.ripeness.tired.set(true);
        Found::Unripe
    }

    /// Pauses, and looks at all victims.
    fn look_after(&self, pauses: usize) -> Option<Found> {
        (0..pauses).for_each(|_| self.pause());
        if let Some(task) = self.try_all_victims() {
            return Some(Found::Task(task));
        }
        self.end_of_search(!self.ripeness.has_noted())
    }

    /// Tries every victim once, from a random one on.
    fn try_all_victims(&self) -> Option<RawTask> {
        let all = self.lane().width() + self.lane().injector.shards();
        let start = self.random_victim();
        (0..all).find_map(|i| self.try_victim((start + i) % all))
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
        self.try_all_victims().or_else(|| self.next_spilled()).or_else(|| self.next_low())
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
        if self.runs_jobs() && self.is_ripe(index, &victim.deque) {
            self.slot().counters.heavy_barriers.add(1);
            if let deque::Steal::Taken(job) = victim.deque.steal() {
                self.note_theft(RawTask(job), index);
                return (Some(RawTask(job)), 1);
            }
        }
        (None, 0)
    }

    /// Runs a task that was found beyond the own queues; a thief of jobs learns whether it was worth
    /// a theft (X5).
    pub(super) fn run_found(&self, task: RawTask) {
        self.make_others_come();
        if !self.runs_jobs() {
            return self.run(task);
        }
        self.found_node.set(task.as_node().is_some());
        let began = self.shared().tell_time();
        self.run(task);
        self.ripeness.learn(self.shared().tell_time().saturating_duration_since(began) < BRIEF);
    }

    /// Whether the oldest job in the deque of slot `index` is there to stay (X5).
    pub(super) fn is_ripe(&self, index: usize, deque: &Deque<Header>) -> bool {
        if deque.oldest().is_some_and(|entry| RawTask(entry).as_node().is_some()) {
            // R5.
            return true;
        }
        deque
            .bounds()
            .is_some_and(|bounds| self.ripeness.judge(index - self.lane().range.start, bounds))
    }
}
