//! What a program wants to hear about: threads that start and stop, panics that nobody collects.
//!
//! K1. Hooks are shared by all threads of a runtime and called without any lock held.
//!
//! Not here: when they are called (the runtime).

use std::{any::Any, fmt, panic::Location, sync::Arc};

/// What a worker does.
///
/// # Examples
///
/// ```
/// use filch::Role;
///
/// let runs_jobs = |role| matches!(role, Role::Compute | Role::Both);
/// assert!(runs_jobs(Role::Both) && !runs_jobs(Role::Io));
/// assert_eq!(Role::Io.to_string(), "io");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs async tasks, timers and completions.
    Io,
    /// Runs jobs.
    Compute,
    /// Does both: the only worker of a single-threaded runtime.
    Both,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "io",
            Self::Compute => "cpu",
            Self::Both => "all",
        })
    }
}

/// The worker that a thread hook runs on.
///
/// # Examples
///
/// ```
/// let builder = filch::Builder::new().on_thread_start(|worker| {
///     println!("worker {} runs {:?}", worker.index, worker.role);
/// });
/// assert!(builder.resolve().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its number within the role, from 0.
    pub index: usize,
    /// What it does.
    pub role: Role,
}

impl WorkerInfo {
    pub(crate) fn new(index: usize, role: Role) -> Self {
        Self { index, role }
    }
}

/// A panic in a task whose handle is gone, so that nobody can collect it; or one in a hook for threads.
///
/// # Examples
///
/// ```
/// let builder = filch::Builder::new().on_panic(|panic| {
///     eprintln!("task {} from {} panicked: {}", panic.task, panic.spawned_at, panic.message());
/// });
/// assert!(builder.resolve().is_ok());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct PanicInfo {
    /// What the task panicked with.
    pub payload: Box<dyn Any + Send>,
    /// The number of the task, unique within the process; see [`TaskId`](crate::TaskId). 0 for a hook.
    pub task: u64,
    /// The name that it was given; of a hook, which one it is and of which worker.
    pub name: Option<String>,
    /// Where it was spawned, or where the hook was set.
    pub spawned_at: &'static Location<'static>,
}

impl PanicInfo {
    /// The text of the panic, if it was raised with one.
    ///
    /// # Examples
    ///
    /// ```
    /// let hook = |panic: filch::PanicInfo| assert_ne!(panic.message(), "out of cheese");
    /// assert!(filch::Builder::new().on_panic(hook).resolve().is_ok());
    /// ```
    pub fn message(&self) -> &str {
        if let Some(text) = self.payload.downcast_ref::<&'static str>() {
            text
        } else if let Some(text) = self.payload.downcast_ref::<String>() {
            text
        } else {
            "a payload that is no text"
        }
    }
}

/// A hook that hears about one worker.
#[derive(Clone)]
pub(crate) struct ThreadHook {
    pub(crate) call: Arc<dyn Fn(WorkerInfo) + Send + Sync>,
    /// Where the program set it.
    pub(crate) site: &'static Location<'static>,
}

impl ThreadHook {
    #[track_caller]
    pub(crate) fn new(hook: impl Fn(WorkerInfo) + Send + Sync + 'static) -> Self {
        Self { call: Arc::new(hook), site: Location::caller() }
    }
}

/// A hook that takes one panic.
pub(crate) type PanicHook = Arc<dyn Fn(PanicInfo) + Send + Sync>;

/// All hooks of a runtime (K1).
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    /// Called first on each worker's thread.
    pub(crate) on_thread_start: Option<ThreadHook>,
    /// Called last on each worker's thread.
    pub(crate) on_thread_stop: Option<ThreadHook>,
    /// Called for each panic that no handle can deliver.
    pub(crate) on_panic: Option<PanicHook>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("on_thread_start", &self.on_thread_start.is_some())
            .field("on_thread_stop", &self.on_thread_stop.is_some())
            .field("on_panic", &self.on_panic.is_some())
            .finish()
    }
}
