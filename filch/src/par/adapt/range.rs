//! `skip`, `take` and `step_by`: some of the items, by position.

use std::iter;

use crate::par::consume::drain;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::{Plan, Producer};

/// Made by [`IndexedParallelIterator::skip`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Skip<I> {
    pub(in crate::par) base: I,
    pub(in crate::par) n: usize,
}

bridged!([I: IndexedParallelIterator] Skip<I>, I::Item);

impl<I: IndexedParallelIterator> IndexedParallelIterator for Skip<I> {
    type Producer<'p>
        = I::Producer<'p>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len().saturating_sub(self.n)
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        let skipped = self.n.min(self.base.len());
        let (before, after) = self.base.producer().split_at(skipped);
        if <I::Producer<'_> as Producer>::SEEN {
            drain(skipped, before);
        }
        after
    }
}

/// Made by [`IndexedParallelIterator::take`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Take<I> {
    pub(in crate::par) base: I,
    pub(in crate::par) n: usize,
}

bridged!([I: IndexedParallelIterator] Take<I>, I::Item);

impl<I: IndexedParallelIterator> IndexedParallelIterator for Take<I> {
    type Producer<'p>
        = I::Producer<'p>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len().min(self.n)
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        let taken = self.len();
        self.base.producer().split_at(taken).0
    }
}

/// Made by [`IndexedParallelIterator::step_by`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct StepBy<I> {
    pub(in crate::par) base: I,
    pub(in crate::par) step: usize,
}

bridged!([I: IndexedParallelIterator] StepBy<I>, I::Item);

impl<I: IndexedParallelIterator> IndexedParallelIterator for StepBy<I> {
    type Producer<'p>
        = StepByProducer<I::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len().div_ceil(self.step)
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        StepByProducer { len: self.base.len(), base: self.base.producer(), step: self.step }
    }
}

/// The items of a [`StepBy`]; `len` is the number of items below.
///
/// Every cut falls on a multiple of `step`, so each piece starts with an item that is taken.
#[derive(Debug)]
pub struct StepByProducer<P> {
    len: usize,
    base: P,
    step: usize,
}

impl<P: Producer> Producer for StepByProducer<P> {
    type Item = P::Item;
    type IntoIter = iter::StepBy<P::IntoIter>;
    const SEEN: bool = P::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        self.base.into_iter().step_by(self.step)
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        // Past the last item taken there may be less than a whole step.
        let at = index.saturating_mul(self.step).min(self.len);
        let (left, right) = self.base.split_at(at);
        (Self { len: at, base: left, ..self }, Self { len: self.len - at, base: right, ..self })
    }

    fn plan(&self) -> Plan {
        self.base.plan().of_groups(self.step)
    }
}
