//! `chunks`: items in vectors of equal length.

use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::{Plan, Producer};

/// Made by [`IndexedParallelIterator::chunks`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Chunks<I> {
    pub(in crate::par) base: I,
    pub(in crate::par) size: usize,
}

bridged!([I: IndexedParallelIterator] Chunks<I>, Vec<I::Item>);

impl<I: IndexedParallelIterator> IndexedParallelIterator for Chunks<I> {
    type Producer<'p>
        = ChunkProducer<I::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len().div_ceil(self.size)
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        ChunkProducer { len: self.base.len(), base: self.base.producer(), size: self.size }
    }
}

/// The vectors of a [`Chunks`]; `len` is the number of items in them.
#[derive(Debug)]
pub struct ChunkProducer<P> {
    len: usize,
    base: P,
    size: usize,
}

impl<P: Producer> Producer for ChunkProducer<P> {
    type Item = Vec<P::Item>;
    type IntoIter = ChunkIter<P::IntoIter>;
    const SEEN: bool = P::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        ChunkIter { items: self.base.into_iter(), size: self.size }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let at = index.saturating_mul(self.size).min(self.len);
        let (left, right) = self.base.split_at(at);
        (Self { len: at, base: left, ..self }, Self { len: self.len - at, base: right, ..self })
    }

    fn plan(&self) -> Plan {
        self.base.plan().of_groups(self.size)
    }
}

/// The vectors of a [`ChunkProducer`].
#[derive(Debug)]
pub struct ChunkIter<I> {
    items: I,
    size: usize,
}

impl<I: ExactSizeIterator> Iterator for ChunkIter<I> {
    type Item = Vec<I::Item>;

    fn next(&mut self) -> Option<Vec<I::Item>> {
        (self.items.len() > 0).then(|| self.items.by_ref().take(self.size).collect())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.items.len().div_ceil(self.size);
        (len, Some(len))
    }
}

impl<I: ExactSizeIterator + DoubleEndedIterator> DoubleEndedIterator for ChunkIter<I> {
    fn next_back(&mut self) -> Option<Vec<I::Item>> {
        let len = self.items.len();
        let last = match len % self.size {
            0 => self.size.min(len),
            rest => rest,
        };
        let mut chunk: Vec<_> = self.items.by_ref().rev().take(last).collect();
        chunk.reverse();
        (len > 0).then_some(chunk)
    }
}

impl<I: ExactSizeIterator> ExactSizeIterator for ChunkIter<I> {}
