//! The rig: a runtime without threads, whose workers a test moves one at a time, by hand or in an
//! order that a seed chooses.
//!
//! A worker is always in one of the places of [`Standing`]; a *move* takes it to the next, and
//! between any two moves of one worker come any number of others'. So a push can fall between a
//! fruitless search and the second look, or between that and the wake, which is where work is lost.
//!
//! ```text
//!            serve: something                   lie_down: work after all
//!           +---------------+   +------------------------------------------+
//!           v               |   v                                          |
//!   Awake --+--> serve -----+ Awake <-- get_up -- Asleep <-- lie_down <- Empty <-- serve: nothing
//! ```
//!
//! V1. A worker is moved on the test's thread, inside `Worker::enter`: for the library that is the
//!     worker's thread (K1).
//! V2. The ledger is a thread's, and here several workers share a thread. So it is settled, in the
//!     name of the worker that used it, before another moves. That is legal: settling gives units
//!     back sooner than C4 asks for, and nothing relies on a unit being kept. While one worker
//!     moves alone the ledger is left to the library, so that what it forgets to settle shows.
//! V3. A worker that is asleep moves only if its core was woken. When nobody can move, nothing
//!     ready may be left: `drive` checks it, so a lost wake-up fails every test.
//! V4. A task that moves other workers inside its poll plays a worker that is stuck.
//! V5. At its end a rig aborts what is left, and checks that nothing is.
//!
//! Not here: real parking and real races (loom models and stress tests have them).

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::core::EventCore;
use super::shared::{Birth, Parts, Phase, Shared, lock};
use super::worker::{Served, Worker};
use crate::base::barrier;
use crate::base::rng::Rng;
use crate::base::shim::{Mutex, Ordering};
use crate::config::Config;
use crate::config::hooks::Hooks;
use crate::idle::{Comes, Counts, Ticket};
use crate::observe;
use crate::spawn::{Place, TaskBuilder, spawn_local};
use crate::task::group::Group;
use crate::task::header::RawTask;
use crate::task::waker::cancel_task;
use crate::timer::{Clock, ManualClock};

/// Moves after which a program that should come to rest is said to run for ever.
const PATIENCE: usize = 200_000;

/// What happened, in order. Clones share the list.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn note(&self, what: impl Into<String>) {
        lock(&self.0).push(what.into());
    }

    /// What was noted since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0))
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    pub(super) fn has(&self, what: &str) -> bool {
        lock(&self.0).iter().any(|entry| entry == what)
    }

    /// A future that notes `what` and ends.
    pub(super) fn noting(
        &self,
        what: impl Into<String>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (log, what) = (self.clone(), what.into());
        async move { log.note(what) }
    }
}

/// What the event core of one slot saw.
#[derive(Clone, Default)]
pub(super) struct Record {
    /// The timeout of each park.
    pub(super) parks: Vec<Option<Duration>>,
    pub(super) wakes: usize,
    /// Woken since the last park.
    token: bool,
}

#[derive(Default)]
struct Books {
    /// Whether visits of the event core are noted in the log.
    noting: bool,
    records: Vec<Record>,
    panics: Vec<String>,
}

/// Where the event cores of a rig keep their books.
#[derive(Default)]
struct Desk {
    books: Mutex<Books>,
    log: Log,
}

struct TestCore {
    desk: Arc<Desk>,
    slot: usize,
}

struct TestWaker {
    desk: Arc<Desk>,
    slot: usize,
}

impl EventCore for TestCore {
    fn poll(&mut self) -> usize {
        if lock(&self.desk.books).noting {
            self.desk.log.note("events");
        }
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let mut books = lock(&self.desk.books);
        books.records[self.slot].parks.push(timeout);
        books.records[self.slot].token = false;
        if books.noting {
            self.desk.log.note("park");
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(TestWaker { desk: self.desk.clone(), slot: self.slot }))
    }
}

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        let record = &mut lock(&self.desk.books).records[self.slot];
        record.wakes += 1;
        record.token = true;
    }
}

/// Where a worker is between two moves.
pub(super) enum Standing {
    Awake,
    /// It found nothing and is about to lie down.
    Empty,
    Asleep(Ticket),
    /// Inside a move, further up the stack (V4).
    Busy,
    /// It has seen the stop.
    Gone,
}

struct Seat {
    worker: Worker,
    standing: Cell<Standing>,
}

