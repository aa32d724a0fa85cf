//! Node entries: how a ready node of a graph lies in a deque, in no memory of its own.
//!
//! ```text
//!   63           32 31                 5   4       3        2      1      0
//!   | node         | number of the run | BEST | GRANTED | SKIP | NODE | STACK |
//! ```
//!
//! M1. An entry is a number, not an address: bit 1 tells it from a task and a stack job (J5 of `stack`),
//!     which are aligned to more. So two entries are compared, and a run is recognised, without touching memory.
//! M2. An entry carries a unit of its run. So whoever has taken it may follow the run's number to its
//!     [`RunHead`], which stays there until the last unit is given back.
//! M3. A number belongs to one head from [`Number::register`] until it is dropped, which happens after the last run.
//!
//! Not here: what a node is and what it does when it runs (`graph`).

use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

use super::header::RawTask;
use crate::base::shim::{AtomicPtr, Mutex, MutexGuard, Ordering};

const STACK: u64 = 1 << 0;
const NODE: u64 = 1 << 1;
const SKIP: u64 = 1 << 2;
const GRANTED: u64 = 1 << 3;
const BEST: u64 = 1 << 4;
const RUN_SHIFT: u32 = 5;
const INDEX_SHIFT: u32 = 32;
/// All bits but the node's index and what is to be done with it.
const RUN_BITS: u64 = (1 << INDEX_SHIFT) - 1 - MARKS;
const MARKS: u64 = SKIP | GRANTED | BEST;

const _: () = assert!(size_of::<usize>() == 8, "an entry has 64 bits");

/// A node that is to be run, or to be skipped, in one run of its graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeEntry(u64);

impl NodeEntry {
    #[inline(always)]
    pub(crate) fn new(run: RunNumber, index: u32) -> Self {
        Self(run.0 | u64::from(index) << INDEX_SHIFT)
    }

    /// The same node, to be passed over.
    #[inline(always)]
    pub(crate) fn skipped(self) -> Self {
        Self(self.0 | SKIP)
    }

    #[inline(always)]
    pub(crate) fn is_skipped(self) -> bool {
        self.0 & SKIP != 0
    }

    /// Some node of the run: which, is decided when the entry is taken.
    pub(crate) fn best_of(run: RunNumber) -> Self {
        Self(run.0 | BEST)
    }

    #[inline(always)]
    pub(crate) fn is_best(self) -> bool {
        self.0 & BEST != 0
    }

    /// Whether there is nothing to it but the node.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & MARKS == 0
    }

    /// The same node, which holds what it needed to begin.
    pub(crate) fn granted(self) -> Self {
        Self(self.0 | GRANTED)
    }

    #[inline(always)]
    pub(crate) fn is_granted(self) -> bool {
        self.0 & GRANTED != 0
    }

    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        (self.0 >> INDEX_SHIFT) as u32
    }

    #[inline(always)]
    pub(crate) fn is_of(self, run: RunNumber) -> bool {
        self.0 & RUN_BITS == run.0
    }

    /// What is pushed into a deque (M1).
    #[inline(always)]
    pub(crate) fn raw(self) -> RawTask {
        let address = self.0 as usize;
        // SAFETY: bit 1 is set.
        let address = unsafe { NonZeroUsize::new_unchecked(address) };
        RawTask(NonNull::without_provenance(address))
    }

    /// The run that the entry belongs to.
    ///
    /// # Safety
    /// The caller has taken the entry, and its unit is not given back (M2).
    pub(crate) unsafe fn head(self) -> NonNull<RunHead> {
        let number = ((self.0 & RUN_BITS) >> RUN_SHIFT) as usize;
        // ORDERING: Acquire, once per entry that comes from elsewhere; pairs with the Release in `register`.
        let segment = TABLE[number / SEGMENT].load(Ordering::Acquire);
        // SAFETY: M2, the number is registered, so its segment is there, for good.
        let segment = unsafe { &*segment };
        // ORDERING: Relaxed, the entry's way through a queue orders it after `register`.
        let head = segment[number % SEGMENT].load(Ordering::Relaxed);
        debug_assert!(!head.is_null(), "M2");
        // SAFETY: M2.
        unsafe { NonNull::new_unchecked(head) }
    }
}

