//! [`ParallelIterator`]: what all parallel iterators can do.
//!
//! Not here: what depends on positions (par/indexed.rs), and how anything is done (par/adapt,
//! par/consume).

use std::cmp::Ordering;
use std::iter::{Product, Sum, empty};
use std::ops::ControlFlow;

use super::adapt::*;
use super::consume::find::{End, FindAny, Search};
use super::consume::ops::{Count, ForEach, Multiple, Reduce, ReduceWith, Total, TryReduce};
use super::consume::pairs::{Either, Pairs, extend_both};
use super::consume::run;
use super::convert::{FromParallelIterator, IntoParallelIterator, ParallelExtend};
use super::plumbing::Consumer;
use super::tries::Try;

/// An iterator whose items are handed out to several threads at once.
///
/// Closures are shared by these threads, so they are `Fn` and `Sync`. Results keep the order of the
/// items; side effects have none. A panic in one of them is carried to the caller when all pieces
/// have ended, and pieces that have not started then may be left out.
///
/// To make one of a collection of one's own, see [`plumbing`](super::plumbing).
///
/// ```
/// use filch::par::prelude::*;
/// let longest = ["a", "abc", "ab"].par_iter().max_by_key(|word| word.len());
/// assert_eq!(longest, Some(&"abc"));
/// ```
#[must_use = "parallel iterators do nothing before they are consumed"]
pub trait ParallelIterator: Sized + Send {
    /// What it yields.
    type Item: Send;

    /// Runs all items into a consumer. This is where everything ends up;
    /// [`plumbing`](super::plumbing) has the functions that do the work.
    fn drive<C: Consumer<Self::Item>>(self, consumer: C) -> C::Result;

    /// The number of items, if it is known and [`drive`](Self::drive) cuts its consumer where it
    /// cuts the items.
    fn opt_len(&self) -> Option<usize> {
        None
    }

    /// Calls `f` with each item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let numbers = [1, 2, 3];
    /// let sum = std::sync::atomic::AtomicU32::new(0);
    /// numbers.par_iter().for_each(|n| _ = sum.fetch_add(*n, std::sync::atomic::Ordering::Relaxed));
    /// assert_eq!(sum.into_inner(), 6);
    /// ```
    fn for_each<F: Fn(Self::Item) + Sync + Send>(self, f: F) {
        run(self, ForEach(f));
    }

    /// Calls `f` with each item and a clone of `init`, one for each piece.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let (sender, numbers) = std::sync::mpsc::channel();
    /// (0..3).into_par_iter().for_each_with(sender, |sender, n| sender.send(n).unwrap());
    /// assert_eq!(numbers.iter().sum::<i32>(), 3);
    /// ```
    fn for_each_with<F, T>(self, init: T, f: F)
    where
        F: Fn(&mut T, Self::Item) + Sync + Send,
        T: Send + Clone,
    {
        self.map_with(init, f).for_each(|()| ());
    }

    /// Calls `f` with each item and a value that `init` makes, once for each piece.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let mut squares = [0; 4];
    /// squares.par_iter_mut().enumerate().for_each_init(Vec::new, |seen, (i, square)| {
    ///     seen.push(i); // a buffer that is reused
    ///     *square = i * i;
    /// });
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// ```
    fn for_each_init<F, INIT, T>(self, init: INIT, f: F)
    where
        F: Fn(&mut T, Self::Item) + Sync + Send,
        INIT: Fn() -> T + Sync + Send,
    {
        self.map_init(init, f).for_each(|()| ());
    }

    /// Calls `f` with each item until one call breaks off, and returns how it did.
    ///
    /// Other pieces stop soon after. If several broke off, it is the leftmost of those seen.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let odd = [2, 4, 7].par_iter().try_for_each(|n| if n % 2 == 0 { Ok(()) } else { Err(*n) });
    /// assert_eq!(odd, Err(7));
    /// ```
    fn try_for_each<F, R>(self, f: F) -> R
    where
        F: Fn(Self::Item) -> R + Sync + Send,
        R: Try<Output = (), Residual: Send> + Send,
    {
        self.map(f).try_reduce(|| (), |(), ()| R::from_output(()))
    }

