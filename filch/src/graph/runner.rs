//! How a graph is run: what a failure does, who may stop the run, and when it has to be over.
//!
//! C1. A canceller knows the runs that it can stop while they last: a run enters before it begins and leaves after its end.
//! C2. A deadline is a task that sleeps and then stops the run. It is cancelled when the run is over; if that comes too late, its
//!     ticket is good for no other run, not even one in the same slot.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::build::Graph;
use super::error::Stopped;
use super::slot::{OnFailure, Slot};
use crate::base::shim::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::spawn;
use crate::task::join::JoinHandle;
use crate::time::{self, Instant};

/// How a graph is to be run; see [`Graph::runner`](crate::Graph::runner).
///
/// ```
/// use std::time::Duration;
/// let mut g = filch::Graph::new();
/// g.node("a", || ());
/// let run = g.runner().timeout(Duration::from_secs(5)).try_run();
/// assert!(run.is_ok());
/// ```
#[derive(Debug, Clone)]
#[must_use = "a description does nothing until it runs"]
pub struct Runner<'g, 'env> {
    pub(super) graph: &'g Graph<'env>,
    pub(super) on_failure: OnFailure,
    canceller: Option<Canceller>,
    deadline: Option<Instant>,
}

impl<'g, 'env> Runner<'g, 'env> {
    pub(super) fn new(graph: &'g Graph<'env>) -> Self {
        Self { graph, on_failure: OnFailure::default(), canceller: None, deadline: None }
    }

    /// What a failure does to nodes that do not depend on the one that failed.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Lets `canceller` stop the run.
    ///
    /// ```
    /// use filch::graph::{Canceller, Stopped};
    /// let canceller = Canceller::new();
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || canceller.cancel());
    /// let b = g.node("b", || unreachable!());
    /// g.precede(a, b);
    /// let error = g.runner().canceller(&canceller).try_run().unwrap_err();
    /// assert_eq!(error.stopped(), Some(Stopped::Cancelled));
    /// assert_eq!(error.skipped(), [b.id()]);
    /// ```
    pub fn canceller(mut self, canceller: &Canceller) -> Self {
        self.canceller = Some(canceller.clone());
        self
    }

    /// Stops the run at `deadline`: nodes that have not begun by then are skipped.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Stops the run after `timeout`, which begins now; see [`Runner::deadline`].
    pub fn timeout(self, timeout: Duration) -> Self {
        let deadline = Instant::now() + timeout;
        self.deadline(deadline)
    }

    /// Lets others stop the run in `slot` until the watch is dropped, after its end.
    pub(super) fn watch(&self, slot: &Slot) -> Watch {
        let canceller = match (&self.canceller, self.deadline) {
            (None, None) => return Watch::default(),
            (Some(canceller), _) => canceller.clone(),
            (None, Some(_)) => Canceller::new(),
        };
        let run = canceller.enter(slot);
        let timer = self.deadline.map(|deadline| {
            let canceller = canceller.clone();
            spawn::spawn(async move {
                time::sleep_until(deadline).await;
                canceller.stop(run, Stopped::Deadline);
            })
        });
        Watch { entered: Some((canceller, run)), timer }
    }
}

/// Stops runs: those of [`Runner::canceller`].
///
/// ```
/// let canceller = filch::graph::Canceller::new();
/// canceller.cancel();
/// assert!(canceller.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Canceller(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    runs: Mutex<Runs>,
}

/// C1.
#[derive(Default)]
struct Runs {
    /// How many have entered.
    entered: u64,
    under_way: Vec<(Ticket, Place)>,
}

/// A run among those of its canceller: slots are used again, tickets are not (C2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticket(u64);

/// A slot, as long as it is on the list (C1).
#[derive(Clone, Copy)]
struct Place(NonNull<Slot>);

// SAFETY: slots are `Sync`.
unsafe impl Send for Place {}

impl Canceller {
    /// A canceller of no run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the runs that are under way, and those that come later: nodes that have not begun are skipped.
    pub fn cancel(&self) {
        // ORDERING: Relaxed, the lock orders it with `enter`.
        self.0.cancelled.store(true, Ordering::Relaxed);
        for (_, place) in &self.runs().under_way {
            // SAFETY: C1, on the list.
            unsafe { place.0.as_ref() }.stop(Stopped::Cancelled);
        }
    }

    /// Whether [`Canceller::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed, a question for people.
        self.0.cancelled.load(Ordering::Relaxed)
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, slot: &Slot) -> Ticket {
        let mut runs = self.runs();
        let ticket = Ticket(runs.entered);
        runs.entered += 1;
        runs.under_way.push((ticket, Place(NonNull::from(slot))));
        if self.is_cancelled() {
            slot.stop(Stopped::Cancelled);
        }
        ticket
    }

    fn leave(&self, ticket: Ticket) {
        self.runs().under_way.retain(|run| run.0 != ticket);
    }

    /// Stops one run, if it is under way.
    fn stop(&self, ticket: Ticket, why: Stopped) {
        let runs = self.runs();
        if let Some((_, place)) = runs.under_way.iter().find(|run| run.0 == ticket) {
            // SAFETY: C1, on the list, which is locked.
            unsafe { place.0.as_ref() }.stop(why);
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// A run that can be stopped, until dropped (C1, C2).
#[derive(Default)]
pub(super) struct Watch {
    entered: Option<(Canceller, Ticket)>,
    timer: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.cancel();
        }
        if let Some((canceller, ticket)) = &self.entered {
            canceller.leave(*ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slot is the same one, and the deadline that comes late that of the first run.
    #[test]
    fn deadline_that_comes_late_stops_no_later_run() {
        let (graph, canceller) = (Graph::new(), Canceller::new());
        let slot = graph.take_slot();
        // SAFETY: the graph keeps its slots.
        let slot = unsafe { slot.as_ref() };
        let first = canceller.enter(slot);
        canceller.leave(first);
        let second = canceller.enter(slot);
        canceller.stop(first, Stopped::Deadline);
        assert_eq!(slot.stopped(), None);
        canceller.stop(second, Stopped::Deadline);
        assert_eq!(slot.stopped(), Some(Stopped::Deadline));
        canceller.leave(second);
    }
}
