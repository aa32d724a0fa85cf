//! [`IndexedParallelIterator`]: what depends on positions, and so on a length that is known.

use std::cmp::Ordering;

use super::adapt::*;
use super::consume::collect;
use super::consume::compare::compare;
use super::convert::IntoParallelIterator;
use super::parallel::ParallelIterator;
use super::partition::Partition;
use super::plumbing::Producer;

/// A parallel iterator of known length, which can be cut at any position.
///
/// ```
/// use filch::par::prelude::*;
/// let (a, b) = (vec![1.0, 2.0], vec![3.0, 4.0]);
/// assert_eq!(a.par_iter().zip(&b).map(|(a, b)| a * b).sum::<f64>(), 11.0);
/// ```
#[expect(clippy::len_without_is_empty, reason = "as in std's ExactSizeIterator")]
pub trait IndexedParallelIterator: ParallelIterator {
    /// What [`producer`](Self::producer) makes.
    type Producer<'p>: Producer<Item = Self::Item>
    where
        Self: 'p;

    /// The number of items.
    fn len(&self) -> usize;

    /// What the items are taken from. It may be asked for once: the items of a vector are in one
    /// place only.
    fn producer(&mut self) -> Self::Producer<'_>;

    /// Puts all items into a vector, whose old items are dropped and whose memory is used again.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let mut squares = vec![7; 100];
    /// (0..3).into_par_iter().map(|n| n * n).collect_into_vec(&mut squares);
    /// assert_eq!(squares, [0, 1, 4]);
    /// ```
    fn collect_into_vec(self, target: &mut Vec<Self::Item>) {
        target.clear();
        collect::append(target, self.len(), self);
    }

    /// Puts the halves of all items into two vectors, as
    /// [`collect_into_vec`](Self::collect_into_vec).
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let (mut a, mut b) = (Vec::new(), Vec::new());
    /// [1, 2].par_iter().map(|n| (n + 1, n * 5)).unzip_into_vecs(&mut a, &mut b);
    /// assert_eq!((a, b), (vec![2, 3], vec![5, 10]));
    /// ```
    fn unzip_into_vecs<A: Send, B: Send>(self, left: &mut Vec<A>, right: &mut Vec<B>)
    where
        Self: IndexedParallelIterator<Item = (A, B)>,
    {
        left.clear();
        right.clear();
        collect::append_both(left, right, self.len(), self);
    }

