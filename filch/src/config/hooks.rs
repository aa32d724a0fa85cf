//! What a program wants to hear about: threads that start and stop, panics that nobody collects, writes that are lost.
//!
//! K1. Hooks are shared by all threads of a runtime and called without any lock held.
//!
//! Not here: when they are called (the runtime).

use std::{any::Any, fmt, io, panic::Location, path::PathBuf, sync::Arc};

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

/// A write to a file that was answered with success, and failed afterwards when nobody could be told.
///
/// A write through [`AsyncWrite`](crate::io::AsyncWrite) is answered before the system has performed it. The next write, flush,
/// close or sync of the file reports its error; if the file is dropped before, this does.
///
/// # Examples
///
/// ```
/// let builder = filch::Builder::new().on_lost_write(|lost| {
///     eprintln!("{} bytes are lost: {}", lost.len, lost.error);
/// });
/// assert!(builder.resolve().is_ok());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct LostWrite {
    /// Why the system did not write the rest.
    pub error: io::Error,
    /// Where the rest would have gone; `None` in a file that appends, or that cannot seek.
    pub offset: Option<u64>,
    /// How many bytes were not written.
    pub len: usize,
    /// What the system called the file at that time, if it had a name.
    pub path: Option<PathBuf>,
}

impl fmt::Display for LostWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a write of {} bytes", self.len)?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        if let Some(path) = &self.path {
            write!(f, " to {}", path.display())?;
        }
        write!(f, " was lost: {}", self.error)
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

/// A hook that takes one lost write.
pub(crate) type LostWriteHook = Arc<dyn Fn(LostWrite) + Send + Sync>;

/// All hooks of a runtime (K1).
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    /// Called first on each worker's thread.
    pub(crate) on_thread_start: Option<ThreadHook>,
    /// Called last on each worker's thread.
    pub(crate) on_thread_stop: Option<ThreadHook>,
    /// Called for each panic that no handle can deliver.
    pub(crate) on_panic: Option<PanicHook>,
    /// Called for each lost write that nobody else can be told of; without it, standard error tells.
    pub(crate) on_lost_write: Option<LostWriteHook>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("on_thread_start", &self.on_thread_start.is_some())
            .field("on_thread_stop", &self.on_thread_stop.is_some())
            .field("on_panic", &self.on_panic.is_some())
            .field("on_lost_write", &self.on_lost_write.is_some())
            .finish()
    }
}
