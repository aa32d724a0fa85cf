//! Handles of nodes: small, copied freely, and good for the graph that made them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// A node, whatever it returns.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || 1);
/// let b = g.node("b", || "two");
/// let all = [a.id(), b.id()];
/// let last = g.node("last", || ());
/// g.succeed(last, all);
/// assert_eq!(g.predecessors(last), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// Of 64 bits: subflows make graphs for as long as the program runs, and two of one number would take each other's nodes.
    pub(super) graph: u64,
    pub(super) index: u32,
}

impl NodeId {
    /// Its place among the nodes of its graph, in the order of their making.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
    /// assert_eq!((a.id().index(), b.id().index()), (0, 1));
    /// ```
    pub fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.index)
    }
}

/// A node that returns a `T`: a copyable name for it, which borrows nothing.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a: filch::graph::Node<u32> = g.node("a", || 7);
/// assert_eq!(g.run().take(a), 7);
/// ```
pub struct Node<T> {
    id: NodeId,
    output: PhantomData<fn() -> T>,
}

impl<T> Node<T> {
    pub(super) fn new(id: NodeId) -> Self {
        Self { id, output: PhantomData }
    }

    /// The node without the type of what it returns.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let (a, b) = (g.node("a", || 1), g.node("b", || "two"));
    /// let all = vec![a.id(), b.id()];
    /// g.linearize(all);
    /// ```
    pub fn id(self) -> NodeId {
        self.id
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Node<T> {}

impl<T> PartialEq for Node<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<T> Eq for Node<T> {}

impl<T> Hash for Node<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.id.index)
    }
}

impl<T> From<Node<T>> for NodeId {
    fn from(node: Node<T>) -> Self {
        node.id
    }
}

/// One node or several: handles, references to them, tuples, arrays, slices and vectors of them.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || ());
/// let rest: Vec<_> = ["b", "c"].map(|name| g.node(name, || ())).into();
/// g.precede(a, &rest);
/// assert_eq!(g.successors(a), 2);
/// ```
pub trait Nodes {
    /// Calls `f` with each of them, in order.
    fn each(&self, f: &mut impl FnMut(NodeId));
}

impl Nodes for NodeId {
    #[inline(always)]
    fn each(&self, f: &mut impl FnMut(NodeId)) {
        f(*self);
    }
}

impl<T> Nodes for Node<T> {
    #[inline(always)]
    fn each(&self, f: &mut impl FnMut(NodeId)) {
        f(self.id);
    }
}

impl<N: Nodes + ?Sized> Nodes for &N {
    #[inline(always)]
    fn each(&self, f: &mut impl FnMut(NodeId)) {
        (**self).each(f);
    }
}

impl<N: Nodes> Nodes for [N] {
    #[inline(always)]
    fn each(&self, f: &mut impl FnMut(NodeId)) {
        self.iter().for_each(|node| node.each(f));
    }
}

impl<N: Nodes, const K: usize> Nodes for [N; K] {
    #[inline(always)]
    fn each(&self, f: &mut impl FnMut(NodeId)) {
        self.as_slice().each(f);
    }
}

impl<N: Nodes> Nodes for Vec<N> {
    #[inline(always)]
    fn each(&self, f: &mut impl FnMut(NodeId)) {
        self.as_slice().each(f);
    }
}

macro_rules! tuple_of_nodes {
    ($($name:ident $place:tt),*) => {
        impl<$($name: Nodes),*> Nodes for ($($name,)*) {
            #[inline(always)]
            fn each(&self, f: &mut impl FnMut(NodeId)) {
                $(self.$place.each(f);)*
            }
        }
    };
}
tuple_of_nodes!(A 0);
tuple_of_nodes!(A 0, B 1);
tuple_of_nodes!(A 0, B 1, C 2);
tuple_of_nodes!(A 0, B 1, C 2, D 3);
tuple_of_nodes!(A 0, B 1, C 2, D 3, E 4);
tuple_of_nodes!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple_of_nodes!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_of_nodes!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
