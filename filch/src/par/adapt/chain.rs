//! `chain`: the items of one iterator, then those of another.

use crate::fork::join;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Plan, Producer, Reducer, start};

/// Made by [`ParallelIterator::chain`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Chain<A, B> {
    pub(in crate::par) a: A,
    pub(in crate::par) b: B,
}

impl<A, B> ParallelIterator for Chain<A, B>
where
    A: ParallelIterator,
    B: ParallelIterator<Item = A::Item>,
{
    type Item = A::Item;

    fn drive<C: Consumer<A::Item>>(self, consumer: C) -> C::Result {
        let Self { a, b } = self;
        match (a.opt_len(), b.opt_len()) {
            (Some(0), _) => return b.drive(consumer),
            (_, Some(0)) => return a.drive(consumer),
            _ => {}
        }
        // P2: with both lengths known, the consumer is cut between the two.
        let known = a.opt_len().filter(|_| b.opt_len().is_some());
        let (left, right, reducer) = match known {
            Some(len) => consumer.split_at(len),
            None => {
                let (left, reducer) = (consumer.split_off(), consumer.to_reducer());
                (left, consumer, reducer)
            }
        };
        let (left, right) = start(2, || join(|| a.drive(left), || b.drive(right)));
        reducer.reduce(left, right)
    }

    fn opt_len(&self) -> Option<usize> {
        self.a.opt_len()?.checked_add(self.b.opt_len()?)
    }
}

impl<A, B> IndexedParallelIterator for Chain<A, B>
where
    A: IndexedParallelIterator,
    B: IndexedParallelIterator<Item = A::Item>,
{
    type Producer<'p>
        = ChainProducer<A::Producer<'p>, B::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.a.len().checked_add(self.b.len()).expect("the length of a chain fits a usize")
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        let len = self.a.len();
        ChainProducer { a: Some(self.a.producer()), len, b: Some(self.b.producer()) }
    }
}

/// [`Chain`] where its items are zipped, reversed or numbered later.
///
/// `len` is the length of `a`.
#[derive(Debug)]
pub struct ChainProducer<A, B> {
    a: Option<A>,
    len: usize,
    b: Option<B>,
}

impl<A: Producer, B: Producer<Item = A::Item>> Producer for ChainProducer<A, B> {
    type Item = A::Item;
    type IntoIter = ChainIter<A::IntoIter, B::IntoIter>;
    const SEEN: bool = A::SEEN || B::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        ChainIter { a: self.a.map(A::into_iter), b: self.b.map(B::into_iter) }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let Self { a, len, b } = self;
        if index < len {
            let (left, right) = a.map(|a| a.split_at(index)).unzip();
            let right = Self { a: right, len: len - index, b };
            (Self { a: left, len: index, b: None }, right)
        } else {
            let (left, right) = b.map(|b| b.split_at(index - len)).unzip();
            (Self { a, len, b: left }, Self { a: None, len: 0, b: right })
        }
    }

    fn plan(&self) -> Plan {
        let a = self.a.as_ref().map_or_else(Plan::default, A::plan);
        a.and(self.b.as_ref().map_or_else(Plan::default, B::plan))
    }

    fn fold_with<F: Folder<A::Item>>(self, mut folder: F) -> F {
        if let Some(a) = self.a {
            folder = a.fold_with(folder);
        }
        match self.b {
            Some(b) if !folder.full() => b.fold_with(folder),
            _ => folder,
        }
    }
}

/// The items of a [`ChainProducer`]: std's chain, which knows its length.
#[derive(Debug)]
pub struct ChainIter<A, B> {
    a: Option<A>,
    b: Option<B>,
}

impl<A: ExactSizeIterator, B: ExactSizeIterator<Item = A::Item>> Iterator for ChainIter<A, B> {
    type Item = A::Item;

    fn next(&mut self) -> Option<A::Item> {
        if let Some(a) = &mut self.a {
            match a.next() {
                None => self.a = None,
                item => return item,
            }
        }
        self.b.as_mut()?.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let a = self.a.as_ref().map_or(0, A::len);
        let len = a + self.b.as_ref().map_or(0, B::len);
        (len, Some(len))
    }

    fn fold<V, F: FnMut(V, A::Item) -> V>(self, mut value: V, mut f: F) -> V {
        if let Some(a) = self.a {
            value = a.fold(value, &mut f);
        }
        match self.b {
            Some(b) => b.fold(value, f),
            None => value,
        }
    }
}

impl<A, B> DoubleEndedIterator for ChainIter<A, B>
where
    A: ExactSizeIterator + DoubleEndedIterator,
    B: ExactSizeIterator<Item = A::Item> + DoubleEndedIterator,
{
    fn next_back(&mut self) -> Option<A::Item> {
        if let Some(b) = &mut self.b {
            match b.next_back() {
                None => self.b = None,
                item => return item,
            }
        }
        self.a.as_mut()?.next_back()
    }
}

impl<A, B> ExactSizeIterator for ChainIter<A, B>
where
    A: ExactSizeIterator,
    B: ExactSizeIterator<Item = A::Item>,
{
}
