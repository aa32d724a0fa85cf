//! What all threads of a runtime have in common.
//!
//! S1. `Shared` outlives every unit of the root group: it is kept by the `Runtime`, every worker
//!     and every handle, and the runtime waits for the root group before it lets go. Where its end goes on
//!     in the background, the sentry waits instead.
//! S2. Slots never move and are never freed before `Shared` (PITFALL: a vector of atomics cannot
//!     grow under readers): there is one for every worker and spare that may ever run.
//! S3. The owner side of a slot's queues belongs to the one worker thread that occupies the slot.
//! S4. The pool is closed when `Shared` goes; cells that handles or wakers still hold stay.
//! S5. The places of regular workers come first in a lane, more of them than workers if some may be
//!     attached later. A place is free, or one worker's (`roster`).
//! S6. A foreign thread that spawns keeps `Shared` until it has pushed (D2 of `schedule`). A job that was listed may have been run by
//!     a helper before that, and the runtime have ended; so queues are cleared a second time when `Shared` goes.
//!
//! Not here: anything that happens.

use std::ops::Range;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::adopt::Guests;
use super::blockers::Blockers;
use super::core::{EventCore, GuestCore, ParkCore};
use super::crew::Crew;
use super::drive::{self, Engine, Offload};
use super::finder::Finder;
use super::grow::Growth;
use super::kept::Kept;
use super::life::Life;
use super::roster::Roster;
use super::schedule;
use super::sentry::Sentry;
use super::slices::Slices;
use super::start::Roll;
use super::timers::Wheels;
use crate::base::parker::Parker;
use crate::base::process::Process;
use crate::base::rng::{self, Rng};
use crate::base::script::ScriptedRng;
use crate::base::shim::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering,
};
use crate::base::thread::Thread;
use crate::config::Config;
use crate::config::hooks::{Hooks, PanicInfo, Role, WorkerInfo};
use crate::idle::{self, Idle, Pairing};
use crate::observe::PaddedCounters;
use crate::pool::Pool;
use crate::queue::deque::Deque;
use crate::queue::gate::Gate;
use crate::queue::injector::Injector;
use crate::queue::mailbox::Mailbox;
use crate::queue::ring::Ring;
use crate::queue::spill::Spill;
use crate::task::group::{Fallout, Group, GroupRef, Home, Hook, guard_outside, guard_user_code};
use crate::task::header::{Header, Kind};
use crate::task::state::State;
use crate::timer::Clock;

/// What a runtime is made from, besides its configuration.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    pub(crate) clock: Clock,
    /// The program's own event cores, if it brings them.
    pub(crate) cores: Option<CoreFactory>,
    pub(crate) offload: Offload,
    pub(crate) birth: Birth,
    /// Choices that a test has written down.
    pub(crate) script: Option<ScriptedRng>,
}

/// How a runtime begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Birth {
    /// With all its threads.
    Started,
    /// Without any: its workers are registered, and begin when somebody runs it.
    Waiting,
}

/// Makes the event core of a worker.
pub(crate) type CoreFactory = Arc<dyn Fn(WorkerInfo) -> Box<dyn EventCore> + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    pub(crate) clock: Clock,
    pub(crate) lanes: Box<[Lane]>,
    pub(crate) slots: Box<[CachePadded<Slot>]>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) root: GroupRef,
    pub(super) kept: Kept,
    pub(crate) sentry: Sentry,
    pub(crate) guests: Guests,
    pub(crate) blockers: Blockers,
    pub(crate) engine: Arc<Engine>,
    pub(crate) wheels: Wheels,
    pub(crate) roster: Roster,
    pub(crate) finder: Finder,
    pub(crate) life: Life,
    pub(super) cores: Option<CoreFactory>,
    /// A `Phase`; moves forward only.
    phase: AtomicU32,
    started: Instant,
    /// Milliseconds since the start, as of the last step of any worker: birth times of tasks.
    now_ms: AtomicU32,
    /// Random numbers for the seeds of workers.
    seed: u64,
    /// What comes before them.
    pub(super) script: Option<ScriptedRng>,
    /// Threads to join at the end, with their names.
    pub(crate) threads: Mutex<Vec<(Thread, String)>>,
    /// Which of them have not said that they end (L4 of `start`).
    pub(super) leaving: Arc<Roll>,
    pub(crate) slices: Slices,
    /// What the system and the program's cores refused (levels, affinity, threads, sources), for `describe`.
    pub(crate) refusals: Mutex<Refusals>,
}

