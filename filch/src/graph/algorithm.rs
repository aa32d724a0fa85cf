//! Algorithms of [`par`] as nodes: a parallel loop that has its place in a graph.
//!
//! There are two forms. The methods of [`Graph`] ([`for_each`](Graph::for_each), [`transform`](Graph::transform),
//! [`reduce`](Graph::reduce), [`transform_reduce`](Graph::transform_reduce), [`find`](Graph::find)) take what they run over from a closure
//! that is called when the node runs: a range, a slice, any parallel iterator. The functions of this module make closures for
//! [`Graph::node`] that take it from another node:
//!
//! ```
//! use filch::graph::algorithm;
//! let mut g = filch::Graph::new();
//! let words = g.node("words", || vec!["pear", "fig", "apple"]);
//! let sorted = g.node("sort", algorithm::sort()).after(words);
//! let lengths = g.node("lengths", algorithm::transform(|word: &&'static str| word.len())).after(&sorted);
//! let sum = g.node("sum", algorithm::reduce(|| 0, |a, b| a + b)).after(&lengths);
//! let run = g.run();
//! assert_eq!((run.take(sorted), run.take(sum)), (vec!["apple", "fig", "pear"], 12));
//! ```
//!
//! A loop runs where its node does, and others help: the worker runs pieces of that loop only, and blocks for none. Whatever else
//! `par` can do is a node too: call it in the closure.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::build::Graph;
use super::node::Node;
use super::params::Own;
use crate::par;
use crate::par::prelude::*;

impl<'env> Graph<'env> {
    /// Adds a node that calls `f` with each item of `data`, in parallel. `data` is called when the node runs.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// let cells: Vec<AtomicU32> = (0..1000).map(AtomicU32::new).collect();
    /// let mut g = filch::Graph::new();
    /// let double = g.for_each("double", || 0..cells.len(), |i| { cells[i].fetch_add(i as u32, Relaxed); });
    /// let check = g.for_each("check", || &cells, |cell| assert_eq!(cell.load(Relaxed) % 2, 0));
    /// g.precede(double, check);
    /// g.run();
    /// ```
    pub fn for_each<I: IntoParallelIterator>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        data: impl Fn() -> I + Send + Sync + 'env,
        f: impl Fn(I::Item) + Send + Sync + 'env,
    ) -> Node<()> {
        self.node(name, move || data().into_par_iter().for_each(&f))
    }

    /// Adds a node that returns what `f` makes of each item of `data`, in order.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let squares = g.transform("squares", || 0..5_u32, |n| n * n);
    /// assert_eq!(g.run().take(squares), [0, 1, 4, 9, 16]);
    /// ```
    pub fn transform<I: IntoParallelIterator, T: Send + 'env>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        data: impl Fn() -> I + Send + Sync + 'env,
        f: impl Fn(I::Item) -> T + Send + Sync + 'env,
    ) -> Node<Vec<T>> {
        self.node(name, move || data().into_par_iter().map(&f).collect::<Vec<T>>())
    }

    /// Adds a node that returns the sum of `data` by `op`, which is associative and has `identity` as its neutral element.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let sum = g.reduce("sum", || 1..=100_u32, || 0, |a, b| a + b);
    /// assert_eq!(g.run().take(sum), 5050);
    /// ```
    pub fn reduce<I: IntoParallelIterator>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        data: impl Fn() -> I + Send + Sync + 'env,
        identity: impl Fn() -> I::Item + Send + Sync + 'env,
        op: impl Fn(I::Item, I::Item) -> I::Item + Send + Sync + 'env,
    ) -> Node<I::Item>
    where
        I::Item: 'env,
    {
        self.node(name, move || data().into_par_iter().reduce(&identity, &op))
    }

    /// As [`Graph::reduce`], of what `map` makes of each item.
    ///
    /// ```
    /// let words = ["a", "bcd", "ef"];
    /// let mut g = filch::Graph::new();
    /// let longest = g.transform_reduce("longest", || &words, |word| word.len(), || 0, usize::max);
    /// assert_eq!(g.run().take(longest), 3);
    /// ```
    pub fn transform_reduce<I: IntoParallelIterator, T: Send + 'env>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        data: impl Fn() -> I + Send + Sync + 'env,
        map: impl Fn(I::Item) -> T + Send + Sync + 'env,
        identity: impl Fn() -> T + Send + Sync + 'env,
        op: impl Fn(T, T) -> T + Send + Sync + 'env,
    ) -> Node<T> {
        self.node(name, move || data().into_par_iter().map(&map).reduce(&identity, &op))
    }

    /// Adds a node that returns the first item of `data` for which `holds` is true.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let found = g.find("find", || 1..1_000_000_u64, |n| n * n > 5000);
    /// assert_eq!(g.run().take(found), Some(71));
    /// ```
    pub fn find<I: IntoParallelIterator>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        data: impl Fn() -> I + Send + Sync + 'env,
        holds: impl Fn(&I::Item) -> bool + Send + Sync + 'env,
    ) -> Node<Option<I::Item>>
    where
        I::Item: 'env,
    {
        self.node(name, move || data().into_par_iter().find_first(&holds))
    }
}

/// Calls `f` with each element of a vector that another node returned.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![2, 4]);
/// g.node("check", algorithm::for_each(|n: &i32| assert_eq!(n % 2, 0))).after(&numbers);
/// g.run();
/// ```
pub fn for_each<A: Sync>(f: impl Fn(&A) + Send + Sync) -> impl Fn(&Vec<A>) + Send + Sync {
    move |items: &Vec<A>| items.par_iter().for_each(&f)
}

