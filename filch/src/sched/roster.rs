//! Who is attached: the places of regular workers, their names and crews.
//!
//! ```text
//!         attach         before run                run
//!   Free --------> Taken ----------> Registered ------> Working <----> Leaving ----> Free
//!                    |            while it runs            ^    detach          left
//!                    +-------------------------------------+
//!
//!   Registered <----> Withdrawing ----> Free       a detach before it is run
//! ```
//!
//! Q1. A place changes hands under the lock of the roster; its gate says the same to posters. One that is
//!     taken is known to nobody: its core is put in place, and its thread started, without the lock. It is free
//!     again if its core panics there.
//! Q2. A role that has a worker keeps one: the last is not detached. So a task that was posted to a role
//!     with workers always finds one, and nobody need look again after a push.
//! Q3. In a runtime that is run by its caller, the first place of the I/O lane is the caller's (*main*), if it is
//!     taken when the run begins. It is not detached.
//! Q4. An id names a place and its generation, so it dies with its worker.
//! Q5. Whether a registered worker is taken back is known before the run begins, which waits for the answer:
//!     every worker that posts are kept for gets a thread. Who takes it back comes to an end, also where code of
//!     the program's unwinds (`Vacancy`).
//!
//! Not here: threads (`start`), how a worker leaves (`leave`).

use std::fmt;

use super::core::EventCore;
use super::shared::{Birth, Lane, Phase, Shared, lock};
use crate::base::shim::{AtomicU32, Mutex, Ordering, yield_now};
use crate::config::hooks::Role;
use crate::error::BuildError;
use crate::queue::gate::Closed;

/// Names one worker among all that ever were.
///
/// It stays with the worker: once that is detached, posts to it are refused, whoever has its place.
///
/// ```
/// let hive = filch::Builder::new().io_workers(1).compute_workers(1).hive()?;
/// let ids: Vec<filch::WorkerId> = hive.workers().iter().map(|worker| worker.id).collect();
/// assert_ne!(ids[0], ids[1]);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId {
    runtime: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerId({self})")
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.runtime, self.slot, self.generation)
    }
}

/// A worker to be attached; see [`Handle::attach`](crate::Handle::attach).
///
/// ```
/// use filch::NewWorker;
/// let hive = filch::Builder::new().hive()?;
/// let ui = hive.attach(NewWorker::io().name("ui"))?;
/// let physics = hive.attach(NewWorker::compute().name("physics-1").crew("physics"))?;
/// assert_eq!(hive.workers()[1].crew, "physics");
/// # assert_ne!(ui, physics);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a description does nothing until it is attached"]
pub struct NewWorker {
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) crew: Option<String>,
    pub(crate) core: Option<Box<dyn EventCore>>,
    pub(super) term: Term,
}

/// How long a worker stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Term {
    /// Until it is detached.
    #[default]
    Open,
    /// As long as there is work (`grow`).
    Load,
}

impl NewWorker {
    fn new(role: Role) -> Self {
        Self { role, name: None, crew: None, core: None, term: Term::Open }
    }

    /// One that runs async tasks, micro tasks and timers.
    ///
    /// ```
    /// let hive = filch::Builder::new().hive()?;
    /// hive.attach(filch::NewWorker::io())?;
    /// assert_eq!(hive.workers()[0].role, filch::Role::Io);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn io() -> Self {
        Self::new(Role::Io)
    }

    /// One that runs jobs.
    ///
    /// ```
    /// let hive = filch::Builder::new().hive()?;
    /// hive.attach(filch::NewWorker::compute())?;
    /// assert_eq!(hive.workers()[0].role, filch::Role::Compute);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compute() -> Self {
        Self::new(Role::Compute)
    }

    /// Names it, and its thread if it gets one of its own.
    ///
    /// ```
    /// let hive = filch::Builder::new().hive()?;
    /// hive.attach(filch::NewWorker::io().name("ui"))?;
    /// assert_eq!(hive.workers()[0].name, "ui");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Makes it a member of a crew, to which tasks can be posted.
    ///
    /// ```
    /// let hive = filch::Builder::new().hive()?;
    /// hive.attach(filch::NewWorker::io().crew("audio"))?;
    /// assert_eq!(hive.workers()[0].crew, "audio");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn crew(mut self, crew: impl Into<String>) -> Self {
        self.crew = Some(crew.into());
        self
    }

    /// Has it sleep, and learn of events, in this core instead of the runtime's own. It drives no I/O
    /// then: operations that are started on it go to other I/O workers.
    ///
    /// ```
    /// let hive = filch::Builder::new().io_workers(0).hive()?;
    /// hive.attach(filch::NewWorker::io().event_core(filch::PollCore::new()?))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn event_core(mut self, core: impl EventCore + 'static) -> Self {
        self.core = Some(Box::new(core));
        self
    }
}