    /// As [`try_for_each`](Self::try_for_each), with a clone of `init` for each piece.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let done = [1, 2].par_iter().try_for_each_with(10, |ten, n| (*n < *ten).then_some(()));
    /// assert_eq!(done, Some(()));
    /// ```
    fn try_for_each_with<F, T, R>(self, init: T, f: F) -> R
    where
        F: Fn(&mut T, Self::Item) -> R + Sync + Send,
        T: Send + Clone,
        R: Try<Output = (), Residual: Send> + Send,
    {
        self.map_with(init, f).try_reduce(|| (), |(), ()| R::from_output(()))
    }

    /// As [`try_for_each`](Self::try_for_each), with a value that `init` makes for each piece.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let done = [1, 2].par_iter().try_for_each_init(|| 2, |two, n| (*n < *two).then_some(()));
    /// assert_eq!(done, None);
    /// ```
    fn try_for_each_init<F, INIT, T, R>(self, init: INIT, f: F) -> R
    where
        F: Fn(&mut T, Self::Item) -> R + Sync + Send,
        INIT: Fn() -> T + Sync + Send,
        R: Try<Output = (), Residual: Send> + Send,
    {
        self.map_init(init, f).try_reduce(|| (), |(), ()| R::from_output(()))
    }

    /// The number of items.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..10).into_par_iter().filter(|n| n % 3 == 0).count(), 4);
    /// ```
    fn count(self) -> usize {
        run(self, Count)
    }

    /// What `f` makes of each item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2].par_iter().map(|n| n * 2).collect::<Vec<_>>(), [2, 4]);
    /// ```
    fn map<F, R>(self, f: F) -> Map<Self, F>
    where
        F: Fn(Self::Item) -> R + Sync + Send,
        R: Send,
    {
        Each::new(self, Calls(f))
    }

    /// What `f` makes of each item and a clone of `init`, one for each piece.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let lines = ["a", "b"].par_iter().map_with(String::from("> "), |mark, s| format!("{mark}{s}"));
    /// assert_eq!(lines.collect::<Vec<_>>(), ["> a", "> b"]);
    /// ```
    fn map_with<F, T, R>(self, init: T, f: F) -> MapWith<Self, T, F>
    where
        F: Fn(&mut T, Self::Item) -> R + Sync + Send,
        T: Send + Clone,
        R: Send,
    {
        With::new(self, Cloning(init), f)
    }

    /// What `f` makes of each item and a value that `init` makes, once for each piece.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let lengths = ["a", "bc"].par_iter().map_init(String::new, |buffer, s| {
    ///     buffer.clear();
    ///     buffer.push_str(s);
    ///     buffer.len()
    /// });
    /// assert_eq!(lengths.sum::<usize>(), 3);
    /// ```
    fn map_init<F, INIT, T, R>(self, init: INIT, f: F) -> MapInit<Self, INIT, F>
    where
        F: Fn(&mut T, Self::Item) -> R + Sync + Send,
        INIT: Fn() -> T + Sync + Send,
        R: Send,
    {
        With::new(self, Maker(init), f)
    }

    /// A clone of each item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!(["a".to_string()].par_iter().cloned().collect::<String>(), "a");
    /// ```
    fn cloned<'a, T>(self) -> Cloned<Self>
    where
        T: Clone + Send + Sync + 'a,
        Self: ParallelIterator<Item = &'a T>,
    {
        Each::new(self, Clones)
    }

    /// A copy of each item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2].par_iter().copied().max(), Some(2));
    /// ```
    fn copied<'a, T>(self) -> Copied<Self>
    where
        T: Copy + Send + Sync + 'a,
        Self: ParallelIterator<Item = &'a T>,
    {
        Each::new(self, Clones)
    }

    /// Looks at each item on its way.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let seen = std::sync::Mutex::new(0);
    /// let sum: i32 = [1, 2].par_iter().inspect(|n| *seen.lock().unwrap() += **n).sum();
    /// assert_eq!(sum, seen.into_inner().unwrap());
    /// ```
    fn inspect<F: Fn(&Self::Item) + Sync + Send>(self, f: F) -> Inspect<Self, F> {
        Each::new(self, Looks(f))
    }

    /// Changes each item on its way.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2].into_par_iter().update(|n| *n += 1).sum::<i32>(), 5);
    /// ```
    fn update<F: Fn(&mut Self::Item) + Sync + Send>(self, f: F) -> Update<Self, F> {
        Each::new(self, Changes(f))
    }

