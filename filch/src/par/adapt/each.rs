//! Adaptors that make one item of each: `map`, `cloned`, `copied`, `inspect`, `update`.
//!
//! They are one adaptor with five functions. The function is borrowed by the pieces, so it need not be
//! `Clone`.

use super::stage::{Pass, Stage, Through};
use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Plan, Producer};

/// A function from item to item that all pieces share.
pub trait Call<T>: Sync + Send {
    /// What becomes of an item.
    type Out: Send;

    /// Makes it.
    fn call(&self, item: T) -> Self::Out;
}

/// What [`Map`], [`Cloned`], [`Copied`], [`Inspect`] and [`Update`] are.
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Each<I, O> {
    base: I,
    op: O,
}

impl<I, O> Each<I, O> {
    pub(in crate::par) fn new(base: I, op: O) -> Self {
        Self { base, op }
    }
}

/// Made by [`ParallelIterator::map`].
pub type Map<I, F> = Each<I, Calls<F>>;
/// Made by [`ParallelIterator::cloned`].
pub type Cloned<I> = Each<I, Clones>;
/// Made by [`ParallelIterator::copied`].
pub type Copied<I> = Each<I, Clones>;
/// Made by [`ParallelIterator::inspect`].
pub type Inspect<I, F> = Each<I, Looks<F>>;
/// Made by [`ParallelIterator::update`].
pub type Update<I, F> = Each<I, Changes<F>>;

/// The function of [`Map`].
#[derive(Debug, Clone)]
pub struct Calls<F>(pub(in crate::par) F);
/// The function of [`Cloned`] and [`Copied`].
#[derive(Debug, Clone)]
pub struct Clones;
/// The function of [`Inspect`].
#[derive(Debug, Clone)]
pub struct Looks<F>(pub(in crate::par) F);
/// The function of [`Update`].
#[derive(Debug, Clone)]
pub struct Changes<F>(pub(in crate::par) F);

impl<T, R: Send, F: Fn(T) -> R + Sync + Send> Call<T> for Calls<F> {
    type Out = R;

    #[inline]
    fn call(&self, item: T) -> R {
        (self.0)(item)
    }
}

impl<T: Clone + Send> Call<&T> for Clones {
    type Out = T;

    #[inline]
    fn call(&self, item: &T) -> T {
        item.clone()
    }
}

impl<T: Send, F: Fn(&T) + Sync + Send> Call<T> for Looks<F> {
    type Out = T;

    #[inline]
    fn call(&self, item: T) -> T {
        (self.0)(&item);
        item
    }
}

impl<T: Send, F: Fn(&mut T) + Sync + Send> Call<T> for Changes<F> {
    type Out = T;

    #[inline]
    fn call(&self, mut item: T) -> T {
        (self.0)(&mut item);
        item
    }
}

/// [`Each`] as a stage.
struct EachStage<'o, O>(&'o O);

impl<T, O: Call<T>> Stage<T> for EachStage<'_, O> {
    type Run = Self;
    const KEEPS_COUNT: bool = true;

    fn fork(&self) -> Self {
        Self(self.0)
    }

    fn start(self) -> Self {
        self
    }
}

impl<T, O: Call<T>> Pass<T> for EachStage<'_, O> {
    type Out = O::Out;

    fn pass<F: Folder<O::Out>>(&mut self, items: impl Iterator<Item = T>, next: F) -> F {
        next.consume_iter(items.map(|item| self.0.call(item)))
    }
}

impl<I: ParallelIterator, O: Call<I::Item>> ParallelIterator for Each<I, O> {
    type Item = O::Out;

    fn drive<C: Consumer<O::Out>>(self, consumer: C) -> C::Result {
        self.base.drive(Through { next: consumer, stage: EachStage(&self.op) })
    }

    fn opt_len(&self) -> Option<usize> {
        self.base.opt_len()
    }
}

impl<I: IndexedParallelIterator, O: Call<I::Item>> IndexedParallelIterator for Each<I, O> {
    type Producer<'p>
        = EachProducer<'p, I::Producer<'p>, O>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        EachProducer { base: self.base.producer(), op: &self.op }
    }
}

/// [`Each`] where its items are zipped, reversed or numbered later.
#[derive(Debug)]
pub struct EachProducer<'o, P, O> {
    base: P,
    op: &'o O,
}

impl<'o, P: Producer, O: Call<P::Item>> Producer for EachProducer<'o, P, O> {
    type Item = O::Out;
    type IntoIter = EachIter<'o, P::IntoIter, O>;

    fn into_iter(self) -> Self::IntoIter {
        EachIter { base: self.base.into_iter(), op: self.op }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.base.split_at(index);
        (Self { base: left, op: self.op }, Self { base: right, op: self.op })
    }

    fn plan(&self) -> Plan {
        self.base.plan()
    }
}

/// The items of an [`EachProducer`].
#[derive(Debug)]
pub struct EachIter<'o, I, O> {
    base: I,
    op: &'o O,
}

impl<I: Iterator, O: Call<I::Item>> Iterator for EachIter<'_, I, O> {
    type Item = O::Out;

    #[inline]
    fn next(&mut self) -> Option<O::Out> {
        self.base.next().map(|item| self.op.call(item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.base.size_hint()
    }

    fn fold<B, G: FnMut(B, O::Out) -> B>(self, init: B, mut g: G) -> B {
        self.base.fold(init, |acc, item| g(acc, self.op.call(item)))
    }
}

impl<I: DoubleEndedIterator, O: Call<I::Item>> DoubleEndedIterator for EachIter<'_, I, O> {
    #[inline]
    fn next_back(&mut self) -> Option<O::Out> {
        self.base.next_back().map(|item| self.op.call(item))
    }
}

impl<I: ExactSizeIterator, O: Call<I::Item>> ExactSizeIterator for EachIter<'_, I, O> {}
