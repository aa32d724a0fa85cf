//! Work: a thread runs a node, then what that makes ready, and so on.
//!
//! W1. A token is the right to run one node, and carries a unit of the run (S3 of `slot`). It is in a deque, in a
//!     hand, parked at a semaphore or held by a node that goes on elsewhere. A node that ends turns its token into one
//!     for each successor that it made ready, or gives it up.
//! W2. The first successor that is ready stays in the hand: a chain is a loop, not a recursion. The others go
//!     into the deque of this thread, where anyone may take them, and sleepers are told.
//! W3. The last predecessor to arrive fires a node (`join`). A node with one predecessor has no counter to speak of.
//! W4. Units are drawn and given back in batches, by a purse that lives as long as the hand. It is settled last, after
//!     the frame, because the run, and with it the group, may be gone then.
//! W5. A node that fails or is skipped passes its token on all the same, marked: what depends on it is skipped
//!     too, however many other predecessors it has. So every counter is back where it was at the end.
//! W6. Where nodes have ranks, all that are ready lie in the slot's queues, and a token is the right to run the best.
//!
//! Not here: how a worker comes to the entry (`sched/nodes.rs`), what the caller does meanwhile (`run`).

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::body::Step;
use super::error::Cause;
use super::join::{Arrival, Join};
use super::output::Refusal;
use super::permits::Acquired;
use super::plan::{Reach, Record, trait_bits};
use super::profile::Lap;
use super::slot::Slot;
use super::{errand, limit, output};
use crate::base::barrier::light_is_free;
use crate::base::prefetch::{prefetch_read, prefetch_write};
use crate::idle::Idle;
use crate::queue::deque::Deque;
use crate::sched::worker::Worker;
use crate::task::context::{self, Frame};
use crate::task::group::Payload;
use crate::task::header::{Header, RawTask};
use crate::task::node::{NodeEntry, RunHead};

/// Units drawn at once. Guessed, as in `task/count.rs`.
const BATCH: usize = 64;

/// Nodes after which an errand asks whether it should give way. Guessed.
pub(super) const TURN: u32 = 64;

/// Successors whose memory is asked for while a body runs, where it is far.
const AHEAD: usize = 2;

/// Counters in a cache line.
const LINE: u32 = 64 / size_of::<Join>() as u32;

/// What a body says besides its [`Step`].
#[derive(Default)]
struct Told {
    cause: Option<Cause>,
    picks: Vec<usize>,
}

/// Where tokens go.
enum Way<'a> {
    /// Into this thread's deque.
    Deque(Site<'a>),
    /// Nowhere: the thread has no deque, and runs them itself.
    Here(RefCell<Vec<NodeEntry>>),
    /// To the job lane: this thread is not there to run nodes.
    Away,
}

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
            worker.shared().notify(worker.lane());
        }
    }
}

/// Whether this thread has a deque.
pub(super) fn has_deque() -> bool {
    Site::here().is_some()
}

/// Whether a hand stops for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turns {
    /// Asks after so many nodes.
    Every(u32),
    /// Its thread waits for the run.
    Never,
}

/// A thread at work for a run; what a body is called with.
pub struct Hand<'a> {
    pub(super) slot: &'a Slot,
    /// Of the plan.
    records: *const Record,
    reach: Reach,
    way: Way<'a>,
    /// The token in the hand, for whoever catches a panic of its node.
    token: Cell<NodeEntry>,
    /// W4.
    units: Cell<usize>,
    ran: Cell<u64>,
    told: RefCell<Told>,
}

/// `RunHead::work`.
///
/// # Safety
/// `head` is that of a [`Slot`], and the caller has taken `entry`, which belongs to its run.
pub(super) unsafe fn from_worker(head: NonNull<RunHead>, entry: NodeEntry, every: u32) -> u64 {
    let this: NonNull<Slot> = head.cast();
    // SAFETY: S3, the entry's unit keeps the run.
    let slot = unsafe { this.as_ref() };
    let hand = Hand::new(slot, entry);
    // SAFETY: S4.
    let frame = unsafe { Frame::enter(slot.group.get(), slot.task.get(), u32::MAX) };
    hand.work(Turns::Every(every));
    drop(frame);
    let ran = hand.ran.get();
    // SAFETY: the slot is not used any more.
    unsafe { hand.settle() };
    ran
}

/// Works for a run that this thread waits for, from `first` on, until nothing of it is left here.
pub(super) fn from_caller(slot: &Slot, first: NodeEntry, rest: impl Iterator<Item = NodeEntry>) {
    let hand = Hand::new(slot, first);
    rest.for_each(|entry| hand.put(entry));
    hand.work(Turns::Never);
    // SAFETY: the caller is the one who waits.
    unsafe { hand.settle() };
}