    /// The items for which the predicate holds.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..9).into_par_iter().filter(|n| n % 4 == 0).collect::<Vec<_>>(), [0, 4, 8]);
    /// ```
    fn filter<P: Fn(&Self::Item) -> bool + Sync + Send>(self, predicate: P) -> Filter<Self, P> {
        Filter { base: self, predicate }
    }

    /// What `f` makes of each item, if it makes something.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let numbers = ["1", "x", "3"].par_iter().filter_map(|s| s.parse::<u8>().ok());
    /// assert_eq!(numbers.collect::<Vec<_>>(), [1, 3]);
    /// ```
    fn filter_map<F, R>(self, f: F) -> FilterMap<Self, F>
    where
        F: Fn(Self::Item) -> Option<R> + Sync + Send,
        R: Send,
    {
        FilterMap { base: self, f }
    }

    /// The items of the parallel iterators that `f` makes, which are spread over the workers too.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let pairs = (1..4).into_par_iter().flat_map(|n| (0..n).into_par_iter().map(move |m| (n, m)));
    /// assert_eq!(pairs.collect::<Vec<_>>(), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]);
    /// ```
    fn flat_map<F, R>(self, f: F) -> FlatMap<Self, F>
    where
        F: Fn(Self::Item) -> R + Sync + Send,
        R: IntoParallelIterator,
    {
        Flat { base: self, op: Calls(f) }
    }

    /// The items of the ordinary iterators that `f` makes: for short ones, cheaper than
    /// [`flat_map`](Self::flat_map).
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let letters = ["ab", "c"].par_iter().flat_map_iter(|word| word.chars());
    /// assert_eq!(letters.collect::<Vec<_>>(), ['a', 'b', 'c']);
    /// ```
    fn flat_map_iter<F, R>(self, f: F) -> FlatMapIter<Self, F>
    where
        F: Fn(Self::Item) -> R + Sync + Send,
        R: IntoIterator<Item: Send>,
    {
        FlatMapIter { base: self, f }
    }

    /// The items of items that are parallel iterators.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let rows = vec![vec![1, 2], vec![], vec![3]];
    /// assert_eq!(rows.into_par_iter().flatten().collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    fn flatten(self) -> Flatten<Self>
    where
        Self::Item: IntoParallelIterator,
    {
        Flat { base: self, op: Same }
    }

    /// The items of items that are ordinary iterators.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let rows = vec![Some(1), None, Some(3)];
    /// assert_eq!(rows.into_par_iter().flatten_iter().collect::<Vec<_>>(), [1, 3]);
    /// ```
    fn flatten_iter(self) -> FlattenIter<Self>
    where
        Self::Item: IntoIterator<Item: Send>,
    {
        FlattenIter { base: self }
    }

    /// One value for each piece: `identity` starts it, `f` adds the items.
    ///
    /// How many there are depends on how the loop is cut.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let sum: i32 = (0..100).into_par_iter().fold(|| 0, |a, b| a + b).sum();
    /// assert_eq!(sum, 4950);
    /// ```
    fn fold<T, ID, F>(self, identity: ID, f: F) -> Fold<Self, ID, F>
    where
        F: Fn(T, Self::Item) -> T + Sync + Send,
        ID: Fn() -> T + Sync + Send,
        T: Send,
    {
        Folds::new(self, Maker(identity), f)
    }

    /// As [`fold`](Self::fold), from clones of `init`.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let letters = "abc".par_chars().fold_with(String::new(), |s, c| s + &c.to_string());
    /// assert_eq!(letters.collect::<String>(), "abc");
    /// ```
    fn fold_with<T, F>(self, init: T, f: F) -> FoldWith<Self, T, F>
    where
        F: Fn(T, Self::Item) -> T + Sync + Send,
        T: Send + Clone,
    {
        Folds::new(self, Cloning(init), f)
    }

    /// As [`fold`](Self::fold), until a step breaks off.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let sums = [1u8, 2, 3].par_iter().try_fold(|| 0u8, |a, b| a.checked_add(*b));
    /// assert_eq!(sums.try_reduce(|| 0, |a, b| a.checked_add(b)), Some(6));
    /// ```
    fn try_fold<T, R, ID, F>(self, identity: ID, f: F) -> TryFold<Self, R, ID, F>
    where
        F: Fn(T, Self::Item) -> R + Sync + Send,
        ID: Fn() -> T + Sync + Send,
        R: Try<Output = T> + Send,
    {
        Folds::new(self, Maker(identity), f)
    }

