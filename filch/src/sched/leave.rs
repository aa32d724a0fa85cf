//! How a worker that is detached leaves its place: nothing that it has is lost.
//!
//! The request comes as a task for the worker alone, so it is heard between two others. From then on the
//! worker goes on with its steps, until nothing is left that only it can run:
//!
//! D1. Its gate is closed, so a post to it has landed before its last look, or is handed back (G2 of `gate`).
//!     What has landed runs here. The same holds for what its own tasks keep for it: one that keeps itself for
//!     ever would never let it go.
//! D2. Pinned futures that live keep it: the request is refused, the gate opens again, and the answer names
//!     them.
//! D3. What others may run is handed to them: newest task and ring to the injector, timers to other wheels
//!     (M6 of `timers`), operations and descriptors to other drivers (G5 of `engine`). Jobs and nodes stay in
//!     the deque, which is announced: thieves look at every deque, and its next owner finds it as it is. An
//!     operation in flight is cancelled and started again elsewhere, or its result is kept if it was faster.
//! D4. Then it leaves crew and idle set. Others of its lane are there (Q2 of `roster`), so who relied on it
//!     being awake relies on them.
//! D5. A request is answered once, also where the runtime stops first.
//!
//! Not here: who may leave (`roster`).

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::grow::Idleness;
use super::roster::{Farewell, Obstacle, Vacancy, WorkerId};
use super::shared::{Shared, lock};
use super::shutdown::TaskInfo;
use super::worker::Worker;
use crate::base::shim::{Mutex, yield_now};
use crate::base::sim;
use crate::config::hooks::Role;
use crate::task::group::{Group, guard_user_code};
use crate::task::header::Kind;

/// Why a worker was not detached.
///
/// ```
/// use filch::DetachError;
/// let hive = filch::Builder::new().io_workers(2).hive()?;
/// let main = hive.workers()[0].id;
/// assert!(matches!(hive.detach(main).wait(), Err(DetachError::Main)));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DetachError {
    /// It is no worker of this runtime.
    Unknown,
    /// It has left already.
    Gone,
    /// It is about to leave: somebody else has asked.
    Leaving,
    /// It is the main worker, whose thread is the caller's.
    Main,
    /// It is the last of its role.
    Last {
        /// The role.
        role: Role,
    },
    /// Pinned futures live on it, oldest first.
    Pinned(Vec<TaskInfo>),
    /// The runtime is not run yet, and posts for the worker are kept.
    KeepsPosts,
    /// The runtime is shutting down.
    ShutDown,
}

impl fmt::Display for DetachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("it is no worker of this runtime"),
            Self::Gone => f.write_str("the worker has left"),
            Self::Leaving => f.write_str("the worker is about to leave"),
            Self::Main => f.write_str("the main worker stays as long as the runtime runs"),
            Self::Last { role } => write!(f, "it is the last {role} worker"),
            Self::Pinned(tasks) => {
                write!(f, "{} pinned to the worker:", Plural(tasks.len()))?;
                tasks.iter().try_for_each(|task| write!(f, "\n  {task}"))
            }
            Self::KeepsPosts => f.write_str("posts for the worker are kept until the runtime runs"),
            Self::ShutDown => f.write_str("the runtime is shutting down"),
        }
    }
}

struct Plural(usize);

impl fmt::Display for Plural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 task is"),
            n => write!(f, "{n} tasks are"),
        }
    }
}

impl std::error::Error for DetachError {}

/// Where the answer to a request appears.
#[derive(Default)]
pub(crate) struct Answer(Mutex<Slip>);

#[derive(Default)]
struct Slip {
    result: Option<Result<(), DetachError>>,
    waker: Option<Waker>,
}

impl Answer {
    pub(crate) fn give(&self, result: Result<(), DetachError>) {
        let mut slip = lock(&self.0);
        slip.result.get_or_insert(result);
        let waker = slip.waker.take();
        drop(slip);
        if let Some(waker) = waker {
            guard_user_code(|| waker.wake());
        }
    }

    /// The answer, or the waker is woken when it comes.
    pub(crate) fn ask(&self, waker: &Waker) -> Option<Result<(), DetachError>> {
        let fresh = waker.clone();
        let mut slip = lock(&self.0);
        if slip.result.is_some() {
            return slip.result.clone();
        }
        let old = slip.waker.replace(fresh);
        drop(slip);
        drop(old);
        None
    }
}

/// A request to a worker to leave (D5).
pub(crate) struct Request {
    answer: Arc<Answer>,
}

impl Request {
    pub(crate) fn new(answer: Arc<Answer>) -> Self {
        Self { answer }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.answer.give(Err(DetachError::ShutDown));
    }
}

/// How far a worker that was asked to leave has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    Stays,
    /// Its gate is closed (D1).
    Closing,
    /// It hands over what it has (D3).
    Leaving,
}

/// What is to be done about a worker that may leave.
#[must_use]
pub(crate) enum Dismissed {
    /// It works: send it the request.
    Ask,
    /// It was only registered, and is gone or has to stay.
    Settled(Result<(), DetachError>),
}

impl Shared {
    /// Begins to detach a worker.
    pub(crate) fn begin_detach(&self, id: WorkerId) -> Dismissed {
        match self.dismiss(id) {
            Err(obstacle) => Dismissed::Settled(Err(self.explain(obstacle, id))),
            Ok(Farewell::Works) => Dismissed::Ask,
            Ok(Farewell::Waits) => Dismissed::Settled(self.withdraw(id.slot as usize)),
        }
    }

