//! `interleave`: an item of one iterator, then one of the other, then what is left of the longer.

use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::{Plan, Producer};

/// Made by [`IndexedParallelIterator::interleave`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Interleave<A, B> {
    pub(in crate::par) a: A,
    pub(in crate::par) b: B,
}

bridged!([A: IndexedParallelIterator, B: IndexedParallelIterator<Item = A::Item>]
    Interleave<A, B>, A::Item);

impl<A, B> IndexedParallelIterator for Interleave<A, B>
where
    A: IndexedParallelIterator,
    B: IndexedParallelIterator<Item = A::Item>,
{
    type Producer<'p>
        = InterleaveProducer<A::Producer<'p>, B::Producer<'p>>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.a.len().checked_add(self.b.len()).expect("the length of both fits a usize")
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        let (a_len, b_len) = (self.a.len(), self.b.len());
        let (a, b) = (self.a.producer(), self.b.producer());
        InterleaveProducer { a, a_len, b, b_len, next: Next::A }
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    A,
    B,
}

/// How many of the first `index` items are of `a`, when it has `a_len`, the other `b_len`.
fn of_a(index: usize, a_len: usize, b_len: usize, next: Next) -> usize {
    let fair = match next {
        Next::A => index.div_ceil(2),
        Next::B => index / 2,
    };
    // One that has run out leaves its turns to the other.
    fair.min(a_len).max(index.saturating_sub(b_len))
}

/// The items of an [`Interleave`].
#[derive(Debug)]
pub struct InterleaveProducer<A, B> {
    a: A,
    a_len: usize,
    b: B,
    b_len: usize,
    next: Next,
}

impl<A: Producer, B: Producer<Item = A::Item>> Producer for InterleaveProducer<A, B> {
    type Item = A::Item;
    type IntoIter = InterleaveIter<A::IntoIter, B::IntoIter>;
    const SEEN: bool = A::SEEN || B::SEEN;

    fn into_iter(self) -> Self::IntoIter {
        InterleaveIter { a: self.a.into_iter(), b: self.b.into_iter(), next: self.next }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let Self { a, a_len, b, b_len, next } = self;
        let at_a = of_a(index, a_len, b_len, next);
        let at_b = index - at_a;
        let (left_a, right_a) = a.split_at(at_a);
        let (left_b, right_b) = b.split_at(at_b);
        // While both last, turns alternate; after that, it does not matter.
        let after = match (next, index % 2) {
            (Next::A, 0) | (Next::B, 1) => Next::A,
            _ => Next::B,
        };
        let left = Self { a: left_a, a_len: at_a, b: left_b, b_len: at_b, next };
        let (a_len, b_len) = (a_len - at_a, b_len - at_b);
        (left, Self { a: right_a, a_len, b: right_b, b_len, next: after })
    }

    fn plan(&self) -> Plan {
        self.a.plan().and(self.b.plan())
    }
}

/// The items of an [`InterleaveProducer`].
#[derive(Debug)]
pub struct InterleaveIter<A, B> {
    a: A,
    b: B,
    next: Next,
}

impl<A: Iterator, B: Iterator<Item = A::Item>> Iterator for InterleaveIter<A, B> {
    type Item = A::Item;

    fn next(&mut self) -> Option<A::Item> {
        match self.next {
            Next::A => {
                self.next = Next::B;
                self.a.next().or_else(|| self.b.next())
            }
            Next::B => {
                self.next = Next::A;
                self.b.next().or_else(|| self.a.next())
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (a, b) = (self.a.size_hint().0, self.b.size_hint().0);
        (a + b, Some(a + b))
    }
}

impl<A, B> DoubleEndedIterator for InterleaveIter<A, B>
where
    A: ExactSizeIterator + DoubleEndedIterator,
    B: ExactSizeIterator<Item = A::Item> + DoubleEndedIterator,
{
    fn next_back(&mut self) -> Option<A::Item> {
        let (a, b) = (self.a.len(), self.b.len());
        // The last item is of `a` if one item less has one less of `a`.
        let last = (a + b).checked_sub(1)?;
        if of_a(last, a, b, self.next) < a { self.a.next_back() } else { self.b.next_back() }
    }
}

impl<A, B> ExactSizeIterator for InterleaveIter<A, B>
where
    A: ExactSizeIterator,
    B: ExactSizeIterator<Item = A::Item>,
{
}