impl fmt::Debug for NewWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewWorker")
            .field("role", &self.role)
            .field("name", &self.name)
            .field("crew", &self.crew)
            .finish_non_exhaustive()
    }
}

/// Why a worker was not attached.
///
/// ```
/// use filch::{AttachError, NewWorker};
/// let hive = filch::Builder::new().attachable_workers(0).hive()?;
/// assert!(matches!(hive.attach(NewWorker::io()), Err(AttachError::NoPlace { .. })));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// All places of the role are taken.
    NoPlace {
        /// The role.
        role: Role,
        /// How many places it has.
        places: usize,
    },
    /// The runtime is shutting down.
    ShutDown,
    /// Its thread could not start.
    Thread(BuildError),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace { role, places } => {
                write!(f, "all {places} places of {role} workers are taken (attachable_workers)")
            }
            Self::ShutDown => f.write_str("the runtime is shutting down"),
            Self::Thread(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AttachError {}

/// What a worker does at a moment; see [`WorkerStatus`].
///
/// ```
/// let hive = filch::Builder::new().io_workers(1).hive()?;
/// assert_eq!(hive.workers()[0].state, filch::WorkerState::Registered);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerState {
    /// Waits for the runtime to be run.
    Registered,
    /// Between two tasks, looking for work, or asleep.
    Idle,
    /// Inside a task.
    Busy,
    /// Inside a task that waits.
    Blocked,
    /// About to leave.
    Leaving,
}

/// A worker: who it is and what it does; see [`Handle::workers`](crate::Handle::workers).
///
/// ```
/// use filch::Role;
/// let runtime = filch::Builder::new().io_workers(2).compute_workers(1).build()?;
/// let roles: Vec<Role> = runtime.workers().iter().map(|worker| worker.role).collect();
/// assert_eq!(roles, [Role::Io, Role::Io, Role::Compute]);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Names it in posts.
    pub id: WorkerId,
    /// The name that it was given, or its role and number.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// The crew that it belongs to; by default its role.
    pub crew: String,
    /// What it does now.
    pub state: WorkerState,
}

pub(crate) struct Roster {
    runtime: u32,
    inner: Mutex<Inner>,
}

struct Inner {
    /// By slot; those of spares and guests stay free.
    places: Box<[Place]>,
    /// Whether workers get their threads at once.
    stage: Stage,
    /// The caller's place, if there is or may be one (Q3).
    main: Option<usize>,
    /// Whose turn it is in a crew.
    turn: usize,
}

#[derive(Default)]
struct Place {
    standing: Standing,
    name: Option<String>,
    crew: Option<String>,
    term: Term,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    #[default]
    Free,
    Taken,
    Registered,
    /// Somebody takes it back, unless posts are kept for it (Q5).
    Withdrawing,
    Working,
    Leaving,
}

/// How far a runtime's life has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody runs it yet.
    Waiting,
    Running,
}

/// Why a worker cannot be reached or cannot leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    Unknown,
    Gone,
    Main,
    Last,
    Leaving,
}

impl From<Closed> for Obstacle {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Leaving => Self::Leaving,
            Closed::Gone => Self::Gone,
        }
    }
}

/// Whether a worker that is to leave has a thread.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// It does the rest.
    Works,
    /// It has none yet.
    Waits,
}

/// A place that is free when this is dropped: in the end, or by a panic on the way.
pub(super) struct Vacancy<'a> {
    pub(super) shared: &'a Shared,
    pub(super) slot: usize,
}

impl Drop for Vacancy<'_> {
    fn drop(&mut self) {
        self.shared.free_place(self.slot);
    }
}

impl Roster {
    pub(super) fn new(lanes: &[Lane], birth: Birth) -> Self {
        static RUNTIMES: AtomicU32 = AtomicU32::new(1);
        let slots = lanes.last().map_or(0, |lane| lane.range.end);
        let stage = match birth {
            Birth::Started => Stage::Running,
            Birth::Waiting => Stage::Waiting,
        };
        let main = (birth == Birth::Waiting).then_some(0);
        let places = (0..slots).map(|_| Place::default()).collect();
        Self {
            // ORDERING: Relaxed, only uniqueness matters.
            runtime: RUNTIMES.fetch_add(1, Ordering::Relaxed),
            inner: Mutex::new(Inner { places, stage, main, turn: 0 }),
        }
    }

