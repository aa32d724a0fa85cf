//! `with_min_len`, `with_max_len`, `partition_by`: how the loop is to be cut.

use crate::par::indexed::IndexedParallelIterator;
use crate::par::partition::Partition;
use crate::par::plumbing::{Folder, Plan, Producer};

/// What [`MinLen`], [`MaxLen`] and [`PartitionBy`] are.
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Tuned<I, W> {
    pub(in crate::par) base: I,
    pub(in crate::par) wish: W,
}

/// Made by [`IndexedParallelIterator::with_min_len`].
pub type MinLen<I> = Tuned<I, Min>;
/// Made by [`IndexedParallelIterator::with_max_len`].
pub type MaxLen<I> = Tuned<I, Max>;
/// Made by [`IndexedParallelIterator::partition_by`].
pub type PartitionBy<I> = Tuned<I, Partition>;

/// A change of the plan.
pub trait Wish: Copy + Send {
    /// The plan with this wish.
    fn add_to(self, plan: Plan) -> Plan;
}

/// The wish of [`MinLen`].
#[derive(Debug, Clone, Copy)]
pub struct Min(pub(in crate::par) usize);

impl Wish for Min {
    fn add_to(self, plan: Plan) -> Plan {
        plan.min_len(self.0)
    }
}

/// The wish of [`MaxLen`].
#[derive(Debug, Clone, Copy)]
pub struct Max(pub(in crate::par) usize);

impl Wish for Max {
    fn add_to(self, plan: Plan) -> Plan {
        plan.max_len(self.0)
    }
}

impl Wish for Partition {
    fn add_to(self, plan: Plan) -> Plan {
        plan.partition(self)
    }
}

bridged!([I: IndexedParallelIterator, W: Wish] Tuned<I, W>, I::Item);

impl<I: IndexedParallelIterator, W: Wish> IndexedParallelIterator for Tuned<I, W> {
    type Producer<'p>
        = TunedProducer<I::Producer<'p>, W>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        TunedProducer { base: self.base.producer(), wish: self.wish }
    }
}

/// The items of a [`Tuned`].
#[derive(Debug)]
pub struct TunedProducer<P, W> {
    base: P,
    wish: W,
}

impl<P: Producer, W: Wish> Producer for TunedProducer<P, W> {
    type Item = P::Item;
    type IntoIter = P::IntoIter;
    const SEEN: bool = P::SEEN;

    fn into_iter(self) -> P::IntoIter {
        self.base.into_iter()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.base.split_at(index);
        (Self { base: left, ..self }, Self { base: right, ..self })
    }

    fn plan(&self) -> Plan {
        self.wish.add_to(self.base.plan())
    }

    fn fold_with<F: Folder<P::Item>>(self, folder: F) -> F {
        self.base.fold_with(folder)
    }
}
