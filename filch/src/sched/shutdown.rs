//! How a runtime ends, and who holds it up.
//!
//! Z1. The end has one order: no tasks from outside, then every task is gone (by running to its
//!     end, or by being dropped), then the threads are gone.
//! Z2. Dropping tasks is cancelling them: workers drop the bodies, so a pinned body is dropped on
//!     its own thread. The walk is repeated until the root group is finished, because a task that
//!     was being born during a walk may be missed by it. The walk drops nothing itself: a drop may wait for a task that the
//!     walk has yet to cancel.
//! Z3. A report names what had not finished when the time was up.
//! Z4. A job that waited for others, or that somebody awaits, is dropped though all workers are inside of jobs: those may wait until
//!     somebody knows that it is gone. The *dropper*, a thread of its own, claims such jobs where a walk finds them queued: those that
//!     waited at once, others if the walk before had cancelled them. One at a time: if it blocks, workers still drop the others, as
//!     they do with all. Whoever made the job may push its entry later, even after the end: a tombstone, which goes with the
//!     last reference to the runtime (Z6).
//! Z5. An end with a deadline returns by then, whatever the tasks do. What is left of it is the sentry's: it repeats the
//!     walk, ever more rarely, waits for the root group, and stops the workers. Those go on until then, as in any
//!     abort: a task that still runs may wait for what only they can drop.
//! Z6. Nobody joins the threads of such an end, because some may not end. Each of them holds a reference to the
//!     runtime, and the last one clears the queues of the slots that they were in (`Shared::drop`).
//! Z7. An escalation is heard wherever an end waits: for the root group, or for threads. It takes nothing back (E1 of `limits`).
//! Z8. Neither a drain nor an abort waits for the future of a group that nobody in the runtime polls (`kept`). They look for such
//!     futures again and again, because the last task may end, or the last poll elsewhere, without telling the root.
//! Z9. Jobs may wait for a worker of a role that has none, until one is attached (`spawn`). Once the runtime is not open, none will
//!     be: the dropper takes their entries out of the queues and drops them, also where the others are drained.
//! Z10. An end with a deadline does not wait for threads any longer than for tasks, but for a moment (E3 of `limits`). A thread
//!     that is in a hook then, or waits for what the system does not cancel, is left as in Z6.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::blocking::{Sleeper, drop_unstarted};
use super::limits::{Drains, Limits, Strictness, earlier};
pub(super) use super::report::Ending;
pub use super::report::{ShutdownReport, TaskInfo, TaskState};
use super::shared::{Lane, Phase, Shared, lock};
use crate::base::sim;
use crate::queue::deque::Steal;
use crate::task::group::Group;
use crate::task::header::{Begins, Kind, RawTask, TaskRef};
use crate::task::state::{self, Start, State};
use crate::task::waker::cancel_task;

/// How often the walk that drops all tasks is repeated. Guessed.
const WALK_PERIOD: Duration = Duration::from_millis(5);

/// How often a drain that takes long looks whether only kept futures are left (Z8). Guessed: seldom
/// enough to cost nothing, often enough for people.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// How often it is repeated at least, once the end goes on in the background. Guessed.
const RARE_WALK: Duration = Duration::from_secs(1);

