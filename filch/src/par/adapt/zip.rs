//! `zip` and `zip_eq`: the items of two iterators in pairs.

use std::iter;

use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::{Plan, Producer};

/// Made by [`IndexedParallelIterator::zip`] and [`IndexedParallelIterator::zip_eq`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Zip<A, B> {
    pub(in crate::par) a: A,
    pub(in crate::par) b: B,
}

bridged!([A: IndexedParallelIterator, B: IndexedParallelIterator] Zip<A, B>, (A::Item, B::Item));

impl<A: IndexedParallelIterator, B: IndexedParallelIterator> IndexedParallelIterator for Zip<A, B> {
    type Producer<'p>
        = ZipProducer<A::Producer<'p>, B::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.a.len().min(self.b.len())
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        let len = self.len();
        // Cut to the same length, so that walking backwards meets the right pairs.
        let a = cut(self.a.len(), self.a.producer(), len);
        let b = cut(self.b.len(), self.b.producer(), len);
        ZipProducer { a, b }
    }
}

fn cut<P: Producer>(len: usize, producer: P, to: usize) -> P {
    if len == to { producer } else { producer.split_at(to).0 }
}

/// The pairs of a [`Zip`].
#[derive(Debug)]
pub struct ZipProducer<A, B> {
    a: A,
    b: B,
}

impl<A: Producer, B: Producer> Producer for ZipProducer<A, B> {
    type Item = (A::Item, B::Item);
    type IntoIter = iter::Zip<A::IntoIter, B::IntoIter>;
    const SEEN: bool = A::SEEN || B::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        self.a.into_iter().zip(self.b.into_iter())
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left_a, right_a) = self.a.split_at(index);
        let (left_b, right_b) = self.b.split_at(index);
        (Self { a: left_a, b: left_b }, Self { a: right_a, b: right_b })
    }

    fn plan(&self) -> Plan {
        self.a.plan().and(self.b.plan())
    }
}
