//! Slots: what one run at a time needs, kept for the next one.
//!
//! S1. A slot is free, or one run's: taken by compare-exchange, given back when the run's results are dropped.
//!     Slots are never freed before their plan, so taking one is a walk over a list that only grows.
//! S2. Between runs every counter is at its node's number of strong edges. A node that begins puts its own
//!     back, so a run leaves them so, unless a condition left somebody waiting: then the next run begins by a reset.
//! S3. `units` counts the entries of the run, the nodes that are at work and the purses of those who
//!     work. Who gives back the last finishes the run.
//! S4. Group and task are those of the caller, who outlives the run, or holds a unit for it.
//!
//! Not here: what a run does (`work`), what it returns (`run`).

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use crossbeam_utils::CachePadded;
use slab::Slab;

use super::build::Graph;
use super::ending::{Ending, Keeper};
use super::error::{Cause, Stopped};
use super::join::Join;
use super::output::{Access, Cells, Outputs};
use super::plan::{Plan, trait_bits};
use super::profile::Log;
use super::work;
use crate::base::shim::{AtomicBool, AtomicPtr, AtomicU32, Mutex, MutexGuard, Ordering};
use crate::sched::blocking::Sleeper;
use crate::task::count::Count;
use crate::task::group::{Group, guard_outside, guard_user_code};
use crate::task::header::Header;
use crate::task::node::{NodeEntry, Number, RunHead, RunNumber};

/// What went wrong in a run.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) failures: Vec<(u32, Cause)>,
    pub(super) skipped: Vec<u32>,
}

/// What a failure does to the nodes that do not depend on the one that failed.
///
/// ```
/// use filch::graph::OnFailure;
/// let mut g = filch::Graph::new();
/// g.node("bad", || panic!("no"));
/// let good = g.node("good", || ());
/// let error = g.runner().on_failure(OnFailure::Continue).try_run().unwrap_err();
/// assert!(error.skipped().is_empty(), "{good:?} has run");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They run.
    #[default]
    Continue,
    /// Those that have not begun are skipped.
    Cancel,
}

/// High, normal, low.
type Ranks = [VecDeque<NodeEntry>; 3];

const GOES_ON: u32 = 0;
const CANCELLED: u32 = 1;
const DEADLINE: u32 = 2;
/// Besides: the run is profiled (J1 of `profile`).
const PROFILED: u32 = 4;

#[repr(C)]
pub(super) struct Slot {
    pub(super) head: RunHead,
    plan: NonNull<Plan>,
    joins: Box<[Join]>,
    bits: RunNumber,
    /// S4. Written before the first entry is pushed.
    pub(super) group: Cell<*const Group>,
    pub(super) task: Cell<*const Header>,
    pub(super) on_failure: Cell<OnFailure>,
    /// Why the run was stopped, and whether it is profiled.
    stop: AtomicU32,
    /// Of a run that is profiled. Written before the first entry is pushed.
    log: Cell<*const Log>,
    pub(super) access: Access,
    pub(super) units: CachePadded<Count>,
    pub(super) ending: Ending,
    pub(super) outputs: Outputs,
    faults: Mutex<Faults>,
    /// Whether there is any fault, so that nobody locks for nothing.
    faulty: AtomicBool,
    /// Of a run that nobody has to wait for: the graph, and that the run holds a unit of the group (S4).
    pub(super) keep: Cell<Option<Arc<Graph<'static>>>>,
    /// Futures that wait (A5 of `future`).
    waiting: Mutex<Slab<Waker>>,
    /// What is ready, where nodes have ranks (W6 of `work`).
    ranks: Mutex<Ranks>,
    /// Where a caller sleeps. Made with the slot: a later run that is the first to need it allocates nothing.
    pub(super) sleeper: Sleeper,
    /// M3 of `task/node`.
    number: Option<Number>,
    /// S1.
    busy: AtomicBool,
    next: *const Slot,
}

// SAFETY: the cells are written by the caller of a run before its first entry is pushed; all else is atomic or locked.
unsafe impl Sync for Slot {}
// SAFETY: no part is tied to a thread.
unsafe impl Send for Slot {}

const _: () = assert!(std::mem::offset_of!(Slot, head) == 0);

impl Slot {
    /// On the heap, by the pointer that its entries lead to: a reference to all of it would end what that may be used for.
    fn new(plan: &Plan, cells: &Cells) -> NonNull<Self> {
        let joins = plan.records.iter().map(|record| Join::new(record.strong)).collect();
        let slot = Box::new(Self {
            head: RunHead { work: work::from_worker },
            plan: NonNull::from(plan),
            joins,
            bits: RunNumber::NONE,
            group: Cell::new(ptr::null()),
            task: Cell::new(ptr::null()),
            on_failure: Cell::new(OnFailure::Continue),
            stop: AtomicU32::new(GOES_ON),
            log: Cell::new(ptr::null()),
            access: if plan.loops { Access::Guarded } else { Access::Ordered },
            units: CachePadded::new(Count::new()),
            ending: Ending::new(),
            outputs: Outputs::new(cells),
            faults: Mutex::default(),
            faulty: AtomicBool::new(false),
            keep: Cell::new(None),
            waiting: Mutex::default(),
            ranks: Mutex::default(),
            sleeper: Sleeper::new(),
            number: None,
            busy: AtomicBool::new(true),
            next: ptr::null(),
        });
        // SAFETY: from a box.
        let slot = unsafe { NonNull::new_unchecked(Box::into_raw(slot)) };
        let number = Number::register(slot.cast());
        // SAFETY: just made, and nobody else has it.
        unsafe { (*slot.as_ptr()).bits = number.bits() };
        // SAFETY: as above.
        unsafe { (*slot.as_ptr()).number = Some(number) };
        slot
    }