/// How a runtime ends.
///
/// `Drain` and `Abort` wait for as long as it takes. `DrainFor` and `AbortFor` return at their deadline although
/// a task still runs: a closure of [`spawn_blocking`](crate::spawn_blocking()), a job, a future that is stuck in a
/// poll. The [report](ShutdownReport) names it, and the end goes on in the background until it returns. In the same way it
/// leaves a thread that does not end, because a [stop hook](crate::Builder::on_thread_stop) blocks on it, say: once the
/// tasks are gone, threads have 50 ms at least. What a program runs at the edges of a thread has no deadline: a start hook, and the
/// destructors of thread-locals.
///
/// No end returns while the task that does not end runs on the calling thread itself. That is the main worker of a
/// hive, inside of [`Runtime::run`](crate::Runtime::run), [`Pump::run`](crate::Pump::run) or
/// [`Pump::finish`](crate::Pump::finish): the deadline passes, and the call returns when the task does. What is known to
/// block belongs into [`spawn_blocking`](crate::spawn_blocking()).
///
/// None of these waits for a future that is kept outside of the runtime or was forgotten; see
/// [`Runtime`](crate::Runtime).
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
    /// Drains for so long, then aborts. The tasks then have up to 200 ms to be dropped, and 50 ms if only running
    /// ones are left. After that the call returns, unless a task runs on the calling thread itself (see above).
    DrainFor(Duration),
    /// Drops every task at its next await, and returns when all are gone, or after so long, unless a task runs on the
    /// calling thread itself (see above).
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// let runtime = filch::Builder::new().workers(1).thread_name("app").build()?;
    /// let (release, stuck) = mpsc::channel::<()>();
    /// let (begun, begins) = mpsc::channel();
    /// let job = runtime.task().name("stuck").spawn_blocking(move || {
    ///     begun.send(()).unwrap();
    ///     stuck.recv().ok()
    /// });
    /// begins.recv()?;
    /// let report = runtime.shutdown(filch::Shutdown::AbortFor(Duration::from_millis(10)));
    /// assert_eq!(report.still_running[0].name.as_deref(), Some("stuck"));
    /// assert_eq!(report.still_running[0].thread.as_deref(), Some("app-block-0"));
    /// drop(release);
    /// assert_eq!(job.wait(), None); // the job ran to its end after all
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    AbortFor(Duration),
}

/// What has become of the tasks of an end, and until when it may take.
pub(super) struct Ended {
    pub(super) report: ShutdownReport,
    pub(super) limits: Limits,
}

/// Who drops what a walk has cancelled.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftover {
    /// The workers.
    Workers,
    /// There are queued jobs that the workers may be waiting for (Z4), or that have none (Z9).
    Jobs,
}

/// What ended a wait for the root group.
#[must_use]
pub(super) enum Waited {
    Finished,
    TimeIsUp,
    /// Z7.
    Escalated(Strictness),
}

/// What the sentry knows of the rest of an end (Z5).
pub(super) struct Rest {
    dropper: Dropper,
    next_walk: Instant,
    /// How long the next walk waits after that.
    pause: Duration,
}

impl Rest {
    pub(super) fn new() -> Self {
        Self { dropper: Dropper::default(), next_walk: sim::now(), pause: WALK_PERIOD }
    }

    pub(super) fn next_walk(&self) -> Instant {
        self.next_walk
    }
}

/// Whether it is a job that was not queued at its birth.
fn waited(task: &TaskRef) -> bool {
    task.header().vtable.begins == Begins::WhenAsked
}

/// Whether it is a queued job that may hold up others which wait for it (Z4), or that have none (Z9).
fn may_be_awaited(task: &TaskRef) -> bool {
    let header = task.header();
    header.vtable.kind == Kind::Job
        && header.state.phase() == state::Phase::Queued
        && (waited(task) || header.state.has_waiter())
}

/// The thread of Z4: alive as long as its token.
#[derive(Default)]
struct Dropper {
    token: Weak<()>,
    /// Whether it could not start, and `describe` says so.
    refused: bool,
}

impl Dropper {
    /// Sees to it that the dropper is about.
    fn call(&mut self, shared: &Shared) {
        if self.token.strong_count() > 0 {
            return;
        }
        let token = Arc::new(());
        self.token = Arc::downgrade(&token);
        // SAFETY: the caller's `&Shared` keeps it alive.
        let of_thread = unsafe { Shared::to_arc(shared.root.home().shared.cast()) };
        let started = shared.start_thread("drop".into(), move || {
            let entered = of_thread.finder.enter();
            of_thread.drop_awaited();
            drop((entered, token));
        });
        // Without it there are still the workers, and the next walk tries again.
        if let Err(error) = started
            && !std::mem::replace(&mut self.refused, true)
        {
            shared.refuse(format!(
                "{error}; the end may wait for a job that no worker is free to drop"
            ));
        }
    }
}

