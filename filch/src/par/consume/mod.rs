//! What a parallel iterator ends in.
//!
//! Most endings are an [`Op`]: a value for each piece, a loop over its items, and a way to put two
//! values together. [`run`] makes a consumer of it. Two are consumers of their own, because they depend
//! on positions: collecting in place (par/consume/collect.rs), and finding the first or last
//! (par/consume/find.rs).

pub(super) mod collect;
pub(super) mod compare;
mod extend;
pub(super) mod find;
mod from;
pub(super) mod ops;
pub(super) mod pairs;

use std::marker::PhantomData;

use super::parallel::ParallelIterator;
use super::plumbing::{Consumer, Folder, Producer, Reducer, bridge_producer_consumer};

/// An ending that all pieces share.
pub(super) trait Op<T>: Sync {
    /// The value of a piece.
    type Acc: Send;

    /// Whether [`over`](Op::over) can ever say yes.
    const STOPS: bool = false;

    /// The value of no items.
    fn start(&self) -> Self::Acc;

    /// The value with these items too.
    fn eat(&self, acc: Self::Acc, items: impl Iterator<Item = T>) -> Self::Acc;

    /// One value of two; `left` is of the items before.
    fn merge(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc;

    /// Whether some piece made further items of all pieces useless.
    fn over(&self) -> bool {
        false
    }
}

/// Drives an iterator into an op.
pub(super) fn run<I: ParallelIterator, O: Op<I::Item>>(iter: I, op: O) -> O::Acc {
    iter.drive(Run(&op))
}

/// Makes all items of a producer, and drops them.
pub(super) fn drain<P: Producer>(len: usize, producer: P) {
    bridge_producer_consumer(len, producer, Run(&ops::ForEach(drop)));
}

struct Run<'o, O>(&'o O);

impl<'o, T, O: Op<T>> Consumer<T> for Run<'o, O> {
    type Folder = RunFolder<'o, O, O::Acc>;
    type Reducer = RunMerge<'o, T, O>;
    type Result = O::Acc;

    fn split_off(&self) -> Self {
        Run(self.0)
    }

    fn to_reducer(&self) -> Self::Reducer {
        RunMerge(self.0, PhantomData)
    }

    fn into_folder(self) -> Self::Folder {
        RunFolder { op: self.0, acc: self.0.start() }
    }

    fn full(&self) -> bool {
        self.0.over()
    }
}

/// The reducer of [`Run`], which has to name the type of the items.
struct RunMerge<'o, T, O>(&'o O, PhantomData<fn(T)>);

impl<T, O: Op<T>> Reducer<O::Acc> for RunMerge<'_, T, O> {
    fn reduce(self, left: O::Acc, right: O::Acc) -> O::Acc {
        self.0.merge(left, right)
    }
}

struct RunFolder<'o, O, A> {
    op: &'o O,
    acc: A,
}

impl<T, O: Op<T>> Folder<T> for RunFolder<'_, O, O::Acc> {
    type Result = O::Acc;
    const FILLED_BY_OTHERS: bool = O::STOPS;

    fn consume(self, item: T) -> Self {
        self.consume_iter(std::iter::once(item))
    }

    fn consume_iter<I: IntoIterator<Item = T>>(mut self, items: I) -> Self {
        self.acc = self.op.eat(self.acc, items.into_iter());
        self
    }

    fn complete(self) -> O::Acc {
        self.acc
    }

    fn full(&self) -> bool {
        self.op.over()
    }
}
