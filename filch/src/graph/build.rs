//! Building: nodes and edges are appended to flat lists, and laid out when a run wants them (`plan`).
//!
//! G1. A node keeps its index for good; one that is erased leaves a gap.
//! G2. Editing needs the graph alone, so no run is under way, and drops the plan with its slots.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::body::{Arena, Body, Step};
use super::error::Cycle;
use super::flow::Inner;
use super::limit::Limit;
use super::node::{Node, NodeId, Nodes};
use super::output::Cells;
use super::params::{Called, Fallible, NodeFn, Params, Plain, Use};
use super::plan::{MAX_NODES, Plan, trait_bits};
use super::slot::Slots;
use super::work::Hand;
use crate::base::shim::{AtomicU64, OnceLock, Ordering};

/// A node while the graph is built.
pub(super) struct NodeParts<'env> {
    pub(super) body: Option<Body<'env>>,
    pub(super) traits: u32,
    /// Of its output (O1 of `output`).
    pub(super) cell: u32,
}

/// What a plan is made from.
pub(super) struct Parts<'env> {
    pub(super) nodes: Vec<NodeParts<'env>>,
    /// Of those that have one, by index.
    pub(super) names: Vec<(u32, Cow<'static, str>)>,
    pub(super) edges: Vec<(u32, u32)>,
    pub(super) cells: Cells,
    /// Every edge leads to a younger node, so there is no cycle.
    pub(super) forward: bool,
    /// What any node is or was.
    pub(super) traits: u32,
    /// By node, sorted by semaphore (L1 of `limit`).
    pub(super) limits: HashMap<u32, Vec<Limit>>,
    pub(super) gone: usize,
    /// Graphs inside of nodes, by index.
    pub(super) inner: Vec<(u32, Arc<dyn Inner + 'env>)>,
    /// Where bodies lie; dropped after them.
    arena: Arena,
}

impl Parts<'_> {
    /// The name of a node, or its number if it has none.
    pub(super) fn name(&self, index: u32) -> String {
        match self.names.binary_search_by_key(&index, |named| named.0) {
            Ok(at) => self.names[at].1.to_string(),
            Err(_) => format!("#{index}"),
        }
    }

    pub(super) fn is_gone(&self, index: u32) -> bool {
        self.nodes[index as usize].traits & trait_bits::GONE != 0
    }
}

/// A plan and the slots of its runs; does not move, because slots point to the plan.
pub(super) struct Prepared {
    pub(super) slots: Slots,
    pub(super) plan: Plan,
}

/// Work that is described once and run many times: nodes, and the order between them.
///
/// Nodes are closures that may borrow (`'env`). Where one has to come before another there is an edge; all
/// else may happen at the same time. See the [module](crate::graph) for what nodes can be and do.
///
/// ```
/// let mut g = filch::Graph::new();
/// let wash = g.node("wash", || println!("wash"));
/// let dry = g.node("dry", || println!("dry"));
/// let sing = g.node("sing", || println!("la la"));
/// g.precede(wash, dry);
/// g.run();
/// g.run();
/// # let _ = sing;
/// ```
pub struct Graph<'env> {
    id: u64,
    pub(super) parts: Parts<'env>,
    pub(super) prepared: OnceLock<Box<Prepared>>,
}