impl Shared {
    /// Ends the runtime (Z1). The caller is no member of it.
    pub(crate) fn shut_down(&self, how: Shutdown) -> ShutdownReport {
        let ended = self.end_tasks(how);
        match ended.report.ending() {
            Ending::Over => self.end_threads(ended),
            Ending::InBackground => {
                self.leave_to_sentry();
                ended.report
            }
        }
    }

    /// Ends the threads, when all tasks are gone.
    pub(super) fn end_threads(&self, Ended { mut report, mut limits }: Ended) -> ShutdownReport {
        report.threads_left = self.stop_threads(&mut limits);
        report.in_background = !report.threads_left.is_empty();
        report
    }

    /// Z5: the caller of the end goes.
    pub(super) fn leave_to_sentry(&self) {
        self.advance(Phase::Background);
        self.rouse();
    }

    /// From now on no task comes from outside, and the root group ends with its last member.
    pub(super) fn leave_open(&self) {
        if self.advance(Phase::Draining) {
            // SAFETY: the root's own unit, given up once: only one caller leaves Open.
            unsafe { Group::leave(Arc::as_ptr(&self.root)) };
        }
    }

    /// Ends all tasks; the workers go on.
    pub(super) fn end_tasks(&self, how: Shutdown) -> Ended {
        self.leave_open();
        let mut limits = Limits::of(how);
        self.drain(&mut limits);
        let is_over = self.root.is_finished();
        let report = if is_over { ShutdownReport::default() } else { self.abort(&mut limits) };
        Ended { report, limits }
    }

    /// Lets tasks end by themselves, for as long as they may.
    fn drain(&self, limits: &mut Limits) {
        let mut period = WALK_PERIOD;
        let mut dropper = Dropper::default();
        while let Drains::Until(deadline) = limits.drains {
            // Z8.
            self.revoke_kept();
            // Z9.
            if self.has_unattended() {
                dropper.call(self);
            }
            match self.wait_for_look(period, deadline) {
                Waited::Finished => return,
                Waited::TimeIsUp if deadline.is_some_and(|end| sim::now() >= end) => {
                    limits.end_drain();
                }
                Waited::TimeIsUp => period = LONGEST_LOOK.min(2 * period),
                Waited::Escalated(stricter) => limits.tighten(stricter),
            }
        }
    }

    /// The job lane, if it has no worker (Z9).
    fn unattended(&self) -> Option<&Lane> {
        self.lanes.last().filter(|lane| lane.attached() == 0)
    }

    /// Whether jobs lie where no worker will ever find them (Z9).
    fn has_unattended(&self) -> bool {
        self.unattended().is_some_and(|lane| lane.has_ready(&self.slots))
    }

    /// Drops jobs that no worker will ever run (Z9).
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

    /// Waits until the root group is finished.
    fn wait_for_root(&self, deadline: Option<Instant>) -> Waited {
        let sleeper = Sleeper::new();
        Group::settle();
        while self.root.set_waiter(&sleeper.waker) {
            if let Some(how) = self.life.hear(&sleeper.waker) {
                return Waited::Escalated(how);
            }
            match deadline {
                None => sleeper.sleep(),
                Some(deadline) if sleeper.sleep_until(deadline) => {}
                Some(_) if self.root.is_finished() => break,
                Some(_) => return Waited::TimeIsUp,
            }
        }
        Waited::Finished
    }

