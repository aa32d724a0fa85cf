//! How a runtime ends, and who holds it up.
//!
//! Z1. The end has one order: no tasks from outside, then every task is gone (by running to its
//!     end, or by being dropped), then the threads are gone.
//! Z2. Dropping tasks is cancelling them: workers drop the bodies, so a pinned body is dropped on
//!     its own thread. The walk is repeated until the root group is finished, because a task that
//!     was being born during a walk may be missed by it. The walk drops nothing itself: a drop may wait for a task that the
//!     walk has yet to cancel.
//! Z3. A report names what had not finished when the time was up.
//! Z4. A job that waited for others is dropped though all workers are inside of jobs: those may wait until somebody knows that it
//!     is gone. The *dropper*, a thread of its own, claims what a walk has left queued of such jobs. One at a time: if it blocks, workers
//!     still drop the others, as they do with all. No other job is its to claim: one that is queued from birth may have no entry yet,
//!     and the runtime would end before that is pushed (T10 of `task/state`).
//! Z5. Jobs may wait for a worker of a role that has none, until one is attached (`spawn`). Once the runtime is not open, none will
//!     be: the dropper takes their entries out of the queues and drops them, also where the others are drained.

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::blocking::{Sleeper, drop_unstarted, wait_for_group};
use super::shared::{Lane, Phase, Shared};
use crate::base::sim;
use crate::queue::deque::Steal;
use crate::task::group::Group;
use crate::task::header::{Begins, RawTask, TaskId, TaskRef};
use crate::task::state::{self, Start, State};
use crate::task::waker::cancel_task;

/// How often the walk that drops all tasks is repeated. Guessed.
const WALK_PERIOD: Duration = Duration::from_millis(5);

/// How a runtime ends.
///
/// ```
/// use filch::Shutdown;
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let handle = runtime.spawn(async { 1 });
/// let report = runtime.shutdown(Shutdown::Drain);
/// assert!(report.unfinished.is_empty());
/// assert_eq!(handle.wait(), 1);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Waits until every task has run to its end, however long that takes.
    Drain,
    /// Drops every task at its next await; jobs that run are waited for.
    Abort,
    /// Drains for so long, then aborts.
    DrainFor(Duration),
}

/// What a task does at a moment.
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let handle = runtime.spawn(std::future::pending::<()>());
/// while runtime.tasks()[0].state != filch::TaskState::Waiting {}
/// assert_eq!(runtime.tasks()[0].id, handle.id());
/// # handle.cancel();
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Ready, in some queue, because it is new or was woken.
    Queued,
    /// Inside a poll or a call, or in a queue because it yielded.
    Running,
    /// Waiting to be woken.
    Waiting,
}

/// A task that is alive: who it is and what it does.
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let handle = runtime.task().name("idler").spawn(std::future::pending::<()>());
/// let tasks = runtime.tasks();
/// assert_eq!(tasks[0].name.as_deref(), Some("idler"));
/// assert!(tasks[0].spawned_at.file().ends_with(".rs"));
/// # handle.cancel();
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id.
    pub id: TaskId,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
    /// What it does.
    pub state: TaskState,
    /// How long ago it was spawned, to some milliseconds.
    pub age: Duration,
}

impl std::fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            TaskState::Queued => "queued",
            TaskState::Running => "running",
            TaskState::Waiting => "waiting",
        };
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " \"{name}\"")?;
        }
        write!(f, " spawned at {}, {state}, {:?} old", self.spawned_at, self.age)
    }
}

/// What a shutdown found.
///
/// ```
/// use std::time::Duration;
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let stuck = runtime.spawn(std::future::pending::<()>());
/// let report = runtime.shutdown(filch::Shutdown::DrainFor(Duration::from_millis(1)));
/// assert_eq!(report.unfinished[0].id, stuck.id());
/// println!("{report}"); // 1 task unfinished: task 7 spawned at src/main.rs:4:21, waiting, …
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The tasks that had not finished when the abort began, oldest first.
    pub unfinished: Vec<TaskInfo>,
}

