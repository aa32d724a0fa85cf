//! Cancelling a run from elsewhere.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::task::group::GroupRef;

/// What a pipeline and those who may cancel it share: the group of the run, while there is one.
#[derive(Default)]
pub(super) struct Control(Mutex<Option<GroupRef>>);

impl Control {
    pub(super) fn begin(&self, group: &GroupRef) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(group.clone());
    }

    pub(super) fn end(&self) {
        let group = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(group);
    }

    /// Cancels the run, if there is one: its runners see that, and its tasks that wait are dropped.
    pub(super) fn cancel(&self) -> bool {
        let group = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        group.inspect(|group| group.cancel()).is_some()
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
