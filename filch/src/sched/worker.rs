//! A worker: one thread's loop over its sources.
//!
//! A step serves them in one order: events, inbound and private tasks, timers, slot and ring (or
//! deque) up to `local_budget` tasks, injector and spill, steal, park. Every `global_interval`
//! tasks a look around gives each of low queue, injector, spill and own queue its turn to come
//! first, before high tasks.
//!
//! K1. A worker is used by its own thread only; what user code reaches through the context is
//!     reached by shared reference, so every field that changes is a cell.
//! K2. Between tasks no cell is borrowed: a task may spawn, wake, block and run other tasks.
//! K3. `searching` says how the idle set counts this worker, at any time.
//! K4. No step is unbounded: a worker whose tasks respawn for ever sees events, its mailbox and
//!     the end of the runtime every `local_budget` tasks, at least every `io_interval`, and, while
//!     operations are in flight or timers wait, after the task that ends 100 µs later, or up to three more after
//!     brief ones. The clock is read in every step, also in one that runs nothing and one that finds
//!     something only when it lies down: timers fire by that reading.
//!
//! Not here: which task is next (`next`), how it is run (`run`), whom to steal from (`steal`), the sleep
//! (`sleep`).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::adopt::EndLeft;
use super::core::EventCore;
use super::drive::Suspect;
use super::leave::{Departure, Request};
use super::ripe::Ripeness;
use super::roster::Term;
use super::shared::{Lane, Phase, Shared, Slot, lock};
use super::visits::BRIEF;
use super::watch::Watch;
use crate::base::rng::Rng;
use crate::idle;
use crate::pool::Cache;
use crate::queue::mailbox::Pop;
use crate::task::context::{self, Cover};
use crate::task::group::Group;
use crate::task::header::RawTask;

/// How long an outside task should wait for the periodic look at most. Guessed, as in Tokio.
const GLOBAL_LOOK_NS: u64 = 200_000;

/// A sleep that is shorter costs more than it saves: about two thread switches. Guessed.
const SHORT_SLEEP: Duration = Duration::from_micros(20);

/// Whether the loop goes on.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    /// Into `shared`, so that the hot paths need not look them up.
    slot: NonNull<Slot>,
    lane: NonNull<Lane>,
    runs_futures: bool,
    runs_jobs: bool,
    pub(super) core: RefCell<Box<dyn EventCore>>,
    cache: Cache,
    pub(crate) rng: RefCell<Rng>,
    /// Tasks run, empty looks included: what the intervals count.
    pub(super) tick: Cell<u64>,
    /// The tick at which the next periodic look is due.
    next_look: Cell<u64>,
    /// Periodic looks so far.
    looks: Cell<u64>,
    /// The self-tuned `global_interval`.
    interval: Cell<u64>,
    /// Tasks taken from the newest-task slot in a row.
    pub(crate) streak: Cell<usize>,
    /// Tries with a pause that a search may take (X4 of `steal`).
    pub(crate) patience: Cell<usize>,
    /// Where the last steal succeeded.
    pub(crate) victim: Cell<usize>,
    /// A neighbour that was inside a task when this worker last looked (A4 of `drive`).
    pub(crate) suspect: Cell<Option<Suspect>>,
    /// What this worker knows of the jobs of others (X5 of `steal`).
    pub(super) ripeness: Ripeness,
    /// K3.
    pub(crate) searching: Cell<bool>,
    /// Whether the idle set counts this worker at all.
    in_lane: Cell<bool>,
    /// The sentry watches, as long as we are awake (I6).
    armed: Cell<bool>,
    /// Pinned tasks that are ready.
    private: RefCell<VecDeque<RawTask>>,
    /// Pinned tasks that are alive; each holds a clone.
    pins: OnceCell<Rc<()>>,
    /// The event core is telling what has happened.
    pub(super) delivering: Cell<bool>,
    /// It made tasks ready that nobody was told of (D1).
    pub(super) held_back: Cell<bool>,
    /// When the event core was last visited: time and tick.
    pub(super) visited: Cell<(Instant, u64)>,
    /// Whether the tasks of the last step were brief (`is_due`).
    pub(super) brief: Cell<bool>,
    /// When the worker last woke, fell asleep or told the time.
    pub(super) since: Cell<Instant>,
    aborting: Cell<bool>,
    /// Until when the naps of the past would have taken at their rate (M3 of `timers`).
    pub(super) short_naps: Cell<Instant>,
    /// Whom the next fork that finds sleepers wakes, if it is the first of a loop; one otherwise, 0.
    pub(crate) announced: Cell<usize>,
    /// The last find beyond the own queues was a node of a graph.
    pub(super) found_node: Cell<bool>,
    /// How many calls of a guest may fork (U3).
    pub(crate) forking: Cell<usize>,
    /// Whether the event core is the program's own.
    pub(super) guest_core: bool,
    /// Watchers that were started or stopped since the last visit to the core (W2 of `watch`).
    pub(super) changes: RefCell<Vec<Arc<Watch>>>,
    /// Who waits for this worker to leave (`leave`).
    pub(super) asked: RefCell<Option<Request>>,
    pub(super) departure: Cell<Departure>,
    /// How long it stays (`grow`).
    pub(super) term: Term,
    /// Whether the thread goes when the end goes on without it (F2 of `life`).
    pub(super) leaves_early: Cell<bool>,
    /// When a pump's call should end (`pump`), or in a forked child, that there is no next step (`forked`).
    pub(super) frame_end: Cell<Option<Instant>>,
}

