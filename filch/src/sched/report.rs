//! What an end tells: tasks, what they do, and on which thread.
//!
//! Not here: who collects it (`shutdown`), who knows the threads (`finder`).

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::task::header::TaskId;

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
    /// The name of the thread that runs it, if one of the runtime's own does at this moment.
    pub thread: Option<String>,
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            TaskState::Queued => "queued",
            TaskState::Running => "running",
            TaskState::Waiting => "waiting",
        };
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " \"{name}\"")?;
        }
        write!(f, " spawned at {}, {state}", self.spawned_at)?;
        if let Some(thread) = &self.thread {
            write!(f, " on thread {thread:?}")?;
        }
        write!(f, ", {:?} old", self.age)
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
    /// The tasks that were still there when the deadline of the end had come, oldest first: those that run, and
    /// those that wait for a running one to be dropped. Empty if everything has ended.
    pub still_running: Vec<TaskInfo>,
    /// Whether the end goes on in the background, because its deadline came first. Without a task that still
    /// runs and a thread that is left, something else holds it up, as a `block_on` on a thread of the program does.
    pub in_background: bool,
    /// The names of the runtime's threads that had not ended at the deadline though all tasks were gone: one that is in
    /// a hook, or waits for an operation that the system does not cancel. Empty while tasks are still there.
    pub threads_left: Vec<String>,
}

/// Whether an end is over when its caller goes.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// All tasks are gone.
    Over,
    /// Z5.
    InBackground,
}

impl ShutdownReport {
    pub(super) fn ending(&self) -> Ending {
        if self.in_background { Ending::InBackground } else { Ending::Over }
    }
}

fn list(f: &mut fmt::Formatter<'_>, tasks: &[TaskInfo], how: &str) -> fmt::Result {
    match tasks.len() {
        1 => write!(f, "1 task {how}:")?,
        n => write!(f, "{n} tasks {how}:")?,
    }
    tasks.iter().try_for_each(|task| write!(f, "\n  {task}"))
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.unfinished {
            [] => f.write_str("all tasks finished")?,
            tasks => list(f, tasks, "unfinished")?,
        }
        if !self.threads_left.is_empty() {
            return write!(f, "\nthreads still there at the deadline: {:?}", self.threads_left);
        }
        match &*self.still_running {
            [] if self.in_background => f.write_str(
                "\na call outside of all tasks still uses the runtime, as `block_on` does",
            ),
            [] => Ok(()),
            tasks => {
                f.write_str("\n")?;
                list(f, tasks, "still there at the deadline")
            }
        }
    }
}
