//! The engine: runners that move tokens through the segments of one run.
//!
//! A runner looks for a segment with ready positions, claims a batch of them, runs the segment's stages on
//! it, and looks again, first at the segment behind. So a batch goes through the pipeline on one thread as
//! long as nobody is in its way, and others follow it, a batch or more behind.
//!
//! N1. Runners belong to the group of the run: the thread that called it, and jobs. A run is over when the
//!     group is, so nobody touches the engine between runs.
//! N2. Whoever lets a position pass calls a runner if one is missing (W4 of `flow`). So what is ready never
//!     waits behind a stage that takes long or blocks, as long as there are workers.
//! N3. A batch takes some microseconds: its size follows the time that batches take. A stage that takes
//!     longer is run one token at a time.
//! N4. The first failure counts. Nothing begins after it, and what is in flight is dropped when the run
//!     is over.
//!
//! Not here: the protocol of claims (`flow`), what stages do (`stage`, `background`).

use std::cell::Cell;
use std::future::Future;
use std::hint::spin_loop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::cancel::Control;
use super::error::{Cause, PanicPayload, PipelineError, Place};
use super::flow::{Claim, Flow, Order, Phase, Runners, slots};
use super::stage::{self, Body, End, Step, Tidy, Turn};
use crate::base::shim::{AtomicU32, AtomicU64, Ordering, yield_now};
use crate::base::sim;
use crate::spawn;
use crate::task::body::{self, FutureBody, JobBody, is_cancellation};
use crate::task::group::{Group, guard_user_code};

/// How long a batch should take (N3). Guessed: a few hundred times what its claim costs.
const BATCH_TIME: Duration = Duration::from_micros(4);

/// Positions of a batch at most. Guessed.
const MOST_BATCH: u32 = 64;

/// Batches of fewer positions are all timed: they grow or take long.
const TIMED_BELOW: u64 = 4;

/// Batches of a runner between two that are timed, once they are large.
const TIMED_EVERY: u32 = 8;

/// Looks at all segments before a runner that finds nothing leaves: 50 µs or more, longer than it
/// takes to call it back. Guessed.
const LOOKS: usize = 200;

/// Looks between which a runner keeps its core: some 10 µs, longer than a neighbour's batch. Guessed; 15 and
/// 40 measure alike.
const SPIN_LOOKS: usize = 40;

/// Looks for full batches before smaller ones will do. Guessed.
const CHOOSY_LOOKS: usize = 3;

/// Hints to the processor between two looks: some 0.2 µs.
const PAUSE_HINTS: usize = 8;

pub(super) struct Engine<'env> {
    steps: Vec<Step<'env>>,
    segments: Vec<Segment>,
    flow: Flow,
    runners: Runners,
    lines: usize,
    /// Positions of a batch at most, as the user wants it.
    most_batch: u32,
    /// Positions of a batch at most, in this run.
    batch_limit: u32,
    /// Which token has the position, at `position & mask`.
    numbers: Box<[AtomicU64]>,
    failure: Mutex<Option<PipelineError>>,
    pub(super) control: Arc<Control>,
    /// Who called the run, for what is spawned.
    site: &'static Location<'static>,
}

/// A serial stage, or parallel ones in a row.
struct Segment {
    steps: Range<usize>,
    /// How many positions a batch has (N3).
    batch: AtomicU32,
}

impl<'env> Engine<'env> {
    #[track_caller]
    pub(super) fn new(steps: Vec<Step<'env>>, lines: usize, most_batch: u32) -> Self {
        let (orders, segments) = segments(&steps);
        Self {
            flow: Flow::new(&orders, lines),
            steps,
            segments,
            runners: Runners::new(),
            lines,
            most_batch,
            batch_limit: 1,
            numbers: (0..slots(lines)).map(|_| AtomicU64::new(0)).collect(),
            failure: Mutex::default(),
            control: Arc::default(),
            site: Location::caller(),
        }
    }

    /// Puts other stages behind the source.
    pub(super) fn replace_steps(&mut self, steps: impl Iterator<Item = Step<'env>>) {
        self.steps.truncate(1);
        self.steps.extend(steps);
        let (orders, segments) = segments(&self.steps);
        self.flow = Flow::new(&orders, self.lines);
        self.segments = segments;
    }

    /// Makes ready for a run by at most so many runners.
    pub(super) fn prepare(&mut self, workers: usize, site: &'static Location<'static>) {
        self.flow.reset();
        self.runners.reset(workers.clamp(1, self.lines));
        self.site = site;
        let fair = u32::try_from(self.lines / (2 * workers.max(1))).unwrap_or(u32::MAX);
        self.batch_limit = fair.min(self.most_batch).clamp(1, MOST_BATCH);
        for segment in &mut self.segments {
            let begun = match self.steps[segment.steps.start].body {
                Body::Inline(_) => segment.batch(),
                // Whatever it takes, it takes no runner's time.
                Body::Background(_) => self.batch_limit.into(),
            };
            segment.set_batch(begun, self.batch_limit);
        }
    }

