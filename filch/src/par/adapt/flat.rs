//! Adaptors whose items are parallel iterators themselves: `flat_map`, `flatten`.
//!
//! Each inner loop is driven where its item turns up, into a consumer that is cut off for it. So a few
//! long inner loops are spread over the workers as well as many short ones.

use super::each::Calls;
use crate::par::convert::IntoParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Reducer};

/// What [`FlatMap`] and [`Flatten`] are.
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Flat<I, O> {
    pub(in crate::par) base: I,
    pub(in crate::par) op: O,
}

/// Made by [`ParallelIterator::flat_map`].
pub type FlatMap<I, F> = Flat<I, Calls<F>>;
/// Made by [`ParallelIterator::flatten`].
pub type Flatten<I> = Flat<I, Same>;

/// The function of [`Flatten`].
#[derive(Debug, Clone)]
pub struct Same;

/// A function from item to parallel iterator.
pub trait Unfold<T>: Sync + Send {
    /// What can be iterated.
    type Into: IntoParallelIterator;

    /// Makes it.
    fn unfold(&self, item: T) -> Self::Into;
}

impl<T, R: IntoParallelIterator, F: Fn(T) -> R + Sync + Send> Unfold<T> for Calls<F> {
    type Into = R;

    fn unfold(&self, item: T) -> R {
        (self.0)(item)
    }
}

impl<T: IntoParallelIterator> Unfold<T> for Same {
    type Into = T;

    fn unfold(&self, item: T) -> T {
        item
    }
}

type ItemOf<O, T> = <<O as Unfold<T>>::Into as IntoParallelIterator>::Item;

impl<I: ParallelIterator, O: Unfold<I::Item>> ParallelIterator for Flat<I, O> {
    type Item = ItemOf<O, I::Item>;

    fn drive<C: Consumer<Self::Item>>(self, consumer: C) -> C::Result {
        self.base.drive(FlatConsumer { next: consumer, op: &self.op })
    }
}

struct FlatConsumer<'o, C, O> {
    next: C,
    op: &'o O,
}

impl<'o, T, C, O> Consumer<T> for FlatConsumer<'o, C, O>
where
    O: Unfold<T>,
    C: Consumer<ItemOf<O, T>>,
{
    type Folder = FlatFolder<'o, C, C::Result, O>;
    type Reducer = C::Reducer;
    type Result = C::Result;

    fn split_off(&self) -> Self {
        Self { next: self.next.split_off(), op: self.op }
    }

    fn to_reducer(&self) -> C::Reducer {
        self.next.to_reducer()
    }

    fn into_folder(self) -> Self::Folder {
        FlatFolder { next: self.next, op: self.op, before: None }
    }

    fn full(&self) -> bool {
        self.next.full()
    }
}

/// `before` is of all inner loops so far.
struct FlatFolder<'o, C, R, O> {
    next: C,
    op: &'o O,
    before: Option<R>,
}

impl<T, C, O> Folder<T> for FlatFolder<'_, C, C::Result, O>
where
    O: Unfold<T>,
    C: Consumer<ItemOf<O, T>>,
{
    type Result = C::Result;
    const FILLED_BY_OTHERS: bool = C::Folder::FILLED_BY_OTHERS;

    fn consume(mut self, item: T) -> Self {
        let after = self.op.unfold(item).into_par_iter().drive(self.next.split_off());
        self.before = Some(match self.before {
            Some(before) => self.next.to_reducer().reduce(before, after),
            None => after,
        });
        self
    }

    fn complete(self) -> C::Result {
        self.before.unwrap_or_else(|| self.next.into_folder().complete())
    }

    fn full(&self) -> bool {
        self.next.full()
    }
}
