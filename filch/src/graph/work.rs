//! Work: a thread runs a node, then what that makes ready, and so on.
//!
//! W1. A token is the right to run one node, and carries a unit of the run (S3 of `slot`). It is in a deque, or in a
//!     hand. A node that ends turns its token into one for each successor that it made ready, or gives it up.
//! W2. The first successor that is ready stays in the hand: a chain is a loop, not a recursion. The others go
//!     into the deque of this thread, where anyone may take them, and sleepers are told.
//! W3. The last predecessor to arrive fires a node: a counter that reads 1 is written by nobody else, so it takes no
//!     read-modify-write. A node with one predecessor has no counter to speak of.
//! W4. Units are drawn and given back in batches, by a purse that lives as long as the loop. It is settled last, after
//!     the frame, because the run, and with it the group, may be gone then.
//! W5. A node that fails or is skipped passes its token on all the same, marked: what depends on it is skipped
//!     too, however many other predecessors it has. So every counter is back where it was at the end.
//!
//! Not here: how a worker comes to the entry (`sched/nodes.rs`), what the caller does meanwhile (`run`).

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::body::Step;
use super::error::Cause;
use super::output;
use super::plan::{Record, trait_bits};
use super::slot::Slot;
use crate::base::shim::Ordering;
use crate::idle::Idle;
use crate::queue::deque::Deque;
use crate::sched::worker::Worker;
use crate::task::context::{self, Frame};
use crate::task::group::Payload;
use crate::task::header::{Header, RawTask};
use crate::task::node::{NodeEntry, RunHead};

/// In a counter: a predecessor failed or was skipped (W5).
pub(super) const POISON: u32 = 1 << 31;

/// Units drawn at once. Guessed, as in `task/count.rs`.
const BATCH: usize = 64;

/// What a body is called with.
pub(super) struct Call<'a> {
    pub(super) slot: &'a Slot,
    pub(super) index: Cell<u32>,
    told: RefCell<Told>,
}

/// What a body says besides its [`Step`].
#[derive(Default)]
pub(super) struct Told {
    pub(super) cause: Option<Cause>,
    pub(super) picks: Vec<usize>,
}

impl Call<'_> {
    /// Stores what the node returned.
    ///
    /// # Safety
    /// `cell` is that of the node, for a `T`.
    #[inline(always)]
    pub(super) unsafe fn store<T>(&self, cell: u32, value: T) -> Step {
        if output::is_stored::<T>() {
            // SAFETY: by the caller's promise; the order of nodes keeps readers away (O2 of `output`).
            let stored = unsafe { self.slot.outputs.store(cell, value, self.slot.access) };
            stored.expect("the node ran again while its output was in use");
        }
        Step::Done
    }

    /// The node has failed.
    pub(super) fn fail(&self, cause: Cause) -> Step {
        self.told.borrow_mut().cause = Some(cause);
        Step::Told
    }

    /// Of the successors of a condition, these are run.
    pub(super) fn pick(&self, picks: impl IntoIterator<Item = usize>) -> Step {
        self.told.borrow_mut().picks.extend(picks);
        Step::Told
    }
}

/// Where this thread puts tokens.
#[derive(Clone, Copy)]
struct Site<'a> {
    deque: &'a Deque<Header>,
    idle: &'a Idle,
}

impl Site<'_> {
    fn here() -> Option<Self> {
        let (deque, idle) = context::with(|cx| (cx.deque.get(), cx.idle.get()));
        // SAFETY: X5, the thread's own while it is set, and set again if a nested call cleared it.
        let deque = unsafe { deque.as_ref() }?;
        // SAFETY: set with the deque.
        let idle = unsafe { &*idle };
        Some(Self { deque, idle })
    }

    /// Wakes whom the push needs.
    #[cold]
    fn tell(&self) {
        // SAFETY: used within this call only.
        if let Some(worker) = unsafe { Worker::current() } {
            // SAFETY: X5, the deque is this thread's.
            unsafe { self.deque.expect_thieves() };
            worker.shared().notify(worker.lane());
        }
    }
}

/// Whether this thread has a deque.
pub(super) fn has_deque() -> bool {
    Site::here().is_some()
}

/// A thread at work for a run.
pub(super) struct Hand<'a> {
    call: Call<'a>,
    site: Option<Site<'a>>,
    /// Tokens of a thread that has no deque.
    local: RefCell<Vec<NodeEntry>>,
    /// The token in the hand, for whoever catches a panic of its node.
    token: Cell<NodeEntry>,
    /// W4.
    units: Cell<usize>,
    /// How many nodes may still be run here.
    left: Cell<u32>,
}

