//! Runs that go on by themselves: awaited, waited for, cancelled or let go.
//!
//! H1. The run keeps its graph and a unit of its group until it is over (S4 of `slot`), so its handle may be dropped or forgotten at any time.
//! H2. The slot is the handle's until its run is taken or the handle dropped; from then on the run's own (N3 of `ending`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::build::Graph;
use super::ending::Keeper;
use super::errand;
use super::error::{Cause, RunError, Stopped};
use super::run::{self, Run};
use super::slot::{OnFailure, Slot};
use crate::base::process::Process;
use crate::pool::Pool;
use crate::sched::blocking::{wait_while, wait_while_in};
use crate::spawn::{self, admit};
use crate::task::budget;
use crate::task::context::{self, Unserved};
use crate::task::group::{Fallout, Group, guard_user_code};

/// A run that is under way; see [`Graph::run_async`].
///
/// Awaited, it gives the [`Run`], or panics if a node failed; [`RunHandle::outcome`] gives the error instead. Dropped, it lets the run
/// go on in its group.
///
/// ```
/// use std::sync::Arc;
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || 7);
/// let g = Arc::new(g);
/// let run = filch::block_on(async { g.run_async().await });
/// assert_eq!(run.take(a), 7);
/// ```
#[must_use = "a handle that is dropped lets its run go on by itself"]
pub struct RunHandle {
    /// `None` once the run was taken.
    graph: Option<Arc<Graph<'static>>>,
    slot: NonNull<Slot>,
    /// Of a hive that nobody ran when the run began (B4 of `sched/blocking`).
    unserved: Option<Arc<Pool>>,
    /// The one in which the run goes on.
    process: Process,
}

// SAFETY: H2, the slot is `Sync`, and its outputs are `Send`.
unsafe impl Send for RunHandle {}

impl Graph<'static> {
    /// Begins a run that goes on by itself, and returns its handle.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let mut g = filch::Graph::new();
    /// g.node("a", || ());
    /// let g = Arc::new(g);
    /// let (first, second) = (g.run_async(), g.run_async());
    /// filch::block_on(async { (first.await, second.await) });
    /// ```
    ///
    /// # Panics
    /// If the graph has a cycle, or the runtime has shut down.
    #[track_caller]
    pub fn run_async(self: &Arc<Self>) -> RunHandle {
        self.start(OnFailure::default())
    }

    #[track_caller]
    pub(super) fn start(self: &Arc<Self>, on_failure: OnFailure) -> RunHandle {
        let slot = self.take_slot();
        let (graph, process) = (Some(self.clone()), Process::this());
        let mut handle = RunHandle { graph, slot, process, unserved: None };
        // SAFETY: taken just now.
        let this = unsafe { slot.as_ref() };
        if this.plan().sources.is_empty() {
            return handle;
        }
        spawn::current(|shared, group, member| {
            assert!(admit(shared, group, member), "the runtime has shut down");
            this.keep.set(Some(self.clone()));
            this.begin(group, std::ptr::null(), on_failure);
            handle.unserved = shared.pool.is_unserved().then(|| shared.pool.clone());
        });
        errand::send_sources(slot);
        handle
    }

    /// Ends a run that nobody waits for: its outputs go, and a panic in it goes to the group, that of the caller if the run has none
    /// any more.
    ///
    /// # Safety
    /// The slot is one of this graph, its run is over, and the caller gives it up.
    pub(super) unsafe fn discard(&self, slot: NonNull<Slot>, group: Option<&Group>) {
        // SAFETY: the graph keeps its slots.
        let this = unsafe { slot.as_ref() };
        let faults = this.take_faults().unwrap_or_default();
        for (index, cause) in faults.failures {
            let Cause::Panic(payload) = cause else {
                guard_user_code(|| drop(cause));
                continue;
            };
            let fallout = Fallout {
                payload,
                task: context::with(|cx| cx.fresh_id()),
                name: Some(self.parts.name(index).into()),
                site: std::panic::Location::caller(),
            };
            match group {
                Some(group) => group.deliver(fallout),
                None => spawn::current(|_, group, _| group.deliver(fallout)),
            }
        }
        // SAFETY: by the caller's promise.
        unsafe { self.give_back(slot) };
    }
}

impl RunHandle {
    fn slot(&self) -> &Slot {
        // SAFETY: H2, the graph that it holds keeps the slot.
        unsafe { self.slot.as_ref() }
    }