    /// As [`try_fold`](Self::try_fold), from clones of `init`.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let sums = [200u8, 100].par_iter().try_fold_with(0u8, |a, b| a.checked_add(*b));
    /// assert_eq!(sums.try_reduce(|| 0, |a, b| a.checked_add(b)), None);
    /// ```
    fn try_fold_with<F, T, R>(self, init: T, f: F) -> TryFoldWith<Self, T, R, F>
    where
        F: Fn(T, Self::Item) -> R + Sync + Send,
        R: Try<Output = T> + Send,
        T: Clone + Send,
    {
        Folds::new(self, Cloning(init), f)
    }

    /// The items of this, then those of the other.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..2).into_par_iter().chain([7]).collect::<Vec<_>>(), [0, 1, 7]);
    /// ```
    fn chain<C>(self, chain: C) -> Chain<Self, C::Iter>
    where
        C: IntoParallelIterator<Item = Self::Item>,
    {
        Chain { a: self, b: chain.into_par_iter() }
    }

    /// The values up to a `None` that stops the loop, wherever that turns up.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let some = [Some(1), Some(2)].into_par_iter().while_some();
    /// assert_eq!(some.sum::<i32>(), 3);
    /// ```
    fn while_some<T>(self) -> WhileSome<Self>
    where
        Self: ParallelIterator<Item = Option<T>>,
        T: Send,
    {
        WhileSome { base: self }
    }

    /// One value of all: pieces start from `identity`, `f` puts two together. It has to be associative.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([3, 8, 5].into_par_iter().reduce(|| 0, i32::max), 8);
    /// ```
    fn reduce<F, ID>(self, identity: ID, f: F) -> Self::Item
    where
        F: Fn(Self::Item, Self::Item) -> Self::Item + Sync + Send,
        ID: Fn() -> Self::Item + Sync + Send,
    {
        run(self, Reduce(identity, f))
    }

    /// As [`reduce`](Self::reduce) without an identity: `None` if there are no items.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([3, 8].into_par_iter().reduce_with(|a, b| a * b), Some(24));
    /// ```
    fn reduce_with<F>(self, f: F) -> Option<Self::Item>
    where
        F: Fn(Self::Item, Self::Item) -> Self::Item + Sync + Send,
    {
        run(self, ReduceWith(f))
    }

    /// As [`reduce`](Self::reduce), until an item or a step breaks off.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let sum = ["1", "2"].par_iter().map(|s| s.parse::<u8>()).try_reduce(|| 0, |a, b| Ok(a + b));
    /// assert_eq!(sum, Ok(3));
    /// ```
    fn try_reduce<T, F, ID>(self, identity: ID, f: F) -> Self::Item
    where
        F: Fn(T, T) -> Self::Item + Sync + Send,
        ID: Fn() -> T + Sync + Send,
        Self::Item: Try<Output = T, Residual: Send>,
        T: Send,
    {
        let start = || Some(identity());
        match run(self, TryReduce::new(start, f)) {
            ControlFlow::Continue(value) => Self::Item::from_output(value.unwrap_or_else(identity)),
            ControlFlow::Break(residual) => Self::Item::from_residual(residual),
        }
    }

    /// As [`try_reduce`](Self::try_reduce) without an identity.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let none: [Option<u8>; 0] = [];
    /// assert_eq!(none.into_par_iter().try_reduce_with(|a, b| a.checked_add(b)), None);
    /// assert_eq!([Some(1u8), None].into_par_iter().try_reduce_with(u8::checked_add), Some(None));
    /// ```
    fn try_reduce_with<T, F>(self, f: F) -> Option<Self::Item>
    where
        F: Fn(T, T) -> Self::Item + Sync + Send,
        Self::Item: Try<Output = T, Residual: Send>,
        T: Send,
    {
        match run(self, TryReduce::new(|| None, f)) {
            ControlFlow::Continue(value) => value.map(Self::Item::from_output),
            ControlFlow::Break(residual) => Some(Self::Item::from_residual(residual)),
        }
    }

    /// The sum of all items. That of floating-point numbers depends on how the loop is cut.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((1..=100u64).into_par_iter().sum::<u64>(), 5050);
    /// ```
    fn sum<S: Send + Sum<Self::Item> + Sum<S>>(self) -> S {
        run(self, Total::new()).unwrap_or_else(|| empty::<S>().sum())
    }