/// How many refusals are kept word for word: some for each worker of a large machine's lane. Guessed.
const MOST_REFUSALS: usize = 32;

/// The first refusals, which say what is wrong, and how many came after them: a cause that stays may
/// bring one with each try.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    pub(crate) first: Vec<String>,
    pub(crate) more: usize,
}

impl Refusals {
    fn note(&mut self, what: String) {
        if self.first.len() < MOST_REFUSALS {
            self.first.push(what);
        } else {
            self.more += 1;
        }
    }
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Tasks are accepted from everywhere.
    Open = 0,
    /// Tasks are accepted from members only; all run to their end.
    Draining = 1,
    /// Tasks are dropped instead of run.
    Aborting = 2,
    /// As `Aborting`, but whoever asked for the end has its report, and the sentry does the rest (Z5 of `shutdown`).
    Background = 3,
    /// Workers leave.
    Stopped = 4,
}

/// The workers of one kind of work, with what they share.
pub(crate) struct Lane {
    pub(crate) role: Role,
    /// Normal work from outside.
    pub(crate) injector: Injector<Header>,
    /// What full rings gave up.
    pub(crate) spill: Spill<Header>,
    pub(crate) high: Injector<Header>,
    pub(crate) low: Injector<Header>,
    pub(crate) idle: Arc<Idle>,
    /// The lane's slots: places of regular workers first, then spares, then guests.
    pub(crate) range: Range<usize>,
    /// Regular workers that the runtime begins with.
    pub(crate) initial: usize,
    /// Places of regular workers (S5).
    pub(crate) seats: usize,
    /// Regular workers that are attached. Changed by the roster.
    attached: AtomicUsize,
    /// Places of regular workers and spares: the threads of ours.
    pub(crate) staff: usize,
    /// One past the highest slot (within the range) that was ever occupied: how far thieves look.
    width: AtomicUsize,
    pub(crate) crew: Crew,
    /// Whether somebody comes for the load (L1 of `grow`).
    pub(super) growth: Growth,
}

/// One worker's place: what others may see of it.
pub(crate) struct Slot {
    pub(crate) info: WorkerInfo,
    pub(crate) lane: usize,
    pub(crate) ring: Ring<Header>,
    /// The newest-task slot. The owner swaps; the sentry swaps when the owner is stuck.
    pub(crate) newest: CachePadded<AtomicPtr<Header>>,
    pub(crate) deque: Deque<Header>,
    pub(crate) mailbox: Mailbox<Header>,
    /// Who may post to the worker; closed for spares and guests.
    pub(crate) gate: Gate,
    /// Odd while the worker is inside a task, even between; grows. The worker writes, the sentry
    /// reads.
    pub(crate) beat: CachePadded<AtomicU64>,
    /// The worker blocks and is out of its crew. The worker writes, the sentry reads.
    pub(crate) out: AtomicBool,
    pub(crate) counters: PaddedCounters,
    /// Ends the park in the slot's own core.
    waker: Waker,
    /// The core of the program's own that the worker was attached with.
    pub(crate) guest_core: GuestCore,
    /// Where the worker sleeps on a stolen half of its own `join`.
    pub(crate) bed: Parker,
    /// The event core while no thread occupies the slot.
    pub(crate) core: Mutex<Option<Box<dyn EventCore>>>,
}