    /// Whether the run is over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let mut g = filch::Graph::new();
    /// g.async_node("never", std::future::pending::<()>);
    /// let run = Arc::new(g).run_async();
    /// assert!(!run.is_finished());
    /// run.cancel();
    /// assert!(run.wait_outcome().is_err());
    /// ```
    pub fn is_finished(&self) -> bool {
        self.graph.is_none() || self.slot().ending.is_done()
    }

    /// Stops the run: nodes that have not begun are skipped, and futures that wait are dropped. A run that is over stays as it is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || std::thread::yield_now());
    /// let g = Arc::new(g);
    /// let run = g.run_async();
    /// run.cancel();
    /// let _done_or_not = run.wait_outcome();
    /// # let _ = a;
    /// ```
    pub fn cancel(&self) {
        if !self.is_finished() {
            self.slot().stop(Stopped::Cancelled).ring();
        }
    }

    /// As the handle itself when awaited, with the error instead of a panic.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let mut g = filch::Graph::new();
    /// g.node("bad", || panic!("no"));
    /// let g = Arc::new(g);
    /// let error = filch::block_on(async { g.run_async().outcome().await }).unwrap_err();
    /// assert_eq!(error.failures()[0].name(), "bad");
    /// ```
    pub fn outcome(self) -> RunOutcome {
        RunOutcome(self)
    }

    /// Blocks until the run is over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || 7);
    /// let g = Arc::new(g);
    /// assert_eq!(g.run_async().wait().take(a), 7);
    /// ```
    ///
    /// # Panics
    /// If a node failed or the run was stopped.
    #[track_caller]
    pub fn wait(self) -> Run<'static, 'static> {
        self.wait_outcome().unwrap_or_else(|error| run::raise(error))
    }

    /// Blocks until the run is over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let mut g = filch::Graph::new();
    /// g.node("bad", || panic!("no"));
    /// let error = Arc::new(g).run_async().wait_outcome().unwrap_err();
    /// assert_eq!(error.failures()[0].name(), "bad");
    /// ```
    ///
    /// # Errors
    /// If a node failed or the run was stopped.
    ///
    /// # Panics
    /// If the run was taken already.
    #[track_caller]
    pub fn wait_outcome(mut self) -> Result<Run<'static, 'static>, RunError> {
        assert!(self.graph.is_some(), "the run was taken");
        self.check_process();
        let register = |waker: &Waker| self.slot().ending.register(waker);
        match &self.unserved {
            Some(pool) => wait_while_in(pool, || Unserved::Run.to_string(), register),
            None => wait_while(register),
        }
        self.take()
    }

    /// Refuses to wait in a forked child (W1 of `sched/forked`). What is over is there.
    #[track_caller]
    fn check_process(&self) {
        if !self.is_finished() {
            self.process.check();
        }
    }

    fn take(&mut self) -> Result<Run<'static, 'static>, RunError> {
        let graph = self.graph.take().expect("a run is taken once");
        run::shared_run(graph, self.slot)
    }

    #[track_caller]
    fn poll_outcome(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Run<'static, 'static>, RunError>> {
        assert!(self.graph.is_some(), "polled after its end");
        self.check_process();
        if self.slot().ending.register(cx.waker()) {
            if self.unserved.as_ref().is_some_and(|pool| pool.is_unserved()) {
                context::with(|cx| cx.unserved.set(Some(Unserved::Run)));
            }
            return Poll::Pending;
        }
        Poll::Ready(self.take())
    }
}

impl Future for RunHandle {
    type Output = Run<'static, 'static>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll_counted(cx, |cx| self.poll_outcome(cx))
            .map(|outcome| outcome.unwrap_or_else(|error| run::raise(error)))
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        let Some(graph) = &self.graph else { return };
        if self.slot().ending.let_go() == Keeper::Caller {
            // SAFETY: H2, the run is over and ours.
            unsafe { graph.discard(self.slot, None) };
        }
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// The future of [`RunHandle::outcome`].
///
/// ```
/// use std::sync::Arc;
/// let mut g = filch::Graph::new();
/// g.node("a", || ());
/// let outcome: filch::graph::RunOutcome = Arc::new(g).run_async().outcome();
/// assert!(filch::block_on(outcome).is_ok());
/// ```
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct RunOutcome(RunHandle);

impl Future for RunOutcome {
    type Output = Result<Run<'static, 'static>, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        budget::poll_counted(cx, |cx| self.0.poll_outcome(cx))
    }
}
