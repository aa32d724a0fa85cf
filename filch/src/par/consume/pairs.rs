//! Endings with two results: `unzip`, `unzip_into_vecs`, `partition`, `partition_map`.
//!
//! Of known length, each half is collected in place. Otherwise each piece fills two vectors, and the
//! two collections are extended from the pieces in order.

use std::collections::LinkedList;
use std::marker::PhantomData;

use super::Op;
use crate::par::convert::ParallelExtend;
use crate::par::plumbing::{Consumer, Folder, Reducer};

/// One of two, as [`partition_map`](crate::par::ParallelIterator::partition_map) wants it.
///
/// ```
/// use filch::par::{Either, prelude::*};
/// let words = ["1", "x", "2"];
/// let (numbers, rest): (Vec<u8>, Vec<&str>) =
///     words.par_iter().partition_map(|word| match word.parse::<u8>() {
///         Ok(number) => Either::Left(number),
///         Err(_) => Either::Right(*word),
///     });
/// assert_eq!((numbers, rest), (vec![1, 2], vec!["x"]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Either<L, R> {
    /// The first.
    Left(L),
    /// The second.
    Right(R),
}

/// Puts each item into one of two vectors, or a part into each.
pub(in crate::par) struct Pairs<F, A, B>(F, PhantomData<fn() -> (A, B)>);

impl<F, A, B> Pairs<F, A, B> {
    pub(in crate::par) fn new<T>(f: F) -> Self
    where
        F: Fn(T, &mut Vec<A>, &mut Vec<B>),
    {
        Self(f, PhantomData)
    }
}

/// The vectors of all pieces so far.
pub(in crate::par) type Pieces<A, B> = LinkedList<(Vec<A>, Vec<B>)>;

impl<T, A: Send, B: Send, F> Op<T> for Pairs<F, A, B>
where
    F: Fn(T, &mut Vec<A>, &mut Vec<B>) + Sync,
{
    type Acc = Pieces<A, B>;

    fn start(&self) -> Self::Acc {
        LinkedList::new()
    }

    fn eat(&self, mut acc: Self::Acc, items: impl Iterator<Item = T>) -> Self::Acc {
        if acc.is_empty() {
            acc.push_back((Vec::new(), Vec::new()));
        }
        if let Some((a, b)) = acc.back_mut() {
            items.for_each(|item| (self.0)(item, a, b));
        }
        acc
    }

    fn merge(&self, mut left: Self::Acc, mut right: Self::Acc) -> Self::Acc {
        left.append(&mut right);
        left
    }
}

/// Makes two collections of the pieces.
pub(in crate::par) fn extend_both<A, B, FA, FB>(pieces: Pieces<A, B>) -> (FA, FB)
where
    A: Send,
    B: Send,
    FA: Default + Send + ParallelExtend<A>,
    FB: Default + Send + ParallelExtend<B>,
{
    let (left, right): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
    let (mut a, mut b) = (FA::default(), FB::default());
    a.par_extend(end_to_end(left));
    b.par_extend(end_to_end(right));
    (a, b)
}

/// One vector of many.
pub(super) fn end_to_end<T>(pieces: Vec<Vec<T>>) -> Vec<T> {
    let mut pieces = pieces.into_iter();
    let mut all = pieces.next().unwrap_or_default();
    all.reserve(pieces.as_slice().iter().map(Vec::len).sum());
    pieces.for_each(|mut piece| all.append(&mut piece));
    all
}

/// Two consumers, one for each half of a pair.
pub(in crate::par) struct Both<A, B>(pub(in crate::par) A, pub(in crate::par) B);

impl<T, U, A: Consumer<T>, B: Consumer<U>> Consumer<(T, U)> for Both<A, B> {
    type Folder = Both<A::Folder, B::Folder>;
    type Reducer = Both<A::Reducer, B::Reducer>;
    type Result = (A::Result, B::Result);

    fn split_off(&self) -> Self {
        Both(self.0.split_off(), self.1.split_off())
    }

    fn to_reducer(&self) -> Self::Reducer {
        Both(self.0.to_reducer(), self.1.to_reducer())
    }

    fn into_folder(self) -> Self::Folder {
        Both(self.0.into_folder(), self.1.into_folder())
    }

    fn split_at(self, index: usize) -> (Self, Self, Self::Reducer) {
        let (left_a, right_a, reducer_a) = self.0.split_at(index);
        let (left_b, right_b, reducer_b) = self.1.split_at(index);
        (Both(left_a, left_b), Both(right_a, right_b), Both(reducer_a, reducer_b))
    }

    fn full(&self) -> bool {
        self.0.full() && self.1.full()
    }
}

impl<T, U, A: Folder<T>, B: Folder<U>> Folder<(T, U)> for Both<A, B> {
    type Result = (A::Result, B::Result);
    const FILLED_BY_OTHERS: bool = A::FILLED_BY_OTHERS && B::FILLED_BY_OTHERS;

    fn consume(self, (a, b): (T, U)) -> Self {
        Both(self.0.consume(a), self.1.consume(b))
    }

    fn complete(self) -> Self::Result {
        (self.0.complete(), self.1.complete())
    }

    fn full(&self) -> bool {
        self.0.full() && self.1.full()
    }
}

impl<R, S, A: Reducer<R>, B: Reducer<S>> Reducer<(R, S)> for Both<A, B> {
    fn reduce(self, left: (R, S), right: (R, S)) -> (R, S) {
        (self.0.reduce(left.0, right.0), self.1.reduce(left.1, right.1))
    }
}
