//! Sort in place: cut into a lower and an upper part, sort both, mend the seam.
//!
//! The cut is made by several workers, each in a block of its own and with a pivot from that block,
//! because a pivot that two threads compare with would have to be `Sync` (O1). The pivots are
//! neighbours in one sorted sample, so the two parts overlap by little; once both are sorted, the
//! overlap is two adjacent runs around the seam, and these are merged.
//!
//! U1. A cut and its blocks only swap elements (O2).
//! U2. How good a cut is concerns speed alone: [`mend`] makes any two sorted neighbours one run.
//! U3. Each level spends a cut, so a bad pivot cannot make the recursion deep.
//!
//! Not here: an upper bound of work for hostile input. That is std's, at the leaves.

use super::{alone, alone_unstable, order};
use crate::fork::{announce, join};
use crate::par::divide::{self, Divide};

/// Elements of the sample from which pivots come; they find the median within 2 %.
const SAMPLE: usize = 1024;

/// One element in so many is sampled, if there are few.
const SAMPLED: usize = 64;

/// Workers that make one cut, at most.
const BLOCKS: usize = 64;

/// Elements of a block, at least. Guessed: 10 µs of work.
const BLOCK: usize = 16 << 10;

/// Bytes of an element that is swapped sooner than a branch is mispredicted. Guessed.
const CHEAP_MOVE: usize = 64;

/// Leaves for each worker.
const LEAVES: usize = 2;

/// Elements of a leaf, at least.
const LEAF: usize = 2 << 10;

pub(super) fn sort<T: Send>(v: &mut [T], less: &(impl Fn(&T, &T) -> bool + Sync), width: usize) {
    let _announced = announce(width);
    let leaf = (v.len() / (width * LEAVES)).max(LEAF);
    let cuts = (width * LEAVES).next_power_of_two().ilog2() + 1;
    sort_part(v, less, Plan { leaf, cuts, width });
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    /// A part of up to so many elements is a leaf, give or take the error of a sample.
    leaf: usize,
    /// Cuts that may still follow one another (U3).
    cuts: u32,
    /// Workers for this part.
    width: usize,
}

fn sort_part<T: Send>(v: &mut [T], less: &(impl Fn(&T, &T) -> bool + Sync), plan: Plan) {
    let small = v.len() <= plan.leaf + plan.leaf / 4;
    let cut = if small || plan.cuts == 0 { None } else { Cut::choose(v, less, plan.width) };
    let Some(cut) = cut else {
        return alone_unstable(v, less);
    };
    let mid = cut.make(v, less);
    let below = Plan { cuts: plan.cuts - 1, width: plan.width.div_ceil(2), ..plan };
    let (lower, upper) = v.split_at_mut(mid);
    join(|| sort_part(lower, less, below), || sort_part(upper, less, below));
    mend(v, mid, less);
}

/// Makes one run of the sorted `v[..mid]` and `v[mid..]` (U2).
fn mend<T>(v: &mut [T], mid: usize, less: &impl Fn(&T, &T) -> bool) {
    if mid == 0 || mid == v.len() || !less(&v[mid], &v[mid - 1]) {
        return;
    }
    let start = v[..mid].partition_point(|x| !less(&v[mid], x));
    let end = mid + v[mid..].partition_point(|x| less(x, &v[mid - 1]));
    // The stable sort finds the two runs and merges them.
    alone(&mut v[start..end], less);
}

/// Which elements go below.
#[derive(Debug, Clone, Copy)]
enum Below {
    /// Those less than the pivot.
    Less,
    /// Those not greater than the pivot, for when many equal the least.
    NotGreater,
}

/// What a block compares with.
#[derive(Debug, Clone, Copy)]
enum Pivot {
    /// The element at this place of the slice, within the block.
    At(usize),
    /// Nothing: no sample of the block lies on the other side, so all of it stays on this one.
    None,
}

/// A cut of a slice: what goes below, and a pivot for each block.
struct Cut {
    below: Below,
    pivots: [Pivot; BLOCKS],
    blocks: usize,
    /// Elements of each block but the last, which may have fewer.
    block: usize,
}

