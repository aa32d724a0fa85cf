//! `Pipeline` and `Scalable`: what is run.
//!
//! P1. A run returns, by value or by panic, only when its group is over, so stages may borrow what
//!     outlives the pipeline. `run_async` has no such end that could not be skipped; so it takes pipelines
//!     that own what they use, and by value: one whose run was dropped is gone.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::build::Start;
use super::cancel::Canceller;
use super::engine::Engine;
use super::error::PipelineError;
use super::in_place::{After, Stage, end_of};
use super::ring::Ring;
use crate::block_on::{in_group, on_panic_here};
use crate::group::group;
use crate::spawn;
use crate::task::group::Tracking;

/// Stages that tokens go through; see [the module](super).
///
/// ```
/// let mut pipeline = filch::Pipeline::new(4).items(0..100).parallel(|x| x * x).collect();
/// let squares = pipeline.run().unwrap();
/// assert_eq!(squares[99], 9801);
/// ```
pub struct Pipeline<'env> {
    engine: Arc<Engine<'env>>,
}

impl fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("stages", &self.engine.stages()).finish_non_exhaustive()
    }
}

impl Pipeline<'_> {
    /// A pipeline with so many lines: that many tokens are in flight at most. A few for each worker
    /// are good, and some dozens where stages take less than a microsecond.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4).items(0..9).for_each(drop);
    /// assert_eq!(pipeline.run().unwrap(), 9);
    /// ```
    ///
    /// # Panics
    /// If `lines` is zero, or more than 1,048,576: each stage keeps room for as many values.
    #[expect(clippy::new_ret_no_self, reason = "a pipeline has a source, which comes next")]
    #[track_caller]
    pub fn new(lines: usize) -> Start {
        Start::new(lines)
    }
}

impl<'env> Pipeline<'env> {
    pub(super) fn from_engine(engine: Engine<'env>) -> Self {
        Self { engine: Arc::new(engine) }
    }

    /// The engine, between runs.
    fn engine(&mut self) -> &mut Engine<'env> {
        Arc::get_mut(&mut self.engine).expect("N1: between runs nobody else has it")
    }

    /// Runs until the source ends and the last token has gone through; returns how many did.
    ///
    /// Works on any thread, which takes part together with idle compute workers.
    ///
    /// ```
    /// let mut sum = 0;
    /// let tokens = filch::Pipeline::new(4).items(1..=10).for_each(|x| sum += x).run();
    /// assert_eq!((tokens.unwrap(), sum), (10, 55));
    /// ```
    ///
    /// # Errors
    /// The first error or panic of a stage, with stage and token. Other stages that run come to
    /// their end, nothing begins after it, and what was in flight is dropped. A source that ended while
    /// tokens waited for others that never came; a run that was cancelled.
    ///
    /// # Panics
    /// If the runtime has shut down, or if the drop of a future panics that was cancelled, unless the runtime
    /// [reports](crate::UnhandledPanic::Report) it. A panic of a stage is an error.
    #[track_caller]
    pub fn run(&mut self) -> Result<u64, PipelineError> {
        let site = Location::caller();
        let (parent, on_panic, workers) = spawn::current(|shared, group, _| {
            (group.to_ref(), on_panic_here(shared), shared.config.compute_workers.max(1))
        });
        self.engine().prepare(workers, site);
        let engine = &self.engine;
        let run = || {
            in_group(&parent, on_panic, Tracking::Yes, |group| {
                engine.control.begin(group);
                if engine.join() {
                    engine.work();
                }
            });
        };
        let run = catch_unwind(AssertUnwindSafe(run));
        self.engine.control.end();
        let result = self.engine().conclude();
        run.map_or_else(|payload| resume_unwind(payload), |()| result)
    }

    /// Numbers tokens from 0 again; without it the numbers go on from run to run.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut pipeline = Pipeline::new(2)
    ///     .source(|token| if token.number() < 3 { Next::Item(()) } else { Next::Stop })
    ///     .build();
    /// assert_eq!(pipeline.run().unwrap(), 3);
    /// assert_eq!(pipeline.run().unwrap(), 0);
    /// pipeline.reset();
    /// assert_eq!(pipeline.run().unwrap(), 3);
    /// ```
    pub fn reset(&mut self) {
        self.engine().renumber();
    }

    /// What ends a run from a stage or from another thread.
    ///
    /// ```
    /// use std::sync::OnceLock;
    /// use filch::pipeline::{Canceller, Pipeline, PipelineError};
    /// let canceller = OnceLock::<Canceller>::new();
    /// let mut pipeline = Pipeline::new(4).items(0..).for_each(|x| {
    ///     if x == 1000 {
    ///         canceller.get().unwrap().cancel();
    ///     }
    /// });
    /// canceller.set(pipeline.canceller()).unwrap();
    /// assert!(matches!(pipeline.run(), Err(PipelineError::Cancelled)));
    /// ```
    pub fn canceller(&self) -> Canceller {
        Canceller(self.engine.control.clone())
    }
}