    /// What the run came to: how many tokens have passed. Nobody else uses the engine any more.
    pub(super) fn conclude(&mut self) -> Result<u64, PipelineError> {
        let failure = self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let is_complete = self.flow.phase() == Phase::Stopped && self.flow.is_drained();
        if failure.is_none() && is_complete {
            return Ok(self.flow.admitted());
        }
        self.steps.iter_mut().for_each(|step| step.tidy(Tidy::Clear));
        Err(failure.unwrap_or(PipelineError::Cancelled))
    }

    pub(super) fn renumber(&mut self) {
        self.steps.iter_mut().for_each(|step| step.tidy(Tidy::Renumber));
    }
}

/// The segments that stages form.
fn segments(steps: &[Step<'_>]) -> (Vec<Order>, Vec<Segment>) {
    let (mut orders, mut segments) = (Vec::new(), Vec::<Segment>::new());
    let mut open = false;
    for (index, step) in steps.iter().enumerate() {
        let is_inline = matches!(step.body, Body::Inline(_));
        let joins = is_inline && step.order == Order::Parallel;
        match segments.last_mut() {
            Some(last) if open && joins => last.steps.end = index + 1,
            _ => {
                orders.push(step.order);
                segments.push(Segment { steps: index..index + 1, batch: AtomicU32::new(1) });
            }
        }
        open = joins;
    }
    (orders, segments)
}

impl Segment {
    #[inline]
    fn batch(&self) -> u64 {
        // ORDERING: Relaxed, a hint.
        self.batch.load(Ordering::Relaxed).into()
    }

    fn set_batch(&self, batch: u64, limit: u32) {
        let batch = u32::try_from(batch).unwrap_or(limit).clamp(1, limit);
        // ORDERING: Relaxed, a hint.
        self.batch.store(batch, Ordering::Relaxed);
    }

    /// A batch of so many positions has taken so long (N3).
    fn adapt(&self, positions: u64, took: Duration, limit: u32) {
        let batch = self.batch();
        if took > 2 * BATCH_TIME {
            self.set_batch(batch / 2, limit);
        } else if positions == batch && 2 * took <= BATCH_TIME {
            self.set_batch(batch * 2, limit);
        }
    }
}

/// How many positions a claim has at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Least {
    Batch,
    One,
}

impl Least {
    #[inline]
    fn of(self, batch: u64) -> u64 {
        match self {
            Least::Batch => batch,
            Least::One => 1,
        }
    }
}

/// Passes some time before the next look. After the first looks whoever has claimed what the caller needs
/// may be off its core, perhaps because the caller is on it.
fn pause(look: usize) {
    sim::point();
    if look < SPIN_LOOKS {
        (0..PAUSE_HINTS).for_each(|_| spin_loop());
    } else {
        yield_now();
    }
}

impl<'env> Engine<'env> {
    /// Begins a run in the current group, in which the caller takes no part.
    pub(super) fn begin_alone(self: &Arc<Self>) {
        self.control.begin(&spawn::current(|_, group, _| group.to_ref()));
        self.call_runner();
    }

    pub(super) fn stages(&self) -> usize {
        self.steps.len()
    }

    /// Counts the caller as a runner, if there is room.
    pub(super) fn join(&self) -> bool {
        self.runners.join()
    }

    /// Runs what is ready until nothing is. The caller is counted as a runner, and is not afterwards.
    pub(super) fn work(self: &Arc<Self>) {
        let (mut first, mut batches) = (0, 0);
        let group = spawn::current(|_, group, _| group.to_ref());
        loop {
            while let Some(claim) = self.find(&group, first) {
                first = claim.segment + 1;
                batches += 1;
                if self.runners.has_room() {
                    self.call_runner();
                }
                self.run(&group, claim, batches);
            }
            self.runners.leave();
            if self.is_over(&group) || !self.has_ready() || !self.runners.join() {
                return;
            }
        }
    }

    /// Claims a batch, for the segment `first` rather than for those behind it; looks for a while.
    fn find(&self, group: &Group, first: usize) -> Option<Claim> {
        let len = self.flow.len();
        for look in 0..LOOKS {
            if self.is_over(group) {
                return None;
            }
            let least = if look < CHOOSY_LOOKS { Least::Batch } else { Least::One };
            let claim = (first..first + len).find_map(|segment| self.claim(segment % len, least));
            if claim.is_some() {
                return claim;
            }
            if !self.runners.is_alone() {
                if sim::cuts_short() {
                    return None;
                }
                pause(look);
            } else if least == Least::One {
                return None;
            }
        }
        None
    }

    #[inline]
    fn claim(&self, segment: usize, least: Least) -> Option<Claim> {
        let batch = self.segments[segment].batch();
        self.flow.claim(segment, least.of(batch), batch)
    }

    fn has_ready(&self) -> bool {
        (0..self.flow.len()).any(|segment| self.flow.is_ready(segment, 1))
    }

    /// Whether nothing will begin any more.
    fn is_over(&self, group: &Group) -> bool {
        if group.is_cancelled() {
            self.flow.advance(Phase::Halted);
        }
        self.flow.is_over()
    }

