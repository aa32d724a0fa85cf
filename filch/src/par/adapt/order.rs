//! `enumerate` and `rev`: items with their positions, and from last to first.

use std::iter;
use std::ops::Range;

use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::{Plan, Producer};

/// Made by [`IndexedParallelIterator::enumerate`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Enumerate<I> {
    pub(in crate::par) base: I,
}

bridged!([I: IndexedParallelIterator] Enumerate<I>, (usize, I::Item));

impl<I: IndexedParallelIterator> IndexedParallelIterator for Enumerate<I> {
    type Producer<'p>
        = EnumerateProducer<I::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        EnumerateProducer { first: 0, base: self.base.producer() }
    }
}

/// The items of an [`Enumerate`], from position `first` on.
#[derive(Debug)]
pub struct EnumerateProducer<P> {
    first: usize,
    base: P,
}

/// The items of an [`EnumerateProducer`].
pub type EnumerateIter<I> = iter::Zip<Range<usize>, I>;

impl<P: Producer> Producer for EnumerateProducer<P> {
    type Item = (usize, P::Item);
    type IntoIter = EnumerateIter<P::IntoIter>;
    const SEEN: bool = P::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        let items = self.base.into_iter();
        (self.first..self.first + items.len()).zip(items)
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.base.split_at(index);
        let middle = self.first + index;
        (Self { base: left, ..self }, Self { first: middle, base: right })
    }

    fn plan(&self) -> Plan {
        self.base.plan()
    }
}

/// Made by [`IndexedParallelIterator::rev`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Rev<I> {
    pub(in crate::par) base: I,
}

bridged!([I: IndexedParallelIterator] Rev<I>, I::Item);

impl<I: IndexedParallelIterator> IndexedParallelIterator for Rev<I> {
    type Producer<'p>
        = RevProducer<I::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        RevProducer { len: self.base.len(), base: self.base.producer() }
    }
}

/// The items of a [`Rev`]; `len` is their number.
#[derive(Debug)]
pub struct RevProducer<P> {
    len: usize,
    base: P,
}

impl<P: Producer> Producer for RevProducer<P> {
    type Item = P::Item;
    type IntoIter = iter::Rev<P::IntoIter>;
    const SEEN: bool = P::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        self.base.into_iter().rev()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let rest = self.len - index;
        let (left, right) = self.base.split_at(rest);
        (Self { len: index, base: right }, Self { len: rest, base: left })
    }

    fn plan(&self) -> Plan {
        self.base.plan()
    }
}
