//! What stages do with the positions that a runner has claimed.
//!
//! A stage knows the rings before and behind it by their types; the engine knows it by [`Work`] alone, which
//! is called once for a batch.
//!
//! G1. A stage is called for positions that its caller has claimed for the stage's segment, so a serial
//!     one has its closure to itself (W2 of `flow`), and each has the slots of its positions (D1 of `ring`).
//! G2. An input is moved out of its slot before the closure is called, and the output into its slot after:
//!     whatever unwinds, each value is dropped once.

use std::borrow::Cow;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::Arc;

use super::background::Begin;
use super::error::{BoxError, Cause};
use super::flow::{Flow, Order, Phase, Runners};
use super::ring::Ring;
use super::source::{Next, Token, Tokens};
use crate::base::shim::{AtomicU64, Ordering};
use crate::task::group::Group;

/// A stage as the engine has it.
pub(super) struct Step<'env> {
    pub(super) name: Option<Cow<'static, str>>,
    pub(super) order: Order,
    pub(super) body: Body<'env>,
}

/// How a stage is run.
pub(super) enum Body<'env> {
    /// To its end, by the runner.
    Inline(Box<dyn Work + 'env>),
    /// As a task, which the runner only begins.
    Background(Box<dyn Begin<'env> + 'env>),
}

impl<'env> Step<'env> {
    pub(super) fn inline(order: Order, work: impl Work + 'env) -> Self {
        Self { name: None, order, body: Body::Inline(Box::new(work)) }
    }

    pub(super) fn background(order: Order, stage: impl Begin<'env> + 'env) -> Self {
        Self { name: None, order, body: Body::Background(Box::new(stage)) }
    }

    /// # Safety
    /// As for [`Work::run`].
    #[inline]
    unsafe fn run(&self, turn: &Turn<'_>, from: u64, until: u64) -> Result<End, Cause> {
        match &self.body {
            // SAFETY: by the caller's promise.
            Body::Inline(work) => unsafe { work.run(turn, from, until) },
            Body::Background(_) => unreachable!("a stage that is a task has a segment of its own"),
        }
    }

    pub(super) fn tidy(&mut self, tidy: Tidy) {
        match &mut self.body {
            Body::Inline(work) => work.tidy(tidy),
            Body::Background(stage) => stage.tidy(tidy),
        }
    }
}

/// What is to be done between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tidy {
    /// Drop what lies before the stage, and forget who waits.
    Clear,
    /// Number tokens from 0 again.
    Renumber,
}

/// How far a batch has come.
#[must_use]
pub(super) enum End {
    /// All of it has passed.
    All,
    /// The source has ended before this position.
    Stop(u64),
    /// The run is halted; the rest is not begun.
    Halt,
}

pub(super) trait Work: Send + Sync {
    /// Runs the stage on positions `from..until`.
    ///
    /// # Safety
    /// The caller has claimed them for the segment of this stage (G1).
    unsafe fn run(&self, turn: &Turn<'_>, from: u64, until: u64) -> Result<End, Cause>;

    fn tidy(&mut self, tidy: Tidy);
}

/// Whether a stage may work on a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Begun {
    Yes,
    No,
}

/// A batch as a stage sees it.
pub(super) struct Turn<'a> {
    pub(super) flow: &'a Flow,
    pub(super) runners: &'a Runners,
    /// That of the run.
    pub(super) group: &'a Group,
    pub(super) segment: usize,
    /// Whether positions that the stage is done with have passed the segment.
    pub(super) lets_pass: Cell<bool>,
    /// The stage at work, of those of the segment.
    pub(super) step: Cell<usize>,
    /// The position that the stage works on.
    pub(super) at: Cell<u64>,
    /// Numbers of tokens, at `position & mask`.
    pub(super) numbers: &'a [AtomicU64],
    /// Calls one more runner, if there is work for it.
    pub(super) call: &'a dyn Fn(),
}

