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
    let run = match v {
        [first, second, ..] if less(second, first) => Run::Descending,
        _ => Run::Ascending,
    };
    let beginning = v.len().min(GRAIN);
    let is_run = run.is(&v[..beginning], less) && run.is_all(v, less, Divide::new(GRAIN));
    is_run.then_some(run)
}

impl Run {
    /// Whether `v` is such a run; ends at the first element that is not.
    fn is<T>(self, v: &[T], less: &impl Fn(&T, &T) -> bool) -> bool {
        match self {
            Self::Ascending => v.is_sorted_by(|a, b| !less(b, a)),
            Self::Descending => v.is_sorted_by(|a, b| less(b, a)),
        }
    }

    /// As [`Run::is`], on several workers.
    fn is_all<T: Send>(
        self,
        v: &mut [T],
        less: &(impl Fn(&T, &T) -> bool + Sync),
        divide: Divide,
    ) -> bool {
        let Some(divide) = divide.halve(v.len()) else {
            return self.is(v, less);
        };
        let mid = v.len() / 2;
        let (left, right) = v.split_at_mut(mid);
        let (l, r) = join(|| self.is_all(left, less, divide), || self.is_all(right, less, divide));
        // O1: after the join, the neighbours at the seam are this thread's alone.
        l && r && self.is(&v[mid - 1..=mid], less)
    }
}
