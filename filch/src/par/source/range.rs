//! Ranges of integers and characters.
//!
//! All ranges whose length fits a `usize` are of known length; longer ones of 128-bit integers are halved
//! until they are small. An inclusive range is a range, and its last value if the range that ends
//! behind it cannot be written.

use std::ops::{Range, RangeInclusive};

use super::option;
use crate::par::adapt::{Chain, FilterMap};
use crate::par::convert::IntoParallelIterator;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{
    Consumer, Folder, Producer, UnindexedProducer, bridge, bridge_unindexed,
};

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

/// An integer that ranges are made of. Closed: all of std's are.
///
/// These traits are there, rather than an implementation for each type, so that the compiler can choose
/// the type of `(0..10).into_par_iter()` as late as that of `(0..10)`.
pub trait Integer: Copy + Send + Ord + sealed::Sealed {
    /// The next one, if there is one.
    fn successor(self) -> Option<Self>;

    /// The number of integers in a range whose ends are in order, if the type tells it.
    fn count(range: &Range<Self>) -> Option<usize>;

    /// Runs a range whose ends are in order into a consumer.
    fn drive<C: Consumer<Self>>(range: Iter<Self>, consumer: C) -> C::Result;

    /// Feeds a range to a folder.
    fn fold<F: Folder<Self>>(range: Range<Self>, folder: F) -> F;
}

/// An [`Integer`] so narrow that the length of a range fits a `usize`.
pub trait IndexedInteger: Integer {
    /// The integers of a range, one after the other.
    type Walk: DoubleEndedIterator<Item = Self> + ExactSizeIterator;

    /// Makes it.
    fn walk(range: Range<Self>) -> Self::Walk;

    /// The number of integers in a range whose ends are in order.
    fn len(range: &Range<Self>) -> usize;

    /// The integer that is so much greater.
    fn plus(self, distance: usize) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

impl<T: Integer> IntoParallelIterator for Range<T> {
    type Iter = Iter<T>;
    type Item = T;

    fn into_par_iter(self) -> Iter<T> {
        // One whose ends are out of order is empty.
        Iter { range: self.start..self.end.max(self.start) }
    }
}

impl<T: Integer> IntoParallelIterator for RangeInclusive<T> {
    type Iter = InclusiveIter<T>;
    type Item = T;

    fn into_par_iter(self) -> InclusiveIter<T> {
        let (start, end) = (*self.start(), *self.end());
        match end.successor() {
            _ if self.is_empty() => (start..start).into_par_iter().chain(None),
            Some(end) => (start..end).into_par_iter().chain(None),
            None => (start..end).into_par_iter().chain(Some(end)),
        }
    }
}

impl<T: Integer> ParallelIterator for Iter<T> {
    type Item = T;

    fn drive<C: Consumer<T>>(self, consumer: C) -> C::Result {
        T::drive(self, consumer)
    }

    fn opt_len(&self) -> Option<usize> {
        T::count(&self.range)
    }
}

impl<T: IndexedInteger> IndexedParallelIterator for Iter<T> {
    type Producer<'p>
        = Self
    where
        Self: 'p;

    fn len(&self) -> usize {
        T::len(&self.range)
    }

    fn producer(&mut self) -> Self {
        self.clone()
    }
}

impl<T: IndexedInteger> Producer for Iter<T> {
    type Item = T;
    type IntoIter = T::Walk;
    const SEEN: bool = false;

    fn into_iter(self) -> T::Walk {
        T::walk(self.range)
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        debug_assert!(index <= self.len());
        let middle = self.range.start.plus(index);
        (Self { range: self.range.start..middle }, Self { range: middle..self.range.end })
    }

    fn fold_with<F: Folder<T>>(self, folder: F) -> F {
        T::fold(self.range, folder)
    }
}

macro_rules! integer {
    ($t:ty, $drive:expr, $range:ident => $count:expr) => {
        impl sealed::Sealed for $t {}

        impl Integer for $t {
            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn count($range: &Range<Self>) -> Option<usize> {
                $count
            }

            fn drive<C: Consumer<Self>>(range: Iter<Self>, consumer: C) -> C::Result {
                $drive(range, consumer)
            }

            #[inline]
            fn fold<F: Folder<Self>>(range: Range<Self>, folder: F) -> F {
                folder.consume_iter(range)
            }
        }
    };
}

/// The distance of two integers is taken in the unsigned type.
macro_rules! indexed {
    ($($t:ty as $unsigned:ty => $walk:ty, $make:expr;)*) => { $(
        integer!($t, bridge, range => Some(<$t as IndexedInteger>::len(range)));

        impl IndexedInteger for $t {
            type Walk = $walk;

            fn walk(range: Range<Self>) -> $walk {
                $make(range)
            }

            fn len(range: &Range<Self>) -> usize {
                debug_assert!(range.start <= range.end);
                range.end.wrapping_sub(range.start) as $unsigned as usize
            }

            fn plus(self, distance: usize) -> Self {
                self.wrapping_add(distance as Self)
            }
        }
    )* };
}

indexed! {
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
indexed! {
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

/// An [`Integer`] that a `usize` may be too narrow for.
trait Wide: Integer + Sync {
    /// The integer that is so much greater.
    fn plus(self, distance: usize) -> Self;
}

/// Ranges whose length may not fit a `usize`. One whose length does runs as the distances from its
/// start, so that it is cut where its consumer is (P2 of `plumbing`).
fn drive_wide<T: Wide, C: Consumer<T>>(iter: Iter<T>, consumer: C) -> C::Result
where
    Iter<T>: UnindexedProducer<Item = T>,
{
    let start = iter.range.start;
    match T::count(&iter.range) {
        Some(len) => (0..len).into_par_iter().map(|distance| start.plus(distance)).drive(consumer),
        None => bridge_unindexed(iter, consumer),
    }
}

macro_rules! unindexed {
    ($($t:ty as $unsigned:ty),*) => { $(
        integer!($t, drive_wide, range => {
            usize::try_from(range.end.wrapping_sub(range.start) as $unsigned).ok()
        });

        impl Wide for $t {
            fn plus(self, distance: usize) -> Self {
                self.wrapping_add(distance as Self)
            }
        }

        impl UnindexedProducer for Iter<$t> {
            type Item = $t;

            fn split(self) -> (Self, Option<Self>) {
                let Range { start, end } = self.range;
                let half = end.wrapping_sub(start) as $unsigned / 2;
                if half == 0 {
                    return (self, None);
                }
                let middle = start.wrapping_add(half as $t);
                (Self { range: start..middle }, Some(Self { range: middle..end }))
            }

            fn fold_with<F: Folder<$t>>(self, folder: F) -> F {
                folder.consume_iter(self.range)
            }
        }
    )* };
}

unindexed!(u128 as u128, i128 as u128);
#[cfg(not(target_pointer_width = "64"))]
unindexed!(u64 as u64, i64 as u64);

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