impl Worker {
    /// Occupies slot `index`. The caller is its thread, or a test that drives it.
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        let victims = shared.lanes[shared.slots[index].lane].range.len();
        Self::with_ripeness(shared, index, Ripeness::new(victims))
    }

    /// As `new`, with what somebody left who was in this slot.
    pub(super) fn with_ripeness(shared: Arc<Shared>, index: usize, ripeness: Ripeness) -> Self {
        let slot = &shared.slots[index];
        let core = lock(&slot.core).take().expect("a slot has one occupant at a time");
        let lane = &shared.lanes[slot.lane];
        lane.widen(index);
        let victim = index - lane.range.start;
        let worker = Self {
            runs_futures: slot.lane == 0 && !lane.is_guest(index),
            runs_jobs: slot.lane + 1 == shared.lanes.len(),
            lane: NonNull::from(lane),
            slot: NonNull::from(&**slot),
            core: RefCell::new(core),
            cache: Cache::new(shared.pool.clone()),
            rng: RefCell::new(shared.rng_of(index)),
            tick: Cell::new(0),
            next_look: Cell::new(shared.config.global_interval as u64),
            looks: Cell::new(0),
            interval: Cell::new(shared.config.global_interval as u64),
            streak: Cell::new(0),
            patience: Cell::new(shared.config.explore_yields),
            victim: Cell::new(victim),
            suspect: Cell::new(None),
            ripeness,
            searching: Cell::new(false),
            in_lane: Cell::new(false),
            armed: Cell::new(false),
            private: RefCell::new(VecDeque::new()),
            pins: OnceCell::new(),
            delivering: Cell::new(false),
            held_back: Cell::new(false),
            visited: Cell::new((shared.clock.now(), 0)),
            brief: Cell::new(false),
            since: Cell::new(shared.clock.now()),
            aborting: Cell::new(false),
            short_naps: Cell::new(shared.clock.now()),
            announced: Cell::new(0),
            found_node: Cell::new(false),
            forking: Cell::new(0),
            guest_core: slot.guest_core.is_present(),
            changes: RefCell::new(Vec::new()),
            asked: RefCell::new(None),
            departure: Cell::new(Departure::Stays),
            term: if victim < lane.seats { shared.roster.term(index) } else { Term::Open },
            leaves_early: Cell::new(false),
            frame_end: Cell::new(None),
            shared,
            index,
        };
        worker.join_lane();
        worker
    }

    /// Enters the lane's idle set, awake.
    pub(crate) fn join_lane(&self) {
        self.set_armed(self.lane().idle.join());
        self.in_lane.set(true);
    }

    /// Leaves the lane's idle set.
    pub(crate) fn leave_lane(&self) {
        if self.searching.get() {
            self.stop_searching();
        }
        self.lane().idle.leave();
        self.in_lane.set(false);
    }

    /// Leaves the slot, and what the next one there can use. Its queues are empty, or visible to others and announced.
    pub(crate) fn leave(self) -> Ripeness {
        debug_assert!(self.private.borrow().is_empty() && !self.has_pinned());
        Group::settle();
        if self.in_lane.get() {
            self.leave_lane();
        }
        let slot = &self.shared.slots[self.index];
        *lock(&slot.core) = Some(self.core.into_inner());
        self.ripeness
    }

    /// The worker of the current thread, if it belongs to `shared`.
    ///
    /// # Safety
    /// As for [`Worker::current`].
    #[inline]
    pub(crate) unsafe fn of_runtime<'a>(shared: *const Shared) -> Option<&'a Worker> {
        // SAFETY: by the caller's promise.
        let worker = unsafe { Self::current() }?;
        std::ptr::eq(Arc::as_ptr(&worker.shared), shared).then_some(worker)
    }

    /// The worker of the current thread.
    ///
    /// # Safety
    /// The result is used within the caller's call only. If that calls user code meanwhile, X7 of `context` has to
    /// hold there: a frame or a wait is around it, or it is called through [`context::outside`].
    #[inline]
    pub(crate) unsafe fn current<'a>() -> Option<&'a Worker> {
        let worker: *const Worker = context::with(|cx| cx.worker.get()).cast();
        // SAFETY: X3, and X7 for as long as the caller uses it.
        unsafe { worker.as_ref() }
    }

    /// Makes this the worker of the current thread, which has none, until the adoption ends (X7 of `context`).
    pub(super) fn become_current(&self) {
        context::with(|cx| {
            cx.worker.set(std::ptr::from_ref(self).cast());
            cx.cache.set(&self.cache);
        });
    }

    /// Whether this is the worker on top of the current thread.
    pub(super) fn is_current(&self) -> bool {
        context::with(|cx| std::ptr::eq(cx.worker.get(), std::ptr::from_ref(self).cast()))
    }

    /// Makes this the worker of the current thread for the call of `f`, which belongs to nothing that runs
    /// there.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let _left = EndLeft;
        // SAFETY: `&self` lasts until the cover is dropped, and whoever set the group keeps it (X2).
        let _cover = unsafe { Cover::enter(std::ptr::from_ref(self).cast(), &self.cache) };
        f()
    }

    /// Makes this the worker of the current thread for the call of `f`, which is a part of what runs there.
    pub(super) fn lend<R>(&self, f: impl FnOnce() -> R) -> R {
        let _left = EndLeft;
        // SAFETY: `&self` lasts until the cover is dropped.
        let _cover = unsafe { Cover::lend(std::ptr::from_ref(self).cast(), &self.cache) };
        f()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: S2, slots neither move nor go while we hold `shared`.
        unsafe { self.slot.as_ref() }
    }

    #[inline]
    pub(crate) fn lane(&self) -> &Lane {
        // SAFETY: as slots, lanes are made once with `shared`.
        unsafe { self.lane.as_ref() }
    }

    /// This worker's number in its lane.
    pub(crate) fn id(&self) -> u32 {
        self.lane().id_of(self.index)
    }

    #[inline]
    pub(crate) fn runs_futures(&self) -> bool {
        self.runs_futures
    }

    #[inline]
    pub(crate) fn runs_jobs(&self) -> bool {
        self.runs_jobs
    }

    /// Whether this worker only stands in for others.
    pub(crate) fn is_spare(&self) -> bool {
        self.id() as usize >= self.lane().seats && !self.is_guest()
    }

    /// Whether this is a thread from outside (`adopt`).
    pub(crate) fn is_guest(&self) -> bool {
        self.lane().is_guest(self.index)
    }

    /// Whether pinned tasks live here, so that the thread must stay.
    pub(crate) fn has_pinned(&self) -> bool {
        self.pins.get().is_some_and(|pins| Rc::strong_count(pins) > 1)
    }

    /// A guard for the body of a pinned task.
    pub(crate) fn pin(&self) -> Rc<()> {
        self.pins.get_or_init(Rc::default).clone()
    }

    /// One round over all sources, in the order of the file header.
    pub(crate) fn step(&self) -> Flow {
        match self.serve() {
            Served::Something => Flow::Continue,
            Served::Stop => Flow::Stop,
            Served::Nothing => {
                self.sleep();
                Flow::Continue
            }
        }
    }

    /// All of a step but its sleep.
    pub(super) fn serve(&self) -> Served {
        if self.frame_end.get().is_some() {
            self.end_in_child();
        }
        if self.see_phase() == Flow::Stop {
            return Served::Stop;
        }
        let before = self.tick.get();
        self.events();
        self.inbound();
        self.run_private();
        self.fire_timers();
        self.run_local();
        if self.tick.get() != before {
            self.tune(self.tick.get() - before);
            return Served::Something;
        }
        match self.find() {
            Found::Task(task) => {
                self.count_tick();
                self.run_found(task);
                self.tune(1);
            }
            Found::Stop => return Served::Stop,
            Found::Nothing => return Served::Nothing,
            Found::Unripe => {
                self.note_time();
            }
        }
        Served::Something
    }

    /// The last look at the clock.
    #[inline]
    pub(super) fn time(&self) -> Instant {
        self.since.get()
    }

    /// Reads how far the end has come.
    fn see_phase(&self) -> Flow {
        match self.shared.phase() {
            Phase::Open | Phase::Draining => Flow::Continue,
            Phase::Aborting | Phase::Background => {
                self.aborting.set(true);
                Flow::Continue
            }
            Phase::Stopped => Flow::Stop,
        }
    }

    #[inline]
    pub(super) fn is_aborting(&self) -> bool {
        self.aborting.get()
    }

    /// Whether the runtime ends in the background, and nothing is left here that only this thread can run.
    pub(super) fn may_be_left_behind(&self) -> bool {
        self.shared.phase() == Phase::Background
            && !self.has_pinned()
            && self.private.borrow().is_empty()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.phase() == Phase::Stopped
    }

    /// Sleeps in the event core.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        self.deliver(|core| core.park(timeout));
    }

    /// Moves what others sent to this worker into its private queue, as much as it runs in one step: they
    /// may send for ever (K4).
    fn inbound(&self) {
        let mailbox = &self.slot().mailbox;
        for _ in 0..self.shared.config.private_budget {
            if mailbox.is_empty() {
                break;
            }
            // SAFETY: S3, we are the owner.
            match unsafe { mailbox.pop() } {
                Pop::Item(item) => self.keep(RawTask(item)),
                Pop::Empty | Pop::Stalled => break,
            }
        }
    }

    pub(crate) fn keep(&self, task: RawTask) {
        self.private.borrow_mut().push_back(task);
    }

    /// Whether something waits that only this worker can run.
    pub(crate) fn has_private(&self) -> bool {
        !self.private.borrow().is_empty() || !self.slot().mailbox.is_empty()
    }

    fn run_private(&self) {
        let driving = self.drives() || self.has_timers();
        for _ in 0..self.shared.config.private_budget {
            let task = self.private.borrow_mut().pop_front();
            let Some(task) = task else { break };
            self.count_tick();
            self.run(task);
            if self.is_due(driving) {
                break;
            }
        }
    }

    /// Runs ready tasks of this worker's own queues, at most `local_budget`.
    fn run_local(&self) {
        let (config, driving) = (&self.shared.config, self.drives() || self.has_timers());
        for _ in 0..config.local_budget.min(config.io_interval) {
            let tick = self.count_tick();
            let task = if tick < self.next_look.get() {
                self.next_local()
            } else {
                self.next_look.set(tick + self.interval.get());
                self.look_around()
            };
            let Some(task) = task else {
                self.tick.set(tick - 1);
                break;
            };
            self.run(task);
            if self.is_due(driving) {
                break;
            }
        }
    }

    /// The periodic look: each source has its turn to come first, and all come before high tasks.
    fn look_around(&self) -> Option<RawTask> {
        let look = self.looks.get() + 1;
        self.looks.set(look);
        let first = match look % 4 {
            0 => self.next_low(),
            1 => None,
            2 => self.next_oldest_spilled(),
            _ => self.next_own_job_first(),
        };
        first
            .or_else(|| self.next_injected())
            .or_else(|| self.next_own())
            .or_else(|| self.next_local())
    }

    /// How many tasks may run here before somebody else's have their turn, at least one.
    pub(super) fn left_until_look(&self) -> u32 {
        let left = self.next_look.get().saturating_sub(self.tick.get());
        left.clamp(1, self.shared.config.local_budget as u64) as u32
    }

    fn count_tick(&self) -> u64 {
        let tick = self.tick.get() + 1;
        self.tick.set(tick);
        tick
    }

    /// Sets the interval of the periodic look by how long tasks take here.
    fn tune(&self, ran: u64) {
        let each = self.note_time() / ran.max(1);
        self.brief.set(each < BRIEF);
        if let Some(tasks) = GLOBAL_LOOK_NS.checked_div(each) {
            let longest = 2 * self.shared.config.global_interval as u64;
            let aim = tasks.clamp(2, longest);
            // One part in eight of the new value: a single long task does not move it far. Rounded
            // towards the aim, so that it gets there.
            let now = self.interval.get();
            let mixed = 7 * now + aim;
            self.interval.set(if aim < now { mixed / 8 } else { mixed.div_ceil(8) });
        }
        self.shared.grow_with_load(self.lane());
    }

    /// Looks outside of the worker's own queues: injector, then others.
    fn find(&self) -> Found {
        if let Some(task) = self.next_injected().or_else(|| self.next_spilled()) {
            return Found::Task(task);
        }
        // C4: nothing of a group may stay here while we look around or sleep.
        Group::settle();
        // Settling may have ended a group, whose waiter is then woken here.
        match self.next_local() {
            Some(task) => Found::Task(task),
            None => self.explore(),
        }
    }

    /// Makes sure that the sentry will notice if this worker gets stuck.
    #[inline]
    pub(crate) fn ensure_watched(&self) {
        if !self.armed.get() {
            self.shared.watch(self.lane());
            self.armed.set(true);
        }
    }

    pub(crate) fn set_armed(&self, sentry: idle::Sentry) {
        self.armed.set(sentry == idle::Sentry::Armed);
    }

    /// This worker has work in hand: it no longer searches, and pays what it owes (I4).
    pub(crate) fn stop_searching(&self) {
        self.searching.set(false);
        if self.lane().idle.found() == idle::Owes::Notify {
            self.pass_on();
        }
    }

    /// Pays the notify that the last searcher owes (I4), if there is anything to pay for.
    ///
    /// Who pushed while we searched relied on us; who pushes from now on sees that nobody searches.
    /// So a look after the fence finds whatever needs somebody, and a wake for nothing is saved: it
    /// would cost more than the task in hand waited for.
    pub(crate) fn pass_on(&self) {
        // A pusher that saw us search has pushed before, and we see it.
        self.lane().idle.before_look();
        if self.lane().has_ready(&self.shared.slots) {
            self.shared.notify(self.lane());
        }
    }

    /// Bookkeeping around a sleep.
    pub(crate) fn falls_asleep(&self) {
        self.note_time();
        self.slot().counters.parks.add(1);
    }

    /// Looks at the clock, on which timers and visits depend; returns how many ns it went on.
    pub(super) fn note_time(&self) -> u64 {
        let now = self.shared.tell_time();
        let spent = now.saturating_duration_since(self.since.replace(now)).as_nanos() as u64;
        self.slot().counters.busy_ns.add(spent);
        spent
    }

    pub(crate) fn wakes_up(&self, cause: idle::Cause) {
        let now = self.shared.tell_time();
        let slept = now.saturating_duration_since(self.since.replace(now));
        if slept < SHORT_SLEEP && cause == idle::Cause::Chosen {
            self.gain_patience();
        }
    }
}

/// What came of a look at every source.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    Something,
    Nothing,
    Stop,
}

/// What came of looking beyond the own queues.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Task(RawTask),
    Nothing,
    /// Jobs of others that do not ripen: no reason to sleep, nor to look more often.
    Unripe,
    Stop,
}
