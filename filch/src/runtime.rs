//! Runtimes: start one, or use the default that starts by itself.
//!
//! R1. A `Runtime` owns its threads: when it is dropped or shut down, no thread and no task body
//!     of it is left, unless its end had a deadline and a task or a thread had not ended by then. A [`Handle`] keeps only memory.
//! R2. The default runtime starts on first use and lives as long as the process.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use crate::base::{barrier, sim};
use crate::block_on::{in_group, on_panic_here, run_with_budget, tracking_of_block_on};
use crate::builder::Builder;
use crate::config::{Config, Role};
use crate::error::BuildError;
use crate::observe::Counts;
use crate::sched::blockers::BlockingSnapshot;
use crate::sched::shared::{Birth, Refusals, Shared, lock};
use crate::sched::shutdown::{Shutdown, ShutdownReport, TaskInfo};
use crate::sched::start;
use crate::spawn::{Place, TaskBuilder};
use crate::task::context;
use crate::task::join::JoinHandle;

/// A set of workers with its tasks. Several may live in one process.
///
/// Dropping it drops its tasks at their next await and waits until they are gone; use
/// [`Runtime::shutdown`] to let them finish.
///
/// Its end waits for tasks and for calls of [`Handle::block_on`], and not for futures that began in it and
/// are kept elsewhere or were forgotten. Those may be polled and dropped afterwards: handles tell what
/// became of their tasks, groups panic with "the runtime has ended" (see [`group`](crate::group())), sleeps and
/// timeouts go on in the runtime that polls them next, sockets and files return an error, and
/// channels and locks do not depend on a runtime.
///
/// ```
/// let runtime = filch::Runtime::builder().workers(2).build()?;
/// let handle = runtime.spawn(async { 40 });
/// assert_eq!(runtime.block_on(async { handle.await + 2 }), 42);
/// # Ok::<(), filch::BuildError>(())
/// ```
///
/// # Panics
/// Dropping a runtime inside one of its own tasks panics: it would wait for itself.
///
/// # Forked processes
/// A child that `fork()` made has none of the runtime's threads. There, spawning, waiting, `block_on` and the
/// methods of handles panic, I/O ends with an error, wakers do nothing, and a dropped runtime leaks. The child may build
/// a runtime of its own; the default runtime starts there unless it had started before the fork. A task that
/// forks must end the child, or `exec`, before it returns or awaits: otherwise the child ends with status 101.
pub struct Runtime {
    handle: Handle,
    state: State,
}

/// Whether the threads run.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Nobody runs it yet.
    Waiting,
    Running,
    Ended,
}

/// A reference to a runtime, to spawn into it from anywhere.
///
/// It does not keep the threads: once the runtime has ended, spawned tasks come back as cancelled.
///
/// ```
/// let runtime = filch::Runtime::builder().workers(1).build()?;
/// let handle = runtime.handle();
/// let thread = std::thread::spawn(move || handle.spawn_fn(|| 3).wait());
/// assert_eq!(thread.join().unwrap(), 3);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Builder {
    /// Starts the runtime; returns once every worker is there and can be woken.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.spawn_fn(|| 1).wait(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If a parameter makes no sense, or a thread cannot start; those that did are joined.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let config = self.resolve()?;
        self.build_resolved(config)
    }

    /// As `build`, with a configuration that was resolved before.
    pub(crate) fn build_resolved(self, config: Config) -> Result<Runtime, BuildError> {
        let shared = start::start(self.into_parts(config, Birth::Started))?;
        Ok(Runtime { handle: Handle(shared), state: State::Running })
    }

    /// A runtime that waits for somebody to run it.
    pub(crate) fn build_waiting(self, config: Config) -> Result<Runtime, BuildError> {
        let shared = start::start(self.into_parts(config, Birth::Waiting))?;
        Ok(Runtime { handle: Handle(shared), state: State::Waiting })
    }
}

/// The default runtime, started on first use (R2).
///
/// # Panics
/// If it cannot start: the environment or the system refuses. On a thread of a simulation that is
/// in no task of its runtime.
pub(crate) fn default() -> &'static Handle {
    assert!(!sim::is_on(), "a simulation has no default runtime: use this one inside of a task");
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    let runtime = DEFAULT.get_or_init(|| match Builder::new().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("the default runtime cannot start: {error}"),
    });
    &runtime.handle
}

