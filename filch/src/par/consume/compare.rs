//! Item by item: `cmp`, `eq` and their kin.

use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;

/// The first verdict on a pair that is not `same`, or else that on the lengths.
pub(in crate::par) fn compare<A, B, R>(
    a: A,
    b: B,
    same: R,
    lengths: impl FnOnce(usize, usize) -> R,
    verdict: impl Fn(A::Item, B::Item) -> R + Sync + Send,
) -> R
where
    A: IndexedParallelIterator,
    B: IndexedParallelIterator,
    R: PartialEq + Send + Sync,
{
    let (a_len, b_len) = (a.len(), b.len());
    let found = a.zip(b).map(|(x, y)| verdict(x, y)).find_first(|verdict| *verdict != same);
    found.unwrap_or_else(|| lengths(a_len, b_len))
}