impl Pipeline<'static> {
    /// Runs without blocking the thread, and gives the pipeline back with the result.
    ///
    /// ```
    /// let pipeline = filch::Pipeline::new(4).items(0..9).for_each(drop);
    /// let (_pipeline, tokens) = filch::block_on(pipeline.run_async());
    /// assert_eq!(tokens.unwrap(), 9);
    /// ```
    ///
    /// # Errors
    /// As [`Pipeline::run`], in the second value.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run. Stages that run come to their end, and the group that the
    /// future was polled in waits for them.
    #[track_caller]
    pub fn run_async(self) -> impl Future<Output = (Self, Result<u64, PipelineError>)> + Send {
        self.run_from(Location::caller())
    }

    async fn run_from(
        mut self,
        site: &'static Location<'static>,
    ) -> (Self, Result<u64, PipelineError>) {
        let workers = spawn::current(|shared, _, _| shared.config.compute_workers.max(1));
        self.engine().prepare(workers, site);
        let stop = CancelOnDrop(self.canceller());
        let engine = self.engine.clone();
        let Ok(()) = group(async move |_| {
            engine.begin_alone();
            Ok::<_, std::convert::Infallible>(())
        })
        .await;
        self.engine.control.end();
        // Without a run there is nothing to cancel.
        drop(stop);
        let result = self.engine().conclude();
        (self, result)
    }
}

/// Ends the run whose future is dropped.
struct CancelOnDrop(Canceller);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A pipeline whose stages all change data of one type in place, and may be changed between runs; see
/// [`Start::scalable`].
///
/// ```
/// use filch::pipeline::{Next, Pipeline, Stage};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let sum = AtomicU64::new(0);
/// let mut pipeline = Pipeline::new(4).scalable(|token| match token.number() {
///     3 => Next::Stop,
///     number => Next::Item(number),
/// });
/// pipeline.stages_mut().push(Stage::serial(|x| _ = sum.fetch_add(*x, Relaxed)));
/// pipeline.run().unwrap();
/// assert_eq!(sum.load(Relaxed), 3);
///
/// pipeline.stages_mut().insert(0, Stage::parallel(|x| *x *= 10));
/// pipeline.reset();
/// pipeline.run().unwrap();
/// assert_eq!(sum.load(Relaxed), 33);
/// ```
pub struct Scalable<'env, T> {
    pipeline: Pipeline<'env>,
    stages: Vec<Stage<'env, T>>,
    ring: Arc<Ring<T>>,
    made: Made,
}

/// Whether the engine has the stages as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Yes,
    No,
}

impl<T> fmt::Debug for Scalable<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scalable").field("stages", &self.stages).finish_non_exhaustive()
    }
}

impl<'env, T: Send + 'env> Scalable<'env, T> {
    pub(super) fn new(engine: Engine<'env>, ring: Arc<Ring<T>>) -> Self {
        let pipeline = Pipeline::from_engine(engine);
        Self { pipeline, stages: Vec::new(), ring, made: Made::No }
    }

    /// The stages behind the source, to look at.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let pipeline = Pipeline::new(1).scalable(|_| Next::<u32>::Stop);
    /// assert!(pipeline.stages().is_empty());
    /// ```
    pub fn stages(&self) -> &[Stage<'env, T>] {
        &self.stages
    }

    /// The stages behind the source, to be changed for the next run.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline, Stage};
    /// let mut pipeline = Pipeline::new(1).scalable(|_| Next::<u32>::Stop);
    /// pipeline.stages_mut().push(Stage::serial(|_| ()));
    /// pipeline.stages_mut().clear();
    /// assert_eq!(pipeline.run().unwrap(), 0);
    /// ```
    pub fn stages_mut(&mut self) -> &mut Vec<Stage<'env, T>> {
        self.made = Made::No;
        &mut self.stages
    }

    /// As [`Pipeline::run`].
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut pipeline = Pipeline::new(2).scalable(|token| match token.number() {
    ///     5 => Next::Stop,
    ///     number => Next::Item(number),
    /// });
    /// assert_eq!(pipeline.run().unwrap(), 5);
    /// ```
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    #[track_caller]
    pub fn run(&mut self) -> Result<u64, PipelineError> {
        if self.made == Made::No {
            self.make();
            self.made = Made::Yes;
        }
        self.pipeline.run()
    }

    fn make(&mut self) {
        let last = self.stages.len().saturating_sub(1);
        let step = |(index, stage): (usize, &Stage<'env, T>)| {
            stage.step(&self.ring, if index == last { After::Drop } else { After::Keep })
        };
        let steps = self.stages.iter().enumerate().map(step);
        let end = self.stages.is_empty().then(|| end_of(&self.ring));
        self.pipeline.engine().replace_steps(steps.chain(end));
    }

    /// As [`Pipeline::reset`].
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut pipeline = Pipeline::new(2).scalable(|_| Next::<u32>::Stop);
    /// pipeline.reset();
    /// ```
    pub fn reset(&mut self) {
        self.pipeline.reset();
    }

    /// As [`Pipeline::canceller`].
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let pipeline = Pipeline::new(2).scalable(|_| Next::<u32>::Stop);
    /// assert!(!pipeline.canceller().cancel());
    /// ```
    pub fn canceller(&self) -> Canceller {
        self.pipeline.canceller()
    }
}
