//! How a pipeline is put together: stage by stage, each taking what the one before it gives.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_lite::Stream;

use super::background::{ParallelAsync, SerialAsync, StreamSource};
use super::collect::Collect;
use super::engine::Engine;
use super::error::BoxError;
use super::flow::Order;
use super::in_place::{After, Stage};
use super::pipes::{Pipeline, Scalable};
use super::ring::Ring;
use super::source::{Next, Token};
use super::stage::{Parallel, Serial, Source, Step};
use crate::base::shim::Mutex;

/// Most lines of a pipeline: each stage keeps room for one value for each of them. Guessed: some
/// hundred times what the fastest stages have use for.
const MOST_LINES: usize = 1 << 20;

/// A pipeline that has lines and no stage yet; see [`Pipeline::new`].
///
/// ```
/// let start = filch::Pipeline::new(8).most_in_a_row(1);
/// let mut pipeline = start.items(0..3).collect();
/// assert_eq!(pipeline.run().unwrap(), [0, 1, 2]);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "a pipeline begins with a source"]
pub struct Start {
    lines: usize,
    most_batch: u32,
}

impl Start {
    #[track_caller]
    pub(super) fn new(lines: usize) -> Self {
        assert!(lines > 0, "a pipeline needs a line");
        assert!(
            lines <= MOST_LINES,
            "a pipeline with {lines} lines: {MOST_LINES} at most, and a few for each worker are good"
        );
        Self { lines, most_batch: u32::MAX }
    }

    /// So many tokens at most are taken through a stage in a row before the next stage is looked at;
    /// no more than a few microseconds' worth anyway. 1 if stages take very different times for
    /// different tokens.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(8).most_in_a_row(1).items(0..9).for_each(drop);
    /// assert_eq!(pipeline.run().unwrap(), 9);
    /// ```
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn most_in_a_row(self, tokens: u32) -> Self {
        assert!(tokens > 0, "a stage takes one token at least");
        Self { most_batch: tokens, ..self }
    }

    /// The first stage: called for one token after the other, until it says [`Next::Stop`].
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut left = 3;
    /// let mut pipeline = Pipeline::new(2)
    ///     .source(move |_| {
    ///         if left == 0 {
    ///             return Next::Stop;
    ///         }
    ///         left -= 1;
    ///         Next::Item(left)
    ///     })
    ///     .collect();
    /// assert_eq!(pipeline.run().unwrap(), [2, 1, 0]);
    /// ```
    #[track_caller]
    pub fn source<'env, T: Send + 'env>(
        self,
        mut source: impl FnMut(&mut Token) -> Next<T> + Send + 'env,
    ) -> Builder<'env, T> {
        self.try_source(move |token| Ok::<_, Infallible>(source(token)))
    }

    /// As [`Start::source`]; an error ends the run.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut lines = ["1", "two"].into_iter();
    /// let mut pipeline = Pipeline::new(2)
    ///     .try_source(move |_| match lines.next() {
    ///         Some(line) => line.parse::<u32>().map(Next::Item),
    ///         None => Ok(Next::Stop),
    ///     })
    ///     .for_each(drop);
    /// assert_eq!(pipeline.run().unwrap_err().place().unwrap().stage, 0);
    /// ```
    #[track_caller]
    pub fn try_source<'env, T: Send + 'env, E: Into<BoxError> + 'env>(
        self,
        source: impl FnMut(&mut Token) -> Result<Next<T>, E> + Send + 'env,
    ) -> Builder<'env, T> {
        let output = Arc::new(Ring::new(self.lines));
        let source = Step::inline(Order::Serial, Source::new(source, &output));
        Builder { start: self, steps: vec![source], output }
    }

    /// An iterator as first stage.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(2).items("abc".chars()).collect();
    /// assert_eq!(pipeline.run().unwrap(), ['a', 'b', 'c']);
    /// ```
    #[track_caller]
    pub fn items<'env, I>(self, items: I) -> Builder<'env, I::Item>
    where
        I: IntoIterator<Item: Send + 'env, IntoIter: Send + 'env>,
    {
        let mut items = items.into_iter();
        self.source(move |_| items.next().into())
    }

    /// A stream as first stage; no thread waits for its items.
    ///
    /// ```
    /// use futures_lite::stream;
    /// let mut pipeline = filch::Pipeline::new(2).stream(stream::iter(0..3)).collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 1, 2]);
    /// ```
    #[track_caller]
    pub fn stream<'env, S>(self, stream: S) -> Builder<'env, S::Item>
    where
        S: Stream<Item: Send + 'env> + Send + 'env,
    {
        let output = Arc::new(Ring::new(self.lines));
        let source = Step::background(Order::Serial, StreamSource::new(stream, &output));
        Builder { start: self, steps: vec![source], output }
    }

    /// A pipeline whose stages, all of one type, may be changed between runs.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline, Stage};
    /// let mut pipeline = Pipeline::new(4).scalable(|token| match token.number() {
    ///     9 => Next::Stop,
    ///     number => Next::Item(number),
    /// });
    /// pipeline.stages_mut().push(Stage::parallel(|x: &mut u64| *x += 1));
    /// assert_eq!(pipeline.run().unwrap(), 9);
    /// ```
    #[track_caller]
    pub fn scalable<'env, T: Send + 'env>(
        self,
        source: impl FnMut(&mut Token) -> Next<T> + Send + 'env,
    ) -> Scalable<'env, T> {
        let Builder { steps, output, .. } = self.source(source);
        Scalable::new(Engine::new(steps, self.lines, self.most_batch), output)
    }
}