    #[inline(always)]
    pub(super) fn plan(&self) -> &Plan {
        // SAFETY: S1, the plan outlives its slots.
        unsafe { self.plan.as_ref() }
    }

    #[inline(always)]
    pub(super) fn run(&self) -> RunNumber {
        self.bits
    }

    pub(super) fn joins(&self) -> &[Join] {
        &self.joins
    }

    #[inline(always)]
    pub(super) fn join(&self, index: u32) -> &Join {
        debug_assert!((index as usize) < self.joins.len());
        // SAFETY: there is one for each node, and indices come from the plan.
        unsafe { self.joins.get_unchecked(index as usize) }
    }

    /// That of the run's group; to be compared. The caller has a token.
    pub(super) fn runtime(&self) -> *const () {
        // SAFETY: S4.
        unsafe { &*self.group.get() }.home().shared
    }

    /// Begins a run, with a unit for each source, as a part of `task` in `group` (S4). The slot is the caller's (S1).
    pub(super) fn begin(&self, group: *const Group, task: *const Header, on_failure: OnFailure) {
        let units = self.plan().sources.len();
        self.group.set(group);
        self.task.set(task);
        self.on_failure.set(on_failure);
        self.units.rearm(units);
        if self.plan().loops {
            // S2.
            for (join, record) in self.joins.iter().zip(&self.plan().records) {
                join.reset(record.strong);
            }
        }
        self.ending.begin();
    }

    /// Gives units back, and finishes the run if they were the last (S3).
    ///
    /// # Safety
    /// The caller holds so many units, and does not use the slot afterwards unless it is the one who waits.
    pub(super) unsafe fn sub_units(this: NonNull<Self>, units: usize) {
        // SAFETY: S3, the units keep the run.
        let slot = unsafe { this.as_ref() };
        if slot.units.sub(units) {
            // SAFETY: S3, those were the last.
            unsafe { Self::finish(this) };
        }
    }

