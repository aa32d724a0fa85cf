//! Typed edges: closures that take what other nodes returned.
//!
//! D1. A parameter `&A` borrows the output of a node for the call; [`Own<A>`] moves it out. Each comes with an edge, so it is
//!     there before the call, unless a condition ran the node out of order: then the node fails.
//! D2. An output that somebody owns is given to that one node only, and nobody borrows it: checked when the node is made.
//! D3. Where a node may run twice, readers are counted for the length of the call (O2 of `output`).

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use super::body::{Body, Step};
use super::build::Graph;
use super::error::Cause;
use super::node::{Node, NodeId};
use super::output::{Access, Refusal};
use super::work::Hand;

/// A parameter of a node's closure that takes the output of another node by value.
///
/// ```
/// use filch::graph::Own;
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || String::from("x"));
/// let b = g.node("b", |Own(mut text): Own<String>| { text.push('y'); text }).after(a);
/// assert_eq!(g.run().take(b), "xy");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own<A>(pub A);

/// Marks a parameter `&A`.
pub struct ByRef<A>(PhantomData<fn(A)>);

/// Marks a parameter `Own<A>`.
pub struct ByValue<A>(PhantomData<fn(A)>);

/// A closure that can be a node: up to four parameters, each a `&A` or an [`Own<A>`](Own), for the outputs of other nodes.
///
/// `M` tells the compiler which of them; it is never written.
pub trait NodeFn<'env, M>: Send + Sync + Sized + 'env {
    /// What it returns.
    type Output: 'env;
    /// What it takes.
    type Params: Params;

    /// Calls it with the outputs in these cells.
    ///
    /// # Safety
    /// The cells are those of the parameters' nodes, which come before the node of this closure.
    #[doc(hidden)]
    unsafe fn call(&self, hand: &Hand<'_>, cells: &[u32]) -> Result<Self::Output, Missing>;
}

/// What becomes of an output: the value that is stored for the handle, or a failure.
pub trait Finish<O> {
    /// What is stored.
    type Value;

    /// # Safety
    /// `cell` is that of the node, for a value.
    unsafe fn finish(hand: &Hand<'_>, cell: u32, output: O) -> Step;
}

/// The output is the value.
pub struct Plain;

impl<O: Send> Finish<O> for Plain {
    type Value = O;

    #[inline(always)]
    unsafe fn finish(hand: &Hand<'_>, cell: u32, output: O) -> Step {
        // SAFETY: by the caller's promise.
        unsafe { hand.store(cell, output) }
    }
}

/// The output is the value or an error.
pub struct Fallible;

impl<T: Send, E: Into<Box<dyn Error + Send + Sync>>> Finish<Result<T, E>> for Fallible {
    type Value = T;

    #[inline(always)]
    unsafe fn finish(hand: &Hand<'_>, cell: u32, output: Result<T, E>) -> Step {
        match output {
            // SAFETY: by the caller's promise.
            Ok(value) => unsafe { hand.store(cell, value) },
            Err(error) => hand.fail(Cause::Error(error.into())),
        }
    }
}

/// The list of parameters of a closure.
pub trait Params: Sized {
    /// What [`Graph::node`] returns for such a closure: a [`Node<T>`], or a [`Draft`] where there are parameters.
    type Made<'g, 'env: 'g, F, M, K, T>
    where
        F: 'env,
        K: 'env,
        T: 'env;

    #[doc(hidden)]
    fn make<'g, 'env, F, M, K>(
        graph: &'g mut Graph<'env>,
        name: Cow<'static, str>,
        f: F,
    ) -> Self::Made<'g, 'env, F, M, K, K::Value>
    where
        F: NodeFn<'env, M, Params = Self>,
        K: Finish<F::Output> + 'env;
}

impl Params for () {
    type Made<'g, 'env: 'g, F, M, K, T>
        = Node<T>
    where
        F: 'env,
        K: 'env,
        T: 'env;