/// A pipeline in the making, whose last stage so far gives a `T`.
///
/// ```
/// let builder = filch::Pipeline::new(4).items(0..4).parallel(|x| x * x);
/// let mut pipeline = builder.serial(|x| x + 1).collect();
/// assert_eq!(pipeline.run().unwrap(), [1, 2, 5, 10]);
/// ```
#[must_use = "a pipeline in the making does nothing"]
pub struct Builder<'env, T> {
    start: Start,
    steps: Vec<Step<'env>>,
    output: Arc<Ring<T>>,
}

impl<T> fmt::Debug for Builder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages = self.steps.len();
        f.debug_struct("Builder").field("start", &self.start).field("stages", &stages).finish()
    }
}

impl<'env, T: Send + 'env> Builder<'env, T> {
    fn then<U>(
        mut self,
        step: impl FnOnce(&Arc<Ring<T>>, &Arc<Ring<U>>) -> Step<'env>,
    ) -> Builder<'env, U> {
        let output = Arc::new(Ring::new(self.start.lines));
        self.steps.push(step(&self.output, &output));
        Builder { start: self.start, steps: self.steps, output }
    }

    /// Adds a stage through which tokens go one at a time, in the order in which they left the first.
    ///
    /// ```
    /// let mut sum = 0;
    /// let sums = move |x: u32| {
    ///     sum += x;
    ///     sum
    /// };
    /// let mut pipeline = filch::Pipeline::new(4).items(1..5).serial(sums).collect();
    /// assert_eq!(pipeline.run().unwrap(), [1, 3, 6, 10]);
    /// ```
    pub fn serial<U: Send + 'env>(
        self,
        mut stage: impl FnMut(T) -> U + Send + 'env,
    ) -> Builder<'env, U> {
        self.try_serial(move |input| Ok::<_, Infallible>(stage(input)))
    }

    /// As [`Builder::serial`]; an error ends the run.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4)
    ///     .items(["7", "x"])
    ///     .try_serial(|text| text.parse::<u32>())
    ///     .collect();
    /// assert_eq!(pipeline.run().unwrap_err().place().unwrap().token, 1);
    /// ```
    pub fn try_serial<U: Send + 'env, E: Into<BoxError> + 'env>(
        self,
        stage: impl FnMut(T) -> Result<U, E> + Send + 'env,
    ) -> Builder<'env, U> {
        self.then(|input, output| Step::inline(Order::Serial, Serial::new(stage, input, output)))
    }

    /// Adds a stage in which tokens may be side by side, in any order.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4).items(0..4).parallel(|x| 10 * x).collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 10, 20, 30]);
    /// ```
    pub fn parallel<U: Send + 'env>(
        self,
        stage: impl Fn(T) -> U + Send + Sync + 'env,
    ) -> Builder<'env, U> {
        self.try_parallel(move |input| Ok::<_, Infallible>(stage(input)))
    }

    /// As [`Builder::parallel`]; an error ends the run.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4)
    ///     .items([1_i32, -1])
    ///     .try_parallel(|x| u32::try_from(x))
    ///     .collect();
    /// assert!(pipeline.run().is_err());
    /// ```
    pub fn try_parallel<U: Send + 'env, E: Into<BoxError> + 'env>(
        self,
        stage: impl Fn(T) -> Result<U, E> + Send + Sync + 'env,
    ) -> Builder<'env, U> {
        self.then(|input, output| {
            Step::inline(Order::Parallel, Parallel::new(stage, input, output))
        })
    }

    /// Adds a serial stage that is a future: the next token waits for it, no thread does.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4)
    ///     .items(0..3)
    ///     .serial_async(async |x| {
    ///         filch::yield_now().await;
    ///         x + 1
    ///     })
    ///     .collect();
    /// assert_eq!(pipeline.run().unwrap(), [1, 2, 3]);
    /// ```
    pub fn serial_async<U: Send + 'env, F>(
        self,
        mut stage: impl FnMut(T) -> F + Send + 'env,
    ) -> Builder<'env, U>
    where
        F: Future<Output = U> + Send + 'env,
    {
        self.try_serial_async(move |input| unfailing(stage(input)))
    }

    /// As [`Builder::serial_async`]; an error ends the run.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4)
    ///     .items(0..3)
    ///     .try_serial_async(async |x| if x < 2 { Ok(x) } else { Err("two") })
    ///     .for_each(drop);
    /// assert_eq!(pipeline.run().unwrap_err().to_string(), "stage 1, token 2: two");
    /// ```
    pub fn try_serial_async<U: Send + 'env, F, E>(
        self,
        stage: impl FnMut(T) -> F + Send + 'env,
    ) -> Builder<'env, U>
    where
        F: Future<Output = Result<U, E>> + Send + 'env,
        E: Into<BoxError> + Send + 'env,
    {
        self.then(|input, output| {
            Step::background(Order::Serial, SerialAsync::new(stage, input, output))
        })
    }

    /// Adds a parallel stage that is a future: all tokens in flight may wait in it, and no thread does.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut pipeline = filch::Pipeline::new(8)
    ///     .items(0..3)
    ///     .parallel_async(async |x| {
    ///         filch::time::sleep(Duration::from_millis(3 - x)).await;
    ///         x
    ///     })
    ///     .collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 1, 2]);
    /// ```
    pub fn parallel_async<U: Send + 'env, F>(
        self,
        stage: impl Fn(T) -> F + Send + Sync + 'env,
    ) -> Builder<'env, U>
    where
        F: Future<Output = U> + Send + 'env,
    {
        self.try_parallel_async(move |input| unfailing(stage(input)))
    }

    /// As [`Builder::parallel_async`]; an error ends the run, and drops the other futures.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4)
    ///     .items(0..3)
    ///     .try_parallel_async(async |x| match x {
    ///         1 => Err("one"),
    ///         _ => std::future::pending::<Result<u32, _>>().await,
    ///     })
    ///     .for_each(drop);
    /// assert_eq!(pipeline.run().unwrap_err().to_string(), "stage 1, token 1: one");
    /// ```
    pub fn try_parallel_async<U: Send + 'env, F, E>(
        self,
        stage: impl Fn(T) -> F + Send + Sync + 'env,
    ) -> Builder<'env, U>
    where
        F: Future<Output = Result<U, E>> + Send + 'env,
        E: Into<BoxError> + Send + 'env,
    {
        self.then(|input, output| {
            Step::background(Order::Parallel, ParallelAsync::new(stage, input, output))
        })
    }

    /// Adds any number of stages that change the data in place.
    ///
    /// ```
    /// use filch::pipeline::{Pipeline, Stage};
    /// let stages = (1..=3).map(|n| Stage::parallel(move |x: &mut u32| *x += n));
    /// let mut pipeline = Pipeline::new(4).items([0, 10]).stages(stages).collect();
    /// assert_eq!(pipeline.run().unwrap(), [6, 16]);
    /// ```
    pub fn stages(mut self, stages: impl IntoIterator<Item = Stage<'env, T>>) -> Self {
        let steps = stages.into_iter().map(|stage| stage.step(&self.output, After::Keep));
        self.steps.extend(steps);
        self
    }

    /// Gives the last stage a name, which errors tell.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(1)
    ///     .items(0..1)
    ///     .try_serial(|_| Err::<(), _>("no"))
    ///     .name("parse")
    ///     .build();
    /// assert_eq!(pipeline.run().unwrap_err().to_string(), "stage 1 (parse), token 0: no");
    /// ```
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        if let Some(step) = self.steps.last_mut() {
            step.name = Some(name.into());
        }
        self
    }

    /// Ends the pipeline with a serial stage that uses up what the one before it gives.
    ///
    /// ```
    /// let mut seen = Vec::new();
    /// filch::Pipeline::new(4).items(0..3).for_each(|x| seen.push(x)).run().unwrap();
    /// assert_eq!(seen, [0, 1, 2]);
    /// ```
    #[track_caller]
    pub fn for_each(self, sink: impl FnMut(T) + Send + 'env) -> Pipeline<'env> {
        self.serial(sink).build()
    }

    /// Ends the pipeline; a run returns what the last stage gives, in order.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4).items(0..3).parallel(|x| 2 * x).collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 2, 4]);
    /// ```
    #[track_caller]
    pub fn collect(self) -> Collect<'env, T> {
        let items = Arc::new(Mutex::new(Vec::new()));
        let sink = items.clone();
        Collect::new(self.for_each(move |item| Collect::push(&sink, item)), items)
    }
}

impl<'env> Builder<'env, ()> {
    /// The pipeline, whose last stage uses up what it gets.
    ///
    /// ```
    /// let mut pipeline = filch::Pipeline::new(4).items(0..3).parallel(|x| assert!(x < 3)).build();
    /// assert_eq!(pipeline.run().unwrap(), 3);
    /// ```
    #[track_caller]
    pub fn build(self) -> Pipeline<'env> {
        Pipeline::from_engine(Engine::new(self.steps, self.start.lines, self.start.most_batch))
    }
}

/// What a future gives, as that of a stage which cannot fail.
async fn unfailing<F: Future>(future: F) -> Result<F::Output, Infallible> {
    Ok(future.await)
}