    /// The request could not be sent: the worker stays.
    pub(crate) fn undo_detach(&self, id: WorkerId) {
        self.stays(id.slot as usize, Farewell::Works);
    }

    fn explain(&self, obstacle: Obstacle, id: WorkerId) -> DetachError {
        match obstacle {
            Obstacle::Unknown => DetachError::Unknown,
            Obstacle::Gone => DetachError::Gone,
            Obstacle::Leaving => DetachError::Leaving,
            Obstacle::Main => DetachError::Main,
            Obstacle::Last => DetachError::Last { role: self.slots[id.slot as usize].info.role },
        }
    }

    /// Takes a registered worker back, which has no thread yet.
    fn withdraw(&self, slot: usize) -> Result<(), DetachError> {
        let place = &self.slots[slot];
        place.gate.close();
        sim::point();
        while !place.gate.is_quiet() {
            yield_now();
        }
        if !place.mailbox.is_empty() {
            place.gate.reopen();
            self.stays(slot, Farewell::Waits);
            return Err(DetachError::KeepsPosts);
        }
        let _vacancy = Vacancy { shared: self, slot };
        if self.lanes[place.lane].runs_futures() {
            self.empty_wheel(place.info.index);
            self.close_driver(place.info.index);
        }
        Ok(())
    }

    /// The pinned futures that live on the worker in a slot.
    fn pinned_to(&self, slot: usize) -> Vec<TaskInfo> {
        self.tasks_where(|task| {
            // SAFETY: the caller of the filter keeps the cell alive.
            let header = unsafe { task.header() };
            // SAFETY: as above; and it is pinned.
            header.vtable.kind == Kind::Pinned
                && unsafe { (header.vtable.slot)(task) } as usize == slot
        })
    }
}

impl Worker {
    /// Hears the request to leave; the worker's own task brings it.
    pub(crate) fn ask_to_leave(&self, request: Request) {
        self.asked.replace(Some(request));
    }

    /// Whether it takes no posts of its own any more, as its gate takes none of others (D1).
    pub(crate) fn is_closing(&self) -> bool {
        self.departure.get() != Departure::Stays
    }

    /// Whether it hands over what it has.
    pub(super) fn is_leaving(&self) -> bool {
        self.departure.get() == Departure::Leaving
    }

    /// Whether somebody waits for this worker to leave.
    pub(super) fn is_asked_to_leave(&self) -> bool {
        self.asked.borrow().is_some()
    }

    /// The loop of a regular worker; returns when the runtime stops, or with the request that it follows.
    pub(super) fn run_until_it_leaves(&self) -> Option<Request> {
        let mut idleness = Idleness::of(self);
        loop {
            if idleness.is_over(self) {
                self.leave_for_lack_of_work();
            }
            if self.is_asked_to_leave()
                && let Some(request) = self.prepare_to_leave()
            {
                return Some(request);
            }
            if self.step() == super::worker::Flow::Stop {
                return None;
            }
        }
    }

    /// D1 to D3, between two steps; returns the request once nothing keeps the worker.
    fn prepare_to_leave(&self) -> Option<Request> {
        let gate = &self.slot().gate;
        if self.departure.get() == Departure::Stays {
            if self.has_pinned() {
                self.refuse_to_leave();
                return None;
            }
            gate.close();
            self.departure.set(Departure::Closing);
        }
        // Who is turned away wakes nobody, so this is no reason to sleep.
        while !gate.is_quiet() {
            yield_now();
        }
        if self.has_private() {
            return None;
        }
        if self.has_pinned() {
            gate.reopen();
            self.departure.set(Departure::Stays);
            self.refuse_to_leave();
            return None;
        }
        self.departure.set(Departure::Leaving);
        // C4; before the queues are emptied, because the end of a group may wake a task.
        Group::settle();
        self.hand_over();
        self.asked.take()
    }

    /// D2.
    fn refuse_to_leave(&self) {
        let shared = self.shared();
        shared.stays(self.index(), Farewell::Works);
        let pinned = shared.pinned_to(self.index());
        if let Some(request) = self.asked.take() {
            request.answer.give(Err(DetachError::Pinned(pinned)));
        }
    }

    /// Gives tasks to others (D3).
    pub(super) fn hand_over(&self) {
        let shared = self.shared();
        if let Some(task) = self.take_newest() {
            shared.inject(task);
        }
        // SAFETY: S3, we are the owner.
        while let Some(task) = unsafe { self.slot().ring.pop() } {
            shared.inject(crate::task::header::RawTask(task));
        }
    }

    /// D3 and D4, when the thread is no longer that of this worker: whom this wakes goes to others.
    pub(super) fn depart(self, request: Request) {
        let (shared, slot) = (self.shared().clone(), self.index());
        let lane = &shared.lanes[shared.slots[slot].lane];
        self.give_timers_away();
        self.end_driver();
        lane.crew.dismiss();
        self.leave();
        if !shared.slots[slot].deque.is_empty() {
            // D3.
            shared.notify(lane);
        }
        shared.free_place(slot);
        // Who blocked meanwhile may have counted on us.
        shared.reinforce_if_needed(lane);
        request.answer.give(Ok(()));
    }
}