impl Runtime {
    /// A runtime with the default configuration.
    ///
    /// ```
    /// let runtime = filch::Runtime::new()?;
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }

    /// Starts describing a runtime.
    ///
    /// ```
    /// let runtime = filch::Runtime::builder().io_workers(1).compute_workers(1).build()?;
    /// assert_eq!(runtime.config().io_workers, 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A handle to spawn from elsewhere.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.handle().spawn(async { 1 }).wait(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the runtime in the given way, and tells which tasks had not finished.
    ///
    /// With a deadline ([`Shutdown::DrainFor`], [`Shutdown::AbortFor`]) it returns although a task still runs, and the
    /// report names that. Such a task may go on as before: what it spawns is dropped unrun, what it waits for ends.
    /// Its threads stay until it returns, and then go by themselves.
    ///
    /// Of a hive that was never run it counts as an [escalation](Handle::escalate) of an end that was asked for before.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let report = runtime.shutdown(filch::Shutdown::Abort);
    /// assert!(report.unfinished.is_empty());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Inside one of the runtime's own tasks.
    #[track_caller]
    pub fn shutdown(mut self, how: Shutdown) -> ShutdownReport {
        self.handle.arc();
        self.refuse_from_inside();
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Waiting => {
                // Who says how means it, whatever was asked for before.
                self.handle.escalate(how);
                self.handle.0.end_unrun(how)
            }
            State::Running | State::Ended => self.handle.0.shut_down(how),
        }
    }

    /// Leaves the end to the caller.
    #[track_caller]
    pub(crate) fn into_shared(mut self) -> Arc<Shared> {
        self.handle.arc();
        self.refuse_from_inside();
        self.state = State::Ended;
        self.handle.0.clone()
    }

    #[track_caller]
    fn refuse_from_inside(&mut self) {
        if self.handle.is_inside() {
            // Not dropped again while this panic unwinds.
            self.state = State::Ended;
            panic!("{ENDS_INSIDE}");
        }
    }
}

impl std::ops::Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    #[track_caller]
    fn drop(&mut self) {
        if self.state == State::Ended {
            return;
        }
        if self.handle.0.process().is_parent() {
            // It is the parent's to end. Kept for good, because its parts would have to be ended one by one.
            return std::mem::forget(self.handle.clone());
        }
        if std::thread::panicking() {
            if context::is_inside_any() {
                // A second panic would end the process, and waiting might never end.
                return;
            }
        } else {
            self.refuse_from_inside();
        }
        match self.state {
            State::Waiting => self.handle.0.end_unrun(Shutdown::Abort),
            State::Running | State::Ended => self.handle.0.shut_down(Shutdown::Abort),
        };
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("state", &self.state).finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("phase", &self.0.phase()).finish_non_exhaustive()
    }
}

/// What whoever ends a runtime there is told.
pub(crate) const ENDS_INSIDE: &str =
    "a runtime cannot end inside one of its own tasks: it would wait for itself";

impl Handle {
    /// Whether the thread is inside of a task or a call of the runtime, whose end waits for that.
    pub(crate) fn is_inside(&self) -> bool {
        context::is_inside(Arc::as_ptr(&self.0).cast())
    }

    /// What all threads of the runtime share, for use.
    ///
    /// # Panics
    /// In a child that was forked from the process of the runtime.
    #[track_caller]
    pub(crate) fn shared(&self) -> &Shared {
        self.arc()
    }

