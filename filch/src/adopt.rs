//! `adopt`: a thread of the program becomes a worker, and leaves when it likes.

use std::fmt;
use std::marker::PhantomData;

use crate::runtime::{Handle, Runtime};
use crate::sched::adopt::{self, Ends, Guest};
use crate::sched::shared::{Phase, Shared};
use crate::sched::worker::Worker;
use crate::task::context::{self, Context};

/// Evidence that this thread is a worker; dropped, it is one no longer. See [`Handle::adopt`].
///
/// ```
/// let runtime = filch::Builder::new().workers(1).adoptable_threads(1).build()?;
/// let adopted = runtime.adopt()?;
/// let (a, b) = filch::join(|| 1, || 2);
/// assert_eq!(a + b, 3);
/// drop(adopted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the thread is a worker until this is dropped"]
pub struct Adopted {
    /// On the heap, because the context points to the worker. `Some` until the drop.
    guest: Option<Box<Guest>>,
    /// The worker is this thread's.
    here: PhantomData<*const ()>,
}

/// Why a thread was not adopted.
///
/// ```
/// use filch::AdoptError;
/// let runtime = filch::Builder::new().workers(1).build()?;
/// assert_eq!(runtime.adopt().unwrap_err(), AdoptError::NoSlot { adoptable_threads: 0 });
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdoptError {
    /// As many threads as the configuration allows are adopted.
    NoSlot {
        /// The configuration's limit.
        adoptable_threads: usize,
    },
    /// This thread is a worker already, by adoption or of the runtime's own.
    IsWorker,
    /// This thread is inside a `block_on` or `scope`.
    InsideCall,
    /// The runtime is shutting down.
    ShutDown,
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlot { adoptable_threads } => write!(
                f,
                "no slot is left for another thread (adoptable_threads is {adoptable_threads})"
            ),
            Self::IsWorker => f.write_str("the thread is a worker already"),
            Self::InsideCall => f.write_str("the thread is inside a block_on or a scope"),
            Self::ShutDown => f.write_str("the runtime is shutting down"),
        }
    }
}

impl std::error::Error for AdoptError {}

impl Handle {
    /// Makes this thread a compute worker of the runtime until the guard is dropped.
    ///
    /// The guard may be dropped at any moment. While something else is entered on the thread, or a call waits, the
    /// place stays taken, and the adoption ends with the outermost of these.
    ///
    /// It may spawn, join and be stolen from; what it spawns goes to this runtime. It runs jobs
    /// while it waits in a call, and between its calls it runs nothing. Jobs that are left when it
    /// goes are taken by others.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).adoptable_threads(1).build()?;
    /// let handle = runtime.handle();
    /// std::thread::spawn(move || {
    ///     let _adopted = handle.adopt().unwrap();
    ///     assert_eq!(filch::spawn_fn(|| 7).wait(), 7);
    /// }).join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If the thread is a worker already or inside a call, if
    /// [`adoptable_threads`](crate::Builder::adoptable_threads) are adopted, or if the runtime is
    /// shutting down.
    pub fn adopt(&self) -> Result<Adopted, AdoptError> {
        adopt::end_left();
        // SAFETY: used within this call only.
        if unsafe { Worker::current() }.is_some() {
            return Err(AdoptError::IsWorker);
        }
        if context::with(Context::is_inside_call) {
            return Err(AdoptError::InsideCall);
        }
        let shared = self.shared();
        if shared.phase() != Phase::Open {
            return Err(AdoptError::ShutDown);
        }
        let adoptable_threads = shared.config.adoptable_threads;
        // The pointer of the home and not the reference: it is the one the `Arc` gave.
        // SAFETY: the reference shows that it is alive.
        let shared = unsafe { Shared::to_arc(shared.root.home().shared.cast()) };
        let guest = adopt::adopt(&shared).ok_or(AdoptError::NoSlot { adoptable_threads })?;
        Ok(Adopted { guest: Some(guest), here: PhantomData })
    }
}

impl Runtime {
    /// Makes this thread a compute worker; see [`Handle::adopt`].
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).adoptable_threads(1).build()?;
    /// let adopted = runtime.adopt()?;
    /// filch::scope(|s| s.spawn(|_| println!("on this thread, or on the worker")));
    /// adopted.emancipate();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Handle::adopt`].
    pub fn adopt(&self) -> Result<Adopted, AdoptError> {
        self.handle().adopt()
    }
}

impl Adopted {
    /// Ends the adoption, as dropping the guard does.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).adoptable_threads(1).build()?;
    /// runtime.adopt()?.emancipate();
    /// runtime.adopt()?.emancipate(); // the slot is free again
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn emancipate(self) {}
}

impl Drop for Adopted {
    /// # Panics
    /// Inside a `join`, a `scope` or another call of the adopted thread, which still uses its place. The adoption
    /// ends with that call.
    fn drop(&mut self) {
        let ends = self.guest.take().map(adopt::end);
        if ends == Some(Ends::AfterCall) && !std::thread::panicking() {
            panic!(
                "an adopted thread leaves inside a call that still uses its place: it will leave when the call ends"
            );
        }
    }
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.guest.as_ref().map(|guest| guest.worker().index());
        f.debug_struct("Adopted").field("slot", &slot).finish()
    }
}