    #[inline]
    fn make<'g, 'env, F, M, K>(
        graph: &'g mut Graph<'env>,
        name: Cow<'static, str>,
        f: F,
    ) -> Node<K::Value>
    where
        F: NodeFn<'env, M, Params = Self>,
        K: Finish<F::Output> + 'env,
    {
        let cell = graph.parts.cells.add::<K::Value>();
        Node::new(graph.add(name, Some(body::<F, M, K, 0>(f, cell, [])), cell, 0))
    }
}

/// The body of a node that calls `f` with the outputs in `inputs`.
#[inline]
fn body<'env, F, M, K, const N: usize>(f: F, cell: u32, inputs: [u32; N]) -> Body<'env>
where
    F: NodeFn<'env, M>,
    K: Finish<F::Output>,
{
    Body::new(move |hand: &Hand<'_>| {
        // SAFETY: `Draft::after` has made the cells and edges of the parameters.
        match unsafe { f.call(hand, &inputs) } {
            // SAFETY: the cell was made for this node.
            Ok(output) => unsafe { K::finish(hand, cell, output) },
            Err(missing) => hand.fail(Cause::Error(Box::new(missing))),
        }
    })
}

/// An input is not there (D1).
#[derive(Debug)]
pub struct Missing(Refusal);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Refusal::Empty => "an input is missing: its node did not run, or gave it away",
            Refusal::Busy => "an input is being replaced: its node runs again",
        })
    }
}

impl Error for Missing {}

/// A node that still has to be told whose outputs it takes; see [`Graph::node`].
///
/// ```
/// let mut g = filch::Graph::new();
/// let (a, b) = (g.node("a", || 1), g.node("b", || 2));
/// let draft = g.node("sum", |a: &i32, b: &i32| a + b);
/// let sum = draft.after((&a, &b));
/// assert_eq!(g.run().take(sum), 3);
/// ```
#[must_use = "a draft is no node before `after`"]
pub struct Draft<'g, 'env, F, M, K, T> {
    graph: &'g mut Graph<'env>,
    name: Cow<'static, str>,
    f: F,
    kind: PhantomData<fn(M, K) -> T>,
}

impl<F, M, K, T> fmt::Debug for Draft<'_, '_, F, M, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'env, F, M, K> Draft<'_, 'env, F, M, K, K::Value>
where
    F: NodeFn<'env, M>,
    K: Finish<F::Output> + 'env,
{
    /// Makes the node, which takes the outputs of these: `&node` for a parameter `&A`, `node` for an `Own<A>`, a tuple for several. An
    /// edge comes with each.
    ///
    /// # Panics
    /// If a node is of another graph or was erased, or if one that another node owns is taken again.
    #[track_caller]
    pub fn after<S: Sources<F::Params>>(self, sources: S) -> Node<K::Value> {
        let Self { graph, name, f, .. } = self;
        let (ids, count) = sources.ids();
        let mut inputs = [u32::MAX; MOST];
        for (input, (id, use_)) in inputs.iter_mut().zip(&ids[..count]) {
            *input = graph.claim_output(*id, *use_);
        }
        let cell = graph.parts.cells.add::<K::Value>();
        let node = graph.add(name, Some(body::<F, M, K, MOST>(f, cell, inputs)), cell, 0);
        ids[..count].iter().for_each(|&(id, _)| graph.edge(id, node));
        Node::new(node)
    }
}

/// Most parameters.
const MOST: usize = 4;

/// How an output is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Borrowed,
    Owned,
}

/// Whose output a parameter is: `&Node<A>` or `Node<A>` for `&A`, `Node<A>` for `Own<A>`.
pub trait Source<P> {
    #[doc(hidden)]
    fn id(&self) -> (NodeId, Use);
}

impl<A> Source<ByRef<A>> for &Node<A> {
    fn id(&self) -> (NodeId, Use) {
        (Node::id(**self), Use::Borrowed)
    }
}

impl<A> Source<ByRef<A>> for Node<A> {
    fn id(&self) -> (NodeId, Use) {
        (Node::id(*self), Use::Borrowed)
    }
}

impl<A> Source<ByValue<A>> for Node<A> {
    fn id(&self) -> (NodeId, Use) {
        (Node::id(*self), Use::Owned)
    }
}

/// Whose outputs the parameters of a closure are: one [`Source`], or a tuple of them.
pub trait Sources<P> {
    #[doc(hidden)]
    fn ids(&self) -> ([(NodeId, Use); MOST], usize);
}

impl<P, A> Sources<(P,)> for &Node<A>
where
    Self: Source<P>,
{
    fn ids(&self) -> ([(NodeId, Use); MOST], usize) {
        ([self.id(); MOST], 1)
    }
}

impl<P, A> Sources<(P,)> for Node<A>
where
    Self: Source<P>,
{
    fn ids(&self) -> ([(NodeId, Use); MOST], usize) {
        ([Source::<P>::id(self); MOST], 1)
    }
}