/// Capacity at which a job deque starts; it grows. Guessed.
const DEQUE_CAPACITY: usize = 256;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of the user's runs under the scheduler's locks, so poison means nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { config, hooks, clock, cores, offload, birth, script } = parts;
        let lanes = plan_lanes(&config, birth);
        let hook = panic_hook(&hooks);
        let shared = Arc::new_cyclic(|me: &Weak<Self>| {
            let home = Home {
                shared: me.as_ptr().cast(),
                schedule: schedule::from_anywhere,
                begin: schedule::begin_from_anywhere,
                process: Process::this(),
            };
            let engine =
                drive::make_engine(&config, &lanes[0], cores.as_ref(), me.clone(), offload);
            let slots = make_slots(&config, &lanes, |lane, info| match &cores {
                Some(cores) if !lanes[lane].is_for_later(info.index) => cores(info),
                _ => drive::core_of(&engine, lane, info.index),
            });
            Self {
                sentry: Sentry::new(),
                blockers: Blockers::new(),
                wheels: Wheels::new(lanes[0].seats, &clock),
                roster: Roster::new(&lanes, birth),
                finder: Finder::default(),
                life: Life::new(birth),
                cores,
                guests: Guests::new(&config, lanes.last().map_or(0, |lane| lane.range.end)),
                phase: AtomicU32::new(Phase::Open as u32),
                started: clock.now(),
                now_ms: AtomicU32::new(0),
                seed: config.seed.unwrap_or_else(rng::fresh_seed),
                script,
                threads: Mutex::new(Vec::new()),
                leaving: Arc::new(Roll::new()),
                slices: Slices::default(),
                refusals: Mutex::new(Refusals::default()),
                pool: Pool::new(),
                root: Group::root(home, hook),
                kept: Kept::new(),
                engine,
                lanes,
                slots,
                config,
                hooks,
                clock,
            }
        });
        shared.register_initial();
        if shared.life.is_for_a_caller() {
            shared.pool.await_service();
        }
        shared
    }

    /// Another reference to a runtime that is alive.
    ///
    /// # Safety
    /// `shared` came from [`Shared::new`] and is alive.
    pub(crate) unsafe fn to_arc(shared: *const Self) -> Arc<Self> {
        // SAFETY: by the caller's promise.
        unsafe { Arc::increment_strong_count(shared) };
        // SAFETY: the reference just made.
        unsafe { Arc::from_raw(shared) }
    }

    /// The process whose threads it has.
    #[inline]
    pub(crate) fn process(&self) -> Process {
        self.root.home().process
    }

    /// Moves a detached task to the runtime's own group, unless it is there.
    ///
    /// # Safety
    /// The caller owns the body and has not entered a frame for it.
    pub(crate) unsafe fn adopt(&self, header: &Header) {
        let root = Arc::as_ptr(&self.root);
        if header.group_ptr() != root {
            self.root.enter();
            // SAFETY: by the caller's promise; the unit is that just taken.
            unsafe { header.rehome(root) };
        }
    }

    /// The lane that runs tasks of this kind.
    #[inline]
    pub(crate) fn lane_of(&self, kind: Kind) -> &Lane {
        match kind {
            Kind::Future => &self.lanes[0],
            Kind::Job => &self.lanes[self.lanes.len() - 1],
            Kind::Pinned | Kind::Posted => unreachable!("one worker runs it, and no lane"),
            Kind::Blocking => unreachable!("no lane runs what blocks"),
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        // ORDERING: Acquire pairs with the Release in `advance`: who sees the end coming sees what
        // was decided before.
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Draining,
            2 => Phase::Aborting,
            3 => Phase::Background,
            _ => Phase::Stopped,
        }
    }

    /// Moves towards the end; a phase that has passed stays passed. True for whoever left Open.
    pub(crate) fn advance(&self, to: Phase) -> bool {
        // ORDERING: Release pairs with the Acquire in `phase`; Acquire sees earlier decisions.
        self.phase.fetch_max(to as u32, Ordering::AcqRel) == Phase::Open as u32
    }

    /// Milliseconds since the start, as the workers last saw them.
    #[inline]
    pub(crate) fn now_ms(&self) -> u32 {
        // ORDERING: Relaxed, a coarse time publishes nothing.
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Whether no worker is awake.
    pub(crate) fn is_asleep(&self) -> bool {
        self.lanes.iter().all(|lane| lane.idle.counts().awake == 0)
    }

    /// Brings the coarse clock up to date, and returns the fine one.
    pub(crate) fn tell_time(&self) -> Instant {
        let now = self.clock.now();
        let ms = now.saturating_duration_since(self.started).as_millis() as u32;
        if ms != self.now_ms() {
            // ORDERING: Relaxed, a coarse time publishes nothing; it never goes back.
            self.now_ms.fetch_max(ms, Ordering::Relaxed);
        }
        now
    }

    /// How long ago a task was born.
    pub(crate) fn age(&self, state: &State) -> Duration {
        self.tell_time();
        Duration::from_millis(state.age_ms(self.now_ms()).into())
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The random source of the worker in slot `index`.
    pub(crate) fn rng_of(&self, index: usize) -> Rng {
        Rng::new(self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(index as u64 + 1)))
    }

    /// Unparks the worker in slot `index`. An event core's waker is the user's, and its panic ends
    /// here: the thread that wakes may have a task in hand.
    pub(crate) fn unpark(&self, index: usize) {
        let slot = &self.slots[index];
        guard_outside(|| match slot.guest_core.waker() {
            Some(waker) => waker.wake_by_ref(),
            None => slot.waker.wake_by_ref(),
        });
    }

    /// Wakes everybody, to see a new phase.
    pub(crate) fn wake_all(&self) {
        for lane in &self.lanes {
            let mut sleepers = Vec::new();
            lane.idle.wake_all(&mut sleepers);
            for id in sleepers {
                self.unpark(lane.slot_of(id));
            }
        }
    }

    pub(crate) fn refuse(&self, what: String) {
        lock(&self.refusals).note(what);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // S6; also of an end that went on in the background (Z6 of `shutdown`).
        if self.root.is_finished() {
            self.clear_queues();
        }
        self.pool.close();
        // What is the program's: whoever has the last reference may have a report in hand (E4 of `core`).
        for slot in &mut self.slots {
            slot.drop_core();
            let none = Waker::from(Arc::new(Parker::new()));
            let waker = std::mem::replace(&mut slot.waker, none);
            guard_user_code(|| drop(waker));
        }
        let cores = self.cores.take();
        guard_user_code(|| drop(cores));
        let Hooks { on_thread_start, on_thread_stop, on_panic, on_lost_write } =
            std::mem::take(&mut self.hooks);
        guard_user_code(|| drop(on_lost_write));
        guard_user_code(|| drop(on_thread_start));
        guard_user_code(|| drop(on_thread_stop));
        guard_user_code(|| drop(on_panic));
    }
}