impl RawTask {
    /// The node whose entry this is, unless it is a task's or a stack job's (M1).
    #[inline(always)]
    pub(crate) fn as_node(self) -> Option<NodeEntry> {
        let word = self.0.addr().get() as u64;
        (word & (NODE | STACK) == NODE).then_some(NodeEntry(word))
    }
}

/// What the scheduler knows of a run.
pub(crate) struct RunHead {
    /// Runs the node and others of the run that become ready here, as a member of the run's group; asks
    /// after so many whether it should give way, and returns how many it ran. The caller has taken the entry and
    /// gives it up.
    pub(crate) work: unsafe fn(NonNull<RunHead>, NodeEntry, u32) -> u64,
}

/// The bits of a run in its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunNumber(u64);

impl RunNumber {
    /// That of no run.
    pub(crate) const NONE: Self = Self(0);
}

/// Runs per segment, and segments, which are made when they are needed and never go.
const SEGMENT: usize = 1 << 10;
const SEGMENTS: usize = 1 << 12;

type Segment = [AtomicPtr<RunHead>; SEGMENT];

/// M3. The heads by number.
static TABLE: [AtomicPtr<Segment>; SEGMENTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// Numbers that were given back, and the lowest that was never used.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

fn free() -> MutexGuard<'static, (Vec<u32>, u32)> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a run (M3).
#[derive(Debug)]
pub(crate) struct Number(u32);

impl Number {
    /// # Panics
    /// If four million runs exist.
    pub(crate) fn register(head: NonNull<RunHead>) -> Self {
        let mut free = free();
        let number = free.0.pop().unwrap_or_else(|| {
            let fresh = free.1;
            assert!((fresh as usize) < SEGMENT * SEGMENTS, "too many runs of graphs");
            if (fresh as usize).is_multiple_of(SEGMENT) {
                let segment: Box<Segment> =
                    Box::new([const { AtomicPtr::new(ptr::null_mut()) }; SEGMENT]);
                // ORDERING: Release pairs with the Acquire in `NodeEntry::head`.
                TABLE[fresh as usize / SEGMENT].store(Box::into_raw(segment), Ordering::Release);
            }
            free.1 += 1;
            fresh
        });
        Self::slot(number, head.as_ptr());
        Self(number)
    }

    fn slot(number: u32, head: *mut RunHead) {
        // ORDERING: Relaxed, under the lock that segments are made under.
        let segment = TABLE[number as usize / SEGMENT].load(Ordering::Relaxed);
        // SAFETY: made before the number was first handed out, and never freed.
        let segment = unsafe { &*segment };
        // ORDERING: Relaxed, who reads it has an entry, which was pushed later.
        segment[number as usize % SEGMENT].store(head, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn bits(&self) -> RunNumber {
        RunNumber(u64::from(self.0) << RUN_SHIFT | NODE)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut free = free();
        Self::slot(self.0, ptr::null_mut());
        free.0.push(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Safety
    /// None is needed: it is never called.
    unsafe fn never(_: NonNull<RunHead>, _: NodeEntry, _: u32) -> u64 {
        unreachable!("only compared")
    }

    #[test]
    fn an_entry_keeps_node_run_and_skip_apart() {
        let (a, b) = (RunHead { work: never }, RunHead { work: never });
        let (first, second) = (Number::register((&a).into()), Number::register((&b).into()));
        let entry = NodeEntry::new(first.bits(), u32::MAX - 1);
        assert!(entry.is_of(first.bits()) && !entry.is_of(second.bits()));
        assert!(!entry.is_skipped() && entry.skipped().is_skipped());
        assert!(entry.skipped().is_of(first.bits()));
        assert_eq!(entry.skipped().index(), u32::MAX - 1);
        assert_eq!(entry.raw().as_node(), Some(entry));
        assert!(!entry.raw().is_stack_job());
        // SAFETY: registered.
        assert_eq!(unsafe { entry.head() }, NonNull::from(&a));
    }

    #[test]
    fn a_task_is_no_node() {
        let aligned = NonNull::<super::super::header::Header>::dangling();
        assert_eq!(RawTask(aligned).as_node(), None);
    }
}
