//! Stack jobs in the scheduler: how a thief runs one, and what its owner does meanwhile.
//!
//! F1. *Ancestry by position.* A worker starts a stolen stack job only while its own deque holds no
//!     stack job: at the bottom of its loop it has none, and one that waits for a stolen job has
//!     none left, because thieves take the oldest first. So while the job runs, every stack job in
//!     its taker's deque was forked below it.
//! F2. An owner that waits runs stack jobs from the deque of its job's taker, and nothing else: they
//!     lie below what it waits for (F1), so a lock that it holds across the join is not wanted by
//!     unrelated work on top of its stack. (A task in that deque is no evidence: it may have been
//!     spawned into any group.)
//! F3. Who finds nothing to run looks a few times more and then blocks as every waiter does (B2 and
//!     B3 of `blocking`): a spare takes its place if there is work that only it may not run.
//!
//! Not here: the fork itself, which touches nothing but the deque and the idle word (`fork`).

use super::blocking::Out;
use super::ripe;
use super::worker::Worker;
use crate::base::sim;
use crate::queue::deque::{Index, Retract, Steal};
use crate::task::context;
use crate::task::group::Group;
use crate::task::header::RawTask;
use crate::task::latch::{Latch, Owner};
use crate::task::stack::{Fork, Taken};

/// Pauses without a find after which a waiting owner blocks: some 65 µs. Guessed: more than what a
/// sleep and a wake cost, and more than a job takes to ripen.
const PAUSES: usize = 300;

const _: () = assert!(PAUSES > ripe::LONGEST_WAIT as usize + STRIDE);

/// Pauses between two looks at the taker's deque, whose line the taker writes all the time.
const STRIDE: usize = 8;

impl Worker {
    /// Runs a stack job that this worker has stolen.
    pub(super) fn run_fork(&self, job: Taken) {
        let owner = job.fork().latch.owner();
        let entered = self.enter_task();
        // SAFETY: J1, stolen, and run once.
        let latch = unsafe { job.run() };
        self.leave_task(entered);
        // SAFETY: L1, not touched again. The owner's slot is there for good (S2).
        if unsafe { Latch::set(latch) } == Owner::Asleep {
            self.shared().slots[owner].bed.unpark();
        }
        // Last, because it may call wakers of others, and the owner waits.
        self.settle_for_others();
    }

    /// Notes who runs a job that was just stolen from slot `owner`, if it is a stack job (L3).
    pub(super) fn note_theft(&self, entry: RawTask, owner: usize) {
        if let Some(job) = entry.as_stack_job() {
            job.fork().latch.take(owner, self.index());
        }
    }

    /// Takes a stack job of this worker back; false if a thief has it. Tasks that lie above it are
    /// put back as they were.
    pub(crate) fn take_back(&self, entry: RawTask, index: Index) -> bool {
        // SAFETY: S3, we are the owner, and pushed it.
        match unsafe { self.slot().deque.retract(index) } {
            Retract::Taken => return true,
            Retract::Stolen => return false,
            Retract::NotNewest => {}
        }
        let mut above = Vec::new();
        let found = loop {
            match self.next_job() {
                Some(job) if job == entry => break true,
                Some(job) => above.push(job),
                None => break false,
            }
        };
        self.put_back(above);
        found
    }

    /// Waits until a stolen job of this worker has ended, helping below it (F2).
    pub(crate) fn wait_for_fork(&self, fork: &Fork) {
        context::with(|cx| cx.waits.set(cx.waits.get() + 1));
        let mut pauses = 0;
        while !fork.latch.is_set() {
            if pauses % STRIDE == 0 && self.help_below(fork) {
                pauses = 0;
            } else if pauses < PAUSES && !sim::cuts_short() {
                pauses += 1;
                self.pause();
            } else {
                self.sleep_on(fork);
            }
        }
        context::with(|cx| cx.waits.set(cx.waits.get() - 1));
    }

    /// Runs one stack job from the deque of the worker that took `fork` (F2).
    fn help_below(&self, fork: &Fork) -> bool {
        let Some(taker) = fork.latch.taker() else { return false };
        let deque = &self.shared().slots[taker].deque;
        let is_stack_job = |entry| RawTask(entry).is_stack_job();
        if !deque.oldest().is_some_and(is_stack_job) || !self.is_ripe(taker, deque) {
            return false;
        }
        self.slot().counters.heavy_barriers.add(1);
        // Asked between the look and the taking: what is taken was there while `fork` still ran.
        let below = |entry| is_stack_job(entry) && !fork.latch.is_set();
        let Steal::Taken(entry) = deque.steal_if(below) else { return false };
        let entry = RawTask(entry);
        self.note_theft(entry, taker);
        self.slot().counters.stolen.add(1);
        match entry.as_stack_job() {
            Some(job) => self.run_fork(job),
            None => unreachable!("only stack jobs are wanted"),
        }
        true
    }

    /// Blocks until the job has ended (F3).
    fn sleep_on(&self, fork: &Fork) {
        Group::settle();
        let _out = Out::of_worker(self);
        if fork.latch.lie_down() {
            while !fork.latch.is_set() {
                self.slot().bed.park();
            }
        }
    }
}