impl Lane {
    /// Regular workers that are attached, or one: to divide by.
    #[inline]
    pub(crate) fn workers(&self) -> usize {
        self.attached().max(1)
    }

    /// Regular workers that are attached. It never falls to zero again.
    pub(crate) fn attached(&self) -> usize {
        // ORDERING: Relaxed, a guess; that somebody is attached stays true once it is (`roster`).
        self.attached.load(Ordering::Relaxed)
    }

    pub(super) fn set_attached(&self, attached: usize) {
        // ORDERING: Relaxed, as in `attached`.
        self.attached.store(attached, Ordering::Relaxed);
    }

    /// How many of its workers may search at the same time.
    pub(crate) fn searchers(&self, config: &Config) -> u32 {
        config.searchers_among(self.workers()) as u32
    }

    /// Whether the place is for a worker that may be attached later.
    fn is_for_later(&self, index: usize) -> bool {
        (self.initial..self.seats).contains(&index)
    }

    /// Whether the slot is for a thread from outside.
    pub(crate) fn is_guest(&self, slot: usize) -> bool {
        slot >= self.range.start + self.staff
    }

    /// The idle set names workers by their place in the lane.
    #[inline]
    pub(crate) fn slot_of(&self, id: u32) -> usize {
        self.range.start + id as usize
    }

    #[inline]
    pub(crate) fn id_of(&self, slot: usize) -> u32 {
        (slot - self.range.start) as u32
    }

    /// How many slots a thief has to look at.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `widen`: a neighbour's slot is in use.
        self.width.load(Ordering::Acquire)
    }

    /// A worker occupies `slot`.
    pub(crate) fn widen(&self, slot: usize) {
        // ORDERING: Release pairs with the Acquire in `width`.
        self.width.fetch_max(slot - self.range.start + 1, Ordering::AcqRel);
    }

    /// Whether a task of the lane waits where every worker may take it, at this moment.
    pub(crate) fn has_ready(&self, slots: &[CachePadded<Slot>]) -> bool {
        !self.high.is_empty()
            || !self.injector.is_empty()
            || !self.spill.is_empty()
            || !self.low.is_empty()
            || self.occupied(slots).any(|slot| !slot.ring.is_empty() || !slot.deque.is_empty())
    }

    /// The slots that were ever occupied.
    pub(crate) fn occupied<'a>(
        &self,
        slots: &'a [CachePadded<Slot>],
    ) -> impl Iterator<Item = &'a Slot> {
        slots[self.range.start..self.range.start + self.width()].iter().map(|slot| &**slot)
    }
}

