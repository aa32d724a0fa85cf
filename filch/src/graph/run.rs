//! Runs: how one begins, what its caller does meanwhile, and what it leaves.
//!
//! R1. `run` returns, by value or by panic, only when no node of the run is at work or can begin any more; so
//!     nodes may borrow from outside of the graph. No value that could be forgotten guards this: the function itself waits.
//! R2. While a [`Run`] lives its slot is its own, and so are the outputs in it.
//! R3. A run belongs to the group of its caller: what nodes spawn does, too.

use std::cell::RefCell;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, iter, mem};

use super::build::Graph;
use super::error::{Cause, Failure, RunError, Stopped};
use super::node::{Node, NodeId};
use super::output::{self, Refusal};
use super::runner::Runner;
use super::slot::{Faults, OnFailure, Slot};
use super::work;
use crate::block_on::AbortOnUnwind;
use crate::fork;
use crate::sched::nodes::Helped;
use crate::sched::worker::Worker;
use crate::task::context;
use crate::task::group::guard_user_code;

/// A run that is over, with what its nodes returned.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || String::from("abc"));
/// let run = g.run();
/// assert_eq!(run.take(a), "abc");
/// assert_eq!(run.get(a), None);
/// ```
pub struct Run<'g, 'env> {
    graph: Kept<'g, 'env>,
    slot: NonNull<Slot>,
    /// Nodes whose output takes no room and was taken.
    taken: RefCell<Vec<NodeId>>,
}

/// A graph that is there for as long as a run needs it.
enum Kept<'g, 'env> {
    Lent(&'g Graph<'env>),
    Shared(Arc<Graph<'env>>),
}

impl<'env> Deref for Kept<'_, 'env> {
    type Target = Graph<'env>;

    fn deref(&self) -> &Graph<'env> {
        match self {
            Self::Lent(graph) => graph,
            Self::Shared(graph) => graph,
        }
    }
}

impl<'env> Run<'_, 'env> {
    /// What `node` returned; `None` if it was taken or the node did not run.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || 7);
    /// assert_eq!(g.run().get(a), Some(&7));
    /// ```
    ///
    /// # Panics
    /// If the node is of another graph.
    #[track_caller]
    pub fn get<T: Send + 'env>(&self, node: Node<T>) -> Option<&T> {
        let cell = self.cell_of(node)?;
        // SAFETY: the handle tells the type of its cell. R2, and the run is over.
        unsafe { self.slot().outputs.look(cell) }
    }

    /// Moves out what `node` returned.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || vec![1, 2, 3]);
    /// assert_eq!(g.run().take(a), [1, 2, 3]);
    /// ```
    ///
    /// # Panics
    /// If the node is of another graph, did not run, or its output was taken or looked at before.
    #[track_caller]
    pub fn take<T: Send + 'env>(&self, node: Node<T>) -> T {
        let Some(cell) = self.cell_of(node) else { panic!("{node:?} did not run") };
        if !output::is_stored::<T>() {
            let mut taken = self.taken.borrow_mut();
            assert!(!taken.contains(&node.id()), "the output of {node:?} was taken before");
            taken.push(node.id());
        }
        // SAFETY: the handle tells the type of its cell, and the run is over.
        match unsafe { self.slot().outputs.take(cell) } {
            Ok(value) => value,
            Err(Refusal::Empty) => panic!("{node:?} did not run, or its output was taken before"),
            Err(Refusal::Busy) => panic!("the output of {node:?} is borrowed"),
        }
    }

    /// The cell of a node of this graph, if its state tells whether the node ran.
    #[track_caller]
    fn cell_of<T>(&self, node: Node<T>) -> Option<u32> {
        let index = self.graph.index_of(node.id());
        let known = output::is_stored::<T>() || !self.slot().plan().loops;
        known.then(|| self.graph.parts.nodes[index as usize].cell)
    }

    fn slot(&self) -> &Slot {
        // SAFETY: R2.
        unsafe { self.slot.as_ref() }
    }
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: R2, the run is over.
        unsafe { self.graph.give_back(self.slot) };
    }
}