    /// Drops every task (Z2), for as long as the caller stays.
    fn abort(&self, limits: &mut Limits) -> ShutdownReport {
        self.advance(Phase::Aborting);
        let unfinished = self.tasks();
        let mut dropper = Dropper::default();
        loop {
            if self.cancel_all() == Leftover::Jobs {
                dropper.call(self);
            }
            limits.look(|| self.has_tasks_that_do_not_run());
            match self.wait_for_look(WALK_PERIOD, limits.end()) {
                Waited::Finished => {
                    return ShutdownReport { unfinished, ..ShutdownReport::default() };
                }
                Waited::Escalated(stricter) => limits.tighten(stricter),
                Waited::TimeIsUp if limits.are_over() => {
                    return ShutdownReport { unfinished, ..self.report_what_is_left() };
                }
                Waited::TimeIsUp => {}
            }
        }
    }

    /// What is there at the deadline.
    pub(super) fn report_what_is_left(&self) -> ShutdownReport {
        let still_running = self.tasks();
        // The last of them may have ended while they were listed.
        let in_background = !self.root.is_finished();
        let still_running = if in_background { still_running } else { Vec::new() };
        ShutdownReport { still_running, in_background, ..ShutdownReport::default() }
    }

    /// Waits for the root group until the next walk of a caller that is needed for more than that.
    pub(super) fn wait_for_walk(&self, limits: &Limits) -> Waited {
        self.wait_for_root(earlier(sim::now().checked_add(WALK_PERIOD), limits.end()))
    }

    /// Waits for the root group until the next look at what is left, or until `end`.
    fn wait_for_look(&self, period: Duration, end: Option<Instant>) -> Waited {
        let next = sim::now().checked_add(period);
        match end {
            // Looks are housekeeping; a deadline is something that will happen.
            None => sim::in_background(|| self.wait_for_root(next)),
            Some(end) => self.wait_for_root(Some(next.map_or(end, |next| next.min(end)))),
        }
    }

    /// The sentry's part of an end whose caller has gone (Z5), again and again until it has stopped the workers.
    pub(super) fn end_in_background(&self, rest: &mut Rest) {
        if !self.root.set_waiter(&self.sentry.waker()) {
            self.stop_workers();
            self.close_wheels();
            // E3 of `core`; workers that have threads see to it when they leave.
            for slot in self.slots.iter().filter(|slot| lock(&slot.core).is_some()) {
                slot.drop_guest_core();
            }
            return;
        }
        let now = sim::now();
        if rest.next_walk <= now {
            if self.cancel_all() == Leftover::Jobs {
                rest.dropper.call(self);
            }
            rest.next_walk = now + rest.pause;
            rest.pause = RARE_WALK.min(rest.pause * 2);
        }
    }

    /// One walk of an abort (Z2).
    pub(super) fn cancel_all(&self) -> Leftover {
        self.revoke_kept();
        let mut leftover = if self.has_unattended() { Leftover::Jobs } else { Leftover::Workers };
        self.for_each_task(|task| {
            let was_cancelled = task.header().state.is_cancelled();
            // SAFETY: the reference keeps the cell alive.
            unsafe { cancel_task(task.raw()) };
            if may_be_awaited(&task) && (was_cancelled || waited(&task)) {
                leftover = Leftover::Jobs;
            }
        });
        leftover
    }

    /// The dropper's thread (Z4).
    fn drop_awaited(&self) {
        self.drop_unattended();
        self.for_each_task(|task| {
            if may_be_awaited(&task) && task.header().state.is_cancelled() {
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

    fn has_tasks_that_do_not_run(&self) -> bool {
        let mut found = false;
        self.for_each_task(|task| {
            let phase = task.header().state.phase();
            found |= matches!(phase, state::Phase::Queued | state::Phase::Waiting);
        });
        found
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
                thread: match state {
                    TaskState::Running => self.finder.thread_of(task.raw()),
                    TaskState::Queued | TaskState::Waiting => None,
                },
            });
        });
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.age), task.id));
        tasks
    }
}
