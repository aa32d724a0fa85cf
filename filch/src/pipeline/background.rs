//! Stages whose bodies are futures: they wait for I/O or time without holding a thread.
//!
//! A runner that claims positions for such a stage begins a task for them and goes on. A serial stage
//! has one task for the whole batch, which awaits one future after the other, so it holds the claim
//! meanwhile; a parallel one has a task for each position.
//!
//! A1. The task belongs to the group of the run, so the run ends after it, and it is cancelled with it.
//! A2. A panic or an error of a future ends the run at its stage and token, as that of a closure does.
//!     A task that is dropped leaves its claim: the flow is not drained then, and the run was cancelled.

use std::cell::UnsafeCell;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_lite::{FutureExt, Stream, StreamExt};

use super::engine::Engine;
use super::error::{BoxError, Cause};
use super::flow::Claim;
use super::ring::Ring;
use super::stage::Tidy;

pub(super) trait Begin<'env>: Send + Sync {
    /// Begins what has been claimed.
    ///
    /// # Safety
    /// `claim` is for the segment of this stage (G1 of `stage`).
    unsafe fn begin(&self, engine: &Arc<Engine<'env>>, claim: Claim);

    fn tidy(&mut self, tidy: Tidy);
}

/// Whether this is evidence enough for the compiler.
fn sendable<F: Future<Output = ()> + Send>(future: F) -> F {
    future
}

/// What a future came to.
async fn outcome<B, E: Into<BoxError>>(
    future: impl Future<Output = Result<B, E>>,
) -> Result<B, Cause> {
    let future = async { future.await.map_err(|error| Cause::Error(error.into())) };
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(result) => result,
        Err(payload) => Err(Cause::Panic(payload)),
    }
}

struct Between<A, B, F> {
    body: UnsafeCell<F>,
    input: Arc<Ring<A>>,
    output: Arc<Ring<B>>,
}

// SAFETY: `SerialAsync` uses the closure from one task at a time (G1 of `stage`), `ParallelAsync` has
// one that can be shared; data change hands.
unsafe impl<A: Send, B: Send, F: Send> Sync for Between<A, B, F> {}

impl<A, B, F> Between<A, B, F> {
    fn new(body: F, input: &Arc<Ring<A>>, output: &Arc<Ring<B>>) -> Arc<Self> {
        let (input, output) = (input.clone(), output.clone());
        Arc::new(Self { body: UnsafeCell::new(body), input, output })
    }

    fn tidy(&self, tidy: Tidy) {
        if tidy == Tidy::Clear {
            // SAFETY: between runs nobody has claimed anything.
            unsafe { self.input.clear() };
        }
    }
}

/// A serial stage whose body is a future.
pub(super) struct SerialAsync<A, B, F>(Arc<Between<A, B, F>>);

impl<A, B, F> SerialAsync<A, B, F> {
    pub(super) fn new(body: F, input: &Arc<Ring<A>>, output: &Arc<Ring<B>>) -> Self {
        Self(Between::new(body, input, output))
    }
}

impl<A, B, F, Fut, E> SerialAsync<A, B, F>
where
    F: FnMut(A) -> Fut,
    Fut: Future<Output = Result<B, E>>,
    E: Into<BoxError>,
{
    /// The future for a position that the caller has claimed.
    fn future(stage: &Between<A, B, F>, position: u64) -> Fut {
        // SAFETY: G1 of `stage`.
        let input = unsafe { stage.input.take(position) };
        // SAFETY: G1 of `stage`, the segment is this task's.
        let body = unsafe { &mut *stage.body.get() };
        body(input)
    }
}

impl<'env, A, B, F, Fut, E> Begin<'env> for SerialAsync<A, B, F>
where
    A: Send + 'env,
    B: Send + 'env,
    F: FnMut(A) -> Fut + Send + 'env,
    Fut: Future<Output = Result<B, E>> + Send + 'env,
    E: Into<BoxError> + Send + 'env,
{
    unsafe fn begin(&self, engine: &Arc<Engine<'env>>, claim: Claim) {
        let (stage, owner) = (self.0.clone(), engine.clone());
        let task = async move {
            for position in claim.from..claim.until {
                let future = async { Self::future(&stage, position).await };
                match outcome(future).await {
                    Ok(output) => {
                        // SAFETY: G1 of `stage`.
                        unsafe { stage.output.put(position, output) };
                        owner.let_pass(claim.segment, position);
                    }
                    Err(cause) => return owner.fail_at(claim.segment, position, cause),
                }
            }
            owner.give_up(claim.segment, claim.until);
        };
        engine.spawn(sendable(task));
    }

    fn tidy(&mut self, tidy: Tidy) {
        self.0.tidy(tidy);
    }
}