impl std::fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.unfinished.len() {
            0 => return f.write_str("all tasks finished"),
            1 => f.write_str("1 task unfinished:")?,
            n => write!(f, "{n} tasks unfinished:")?,
        }
        for task in &self.unfinished {
            write!(f, "\n  {task}")?;
        }
        Ok(())
    }
}

/// Who drops what a walk has cancelled.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftover {
    /// The workers.
    Workers,
    /// There are jobs that waited and that nobody has started (Z4, Z5).
    Waited,
}

/// The thread of Z4: alive as long as its token.
#[derive(Default)]
struct Dropper(Weak<()>);

impl Dropper {
    /// Sees to it that the dropper is about.
    fn call(&mut self, shared: &Shared) {
        if self.0.strong_count() > 0 {
            return;
        }
        let token = Arc::new(());
        self.0 = Arc::downgrade(&token);
        // SAFETY: the caller's `&Shared` keeps it alive.
        let of_thread = unsafe { Shared::to_arc(shared.root.home().shared.cast()) };
        let started = shared.start_thread("drop".into(), move || {
            of_thread.drop_what_waited();
            drop(token);
        });
        // Without it there are still the workers, and the next walk tries again.
        drop(started);
    }
}

impl Shared {
    /// Ends the runtime (Z1). The caller is no member of it.
    pub(crate) fn shut_down(&self, how: Shutdown) -> ShutdownReport {
        let report = self.end_tasks(how);
        self.stop_threads();
        report
    }

    /// From now on no task comes from outside, and the root group ends with its last member.
    pub(super) fn leave_open(&self) {
        if self.advance(Phase::Draining) {
            // SAFETY: the root's own unit, given up once: only one caller leaves Open.
            unsafe { Group::leave(Arc::as_ptr(&self.root)) };
        }
    }

    /// Ends all tasks; the workers go on.
    pub(super) fn end_tasks(&self, how: Shutdown) -> ShutdownReport {
        self.leave_open();
        let drained = match how {
            Shutdown::Drain => {
                self.drop_unattended_until_finished();
                wait_for_group(&self.root);
                true
            }
            Shutdown::Abort => self.root.is_finished(),
            Shutdown::DrainFor(time) => self.wait_for_root(sim::now().checked_add(time)),
        };
        if drained { ShutdownReport::default() } else { self.abort() }
    }

    /// Waits until the root group is finished; false if the deadline came first.
    fn wait_for_root(&self, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline else {
            wait_for_group(&self.root);
            return true;
        };
        let sleeper = Sleeper::new();
        while self.root.set_waiter(&sleeper.waker) {
            if !sleeper.sleep_until(deadline) {
                return self.root.is_finished();
            }
        }
        true
    }

    /// The job lane, if it has no worker (Z5).
    fn unattended(&self) -> Option<&Lane> {
        self.lanes.last().filter(|lane| lane.attached() == 0)
    }

    /// Z5, while the others run to their end.
    fn drop_unattended_until_finished(&self) {
        let mut dropper = Dropper::default();
        while let Some(lane) = self.unattended() {
            if lane.has_ready(&self.slots) {
                dropper.call(self);
            }
            let next_look = sim::now().checked_add(WALK_PERIOD);
            if sim::in_background(|| self.wait_for_root(next_look)) {
                return;
            }
        }
    }

