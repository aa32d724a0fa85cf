//! The count of a group: how many units (live tasks, subgroups, an open owner) it still has.
//!
//! C1. Every live member holds one unit, so a group with live members is not finished.
//! C2. The count is finished when it is 0, exactly once, for exactly one caller of [`Count::sub`].
//! C3. Who holds a unit may add more; who holds none may try, and is refused once finished.
//! C4. A [`Ledger`] holds units only of the group of the task its worker runs or has just run.
//!     Such a group cannot be finished while the task runs, so hoarded units delay nothing, and
//!     the worker settles before it runs a task of another group, searches, parks or blocks.
//!
//! The ledger is why a million spawns do not fight for one cache line: units are drawn and
//! given back in batches.
//!
//! Not here: who is told that a group is finished (`group`).

use std::cell::Cell;

use crate::base::shim::{AtomicUsize, Ordering};

/// Units drawn at once. Guessed: large enough to make the shared line cold.
pub(super) const BATCH: usize = 64;

#[derive(Debug)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    /// A count with one unit, that of its owner.
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(1))
    }

    /// Begins anew with so many units. Nobody else has the count: it is fresh or finished.
    pub(crate) fn rearm(&self, units: usize) {
        // ORDERING: Relaxed, whoever gets a unit gets it from the caller, with what publishes it.
        self.0.store(units, Ordering::Relaxed);
    }

    /// Adds units; the caller holds one (C3).
    pub(crate) fn add(&self, units: usize) {
        // ORDERING: Relaxed, the caller's own unit keeps the group unfinished; the task that gets
        // the unit is published by the queue.
        let before = self.0.fetch_add(units, Ordering::Relaxed);
        debug_assert!(before > 0, "C3: add without a unit");
    }

    /// Adds units unless the group is finished.
    #[must_use]
    pub(crate) fn try_add(&self, units: usize) -> bool {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut before = self.0.load(Ordering::Relaxed);
        while before > 0 {
            let after = before + units;
            // ORDERING: Relaxed, as in `add`: some unit is out, and keeps the group unfinished.
            match self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
        false
    }

    /// Gives units back; true for the one caller who thereby finished the group (C2). Others must
    /// not touch the count afterwards: it may be gone.
    #[must_use]
    pub(crate) fn sub(&self, units: usize) -> bool {
        // ORDERING: Release hands what this member did to the finisher, Acquire takes what the
        // others did. Model: loom_last_unit_finishes_once.
        let before = self.0.fetch_sub(units, Ordering::AcqRel);
        debug_assert!(before >= units, "C1: {before} - {units}");
        before == units
    }

    pub(crate) fn is_finished(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `sub`: all members' effects are seen.
        self.0.load(Ordering::Acquire) == 0
    }

    /// Whether no units are out but so many of the caller's.
    pub(crate) fn is_only(&self, units: usize) -> bool {
        // ORDERING: Acquire pairs with the Release in `sub`: the members' effects are seen.
        self.0.load(Ordering::Acquire) == units
    }

    /// How many units are out, ledgers' reserves included; for people.
    pub(crate) fn units(&self) -> usize {
        // ORDERING: Relaxed, a reading for people.
        self.0.load(Ordering::Relaxed)
    }
}

/// A worker's purse of units of one count (C4). Lives in the thread's context.
#[derive(Debug)]
pub(crate) struct Ledger {
    count: Cell<*const Count>,
    units: Cell<usize>,
}

impl Ledger {
    pub(crate) const fn new() -> Self {
        Self { count: Cell::new(std::ptr::null()), units: Cell::new(0) }
    }

    /// The count whose units this ledger deals in, if any.
    pub(crate) fn count(&self) -> *const Count {
        self.count.get()
    }

    /// Starts dealing in units of `count`. The ledger is settled.
    pub(crate) fn open(&self, count: *const Count) {
        debug_assert_eq!(self.units.get(), 0, "C4: settle first");
        self.count.set(count);
    }

    /// Takes one unit for a new member; `count` is the ledger's, and the caller holds a unit.
    #[inline]
    pub(crate) fn draw(&self, count: &Count) {
        debug_assert!(std::ptr::eq(self.count.get(), count));
        let units = self.units.get();
        if units > 0 {
            self.units.set(units - 1);
        } else {
            count.add(BATCH);
            self.units.set(BATCH - 1);
        }
    }

    /// Puts the unit of a member that ended into the purse. Something must settle later.
    #[inline]
    pub(crate) fn deposit(&self, count: &Count) {
        debug_assert!(std::ptr::eq(self.count.get(), count));
        let units = self.units.get() + 1;
        if units < 2 * BATCH {
            self.units.set(units);
        } else {
            let finished = count.sub(BATCH);
            debug_assert!(!finished, "C1: the purse holds more units");
            self.units.set(units - BATCH);
        }
    }

