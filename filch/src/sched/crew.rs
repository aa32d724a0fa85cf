//! Who is at work in a lane, and who replaces a worker that blocks.
//!
//! A worker that waits inside a task (`blocking`) or is stuck in one (`sentry`) is *out*. When work
//! is ready and too many are out, a spare comes: one that stands by, or a new thread in a vacant
//! slot. When the others are back the spare stands by, and after a while it goes.
//!
//! C1. `active` counts the threads in the loop that do not block; it moves under the lock, with
//!     the lists and, in a lane without a sentry, with the idle set's SHORT, which tells a poster
//!     that its push may need a spare, and that there is one.
//! C2. A slot is in exactly one place: occupied, standing by, being left, or vacant.
//! C3. Spares are bounded by the slots; beyond that the wait goes on without one, and is counted.
//!
//! C4. The size of the crew changes under the same lock, when a regular worker comes or goes. A crew
//!     without anybody is not short: nobody is missing.
//!
//! Not here: how threads start (`start`), who is attached (`roster`).

use std::ops::Range;
use std::sync::Arc;

use super::shared::{Lane, Shared, lock};
use crate::base::shim::{AtomicUsize, Mutex, Ordering};
use crate::idle::Idle;

pub(crate) struct Crew {
    /// How many should be at work: the regular workers. Written under the lock (C4).
    workers: AtomicUsize,
    inner: Mutex<Inner>,
    /// A copy of `Inner`'s, for a look without the lock.
    active: AtomicUsize,
    /// The sentry writes it.
    stuck: AtomicUsize,
}

struct Inner {
    active: usize,
    /// The idle set to tell that a push may need a spare: that of a lane which no sentry watches.
    tells: Option<Arc<Idle>>,
    /// Whether it was told so.
    told: bool,
    standby: Vec<usize>,
    vacant: Vec<usize>,
}

/// Who comes.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summons {
    /// Enough are at work.
    Nobody,
    /// The spare standing by in this slot: unpark it.
    StandingBy(usize),
    /// A new thread for this slot.
    Vacant(usize),
    /// Nobody is left (C3).
    Missing,
}

impl Crew {
    /// A crew of nobody, with the slots of its spares.
    pub(crate) fn new(spares: Range<usize>, tells: Option<Arc<Idle>>) -> Self {
        Self {
            workers: AtomicUsize::new(0),
            inner: Mutex::new(Inner {
                active: 0,
                tells,
                told: false,
                standby: Vec::new(),
                vacant: spares.rev().collect(),
            }),
            active: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
        }
    }

    /// A regular worker begins (C4).
    pub(crate) fn enlist(&self) {
        let mut inner = lock(&self.inner);
        inner.active += 1;
        self.resize(self.workers() + 1);
        self.copy(&mut inner);
    }

    /// A regular worker, which is at work, leaves for good (C4).
    pub(crate) fn dismiss(&self) {
        let mut inner = lock(&self.inner);
        inner.active -= 1;
        self.resize(self.workers() - 1);
        self.copy(&mut inner);
    }

    fn resize(&self, workers: usize) {
        // ORDERING: Relaxed, as `active`: a copy for guesses.
        self.workers.store(workers, Ordering::Relaxed);
    }

    fn workers(&self) -> usize {
        // ORDERING: Relaxed, a guess; decisions are made under the lock.
        self.workers.load(Ordering::Relaxed)
    }

