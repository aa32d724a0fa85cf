//! Cancelling a run from elsewhere.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::shim::{AtomicBool, Ordering};
use crate::task::group::GroupRef;

/// What a pipeline and those who may cancel it share.
#[derive(Default)]
pub(super) struct Control {
    cancelled: AtomicBool,
    /// The group of the run, while there is one.
    group: Mutex<Option<GroupRef>>,
}

impl Control {
    pub(super) fn begin(&self, group: &GroupRef) {
        let mut slot = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed, the lock orders it with `cancel`.
        self.cancelled.store(false, Ordering::Relaxed);
        *slot = Some(group.clone());
    }

    pub(super) fn end(&self) {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(group);
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed, a hint to runners, and read when they have ended.
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Drops the tasks of the run that wait for something.
    pub(super) fn end_tasks(&self) {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(group) = group {
            group.cancel();
        }
    }

    fn cancel(&self) -> bool {
        let slot = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(group) = slot.clone() else { return false };
        // ORDERING: Relaxed, as in `is_cancelled`; under the lock, so that it is not a later run's.
        self.cancelled.store(true, Ordering::Relaxed);
        drop(slot);
        group.cancel();
        true
    }
}

/// Cancels the run of a pipeline, from a stage or from another thread.
///
/// ```
/// use filch::pipeline::{Pipeline, PipelineError};
/// let mut pipeline = Pipeline::new(4).items(0..).for_each(drop);
/// let canceller = pipeline.canceller();
/// let elsewhere = std::thread::spawn(move || {
///     while !canceller.cancel() {
///         std::thread::yield_now();
///     }
/// });
/// assert!(matches!(pipeline.run(), Err(PipelineError::Cancelled)));
/// elsewhere.join().unwrap();
/// ```
#[derive(Clone)]
pub struct Canceller(pub(super) Arc<Control>);

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}

impl Canceller {
    /// Ends the run that is going on: stages that run come to their end, nothing begins after them, and
    /// futures of stages are dropped. False if there was no run.
    ///
    /// ```
    /// let pipeline = filch::Pipeline::new(4).items(0..9).for_each(drop);
    /// assert!(!pipeline.canceller().cancel());
    /// ```
    pub fn cancel(&self) -> bool {
        self.0.cancel()
    }
}
