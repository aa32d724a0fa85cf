//! How strict an end is, and until when it waits.
//!
//! E1. Strictness is two times: for how long tasks may end by themselves, and after how long the caller goes. Of two wishes for one end
//!     the shorter time counts in both respects, so nothing is taken back: neither an abort nor a deadline.
//! E2. Once the time of a drain is up, tasks have some more to be dropped, and less if none is left but such as run.
//! E3. Threads have a moment to end after the last task, whatever the deadline.
//!
//! Not here: who waits (`shutdown`, `start`), who asks (`life`).

use std::time::{Duration, Instant};

use super::shutdown::Shutdown;
use crate::base::sim;

/// How long the tasks have to be dropped once the time of a [`Shutdown::DrainFor`] is up. Guessed.
const GRACE: Duration = Duration::from_millis(200);

/// As `GRACE`, where no task is left but such as run: those may not end at all. Guessed.
const GRACE_OF_RUNNING: Duration = Duration::from_millis(50);

/// How long threads have to end once all tasks are gone, whatever the deadline: else an end without any time would name
/// those that are about to end. Guessed.
const GRACE_OF_THREADS: Duration = Duration::from_millis(50);

/// What makes an end strict: times from when it is heard, the longest of which are for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strictness {
    /// How long tasks may take to end by themselves; `None` is not at all.
    drain: Option<Duration>,
    /// After how long the caller goes.
    leave: Duration,
}

impl Strictness {
    /// What is strict about either (E1).
    pub(super) fn and(self, other: Self) -> Self {
        Self { drain: self.drain.min(other.drain), leave: self.leave.min(other.leave) }
    }
}

impl From<Shutdown> for Strictness {
    fn from(how: Shutdown) -> Self {
        let (drain, leave) = match how {
            Shutdown::Drain => (Some(Duration::MAX), Duration::MAX),
            Shutdown::DrainFor(time) => (Some(time), time.saturating_add(GRACE)),
            Shutdown::Abort => (None, Duration::MAX),
            Shutdown::AbortFor(time) => (None, time),
        };
        Self { drain, leave }
    }
}

/// How long an end waits for tasks to end by themselves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Drains {
    No,
    /// Without a deadline: for ever.
    Until(Option<Instant>),
}

/// Whether the time of a drain is up.
#[derive(Debug, Clone, Copy)]
enum Grace {
    /// It is not, or there was none.
    No,
    /// Tasks are dropped that do not run.
    Others,
    /// No walk has found any but running tasks since then.
    OnlyRunning(Instant),
}

/// Until when an end waits.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) drains: Drains,
    /// When the caller goes, if it does not wait for ever.
    leave: Option<Instant>,
    grace: Grace,
}

impl Limits {
    /// From now on.
    pub(super) fn of(strictness: impl Into<Strictness>) -> Self {
        let Strictness { drain, leave } = strictness.into();
        let after = |time| sim::now().checked_add(time);
        let drains = drain.map_or(Drains::No, |time| Drains::Until(after(time)));
        Self { drains, leave: after(leave), grace: Grace::No }
    }

    /// E1.
    pub(super) fn tighten(&mut self, stricter: Strictness) {
        let newer = Self::of(stricter);
        self.leave = earlier(self.leave, newer.leave);
        self.drains = match (self.drains, newer.drains) {
            (Drains::Until(one), Drains::Until(other)) => Drains::Until(earlier(one, other)),
            (Drains::No, _) | (_, Drains::No) => Drains::No,
        };
    }

    /// The time of the drain is up (E2).
    pub(super) fn end_drain(&mut self) {
        // Anew, in case that this thread is late.
        *self = Self { drains: Drains::No, leave: Some(sim::now() + GRACE), grace: Grace::Others };
    }

    /// The time at which the caller goes, if it is known.
    pub(super) fn end(&self) -> Option<Instant> {
        match self.grace {
            Grace::No | Grace::Others => self.leave,
            Grace::OnlyRunning(since) => earlier(self.leave, Some(since + GRACE_OF_RUNNING)),
        }
    }

    /// Whether the caller goes.
    pub(super) fn are_over(&self) -> bool {
        self.end().is_some_and(|end| sim::now() >= end)
    }

    /// When the caller goes although threads have not ended, if all tasks are gone since then (E3).
    pub(super) fn end_of_threads(&self, since: Instant) -> Option<Instant> {
        self.leave.map(|leave| leave.max(since + GRACE_OF_THREADS))
    }

    /// The time may depend on whether there are `others` than running tasks, so that is asked after each walk.
    pub(super) fn look(&mut self, others: impl Fn() -> bool) {
        self.grace = match self.grace {
            Grace::No => Grace::No,
            Grace::Others | Grace::OnlyRunning(_) if others() => Grace::Others,
            Grace::Others => Grace::OnlyRunning(sim::now()),
            since @ Grace::OnlyRunning(_) => since,
        };
    }
}

/// The earlier of two deadlines, the latest of which is none.
pub(super) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