macro_rules! tuple_of_sources {
    ($($P:ident $S:ident $place:tt),*) => {
        impl<$($P, $S: Source<$P>),*> Sources<($($P,)*)> for ($($S,)*) {
            fn ids(&self) -> ([(NodeId, Use); MOST], usize) {
                let mut ids = [self.0.id(); MOST];
                let mut count = 0;
                $(ids[$place] = self.$place.id(); count += 1;)*
                (ids, count)
            }
        }

        impl<$($P),*> Params for ($($P,)*) {
            type Made<'g, 'env: 'g, F, M, K, T>
        = Draft<'g, 'env, F, M, K, T>
    where
        F: 'env,
        K: 'env,
        T: 'env;

            fn make<'g, 'env, F, M, K>(
                graph: &'g mut Graph<'env>,
                name: Cow<'static, str>,
                f: F,
            ) -> Draft<'g, 'env, F, M, K, K::Value>
            where
                F: NodeFn<'env, M, Params = Self>,
                K: Finish<F::Output> + 'env,
            {
                Draft { graph, name, f, kind: PhantomData }
            }
        }
    };
}
tuple_of_sources!(P0 S0 0);
tuple_of_sources!(P0 S0 0, P1 S1 1);
tuple_of_sources!(P0 S0 0, P1 S1 1, P2 S2 2);
tuple_of_sources!(P0 S0 0, P1 S1 1, P2 S2 2, P3 S3 3);

impl<'env, F: Fn() -> T + Send + Sync + 'env, T: 'env> NodeFn<'env, fn() -> T> for F {
    type Output = T;
    type Params = ();

    #[inline(always)]
    unsafe fn call(&self, _: &Hand<'_>, _: &[u32]) -> Result<T, Missing> {
        Ok(self())
    }
}

/// A borrowed input; the end of the borrow is counted where it has to be (D3).
struct Borrowed<'a, A> {
    hand: &'a Hand<'a>,
    cell: u32,
    value: &'a A,
}

impl<'a, A> Borrowed<'a, A> {
    /// # Safety
    /// `cell` is that of a node which returns an `A` and comes before.
    #[inline(always)]
    unsafe fn new(hand: &'a Hand<'_>, cell: u32) -> Result<Self, Missing> {
        let slot = hand.slot;
        // SAFETY: by the caller's promise.
        let value = unsafe { slot.outputs.borrow::<A>(cell, slot.access) }.map_err(Missing)?;
        Ok(Self { hand, cell, value })
    }
}

impl<A> Drop for Borrowed<'_, A> {
    #[inline(always)]
    fn drop(&mut self) {
        let slot = self.hand.slot;
        if slot.access == Access::Guarded {
            // SAFETY: borrowed by `new`, and not used any more.
            unsafe { slot.outputs.unborrow::<A>(self.cell) };
        }
    }
}

macro_rules! parameter {
    (ByRef $A:ident) => { &$A };
    (ByValue $A:ident) => { Own<$A> };
}

macro_rules! fetch {
    (ByRef $A:ident $hand:ident $cell:expr) => {
        // SAFETY: by the caller's promise.
        unsafe { Borrowed::<$A>::new($hand, $cell) }?
    };
    (ByValue $A:ident $hand:ident $cell:expr) => {
        // SAFETY: by the caller's promise; D2, nobody else is at it.
        Own(unsafe { $hand.slot.outputs.take::<$A>($cell) }.map_err(Missing)?)
    };
}

macro_rules! argument {
    (ByRef $value:ident) => {
        $value.value
    };
    (ByValue $value:ident) => {
        $value
    };
}

macro_rules! node_fn {
    ($($mode:ident $A:ident $value:ident $place:tt,)*) => {
        impl<'env, F, T: 'env, $($A: Send + Sync + 'env),*> NodeFn<'env, ($($mode<$A>,)* fn() -> T)> for F
        where
            F: Fn($(parameter!($mode $A)),*) -> T + Send + Sync + 'env,
        {
            type Output = T;
            type Params = ($($mode<$A>,)*);

            #[inline(always)]
            unsafe fn call(&self, hand: &Hand<'_>, cells: &[u32]) -> Result<T, Missing> {
                $(let $value = fetch!($mode $A hand cells[$place]);)*
                Ok(self($(argument!($mode $value)),*))
            }
        }
    };
}

/// One closure type for each choice between reference and value.
macro_rules! node_fns {
    ([$($done:tt)*]) => { node_fn!($($done)*); };
    ([$($done:tt)*] $A:ident $value:ident $place:tt $($rest:tt)*) => {
        node_fns!([$($done)* ByRef $A $value $place,] $($rest)*);
        node_fns!([$($done)* ByValue $A $value $place,] $($rest)*);
    };
}
node_fns!([] A a 0);
node_fns!([] A a 0 B b 1);
node_fns!([] A a 0 B b 1 C c 2);
node_fns!([] A a 0 B b 1 C c 2 D d 3);
