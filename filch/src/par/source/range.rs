//! Ranges of integers and characters.
//!
//! All ranges whose length fits a `usize` are of known length; those of 128-bit integers are halved
//! until they are small. An inclusive range is a range, and its last value if the range that ends
//! behind it cannot be written.

use std::ops::{Range, RangeInclusive};

use super::option;
use crate::par::adapt::{Chain, FilterMap};
use crate::par::convert::IntoParallelIterator;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Producer, UnindexedProducer, bridge_unindexed};

/// The integers of a range.
///
/// ```
/// use filch::par::prelude::*;
/// assert_eq!((0..1000u32).into_par_iter().map(u64::from).sum::<u64>(), 499_500);
/// assert_eq!((250..=255u8).into_par_iter().step_by(2).collect::<Vec<_>>(), [250, 252, 254]);
/// ```
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Iter<T> {
    range: Range<T>,
}

/// The integers of an inclusive range.
pub type InclusiveIter<T> = Chain<Iter<T>, option::IntoIter<T>>;

macro_rules! range {
    ($($t:ty)*) => { $(
        impl IntoParallelIterator for Range<$t> {
            type Iter = Iter<$t>;
            type Item = $t;

            fn into_par_iter(self) -> Iter<$t> {
                // The other way round is empty too, and then so is its length.
                Iter { range: self.start..self.end.max(self.start) }
            }
        }

        impl IntoParallelIterator for RangeInclusive<$t> {
            type Iter = InclusiveIter<$t>;
            type Item = $t;

            fn into_par_iter(self) -> InclusiveIter<$t> {
                let (start, end) = (*self.start(), *self.end());
                match end.checked_add(1) {
                    _ if self.is_empty() => (start..start).into_par_iter().chain(None),
                    Some(end) => (start..end).into_par_iter().chain(None),
                    None => (start..end).into_par_iter().chain(Some(end)),
                }
            }
        }
    )* };
}

range!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Ranges of known length; the distance of two values is taken in the unsigned type.
macro_rules! indexed_range {
    ($($t:ty as $unsigned:ty => $iter:ty, $make:expr;)*) => { $(
        bridged!([] Iter<$t>, $t);

        impl IndexedParallelIterator for Iter<$t> {
            type Producer<'p> = Self;

            fn len(&self) -> usize {
                debug_assert!(self.range.start <= self.range.end);
                self.range.end.wrapping_sub(self.range.start) as $unsigned as usize
            }

            fn producer(&mut self) -> Self {
                self.clone()
            }
        }

        impl Producer for Iter<$t> {
            type Item = $t;
            type IntoIter = $iter;

            fn into_iter(self) -> $iter {
                $make(self.range)
            }

            fn split_at(self, index: usize) -> (Self, Self) {
                debug_assert!(index <= self.len());
                let middle = self.range.start.wrapping_add(index as $t);
                (Self { range: self.range.start..middle }, Self { range: middle..self.range.end })
            }

            fn fold_with<F: Folder<$t>>(self, folder: F) -> F {
                folder.consume_iter(self.range)
            }
        }
    )* };
}

indexed_range! {
    u8 as u8 => Range<u8>, |range| range;
    u16 as u16 => Range<u16>, |range| range;
    u32 as u32 => Range<u32>, |range| range;
    usize as usize => Range<usize>, |range| range;
    i8 as u8 => Range<i8>, |range| range;
    i16 as u16 => Range<i16>, |range| range;
    i32 as u32 => Range<i32>, |range| range;
    isize as usize => Range<isize>, |range| range;
}

#[cfg(target_pointer_width = "64")]
indexed_range! {
    u64 as u64 => WideIter<u64>, WideIter;
    i64 as u64 => WideIter<i64>, WideIter;
}

/// A range of 64-bit integers where these have the size of a pointer: std does not tell its length,
/// because elsewhere they have not.
#[cfg(target_pointer_width = "64")]
#[derive(Debug, Clone)]
pub struct WideIter<T>(Range<T>);

#[cfg(target_pointer_width = "64")]
macro_rules! wide_iter {
    ($($t:ty)*) => { $(
        impl Iterator for WideIter<$t> {
            type Item = $t;

            #[inline]
            fn next(&mut self) -> Option<$t> {
                self.0.next()
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }

            #[inline]
            fn nth(&mut self, n: usize) -> Option<$t> {
                self.0.nth(n)
            }

            fn fold<B, F: FnMut(B, $t) -> B>(self, init: B, f: F) -> B {
                self.0.fold(init, f)
            }
        }

        impl DoubleEndedIterator for WideIter<$t> {
            #[inline]
            fn next_back(&mut self) -> Option<$t> {
                self.0.next_back()
            }

            #[inline]
            fn nth_back(&mut self, n: usize) -> Option<$t> {
                self.0.nth_back(n)
            }

            fn rfold<B, F: FnMut(B, $t) -> B>(self, init: B, f: F) -> B {
                self.0.rfold(init, f)
            }
        }

        impl ExactSizeIterator for WideIter<$t> {}
    )* };
}

#[cfg(target_pointer_width = "64")]
wide_iter!(u64 i64);

/// Ranges whose length may not fit a `usize`.
macro_rules! unindexed_range {
    ($($t:ty as $unsigned:ty),*) => { $(
        impl ParallelIterator for Iter<$t> {
            type Item = $t;

            fn drive<C: Consumer<$t>>(self, consumer: C) -> C::Result {
                bridge_unindexed(self, consumer)
            }
        }

        impl UnindexedProducer for Iter<$t> {
            type Item = $t;

            fn split(self) -> (Self, Option<Self>) {
                let Range { start, end } = self.range;
                let half = end.wrapping_sub(start) as $unsigned / 2;
                let middle = start.wrapping_add(half as $t);
                let right = (half > 0).then(|| Self { range: middle..end });
                (Self { range: if half > 0 { start..middle } else { start..end } }, right)
            }

            fn fold_with<F: Folder<$t>>(self, folder: F) -> F {
                folder.consume_iter(self.range)
            }
        }
    )* };
}

unindexed_range!(u128 as u128, i128 as u128);
#[cfg(not(target_pointer_width = "64"))]
unindexed_range!(u64 as u64, i64 as u64);

/// The characters of a range.
pub type CharIter = FilterMap<Iter<u32>, fn(u32) -> Option<char>>;

impl IntoParallelIterator for Range<char> {
    type Iter = CharIter;
    type Item = char;

    fn into_par_iter(self) -> CharIter {
        let codes = u32::from(self.start)..u32::from(self.end);
        codes.into_par_iter().filter_map(char::from_u32)
    }
}

impl IntoParallelIterator for RangeInclusive<char> {
    type Iter = CharIter;
    type Item = char;

    fn into_par_iter(self) -> CharIter {
        let end = if self.is_empty() { 0 } else { u32::from(*self.end()) + 1 };
        (u32::from(*self.start())..end).into_par_iter().filter_map(char::from_u32)
    }
}
