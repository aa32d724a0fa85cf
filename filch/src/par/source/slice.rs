//! Slices, shared and exclusive.

use std::mem;

use crate::par::convert::IntoParallelIterator;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::Producer;

/// References to the items of a slice.
///
/// ```
/// use filch::par::prelude::*;
/// let words = ["one", "two", "three"];
/// assert_eq!(words.par_iter().position_first(|word| word.len() > 3), Some(2));
/// ```
#[derive(Debug)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Iter<'data, T> {
    slice: &'data [T],
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { slice: self.slice }
    }
}

/// Exclusive references to the items of a slice.
///
/// ```
/// use filch::par::prelude::*;
/// let mut numbers = [3, 4];
/// numbers.par_iter_mut().zip([10, 20]).for_each(|(n, add)| *n += add);
/// assert_eq!(numbers, [13, 24]);
/// ```
#[derive(Debug)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct IterMut<'data, T> {
    slice: &'data mut [T],
}

/// A slice of items as its own producer.
macro_rules! items {
    ($iter:ident, $bound:ident, $item:ty, $slice:ty, $std:ty, $split:ident, $walk:ident) => {
        bridged!(['data, T: $bound] $iter<'data, T>, $item);

        impl<'data, T: $bound> IndexedParallelIterator for $iter<'data, T> {
            type Producer<'p>
                = Self
            where
                Self: 'p;

            fn len(&self) -> usize {
                self.slice.len()
            }

            fn producer(&mut self) -> Self {
                Self { slice: mem::take(&mut self.slice) }
            }
        }

        impl<'data, T: $bound> Producer for $iter<'data, T> {
            type Item = $item;
            type IntoIter = $std;
    const SEEN: bool = false;

            fn into_iter(self) -> $std {
                self.slice.$walk()
            }

            fn split_at(self, index: usize) -> (Self, Self) {
                let (left, right) = self.slice.$split(index);
                (Self { slice: left }, Self { slice: right })
            }
        }

        impl<'data, T: $bound> IntoParallelIterator for $slice {
            type Iter = $iter<'data, T>;
            type Item = $item;

            fn into_par_iter(self) -> $iter<'data, T> {
                $iter { slice: self }
            }
        }
    };
}

items!(Iter, Sync, &'data T, &'data [T], std::slice::Iter<'data, T>, split_at, iter);
items!(
    IterMut,
    Send,
    &'data mut T,
    &'data mut [T],
    std::slice::IterMut<'data, T>,
    split_at_mut,
    iter_mut
);

/// What lends a slice.
macro_rules! as_slice {
    ($([$($g:tt)*] $type:ty;)*) => { $(
        impl<'data, T: Sync, $($g)*> IntoParallelIterator for &'data $type {
            type Iter = Iter<'data, T>;
            type Item = &'data T;

            fn into_par_iter(self) -> Iter<'data, T> {
                Iter { slice: self }
            }
        }

        impl<'data, T: Send, $($g)*> IntoParallelIterator for &'data mut $type {
            type Iter = IterMut<'data, T>;
            type Item = &'data mut T;

            fn into_par_iter(self) -> IterMut<'data, T> {
                IterMut { slice: self }
            }
        }
    )* };
}

as_slice! {
    [] Vec<T>;
    [] Box<[T]>;
    [const N: usize] [T; N];
}