/// Begins a run that nobody waits for here: from its sources on.
///
/// # Safety
/// The caller has the right to begin the run, and uses the slot no more.
pub(super) unsafe fn begin(slot: &Slot) {
    let [first, rest @ ..] = &*slot.plan().sources else { unreachable!("a run has a source") };
    let hand = Hand::new(slot, source(slot, *first));
    rest.iter().rev().for_each(|&index| hand.put(source(slot, index)));
    // SAFETY: S4.
    let frame = unsafe { Frame::enter(slot.group.get(), slot.task.get(), u32::MAX) };
    hand.work(Turns::Every(TURN));
    drop(frame);
    // SAFETY: by the caller's promise.
    unsafe { hand.settle() };
}

/// The token of a source, at the beginning of a run.
pub(super) fn source(slot: &Slot, index: u32) -> NodeEntry {
    ready(slot, NodeEntry::new(slot.run(), index))
}

/// W6: the token by which one that is ready is run.
#[inline(always)]
fn ready(slot: &Slot, token: NodeEntry) -> NodeEntry {
    if slot.plan().ranked {
        slot.rank(token);
        NodeEntry::best_of(slot.run())
    } else {
        token
    }
}

/// A node that goes on elsewhere, with its token (W1). Dropped, it has failed for want of an end.
pub(super) struct Held {
    slot: NonNull<Slot>,
    index: u32,
}

// SAFETY: the token's unit keeps the run, whose slot is `Sync`.
unsafe impl Send for Held {}
// SAFETY: a shared reference gives access to what is `Sync`.
unsafe impl Sync for Held {}

impl Held {
    /// Stores what the node returned.
    ///
    /// # Safety
    /// `cell` is that of the node, for a `T`.
    pub(super) unsafe fn store<T>(&self, cell: u32, value: T) -> Result<(), Refusal> {
        // SAFETY: S3, the token's unit.
        let slot = unsafe { self.slot.as_ref() };
        // SAFETY: by the caller's promise.
        unsafe { slot.outputs.store(cell, value, slot.access) }
    }

    /// The node has ended. What it made ready goes to the job lane.
    pub(super) fn end(self, outcome: Result<(), Cause>) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: not dropped, so this is its one end.
        unsafe { end_held(this.slot, this.index, outcome) };
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let cause = Cause::Error("the node was dropped before its end".into());
        // SAFETY: dropped once, and `end` does not drop it.
        unsafe { end_held(self.slot, self.index, Err(cause)) };
    }
}

/// # Safety
/// The caller has the token of the node, and gives it up.
unsafe fn end_held(slot: NonNull<Slot>, index: u32, outcome: Result<(), Cause>) {
    // SAFETY: S3, the token's unit.
    let slot = unsafe { slot.as_ref() };
    let hand = Hand { way: Way::Away, ..Hand::new(slot, NodeEntry::new(slot.run(), index)) };
    let record = &slot.plan().records[index as usize];
    if let Some(log) = slot.log() {
        log.end_away(index);
    }
    hand.release(record, index);
    let kept = match outcome {
        Ok(()) => hand.fire::<true>(record),
        Err(cause) => {
            slot.note_end(index, cause);
            hand.pass_over(record)
        }
    };
    if let Some(token) = kept {
        hand.put(token);
    }
    // SAFETY: the slot is not used any more.
    unsafe { hand.settle() };
}

impl<'a> Hand<'a> {
    fn new(slot: &'a Slot, token: NodeEntry) -> Self {
        debug_assert!(token.is_of(slot.run()));
        Self {
            slot,
            records: slot.plan().records.as_ptr(),
            reach: slot.plan().reach,
            way: Site::here().map_or_else(|| Way::Here(RefCell::default()), Way::Deque),
            token: Cell::new(token),
            units: Cell::new(0),
            ran: Cell::new(0),
            told: RefCell::default(),
        }
    }

    /// Gives the purse back (W4).
    ///
    /// # Safety
    /// The caller does not use the slot afterwards, or is the one who waits.
    unsafe fn settle(self) {
        let (slot, units) = (NonNull::from(self.slot), self.units.get());
        drop(self);
        if units > 0 {
            // SAFETY: the purse's, and by the caller's promise.
            unsafe { Slot::sub_units(slot, units) };
        }
    }

