//! Watchers: sources of a worker's event core.
//!
//! Not here: how they reach the core (`sched/watch.rs`).

use std::fmt;
use std::sync::Arc;

use crate::post::PostRefusal;
use crate::runtime::Handle;
use crate::sched::core::{EventSource, SourceKind};
use crate::sched::roster::WorkerId;
use crate::sched::shared::Phase;
use crate::sched::watch::Watch;
use crate::sched::worker::Worker;

/// Why a source is not watched; see [`WatchError`].
///
/// ```
/// use filch::{FdSource, Interest, WatchRefusal};
/// let hive = filch::Builder::new().io_workers(1).hive()?;
/// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
/// let source = FdSource::new(here, Interest::READ, |_, _| ());
/// // The runtime's own core takes no sources: async I/O is for that.
/// let refused = hive.watch(hive.workers()[0].id, source).unwrap_err();
/// assert!(matches!(refused.reason, WatchRefusal::WrongKind { core: None, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchRefusal {
    /// The worker's core does not take sources of that kind.
    WrongKind {
        /// What it takes, if anything.
        core: Option<SourceKind>,
        /// What the source is.
        source: SourceKind,
    },
    /// The worker cannot be reached.
    Worker(PostRefusal),
}

impl fmt::Display for WatchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKind { core: Some(core), source } => {
                write!(f, "the worker's core takes {core}, and the source is one of {source}")
            }
            Self::WrongKind { core: None, source } => {
                write!(f, "the worker's core takes no sources, and this is one of {source}")
            }
            Self::Worker(reason) => reason.fmt(f),
        }
    }
}

/// A source that is not watched, handed back with the reason. [`WatchRefusal`] has an example.
///
/// ```
/// fn reason<S>(error: &filch::WatchError<S>) -> String { error.to_string() }
/// # let _ = reason::<()>;
/// ```
pub struct WatchError<S> {
    /// The source.
    pub source: S,
    /// Why it is not watched.
    pub reason: WatchRefusal,
}

impl<S> fmt::Debug for WatchError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<S> fmt::Display for WatchError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the source is not watched: {}", self.reason)
    }
}

impl<S> std::error::Error for WatchError<S> {}

impl Handle {
    /// Has the event core of a worker watch a source, from now on until the watcher is stopped or dropped.
    ///
    /// [`PollCore`](crate::PollCore) has an example.
    ///
    /// ```
    /// use filch::{FdSource, Interest, NewWorker, PollCore};
    /// let hive = filch::Builder::new().hive()?;
    /// let ui = hive.attach(NewWorker::io().event_core(PollCore::new()?))?;
    /// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
    /// let watcher = hive.watch(ui, FdSource::new(here, Interest::READ, |_, _| ()))?;
    /// assert!(watcher.is_started());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the core takes no sources of that kind, which [`describe`](Handle::describe) then tells too, the
    /// worker is not there or the runtime is shutting down; the source is handed back. One whose worker leaves at
    /// that moment is not: its watcher is [not started](Watcher::is_started), and says why when it is.
    pub fn watch<S: EventSource + 'static>(
        &self,
        worker: WorkerId,
        source: S,
    ) -> Result<Watcher, WatchError<S>> {
        let shared = self.shared();
        let slot = match shared.slot_of_worker(worker) {
            Ok(slot) => slot,
            Err(obstacle) => {
                return Err(WatchError { source, reason: WatchRefusal::Worker(obstacle.into()) });
            }
        };
        if shared.phase() != Phase::Open {
            let reason = WatchRefusal::Worker(PostRefusal::ShutDown);
            return Err(WatchError { source, reason });
        }
        let (core, kind) = (shared.slots[slot].guest_core.kind(), source.kind());
        if core != Some(kind) {
            let reason = WatchRefusal::WrongKind { core, source: kind };
            shared.refuse(format!("worker {worker}: {reason}"));
            return Err(WatchError { source, reason });
        }
        let watcher = Watcher { watch: Watch::new(Box::new(source)), worker, handle: self.clone() };
        // One that leaves meanwhile drops the source: nothing will happen to it any more.
        let _ = watcher.start();
        Ok(watcher)
    }
}

/// A source that an event core watches; see [`Handle::watch`]. Dropped, it is stopped.
///
/// It can be started and stopped from any thread, also inside of its own dispatch. After a stop it is not
/// dispatched any more.
///
/// ```
/// use filch::{FdSource, Interest, NewWorker, PollCore};
/// let hive = filch::Builder::new().hive()?;
/// let ui = hive.attach(NewWorker::io().event_core(PollCore::new()?))?;
/// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
/// let watcher = hive.watch(ui, FdSource::new(here, Interest::READ, |_, _| ()))?;
/// watcher.stop();
/// assert!(!watcher.is_started());
/// watcher.start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it stops when it is dropped"]
pub struct Watcher {
    watch: Arc<Watch>,
    worker: WorkerId,
    handle: Handle,
}

impl Watcher {
    /// Starts it again.
    ///
    /// ```
    /// # fn example(watcher: &filch::Watcher) -> Result<(), filch::WatchError<()>> {
    /// watcher.stop();
    /// watcher.start()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the worker was detached or the runtime is shutting down.
    pub fn start(&self) -> Result<(), WatchError<()>> {
        self.set_started(true).map_err(|reason| {
            self.watch.set_started(false);
            WatchError { source: (), reason: WatchRefusal::Worker(reason) }
        })
    }

    /// Stops it: from now on it is not dispatched.
    ///
    /// ```
    /// # fn example(watcher: &filch::Watcher) {
    /// watcher.stop();
    /// assert!(!watcher.is_started());
    /// # }
    /// ```
    pub fn stop(&self) {
        // A worker that is gone has dropped its core.
        let _ = self.set_started(false);
    }

    /// Whether it is started.
    ///
    /// ```
    /// # fn example(watcher: &filch::Watcher) {
    /// assert!(watcher.is_started());
    /// # }
    /// ```
    pub fn is_started(&self) -> bool {
        self.watch.is_started()
    }

    fn set_started(&self, started: bool) -> Result<(), PostRefusal> {
        if self.watch.is_started() == started {
            return Ok(());
        }
        self.watch.set_started(started);
        // SAFETY: used within this call only.
        let here = unsafe { Worker::of_runtime(self.handle.shared()) };
        let watch = self.watch.clone();
        match here.filter(|here| here.index() == self.worker.slot as usize) {
            Some(here) => {
                here.change(watch);
                Ok(())
            }
            None => {
                let change = move || {
                    // SAFETY: used within this call only, on the worker that runs the task.
                    if let Some(here) = unsafe { Worker::current() } {
                        here.change(watch);
                    }
                };
                self.handle.post_to(self.worker, change).map_err(|error| error.reason)
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher")
            .field("worker", &self.worker)
            .field("is_started", &self.is_started())
            .finish()
    }
}