    /// The product of all items.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((1..=5u64).into_par_iter().product::<u64>(), 120);
    /// ```
    fn product<P: Send + Product<Self::Item> + Product<P>>(self) -> P {
        run(self, Multiple::new()).unwrap_or_else(|| empty::<P>().product())
    }

    /// The smallest item, the first of several.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([3, 1, 2].par_iter().min(), Some(&1));
    /// ```
    fn min(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.reduce_with(Ord::min)
    }

    /// The smallest item by a comparison, the first of several.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([3.5f64, 1.5].par_iter().min_by(|a, b| a.total_cmp(b)), Some(&1.5));
    /// ```
    fn min_by<F>(self, f: F) -> Option<Self::Item>
    where
        F: Fn(&Self::Item, &Self::Item) -> Ordering + Sync + Send,
    {
        self.reduce_with(move |a, b| if f(&a, &b).is_gt() { b } else { a })
    }

    /// The smallest item by a key, the first of several.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([-3, 1, 2i32].into_par_iter().min_by_key(|n| n.abs()), Some(1));
    /// ```
    fn min_by_key<K, F>(self, f: F) -> Option<Self::Item>
    where
        K: Ord + Send,
        F: Fn(&Self::Item) -> K + Sync + Send,
    {
        let best = self.map(|item| (f(&item), item)).min_by(|a, b| a.0.cmp(&b.0));
        best.map(|(_, item)| item)
    }

    /// The largest item, the last of several.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([3, 1, 2].par_iter().max(), Some(&3));
    /// ```
    fn max(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.reduce_with(Ord::max)
    }

    /// The largest item by a comparison, the last of several.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([3.5f64, 1.5].par_iter().max_by(|a, b| a.total_cmp(b)), Some(&3.5));
    /// ```
    fn max_by<F>(self, f: F) -> Option<Self::Item>
    where
        F: Fn(&Self::Item, &Self::Item) -> Ordering + Sync + Send,
    {
        self.reduce_with(move |a, b| if f(&a, &b).is_gt() { a } else { b })
    }

    /// The largest item by a key, the last of several.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([-3, 1, 2i32].into_par_iter().max_by_key(|n| n.abs()), Some(-3));
    /// ```
    fn max_by_key<K, F>(self, f: F) -> Option<Self::Item>
    where
        K: Ord + Send,
        F: Fn(&Self::Item) -> K + Sync + Send,
    {
        let best = self.map(|item| (f(&item), item)).max_by(|a, b| a.0.cmp(&b.0));
        best.map(|(_, item)| item)
    }

    /// Some item for which the predicate holds; other pieces stop soon after.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..u64::MAX).into_par_iter().find_any(|n| *n == 7), Some(7));
    /// ```
    fn find_any<P>(self, predicate: P) -> Option<Self::Item>
    where
        P: Fn(&Self::Item) -> bool + Sync + Send,
    {
        run(self, FindAny::new(predicate))
    }

    /// The first item for which the predicate holds; pieces that cannot win stop early.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..100).into_par_iter().find_first(|n| n % 7 == 0), Some(0));
    /// ```
    fn find_first<P>(self, predicate: P) -> Option<Self::Item>
    where
        P: Fn(&Self::Item) -> bool + Sync + Send,
    {
        self.drive(Search::new(End::First, predicate).consumer())
    }

    /// The last item for which the predicate holds; pieces that cannot win stop early.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..100).into_par_iter().find_last(|n| n % 7 == 0), Some(98));
    /// ```
    fn find_last<P>(self, predicate: P) -> Option<Self::Item>
    where
        P: Fn(&Self::Item) -> bool + Sync + Send,
    {
        self.drive(Search::new(End::Last, predicate).consumer())
    }

    /// Something that `f` makes of an item; other pieces stop soon after.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!(["x", "1"].par_iter().find_map_any(|s| s.parse().ok()), Some(1u8));
    /// ```
    fn find_map_any<F, R>(self, f: F) -> Option<R>
    where
        F: Fn(Self::Item) -> Option<R> + Sync + Send,
        R: Send,
    {
        self.filter_map(f).find_any(|_| true)
    }