pub(super) struct Rig {
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) log: Log,
    seed: u64,
    desk: Arc<Desk>,
    seats: Vec<OnceCell<Seat>>,
    /// Whose units the thread's ledger holds (V2).
    ledger_of: Cell<usize>,
    rng: RefCell<Rng>,
}

thread_local! {
    /// The rig of this thread, for tasks: they must be `Send`, and a rig is not.
    static HERE: RefCell<Weak<Rig>> = const { RefCell::new(Weak::new()) };
}

/// A configuration that leaves nothing to chance: one shard, no spares, no yields.
pub(super) fn config(io: usize, compute: usize) -> Config {
    Config {
        io_workers: io,
        compute_workers: compute,
        io_spares: 0,
        compute_spares: Some(0),
        guest_threads: 0,
        injector_shards: 1,
        explore_yields: 0,
        seed: Some(1),
        ..Config::default()
    }
}

impl Rig {
    /// A rig with all regular workers in their places, awake.
    pub(super) fn new(config: Config) -> Rc<Self> {
        Self::seeded(config, 0)
    }

    /// As `new`; `seed` chooses who moves. It is printed if the test fails.
    pub(super) fn seeded(config: Config, seed: u64) -> Rc<Self> {
        barrier::init();
        let (desk, clock) = (Arc::new(Desk::default()), Arc::new(ManualClock::new()));
        let (for_cores, for_hook) = (desk.clone(), desk.clone());
        let on_panic = move |panic: crate::config::PanicInfo| {
            lock(&for_hook.books).panics.push(panic.message().to_owned());
        };
        let shared = Shared::new(Parts {
            config,
            hooks: Hooks { on_panic: Some(Arc::new(on_panic)), ..Hooks::default() },
            clock: Clock::Manual(clock.clone()),
            cores: Some(Arc::new(move |_| {
                let records = &mut lock(&for_cores.books).records;
                records.push(Record::default());
                Box::new(TestCore { desk: for_cores.clone(), slot: records.len() - 1 })
            })),
            offload: |_, _| unreachable!("a rig drives no I/O"),
            birth: Birth::Started,
            script: None,
        });
        let rig = Rc::new(Self {
            seats: shared.slots.iter().map(|_| OnceCell::new()).collect(),
            log: desk.log.clone(),
            ledger_of: Cell::new(0),
            rng: RefCell::new(Rng::new(seed)),
            shared,
            clock,
            seed,
            desk,
        });
        for lane in &rig.shared.lanes {
            for slot in lane.range.start..lane.range.start + lane.seats {
                lane.crew.enlist();
                rig.occupy(slot);
            }
        }
        HERE.with(|here| here.replace(Rc::downgrade(&rig)));
        rig
    }

    /// The rig of this thread, inside a task.
    pub(super) fn here() -> Rc<Self> {
        HERE.with(|here| here.borrow().upgrade()).expect("the test owns its rig")
    }

    /// Puts a worker into `slot`.
    pub(super) fn occupy(&self, slot: usize) {
        let worker = Worker::new(self.shared.clone(), slot);
        let seat = Seat { worker, standing: Cell::new(Standing::Awake) };
        assert!(self.seats[slot].set(seat).is_ok(), "slot {slot} has a worker");
    }

    fn seat(&self, slot: usize) -> &Seat {
        self.seats[slot].get().expect("the slot is occupied")
    }

    pub(super) fn worker(&self, slot: usize) -> &Worker {
        &self.seat(slot).worker
    }

    pub(super) fn counts(&self, lane: usize) -> Counts {
        self.shared.lanes[lane].idle.counts()
    }

    pub(super) fn counters(&self, slot: usize) -> observe::Counts {
        self.shared.slots[slot].counters.read()
    }

    pub(super) fn record(&self, slot: usize) -> Record {
        lock(&self.desk.books).records[slot].clone()
    }

    pub(super) fn wakes(&self, slots: &[usize]) -> Vec<usize> {
        slots.iter().map(|&slot| self.record(slot).wakes).collect()
    }

    /// Has visits of the event cores noted from now on.
    pub(super) fn note_events(&self) {
        lock(&self.desk.books).noting = true;
    }

    pub(super) fn is_asleep(&self, slot: usize) -> bool {
        self.peek(slot, |standing| matches!(standing, Standing::Asleep(_)))
    }

    /// Whether it has searched in vain and is about to lie down.
    pub(super) fn is_empty_handed(&self, slot: usize) -> bool {
        self.peek(slot, |standing| matches!(standing, Standing::Empty))
    }

