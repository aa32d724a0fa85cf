//! `find_any`, `find_first`, `find_last`.
//!
//! First and last need positions, also of items that nobody counts: `filter` and `flat_map` come
//! before. So each piece owns an interval of made-up positions, halved when the piece is cut, and its
//! rank is the end of the interval that is searched for.
//!
//! F1. Of two pieces, the one that comes first in the searched direction has the lower rank, or the
//!     same if the interval could be halved no more.
//! F2. A piece gives up only when one of strictly lower rank has found something, so what it
//!     might have found would have lost.

use std::cell::Cell;

use super::Op;
use crate::base::shim::{AtomicBool, AtomicUsize, Ordering};
use crate::par::plumbing::{Consumer, Folder, Reducer};

/// `find_any`.
pub(in crate::par) struct FindAny<P> {
    predicate: P,
    found: AtomicBool,
}

impl<P> FindAny<P> {
    pub(in crate::par) fn new(predicate: P) -> Self {
        Self { predicate, found: AtomicBool::new(false) }
    }
}

impl<T: Send, P: Fn(&T) -> bool + Sync> Op<T> for FindAny<P> {
    type Acc = Option<T>;
    const STOPS: bool = true;

    fn start(&self) -> Option<T> {
        None
    }

    fn eat(&self, acc: Option<T>, mut items: impl Iterator<Item = T>) -> Option<T> {
        acc.or_else(|| {
            // Another piece's find ends this one as if the item were its own, and then drops it.
            let item = items.find(|item| Op::<T>::over(self) || (self.predicate)(item));
            // ORDERING: Relaxed, a hint to stop early; the item travels with the piece.
            item.filter(|_| !self.found.swap(true, Ordering::Relaxed))
        })
    }

    fn merge(&self, left: Option<T>, right: Option<T>) -> Option<T> {
        left.or(right)
    }

    fn over(&self) -> bool {
        // ORDERING: Relaxed, as in `eat`.
        self.found.load(Ordering::Relaxed)
    }
}

/// Which of several is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::par) enum End {
    First,
    Last,
}

/// What all pieces share: `best` is the lowest rank that found something.
pub(in crate::par) struct Search<P> {
    predicate: P,
    end: End,
    best: AtomicUsize,
}

impl<P> Search<P> {
    pub(in crate::par) fn new(end: End, predicate: P) -> Self {
        Self { predicate, end, best: AtomicUsize::new(usize::MAX) }
    }

    pub(in crate::par) fn consumer(&self) -> FindConsumer<'_, P> {
        FindConsumer { search: self, low: Cell::new(0), high: usize::MAX }
    }

    /// F2.
    fn beaten(&self, rank: usize) -> bool {
        // ORDERING: Relaxed, a hint to stop early; the item travels with the piece.
        self.best.load(Ordering::Relaxed) < rank
    }
}

/// The interval is `low..=high`; `low` moves up as pieces are split off on the left.
pub(in crate::par) struct FindConsumer<'s, P> {
    search: &'s Search<P>,
    low: Cell<usize>,
    high: usize,
}

impl<P> FindConsumer<'_, P> {
    fn rank(&self) -> usize {
        match self.search.end {
            End::First => self.low.get(),
            End::Last => !self.high,
        }
    }
}

impl<'s, T: Send, P: Fn(&T) -> bool + Sync> Consumer<T> for FindConsumer<'s, P> {
    type Folder = FindFolder<'s, P, T>;
    type Reducer = End;
    type Result = Option<T>;

    fn split_off(&self) -> Self {
        let low = self.low.get();
        let middle = low + (self.high - low) / 2;
        // F1: when the interval is a point, both have it.
        self.low.set(middle.saturating_add(1).min(self.high));
        Self { search: self.search, low: Cell::new(low), high: middle }
    }

    fn to_reducer(&self) -> End {
        self.search.end
    }

    fn into_folder(self) -> Self::Folder {
        FindFolder { rank: self.rank(), search: self.search, found: None }
    }

    fn full(&self) -> bool {
        self.search.beaten(self.rank())
    }
}

impl<T> Reducer<Option<T>> for End {
    fn reduce(self, left: Option<T>, right: Option<T>) -> Option<T> {
        match self {
            End::First => left.or(right),
            End::Last => right.or(left),
        }
    }
}

pub(in crate::par) struct FindFolder<'s, P, T> {
    rank: usize,
    search: &'s Search<P>,
    found: Option<T>,
}

impl<T, P: Fn(&T) -> bool> Folder<T> for FindFolder<'_, P, T> {
    type Result = Option<T>;

    fn consume(mut self, item: T) -> Self {
        let replace = self.search.end == End::Last || self.found.is_none();
        if replace && (self.search.predicate)(&item) {
            // ORDERING: Relaxed, as in `beaten`.
            self.search.best.fetch_min(self.rank, Ordering::Relaxed);
            self.found = Some(item);
        }
        self
    }

    fn complete(self) -> Option<T> {
        self.found
    }

    fn full(&self) -> bool {
        let settled = self.search.end == End::First && self.found.is_some();
        settled || self.search.beaten(self.rank)
    }
}
