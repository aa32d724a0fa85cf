//! `par_bridge`: any iterator, whose items are taken under a lock.
//!
//! Workers take turns to call `next`, and work on what they got at the same time. So it pays only
//! where the work on an item outweighs a lock, and order is lost.

use std::iter::Fuse;
use std::sync::{Mutex, PoisonError};

use crate::fork::width;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, UnindexedProducer, bridge_unindexed};

/// Makes any iterator a parallel one.
///
/// ```
/// use filch::par::prelude::*;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// (0..10).for_each(|n| sender.send(n).unwrap());
/// drop(sender);
/// assert_eq!(receiver.into_iter().par_bridge().map(|n| n * n).sum::<i32>(), 285);
/// ```
pub trait ParallelBridge: Iterator<Item: Send> + Send + Sized {
    /// A parallel iterator of the same items, in no order.
    ///
    /// If `next` panics, nobody calls it again.
    fn par_bridge(self) -> IterBridge<Self> {
        IterBridge { iter: self }
    }
}

impl<I: Iterator<Item: Send> + Send> ParallelBridge for I {}

/// Made by [`ParallelBridge::par_bridge`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct IterBridge<I> {
    iter: I,
}

impl<I: Iterator<Item: Send> + Send> ParallelIterator for IterBridge<I> {
    type Item = I::Item;

    fn drive<C: Consumer<I::Item>>(self, consumer: C) -> C::Result {
        let items = Mutex::new(Some(self.iter.fuse()));
        bridge_unindexed(Takers { items: &items, count: width() }, consumer)
    }
}

/// So many who may take items; the lock holds `None` while `next` runs.
struct Takers<'i, I> {
    items: &'i Mutex<Option<Fuse<I>>>,
    count: usize,
}

impl<I: Iterator> Takers<'_, I> {
    fn next(&self) -> Option<I::Item> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        // A panic below leaves `None` behind, also where the lock knows no poison.
        let mut iter = items.take()?;
        let item = iter.next();
        *items = Some(iter);
        item
    }
}

impl<I: Iterator<Item: Send> + Send> UnindexedProducer for Takers<'_, I> {
    type Item = I::Item;

    fn split(self) -> (Self, Option<Self>) {
        let left = self.count / 2;
        let right = (left > 0).then_some(Self { items: self.items, count: left });
        (Self { count: self.count - left, ..self }, right)
    }

    fn fold_with<F: Folder<I::Item>>(self, folder: F) -> F {
        folder.consume_iter(std::iter::from_fn(|| self.next()))
    }
}
