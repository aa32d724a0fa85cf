//! Merge sort: std sorts the leaves, and each level merges them into the other of two places, the
//! slice and a scratch as long.
//!
//! S1. A [`Span`] has its part of the slice and of the scratch to itself.
//! S2. Outside of [`Span::sort`] and when it unwinds, all elements of a span are in the slice; when
//!     it returns, they are at its goal. [`Homing`] sees to it.
//! S3. A merge copies (M2): until it has ended, the place that it reads from holds the elements.
//!
//! Not here: what a leaf does, which is std's stable sort.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{alone, settle_run};
use crate::fork::{announce, join};
use crate::par::merge;

/// Bytes of a leaf, at most: it and what std's sort needs beside it stay in a private cache.
const LEAF_BYTES: usize = 1 << 20;

/// Elements of a leaf, at least.
const LEAF: usize = 1 << 10;

/// Leaves for each worker, at least.
const LEAVES: usize = 2;

pub(super) fn sort<T: Send>(v: &mut [T], less: &(impl Fn(&T, &T) -> bool + Sync), width: usize) {
    let _announced = announce(width);
    let leaf = v.len().div_ceil(width * LEAVES).min(LEAF_BYTES / size_of::<T>()).max(LEAF);
    let mut scratch = Vec::with_capacity(v.len());
    let scratch = &mut scratch.spare_capacity_mut()[..v.len()];
    Span::new(v, scratch).sort(Place::Slice, less, leaf);
}

/// Where the elements of a span are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Slice,
    Scratch,
}

impl Place {
    fn other(self) -> Self {
        match self {
            Self::Slice => Self::Scratch,
            Self::Scratch => Self::Slice,
        }
    }
}

/// A part of the slice and the same part of the scratch.
struct Span<'a, T> {
    slice: *mut T,
    scratch: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: S1, a span is an exclusive borrow of its parts.
unsafe impl<T: Send> Send for Span<'_, T> {}

impl<'a, T: Send> Span<'a, T> {
    fn new(slice: &'a mut [T], scratch: &'a mut [MaybeUninit<T>]) -> Self {
        assert_eq!(slice.len(), scratch.len());
        let len = slice.len();
        let (slice, scratch) = (slice.as_mut_ptr(), scratch.as_mut_ptr().cast());
        Self { slice, scratch, len, life: PhantomData }
    }

    /// The two halves, to be used in place of the whole.
    fn halves(&self) -> [Span<'a, T>; 2] {
        let mid = self.len / 2;
        // SAFETY: `mid` is within the slice.
        let slice = unsafe { self.slice.add(mid) };
        // SAFETY: the scratch is as long.
        let scratch = unsafe { self.scratch.add(mid) };
        [
            Span { slice: self.slice, scratch: self.scratch, len: mid, life: PhantomData },
            Span { slice, scratch, len: self.len - mid, life: PhantomData },
        ]
    }

    /// Sorts the elements, which are in the slice, to `goal` (S2).
    fn sort(&mut self, goal: Place, less: &(impl Fn(&T, &T) -> bool + Sync), leaf: usize) {
        // SAFETY: S2, the elements are in the slice.
        let elements = unsafe { self.elements(Place::Slice) };
        if elements.len() <= leaf {
            alone(elements, less);
            return self.deliver(goal);
        }
        if settle_run(elements, less) {
            return self.deliver(goal);
        }
        let source = goal.other();
        let [mut left, mut right] = self.halves().map(Homing::new);
        join(|| left.sort(source, less, leaf), || right.sort(source, less, leaf));
        // SAFETY: S2, the elements of this half are at `source`.
        let l = unsafe { left.span.elements(source) };
        // SAFETY: as above.
        let r = unsafe { right.span.elements(source) };
        // SAFETY: S1, and the elements are at the other place.
        let out = unsafe { self.room(goal) };
        merge::copies(l, r, out, less);
        left.settle();
        right.settle();
    }

    /// Copies the elements from the slice to `goal`.
    fn deliver(&mut self, goal: Place) {
        if goal == Place::Slice {
            return;
        }
        // SAFETY: S2, the elements are in the slice.
        let elements = unsafe { self.elements(Place::Slice) };
        // SAFETY: S1, and the elements are at the other place.
        let room = unsafe { self.room(Place::Scratch) };
        merge::copy_bits(elements, room);
    }
}

impl<'a, T> Span<'a, T> {
    fn at(&self, place: Place) -> *mut T {
        match place {
            Place::Slice => self.slice,
            Place::Scratch => self.scratch,
        }
    }

    /// The elements at `place`.
    ///
    /// # Safety
    /// All elements of the span are there, and nothing else refers to that place (S1).
    unsafe fn elements(&self, place: Place) -> &'a mut [T] {
        // SAFETY: as the caller says; the place is that long.
        unsafe { std::slice::from_raw_parts_mut(self.at(place), self.len) }
    }

    /// `place`, as memory to write to.
    ///
    /// # Safety
    /// The elements are elsewhere, and nothing else refers to that place (S1).
    unsafe fn room(&self, place: Place) -> &'a mut [MaybeUninit<T>] {
        // SAFETY: as the caller says; the place is that long, and `MaybeUninit` asks for no content.
        unsafe { std::slice::from_raw_parts_mut(self.at(place).cast(), self.len) }
    }
}

/// A half whose elements return to the slice if this unwinds (S2).
struct Homing<'a, T> {
    span: Span<'a, T>,
    /// Where the elements are.
    place: Place,
}

impl<'a, T: Send> Homing<'a, T> {
    fn new(span: Span<'a, T>) -> Self {
        Self { span, place: Place::Slice }
    }

    fn sort(&mut self, goal: Place, less: &(impl Fn(&T, &T) -> bool + Sync), leaf: usize) {
        debug_assert_eq!(self.place, Place::Slice);
        self.span.sort(goal, less, leaf);
        self.place = goal;
    }

    /// The elements have been merged into where they belong.
    fn settle(mut self) {
        self.place = Place::Slice;
    }
}

impl<T> Drop for Homing<'_, T> {
    fn drop(&mut self) {
        if self.place == Place::Slice {
            return;
        }
        // SAFETY: S3, the elements are still in the scratch.
        let elements = unsafe { self.span.elements(Place::Scratch) };
        // SAFETY: S1, and the elements are in the scratch.
        let room = unsafe { self.span.room(Place::Slice) };
        merge::copy_bits(elements, room);
    }
}
