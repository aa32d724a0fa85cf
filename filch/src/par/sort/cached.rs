//! Sort by keys that are computed once for each element.
//!
//! K1. The slice is not touched before the keys are sorted, and what follows does not call out: if
//!     a key or a comparison panics, the slice is as it was.
//! K2. After sorting, the places in the list of keys are those of the slice, each once.
//!
//! Not here: the sort of the keys, which is [`super::sort_unstable`].

use std::mem::MaybeUninit;

use super::sort_unstable;
use crate::fork::on_worker;
use crate::par::divide::{self, Divide};
use crate::par::fill::generate;
use crate::par::merge::bits;

/// Sorts by keys and keeps the order of equal ones.
pub(in crate::par) fn sort_by_cached_key<T: Send, K: Ord + Send>(
    v: &mut [T],
    key: impl Fn(&T) -> K + Sync,
) {
    if v.len() < 2 {
        return;
    }
    let elements = Elements(v.as_ptr());
    let mut keys: Vec<(K, usize)> = generate(v.len(), |i| {
        // SAFETY: each place is asked for once, so one thread looks at the element.
        let element = unsafe { elements.at(i) };
        (key(element), i)
    });
    // No two places are equal, so the order is the stable one.
    sort_unstable(&mut keys, |a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)).is_lt());
    let places: Vec<usize> = keys.into_iter().map(|(_, place)| place).collect();
    let mut sorted: Vec<MaybeUninit<T>> = generate(v.len(), |i| {
        // SAFETY: K2, as above.
        bits(unsafe { elements.at(places[i]) })
    });
    // SAFETY: K2, these are the bits of all elements; swapped back, each is in the slice once, and
    // the vector drops nothing.
    let sorted = unsafe { sorted.assume_init_mut() };
    on_worker(|| divide::swap(v, sorted, Divide::moves::<T>()));
}

/// The elements of a slice, of which each is looked at by one thread at a time.
struct Elements<T>(*const T);

// SAFETY: the contract of `at`; an element that one thread has to itself need only be `Send`.
unsafe impl<T: Send> Sync for Elements<T> {}

impl<T> Elements<T> {
    /// # Safety
    /// `i` is a place of the slice, and nobody else looks at it.
    unsafe fn at(&self, i: usize) -> &T {
        // SAFETY: as the caller says.
        let element = unsafe { self.0.add(i) };
        // SAFETY: as above.
        unsafe { &*element }
    }
}
