//! Pipelines whose runs return what the last stage gives.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use super::cancel::Canceller;
use super::error::PipelineError;
use super::pipes::Pipeline;

/// A pipeline whose runs return what the last stage gives, in order; see
/// [`Builder::collect`](super::Builder::collect).
///
/// ```
/// use filch::pipeline::{Next, Pipeline};
/// let mut pipeline = Pipeline::new(2)
///     .source(|token| if token.number() % 3 < 2 { Next::Item(token.number()) } else { Next::Stop })
///     .collect();
/// assert_eq!(pipeline.run().unwrap(), [0, 1]);
/// ```
pub struct Collect<'env, T> {
    pipeline: Pipeline<'env>,
    items: Arc<Mutex<Vec<T>>>,
}

impl<T> fmt::Debug for Collect<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collect").field(&self.pipeline).finish()
    }
}

impl<'env, T> Collect<'env, T> {
    pub(super) fn new(pipeline: Pipeline<'env>, items: Arc<Mutex<Vec<T>>>) -> Self {
        Self { pipeline, items }
    }

    /// The last stage; it is serial, so nobody waits for the lock.
    pub(super) fn push(items: &Mutex<Vec<T>>, item: T) {
        items.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.items.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs until the source ends, and returns what came out, in order.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4).items(0..3).collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 1, 2]);
    /// ```
    ///
    /// # Errors
    /// As [`Pipeline::run`]; what came out before is dropped.
    #[track_caller]
    pub fn run(&mut self) -> Result<Vec<T>, PipelineError> {
        let result = self.pipeline.run();
        let items = self.take();
        result.map(|_| items)
    }

    /// As [`Pipeline::reset`].
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut pipeline = Pipeline::new(2)
    ///     .source(|token| if token.number() < 2 { Next::Item(token.number()) } else { Next::Stop })
    ///     .collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 1]);
    /// pipeline.reset();
    /// assert_eq!(pipeline.run().unwrap(), [0, 1]);
    /// ```
    pub fn reset(&mut self) {
        self.pipeline.reset();
    }

    /// As [`Pipeline::canceller`].
    ///
    /// ```
    /// let pipeline = filch::Pipeline::new(2).items(0..2).collect();
    /// assert!(!pipeline.canceller().cancel());
    /// ```
    pub fn canceller(&self) -> Canceller {
        self.pipeline.canceller()
    }
}

impl<T: Send + 'static> Collect<'static, T> {
    /// As [`Pipeline::run_async`].
    ///
    /// ```
    /// let pipeline = filch::Pipeline::new(4).items(0..3).collect();
    /// let (_pipeline, items) = filch::block_on(pipeline.run_async());
    /// assert_eq!(items.unwrap(), [0, 1, 2]);
    /// ```
    ///
    /// # Cancel safety
    /// As [`Pipeline::run_async`].
    #[track_caller]
    pub fn run_async(self) -> impl Future<Output = (Self, Result<Vec<T>, PipelineError>)> + Send {
        let Self { pipeline, items } = self;
        let run = pipeline.run_async();
        async move {
            let (pipeline, result) = run.await;
            let collect = Self { pipeline, items };
            let items = collect.take();
            (collect, result.map(|_| items))
        }
    }
}