    /// As `shared`.
    #[track_caller]
    pub(crate) fn arc(&self) -> &Arc<Shared> {
        self.0.process().check();
        &self.0
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The runtime that a spawn here would use: that of the running task, else the default.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).thread_name("mine").build()?;
    /// let name = runtime.block_on(async { filch::Handle::current().config().thread_name.clone() });
    /// assert_eq!(name, "mine");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn current() -> Self {
        crate::spawn::current(|shared, _, _| {
            // The pointer of the home and not the reference: it is the one the `Arc` gave.
            let shared = shared.root.home().shared.cast();
            // SAFETY: alive (S1).
            Self(unsafe { Shared::to_arc(shared) })
        })
    }

    /// Spawns a future into the runtime's own group.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.spawn(async { 1 }).wait(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.task().spawn(future)
    }

    /// Spawns a closure into the runtime's own group.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.spawn_fn(|| 1).wait(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn_fn<F, T>(&self, job: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.task().spawn_fn(job)
    }

    /// Spawns a closure that blocks into the runtime's own group; see
    /// [`spawn_blocking`](crate::spawn_blocking).
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.spawn_blocking(|| 1).wait(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, closure: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.task().spawn_blocking(closure)
    }

    /// Starts describing a task of the runtime's own group.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.task().name("one").spawn_fn(|| 1).wait(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder::at(Place::Runtime(self.clone()))
    }

    /// Runs a future on this thread, with this runtime for what it spawns; see
    /// [`block_on`](crate::block_on()).
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.block_on(async { filch::spawn(async { 1 }).await }), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If the future or a descendant panics, or the runtime has shut down.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let on_panic = on_panic_here(&self.0);
        in_group(&self.0.root, on_panic, tracking_of_block_on(), |_| run_with_budget(future))
    }

    /// Runs a closure on this thread, with this runtime for what it spawns; see
    /// [`block_on_fn`](crate::block_on_fn()).
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// assert_eq!(runtime.block_on_fn(|| filch::spawn_fn(|| 1).wait()), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If the closure or a descendant panics, or the runtime has shut down.
    #[track_caller]
    pub fn block_on_fn<T>(&self, body: impl FnOnce() -> T) -> T {
        in_group(&self.0.root, on_panic_here(&self.0), tracking_of_block_on(), |_| body())
    }

    /// The configuration in use, with nothing left open.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(3).build()?;
    /// assert_eq!(runtime.config().compute_workers, 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Every task that is alive, oldest first.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let handle = runtime.spawn(std::future::pending::<()>());
    /// assert_eq!(runtime.tasks()[0].id, handle.id());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.shared().tasks()
    }

    /// What the workers did, and what waits, at this moment.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// runtime.spawn(async {}).wait();
    /// let snapshot = runtime.snapshot();
    /// assert!(snapshot.total().polls >= 1);
    /// assert!(snapshot.workers.len() >= 4);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        let lanes = shared.lanes.iter().map(|lane| {
            let counts = lane.idle.counts();
            LaneSnapshot {
                role: lane.role,
                queued: lane.injector.len(),
                queued_high: lane.high.len(),
                queued_low: lane.low.len(),
                awake: counts.awake as usize,
                searching: counts.searching as usize,
                asleep: counts.sleeping as usize,
                stuck: lane.crew.stuck(),
            }
        });
        let occupied = shared.lanes.iter().flat_map(|lane| lane.occupied(&shared.slots));
        let workers = occupied.map(|slot| WorkerSnapshot {
            role: slot.info.role,
            index: slot.info.index,
            queued: slot.ring.len() + slot.deque.len(),
            in_task: slot.is_in_task(),
            blocked: slot.is_out(),
            timers: shared.timers_of(slot),
            counts: slot.counters.read(),
        });
        Snapshot {
            lanes: lanes.collect(),
            workers: workers.collect(),
            blocking: shared.blockers.snapshot(),
            units: shared.root.units(),
            task_bytes: shared.pool.stats().bytes,
        }
    }

    /// What is in use and why, for people.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// println!("{}", runtime.describe());
    /// assert!(runtime.describe().to_string().contains("1 io worker"));
    /// assert_eq!(runtime.describe().more_refusals, 0);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn describe(&self) -> Description {
        let shared = self.shared();
        let Refusals { first: refusals, more: more_refusals } = lock(&shared.refusals).clone();
        Description {
            config: self.0.config.clone(),
            barrier: format!("{:?}", barrier::mode()).to_lowercase(),
            io: self.0.engine.describe(),
            slices: self.0.slices.describe(&self.0.config),
            refusals,
            more_refusals,
            snapshot: self.snapshot(),
        }
    }
}

/// The state of a runtime at a moment; see [`Handle::snapshot`].
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// assert_eq!(runtime.snapshot().lanes.len(), 2);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// The micro lane, then the job lane; one for both in a single-threaded runtime.
    pub lanes: Vec<LaneSnapshot>,
    /// Every worker that ever ran, spares included.
    pub workers: Vec<WorkerSnapshot>,
    /// The threads for closures that block.
    pub blocking: BlockingSnapshot,
    /// Live tasks and groups directly below the runtime, and units that workers hold in reserve.
    pub units: usize,
    /// Bytes that the memory of tasks takes.
    pub task_bytes: usize,
}