impl Turn<'_> {
    /// The stage begins with the position, unless the run is halted.
    #[inline(always)]
    pub(super) fn begin(&self, position: u64) -> Begun {
        self.at.set(position);
        match self.flow.phase() == Phase::Halted || self.group.is_cancelled() {
            false => Begun::Yes,
            true => Begun::No,
        }
    }

    /// The stage is done with the position.
    #[inline(always)]
    pub(super) fn end(&self, position: u64) {
        if self.lets_pass.get() {
            self.flow.pass(self.segment, position);
            if self.runners.has_room() {
                (self.call)();
            }
        }
    }
}

/// Runs the stages of a segment on positions `from..until`: each position through all of them.
///
/// # Safety
/// The caller has claimed them for the segment (G1).
pub(super) unsafe fn run_all(
    steps: &[Step<'_>],
    turn: &Turn<'_>,
    from: u64,
    until: u64,
) -> Result<End, Cause> {
    if let [step] = steps {
        // SAFETY: by the caller's promise.
        return unsafe { step.run(turn, from, until) };
    }
    for position in from..until {
        for (index, step) in steps.iter().enumerate() {
            turn.step.set(index);
            turn.lets_pass.set(index + 1 == steps.len());
            // SAFETY: by the caller's promise.
            match unsafe { step.run(turn, position, position + 1) }? {
                End::All => {}
                end => return Ok(end),
            }
        }
    }
    Ok(End::All)
}

/// Tells which token has a position.
#[inline(always)]
pub(super) fn note_number(numbers: &[AtomicU64], position: u64, number: u64) {
    // ORDERING: Relaxed, read by who has claimed the position, as data are (D1 of `ring`).
    numbers[position as usize & (numbers.len() - 1)].store(number, Ordering::Relaxed);
}

/// A closure between two rings.
pub(super) struct Between<A, B, E, F> {
    body: UnsafeCell<F>,
    input: Arc<Ring<A>>,
    output: Arc<Ring<B>>,
    error: PhantomData<fn() -> E>,
}

impl<A, B, E, F> Between<A, B, E, F> {
    fn new(body: F, input: &Arc<Ring<A>>, output: &Arc<Ring<B>>) -> Self {
        let (input, output) = (input.clone(), output.clone());
        Self { body: UnsafeCell::new(body), input, output, error: PhantomData }
    }

    /// # Safety
    /// The caller has claimed the positions, and `body` is the closure of this stage.
    #[inline(always)]
    unsafe fn each(
        &self,
        turn: &Turn<'_>,
        from: u64,
        until: u64,
        mut body: impl FnMut(A) -> Result<B, E>,
    ) -> Result<End, Cause>
    where
        E: Into<BoxError>,
    {
        for position in from..until {
            if turn.begin(position) == Begun::No {
                return Ok(End::Halt);
            }
            // SAFETY: G1.
            let input = unsafe { self.input.take(position) };
            let output = body(input).map_err(|error| Cause::Error(error.into()))?;
            // SAFETY: G1.
            unsafe { self.output.put(position, output) };
            turn.end(position);
        }
        Ok(End::All)
    }

    fn tidy(&mut self, tidy: Tidy) {
        if tidy == Tidy::Clear {
            // SAFETY: between runs nobody has claimed anything.
            unsafe { self.input.clear() };
        }
    }
}

/// A serial stage.
pub(super) struct Serial<A, B, E, F>(Between<A, B, E, F>);

impl<A, B, E, F: FnMut(A) -> Result<B, E>> Serial<A, B, E, F> {
    pub(super) fn new(body: F, input: &Arc<Ring<A>>, output: &Arc<Ring<B>>) -> Self {
        Self(Between::new(body, input, output))
    }
}

// SAFETY: G1, the closure is used by one runner at a time, and data change hands.
unsafe impl<A: Send, B: Send, E, F: Send> Sync for Serial<A, B, E, F> {}

impl<A: Send, B: Send, E: Into<BoxError>, F> Work for Serial<A, B, E, F>
where
    F: FnMut(A) -> Result<B, E> + Send,
{
    unsafe fn run(&self, turn: &Turn<'_>, from: u64, until: u64) -> Result<End, Cause> {
        // SAFETY: G1, the segment is this runner's.
        let body = unsafe { &mut *self.0.body.get() };
        // SAFETY: by the caller's promise.
        unsafe { self.0.each(turn, from, until, body) }
    }

    fn tidy(&mut self, tidy: Tidy) {
        self.0.tidy(tidy);
    }
}

/// A parallel stage.
pub(super) struct Parallel<A, B, E, F>(Between<A, B, E, F>);

impl<A, B, E, F: Fn(A) -> Result<B, E>> Parallel<A, B, E, F> {
    pub(super) fn new(body: F, input: &Arc<Ring<A>>, output: &Arc<Ring<B>>) -> Self {
        Self(Between::new(body, input, output))
    }
}

// SAFETY: the closure can be shared, and data change hands.
unsafe impl<A: Send, B: Send, E, F: Sync> Sync for Parallel<A, B, E, F> {}

impl<A: Send, B: Send, E: Into<BoxError>, F> Work for Parallel<A, B, E, F>
where
    F: Fn(A) -> Result<B, E> + Send + Sync,
{
    unsafe fn run(&self, turn: &Turn<'_>, from: u64, until: u64) -> Result<End, Cause> {
        // SAFETY: nobody has it exclusively.
        let body = unsafe { &*self.0.body.get() };
        // SAFETY: by the caller's promise.
        unsafe { self.0.each(turn, from, until, body) }
    }

    fn tidy(&mut self, tidy: Tidy) {
        self.0.tidy(tidy);
    }
}

/// The first stage.
pub(super) struct Source<A, E, F> {
    state: UnsafeCell<(Tokens, F)>,
    output: Arc<Ring<A>>,
    error: PhantomData<fn() -> E>,
}

impl<A, E, F: FnMut(&mut Token) -> Result<Next<A>, E>> Source<A, E, F> {
    pub(super) fn new(body: F, output: &Arc<Ring<A>>) -> Self {
        let state = UnsafeCell::new((Tokens::new(), body));
        Self { state, output: output.clone(), error: PhantomData }
    }
}

// SAFETY: G1, as for `Serial`.
unsafe impl<A: Send, E, F: Send> Sync for Source<A, E, F> {}

impl<A: Send, E: Into<BoxError>, F> Work for Source<A, E, F>
where
    F: FnMut(&mut Token) -> Result<Next<A>, E> + Send,
{
    unsafe fn run(&self, turn: &Turn<'_>, from: u64, until: u64) -> Result<End, Cause> {
        // SAFETY: G1, the segment is this runner's.
        let (tokens, body) = unsafe { &mut *self.state.get() };
        let mut position = from;
        while position < until {
            if turn.begin(position) == Begun::No {
                return Ok(End::Halt);
            }
            let Some(token) = tokens.next() else {
                return tokens.end().map(|()| End::Stop(position)).map_err(Cause::Stuck);
            };
            note_number(turn.numbers, position, token.number());
            match body(token).map_err(|error| Cause::Error(error.into()))? {
                Next::Item(item) => {
                    tokens.pass();
                    // SAFETY: G1.
                    unsafe { self.output.put(position, item) };
                    turn.end(position);
                    position += 1;
                }
                Next::Deferred => tokens.put_off(),
                Next::Stop => tokens.stop(),
            }
        }
        Ok(End::All)
    }

    fn tidy(&mut self, tidy: Tidy) {
        match tidy {
            Tidy::Clear => self.state.get_mut().0.forget(),
            Tidy::Renumber => self.state.get_mut().0.reset(),
        }
    }
}