    pub(super) fn term(&self, slot: usize) -> Term {
        lock(&self.inner).places[slot].term
    }

    /// The name that the worker in a slot was given.
    pub(super) fn given_name(&self, slot: usize) -> Option<String> {
        lock(&self.inner).places[slot].name.clone()
    }
}

impl Shared {
    /// Registers the workers that the runtime begins with.
    pub(super) fn register_initial(&self) {
        let mut inner = lock(&self.roster.inner);
        for lane in &self.lanes {
            for slot in lane.range.start..lane.range.start + lane.initial {
                inner.places[slot].standing = match inner.stage {
                    Stage::Waiting => Standing::Registered,
                    Stage::Running => Standing::Working,
                };
                self.admit_worker(slot);
            }
        }
    }

    /// Takes a place for a worker, with its core.
    pub(super) fn take_place(&self, new: NewWorker) -> Result<usize, AttachError> {
        let NewWorker { role, name, crew, core, term } = new;
        let number = match role {
            Role::Io | Role::Both => 0,
            Role::Compute => self.lanes.len() - 1,
        };
        let lane = &self.lanes[number];
        let mut inner = lock(&self.roster.inner);
        if self.phase() != Phase::Open {
            return Err(AttachError::ShutDown);
        }
        let mut seats = lane.range.start..lane.range.start + lane.seats;
        let free = seats.find(|&slot| inner.places[slot].standing == Standing::Free);
        let Some(slot) = free else {
            return Err(AttachError::NoPlace { role, places: lane.seats });
        };
        inner.places[slot] = Place { standing: Standing::Taken, name, crew, term };
        drop(inner);
        let vacancy = Vacancy { shared: self, slot };
        let place = &self.slots[slot];
        if let Some(core) = core.or_else(|| self.cores.as_ref().map(|make| make(place.info))) {
            place.install(core);
        }
        std::mem::forget(vacancy);
        Ok(slot)
    }

    /// Registers the worker of a taken place, if the runtime is not run yet; else it needs a thread first.
    pub(super) fn register(&self, slot: usize) -> Option<WorkerId> {
        let mut inner = lock(&self.roster.inner);
        (inner.stage == Stage::Waiting).then(|| {
            inner.places[slot].standing = Standing::Registered;
            self.admit_worker(slot);
            self.id_of_slot(slot)
        })
    }

    /// The worker of a taken place has its thread. Its id is read under the lock: it may leave at once, and
    /// another come.
    pub(super) fn confirm(&self, slot: usize) -> WorkerId {
        let mut inner = lock(&self.roster.inner);
        inner.places[slot].standing = Standing::Working;
        self.admit_worker(slot);
        self.id_of_slot(slot)
    }

    /// Has others count on the worker in a place: it is attached, or will be before it is needed.
    fn admit_worker(&self, slot: usize) {
        let place = &self.slots[slot];
        let lane = &self.lanes[place.lane];
        if lane.runs_futures() {
            self.wheels.attach(place.info.index);
            if !place.guest_core.is_present() {
                self.engine.man(place.info.index);
            }
        }
        lane.set_attached(lane.attached() + 1);
        place.gate.open();
    }

    /// The runtime is run: returns the workers that need threads, and the main one if there is one (Q3).
    pub(super) fn muster(&self) -> (Option<usize>, Vec<usize>) {
        let mut inner = lock(&self.roster.inner);
        // Q5; who withdraws it needs nothing of ours but the lock.
        while inner.places.iter().any(|place| place.standing == Standing::Withdrawing) {
            drop(inner);
            yield_now();
            inner = lock(&self.roster.inner);
        }
        inner.stage = Stage::Running;
        let registered = |place: &&mut Place| place.standing == Standing::Registered;
        inner.places.iter_mut().filter(registered).for_each(|p| p.standing = Standing::Working);
        let working = |slot: &usize| inner.places[*slot].standing == Standing::Working;
        let mut slots: Vec<usize> = (0..inner.places.len()).filter(working).collect();
        let main = slots.iter().position(|&slot| self.lanes[self.slots[slot].lane].runs_futures());
        let main = main.map(|at| slots.remove(at));
        inner.main = inner.main.and(main);
        (main, slots)
    }

    /// Frees the place of a worker that has left, or never came.
    pub(super) fn free_place(&self, slot: usize) {
        self.slots[slot].drop_guest_core();
        let mut inner = lock(&self.roster.inner);
        self.slots[slot].gate.retire();
        inner.places[slot] = Place::default();
    }