impl Slot {
    /// Whether the worker is inside a task, as of its last beat.
    pub(crate) fn is_in_task(&self) -> bool {
        // ORDERING: Relaxed, a reading for people.
        self.beat.load(Ordering::Relaxed) % 2 == 1
    }

    fn new(config: &Config, info: WorkerInfo, lane: usize, core: Box<dyn EventCore>) -> Self {
        Self {
            info,
            lane,
            ring: Ring::new(config.ring_capacity),
            newest: CachePadded::new(AtomicPtr::default()),
            deque: Deque::new(DEQUE_CAPACITY),
            mailbox: Mailbox::new(),
            gate: Gate::new(),
            guest_core: GuestCore::new(),
            beat: CachePadded::new(AtomicU64::new(0)),
            out: AtomicBool::new(false),
            counters: PaddedCounters::default(),
            bed: Parker::new(),
            waker: core.waker(),
            core: Mutex::new(Some(core)),
        }
    }
}

/// A slot for every worker, spare and guest that may ever be.
fn make_slots(
    config: &Config,
    lanes: &[Lane],
    core: impl Fn(usize, WorkerInfo) -> Box<dyn EventCore>,
) -> Box<[CachePadded<Slot>]> {
    let mut slots = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        for index in 0..lane.range.len() {
            let info = WorkerInfo::new(index, lane.role);
            // A guest never runs the loop, so it has no events.
            let guest = || Box::new(ParkCore::new()) as Box<dyn EventCore>;
            let core = if index < lane.staff { core(number, info) } else { guest() };
            slots.push(CachePadded::new(Slot::new(config, info, number, core)));
        }
    }
    slots.into()
}

/// Places for workers that are attached later, of each role, where the program does not say. Guessed.
const ROOM: usize = 16;

/// The lanes that a configuration asks for: one for each role, or one for both.
fn plan_lanes(config: &Config, birth: Birth) -> Box<[Lane]> {
    if config.single_thread {
        return [plan_lane(config, Role::Both, 0, [1, 0, config.io_spares])].into();
    }
    let open = if birth == Birth::Waiting { ROOM } else { 0 };
    let room = config.attachable_workers.unwrap_or(open);
    let io = plan_lane(config, Role::Io, 0, [config.io_workers, room, config.io_spares]);
    let for_later = if config.compute_spares.is_none() { room } else { 0 };
    let spares = config.compute_spares_or_default() + for_later;
    let start = io.range.end;
    let compute = plan_lane(config, Role::Compute, start, [config.compute_workers, room, spares]);
    [io, compute].into()
}

/// A lane with so many workers at first, room for so many more, and so many spares.
fn plan_lane(config: &Config, role: Role, start: usize, places: [usize; 3]) -> Lane {
    let [initial, room, spares] = places;
    let seats = initial + room;
    let sentry = if role == Role::Compute { idle::Sentry::Armed } else { idle::Sentry::Unarmed };
    let pairing = if role == Role::Io { Pairing::Symmetric } else { Pairing::Asymmetric };
    let idle = Arc::new(Idle::new(sentry, pairing));
    let guests = if role == Role::Io { 0 } else { Guests::count(config) };
    // The sentry brings spares into the lanes that it watches.
    let tells = (role == Role::Compute).then(|| idle.clone());
    Lane {
        role,
        injector: Injector::new(config.injector_shards),
        spill: Spill::new(),
        high: Injector::new(1),
        low: Injector::new(1),
        range: start..start + seats + spares + guests,
        initial,
        seats,
        attached: AtomicUsize::new(0),
        staff: seats + spares,
        width: AtomicUsize::new(0),
        crew: Crew::new(start + seats..start + seats + spares, tells),
        growth: Growth::default(),
        idle,
    }
}

fn panic_hook(hooks: &Hooks) -> Hook {
    let on_panic = hooks.on_panic.clone();
    Arc::new(move |fallout: Fallout| {
        let Some(hook) = &on_panic else { return };
        hook(PanicInfo {
            payload: fallout.payload,
            task: fallout.task.0,
            name: fallout.name.map(|name| name.into_owned()),
            spawned_at: fallout.site,
        });
    })
}
