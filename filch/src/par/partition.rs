//! How far a loop is cut: [`Partition`] is what the user asks for, [`Plan`] what a producer knows
//! of it, [`Split`] what a piece still may do.
//!
//! S1. No piece is shorter than `min`, unless the whole loop is.
//! S2. No piece is longer than `max`, unless S1 or the depth cap forbids the cut.
//! S3. A loop that makes one piece forks nothing and wakes nobody; [`Split::new`] says so before any
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

/// What a piece may still do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    min: usize,
    max: usize,
    depth: u32,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// `budget` is halved by each cut, and `width` again after a theft.
    Guided { budget: usize, width: usize },
    /// Cuts fall on multiples of `grain`.
    Dynamic { grain: usize },
    /// This piece becomes `pieces` of equal length.
    Equal { pieces: usize },
}

impl Split {
    /// The start of a loop of `len` items, unless it makes one piece only.
    pub(super) fn new(plan: Plan, len: usize) -> Option<Self> {
        let Plan { min, max, partition: Partition { how, depth } } = plan;
        if depth == 0 || len / 2 < min.max(1) {
            return None;
        }
        let width = width();
        let state = match how {
            How::Guided => State::Guided { budget: width, width },
            How::Dynamic(grain) => State::Dynamic { grain: grain.min(max).max(min) },
            How::Equal => {
                let pieces = width.max(len.div_ceil(max)).min(len / min.max(1));
                State::Equal { pieces }
            }
        };
        let split = Self { min: min.max(1), max, depth, state };
        // One worker can be helped by nobody: then only what the user asked for is cut.
        let alone = width < 2 && len <= max && !matches!(state, State::Dynamic { .. });
        (!alone && split.pieces(len) > 1).then_some(split)
    }

    /// The start of a loop of unknown length that has been cut once.
    pub(super) fn unindexed(width: usize) -> Self {
        let state = State::Guided { budget: width / 2, width };
        Self { min: 1, max: usize::MAX, depth: u32::MAX, state }
    }

    /// How many threads `len` items can occupy at once.
    pub(super) fn pieces(self, len: usize) -> usize {
        match self.state {
            State::Guided { width, .. } => (len / self.min).min(width.max(2)),
            State::Dynamic { grain } => len.div_ceil(grain),
            State::Equal { pieces } => pieces,
        }
    }

    /// Where to cut `len` items, and what the two pieces may do then.
    pub(super) fn divide(self, len: usize, side: Side) -> Option<(usize, Self, Self)> {
        let depth = self.depth.checked_sub(1)?;
        if len / 2 < self.min {
            return None;
        }
        let with = |state| Self { depth, state, ..self };
        match self.state {
            State::Guided { budget, width } => {
                let budget = match guided_budget(budget, width, side) {
                    Some(budget) => budget,
                    None if len > self.max => 0,
                    None => return None,
                };
                let half = with(State::Guided { budget, width });
                Some((len / 2, half, half))
            }
            State::Dynamic { grain } => {
                let left = len.div_ceil(grain) / 2;
                (left > 0).then(|| (left * grain, with(self.state), with(self.state)))
            }
            State::Equal { pieces } => {
                let left = pieces / 2;
                let share = |pieces| with(State::Equal { pieces });
                // The same as `len * left / pieces`, where that might overflow.
                let at = len / pieces * left + len % pieces * left / pieces;
                (left > 0).then(|| (at, share(left), share(pieces - left)))
            }
        }
    }

    /// What the two halves of an unindexed piece may do, if it may be cut at all.
    pub(super) fn again(self, side: Side) -> Option<Self> {
        let State::Guided { budget, width } = self.state else { return Some(self) };
        let budget = guided_budget(budget, width, side)?;
        Some(Self { state: State::Guided { budget, width }, ..self })
    }
}

/// The right to cut that each half has, if the whole has any.
fn guided_budget(budget: usize, width: usize, side: Side) -> Option<usize> {
    match side {
        Side::Stolen => Some(width.max(budget / 2)),
        Side::Here => (budget > 0).then_some(budget / 2),
    }
}

#[cfg(test)]
mod tests;