/// A parallel stage whose body is a future.
pub(super) struct ParallelAsync<A, B, F>(Arc<Between<A, B, F>>);

impl<A, B, F: Sync> ParallelAsync<A, B, F> {
    pub(super) fn new(body: F, input: &Arc<Ring<A>>, output: &Arc<Ring<B>>) -> Self {
        Self(Between::new(body, input, output))
    }
}

impl<'env, A, B, F, Fut, E> Begin<'env> for ParallelAsync<A, B, F>
where
    A: Send + 'env,
    B: Send + 'env,
    F: Fn(A) -> Fut + Send + Sync + 'env,
    Fut: Future<Output = Result<B, E>> + Send + 'env,
    E: Into<BoxError> + Send + 'env,
{
    unsafe fn begin(&self, engine: &Arc<Engine<'env>>, claim: Claim) {
        let segment = claim.segment;
        for position in claim.from..claim.until {
            let (stage, owner) = (self.0.clone(), engine.clone());
            let task = async move {
                let future = async {
                    // SAFETY: G1 of `stage`.
                    let input = unsafe { stage.input.take(position) };
                    // SAFETY: nobody has it exclusively.
                    let body = unsafe { &*stage.body.get() };
                    body(input).await
                };
                match outcome(future).await {
                    Ok(output) => {
                        // SAFETY: G1 of `stage`.
                        unsafe { stage.output.put(position, output) };
                        owner.let_pass(segment, position);
                    }
                    Err(cause) => owner.fail_at(segment, position, cause),
                }
            };
            engine.spawn(sendable(task));
        }
    }

    fn tidy(&mut self, tidy: Tidy) {
        self.0.tidy(tidy);
    }
}

/// A source that is a stream.
pub(super) struct StreamSource<S: Stream>(Arc<Streaming<S>>);

struct Streaming<S: Stream> {
    /// The stream, and how many tokens it has given.
    state: UnsafeCell<(Pin<Box<S>>, u64)>,
    output: Arc<Ring<S::Item>>,
}

// SAFETY: G1 of `stage`, the stream is used by one task at a time, and data change hands.
unsafe impl<S: Stream + Send> Sync for Streaming<S> where S::Item: Send {}

impl<S: Stream> StreamSource<S> {
    pub(super) fn new(stream: S, output: &Arc<Ring<S::Item>>) -> Self {
        let state = UnsafeCell::new((Box::pin(stream), 0));
        Self(Arc::new(Streaming { state, output: output.clone() }))
    }
}

impl<S: Stream> Streaming<S> {
    /// # Safety
    /// The caller has claimed the segment (G1 of `stage`).
    #[expect(clippy::mut_from_ref, reason = "the claim is exclusive")]
    unsafe fn state(&self) -> &mut (Pin<Box<S>>, u64) {
        // SAFETY: by the caller's promise.
        unsafe { &mut *self.state.get() }
    }
}

impl<'env, S> Begin<'env> for StreamSource<S>
where
    S: Stream + Send + 'env,
    S::Item: Send + 'env,
{
    unsafe fn begin(&self, engine: &Arc<Engine<'env>>, claim: Claim) {
        let (stage, owner) = (self.0.clone(), engine.clone());
        let task = async move {
            // SAFETY: G1 of `stage`, for as long as the task lasts.
            let (stream, number) = unsafe { stage.state() };
            for position in claim.from..claim.until {
                owner.note_number(position, *number);
                let next = async { Ok::<_, BoxError>(stream.next().await) };
                match outcome(next).await {
                    Ok(Some(item)) => {
                        *number += 1;
                        // SAFETY: G1 of `stage`.
                        unsafe { stage.output.put(position, item) };
                        owner.let_pass(claim.segment, position);
                    }
                    Ok(None) => return owner.stop(position),
                    Err(cause) => return owner.fail_at(claim.segment, position, cause),
                }
            }
            owner.give_up(claim.segment, claim.until);
        };
        engine.spawn(sendable(task));
    }

    fn tidy(&mut self, tidy: Tidy) {
        if tidy == Tidy::Renumber {
            // SAFETY: between runs nobody has claimed anything.
            unsafe { self.0.state() }.1 = 0;
        }
    }
}