    /// The items of both in pairs, as many as the shorter has.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2, 3].par_iter().zip([4, 5]).map(|(a, b)| a * b).sum::<i32>(), 14);
    /// ```
    fn zip<Z>(self, zip_op: Z) -> Zip<Self, Z::Iter>
    where
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        Zip { a: self, b: zip_op.into_par_iter() }
    }

    /// As [`zip`](Self::zip), of two that are equally long.
    ///
    /// # Panics
    /// If they are not.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2].par_iter().zip_eq([4, 5]).count(), 2);
    /// ```
    #[track_caller]
    fn zip_eq<Z>(self, zip_op: Z) -> Zip<Self, Z::Iter>
    where
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        let zip = self.zip(zip_op);
        let (a, b) = (zip.a.len(), zip.b.len());
        assert!(a == b, "iterators of {a} and of {b} items were to be equally long");
        zip
    }

    /// The items of both in turn, then the rest of the longer.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2, 3].into_par_iter().interleave([7]).collect::<Vec<_>>(), [1, 7, 2, 3]);
    /// ```
    fn interleave<I>(self, other: I) -> Interleave<Self, I::Iter>
    where
        I: IntoParallelIterator<Item = Self::Item, Iter: IndexedParallelIterator>,
    {
        Interleave { a: self, b: other.into_par_iter() }
    }

    /// The items of both in turn, until one has none when its turn comes.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1, 2, 3].into_par_iter().interleave_shortest([7]).collect::<Vec<_>>(), [1, 7, 2]);
    /// ```
    fn interleave_shortest<I>(self, other: I) -> Interleave<Take<Self>, Take<I::Iter>>
    where
        I: IntoParallelIterator<Item = Self::Item, Iter: IndexedParallelIterator>,
    {
        let other = other.into_par_iter();
        let (a, b) = (self.len(), other.len());
        Interleave { a: self.take(b.saturating_add(1)), b: other.take(a) }
    }

    /// The items in vectors of `size`, the last one perhaps shorter.
    ///
    /// A slice has [`par_chunks`](super::ParallelSlice::par_chunks), which copies nothing.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let sums = (1..6).into_par_iter().chunks(2).map(|chunk| chunk.iter().sum::<i32>());
    /// assert_eq!(sums.collect::<Vec<_>>(), [3, 7, 5]);
    /// ```
    #[track_caller]
    fn chunks(self, size: usize) -> Chunks<Self> {
        assert!(size > 0, "a chunk has at least one item");
        Chunks { base: self, size }
    }

    /// Compares item by item, and the lengths if one is the start of the other.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1, 2].par_iter().cmp([1, 3].par_iter()).is_lt());
    /// ```
    fn cmp<I>(self, other: I) -> Ordering
    where
        I: IntoParallelIterator<Item = Self::Item, Iter: IndexedParallelIterator>,
        Self::Item: Ord,
    {
        let lengths = |a: usize, b: usize| a.cmp(&b);
        compare(self, other.into_par_iter(), Ordering::Equal, lengths, |a, b| a.cmp(&b))
    }

    /// As [`cmp`](Self::cmp), of items that may have no order.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([1.0].par_iter().partial_cmp([f64::NAN].par_iter()), None);
    /// ```
    fn partial_cmp<I>(self, other: I) -> Option<Ordering>
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialOrd<I::Item>,
    {
        let (equal, lengths) = (Some(Ordering::Equal), |a: usize, b: usize| Some(a.cmp(&b)));
        compare(self, other.into_par_iter(), equal, lengths, |a, b| a.partial_cmp(&b))
    }

    /// Whether both are equally long and all items are equal.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1, 2].par_iter().eq([1, 2].par_iter()));
    /// ```
    fn eq<I>(self, other: I) -> bool
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialEq<I::Item>,
    {
        let other = other.into_par_iter();
        self.len() == other.len() && self.zip(other).all(|(a, b)| a == b)
    }

    /// Whether [`eq`](Self::eq) does not hold.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1, 2].par_iter().ne([1].par_iter()));
    /// ```
    fn ne<I>(self, other: I) -> bool
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialEq<I::Item>,
    {
        !self.eq(other)
    }

    /// Whether this is less than the other, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1].par_iter().lt([2].par_iter()));
    /// ```
    fn lt<I>(self, other: I) -> bool
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialOrd<I::Item>,
    {
        self.partial_cmp(other).is_some_and(Ordering::is_lt)
    }

    /// Whether this is at most the other, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1].par_iter().le([1].par_iter()));
    /// ```
    fn le<I>(self, other: I) -> bool
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialOrd<I::Item>,
    {
        self.partial_cmp(other).is_some_and(Ordering::is_le)
    }

    /// Whether this is greater than the other, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([1, 0].par_iter().gt([1].par_iter()));
    /// ```
    fn gt<I>(self, other: I) -> bool
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialOrd<I::Item>,
    {
        self.partial_cmp(other).is_some_and(Ordering::is_gt)
    }

    /// Whether this is at least the other, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert!([2].par_iter().ge([1].par_iter()));
    /// ```
    fn ge<I>(self, other: I) -> bool
    where
        I: IntoParallelIterator<Iter: IndexedParallelIterator>,
        Self::Item: PartialOrd<I::Item>,
    {
        self.partial_cmp(other).is_some_and(Ordering::is_ge)
    }

    /// Items with their positions.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// let mut squares = [0; 4];
    /// squares.par_iter_mut().enumerate().for_each(|(i, square)| *square = i * i);
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// ```
    fn enumerate(self) -> Enumerate<Self> {
        Enumerate { base: self }
    }

    /// Every `step`th item, from the first on.
    ///
    /// As in std, the closures of the stages before this one are called for the items between, too.
    ///
    /// # Panics
    /// If `step` is 0.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..10).into_par_iter().step_by(4).collect::<Vec<_>>(), [0, 4, 8]);
    /// ```
    #[track_caller]
    fn step_by(self, step: usize) -> StepBy<Self> {
        assert!(step > 0, "a step leads on");
        StepBy { base: self, step }
    }

    /// All but the first `n` items.
    ///
    /// As in std, the closures of the stages before this one are called for the skipped items too:
    /// first for all of these, in parallel, and then the loop goes on behind them.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..4).into_par_iter().skip(2).collect::<Vec<_>>(), [2, 3]);
    /// ```
    fn skip(self, n: usize) -> Skip<Self> {
        Skip { base: self, n }
    }

    /// The first `n` items.
    ///
    /// As in std, no closure of the stages before this one is called for the items that are left out.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..4).into_par_iter().take(2).collect::<Vec<_>>(), [0, 1]);
    /// ```
    fn take(self, n: usize) -> Take<Self> {
        Take { base: self, n }
    }

    /// The position of some item for which the predicate holds; other pieces stop soon after.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([7, 1].par_iter().position_any(|n| *n == 1), Some(1));
    /// ```
    fn position_any<P>(self, predicate: P) -> Option<usize>
    where
        P: Fn(Self::Item) -> bool + Sync + Send,
    {
        let found = self.map(predicate).enumerate().find_any(|(_, holds)| *holds);
        found.map(|(position, _)| position)
    }

    /// The position of the first item for which the predicate holds.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([7, 1, 7].par_iter().position_first(|n| *n == 7), Some(0));
    /// ```
    fn position_first<P>(self, predicate: P) -> Option<usize>
    where
        P: Fn(Self::Item) -> bool + Sync + Send,
    {
        let found = self.map(predicate).enumerate().find_first(|(_, holds)| *holds);
        found.map(|(position, _)| position)
    }

    /// The position of the last item for which the predicate holds.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!([7, 1, 7].par_iter().position_last(|n| *n == 7), Some(2));
    /// ```
    fn position_last<P>(self, predicate: P) -> Option<usize>
    where
        P: Fn(Self::Item) -> bool + Sync + Send,
    {
        let found = self.map(predicate).enumerate().find_last(|(_, holds)| *holds);
        found.map(|(position, _)| position)
    }

    /// The items from last to first.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..3).into_par_iter().rev().collect::<Vec<_>>(), [2, 1, 0]);
    /// ```
    fn rev(self) -> Rev<Self> {
        Rev { base: self }
    }

    /// Cuts the loop into pieces of at least `min` items: for items so cheap that a piece of few is not
    /// worth a thief.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..1000).into_par_iter().with_min_len(100).count(), 1000);
    /// ```
    fn with_min_len(self, min: usize) -> MinLen<Self> {
        Tuned { base: self, wish: Min(min) }
    }

    /// Cuts the loop into pieces of at most `max` items, if the minimum allows.
    ///
    /// ```
    /// # use filch::par::prelude::*;
    /// assert_eq!((0..1000).into_par_iter().with_max_len(100).count(), 1000);
    /// ```
    fn with_max_len(self, max: usize) -> MaxLen<Self> {
        Tuned { base: self, wish: Max(max) }
    }

    /// Cuts the loop in the given way. The last such call counts.
    ///
    /// ```
    /// use filch::par::{self, prelude::*};
    /// assert_eq!((0..9).into_par_iter().partition_by(par::dynamic(2)).sum::<u64>(), 36);
    /// ```
    fn partition_by(self, partition: Partition) -> PartitionBy<Self> {
        Tuned { base: self, wish: partition }
    }
}
