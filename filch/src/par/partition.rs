//! How far a loop is cut: [`Partition`] is what the user asks for, [`Plan`] what a producer knows
//! of it, [`Rules`] what holds for all pieces, [`Split`] what a piece still may do.
//!
//! S1. No piece is shorter than `min`, unless the whole loop is.
//! S2. No piece is longer than `max`, unless S1 or the depth cap forbids the cut.
//! S3. A loop that makes one piece forks nothing and wakes nobody; [`Rules::new`] says so before any
//!     thread is asked for.
//!
//! Guided splitting starts with about two pieces for each worker. A piece that ran where it was cut
//! off halves its right to further cuts; one that was stolen shows that somebody was idle and gets
//! the full right again. So a balanced loop is cut a few times only, and an unbalanced one again
//! wherever a thief comes.

use crate::fork::{Side, width};

/// How a loop is cut into pieces, for
/// [`partition_by`](super::IndexedParallelIterator::partition_by).
///
/// | made by | pieces | for |
/// | --- | --- | --- |
/// | [`guided`] | about two per worker, more where thieves come | anything; the default |
/// | [`dynamic`] | all of the given length | items of which some cost far more than others |
/// | [`equal`] | one per worker, of equal length | items of equal cost, and data that stay in a cache |
///
/// ```
/// use filch::par::{self, prelude::*};
///
/// let costly = (0..1000u64).into_par_iter().partition_by(par::dynamic(8)).map(|n| n * n);
/// assert_eq!(costly.sum::<u64>(), 332_833_500);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    how: How,
    /// How often at most a piece has been cut when it runs.
    depth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Guided,
    Dynamic(usize),
    Equal,
}

/// Pieces that follow stealing: about two per worker, and more wherever one is stolen.
///
/// ```
/// use filch::par::{self, prelude::*};
/// let flat = (0..100).into_par_iter().partition_by(par::guided().max_depth(3));
/// assert_eq!(flat.count(), 100);
/// ```
#[must_use]
pub fn guided() -> Partition {
    Partition { how: How::Guided, depth: u32::MAX }
}

/// Pieces of `grain` items, the last one perhaps shorter, whoever runs them.
///
/// # Panics
/// If `grain` is 0.
///
/// ```
/// use filch::par::{self, prelude::*};
/// let sums = (0..10).into_par_iter().partition_by(par::dynamic(4)).fold(|| 0, |a, b| a + b);
/// assert_eq!(sums.collect::<Vec<i32>>().iter().sum::<i32>(), 45);
/// ```
#[must_use]
#[track_caller]
pub fn dynamic(grain: usize) -> Partition {
    assert!(grain > 0, "a piece has at least one item");
    Partition { how: How::Dynamic(grain), depth: u32::MAX }
}

/// Pieces of equal length, one per worker: what other libraries call static.
///
/// ```
/// use filch::par::{self, prelude::*};
/// let mut image = vec![1.0; 64 * 64];
/// image.par_chunks_mut(64).partition_by(par::equal()).for_each(|row| row.fill(0.5));
/// assert_eq!(image.iter().sum::<f64>(), 2048.0);
/// ```
#[must_use]
pub fn equal() -> Partition {
    Partition { how: How::Equal, depth: u32::MAX }
}

impl Partition {
    /// Cuts each piece off by at most so many cuts: at most `2^depth` pieces.
    ///
    /// ```
    /// use filch::par::{self, prelude::*};
    /// let one_piece = par::dynamic(1).max_depth(0);
    /// let sums = (0..10).into_par_iter().partition_by(one_piece).fold(|| 0, |a, b| a + b);
    /// assert_eq!(sums.collect::<Vec<i32>>(), [45]);
    /// ```
    #[must_use]
    pub fn max_depth(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// As [`max_depth`](Self::max_depth), deep enough for one piece per thread of the current
    /// runtime and no deeper: the binary logarithm of their number, rounded up.
    ///
    /// ```
    /// use filch::par::{self, prelude::*};
    /// let shallow = par::dynamic(1).max_depth_of_runtime();
    /// assert_eq!((0..100).into_par_iter().partition_by(shallow).count(), 100);
    /// ```
    #[must_use]
    pub fn max_depth_of_runtime(self) -> Self {
        self.max_depth(width().next_power_of_two().trailing_zeros())
    }
}

impl Default for Partition {
    fn default() -> Self {
        guided()
    }
}

/// What a [`Producer`](super::plumbing::Producer) knows of how its user wants the loop cut.
///
/// ```
/// use filch::par::{self, plumbing::Plan};
/// let plan = Plan::default().min_len(8).partition(par::equal());
/// assert_eq!(plan.of_groups(4), Plan::default().min_len(2).partition(par::equal()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    min: usize,
    max: usize,
    partition: Partition,
}

impl Default for Plan {
    fn default() -> Self {
        Self { min: 1, max: usize::MAX, partition: Partition::default() }
    }
}

impl Plan {
    /// No piece is shorter than `min`, nor than what was asked for before.
    #[must_use]
    pub fn min_len(self, min: usize) -> Self {
        Self { min: self.min.max(min), ..self }
    }

    /// No piece is longer than `max`, nor than what was asked for before, if the minimum allows.
    #[must_use]
    pub fn max_len(self, max: usize) -> Self {
        Self { max: self.max.min(max.max(1)), ..self }
    }