impl fmt::Debug for Run<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("graph", &*self.graph).finish_non_exhaustive()
    }
}

impl<'g, 'env> Run<'g, 'env> {
    /// The run of a slot that is over (R2), or what went wrong in it.
    fn of(graph: Kept<'g, 'env>, slot: NonNull<Slot>) -> Result<Self, RunError> {
        let run = Self { graph, slot, taken: RefCell::default() };
        match run.slot().take_faults() {
            None if run.slot().stopped().is_none() => Ok(run),
            faults => Err(run.graph.error(faults.unwrap_or_default(), run.slot().stopped())),
        }
    }
}

impl<'env> Graph<'env> {
    /// Runs every node once, in an order that the edges allow, and returns when all have ended.
    ///
    /// Works on any thread, which runs nodes itself meanwhile, and nothing else: inside a node or a job that is how
    /// a worker runs a graph without being blocked. Several threads may run one graph at the same time. From the second
    /// run on, nothing is allocated and nothing locked, but for the two locks by which a thread that is no worker becomes one meanwhile.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || 1);
    /// assert_eq!(g.run().take(a), 1);
    /// ```
    ///
    /// # Panics
    /// If a node panics or returns an error, once all have ended, or if the graph cannot run ([`Cycle`](crate::graph::Cycle)).
    #[track_caller]
    pub fn run(&self) -> Run<'_, 'env> {
        self.runner().run()
    }

    /// As [`Graph::run`], but returns what went wrong.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("bad", || panic!("no"));
    /// assert_eq!(g.try_run().unwrap_err().to_string(), "node `bad` panicked: no");
    /// ```
    ///
    /// # Errors
    /// If a node failed or the run was stopped.
    ///
    /// # Panics
    /// If the graph cannot run ([`Cycle`](crate::graph::Cycle)).
    #[track_caller]
    pub fn try_run(&self) -> Result<Run<'_, 'env>, RunError> {
        self.runner().try_run()
    }

    /// Runs the graph so many times, one after the other.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let runs = AtomicU32::new(0);
    /// let mut g = filch::Graph::new();
    /// g.node("count", || { runs.fetch_add(1, Relaxed); });
    /// g.run_n(3);
    /// assert_eq!(runs.load(Relaxed), 3);
    /// ```
    ///
    /// # Panics
    /// As [`Graph::run`].
    #[track_caller]
    pub fn run_n(&self, times: usize) {
        for _ in 0..times {
            self.run();
        }
    }

    /// Runs the graph until `done` says so, at least once.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let runs = AtomicU32::new(0);
    /// let mut g = filch::Graph::new();
    /// g.node("count", || { runs.fetch_add(1, Relaxed); });
    /// g.run_until(|_| runs.load(Relaxed) == 5);
    /// assert_eq!(runs.load(Relaxed), 5);
    /// ```
    ///
    /// # Panics
    /// As [`Graph::run`].
    #[track_caller]
    pub fn run_until(&self, mut done: impl FnMut(&Run<'_, 'env>) -> bool) {
        while !done(&self.run()) {}
    }

    /// Runs that are not as by default.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("a", || ());
    /// g.runner().on_failure(filch::graph::OnFailure::Cancel).run();
    /// ```
    pub fn runner(&self) -> Runner<'_, 'env> {
        Runner::new(self)
    }

    /// Takes a slot for a run, if there is anything to run.
    #[track_caller]
    pub(super) fn take_slot(&self) -> NonNull<Slot> {
        let prepared = self.plan().unwrap_or_else(|cycle| panic!("{cycle}"));
        prepared.slots.take(&prepared.plan, &self.parts.cells)
    }

    /// Empties a slot and gives it back.
    ///
    /// # Safety
    /// The slot is one of this graph, its run is over, and the caller gives it up.
    pub(super) unsafe fn give_back(&self, slot: NonNull<Slot>) {
        // SAFETY: the graph keeps its slots.
        let slot = unsafe { slot.as_ref() };
        // SAFETY: by the caller's promise.
        unsafe { slot.outputs.clear(&self.parts.cells) };
        // SAFETY: by the caller's promise.
        unsafe { slot.give_back() };
    }

