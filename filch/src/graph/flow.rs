//! Graphs inside of nodes: subflows, modules, and nodes that run others.
//!
//! F1. A subflow or module runs inside its node: the worker that has the node runs the inner graph, helped by all, and the node's
//!     successors come after it. It is the same as calling `run` in a node.
//! F2. A failure inside is one of the node, which tells the path of names.

use std::borrow::Cow;
use std::ops::Deref;

use super::body::{Body, Step};
use super::build::Graph;
use super::error::Cause;
use super::node::{Node, NodeId};
use super::plan::trait_bits;
use super::work::Hand;

/// Runs `graph` as a part of the node of `hand` (F1).
fn run_inside(graph: &Graph<'_>, hand: &Hand<'_>) -> Step {
    match graph.runner().on_failure(hand.slot.on_failure.get()).try_run() {
        Ok(_) => Step::Done,
        Err(error) => hand.fail(Cause::Inner(Box::new(error))),
    }
}

impl<'env> Graph<'env> {
    /// Adds a node whose work is a graph that `f` makes each time it runs. What comes after the node comes after all of it.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let sum = AtomicU32::new(0);
    /// let mut g = filch::Graph::new();
    /// let parts = g.subflow("parts", |sub| {
    ///     for n in 1..=4 {
    ///         let sum = &sum;
    ///         sub.node("", move || { sum.fetch_add(n, Relaxed); });
    ///     }
    /// });
    /// let check = g.node("check", || assert_eq!(sum.load(Relaxed), 10));
    /// g.precede(parts, check);
    /// g.run();
    /// ```
    pub fn subflow(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: impl Fn(&mut Graph<'env>) + Send + Sync + 'env,
    ) -> Node<()> {
        let body = Body::new(move |hand: &Hand<'_>| {
            let mut graph = Graph::new();
            f(&mut graph);
            run_inside(&graph, hand)
        });
        Node::new(self.add(name.into(), Some(body), u32::MAX, 0))
    }

    /// As [`Graph::subflow`], of a graph that is made when the node first runs, and kept for the runs after.
    pub fn retained_subflow(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: impl Fn(&mut Graph<'env>) + Send + Sync + 'env,
    ) -> Node<()> {
        let kept = std::sync::OnceLock::new();
        let body = Body::new(move |hand: &Hand<'_>| {
            let graph = kept.get_or_init(|| {
                let mut graph = Graph::new();
                f(&mut graph);
                graph
            });
            run_inside(graph, hand)
        });
        Node::new(self.add(name.into(), Some(body), u32::MAX, 0))
    }

    /// Adds a node that runs another graph: a reference to one, or an `Arc`. One graph may be a module several times.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let runs = AtomicU32::new(0);
    /// let mut inner = filch::Graph::new();
    /// inner.node("count", || { runs.fetch_add(1, Relaxed); });
    /// let mut g = filch::Graph::new();
    /// let (first, second) = (g.module("first", &inner), g.module("second", &inner));
    /// g.precede(first, second);
    /// g.run();
    /// assert_eq!(runs.load(Relaxed), 2);
    /// ```
    pub fn module<'inner: 'env>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        graph: impl Deref<Target = Graph<'inner>> + Send + Sync + 'env,
    ) -> Node<()> {
        let body = Body::new(move |hand: &Hand<'_>| run_inside(&graph, hand));
        Node::new(self.add(name.into(), Some(body), u32::MAX, 0))
    }

    /// Adds a node that can run others of its graph, whatever they wait for.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let runs = AtomicU32::new(0);
    /// let mut g = filch::Graph::new();
    /// let never = g.condition("never", || 1);
    /// let asleep = g.node("asleep", || { runs.fetch_add(1, Relaxed); });
    /// g.precede(never, asleep);
    /// g.scheduler("wake it", move |s| s.schedule(asleep));
    /// g.run();
    /// assert_eq!(runs.load(Relaxed), 1);
    /// ```
    pub fn scheduler(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: impl Fn(&Scheduler<'_, '_>) + Send + Sync + 'env,
    ) -> Node<()> {
        let graph = self.id_of(0).graph;
        let body = Body::new(move |hand: &Hand<'_>| {
            f(&Scheduler { hand, graph });
            Step::Done
        });
        Node::new(self.add(name.into(), Some(body), u32::MAX, trait_bits::SCHEDULES))
    }
}

/// What a node of [`Graph::scheduler`] is given.
pub struct Scheduler<'a, 'b> {
    hand: &'a Hand<'b>,
    graph: u64,
}

impl Scheduler<'_, '_> {
    /// Runs a node of this graph now, as if a condition had chosen it.
    ///
    /// # Panics
    /// If the node is of another graph.
    #[track_caller]
    pub fn schedule(&self, node: impl Into<NodeId>) {
        let id = node.into();
        assert!(id.graph == self.graph, "{id:?} is a node of another graph");
        self.hand.schedule(id.index);
    }
}

impl std::fmt::Debug for Scheduler<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}
