//! Filling slices and vectors: from one value, from calls, from indices.
//!
//! F1. A [`Filled`] owns the elements in its places. What it drops is dropped once, by it alone.
//! F2. The parts of a [`Room`] that two calls fill do not overlap.
//!
//! Not here: filling from other sequences.

use std::marker::PhantomData;

use super::divide::Divide;
use crate::fork::{announce, join_sides, on_worker, width};

/// A vector of `len` elements, the one at `i` being `make(i)`.
///
/// Each index is asked for once, in no particular order and on several workers.
///
/// ```
/// assert_eq!(filch::par::generate(5, |i| i * i), [0, 1, 4, 9, 16]);
/// ```
///
/// # Panics
/// If `make` panics; the elements that were made are dropped.
pub fn generate<T: Send>(len: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut v = Vec::with_capacity(len);
    let room = Room { first: v.as_mut_ptr(), life: PhantomData };
    let make = &make;
    let filled = on_worker(move || {
        let _announced = announce(width().min(len));
        room.fill(0, len, make, Divide::new(1))
    });
    let len = filled.release();
    // SAFETY: F1, the elements pass from `filled` to the vector.
    unsafe { v.set_len(len) };
    v
}

/// Memory for elements.
struct Room<'a, T> {
    first: *mut T,
    life: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Room<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Room<'_, T> {}

// SAFETY: F2, what is written on another thread is written there alone.
unsafe impl<T: Send> Send for Room<'_, T> {}

impl<'a, T: Send> Room<'a, T> {
    fn fill(
        self,
        from: usize,
        to: usize,
        make: &(impl Fn(usize) -> T + Sync),
        divide: Divide,
    ) -> Filled<'a, T> {
        let Some(divide) = divide.halve(to - from) else {
            let mut filled = Filled { room: self, from, to: from };
            (from..to).for_each(|i| filled.push(make(i)));
            return filled;
        };
        let mid = from + (to - from) / 2;
        let (left, right) = join_sides(
            move |_| self.fill(from, mid, make, divide),
            move |side| self.fill(mid, to, make, divide.on(side)),
        );
        left.with(right)
    }
}

/// Elements at the places `from..to` of a room.
struct Filled<'a, T> {
    room: Room<'a, T>,
    from: usize,
    to: usize,
}

impl<T> Filled<'_, T> {
    #[inline(always)]
    fn push(&mut self, element: T) {
        // SAFETY: F2, this call fills the place, which is in the room.
        let place = unsafe { self.room.first.add(self.to) };
        // SAFETY: as above.
        unsafe { place.write(element) };
        self.to += 1;
    }

    /// Both, of which `right` begins where this ends.
    fn with(mut self, right: Self) -> Self {
        debug_assert_eq!(self.to, right.from);
        self.to = right.to;
        std::mem::forget(right);
        self
    }

    /// Gives the elements up; returns their number.
    fn release(self) -> usize {
        let len = self.to - self.from;
        std::mem::forget(self);
        len
    }
}

impl<T> Drop for Filled<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the place is in the room.
        let first = unsafe { self.room.first.add(self.from) };
        let elements = std::ptr::slice_from_raw_parts_mut(first, self.to - self.from);
        // SAFETY: F1.
        unsafe { elements.drop_in_place() };
    }
}

/// Sets every element to a clone of `value`.
pub(super) fn fill<T: Clone + Send>(v: &mut [T], value: T) {
    on_worker(|| fill_part(v, value, Divide::moves::<T>()));
}

fn fill_part<T: Clone + Send>(v: &mut [T], value: T, divide: Divide) {
    let Some(divide) = divide.halve(v.len()) else {
        return v.fill(value);
    };
    let (left, right) = v.split_at_mut(v.len() / 2);
    let other = value.clone();
    join_sides(|_| fill_part(left, value, divide), |side| fill_part(right, other, divide.on(side)));
}

/// Sets the element at each index to `make` of the index.
pub(super) fn fill_indexed<T: Send>(v: &mut [T], make: &(impl Fn(usize) -> T + Sync)) {
    on_worker(|| {
        let _announced = announce(width().min(v.len()));
        fill_indexed_part(v, 0, make, Divide::new(1));
    });
}

fn fill_indexed_part<T: Send>(
    v: &mut [T],
    first: usize,
    make: &(impl Fn(usize) -> T + Sync),
    divide: Divide,
) {
    let Some(divide) = divide.halve(v.len()) else {
        return v.iter_mut().enumerate().for_each(|(i, x)| *x = make(first + i));
    };
    let mid = v.len() / 2;
    let (left, right) = v.split_at_mut(mid);
    join_sides(
        |_| fill_indexed_part(left, first, make, divide),
        |side| fill_indexed_part(right, first + mid, make, divide.on(side)),
    );
}