    /// Whether any regular worker has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.workers() > 0
    }

    /// How many threads make progress.
    fn effective(&self) -> usize {
        // ORDERING: Relaxed, a guess; `summon` decides under the lock.
        let active = self.active.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        active.saturating_sub(self.stuck.load(Ordering::Relaxed))
    }

    /// Whether ready work should have a spare: somebody blocks, or everybody is stuck.
    pub(crate) fn is_short(&self) -> bool {
        let workers = self.workers();
        // ORDERING: Relaxed, a guess; `summon` decides under the lock.
        let missing = self.active.load(Ordering::Relaxed) < workers;
        workers > 0 && (missing || self.effective() == 0)
    }

    /// Whether more are at work than there should be.
    pub(crate) fn is_surplus(&self) -> bool {
        self.effective() > self.workers()
    }

    /// The sentry's count of workers that are stuck in a task.
    pub(crate) fn set_stuck(&self, stuck: usize) {
        // ORDERING: Relaxed, a guess for `is_short` and `is_surplus`.
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    pub(crate) fn stuck(&self) -> usize {
        // ORDERING: Relaxed, a reading for people and the sentry that wrote it.
        self.stuck.load(Ordering::Relaxed)
    }

    /// A worker blocks.
    pub(crate) fn goes_out(&self) {
        let mut inner = lock(&self.inner);
        inner.active -= 1;
        self.copy(&mut inner);
    }

    /// A worker is back.
    pub(crate) fn comes_back(&self) {
        let mut inner = lock(&self.inner);
        inner.active += 1;
        self.copy(&mut inner);
    }

    /// Calls a spare if too few are at work.
    pub(crate) fn summon(&self) -> Summons {
        let mut inner = lock(&self.inner);
        if !self.is_short() {
            return Summons::Nobody;
        }
        let summons = match (inner.standby.pop(), inner.vacant.last()) {
            (Some(slot), _) => Summons::StandingBy(slot),
            (None, Some(&slot)) => {
                inner.vacant.pop();
                Summons::Vacant(slot)
            }
            (None, None) => return Summons::Missing,
        };
        inner.active += 1;
        self.copy(&mut inner);
        summons
    }

    /// A spare stops working; false if it is needed.
    #[must_use]
    pub(crate) fn stand_by(&self, slot: usize) -> bool {
        let mut inner = lock(&self.inner);
        if !self.is_surplus() {
            return false;
        }
        inner.active -= 1;
        inner.standby.push(slot);
        self.copy(&mut inner);
        true
    }

    /// Whether a spare that stood by has been summoned.
    pub(crate) fn was_summoned(&self, slot: usize) -> bool {
        !lock(&self.inner).standby.contains(&slot)
    }

    /// A spare that stands by goes on working, summoned or not.
    pub(crate) fn needs(&self, slot: usize) {
        let mut inner = lock(&self.inner);
        let Some(at) = inner.standby.iter().position(|&s| s == slot) else { return };
        inner.standby.swap_remove(at);
        inner.active += 1;
        self.copy(&mut inner);
    }

    /// A spare that stands by goes; false if it was summoned meanwhile.
    #[must_use]
    pub(crate) fn retire(&self, slot: usize) -> bool {
        let mut inner = lock(&self.inner);
        let Some(at) = inner.standby.iter().position(|&s| s == slot) else { return false };
        inner.standby.swap_remove(at);
        self.copy(&mut inner);
        true
    }

    /// A retired spare has left its slot.
    pub(crate) fn vacate(&self, slot: usize) {
        let mut inner = lock(&self.inner);
        inner.vacant.push(slot);
        self.copy(&mut inner);
    }

    /// Whether everybody blocks.
    pub(crate) fn is_empty(&self) -> bool {
        // ORDERING: Relaxed, a guess; `summon` decides under the lock.
        self.active.load(Ordering::Relaxed) == 0 && self.workers() > 0
    }

    /// A summoned thread could not start.
    pub(crate) fn failed(&self, slot: usize) {
        let mut inner = lock(&self.inner);
        inner.active -= 1;
        inner.vacant.push(slot);
        self.copy(&mut inner);
    }

    /// Shows others what has changed under the lock (C1).
    fn copy(&self, inner: &mut Inner) {
        // ORDERING: Relaxed, a copy for guesses; decisions are made under the lock.
        self.active.store(inner.active, Ordering::Relaxed);
        let spare = !inner.standby.is_empty() || !inner.vacant.is_empty();
        let short = inner.active < self.workers() && spare;
        if let Some(idle) = &inner.tells
            && short != inner.told
        {
            idle.set_short(short);
            inner.told = short;
        }
    }
}

impl Shared {
    /// Brings a spare if somebody is out and something is ready, or everybody is out.
    pub(crate) fn reinforce_if_needed(&self, lane: &Lane) {
        // A poster that found the crew complete has pushed before, and we see it; the other way
        // round, it sees who is out.
        lane.idle.before_look();
        if lane.crew.is_short() && (lane.crew.is_empty() || lane.has_ready(&self.slots)) {
            let _ = self.reinforce(lane);
        }
    }

    /// Brings a spare into the lane if too few are at work there. Counts where none is left.
    pub(crate) fn reinforce(&self, lane: &Lane) -> Summons {
        let summons = lane.crew.summon();
        match summons {
            Summons::Nobody | Summons::Missing => {}
            Summons::StandingBy(slot) => self.unpark(slot),
            Summons::Vacant(slot) => self.start_spare(lane, slot),
        }
        summons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crew(workers: usize, spares: usize) -> Crew {
        let crew = Crew::new(workers..workers + spares, None);
        (0..workers).for_each(|_| crew.enlist());
        crew
    }

    #[test]
    fn a_crew_of_nobody_is_not_short_and_a_smaller_one_needs_fewer() {
        let crew = crew(0, 1);
        assert_eq!(crew.summon(), Summons::Nobody);
        crew.enlist();
        crew.enlist();
        crew.goes_out();
        assert_eq!(crew.summon(), Summons::Vacant(0));
        crew.dismiss();
        assert!(!crew.is_surplus(), "one of one is out, the spare is at work");
        crew.comes_back();
        assert!(crew.is_surplus() && crew.stand_by(0));
    }

    #[test]
    fn a_spare_comes_for_one_that_blocks_and_stands_by_when_it_is_back() {
        let crew = crew(2, 1);
        assert_eq!(crew.summon(), Summons::Nobody);
        crew.goes_out();
        assert_eq!(crew.summon(), Summons::Vacant(2));
        assert!(!crew.stand_by(2), "still needed");
        crew.comes_back();
        assert!(crew.is_surplus());
        assert!(crew.stand_by(2));
        crew.goes_out();
        assert_eq!(crew.summon(), Summons::StandingBy(2));
        assert!(crew.was_summoned(2));
        crew.goes_out();
        assert_eq!(crew.summon(), Summons::Missing);
    }

    #[test]
    fn a_retired_spare_leaves_its_slot_to_the_next() {
        let crew = crew(1, 1);
        crew.goes_out();
        assert_eq!(crew.summon(), Summons::Vacant(1));
        crew.comes_back();
        assert!(crew.stand_by(1));
        assert!(crew.retire(1));
        assert!(!crew.retire(1));
        crew.vacate(1);
        crew.goes_out();
        assert_eq!(crew.summon(), Summons::Vacant(1));
    }

    #[test]
    fn stuck_workers_call_a_spare_only_when_all_are() {
        let crew = crew(2, 2);
        crew.set_stuck(1);
        assert_eq!(crew.summon(), Summons::Nobody);
        crew.set_stuck(2);
        assert_eq!(crew.summon(), Summons::Vacant(2));
        assert_eq!(crew.summon(), Summons::Nobody);
        crew.set_stuck(3);
        assert_eq!(crew.summon(), Summons::Vacant(3));
        crew.set_stuck(0);
        assert!(crew.stand_by(2) && crew.stand_by(3));
    }
}