    /// Deals in nothing any more; what it held is lost.
    pub(crate) fn forget(&self) {
        self.count.set(std::ptr::null());
        self.units.set(0);
    }

    /// Gives all units back; the ledger deals in nothing afterwards. Returns the count if that
    /// finished it, which is then the caller's to announce.
    #[must_use]
    pub(crate) fn settle(&self) -> Option<*const Count> {
        let count = self.count.replace(std::ptr::null());
        let units = self.units.replace(0);
        if units == 0 {
            // The count may be gone.
            return None;
        }
        // SAFETY: C1, the units in the purse keep the count.
        unsafe { &*count }.sub(units).then_some(count)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize as Plain;
    use loom::thread;

    #[test]
    fn loom_last_unit_finishes_once() {
        loom::model(|| {
            let count = Arc::new(Count::new());
            let work = Arc::new(Plain::new(0));
            count.add(1);
            let member = {
                let (count, work) = (count.clone(), work.clone());
                thread::spawn(move || {
                    work.fetch_add(1, Ordering::Relaxed);
                    let finished = count.sub(1);
                    if finished {
                        assert_eq!(work.load(Ordering::Relaxed), 2, "the other's work is seen");
                    }
                    finished
                })
            };
            work.fetch_add(1, Ordering::Relaxed);
            let here = count.sub(1);
            if here {
                assert_eq!(work.load(Ordering::Relaxed), 2, "the other's work is seen");
            }
            let there = member.join().unwrap();
            assert!(here ^ there, "C2: finished exactly once");
            assert!(count.is_finished());
        });
    }

    /// A stranger's unit never resurrects a finished count, and who is not the finisher does not
    /// touch the count after giving its unit up: the finisher frees it here.
    #[test]
    fn loom_count_is_not_touched_after_it_is_freed() {
        struct Freed(loom::cell::UnsafeCell<()>);
        loom::model(|| {
            let count = Arc::new(Count::new());
            let memory = Arc::new(Freed(loom::cell::UnsafeCell::new(())));
            count.add(1);
            let leave = |count: &Count, memory: &Freed| {
                memory.0.with(|_| ());
                if count.sub(1) {
                    memory.0.with_mut(|_| ());
                }
            };
            let member = {
                let (count, memory) = (count.clone(), memory.clone());
                thread::spawn(move || leave(&count, &memory))
            };
            if count.try_add(1) {
                leave(&count, &memory);
            }
            leave(&count, &memory);
            member.join().unwrap();
            assert!(count.is_finished());
        });
    }

    #[test]
    fn loom_try_add_vs_finish() {
        loom::model(|| {
            let count = Arc::new(Count::new());
            let stranger = {
                let count = count.clone();
                thread::spawn(move || count.try_add(1) && count.sub(1))
            };
            let here = count.sub(1);
            let there = stranger.join().unwrap();
            assert!(here ^ there, "C2: finished exactly once");
            assert!(count.is_finished());
            assert!(!count.try_add(1), "C3: refused once finished");
        });
    }

    #[test]
    fn loom_ledger_settles_against_a_member_elsewhere() {
        loom::model(|| {
            let count = Arc::new(Count::new());
            count.add(1);
            let elsewhere = {
                let count = count.clone();
                thread::spawn(move || count.sub(1))
            };
            let ledger = Ledger::new();
            ledger.open(&*count);
            ledger.draw(&count);
            ledger.deposit(&count);
            ledger.deposit(&count);
            let here = ledger.settle().is_some();
            let there = elsewhere.join().unwrap();
            assert!(here ^ there, "C2: finished exactly once");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_finished_count_refuses_strangers_for_ever() {
        let count = Count::new();
        assert!(count.try_add(3));
        assert!(!count.sub(3));
        assert!(count.sub(1));
        assert!(!count.try_add(1));
        assert!(!count.try_add(1));
        assert!(count.is_finished());
        assert_eq!(count.units(), 0);
    }

    #[test]
    fn a_ledger_draws_in_batches_and_gives_everything_back() {
        let count = Count::new();
        let ledger = Ledger::new();
        ledger.open(&count);
        ledger.draw(&count);
        assert_eq!(count.units(), 1 + BATCH);
        for _ in 0..10 * BATCH {
            ledger.draw(&count);
        }
        for _ in 0..10 * BATCH + 1 {
            ledger.deposit(&count);
        }
        assert_eq!(ledger.settle(), None, "the owner's unit is still out");
        assert_eq!(count.units(), 1);
        assert!(count.sub(1));
    }
}
