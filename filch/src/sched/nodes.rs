//! Nodes of graphs in the scheduler: how a worker runs them, and what the caller of a run does meanwhile.
//!
//! Q1. A node that is ready lies in the deque of the worker that made it ready. Whoever takes it runs it,
//!     and then what it makes ready, as long as that is nobody else's turn (K4 of `worker`).
//! Q2. The caller of a run that waits runs nodes of that very run, wherever they lie, and nothing else: a lock
//!     that it holds is not wanted by unrelated work on top of its stack. An entry tells its run (M1 of `task/node`),
//!     so it is asked before it is taken.
//! Q3. Nodes of a run lie below its caller, so what they fork does too, and F1 of `forks` holds for a
//!     caller that helps.
//!
//! Not here: the order of nodes (`graph`).

use super::ripe;
use super::shared::Phase;
use super::worker::Worker;
use crate::base::sim;
use crate::queue::deque::Steal;
use crate::task::context;
use crate::task::header::RawTask;
use crate::task::node::{NodeEntry, RunNumber};

/// Pauses without a find after which a waiting caller blocks: some 65 µs, as in `forks`.
const PAUSES: usize = 300;

const _: () = assert!(PAUSES > ripe::LONGEST_WAIT as usize + STRIDE);

/// Pauses between two looks at the deques of others: 1 µs. Guessed.
const STRIDE: usize = 4;

/// What came of waiting.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helped {
    /// What was waited for is there.
    Done,
    /// Nothing was found for a while.
    Idle,
}

impl Worker {
    /// Runs a node that this worker has taken out of a deque.
    pub(super) fn run_node(&self, node: NodeEntry) {
        // One at a time if they are to be skipped: what is run after it comes from the deque, without a mark.
        let (node, every) = match self.is_aborting() {
            true => (node.skipped(), 1),
            false => (node, self.left_until_look()),
        };
        let entered = self.enter_task();
        // SAFETY: M2, taken and not run yet.
        let head = unsafe { node.head() };
        // SAFETY: M2.
        let work = unsafe { head.as_ref() }.work;
        // SAFETY: taken by this worker, which gives it up.
        let ran = unsafe { work(head, node, every) };
        self.leave_task(entered);
        self.tick.set(self.tick.get() + ran.saturating_sub(1));
        self.settle_for_others();
    }

    /// Whether something else is ready here, or the worker is to leave, so that who runs node after node has to
    /// give way (K4).
    pub(crate) fn has_others_waiting(&self) -> bool {
        let lane = self.lane();
        self.runs_futures()
            || self.has_private()
            || self.is_asked_to_leave()
            || !(lane.high.is_empty() && lane.injector.is_empty() && lane.low.is_empty())
            || self.shared().phase() >= Phase::Aborting
    }

    /// Runs nodes of `run` that others have made ready, with `work`, until `is_done`.
    pub(crate) fn help_run(
        &self,
        run: RunNumber,
        is_done: impl Fn() -> bool,
        mut work: impl FnMut(NodeEntry),
    ) -> Helped {
        context::with(|cx| cx.waits.set(cx.waits.get() + 1));
        let mut pauses = 0;
        let helped = loop {
            if is_done() {
                break Helped::Done;
            }
            if pauses % STRIDE == 0
                && let Some(node) = self.steal_node(run)
            {
                work(node);
                pauses = 0;
            } else if pauses < PAUSES && !sim::cuts_short() {
                pauses += 1;
                self.pause();
            } else {
                break Helped::Idle;
            }
        };
        context::with(|cx| cx.waits.set(cx.waits.get() - 1));
        helped
    }

    /// Takes a node of `run` from the deque of another worker (Q2).
    fn steal_node(&self, run: RunNumber) -> Option<NodeEntry> {
        let lane = self.lane();
        let of_run = |entry| RawTask(entry).as_node().is_some_and(|node| node.is_of(run));
        for victim in 0..lane.width() {
            let index = lane.slot_of(victim as u32);
            let deque = &self.shared().slots[index].deque;
            if index == self.index()
                || !deque.oldest().is_some_and(of_run)
                || !self.is_ripe(index, deque)
            {
                continue;
            }
            self.slot().counters.heavy_barriers.add(1);
            if let Steal::Taken(entry) = deque.steal_if(of_run) {
                self.slot().counters.stolen.add(1);
                return RawTask(entry).as_node();
            }
        }
        None
    }
}
