//! Vectors, boxed slices and arrays by value.
//!
//! V1. The vector's length is 0 from the moment its items belong to producers: a panic leaks none of them,
//!     and none is dropped twice.
//! V2. A [`VecProducer`] or a [`VecIter`] owns the items of its slice, and drops those that nobody took.

use std::mem;
use std::ptr;
use std::slice;

use crate::par::convert::IntoParallelIterator;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::Producer;

/// The items of a vector.
///
/// ```
/// use filch::par::prelude::*;
/// let words = vec![String::from("a"), String::from("b")];
/// assert_eq!(words.into_par_iter().reduce(String::new, |a, b| a + &b), "ab");
/// ```
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct IntoIter<T> {
    vec: Vec<T>,
}

bridged!([T: Send] IntoIter<T>, T);

impl<T: Send> IndexedParallelIterator for IntoIter<T> {
    type Producer<'p>
        = VecProducer<'p, T>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.vec.len()
    }

    fn producer(&mut self) -> VecProducer<'_, T> {
        let items: *mut [T] = self.vec.as_mut_slice();
        // SAFETY: 0 is no more than the capacity, and no item is there to be written.
        unsafe { self.vec.set_len(0) };
        // SAFETY: V1, the items are written and the vector has given them up; its memory stays
        // borrowed for as long as the producer lives.
        VecProducer { slice: unsafe { &mut *items } }
    }
}

/// Items that are taken out of a vector.
#[derive(Debug)]
pub struct VecProducer<'p, T> {
    slice: &'p mut [T],
}

impl<'p, T: Send> Producer for VecProducer<'p, T> {
    type Item = T;
    type IntoIter = VecIter<'p, T>;
    const SEEN: bool = false;

    fn into_iter(mut self) -> VecIter<'p, T> {
        VecIter { items: mem::take(&mut self.slice).iter_mut() }
    }

    fn split_at(mut self, index: usize) -> (Self, Self) {
        let (left, right) = mem::take(&mut self.slice).split_at_mut(index);
        (Self { slice: left }, Self { slice: right })
    }
}

impl<T> Drop for VecProducer<'_, T> {
    fn drop(&mut self) {
        let rest = ptr::from_mut(mem::take(&mut self.slice));
        // SAFETY: V2, the items are ours and written, and nobody sees them again.
        unsafe { ptr::drop_in_place(rest) };
    }
}

/// The items of a [`VecProducer`].
#[derive(Debug)]
pub struct VecIter<'p, T> {
    items: slice::IterMut<'p, T>,
}

impl<T> Iterator for VecIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let item: *const T = self.items.next()?;
        // SAFETY: V2, the item is ours and written, and the slice iterator has moved past it.
        Some(unsafe { ptr::read(item) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<T> DoubleEndedIterator for VecIter<'_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        let item: *const T = self.items.next_back()?;
        // SAFETY: V2, the item is ours and written, and the slice iterator has moved past it.
        Some(unsafe { ptr::read(item) })
    }
}

impl<T> ExactSizeIterator for VecIter<'_, T> {}

impl<T> Drop for VecIter<'_, T> {
    fn drop(&mut self) {
        let rest = ptr::from_mut(mem::take(&mut self.items).into_slice());
        // SAFETY: V2, the items are ours and written, and nobody sees them again.
        unsafe { ptr::drop_in_place(rest) };
    }
}

impl<T: Send> IntoParallelIterator for Vec<T> {
    type Iter = IntoIter<T>;
    type Item = T;

    fn into_par_iter(self) -> IntoIter<T> {
        IntoIter { vec: self }
    }
}

impl<T: Send> IntoParallelIterator for Box<[T]> {
    type Iter = IntoIter<T>;
    type Item = T;

    fn into_par_iter(self) -> IntoIter<T> {
        self.into_vec().into_par_iter()
    }
}

impl<T: Send, const N: usize> IntoParallelIterator for [T; N] {
    type Iter = IntoIter<T>;
    type Item = T;

    fn into_par_iter(self) -> IntoIter<T> {
        Vec::from(self).into_par_iter()
    }
}