impl Cut {
    /// A cut near the median; none if all of the sample is equal.
    fn choose<T>(v: &[T], less: &impl Fn(&T, &T) -> bool, width: usize) -> Option<Self> {
        let mut places = [0; SAMPLE];
        let sample = &mut places[..(v.len() / SAMPLED).clamp(1, SAMPLE)];
        scatter(sample, v.len());
        sample.sort_unstable_by(|&i, &j| order(less, &v[i], &v[j]));
        let median = &v[sample[sample.len() / 2]];
        let first = sample.partition_point(|&i| less(&v[i], median));
        let last = sample.partition_point(|&i| !less(median, &v[i]));
        if first == 0 && last == sample.len() {
            return None;
        }
        let nearer = first >= sample.len().saturating_sub(last);
        let below = if first > 0 && nearer { Below::Less } else { Below::NotGreater };
        let blocks = (v.len() / BLOCK).clamp(1, width.min(BLOCKS));
        let block = v.len().div_ceil(blocks);
        let mut pivots = [Pivot::None; BLOCKS];
        let mut offer = |&place: &usize| {
            let pivot = &mut pivots[place / block];
            if matches!(pivot, Pivot::None) {
                *pivot = Pivot::At(place);
            }
        };
        match below {
            Below::Less => sample[first..].iter().for_each(&mut offer),
            Below::NotGreater => sample[..last].iter().rev().for_each(&mut offer),
        }
        Some(Self { below, pivots, blocks, block })
    }

    /// Makes the cut; returns how many elements are below.
    fn make<T: Send>(&self, v: &mut [T], less: &(impl Fn(&T, &T) -> bool + Sync)) -> usize {
        self.make_blocks(v, 0, self.blocks, less)
    }

    /// As [`Cut::make`], for `count` blocks from `first` on, which are `v`.
    fn make_blocks<T: Send>(
        &self,
        v: &mut [T],
        first: usize,
        count: usize,
        less: &(impl Fn(&T, &T) -> bool + Sync),
    ) -> usize {
        if count == 1 {
            return self.make_block(v, first, less);
        }
        let half = count / 2;
        let mid = half * self.block;
        let (left, right) = v.split_at_mut(mid);
        let (l, r) = join(
            || self.make_blocks(left, first, half, less),
            || self.make_blocks(right, first + half, count - half, less),
        );
        // What must go up from the left half changes places with what must go down from the right.
        let n = (mid - l).min(r);
        divide::swap(&mut left[l..l + n], &mut right[r - n..r], Divide::moves::<T>());
        l + r
    }

    fn make_block<T>(&self, v: &mut [T], index: usize, less: &impl Fn(&T, &T) -> bool) -> usize {
        let Pivot::At(place) = self.pivots[index] else {
            return match self.below {
                Below::Less => v.len(),
                Below::NotGreater => 0,
            };
        };
        v.swap(0, place - index * self.block);
        let Some((pivot, rest)) = v.split_first_mut() else {
            return 0;
        };
        let pivot = &*pivot;
        let (n, below) = match self.below {
            Below::Less => {
                let n = partition(rest, |x| less(x, pivot));
                (n, n)
            }
            Below::NotGreater => {
                let n = partition(rest, |x| !less(pivot, x));
                (n, n + 1)
            }
        };
        v.swap(0, n);
        below
    }
}

/// Places spread over `0..len`, one in each of as many stretches, at a place that follows no pattern.
fn scatter(places: &mut [usize], len: usize) {
    let stretch = len / places.len();
    let mut state = len as u64 | 1;
    for (i, place) in places.iter_mut().enumerate() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *place = i * stretch + (state >> 32) as usize % stretch;
    }
}

/// Brings the elements that are `below` to the front and returns their number. Elements that are
/// cheap to move are all swapped, with themselves if need be: then no branch waits for the answer.
#[inline]
fn partition<T>(v: &mut [T], below: impl Fn(&T) -> bool) -> usize {
    let mut n = 0;
    for i in 0..v.len() {
        let goes = below(&v[i]);
        if size_of::<T>() <= CHEAP_MOVE || goes {
            v.swap(n, i);
        }
        n += usize::from(goes);
    }
    n
}