    pub(super) fn error(&self, faults: Faults, stopped: Option<Stopped>) -> RunError {
        let id = |index| self.id_of(index);
        let failures = faults.failures.into_iter().map(|(index, cause)| {
            let name = self.parts.name(index);
            Failure { node: id(index), name, cause }
        });
        let skipped = faults.skipped.into_iter().map(id).collect();
        RunError { failures: failures.collect(), skipped, stopped }
    }

    /// Runs in `slot` and waits (R1).
    pub(super) fn run_in(&self, slot: &Slot, on_failure: OnFailure) {
        let [first, rest @ ..] = &*slot.plan().sources else { return };
        fork::on_worker(move || {
            let (group, task) = context::with(|cx| (cx.group.get(), cx.task.get()));
            slot.begin(group, task, on_failure);
            // R1: nothing may unwind past nodes that borrow.
            let abort = AbortOnUnwind;
            let source = |&index| work::source(slot, index);
            work::from_caller(slot, source(first), rest.iter().rev().map(source));
            wait(slot);
            mem::forget(abort);
        });
    }
}

impl<'g, 'env> Runner<'g, 'env> {
    /// As [`Graph::try_run`].
    ///
    /// ```
    /// use filch::graph::Canceller;
    /// let canceller = Canceller::new();
    /// let mut g = filch::Graph::new();
    /// g.node("a", || ());
    /// assert!(g.runner().canceller(&canceller).try_run().is_ok());
    /// ```
    ///
    /// # Errors
    /// If a node failed or the run was stopped.
    ///
    /// # Panics
    /// If the graph cannot run ([`Cycle`](crate::graph::Cycle)).
    #[track_caller]
    pub fn try_run(&self) -> Result<Run<'g, 'env>, RunError> {
        self.run_slot(self.graph.take_slot())
    }

    /// Runs in a slot that was taken for it.
    pub(super) fn run_slot(&self, slot: NonNull<Slot>) -> Result<Run<'g, 'env>, RunError> {
        // SAFETY: the graph keeps its slots.
        let this = unsafe { slot.as_ref() };
        let watch = self.watch(this);
        self.graph.run_in(this, self.on_failure);
        drop(watch);
        Run::of(Kept::Lent(self.graph), slot)
    }

    /// As [`Graph::run`].
    ///
    /// ```
    /// use filch::graph::Canceller;
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || 1);
    /// assert_eq!(g.runner().canceller(&Canceller::new()).run().take(a), 1);
    /// ```
    ///
    /// # Panics
    /// As [`Graph::run`].
    #[track_caller]
    pub fn run(&self) -> Run<'g, 'env> {
        self.try_run().unwrap_or_else(|error| raise(error))
    }
}

/// Has the failure of a run go on as a panic.
#[track_caller]
pub(super) fn raise(mut error: RunError) -> ! {
    if let Some(Failure { cause: Cause::Panic(_), .. }) = error.failures.first()
        && let Failure { cause: Cause::Panic(payload), .. } = error.failures.swap_remove(0)
    {
        // What others failed with is dropped before, not while it unwinds.
        guard_user_code(|| drop(error));
        resume_unwind(payload)
    }
    panic!("{error}")
}

/// The run of a slot whose graph is shared.
pub(super) fn shared_run(
    graph: Arc<Graph<'static>>,
    slot: NonNull<Slot>,
) -> Result<Run<'static, 'static>, RunError> {
    Run::of(Kept::Shared(graph), slot)
}

/// Waits for a run that this thread began, and runs nodes of it meanwhile.
fn wait(slot: &Slot) {
    let is_done = || slot.ending.is_done();
    // SAFETY: used within this call only.
    if let Some(worker) = unsafe { Worker::current() }
        && work::has_deque()
        && worker.help_run(slot.run(), is_done, |node| work::from_caller(slot, node, iter::empty()))
            == Helped::Done
    {
        return;
    }
    if is_done() {
        return;
    }
    while slot.ending.register(&slot.sleeper.waker) {
        slot.sleeper.sleep_in_run();
    }
}