/// `RunHead::work`.
///
/// # Safety
/// `head` is that of a [`Slot`], and the caller has taken `entry`, which belongs to its run.
pub(super) unsafe fn from_worker(head: NonNull<RunHead>, entry: NodeEntry, most: u32) -> u32 {
    let this: NonNull<Slot> = head.cast();
    // SAFETY: S3, the entry's unit keeps the run.
    let slot = unsafe { this.as_ref() };
    let hand = Hand::new(slot, entry, most);
    let frame = NonNull::new(slot.group.get().cast_mut()).map(|group| {
        // SAFETY: S4.
        unsafe { Frame::enter(group.as_ptr(), slot.task.get(), u32::MAX) }
    });
    hand.work();
    drop(frame);
    let ran = most - hand.left.get();
    let units = hand.units.get();
    drop(hand);
    if units > 0 {
        // SAFETY: W4, the purse's; the slot is not used any more.
        unsafe { Slot::sub_units(this, units) };
    }
    ran
}

/// Works for a run that this thread waits for, from `first` on, until nothing of it is left here.
pub(super) fn from_caller(slot: &Slot, first: NodeEntry, rest: impl Iterator<Item = NodeEntry>) {
    let hand = Hand::new(slot, first, u32::MAX);
    rest.for_each(|entry| hand.push_owned(entry));
    hand.work();
    let units = hand.units.get();
    if units > 0 {
        // SAFETY: W4, the purse's; the caller is the one who waits.
        unsafe { Slot::sub_units(NonNull::from(slot), units) };
    }
}

impl<'a> Hand<'a> {
    fn new(slot: &'a Slot, token: NodeEntry, most: u32) -> Self {
        debug_assert!(token.is_of(slot.run()));
        Self {
            call: Call { slot, index: Cell::new(0), told: RefCell::default() },
            site: Site::here(),
            local: RefCell::default(),
            token: Cell::new(token),
            units: Cell::new(0),
            left: Cell::new(most),
        }
    }

    /// Runs the token in the hand and what comes of it.
    fn work(&self) {
        let mut next = Some(self.token.get());
        while let Some(token) = next {
            self.token.set(token);
            // The frame of a panic: one for many nodes.
            next = match catch_unwind(AssertUnwindSafe(|| self.spin())) {
                Ok(()) => None,
                Err(payload) => {
                    self.left.set(self.left.get().saturating_sub(1));
                    self.panicked(payload).or_else(|| self.another())
                }
            };
        }
    }

    /// The loop (W2).
    fn spin(&self) {
        let mut token = self.token.get();
        let mut left = self.left.get();
        loop {
            self.token.set(token);
            let next = self.run_one(token);
            left = left.saturating_sub(1);
            self.left.set(left);
            if left == 0 {
                if let Some(token) = next {
                    self.push_owned(token);
                }
                return;
            }
            let Some(next) = next.or_else(|| self.another()) else { return };
            token = next;
        }
    }

    #[inline(always)]
    fn run_one(&self, token: NodeEntry) -> Option<NodeEntry> {
        let slot = self.call.slot;
        let index = token.index();
        // SAFETY: a token's index is one of the plan.
        let record = unsafe { slot.plan().records.get_unchecked(index as usize) };
        if record.strong > 1 {
            // ORDERING: Relaxed, the next to touch it comes after this node, or in the next run (S2).
            slot.counter(index).store(record.strong, Ordering::Relaxed);
        }
        if token.is_skipped() || record.traits != 0 || slot.is_stopped() {
            return self.run_slowly(token, record);
        }
        self.call.index.set(index);
        // SAFETY: P1, the body is there and its function its own.
        let step = unsafe { (record.call)(record.data, &self.call) };
        if step == Step::Done { self.fire(record) } else { self.take_step(record, step) }
    }

    /// Hands a token to each successor; returns the first that is ready (W2, W3).
    #[inline(always)]
    fn fire(&self, record: &Record) -> Option<NodeEntry> {
        let slot = self.call.slot;
        let mut kept = None;
        for &successor in slot.plan().successors(record) {
            let mut token = NodeEntry::new(slot.run(), successor.index());
            if !successor.is_sole() {
                let counter = slot.counter(successor.index());
                // ORDERING: Acquire pairs with the Release of the decrements: the last predecessor
                // sees what the others did. Model: loom_last_predecessor_fires_once.
                if counter.load(Ordering::Acquire) != 1 {
                    // ORDERING: AcqRel, as above, and Release for those who come later.
                    let before = counter.fetch_sub(1, Ordering::AcqRel);
                    if before & !POISON != 1 {
                        continue;
                    }
                    if before & POISON != 0 {
                        token = token.skipped();
                    }
                }
            }
            if kept.is_none() {
                kept = Some(token);
            } else {
                self.push(token);
            }
        }
        if kept.is_none() {
            self.give_up();
        }
        kept
    }