    /// Cut in this way.
    #[must_use]
    pub fn partition(self, partition: Partition) -> Self {
        Self { partition, ..self }
    }

    /// What follows for two producers that are cut together: both minima and maxima hold, and a
    /// partition that was asked for wins over the default, the left one first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let partition = if self.partition == guided() { other.partition } else { self.partition };
        self.min_len(other.min).max_len(other.max).partition(partition)
    }

    /// What follows for a producer of groups of `size` items each.
    #[must_use]
    pub fn of_groups(self, size: usize) -> Self {
        let how = match self.partition.how {
            How::Dynamic(grain) => How::Dynamic(grain.div_ceil(size)),
            how => how,
        };
        let max = if self.max == usize::MAX { self.max } else { (self.max / size).max(1) };
        Self { min: self.min.div_ceil(size), max, partition: Partition { how, ..self.partition } }
    }
}

/// What all pieces of a loop have in common. It lies on the stack of who started the loop, and pieces
/// refer to it: what a piece carries is copied at each cut.
#[derive(Debug)]
pub(super) struct Rules {
    min: usize,
    max: usize,
    cut: Cut,
}

#[derive(Debug)]
enum Cut {
    /// The share is halved by each cut, and `width` again after a theft.
    Guided { width: usize },
    /// Cuts fall on multiples of `grain`.
    Dynamic { grain: usize },
    /// A piece becomes as many of equal length as its share says.
    Equal,
}

/// What a piece may still do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split<'l> {
    rules: &'l Rules,
    /// Into how many more pieces this one may be cut, about; see [`Cut`].
    share: usize,
    depth: u32,
}

impl Rules {
    /// Those of a loop of `len` items, unless it makes one piece only; and the start of it.
    pub(super) fn new(plan: Plan, len: usize) -> Option<(Self, Start)> {
        let Plan { min, max, partition: Partition { how, depth } } = plan;
        let min = min.max(1);
        if depth == 0 || len / 2 < min {
            return None;
        }
        let width = width();
        let (cut, share) = match how {
            How::Guided => (Cut::Guided { width }, width),
            How::Dynamic(grain) => (Cut::Dynamic { grain: grain.min(max).max(min) }, 0),
            How::Equal => (Cut::Equal, width.max(len.div_ceil(max)).min(len / min)),
        };
        // One worker can be helped by nobody: then only what the user asked for is cut.
        let alone = width < 2 && len <= max && !matches!(cut, Cut::Dynamic { .. });
        // How many threads the items can occupy at once.
        let pieces = match cut {
            Cut::Guided { width } => (len / min).min(width.max(2)),
            Cut::Dynamic { grain } => len.div_ceil(grain),
            Cut::Equal => share,
        };
        let rules = Self { min, max, cut };
        (!alone && pieces > 1).then_some((rules, Start { pieces, share, depth }))
    }

    /// Those of a loop of unknown length that has been cut once.
    pub(super) fn unindexed(width: usize) -> (Self, Start) {
        let rules = Self { min: 1, max: usize::MAX, cut: Cut::Guided { width } };
        (rules, Start { pieces: width, share: width / 2, depth: u32::MAX })
    }
}

/// How a loop begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// How many threads it can occupy at once.
    pub(super) pieces: usize,
    share: usize,
    depth: u32,
}

impl Start {
    /// The whole loop as a piece.
    pub(super) fn whole(self, rules: &Rules) -> Split<'_> {
        Split { rules, share: self.share, depth: self.depth }
    }
}

impl Split<'_> {
    /// Where to cut `len` items, and what the two pieces may do then.
    #[inline]
    pub(super) fn divide(self, len: usize, side: Side) -> Option<(usize, Self, Self)> {
        let Rules { min, max, cut } = self.rules;
        let depth = self.depth.checked_sub(1)?;
        if len / 2 < *min {
            return None;
        }
        let with = |share| Self { depth, share, ..self };
        match *cut {
            Cut::Guided { width } => {
                let half = match guided_share(self.share, width, side) {
                    Some(share) => with(share),
                    None if len > *max => with(0),
                    None => return None,
                };
                Some((len / 2, half, half))
            }
            Cut::Dynamic { grain } => {
                let left = len.div_ceil(grain) / 2;
                (left > 0).then(|| (left * grain, with(0), with(0)))
            }
            Cut::Equal => {
                let (pieces, left) = (self.share, self.share / 2);
                // The same as `len * left / pieces`, where that might overflow.
                let at = len / pieces * left + len % pieces * left / pieces;
                (left > 0).then(|| (at, with(left), with(pieces - left)))
            }
        }
    }

    /// What the two halves of an unindexed piece may do, if it may be cut at all.
    #[inline]
    pub(super) fn again(self, side: Side) -> Option<Self> {
        let Cut::Guided { width } = self.rules.cut else { return Some(self) };
        Some(Self { share: guided_share(self.share, width, side)?, ..self })
    }
}

/// The right to cut that each half has, if the whole has any.
#[inline]
fn guided_share(share: usize, width: usize, side: Side) -> Option<usize> {
    match side {
        Side::Stolen => Some(width.max(share / 2)),
        Side::Here => (share > 0).then_some(share / 2),
    }
}

#[cfg(test)]
mod tests;