    /// Calls one more runner, if something is ready (N2).
    #[cold]
    fn call_runner(self: &Arc<Self>) {
        if self.has_ready() && self.runners.join() {
            let recruit = Recruit(Some(self.clone()));
            self.create(JobBody(move || recruit.work()));
        }
    }

    /// Spawns a future into the group of the run.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send) {
        self.create(FutureBody(future));
    }

    fn create<B: body::Body>(&self, body: B) {
        spawn::current(|shared, group, member| {
            debug_assert_eq!(member, spawn::Member::Yes, "N1");
            group.enter();
            drop(spawn::create(shared, group, body, spawn::Order::plain(self.site)));
        });
    }

    /// Runs the stages of a segment on a batch.
    fn run(self: &Arc<Self>, group: &Group, claim: Claim, batches: u32) {
        let segment = &self.segments[claim.segment];
        let steps = &self.steps[segment.steps.clone()];
        if let [Step { body: Body::Background(stage), .. }] = steps {
            // SAFETY: claimed, for this segment.
            return unsafe { stage.begin(self, claim) };
        }
        let is_timed = segment.batch() < TIMED_BELOW || batches.is_multiple_of(TIMED_EVERY);
        let start = is_timed.then(sim::now);
        let turn = Turn {
            flow: &self.flow,
            runners: &self.runners,
            group,
            segment: claim.segment,
            lets_pass: Cell::new(true),
            step: Cell::new(0),
            at: Cell::new(claim.from),
            numbers: &self.numbers,
            call: &|| self.call_runner(),
        };
        // SAFETY: claimed, for this segment.
        let body = || unsafe { stage::run_all(steps, &turn, claim.from, claim.until) };
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(End::All)) => self.flow.release(claim.segment, claim.until),
            Ok(Ok(End::Stop(end))) => self.stop(end),
            // Nobody claims anything any more (N4).
            Ok(Ok(End::Halt)) => {}
            Ok(Err(cause)) => {
                self.fail(segment.steps.start + turn.step.get(), turn.at.get(), cause)
            }
            Err(payload) => {
                let stage = segment.steps.start + turn.step.get();
                self.fail(stage, turn.at.get(), Cause::Panic(payload));
            }
        }
        if let Some(start) = start {
            let took = sim::now().saturating_duration_since(start);
            segment.adapt(claim.until - claim.from, took, self.batch_limit);
        }
    }
}

/// A runner that has been called.
struct Recruit<'env>(Option<Arc<Engine<'env>>>);

impl Recruit<'_> {
    fn work(mut self) {
        if let Some(engine) = self.0.take() {
            engine.work();
        }
    }
}

impl Drop for Recruit<'_> {
    fn drop(&mut self) {
        // Cancelled before it began: nothing will begin any more.
        if let Some(engine) = &self.0 {
            engine.runners.leave();
        }
    }
}

/// What the tasks of background stages tell.
impl<'env> Engine<'env> {
    pub(super) fn note_number(&self, position: u64, number: u64) {
        stage::note_number(&self.numbers, position, number);
    }

    /// A position has passed.
    pub(super) fn let_pass(self: &Arc<Self>, segment: usize, position: u64) {
        self.flow.pass(segment, position);
        self.call_if_missing();
    }

    /// A claim is given up, all of it below `end` has passed.
    pub(super) fn give_up(self: &Arc<Self>, segment: usize, end: u64) {
        self.flow.release(segment, end);
        self.call_if_missing();
    }

    fn call_if_missing(self: &Arc<Self>) {
        if self.runners.has_room() {
            self.call_runner();
        }
    }

    /// The source has ended before this position.
    pub(super) fn stop(&self, end: u64) {
        self.flow.advance(Phase::Stopped);
        self.flow.release(0, end);
    }

    pub(super) fn fail_at(&self, segment: usize, position: u64, cause: Cause) {
        self.fail(self.segments[segment].steps.start, position, cause);
    }

    /// Ends the run (N4).
    #[cold]
    fn fail(&self, stage: usize, position: u64, cause: Cause) {
        // ORDERING: Relaxed, as in `note_number`.
        let token =
            self.numbers[position as usize & (self.numbers.len() - 1)].load(Ordering::Relaxed);
        let at = Place { stage, token, name: self.steps[stage].name.clone() };
        let error = match cause {
            Cause::Error(error) => PipelineError::Failed { at, error },
            Cause::Panic(payload) if is_cancellation(&payload) => PipelineError::Cancelled,
            Cause::Panic(payload) => PipelineError::Panicked { at, payload: PanicPayload(payload) },
            Cause::Stuck(tokens) => PipelineError::Stuck { tokens },
        };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let late = if failure.is_none() { failure.replace(error) } else { Some(error) };
        drop(failure);
        guard_user_code(|| drop(late));
        self.flow.advance(Phase::Halted);
        if self.steps.iter().any(|step| matches!(step.body, Body::Background(_))) {
            // Futures that wait for something else would never learn of it.
            self.control.cancel();
        }
    }
}