    /// The node that runs.
    pub(super) fn index(&self) -> u32 {
        self.token.get().index()
    }

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
        let picks: Vec<usize> = picks.into_iter().collect();
        self.told.borrow_mut().picks = picks;
        Step::Told
    }

    /// Runs a node besides those that edges lead to, at once and whatever it waits for.
    pub(super) fn schedule(&self, index: u32) {
        self.push(ready(self.slot, NodeEntry::new(self.slot.run(), index)));
    }

    /// Takes the token along: the node ends when that is told to, and its body returns [`Step::Held`].
    pub(super) fn hold(&self) -> Held {
        self.stay();
        Held { slot: NonNull::from(self.slot), index: self.index() }
    }

    /// Runs the token in the hand and what comes of it.
    fn work(&self, turns: Turns) {
        let mut next = Some(self.token.get());
        while let Some(token) = next {
            self.token.set(token);
            // The frame of a panic: one for many nodes.
            next = match catch_unwind(AssertUnwindSafe(|| self.spin(turns))) {
                Ok(()) => None,
                Err(payload) => self.panicked(payload).or_else(|| self.another()),
            };
        }
    }

    /// The loop (W2).
    fn spin(&self, turns: Turns) {
        let every = if let Turns::Every(nodes) = turns { nodes } else { u32::MAX };
        let mut left = every;
        let mut token = self.token.get();
        loop {
            self.token.set(token);
            self.ran.set(self.ran.get() + 1);
            let next = self.run_one(token);
            left -= 1;
            if left == 0 {
                left = every;
                if turns != Turns::Never && self.must_give_way() {
                    if let Some(token) = next {
                        self.put(token);
                    }
                    return;
                }
            }
            let Some(next) = next.or_else(|| self.another()) else { return };
            token = next;
        }
    }

    #[cold]
    fn must_give_way(&self) -> bool {
        // SAFETY: used within this call only.
        matches!(self.way, Way::Deque(_))
            && unsafe { Worker::current() }.is_some_and(Worker::has_others_waiting)
    }

    #[inline(always)]
    fn run_one(&self, token: NodeEntry) -> Option<NodeEntry> {
        // SAFETY: a token's index is one of the plan; that of the best is 0.
        let record = unsafe { self.records.add(token.index() as usize) };
        // SAFETY: as above; a plan does not change while it is run.
        let record = unsafe { &*record };
        let slow = record.traits & trait_bits::SLOW != 0;
        if !token.is_plain() | slow | !self.slot.is_plain() {
            return self.run_slowly(token);
        }
        self.begin(token.index(), record);
        // SAFETY: P1, the body is there and its function its own.
        let step = unsafe { (record.call)(record.data, self) };
        if step == Step::Done { self.fire::<false>(record) } else { self.take_step(record, step) }
    }

    /// Before a node runs or is passed over: its counter goes back, and what its end will touch is asked for.
    #[inline(always)]
    fn begin(&self, index: u32, record: &Record) {
        if record.strong > 1 {
            self.slot.join(index).reset(record.strong);
        }
        self.expect(record);
    }

    /// Has what the node's end will touch come near while its body runs. Where edges lead near, that is the line of counters
    /// after theirs: to be written, so that no other worker has to be asked again; all else the processor guesses.
    #[inline(always)]
    fn expect(&self, record: &Record) {
        let joins = self.slot.joins().as_ptr();
        let successors = self.slot.plan().successors(record).iter();
        if self.reach == Reach::Near {
            for successor in successors.take(AHEAD) {
                if successor.index() % LINE == 0 {
                    prefetch_write(joins.wrapping_add((successor.index() + LINE) as usize));
                }
            }
            return;
        }
        for successor in successors.take(AHEAD) {
            prefetch_read(self.records.wrapping_add(successor.index() as usize));
            if !successor.is_sole() {
                prefetch_write(joins.wrapping_add(successor.index() as usize));
            }
        }
    }

    /// Hands a token to each successor; returns the first that is ready (W2, W3).
    #[inline(always)]
    fn fire<const RANKED: bool>(&self, record: &Record) -> Option<NodeEntry> {
        let slot = self.slot;
        let mut kept = None;
        for &successor in slot.plan().successors(record) {
            let mut token = NodeEntry::new(slot.run(), successor.index());
            if !successor.is_sole() {
                match slot.join(successor.index()).arrive() {
                    Arrival::Runs => {}
                    Arrival::Waits => continue,
                    Arrival::Skips => token = token.skipped(),
                }
            }
            let token = if RANKED { ready(slot, token) } else { token };
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
        let slot = self.slot;
        let mut kept = None;
        let weak = record.traits & trait_bits::CONDITION != 0;
        for &successor in slot.plan().successors(record).iter().filter(|_| !weak) {
            let token = NodeEntry::new(slot.run(), successor.index()).skipped();
            if !successor.is_sole()
                && slot.join(successor.index()).arrive_skipped() == Arrival::Waits
            {
                continue;
            }
            if let Some(token) = kept.replace(ready(slot, token)) {
                self.push(token);
            }
        }
        if kept.is_none() {
            self.give_up();
        }
        kept
    }

    /// A node that is skipped, or more than a closure.
    #[cold]
    fn run_slowly(&self, token: NodeEntry) -> Option<NodeEntry> {
        let slot = self.slot;
        let token = match (token.is_best(), token.is_skipped()) {
            (false, _) => token,
            (true, false) => slot.best(),
            // Whichever it would have been.
            (true, true) => slot.best().skipped(),
        };
        self.token.set(token);
        let index = token.index();
        let record = &slot.plan().records[index as usize];
        if !token.is_granted() {
            self.begin(index, record);
        }
        let limited = record.traits & trait_bits::LIMITED != 0;
        if token.is_skipped() || slot.is_stopped() {
            if token.is_granted() {
                self.release(record, index);
            }
            slot.note_skipped(index);
            return self.pass_over(record);
        }
        if limited && !token.is_granted() {
            self.stay();
            if limit::acquire(slot, token) == Acquired::Parked {
                // The token waits at a semaphore, with its unit.
                return None;
            }
        }
        let lap = Lap::begin(slot, index);
        // SAFETY: P1, the body is there and its function its own.
        let step = unsafe { (record.call)(record.data, self) };
        if step == Step::Held {
            Lap::go_on(lap);
        } else {
            drop(lap);
            self.release(record, index);
        }
        self.take_step(record, step)
    }

    /// Gives back the permits of a node that has ended, and runs who waited for them.
    fn release(&self, record: &Record, index: u32) {
        if record.traits & trait_bits::LIMITED != 0 {
            limit::release(self.slot, index, &mut |token| self.put_any(token));
        }
    }

    /// What a node asked for that is not simply done.
    #[cold]
    fn take_step(&self, record: &Record, step: Step) -> Option<NodeEntry> {
        match step {
            Step::Done => self.fire::<true>(record),
            Step::Pick(pick) => self.fire_some(record, &[pick as usize]),
            // The token goes with it.
            Step::Held => None,
            Step::Told => {
                let Told { cause, picks } = std::mem::take(&mut *self.told.borrow_mut());
                if let Some(cause) = cause {
                    self.slot.note_failure(self.index(), cause);
                    return self.pass_over(record);
                }
                self.fire_some(record, &picks)
            }
        }
    }

    /// Runs the successors of a condition that it chose.
    fn fire_some(&self, record: &Record, picks: &[usize]) -> Option<NodeEntry> {
        let slot = self.slot;
        let mut kept = None;
        for &pick in picks {
            let Some(successor) = slot.plan().successors(record).get(pick) else { continue };
            let token = ready(slot, NodeEntry::new(slot.run(), successor.index()));
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
        let index = self.index();
        *self.told.borrow_mut() = Told::default();
        self.slot.note_failure(index, Cause::Panic(payload));
        let record = &self.slot.plan().records[index as usize];
        self.release(record, index);
        self.pass_over(record)
    }

    /// A token of this run from this thread's own deque, if its newest entry is one.
    #[inline]
    fn another(&self) -> Option<NodeEntry> {
        let site = match &self.way {
            Way::Deque(site) => site,
            Way::Here(tokens) => return tokens.borrow_mut().pop(),
            Way::Away => return None,
        };
        // SAFETY: X5, the deque is this thread's.
        let newest = unsafe { site.deque.newest() }?;
        RawTask(newest).as_node().filter(|node| node.is_of(self.slot.run()))?;
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
            self.slot.units.add(BATCH);
            self.units.set(BATCH - 1);
        }
        self.put(token);
    }

    /// As `push`, of a token that has its unit.
    #[inline]
    fn put(&self, token: NodeEntry) {
        match &self.way {
            Way::Deque(site) => {
                // SAFETY: X5, the deque is this thread's.
                unsafe { site.deque.push_fenced(token.raw().0) };
                if !site.idle.is_quiet_after_fork(light_is_free()) {
                    site.tell();
                }
            }
            Way::Here(tokens) => tokens.borrow_mut().push(token),
            Way::Away => errand::send(token),
        }
    }

    /// As `put`, of a token that may be of another run, and of another runtime.
    fn put_any(&self, token: NodeEntry) {
        if token.is_of(self.slot.run()) {
            return self.put(token);
        }
        // SAFETY: the caller has the token.
        let other: NonNull<Slot> = unsafe { token.head() }.cast();
        // SAFETY: S3, the token's unit keeps its run.
        let other = unsafe { other.as_ref() };
        match &self.way {
            // X5: what lies in a deque is of its runtime, which may end when its own tasks have.
            Way::Deque(_) if other.runtime() == self.slot.runtime() => self.put(token),
            _ => errand::send(token),
        }
    }

    /// Keeps the run, and with it the slot, for a hand whose token is about to go its own way: others may
    /// bring it to its end, and the run with it, before this hand has looked for another.
    fn stay(&self) {
        if self.units.get() == 0 {
            self.slot.units.add(BATCH);
            self.units.set(BATCH);
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
            unsafe { Slot::sub_units(NonNull::from(self.slot), BATCH) };
            self.units.set(units - BATCH);
        }
    }
}