impl Default for Graph<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'env> Graph<'env> {
    /// A graph without nodes.
    ///
    /// ```
    /// let g = filch::Graph::new();
    /// assert!(g.is_empty());
    /// g.run();
    /// ```
    pub fn new() -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            // ORDERING: Relaxed, only uniqueness matters.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            parts: Parts {
                nodes: Vec::new(),
                names: Vec::new(),
                edges: Vec::new(),
                cells: Cells::default(),
                forward: true,
                traits: 0,
                limits: HashMap::new(),
                gone: 0,
                inner: Vec::new(),
                arena: Arena::default(),
            },
            prepared: OnceLock::new(),
        }
    }

    /// As [`Graph::new`], with room for so many nodes and edges.
    ///
    /// ```
    /// let mut g = filch::Graph::with_capacity(2, 1);
    /// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
    /// g.precede(a, b);
    /// assert_eq!(g.len(), 2);
    /// ```
    ///
    /// # Panics
    /// If the system has no memory for so many.
    #[track_caller]
    pub fn with_capacity(nodes: usize, edges: usize) -> Self {
        let mut graph = Self::new();
        let parts = &mut graph.parts;
        let room = parts.nodes.try_reserve(nodes).and_then(|()| parts.edges.try_reserve(edges));
        assert!(room.is_ok(), "no memory for a graph with {nodes} nodes and {edges} edges");
        graph
    }

    /// Adds a node that calls `f`. Give it a name, or `""`.
    ///
    /// A closure without parameters makes a node at once. One that takes the outputs of others makes a
    /// [`Draft`](crate::graph::Draft): [`Draft::after`](crate::graph::Draft::after) says whose. It takes them by shared reference, or, as an [`Own`](crate::graph::Own), by value.
    ///
    /// ```
    /// use filch::graph::Own;
    /// let mut g = filch::Graph::new();
    /// let words = g.node("words", || vec!["b", "a"]);
    /// let more = g.node("more", |Own(mut words): Own<Vec<&'static str>>| { words.push("c"); words }).after(words);
    /// let count = g.node("count", |words: &Vec<&str>| words.len()).after(&more);
    /// let text = g.node("text", |words: &Vec<&str>| words.join(" ")).after(&more);
    /// let run = g.run();
    /// assert_eq!((run.take(count), run.take(text)), (3, "b a c".to_owned()));
    /// ```
    pub fn node<M, F: NodeFn<'env, M>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: F,
    ) -> <F::Params as Params>::Made<'_, 'env, F, M, Called<Plain>, F::Output>
    where
        F::Output: Send,
    {
        <F::Params as Params>::make::<F, M, Called<Plain>>(self, name.into(), f)
    }

    /// As [`Graph::node`], of a closure that may fail: the node returns the value, and an error stops what depends on it.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let text = g.node("text", || "12");
    /// let number = g.try_node("parse", |text: &&str| text.parse::<u32>()).after(&text);
    /// assert_eq!(g.run().take(number), 12);
    /// ```
    pub fn try_node<M, T, E, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: F,
    ) -> <F::Params as Params>::Made<'_, 'env, F, M, Called<Fallible>, T>
    where
        F: NodeFn<'env, M, Output = Result<T, E>>,
        T: Send + 'env,
        E: Into<Box<dyn Error + Send + Sync>> + 'env,
    {
        <F::Params as Params>::make::<F, M, Called<Fallible>>(self, name.into(), f)
    }

    /// Adds a node that decides which of its successors runs next: that with the number which `f` returns, in the
    /// order in which the edges were made. If there is none, the branch ends.
    ///
    /// Its edges are weak: a successor does not wait for it, but runs when it is chosen, at once. So they may lead back.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// let rounds = AtomicUsize::new(0);
    /// let mut g = filch::Graph::new();
    /// let start = g.node("start", || ());
    /// let body = g.node("body", || { rounds.fetch_add(1, Relaxed); });
    /// let again = g.condition("again", || usize::from(rounds.load(Relaxed) == 3));
    /// let done = g.node("done", || ());
    /// g.linearize([start.id(), body.id(), again.id()]);
    /// g.precede(again, (body, done));
    /// g.run();
    /// drop(g);
    /// assert_eq!(rounds.into_inner(), 3);
    /// ```
    pub fn condition(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: impl Fn() -> usize + Send + Sync + 'env,
    ) -> Node<()> {
        let body = self.body(move |_: &Hand<'_>| Step::Pick(f().min(u32::MAX as usize) as u32));
        Node::new(self.add(name.into(), Some(body), u32::MAX, trait_bits::CONDITION))
    }

    /// As [`Graph::condition`], for a node that may choose several successors.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let sum = AtomicU32::new(0);
    /// let mut g = filch::Graph::new();
    /// let some = g.multi_condition("some", || [0, 2]);
    /// let nodes = [1, 10, 100].map(|n| { let sum = &sum; g.node("", move || { sum.fetch_add(n, Relaxed); }) });
    /// g.precede(some, nodes);
    /// g.run();
    /// assert_eq!(sum.load(Relaxed), 101);
    /// ```
    pub fn multi_condition<I: IntoIterator<Item = usize>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: impl Fn() -> I + Send + Sync + 'env,
    ) -> Node<()> {
        let body = self.body(move |hand: &Hand<'_>| hand.pick(f()));
        Node::new(self.add(name.into(), Some(body), u32::MAX, trait_bits::CONDITION))
    }

    /// A closure as the body of a node that is to be added.
    #[inline]
    pub(super) fn body<F>(&mut self, f: F) -> Body<'env>
    where
        F: Fn(&Hand<'_>) -> Step + Send + Sync + 'env,
    {
        // SAFETY: bodies are kept in the nodes of the graph, which are dropped before the arena.
        unsafe { Body::new(&mut self.parts.arena, f) }
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        name: Cow<'static, str>,
        body: Option<Body<'env>>,
        cell: u32,
        traits: u32,
    ) -> NodeId {
        self.edit();
        let index = self.parts.nodes.len();
        assert!(index < MAX_NODES, "a graph has at most {MAX_NODES} nodes");
        self.parts.traits |= traits;
        self.parts.nodes.push(NodeParts { body, traits, cell });
        if !name.is_empty() {
            self.parts.names.push((index as u32, name));
        }
        NodeId { graph: self.id, index: index as u32 }
    }

    /// The cell of an output that a node takes (D2 of `params`).
    #[track_caller]
    pub(super) fn claim_output(&mut self, id: NodeId, as_: Use) -> u32 {
        let index = self.index_of(id);
        let node = &mut self.parts.nodes[index as usize];
        assert!(
            node.traits & trait_bits::OWNED == 0
                && (as_ == Use::Borrowed || node.traits & trait_bits::BORROWED == 0),
            "the output of {id:?} is taken by value, so no other node may take it"
        );
        node.traits |= match as_ {
            Use::Borrowed => trait_bits::BORROWED,
            Use::Owned => trait_bits::OWNED,
        };
        node.cell
    }

    /// G2.
    #[inline]
    pub(super) fn edit(&mut self) {
        if self.prepared.get().is_some() {
            self.clear_plan();
        }
    }

    #[cold]
    fn clear_plan(&mut self) {
        self.prepared.take();
    }

    pub(super) fn id_of(&self, index: u32) -> NodeId {
        NodeId { graph: self.id, index }
    }

    /// The index of a node of this graph that is there.
    #[track_caller]
    #[inline]
    pub(super) fn index_of(&self, id: NodeId) -> u32 {
        assert!(id.graph == self.id, "{id:?} is a node of another graph");
        assert!(self.parts.gone == 0 || !self.parts.is_gone(id.index), "{id:?} has been erased");
        id.index
    }

    /// Has `first` come before each of `then`.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let [a, b, c] = ["a", "b", "c"].map(|name| g.node(name, || ()));
    /// g.precede(a, [b, c]);
    /// assert_eq!(g.successors(a), 2);
    /// ```
    ///
    /// # Panics
    /// If a node is of another graph or was erased.
    #[track_caller]
    pub fn precede(&mut self, first: impl Nodes, then: impl Nodes) {
        first.each(&mut |from| then.each(&mut |to| self.edge(from, to)));
    }

    /// Has `then` come after each of `first`.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let [a, b, c] = ["a", "b", "c"].map(|name| g.node(name, || ()));
    /// g.succeed(c, [a, b]);
    /// assert_eq!(g.predecessors(c), 2);
    /// ```
    ///
    /// # Panics
    /// As [`Graph::precede`].
    #[track_caller]
    pub fn succeed(&mut self, then: impl Nodes, first: impl Nodes) {
        then.each(&mut |to| first.each(&mut |from| self.edge(from, to)));
    }

    /// Has each node come before the next.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let all = ["a", "b", "c"].map(|name| g.node(name, || ()));
    /// g.linearize(all);
    /// assert_eq!(g.edge_count(), 2);
    /// ```
    ///
    /// # Panics
    /// As [`Graph::precede`].
    #[track_caller]
    pub fn linearize(&mut self, nodes: impl Nodes) {
        let mut last = None;
        nodes.each(&mut |node| {
            if let Some(last) = last.replace(node) {
                self.edge(last, node);
            }
        });
    }

    #[track_caller]
    #[inline]
    pub(super) fn edge(&mut self, from: NodeId, to: NodeId) {
        let edge = (self.index_of(from), self.index_of(to));
        self.edit();
        self.parts.forward &= edge.0 < edge.1;
        assert!(self.parts.edges.len() < u32::MAX as usize, "a graph has at most 2^32 - 1 edges");
        self.parts.edges.push(edge);
    }

    /// How many nodes there are.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("a", || ());
    /// assert_eq!(g.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.parts.nodes.len() - self.parts.gone
    }

    /// Whether there is no node.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || ());
    /// g.erase(a);
    /// assert!(g.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many edges there are.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || 1);
    /// g.node("b", |a: &i32| a + 1).after(&a);
    /// assert_eq!(g.edge_count(), 1);
    /// ```
    pub fn edge_count(&self) -> usize {
        self.parts.edges.len()
    }

    /// How many edges lead from `node`.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let [a, b] = ["a", "b"].map(|name| g.node(name, || ()));
    /// g.precede(a, b);
    /// assert_eq!((g.successors(a), g.successors(b)), (1, 0));
    /// ```
    ///
    /// # Panics
    /// If the node is of another graph or was erased.
    #[track_caller]
    pub fn successors(&self, node: impl Into<NodeId>) -> usize {
        let index = self.index_of(node.into());
        self.parts.edges.iter().filter(|edge| edge.0 == index).count()
    }

    /// How many edges lead to `node`, weak ones included.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let [a, b] = ["a", "b"].map(|name| g.node(name, || ()));
    /// g.precede(a, b);
    /// assert_eq!((g.predecessors(a), g.predecessors(b)), (0, 1));
    /// ```
    ///
    /// # Panics
    /// If the node is of another graph or was erased.
    #[track_caller]
    pub fn predecessors(&self, node: impl Into<NodeId>) -> usize {
        let index = self.index_of(node.into());
        self.parts.edges.iter().filter(|edge| edge.1 == index).count()
    }

    /// Lays the graph out for its runs; else the first one does.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || ());
    /// assert!(g.prepare().is_ok());
    /// g.precede(a, a);
    /// assert!(g.prepare().is_err());
    /// ```
    ///
    /// # Errors
    /// If nodes wait for each other in a circle, or every node comes after another, so that no run could begin.
    pub fn prepare(&self) -> Result<(), Cycle> {
        self.plan().map(|_| ())
    }

    pub(super) fn plan(&self) -> Result<&Prepared, Cycle> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let prepared = Box::new(Prepared { slots: Slots::new(), plan: Plan::new(&self.parts)? });
        Ok(self.prepared.get_or_init(|| prepared))
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("nodes", &self.len())
            .field("edges", &self.edge_count())
            .finish_non_exhaustive()
    }
}
