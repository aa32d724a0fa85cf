//! Whether a slice is one run already.

use crate::fork::join;
use crate::par::divide::Divide;

/// Elements that one thread compares before others may help. Guessed: some µs.
const GRAIN: usize = 8 << 10;

/// The order in which a whole slice lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// No element is less than the one before.
    Ascending,
    /// Every element is less than the one before, so that reversing keeps a stable order.
    Descending,
}

/// The run that `v` is. Random input costs a few comparisons, one run costs one per element.
pub(super) fn of<T: Send>(v: &mut [T], less: &(impl Fn(&T, &T) -> bool + Sync)) -> Option<Run> {
    let [first, second, ..] = v else {
        return Some(Run::Ascending);
    };
    if less(second, first) {
        let holds = |a: &T, b: &T| less(b, a);
        holds_throughout(v, &holds).then_some(Run::Descending)
    } else {
        let holds = |a: &T, b: &T| !less(b, a);
        holds_throughout(v, &holds).then_some(Run::Ascending)
    }
}

/// Whether `holds` for each element and the next; a look at the beginning comes before any fork.
fn holds_throughout<T: Send>(v: &mut [T], holds: &(impl Fn(&T, &T) -> bool + Sync)) -> bool {
    let beginning = v.len().min(GRAIN);
    sequentially(&v[..beginning], holds) && in_parallel(v, holds, Divide::new(GRAIN))
}

fn sequentially<T>(v: &[T], holds: &impl Fn(&T, &T) -> bool) -> bool {
    v.is_sorted_by(holds)
}

fn in_parallel<T: Send>(
    v: &mut [T],
    holds: &(impl Fn(&T, &T) -> bool + Sync),
    divide: Divide,
) -> bool {
    let Some(divide) = divide.halve(v.len()) else {
        return sequentially(v, holds);
    };
    let mid = v.len() / 2;
    let (left, right) = v.split_at_mut(mid);
    let (l, r) = join(|| in_parallel(left, holds, divide), || in_parallel(right, holds, divide));
    // O1: after the join, the neighbours at the seam are this thread's alone.
    l && r && holds(&v[mid - 1], &v[mid])
}