    /// # Safety
    /// The caller has given back the last unit.
    unsafe fn finish(this: NonNull<Self>) {
        // SAFETY: N1 of `ending`, the run is not done yet.
        let slot = unsafe { this.as_ref() };
        let (keep, group) = (slot.keep.take(), slot.group.get());
        let (keeper, waker) = slot.ending.finish();
        if keeper == Keeper::Caller
            && let Some(graph) = &keep
        {
            // SAFETY: S4, the run's unit.
            let group = unsafe { group.as_ref() };
            // SAFETY: N3 of `ending`, the waiter has gone; the graph keeps the slot.
            unsafe { graph.discard(this, group) };
        }
        if let Some(waker) = waker {
            guard_outside(|| waker.wake());
        }
        if let Some(graph) = keep {
            // The user's closures may be dropped with it.
            guard_user_code(|| drop(graph));
            // SAFETY: S4, the run's unit.
            unsafe { Group::leave(group) };
        }
    }

    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        // ORDERING: Relaxed, a hint: a node that begins at the same time may run.
        self.stop.load(Ordering::Relaxed) & !PROFILED != GOES_ON
    }

    /// Whether the run is neither stopped nor profiled.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        // ORDERING: Relaxed, as in `is_stopped`.
        self.stop.load(Ordering::Relaxed) == GOES_ON
    }

    /// Has the run that is to begin write into `log`.
    ///
    /// # Safety
    /// The slot is the caller's (S1), and `log` outlives the run.
    pub(super) unsafe fn profile(&self, log: &Log) {
        self.log.set(log);
        // ORDERING: Relaxed, the first entry publishes it.
        self.stop.fetch_or(PROFILED, Ordering::Relaxed);
    }

    /// Where the run is logged, if it is; the caller has a token.
    pub(super) fn log(&self) -> Option<&Log> {
        // ORDERING: Relaxed, written before the first entry was pushed.
        if self.stop.load(Ordering::Relaxed) & PROFILED == 0 {
            return None;
        }
        // SAFETY: by the promise in `profile`, and J4 of it.
        unsafe { self.log.get().as_ref() }
    }

    /// Stops the run. Who waits in it is to be woken, by the caller, outside of its locks.
    pub(super) fn stop(&self, why: Stopped) -> Alarm {
        let why = if why == Stopped::Deadline { DEADLINE } else { CANCELLED };
        // ORDERING: Relaxed, a hint that publishes nothing, or the lock below does; the first reason counts.
        let _ = self.stop.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            (now & !PROFILED == GOES_ON).then_some(now | why)
        });
        Alarm(self.waiting().iter().map(|(_, waker)| waker.clone()).collect())
    }

    fn waiting(&self) -> MutexGuard<'_, Slab<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `waker` woken if the run is stopped. Who asks `is_stopped` afterwards misses no stop.
    ///
    /// # Safety
    /// The run outlives the result.
    pub(super) unsafe fn list(&self, waker: &Waker) -> Listed {
        let key = self.waiting().insert(waker.clone());
        Listed { slot: NonNull::from(self), key }
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        // ORDERING: Relaxed, asked after the end, which orders it.
        match self.stop.load(Ordering::Relaxed) & !PROFILED {
            GOES_ON => None,
            DEADLINE => Some(Stopped::Deadline),
            _ => Some(Stopped::Cancelled),
        }
    }

    /// Adds a node that is ready to those of its rank (W6 of `work`).
    pub(super) fn rank(&self, token: NodeEntry) {
        let traits = self.plan().records[token.index() as usize].traits;
        let rank = match traits & (trait_bits::HIGH | trait_bits::LOW) {
            trait_bits::HIGH => 0,
            trait_bits::LOW => 2,
            _ => 1,
        };
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)[rank].push_back(token);
    }

    /// The best that is ready; the caller has a token for one.
    pub(super) fn best(&self) -> NodeEntry {
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.iter_mut().find_map(VecDeque::pop_front).expect("W6: one for each token")
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        // ORDERING: Relaxed, the end of the run orders it.
        self.faulty.store(true, Ordering::Relaxed);
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    pub(super) fn note_failure(&self, index: u32, cause: Cause) {
        self.faults().failures.push((index, cause));
        if self.on_failure.get() == OnFailure::Cancel {
            self.stop(Stopped::Cancelled).ring();
        }
    }

    /// A node that went on elsewhere has ended badly; if the run was stopped, that is why.
    #[cold]
    pub(super) fn note_end(&self, index: u32, cause: Cause) {
        if self.is_stopped() {
            self.note_skipped(index);
        } else {
            self.note_failure(index, cause);
        }
    }

    #[cold]
    pub(super) fn note_skipped(&self, index: u32) {
        self.faults().skipped.push(index);
    }

    /// What went wrong, if anything did. The run is over.
    pub(super) fn take_faults(&self) -> Option<Faults> {
        // ORDERING: Relaxed, the end of the run orders it.
        if !self.faulty.load(Ordering::Relaxed) {
            return None;
        }
        let faults = std::mem::take(&mut *self.faults());
        // ORDERING: Relaxed, the slot is the caller's.
        self.faulty.store(false, Ordering::Relaxed);
        Some(faults)
    }

    /// Gives the slot back (S1).
    ///
    /// # Safety
    /// The run is over and the slot the caller's, who gives it up.
    pub(super) unsafe fn give_back(&self) {
        // ORDERING: Relaxed, published with the slot.
        self.stop.store(GOES_ON, Ordering::Relaxed);
        // A run without nodes does not begin it again.
        self.ending.rest();
        // ORDERING: Release pairs with the Acquire in `Slots::take`.
        self.busy.store(false, Ordering::Release);
    }
}

/// Futures that have to be woken, because their run was stopped.
#[must_use]
pub(super) struct Alarm(Vec<Waker>);

impl Alarm {
    pub(super) fn ring(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

/// A future that waits is on the list of its run, until dropped.
pub(super) struct Listed {
    slot: NonNull<Slot>,
    key: usize,
}

// SAFETY: slots are `Sync`.
unsafe impl Send for Listed {}

impl Drop for Listed {
    fn drop(&mut self) {
        // SAFETY: by the promise of `Slot::list`.
        let waker = unsafe { self.slot.as_ref() }.waiting().try_remove(self.key);
        drop(waker);
    }
}

/// The slots of a plan (S1).
pub(super) struct Slots {
    first: AtomicPtr<Slot>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A slot for one run.
    pub(super) fn take(&self, plan: &Plan, cells: &Cells) -> NonNull<Slot> {
        // ORDERING: Acquire pairs with the Release of the exchange below: the slot is seen whole.
        let mut at: *const Slot = self.first.load(Ordering::Acquire);
        // SAFETY: S1, slots live as long as this list.
        while let Some(slot) = unsafe { at.as_ref() } {
            // ORDERING: Acquire pairs with the Release in `give_back`.
            let free =
                slot.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            if free.is_ok() {
                return NonNull::from(slot);
            }
            at = slot.next;
        }
        let slot = Slot::new(plan, cells);
        // ORDERING: Relaxed, a guess for the exchange.
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: just made, and nobody else has it.
            unsafe { (*slot.as_ptr()).next = first };
            // ORDERING: Release pairs with the Acquire above.
            match self.first.compare_exchange_weak(
                first,
                slot.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return slot,
                Err(now) => first = now,
            }
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // ORDERING: Relaxed, `&mut self` shows that nobody else is left.
        let mut at = self.first.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: from a box, in the list once.
            let slot = unsafe { Box::from_raw(at) };
            at = slot.next.cast_mut();
        }
    }
}