    /// The first thing that `f` makes of an item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!(["x", "1", "3"].par_iter().find_map_first(|s| s.parse().ok()), Some(1u8));
    /// ```
    fn find_map_first<F, R>(self, f: F) -> Option<R>
    where
        F: Fn(Self::Item) -> Option<R> + Sync + Send,
        R: Send,
    {
        self.filter_map(f).find_first(|_| true)
    }

    /// The last thing that `f` makes of an item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!(["x", "1", "3"].par_iter().find_map_last(|s| s.parse().ok()), Some(3u8));
    /// ```
    fn find_map_last<F, R>(self, f: F) -> Option<R>
    where
        F: Fn(Self::Item) -> Option<R> + Sync + Send,
        R: Send,
    {
        self.filter_map(f).find_last(|_| true)
    }

    /// Whether the predicate holds for some item.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1, 2].par_iter().any(|n| *n > 1));
    /// ```
    fn any<P: Fn(Self::Item) -> bool + Sync + Send>(self, predicate: P) -> bool {
        self.map(predicate).find_any(|holds| *holds).is_some()
    }

    /// Whether the predicate holds for all items.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!(![1, 2].par_iter().all(|n| *n > 1));
    /// ```
    fn all<P: Fn(Self::Item) -> bool + Sync + Send>(self, predicate: P) -> bool {
        self.map(predicate).find_any(|holds| !*holds).is_none()
    }

    /// Makes a collection of the items, in order.
    ///
    /// Of known length, a vector is written in place. If an item panics, those made so far are dropped.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let squares: Vec<_> = (0..4).into_par_iter().map(|n| n * n).collect();
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// let all: Result<Vec<u8>, _> = ["1", "x"].par_iter().map(|s| s.parse()).collect();
    /// assert!(all.is_err());
    /// ```
    fn collect<C: FromParallelIterator<Self::Item>>(self) -> C {
        C::from_par_iter(self)
    }

    /// Two collections: of the first and of the second halves.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let (n, squares): (Vec<_>, Vec<_>) = (0..3).into_par_iter().map(|n| (n, n * n)).unzip();
    /// assert_eq!((n, squares), (vec![0, 1, 2], vec![0, 1, 4]));
    /// ```
    fn unzip<A, B, FromA, FromB>(self) -> (FromA, FromB)
    where
        Self: ParallelIterator<Item = (A, B)>,
        FromA: Default + Send + ParallelExtend<A>,
        FromB: Default + Send + ParallelExtend<B>,
        A: Send,
        B: Send,
    {
        let both = |(a, b), to_a: &mut Vec<A>, to_b: &mut Vec<B>| {
            to_a.push(a);
            to_b.push(b);
        };
        extend_both(run(self, Pairs::new(both)))
    }

    /// Two collections: of the items for which the predicate holds, and of the others.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let (even, odd): (Vec<_>, Vec<_>) = (0..5).into_par_iter().partition(|n| n % 2 == 0);
    /// assert_eq!((even, odd), (vec![0, 2, 4], vec![1, 3]));
    /// ```
    fn partition<A, B, P>(self, predicate: P) -> (A, B)
    where
        A: Default + Send + ParallelExtend<Self::Item>,
        B: Default + Send + ParallelExtend<Self::Item>,
        P: Fn(&Self::Item) -> bool + Sync + Send,
    {
        self.partition_map(
            |item| {
                if predicate(&item) { Either::Left(item) } else { Either::Right(item) }
            },
        )
    }

    /// Two collections, of what `f` makes of the items for the one or the other.
    ///
    /// ```
    /// use filch::par::{Either, prelude::*};
    /// let (fits, rest): (Vec<u8>, Vec<i32>) = [1, 300].into_par_iter().partition_map(|n| {
    ///     u8::try_from(n).map_or(Either::Right(n), Either::Left)
    /// });
    /// assert_eq!((fits, rest), (vec![1], vec![300]));
    /// ```
    fn partition_map<A, B, P, L, R>(self, f: P) -> (A, B)
    where
        A: Default + Send + ParallelExtend<L>,
        B: Default + Send + ParallelExtend<R>,
        P: Fn(Self::Item) -> Either<L, R> + Sync + Send,
        L: Send,
        R: Send,
    {
        let either = |item, to_left: &mut Vec<L>, to_right: &mut Vec<R>| match f(item) {
            Either::Left(left) => to_left.push(left),
            Either::Right(right) => to_right.push(right),
        };
        extend_both(run(self, Pairs::new(either)))
    }
}
