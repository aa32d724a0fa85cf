//! One value again and again: `repeat`, `repeat_n`.

use super::range;
use crate::par::adapt::{MapWith, Zip};
use crate::par::convert::IntoParallelIterator;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::Consumer;

/// Made by [`repeat_n`].
pub type RepeatN<T> = MapWith<range::Iter<usize>, Option<T>, fn(&mut Option<T>, usize) -> T>;

/// A value `n` times. If `n` is 0, it is dropped at once.
///
/// ```
/// use filch::par::{prelude::*, repeat_n};
/// assert_eq!(repeat_n("ab", 3).collect::<String>(), "ababab");
/// ```
pub fn repeat_n<T: Clone + Send>(value: T, n: usize) -> RepeatN<T> {
    let value = (n > 0).then_some(value);
    (0..n).into_par_iter().map_with(value, |value, _| value.clone().expect("there is an item"))
}

/// Made by [`repeat`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Repeat<T> {
    value: T,
}

/// A value without end, for [`take`](Repeat::take), [`zip`](Repeat::zip), or a search.
///
/// ```
/// use filch::par::{prelude::*, repeat};
/// assert_eq!(repeat(1).take(4).sum::<i32>(), 4);
/// assert_eq!(repeat(2).zip([3, 4]).map(|(a, b)| a * b).sum::<i32>(), 14);
/// assert_eq!(repeat(5).find_any(|n| *n == 5), Some(5));
/// ```
pub fn repeat<T: Clone + Send>(value: T) -> Repeat<T> {
    Repeat { value }
}

impl<T: Clone + Send> Repeat<T> {
    /// The value `n` times.
    pub fn take(self, n: usize) -> RepeatN<T> {
        repeat_n(self.value, n)
    }

    /// Pairs of the value and each item.
    pub fn zip<Z>(self, items: Z) -> Zip<RepeatN<T>, Z::Iter>
    where
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        let items = items.into_par_iter();
        self.take(items.len()).zip(items)
    }
}

impl<T: Clone + Send> ParallelIterator for Repeat<T> {
    type Item = T;

    fn drive<C: Consumer<T>>(self, consumer: C) -> C::Result {
        // No loop gets so far in the lifetime of a machine.
        self.take(usize::MAX).drive(consumer)
    }
}
