//! Editing and looking: names, placeholders, erasing, limits, priorities, lists of nodes and edges.

use std::borrow::Cow;

use super::body::{Body, Step};
use super::build::Graph;
use super::limit::{Limit, Semaphore};
use super::node::{Node, NodeId, Nodes};
use super::plan::trait_bits;
use super::work::Hand;
use crate::task::state::Priority;

impl<'env> Graph<'env> {
    /// Adds a node that does nothing until [`Graph::fill`] gives it something to do.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let gate = g.placeholder("gate");
    /// g.run();
    /// g.fill(gate, || println!("open"));
    /// g.run();
    /// ```
    pub fn placeholder(&mut self, name: impl Into<Cow<'static, str>>) -> Node<()> {
        Node::new(self.add(name.into(), None, u32::MAX, 0))
    }

    /// Has `node` do something else from now on. Its edges stay.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let sum = AtomicU32::new(0);
    /// let mut g = filch::Graph::new();
    /// let node = g.placeholder("later");
    /// g.fill(node, || { sum.fetch_add(1, Relaxed); });
    /// g.run();
    /// g.fill(node, || { sum.fetch_add(10, Relaxed); });
    /// g.run();
    /// assert_eq!(sum.load(Relaxed), 11);
    /// ```
    ///
    /// # Panics
    /// If the node is of another graph, was erased, or decides about its successors.
    #[track_caller]
    pub fn fill(&mut self, node: Node<()>, f: impl Fn() + Send + Sync + 'env) {
        let index = self.index_of(node.id()) as usize;
        let parts = &mut self.parts.nodes[index];
        assert!(parts.traits & trait_bits::CONDITION == 0, "{node:?} decides about its successors");
        parts.body = Some(Body::boxed(move |_: &Hand<'_>| {
            f();
            Step::Done
        }));
        self.parts.inner.retain(|inner| inner.0 as usize != index);
        self.edit();
    }

    /// The name of a node; `""` if it has none.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || ());
    /// g.rename(a, "b");
    /// assert_eq!(g.name(a), "b");
    /// ```
    ///
    /// # Panics
    /// If the node is of another graph or was erased.
    #[track_caller]
    pub fn name(&self, node: impl Into<NodeId>) -> &str {
        let index = self.index_of(node.into());
        match self.parts.names.binary_search_by_key(&index, |named| named.0) {
            Ok(at) => &self.parts.names[at].1,
            Err(_) => "",
        }
    }

    /// Gives a node another name.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("", || ());
    /// g.rename(a, "a");
    /// assert_eq!(g.name(a), "a");
    /// ```
    ///
    /// # Panics
    /// As [`Graph::name`].
    #[track_caller]
    pub fn rename(&mut self, node: impl Into<NodeId>, name: impl Into<Cow<'static, str>>) {
        let index = self.index_of(node.into());
        let name = name.into();
        match self.parts.names.binary_search_by_key(&index, |named| named.0) {
            Ok(at) => self.parts.names[at].1 = name,
            Err(at) => self.parts.names.insert(at, (index, name)),
        }
    }

    /// Takes a node out, with its edges. Its closure is dropped, and its handles are good for nothing any more.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let [a, b, c] = ["a", "b", "c"].map(|name| g.node(name, || ()));
    /// g.linearize([a, b, c]);
    /// g.erase(b);
    /// assert_eq!((g.len(), g.edge_count()), (2, 0));
    /// ```
    ///
    /// # Panics
    /// As [`Graph::name`], or if other nodes take its output.
    #[track_caller]
    pub fn erase(&mut self, node: impl Into<NodeId>) {
        let id = node.into();
        let index = self.index_of(id);
        let parts = &mut self.parts.nodes[index as usize];
        let taken = parts.traits & (trait_bits::BORROWED | trait_bits::OWNED);
        assert!(taken == 0, "other nodes take the output of {id:?}");
        parts.traits = trait_bits::GONE;
        let body = parts.body.take();
        self.parts.gone += 1;
        self.parts.limits.remove(&index);
        self.parts.inner.retain(|inner| inner.0 != index);
        self.parts.edges.retain(|edge| edge.0 != index && edge.1 != index);
        self.edit();
        drop(body);
    }

    /// Has nodes begin only with `weight` permits of `semaphore`, which they give back at their end. Several semaphores for one node are taken
    /// in one order everywhere, so they cannot deadlock.
    ///
    /// ```
    /// use filch::graph::Semaphore;
    /// let memory = Semaphore::new(8);
    /// let mut g = filch::Graph::new();
    /// let (small, big) = (g.node("small", || ()), g.node("big", || ()));
    /// g.limit(small, &memory, 1);
    /// g.limit(big, &memory, 6);
    /// g.run();
    /// ```
    ///
    /// # Panics
    /// If a node is of another graph or was erased, or asks for more permits than there are.
    #[track_caller]
    pub fn limit(&mut self, nodes: impl Nodes, semaphore: &Semaphore, weight: u32) {
        nodes.each(&mut |node| {
            let index = self.index_of(node);
            let limits = self.parts.limits.entry(index).or_default();
            let id = semaphore.id();
            let at = match limits.binary_search_by_key(&id, |limit| limit.semaphore.id()) {
                Ok(at) => at,
                Err(at) => {
                    limits.insert(at, Limit { semaphore: semaphore.clone(), weight: 0 });
                    at
                }
            };
            let most = semaphore.most();
            let asked = u64::from(limits[at].weight) + u64::from(weight);
            assert!(asked <= most.into(), "{node:?} asks for {asked} permits of {most}");
            limits[at].weight += weight;
            self.mark(index, trait_bits::LIMITED);
        });
    }

    /// Has nodes come before or after others that are ready at the same time in the same run.
    ///
    /// ```
    /// use filch::Priority;
    /// let mut g = filch::Graph::new();
    /// let urgent = g.node("urgent", || ());
    /// g.prioritize(urgent, Priority::High);
    /// g.run();
    /// ```
    ///
    /// # Panics
    /// As [`Graph::precede`].
    #[track_caller]
    pub fn prioritize(&mut self, nodes: impl Nodes, priority: Priority) {
        let bits = match priority {
            Priority::High => trait_bits::HIGH,
            Priority::Normal => 0,
            Priority::Low => trait_bits::LOW,
        };
        nodes.each(&mut |node| {
            let index = self.index_of(node);
            self.parts.nodes[index as usize].traits &= !(trait_bits::HIGH | trait_bits::LOW);
            self.mark(index, bits);
        });
    }

    pub(super) fn mark(&mut self, index: u32, bits: u32) {
        self.edit();
        self.parts.nodes[index as usize].traits |= bits;
        self.parts.traits |= bits;
    }

    /// All nodes, in the order of their making.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
    /// assert!(g.nodes().eq([a.id(), b.id()]));
    /// ```
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let indices = 0..self.parts.nodes.len() as u32;
        indices.filter(|&index| !self.parts.is_gone(index)).map(|index| self.id_of(index))
    }

    /// All edges, in the order of their making.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
    /// g.precede(a, b);
    /// assert!(g.edges().eq([(a.id(), b.id())]));
    /// ```
    pub fn edges(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.parts.edges.iter().map(|&(from, to)| (self.id_of(from), self.id_of(to)))
    }
}