    /// The id of the worker in a slot, if it is a regular one.
    pub(crate) fn id_of_slot(&self, slot: usize) -> WorkerId {
        let generation = self.slots[slot].gate.generation();
        WorkerId { runtime: self.roster.runtime, slot: slot as u32, generation }
    }

    /// Where a worker is, if it is one of ours.
    pub(crate) fn slot_of_worker(&self, id: WorkerId) -> Result<usize, Obstacle> {
        let slot = id.slot as usize;
        if id.runtime != self.roster.runtime || slot >= self.slots.len() {
            return Err(Obstacle::Unknown);
        }
        let there = self.slots[slot].gate.generation() == id.generation;
        if there { Ok(slot) } else { Err(Obstacle::Gone) }
    }

    /// Says that a worker is about to leave, if it may (Q2, Q3).
    pub(super) fn dismiss(&self, id: WorkerId) -> Result<Farewell, Obstacle> {
        let slot = self.slot_of_worker(id)?;
        let place = &self.slots[slot];
        let lane = &self.lanes[place.lane];
        let mut inner = lock(&self.roster.inner);
        let standing = inner.places[slot].standing;
        match standing {
            Standing::Free | Standing::Taken => return Err(Obstacle::Gone),
            Standing::Leaving | Standing::Withdrawing => return Err(Obstacle::Leaving),
            Standing::Registered | Standing::Working => {}
        }
        if inner.main == Some(slot) {
            return Err(Obstacle::Main);
        }
        if lane.attached() == 1 {
            return Err(Obstacle::Last);
        }
        lane.set_attached(lane.attached() - 1);
        let (next, farewell) = match standing {
            Standing::Working => (Standing::Leaving, Farewell::Works),
            _ => (Standing::Withdrawing, Farewell::Waits),
        };
        inner.places[slot].standing = next;
        Ok(farewell)
    }

    /// A worker that was about to leave stays.
    pub(super) fn stays(&self, slot: usize, farewell: Farewell) {
        let mut inner = lock(&self.roster.inner);
        let lane = &self.lanes[self.slots[slot].lane];
        lane.set_attached(lane.attached() + 1);
        inner.places[slot].standing = match farewell {
            Farewell::Works => Standing::Working,
            Farewell::Waits => Standing::Registered,
        };
    }

    /// A member of a crew, each in turn.
    pub(crate) fn member_of(&self, crew: &str) -> Option<WorkerId> {
        let mut inner = lock(&self.roster.inner);
        inner.turn = inner.turn.wrapping_add(1);
        let turn = inner.turn;
        let members: Vec<usize> = (0..inner.places.len())
            .filter(|&slot| {
                self.crew_of(slot, &inner.places[slot]).is_some_and(|name| name == crew)
            })
            .collect();
        let slot = *members.get(turn % members.len().max(1))?;
        Some(self.id_of_slot(slot))
    }

    /// The crew of a worker that can be posted to.
    fn crew_of<'a>(&self, slot: usize, place: &'a Place) -> Option<std::borrow::Cow<'a, str>> {
        match place.standing {
            Standing::Registered | Standing::Working => {}
            Standing::Free | Standing::Taken | Standing::Withdrawing | Standing::Leaving => {
                return None;
            }
        }
        Some(match &place.crew {
            Some(crew) => crew.as_str().into(),
            None => self.slots[slot].info.role.to_string().into(),
        })
    }

    /// Every worker that is attached.
    pub(crate) fn workers(&self) -> Vec<WorkerStatus> {
        let inner = lock(&self.roster.inner);
        let status = |(slot, place): (usize, &Place)| {
            let info = self.slots[slot].info;
            let state = match place.standing {
                Standing::Free | Standing::Taken => return None,
                Standing::Registered => WorkerState::Registered,
                Standing::Leaving | Standing::Withdrawing => WorkerState::Leaving,
                Standing::Working if self.slots[slot].is_out() => WorkerState::Blocked,
                Standing::Working if self.slots[slot].is_in_task() => WorkerState::Busy,
                Standing::Working => WorkerState::Idle,
            };
            let name = place.name.clone();
            Some(WorkerStatus {
                id: self.id_of_slot(slot),
                name: name.unwrap_or_else(|| format!("{}-{}", info.role, info.index)),
                role: info.role,
                crew: place.crew.clone().unwrap_or_else(|| info.role.to_string()),
                state,
            })
        };
        inner.places.iter().enumerate().filter_map(status).collect()
    }
}
