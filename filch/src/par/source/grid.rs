//! Index ranges of two and three dimensions.
//!
//! G1. A cut halves the longest axis, the outermost of several, so pieces are near cubes and touch few
//!     lines of memory twice.

use std::ops::Range;

use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, UnindexedProducer, bridge_unindexed};

/// All index tuples of a box, in tiles.
///
/// A cut halves the longest axis, so a piece is a tile in which neighbours are near each other: what a
/// stencil, a matrix or an image wants. Within a tile the last axis runs fastest. The order of the
/// tiles depends on how the loop is cut, so do not rely on that of collected items.
///
/// ```
/// use filch::par::{grid, prelude::*};
///
/// let cells = grid((0..3, 0..4)).map(|(x, y)| x * 10 + y).sum::<usize>();
/// assert_eq!(cells, 138);
/// assert_eq!(grid((0..2, 0..3, 5..9)).count(), 24);
/// ```
pub fn grid<R: Axes>(ranges: R) -> Grid<R> {
    Grid { ranges, min: 1 }
}

/// Made by [`grid`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Grid<R> {
    ranges: R,
    min: usize,
}

impl<R: Axes> Grid<R> {
    /// Makes no tile of fewer than `min` cells.
    ///
    /// ```
    /// use filch::par::{grid, prelude::*};
    /// assert_eq!(grid((0..100, 0..100)).with_min_len(1000).count(), 10_000);
    /// ```
    pub fn with_min_len(self, min: usize) -> Self {
        Self { min: min.max(1), ..self }
    }
}

/// A box of indices: tuples of two or three ranges.
pub trait Axes: Clone + Send {
    /// The indices of a cell.
    type Index: Send;

    /// Cuts the longest axis in two.
    fn halve(self) -> (Self, Self);

    /// The number of cells, or the largest number if there are more.
    fn cells(&self) -> usize;

    /// All cells, the last axis fastest.
    fn walk(self) -> impl Iterator<Item = Self::Index>;
}

fn halves(range: Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = range.start + range.len() / 2;
    (range.start..middle, middle..range.end)
}

impl Axes for (Range<usize>, Range<usize>) {
    type Index = (usize, usize);

    fn halve(self) -> (Self, Self) {
        let (x, y) = self;
        if x.len() >= y.len() {
            let (a, b) = halves(x);
            ((a, y.clone()), (b, y))
        } else {
            let (a, b) = halves(y);
            ((x.clone(), a), (x, b))
        }
    }

    fn cells(&self) -> usize {
        self.0.len().saturating_mul(self.1.len())
    }

    fn walk(self) -> impl Iterator<Item = Self::Index> {
        let (xs, ys) = self;
        xs.flat_map(move |x| ys.clone().map(move |y| (x, y)))
    }
}

impl Axes for (Range<usize>, Range<usize>, Range<usize>) {
    type Index = (usize, usize, usize);

    fn halve(self) -> (Self, Self) {
        let (x, y, z) = self;
        if x.len() >= y.len() && x.len() >= z.len() {
            let (a, b) = halves(x);
            return ((a, y.clone(), z.clone()), (b, y, z));
        }
        let ((ya, za), (yb, zb)) = (y, z).halve();
        ((x.clone(), ya, za), (x, yb, zb))
    }

    fn cells(&self) -> usize {
        (self.0.clone(), self.1.clone()).cells().saturating_mul(self.2.len())
    }

    fn walk(self) -> impl Iterator<Item = Self::Index> {
        let (xs, ys, zs) = self;
        xs.flat_map(move |x| (ys.clone(), zs.clone()).walk().map(move |(y, z)| (x, y, z)))
    }
}

impl<R: Axes> ParallelIterator for Grid<R> {
    type Item = R::Index;

    fn drive<C: Consumer<R::Index>>(self, consumer: C) -> C::Result {
        bridge_unindexed(self, consumer)
    }
}

impl<R: Axes> UnindexedProducer for Grid<R> {
    type Item = R::Index;

    fn split(self) -> (Self, Option<Self>) {
        if self.ranges.cells() / 2 < self.min {
            return (self, None);
        }
        let (left, right) = self.ranges.halve();
        (Self { ranges: left, ..self }, Some(Self { ranges: right, min: self.min }))
    }

    fn fold_with<F: Folder<R::Index>>(self, folder: F) -> F {
        folder.consume_iter(self.ranges.walk())
    }
}
