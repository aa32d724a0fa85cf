//! Parallel sorts whose leaves are std's sorts.
//!
//! The stable sort ([`stable`]) merges sorted leaves through a scratch of the slice's length. The
//! unstable sort ([`unstable`]) cuts the slice in place and sorts the parts.
//!
//! O1. `less` is called for two elements only on the thread that has both to itself, so elements
//!     need not be `Sync`.
//! O2. Whatever `less` answers, and if it panics, the slice ends as a permutation of what it was.
//! O3. Sorted and strictly descending slices take one comparison per element ([`run`]).
//!
//! Not here: merging ([`super::merge`]), and sorting on one worker, which std does best.

mod cached;
mod run;
mod stable;
mod unstable;

use std::cmp::Ordering;

use crate::fork::{on_worker, width};

pub(super) use cached::sort_by_cached_key;
use run::Run;

/// Elements below which std sorts alone. Guessed: 20 to 100 µs of work, or one wake-up.
const SMALL: usize = 4 << 10;

/// Sorts and keeps the order of equal elements.
pub(super) fn sort<T: Send>(v: &mut [T], less: impl Fn(&T, &T) -> bool + Sync) {
    if size_of::<T>() == 0 || v.len() < SMALL {
        return alone(v, &less);
    }
    on_worker(|| match width() {
        1 => alone(v, &less),
        _ if settle_run(v, &less) => {}
        width => stable::sort(v, &less, width),
    });
}

/// Sorts in place; equal elements may change places.
pub(super) fn sort_unstable<T: Send>(v: &mut [T], less: impl Fn(&T, &T) -> bool + Sync) {
    if size_of::<T>() == 0 || v.len() < SMALL {
        return alone_unstable(v, &less);
    }
    on_worker(|| match width() {
        1 => alone_unstable(v, &less),
        _ if settle_run(v, &less) => {}
        width => unstable::sort(v, &less, width),
    });
}

/// Std's stable sort; called from here only, since each call site would be a copy of it.
fn alone<T>(v: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    v.sort_by(|a, b| order(less, a, b));
}

/// Std's unstable sort; as [`alone`].
fn alone_unstable<T>(v: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    v.sort_unstable_by(|a, b| order(less, a, b));
}

/// True if the slice was one run, and is now sorted (O3).
fn settle_run<T: Send>(v: &mut [T], less: &(impl Fn(&T, &T) -> bool + Sync)) -> bool {
    match run::of(v, less) {
        Some(Run::Ascending) => true,
        Some(Run::Descending) => {
            super::divide::reverse(v);
            true
        }
        None => false,
    }
}

/// What std's sorts want to know: they ask only whether `a` is less.
#[inline]
fn order<T>(less: &impl Fn(&T, &T) -> bool, a: &T, b: &T) -> Ordering {
    if less(a, b) { Ordering::Less } else { Ordering::Greater }
}