/// Calls `f` with each element of a vector, which it may change, and passes the vector on.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![2, 4]);
/// let more = g.node("more", algorithm::update(|n: &mut i32| *n += 1)).after(numbers);
/// assert_eq!(g.run().take(more), [3, 5]);
/// ```
pub fn update<A: Send>(
    f: impl Fn(&mut A) + Send + Sync,
) -> impl Fn(Own<Vec<A>>) -> Vec<A> + Send + Sync {
    move |Own(mut items): Own<Vec<A>>| {
        items.par_iter_mut().for_each(&f);
        items
    }
}

/// What `f` makes of each element of a vector, in order.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![2, 4]);
/// let texts = g.node("texts", algorithm::transform(|n: &i32| n.to_string())).after(&numbers);
/// assert_eq!(g.run().take(texts), ["2", "4"]);
/// ```
pub fn transform<A: Sync, T: Send>(
    f: impl Fn(&A) -> T + Send + Sync,
) -> impl Fn(&Vec<A>) -> Vec<T> + Send + Sync {
    move |items: &Vec<A>| items.par_iter().map(&f).collect()
}

/// The sum of a vector by `op`, which is associative and has `identity` as its neutral element.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![2, 4]);
/// let product = g.node("product", algorithm::reduce(|| 1, |a, b| a * b)).after(&numbers);
/// assert_eq!(g.run().take(product), 8);
/// ```
pub fn reduce<A: Clone + Send + Sync>(
    identity: impl Fn() -> A + Send + Sync,
    op: impl Fn(A, A) -> A + Send + Sync,
) -> impl Fn(&Vec<A>) -> A + Send + Sync {
    transform_reduce(A::clone, identity, op)
}

/// As [`reduce`], of what `map` makes of each element.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let words = g.node("words", || vec!["a", "bcd"]);
/// let letters = algorithm::transform_reduce(|word: &&'static str| word.len(), || 0, |a, b| a + b);
/// let letters = g.node("letters", letters).after(&words);
/// assert_eq!(g.run().take(letters), 4);
/// ```
pub fn transform_reduce<A: Sync, T: Send>(
    map: impl Fn(&A) -> T + Send + Sync,
    identity: impl Fn() -> T + Send + Sync,
    op: impl Fn(T, T) -> T + Send + Sync,
) -> impl Fn(&Vec<A>) -> T + Send + Sync {
    move |items: &Vec<A>| items.par_iter().map(&map).reduce(&identity, &op)
}

/// The place of the first element for which `holds` is true.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![2, 4, 5, 7]);
/// let odd = g.node("odd", algorithm::position(|n: &i32| n % 2 == 1)).after(&numbers);
/// assert_eq!(g.run().take(odd), Some(2));
/// ```
pub fn position<A: Sync>(
    holds: impl Fn(&A) -> bool + Send + Sync,
) -> impl Fn(&Vec<A>) -> Option<usize> + Send + Sync {
    move |items: &Vec<A>| items.par_iter().position_first(&holds)
}

/// Sorts a vector and passes it on; equal elements keep their order.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let words = g.node("words", || vec!["b", "a"]);
/// let sorted = g.node("sort", algorithm::sort()).after(words);
/// assert_eq!(g.run().take(sorted), ["a", "b"]);
/// ```
pub fn sort<A: Ord + Send>() -> impl Fn(Own<Vec<A>>) -> Vec<A> + Send + Sync {
    sort_by(A::cmp)
}

/// As [`sort`], in the order of `compare`.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![1, 3, 2]);
/// let sorted = g.node("sort", algorithm::sort_by(|a: &i32, b: &i32| b.cmp(a))).after(numbers);
/// assert_eq!(g.run().take(sorted), [3, 2, 1]);
/// ```
pub fn sort_by<A: Send>(
    compare: impl Fn(&A, &A) -> Ordering + Send + Sync,
) -> impl Fn(Own<Vec<A>>) -> Vec<A> + Send + Sync {
    move |Own(mut items): Own<Vec<A>>| {
        items.par_sort_by(&compare);
        items
    }
}

/// Replaces each element by the sum of those up to it, by `op`, which is associative.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![1, 2, 3]);
/// let sums = g.node("sums", algorithm::inclusive_scan(|a: &i32, b: &i32| a + b)).after(numbers);
/// assert_eq!(g.run().take(sums), [1, 3, 6]);
/// ```
pub fn inclusive_scan<A: Clone + Send>(
    op: impl Fn(&A, &A) -> A + Send + Sync,
) -> impl Fn(Own<Vec<A>>) -> Vec<A> + Send + Sync {
    move |Own(mut items): Own<Vec<A>>| {
        par::inclusive_scan(&mut items, &op);
        items
    }
}

/// Replaces each element by the sum of `initial` and those before it, by `op`, which is associative.
///
/// ```
/// use filch::graph::algorithm;
/// let mut g = filch::Graph::new();
/// let numbers = g.node("numbers", || vec![1, 2, 3]);
/// let sums = g.node("sums", algorithm::exclusive_scan(0, |a: &i32, b: &i32| a + b)).after(numbers);
/// assert_eq!(g.run().take(sums), [0, 1, 3]);
/// ```
pub fn exclusive_scan<A: Clone + Send + Sync>(
    initial: A,
    op: impl Fn(&A, &A) -> A + Send + Sync,
) -> impl Fn(Own<Vec<A>>) -> Vec<A> + Send + Sync {
    move |Own(mut items): Own<Vec<A>>| {
        par::exclusive_scan(&mut items, initial.clone(), &op);
        items
    }
}
