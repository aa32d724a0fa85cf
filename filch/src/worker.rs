//! The worker at hand: who it is, and tasks for it from inside.
//!
//! ```
//! use filch::worker;
//! let runtime = filch::Builder::new().workers(1).build()?;
//! let name = runtime.block_on(runtime.spawn(async { worker::current().unwrap().name() }));
//! assert_eq!(name, "io-0");
//! assert!(worker::current().is_none(), "this thread is none");
//! # Ok::<(), filch::BuildError>(())
//! ```

use std::fmt;
use std::time::Duration;

use crate::config::hooks::Role;
use crate::post::{PostError, PostRefusal, post_here, post_later_here, post_near};
use crate::runtime::Handle;
use crate::sched::roster::{WorkerId, WorkerStatus};
use crate::sched::worker::Worker;
use crate::task::join::JoinHandle;

/// The worker whose thread this is.
///
/// ```
/// let id = filch::spawn(async { filch::worker::current().map(|worker| worker.id()) }).wait();
/// # // A spare has none.
/// # drop(id);
/// ```
///
/// `None` on other threads, on spares and on adopted threads: they come and go, and are not posted to.
pub fn current() -> Option<CurrentWorker> {
    regular(|worker| {
        let shared = worker.shared();
        let id = shared.id_of_slot(worker.index());
        CurrentWorker { id, handle: Handle::of(shared.clone()) }
    })
}

/// Calls `f` with the regular worker of this thread.
fn regular<R>(f: impl FnOnce(&Worker) -> R) -> Option<R> {
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::current() }?;
    (!worker.is_spare() && !worker.is_guest()).then(|| f(worker))
}

/// A worker, known from inside; see [`current`].
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let role = runtime.block_on(runtime.spawn(async { filch::worker::current().unwrap().role() }));
/// assert_eq!(role, filch::Role::Io);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone)]
pub struct CurrentWorker {
    id: WorkerId,
    handle: Handle,
}

impl CurrentWorker {
    /// Names it in posts.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let id = runtime.block_on(runtime.spawn(async { filch::worker::current().unwrap().id() }));
    /// assert_eq!(id, runtime.workers()[0].id);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Its runtime.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let count = runtime.block_on(runtime.spawn(async {
    ///     filch::worker::current().unwrap().runtime().workers().len()
    /// }));
    /// assert_eq!(count, 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn runtime(&self) -> &Handle {
        &self.handle
    }

    fn status(&self) -> Option<WorkerStatus> {
        self.handle.workers().into_iter().find(|worker| worker.id == self.id)
    }

    /// Its name.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let name = runtime.block_on(runtime.spawn(async { filch::worker::current().unwrap().name() }));
    /// assert_eq!(name, "io-0");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn name(&self) -> String {
        self.status().map_or_else(|| self.id.to_string(), |status| status.name)
    }

    /// Its crew.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let crew = runtime.block_on(runtime.spawn(async { filch::worker::current().unwrap().crew() }));
    /// assert_eq!(crew, "io");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn crew(&self) -> String {
        self.status().map_or_else(String::new, |status| status.crew)
    }

    /// What it does.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let role = runtime.spawn_fn(|| filch::worker::current().unwrap().role());
    /// assert_eq!(runtime.block_on(role), filch::Role::Compute);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn role(&self) -> Role {
        self.handle.shared().slots[self.id.slot as usize].info.role
    }
}

impl fmt::Debug for CurrentWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentWorker").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Keeps a task for this worker alone: it runs here, in the worker's next step, before what others could
/// run. It need not be `Send`.
///
/// ```
/// use std::{cell::Cell, rc::Rc};
/// use filch::worker;
/// let (send, receive) = std::sync::mpsc::channel();
/// filch::spawn(async move {
///     let count = Rc::new(Cell::new(1));
///     let here = count.clone();
///     worker::post_self(move || send.send(here.get()).unwrap()).unwrap();
///     count.set(2);
/// });
/// assert_eq!(receive.recv(), Ok(2));
/// ```
///
/// # Errors
/// On a thread that is no worker, on a worker that is about to be detached, and while the runtime shuts down;
/// the task is handed back.
#[track_caller]
pub fn post_self<F: FnOnce() + 'static>(task: F) -> Result<(), PostError<F>> {
    // SAFETY: used within this call only.
    match unsafe { Worker::current() }.filter(|worker| !worker.is_guest()) {
        Some(worker) => post_here(worker, task),
        None => Err(PostError { task, reason: PostRefusal::NotOnWorker }),
    }
}

/// Puts a task behind those of this worker; another may steal it. On a compute worker it is a compute task,
/// and the next to run here.
///
/// If the worker's ring is full, older tasks are spilled first, where any worker of the lane takes them.
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// filch::spawn(async move { filch::worker::post_local(move || send.send(7).unwrap()).unwrap() });
/// assert_eq!(receive.recv(), Ok(7));
/// ```
///
/// # Errors
/// On a thread that is no worker, and while the runtime shuts down; the task is handed back.
#[track_caller]
pub fn post_local<F: FnOnce() + Send + 'static>(task: F) -> Result<(), PostError<F>> {
    // SAFETY: used within this call only.
    match unsafe { Worker::current() }.filter(|worker| !worker.is_guest()) {
        Some(worker) => post_near(worker, task),
        None => Err(PostError { task, reason: PostRefusal::NotOnWorker }),
    }
}

/// Keeps a task for this worker, to run when `delay` has passed. If the worker is detached before, it runs
/// on another.
///
/// ```
/// use std::time::Duration;
/// use filch::worker;
/// let runtime = filch::Builder::new().workers(2).build()?;
/// let (send, receive) = std::sync::mpsc::channel();
/// runtime.post_to(runtime.workers()[1].id, move || {
///     let here = worker::current().unwrap().id();
///     let tick = move || send.send(worker::current().unwrap().id() == here).unwrap();
///     drop(worker::post_self_delayed(Duration::from_millis(1), tick).unwrap());
/// })?;
/// assert_eq!(receive.recv(), Ok(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`post_local`], and on a spare.
#[track_caller]
pub fn post_self_delayed<F: FnOnce() + Send + 'static>(
    delay: Duration,
    task: F,
) -> Result<JoinHandle<()>, PostError<F>> {
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::current() };
    match worker.filter(|worker| !worker.is_guest() && !worker.is_spare()) {
        Some(worker) => post_later_here(worker, delay, task),
        None => Err(PostError { task, reason: PostRefusal::NotOnWorker }),
    }
}