    /// As `fire`, for a node that failed or was skipped (W5).
    #[cold]
    fn pass_over(&self, record: &Record) -> Option<NodeEntry> {
        let slot = self.call.slot;
        let mut kept = None;
        if record.traits & trait_bits::CONDITION == 0 {
            for &successor in slot.plan().successors(record) {
                let token = NodeEntry::new(slot.run(), successor.index()).skipped();
                if !successor.is_sole() {
                    let counter = slot.counter(successor.index());
                    // ORDERING: Relaxed, the decrement below publishes it.
                    counter.fetch_or(POISON, Ordering::Relaxed);
                    // ORDERING: AcqRel, as in `fire`.
                    if counter.fetch_sub(1, Ordering::AcqRel) & !POISON != 1 {
                        continue;
                    }
                }
                if let Some(token) = kept.replace(token) {
                    self.push(token);
                }
            }
        }
        if kept.is_none() {
            self.give_up();
        }
        kept
    }

    #[cold]
    fn run_slowly(&self, token: NodeEntry, record: &Record) -> Option<NodeEntry> {
        let slot = self.call.slot;
        if token.is_skipped() || slot.is_stopped() {
            slot.note_skipped(token.index());
            return self.pass_over(record);
        }
        self.call.index.set(token.index());
        // SAFETY: P1, the body is there and its function its own.
        let step = unsafe { (record.call)(record.data, &self.call) };
        self.take_step(record, step)
    }

    /// What a node asked for that is not simply done.
    #[cold]
    fn take_step(&self, record: &Record, step: Step) -> Option<NodeEntry> {
        match step {
            Step::Done => self.fire(record),
            Step::Pick(pick) => self.fire_weak(record, pick as usize).or_else(|| {
                self.give_up();
                None
            }),
            Step::Held => {
                // The unit goes with it.
                None
            }
            Step::Told => {
                let Told { cause, picks } = std::mem::take(&mut *self.call.told.borrow_mut());
                if let Some(cause) = cause {
                    self.call.slot.note_failure(self.token.get().index(), cause);
                    return self.pass_over(record);
                }
                self.fire_some(record, &picks)
            }
        }
    }

    fn fire_weak(&self, record: &Record, pick: usize) -> Option<NodeEntry> {
        let slot = self.call.slot;
        let successor = slot.plan().successors(record).get(pick)?;
        Some(NodeEntry::new(slot.run(), successor.index()))
    }

    fn fire_some(&self, record: &Record, picks: &[usize]) -> Option<NodeEntry> {
        let mut kept = None;
        for &pick in picks {
            let Some(token) = self.fire_weak(record, pick) else { continue };
            if kept.is_none() {
                kept = Some(token);
            } else {
                self.push(token);
            }
        }
        if kept.is_none() {
            self.give_up();
        }
        kept
    }

    #[cold]
    fn panicked(&self, payload: Payload) -> Option<NodeEntry> {
        let slot = self.call.slot;
        let index = self.token.get().index();
        *self.call.told.borrow_mut() = Told::default();
        slot.note_failure(index, Cause::Panic(payload));
        self.pass_over(&slot.plan().records[index as usize])
    }

    /// A token of this run from this thread's own deque, if its newest entry is one.
    #[inline]
    fn another(&self) -> Option<NodeEntry> {
        let Some(site) = &self.site else { return self.local.borrow_mut().pop() };
        // SAFETY: X5, the deque is this thread's.
        let newest = unsafe { site.deque.newest() }?;
        RawTask(newest).as_node().filter(|node| node.is_of(self.call.slot.run()))?;
        // SAFETY: as above.
        let taken = unsafe { site.deque.pop() }?;
        debug_assert_eq!(taken, newest);
        RawTask(taken).as_node()
    }

    /// Puts a new token where others find it (W1, W2).
    #[inline]
    fn push(&self, token: NodeEntry) {
        let units = self.units.get();
        if units > 0 {
            self.units.set(units - 1);
        } else {
            self.call.slot.add_units(BATCH);
            self.units.set(BATCH - 1);
        }
        self.push_owned(token);
    }

    /// As `push`, of a token that has its unit.
    #[inline]
    fn push_owned(&self, token: NodeEntry) {
        let Some(site) = &self.site else { return self.local.borrow_mut().push(token) };
        // SAFETY: X5, the deque is this thread's.
        let index = unsafe { site.deque.push(token.raw().0) };
        if !site.idle.is_quiet_after_fork(site.deque.is_light(index)) {
            site.tell();
        }
    }

    /// The token in the hand leads nowhere.
    #[inline]
    fn give_up(&self) {
        let units = self.units.get() + 1;
        if units < 2 * BATCH {
            self.units.set(units);
        } else {
            // SAFETY: the purse's, and it holds more (W4).
            unsafe { Slot::sub_units(NonNull::from(self.call.slot), BATCH) };
            self.units.set(units - BATCH);
        }
    }
}