/// One lane at a moment; see [`Snapshot`].
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let lane = &runtime.snapshot().lanes[0];
/// assert!(lane.awake + lane.asleep >= 1);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LaneSnapshot {
    /// What its workers do.
    pub role: Role,
    /// Tasks of normal priority in the injector.
    pub queued: usize,
    /// High tasks that wait.
    pub queued_high: usize,
    /// Low tasks that wait.
    pub queued_low: usize,
    /// Workers that are awake.
    pub awake: usize,
    /// Of those, workers that look for work.
    pub searching: usize,
    /// Workers that sleep.
    pub asleep: usize,
    /// Workers that the sentry saw stuck in a task.
    pub stuck: usize,
}

/// One worker at a moment; see [`Snapshot`].
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// assert_eq!(runtime.snapshot().workers[0].index, 0);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// What it does.
    pub role: Role,
    /// Its number within the role; spares come after the regular ones.
    pub index: usize,
    /// Tasks in its own queue.
    pub queued: usize,
    /// Whether it is inside a task.
    pub in_task: bool,
    /// Whether it waits inside a task, and is replaced.
    pub blocked: bool,
    /// Timers that it looks after; those of delayed posts are counted when the post returns.
    pub timers: usize,
    /// What it did.
    pub counts: Counts,
}

impl Snapshot {
    /// The counts of all workers together.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// runtime.spawn_fn(|| ()).wait();
    /// assert_eq!(runtime.snapshot().total().rescues, 0);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for worker in &self.workers {
            total += worker.counts;
        }
        total
    }
}

/// A runtime described for people; see [`Handle::describe`].
///
/// ```
/// let runtime = filch::Builder::new().workers(2).build()?;
/// let text = runtime.describe().to_string();
/// assert!(text.contains("2 io workers"), "{text}");
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Description {
    /// The configuration in use.
    pub config: Config,
    /// How the asymmetric fence works here: by system call or by real fences.
    pub barrier: String,
    /// What drives I/O, and what the system refused before.
    pub io: String,
    /// How the lanes share cores that both want: whose slices are in use, and why.
    pub slices: String,
    /// What the system refused: thread levels, affinities, spare threads; and what event cores did. The first 32.
    pub refusals: Vec<String>,
    /// How many refusals came after those.
    pub more_refusals: usize,
    /// The state at that moment.
    pub snapshot: Snapshot,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for lane in &self.snapshot.lanes {
            let regular = match lane.role {
                Role::Io => self.config.io_workers,
                Role::Compute => self.config.compute_workers,
                Role::Both => 1,
            };
            let s = if regular == 1 { "" } else { "s" };
            writeln!(
                f,
                "{regular} {} worker{s}: {} awake ({} searching, {} stuck), {} asleep; {} queued, {} high, {} low",
                lane.role,
                lane.awake,
                lane.searching,
                lane.stuck,
                lane.asleep,
                lane.queued,
                lane.queued_high,
                lane.queued_low
            )?;
        }
        for worker in &self.snapshot.workers {
            let doing = match (worker.in_task, worker.blocked) {
                (_, true) => "blocked in a task",
                (true, false) => "in a task",
                (false, false) => "between tasks",
            };
            writeln!(f, "  {}-{}: {doing}, {} queued", worker.role, worker.index, worker.queued)?;
        }
        let blocking = &self.snapshot.blocking;
        if blocking.threads > 0 || blocking.queued > 0 {
            let BlockingSnapshot { threads, idle, queued, .. } = blocking;
            let most = self.config.blocking_threads;
            writeln!(
                f,
                "{threads} of {most} threads for what blocks, {idle} idle; {queued} queued"
            )?;
        }
        writeln!(f, "I/O by {}", self.io)?;
        writeln!(f, "slices: {}", self.slices)?;
        writeln!(f, "barrier: {}", self.barrier)?;
        for refusal in &self.refusals {
            writeln!(f, "refused: {refusal}")?;
        }
        if self.more_refusals > 0 {
            writeln!(f, "refused: {} more", self.more_refusals)?;
        }
        Ok(())
    }
}