    /// Drops jobs that no worker will ever run (Z5).
    pub(super) fn drop_unattended(&self) {
        let Some(lane) = self.unattended() else { return };
        let mut tasks = Vec::new();
        for queue in [&lane.high, &lane.injector, &lane.low] {
            while queue.pop_batch(usize::MAX, 0, &mut |entry| tasks.push(RawTask(entry))) > 0 {}
        }
        // What guests have left behind.
        for slot in lane.occupied(&self.slots) {
            while let Steal::Taken(entry) = slot.deque.steal_if(|entry| RawTask(entry).is_task()) {
                tasks.push(RawTask(entry));
            }
        }
        for task in tasks {
            // SAFETY: T4, the entry was in a queue and is ours.
            match unsafe { task.header() }.state.start() {
                Start::Tombstone => {}
                // SAFETY: the last reference was ours.
                Start::TombstoneLast => unsafe { task.free() },
                Start::Run | Start::Detached | Start::Cancelled => {
                    // SAFETY: `start` gave us the body.
                    let _ = unsafe { task.execute(Start::Cancelled, u32::MAX) };
                }
            }
            // C4: this thread is nobody's, and the next drop may block.
            Group::settle();
        }
    }

    /// Drops every task (Z2).
    fn abort(&self) -> ShutdownReport {
        self.advance(Phase::Aborting);
        let report = ShutdownReport { unfinished: self.tasks() };
        let mut dropper = Dropper::default();
        loop {
            if self.cancel_all() == Leftover::Waited {
                dropper.call(self);
            }
            let next_walk = sim::now().checked_add(WALK_PERIOD);
            if sim::in_background(|| self.wait_for_root(next_walk)) {
                return report;
            }
        }
    }

    /// One walk of an abort (Z2).
    pub(super) fn cancel_all(&self) -> Leftover {
        let waits = self.unattended().is_some_and(|lane| lane.has_ready(&self.slots));
        let mut leftover = if waits { Leftover::Waited } else { Leftover::Workers };
        self.for_each_task(|task| {
            // SAFETY: the reference keeps the cell alive.
            unsafe { cancel_task(task.raw()) };
            let header = task.header();
            let queued = header.state.phase() == state::Phase::Queued;
            if queued && header.vtable.begins == Begins::WhenAsked {
                leftover = Leftover::Waited;
            }
        });
        leftover
    }

    /// The dropper's thread (Z4).
    fn drop_what_waited(&self) {
        self.drop_unattended();
        self.for_each_task(|task| {
            let header = task.header();
            if header.vtable.begins == Begins::WhenAsked && header.state.is_cancelled() {
                drop_unstarted(task.raw());
                // C4: this thread is nobody's, and the next drop may block.
                Group::settle();
            }
        });
    }

    /// Visits every task that is alive.
    pub(super) fn for_each_task(&self, visit: impl FnMut(TaskRef)) {
        self.pool.for_each_cell(
            |cell: NonNull<u8>| {
                // SAFETY: T1, the first word of a cell is a state word at all times.
                let state: &State = unsafe { cell.cast().as_ref() };
                let task = RawTask(cell.cast());
                // SAFETY: `try_pin` made the reference that is handed over.
                state.try_pin().then(|| unsafe { TaskRef::from_owned(task) })
            },
            visit,
        );
    }

    /// Every task that is alive, oldest first.
    pub(crate) fn tasks(&self) -> Vec<TaskInfo> {
        self.tasks_where(|_| true)
    }

    /// Those of them that pass a filter, which is called while the cell is alive.
    pub(super) fn tasks_where(&self, wanted: impl Fn(RawTask) -> bool) -> Vec<TaskInfo> {
        let mut tasks = Vec::new();
        self.for_each_task(|task| {
            if !wanted(task.raw()) {
                return;
            }
            let header = task.header();
            let state = match header.state.phase() {
                state::Phase::Queued => TaskState::Queued,
                state::Phase::Running => TaskState::Running,
                state::Phase::Waiting => TaskState::Waiting,
                state::Phase::Done => return,
            };
            tasks.push(TaskInfo {
                id: header.id,
                name: header.name().map(str::to_owned),
                spawned_at: header.site(),
                state,
                age: self.age(&header.state),
            });
        });
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.age), task.id));
        tasks
    }
}