    fn is_busy(&self, slot: usize) -> bool {
        self.peek(slot, |standing| matches!(standing, Standing::Busy))
    }

    fn can_move(&self, slot: usize) -> bool {
        self.peek(slot, |standing| match standing {
            Standing::Awake | Standing::Empty => true,
            Standing::Asleep(_) => lock(&self.desk.books).records[slot].token,
            Standing::Busy | Standing::Gone => false,
        })
    }

    fn peek<R>(&self, slot: usize, f: impl FnOnce(&Standing) -> R) -> R {
        let cell = &self.seat(slot).standing;
        let standing = cell.replace(Standing::Busy);
        let result = f(&standing);
        cell.set(standing);
        result
    }

    fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.seats.len()).filter(|&slot| self.seats[slot].get().is_some())
    }

    /// Does something in the name of a worker (V1, V2).
    pub(super) fn as_worker<R>(&self, slot: usize, f: impl FnOnce(&Worker) -> R) -> R {
        let outer = self.hand_ledger_to(slot);
        let seat = self.seat(slot);
        let result = seat.worker.enter(|| f(&seat.worker));
        if self.is_busy(outer) {
            self.hand_ledger_to(outer);
        }
        result
    }

    fn hand_ledger_to(&self, slot: usize) -> usize {
        let before = self.ledger_of.replace(slot);
        if before != slot {
            self.worker(before).enter(Group::settle);
        }
        before
    }

    /// One move of one worker, which must be able to.
    pub(super) fn advance(&self, slot: usize) {
        assert!(self.can_move(slot), "worker {slot} cannot move");
        let cell = &self.seat(slot).standing;
        let standing = cell.replace(Standing::Busy);
        let next = self.as_worker(slot, |worker| match standing {
            Standing::Awake => match worker.serve() {
                Served::Something => Standing::Awake,
                Served::Nothing => Standing::Empty,
                Served::Stop => Standing::Gone,
            },
            Standing::Empty => {
                worker.lie_down(Comes::AtOnce).map_or(Standing::Awake, Standing::Asleep)
            }
            Standing::Asleep(ticket) => {
                lock(&self.desk.books).records[slot].token = false;
                worker.get_up(ticket);
                Standing::Awake
            }
            Standing::Busy | Standing::Gone => unreachable!("these cannot move"),
        });
        cell.set(next);
    }

    /// Ends a worker's sleep although nobody woke it, as a core may.
    pub(super) fn startle(&self, slot: usize) {
        assert!(self.is_asleep(slot));
        lock(&self.desk.books).records[slot].token = true;
        self.advance(slot);
    }

    /// Moves somebody, by the seed; false if nobody can move.
    pub(super) fn move_any(&self) -> bool {
        let movable: Vec<usize> = self.occupied().filter(|&slot| self.can_move(slot)).collect();
        if movable.is_empty() {
            return false;
        }
        let pick = self.rng.borrow_mut().below(movable.len());
        self.advance(movable[pick]);
        true
    }

    /// Moves everybody, by the seed, until nobody can move (V3).
    pub(super) fn drive(&self) {
        let mut moves = 0;
        while self.move_any() {
            moves += 1;
            assert!(moves < PATIENCE, "no rest after {moves} moves");
        }
        let panics = std::mem::take(&mut lock(&self.desk.books).panics);
        assert!(panics.is_empty(), "tasks panicked: {panics:?}");
        if !self.occupied().any(|slot| self.is_busy(slot)) {
            self.assert_nothing_ready();
        }
    }

    fn assert_nothing_ready(&self) {
        for (number, lane) in self.shared.lanes.iter().enumerate() {
            let ready = lane.has_ready(&self.shared.slots);
            assert!(!ready, "everybody of lane {number} sleeps, and work is ready");
        }
        for slot in self.occupied() {
            // ORDERING: Relaxed, there is one thread.
            let newest = self.shared.slots[slot].newest.load(Ordering::Relaxed);
            assert!(newest.is_null(), "worker {slot} sleeps on its newest task");
            assert!(!self.worker(slot).has_private(), "worker {slot} sleeps on private tasks");
        }
    }

    /// One whole step of a worker that is awake; a park returns at once.
    pub(super) fn step(&self, slot: usize) {
        let flow = self.as_worker(slot, Worker::step);
        assert_eq!(flow, super::worker::Flow::Continue);
    }

    pub(super) fn steps(&self, slot: usize, count: usize) {
        (0..count).for_each(|_| self.step(slot));
    }

    /// Lets every worker search in vain and fall asleep.
    pub(super) fn put_to_sleep(&self) {
        self.drive();
        assert!(self.occupied().all(|slot| self.is_asleep(slot)));
    }

    /// Starts describing a task of the runtime's own group.
    pub(super) fn task(&self) -> TaskBuilder {
        TaskBuilder::at(Place::Group(self.shared.root.clone()))
    }

    /// Spawns a future that notes `what`, on a worker: it lands in the newest-task slot.
    pub(super) fn spawn(&self, slot: usize, what: impl Into<String>) {
        drop(self.as_worker(slot, |_| self.task().spawn(self.log.noting(what))));
    }

    /// As `spawn`, from outside: it lands in the injector.
    pub(super) fn inject(&self, what: impl Into<String>) {
        drop(self.task().spawn(self.log.noting(what)));
    }

    /// Spawns a job that notes `what`, on a compute worker: it lands in the deque.
    pub(super) fn spawn_job(&self, slot: usize, what: impl Into<String>) {
        let (log, what) = (self.log.clone(), what.into());
        drop(self.as_worker(slot, |_| self.task().spawn_fn(move || log.note(what))));
    }

    /// As `spawn_job`, from outside.
    pub(super) fn inject_job(&self, what: impl Into<String>) {
        let (log, what) = (self.log.clone(), what.into());
        drop(self.task().spawn_fn(move || log.note(what)));
    }

    /// A ready future that notes `what` and is in no queue yet.
    pub(super) fn loose(&self, what: impl Into<String>) -> RawTask {
        self.loose_future(0, self.log.noting(what))
    }

    fn loose_future(
        &self,
        slot: usize,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> RawTask {
        self.as_worker(slot, |worker| {
            let newest = worker.take_newest();
            drop(self.task().spawn(future));
            let task = worker.take_newest().expect("a future goes into the slot");
            if let Some(newest) = newest {
                worker.accept(newest);
            }
            task
        })
    }

    /// Spawns a pinned future on a worker, by a task that runs there at once.
    pub(super) fn spawn_pinned(
        &self,
        slot: usize,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let parent = self.loose_future(slot, async move { drop(spawn_local(future)) });
        self.as_worker(slot, |worker| worker.run(parent));
    }

    /// Appends tasks to a worker's ring, oldest first.
    pub(super) fn fill_ring<S: Into<String>>(
        &self,
        slot: usize,
        labels: impl IntoIterator<Item = S>,
    ) {
        for label in labels {
            let task = self.loose(label);
            self.as_worker(slot, |worker| worker.push_ring(task));
        }
    }

    /// Has the runtime's own group end with its last task.
    pub(super) fn leave_root(&self) {
        if self.shared.advance(Phase::Draining) {
            // SAFETY: the root's own unit, given up once: only one caller leaves Open.
            unsafe { Group::leave(Arc::as_ptr(&self.shared.root)) };
        }
    }

    /// Whether every task is gone, and the runtime's own unit.
    pub(super) fn is_root_finished(&self) -> bool {
        self.worker(self.ledger_of.get()).enter(Group::settle);
        self.shared.root.is_finished()
    }

    /// Drops every task at its next move, as the end of a runtime does (V5).
    pub(super) fn abort(&self) {
        self.leave_root();
        self.shared.advance(Phase::Aborting);
        for _ in 0..3 {
            // SAFETY: the reference keeps the cell alive.
            self.shared.for_each_task(|task| unsafe { cancel_task(task.raw()) });
            self.drive();
        }
        assert!(self.is_root_finished(), "{} units are left", self.shared.root.units());
        assert!(self.shared.tasks().is_empty());
    }

    fn stop(&mut self) {
        self.shared.advance(Phase::Stopped);
        self.shared.wake_all();
        while self.move_any() {}
        for seat in std::mem::take(&mut self.seats).into_iter().filter_map(OnceCell::into_inner) {
            assert!(matches!(seat.standing.into_inner(), Standing::Gone), "sees the stop");
            seat.worker.leave();
        }
        for lane in &self.shared.lanes {
            assert_eq!((lane.idle.counts().awake, lane.idle.counts().sleeping), (0, 0));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the rig's seed was {}", self.seed);
            // Tasks may be anywhere: their memory is left alone.
            std::mem::forget(std::mem::take(&mut self.seats));
            std::mem::forget(self.shared.clone());
            return;
        }
        self.abort();
        self.stop();
    }
}
