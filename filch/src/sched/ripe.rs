//! Ripeness: whether a job in a neighbour's deque is there to stay.
//!
//! A theft costs thief and owner some microseconds each, which a job that its owner is about to take back
//! is not worth. So a job is stolen once it has lain for a moment, counted in pauses of the thief.
//!
//! R1. Judging takes no time: a job that is not ripe is noted, and may be ripe at a later look. All
//!     victims ripen side by side, and what else may end the search is looked at in between.
//! R2. While an owner is stuck its oldest job stays the oldest, so it ripens within `LONGEST_WAIT` pauses of
//!     any thief, and whoever looks again for want of a ripe job pauses in between. One that
//!     never ripens shows that somebody makes progress.
//! R3. Jobs below one that was seen to stay are ripe too, and so is everything for a thief that was
//!     woken for it.
//! R4. A thief whose last finds were not worth it waits longer each time.
//! R5. A node of a graph is ripe at once: its owner has another one in hand, and a theft of it needs no barrier.
//!
//! Not here: who searches and how long (`steal`).

use std::cell::Cell;

use crate::base::sim;

/// Pauses before a job is ripe: some 7 µs. Guessed; the best of the few values tried (ADR 0016).
const PAUSES: u64 = 32;

/// How often the wait for ripeness doubles: up to some 55 µs.
const MOST_BRIEF: u32 = 3;

/// R2.
pub(super) const LONGEST_WAIT: u64 = PAUSES << MOST_BRIEF;

/// What a thief knows of its victims.
#[derive(Debug)]
pub(crate) struct Ripeness {
    /// Pauses of this thief so far: the clock of all this.
    clock: Cell<u64>,
    /// When the next job ripens that was noted since the last [`Ripeness::next_due`].
    due: Cell<Option<u64>>,
    /// How many finds in a row were not worth a theft (R4).
    brief: Cell<u32>,
    /// Woken for work that it has not looked for yet (R3).
    woken: Cell<bool>,
    /// Has lost its patience with jobs that do not ripen.
    pub(super) tired: Cell<bool>,
    /// By the victim's number.
    seen: Box<[Cell<Sighting>]>,
}

/// The oldest job of a victim, as it was first seen.
#[derive(Debug, Default, Clone, Copy)]
struct Sighting {
    /// Its index, and where the next job would have been pushed; equal if there was none.
    top: u64,
    bottom: u64,
    at: u64,
    /// Jobs below this index are ripe (R3).
    ripe_below: u64,
}

impl Ripeness {
    /// For a lane of so many slots.
    pub(super) fn new(victims: usize) -> Self {
        Self {
            clock: Cell::new(0),
            due: Cell::new(None),
            brief: Cell::new(0),
            woken: Cell::new(false),
            tired: Cell::new(false),
            seen: vec![Cell::default(); victims].into(),
        }
    }

    /// As new, in the same memory.
    pub(super) fn renewed(self) -> Self {
        self.seen.iter().for_each(|seen| seen.set(Sighting::default()));
        Self { seen: self.seen, ..Self::new(0) }
    }

    /// The thief has paused once.
    pub(super) fn paused(&self) {
        self.clock.set(self.clock.get() + 1);
    }

    /// Whether the thief was woken for work (R3).
    pub(super) fn set_woken(&self, woken: bool) {
        self.woken.set(woken);
    }

    /// The last find was, or was not, worth a theft (R4).
    pub(super) fn learn(&self, brief: bool) {
        self.brief.set(if brief { MOST_BRIEF.min(self.brief.get() + 1) } else { 0 });
    }

    /// Whether a job was noted that is not ripe yet, since the last [`Ripeness::next_due`].
    pub(super) fn has_noted(&self) -> bool {
        self.due.get().is_some()
    }

    /// Pauses until a job may ripen that was noted since the last call.
    pub(super) fn next_due(&self) -> Option<usize> {
        let due = self.due.take()?;
        Some(due.saturating_sub(self.clock.get()).max(1) as usize)
    }

    /// Judges the oldest job of `victim`, whose deque has these bounds (R1).
    pub(super) fn judge(&self, victim: usize, bounds: (u64, u64)) -> bool {
        if self.woken.replace(false) || sim::cuts_short() {
            return true;
        }
        let (top, bottom) = bounds;
        let (now, brief) = (self.clock.get(), self.brief.get());
        let mut seen = self.seen[victim].get();
        if brief == 0 && top < seen.ripe_below {
            return true;
        }
        if seen.top != top || seen.top == seen.bottom {
            seen = Sighting { top, bottom, at: now, ripe_below: seen.ripe_below };
        }
        let ripens = seen.at + (PAUSES << brief);
        debug_assert!(ripens - seen.at <= LONGEST_WAIT, "R2");
        if now >= ripens {
            seen.ripe_below = seen.bottom;
        }
        self.seen[victim].set(seen);
        if now >= ripens {
            return true;
        }
        self.due.set(Some(self.due.get().map_or(ripens, |due| due.min(ripens))));
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn after(ripeness: &Ripeness, pauses: u64) {
        (0..pauses).for_each(|_| ripeness.paused());
    }

    #[test]
    fn a_job_that_stays_ripens_and_so_do_those_below() {
        let ripeness = Ripeness::new(4);
        assert!(!ripeness.judge(3, (5, 8)));
        assert_eq!(ripeness.next_due(), Some(PAUSES as usize));
        after(&ripeness, PAUSES);
        assert!(ripeness.judge(3, (5, 20)));
        assert!(ripeness.judge(3, (7, 20)), "there already when the first was seen");
        assert!(!ripeness.judge(3, (8, 20)), "not there yet");
    }

    #[test]
    fn a_job_that_is_gone_starts_the_wait_anew() {
        let ripeness = Ripeness::new(4);
        assert!(!ripeness.judge(0, (0, 1)));
        after(&ripeness, PAUSES);
        assert!(!ripeness.judge(0, (1, 2)));
        after(&ripeness, PAUSES - 1);
        assert!(!ripeness.judge(0, (1, 2)));
        after(&ripeness, 1);
        assert!(ripeness.judge(0, (1, 2)));
    }

    #[test]
    fn victims_ripen_side_by_side() {
        let ripeness = Ripeness::new(4);
        assert!(!ripeness.judge(0, (0, 1)));
        after(&ripeness, 10);
        assert!(!ripeness.judge(1, (0, 1)));
        assert_eq!(ripeness.next_due(), Some(PAUSES as usize - 10));
        after(&ripeness, PAUSES - 10);
        assert!(ripeness.judge(0, (0, 1)));
        assert!(!ripeness.judge(1, (0, 1)));
        after(&ripeness, 10);
        assert!(ripeness.judge(1, (0, 1)));
    }

    #[test]
    fn brief_finds_teach_patience_and_a_wake_makes_it_forgotten() {
        let ripeness = Ripeness::new(4);
        (0..10).for_each(|_| ripeness.learn(true));
        assert!(!ripeness.judge(0, (0, 1)));
        after(&ripeness, LONGEST_WAIT - 1);
        assert!(!ripeness.judge(0, (0, 1)));
        ripeness.set_woken(true);
        assert!(ripeness.judge(0, (0, 1)));
        assert!(!ripeness.judge(0, (0, 1)), "once");
        after(&ripeness, 1);
        assert!(ripeness.judge(0, (0, 1)), "R2");
    }
}
