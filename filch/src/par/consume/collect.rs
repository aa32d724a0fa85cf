//! Collecting in place: as many slots as items, each piece writes its own.
//!
//! A panic, or an iterator that lies about its length, must neither leak nor drop twice, nor show an
//! unwritten slot.
//!
//! C1. [`Slots`] are the only way to a stretch of unwritten memory; cutting them cuts the stretch.
//! C2. A [`Written`] owns the items at `start..start + len`, all written; its drop drops them.
//! C3. Two are one only if the right one starts where the left one ends. Otherwise a slot between them is
//!     unwritten: the right one is dropped, and the count at the end tells.
//! C4. The vector's length grows only when every slot is written.

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;

use super::pairs::Both;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Reducer};

/// Appends the items of an iterator of known length.
///
/// # Panics
/// If it makes more or fewer than `len` items.
pub(in crate::par) fn append<T, I>(vec: &mut Vec<T>, len: usize, iter: I)
where
    T: Send,
    I: ParallelIterator<Item = T>,
{
    let written = iter.drive(Slots::behind(vec, len));
    written.assert_len(len);
    written.release();
    grow(vec, len);
}

/// Appends the halves of the pairs of an iterator of known length.
///
/// # Panics
/// As [`append`].
pub(in crate::par) fn append_both<A, B, I>(a: &mut Vec<A>, b: &mut Vec<B>, len: usize, iter: I)
where
    A: Send,
    B: Send,
    I: ParallelIterator<Item = (A, B)>,
{
    let (written_a, written_b) = iter.drive(Both(Slots::behind(a, len), Slots::behind(b, len)));
    written_a.assert_len(len);
    written_b.assert_len(len);
    written_a.release();
    written_b.release();
    grow(a, len);
    grow(b, len);
}

/// C4: only behind [`Written::assert_len`] of the slots behind the vector, and their release.
fn grow<T>(vec: &mut Vec<T>, len: usize) {
    // SAFETY: C2, C3: `len` items from the start of the spare capacity on are written, and nobody
    // else owns them any more.
    unsafe { vec.set_len(vec.len() + len) };
}

/// C1.
pub(in crate::par) struct Slots<'s, T>(&'s mut [MaybeUninit<T>]);

impl<'s, T> Slots<'s, T> {
    /// Those right behind a vector.
    fn behind(vec: &'s mut Vec<T>, len: usize) -> Self {
        vec.reserve(len);
        Slots(&mut vec.spare_capacity_mut()[..len])
    }
}

/// C2.
pub(in crate::par) struct Written<'s, T> {
    start: *mut T,
    len: usize,
    slots: PhantomData<&'s mut [T]>,
}

// SAFETY: C2, it owns items that may be sent, through memory that nobody else reaches.
unsafe impl<T: Send> Send for Written<'_, T> {}

impl<T> Written<'_, T> {
    fn assert_len(&self, len: usize) {
        let made = self.len;
        assert!(made == len, "an iterator said that it has {len} items, and made {made}");
    }

    /// Leaves the items to whoever owns the slots.
    fn release(self) {
        mem::forget(self);
    }
}

impl<T> Drop for Written<'_, T> {
    fn drop(&mut self) {
        let items = ptr::slice_from_raw_parts_mut(self.start, self.len);
        // SAFETY: C2, the items are ours and written.
        unsafe { ptr::drop_in_place(items) };
    }
}

impl<'s, T: Send> Consumer<T> for Slots<'s, T> {
    type Folder = SlotFolder<'s, T>;
    type Reducer = Join;
    type Result = Written<'s, T>;

    fn split_off(&self) -> Self {
        panic!("an iterator that tells its length did not say where it was cut")
    }

    fn to_reducer(&self) -> Join {
        Join
    }

    fn into_folder(self) -> Self::Folder {
        let start = self.0.as_mut_ptr().cast();
        SlotFolder {
            rest: self.0.iter_mut(),
            written: Written { start, len: 0, slots: PhantomData },
        }
    }

    fn split_at(self, index: usize) -> (Self, Self, Join) {
        let (left, right) = self.0.split_at_mut(index);
        (Slots(left), Slots(right), Join)
    }
}

/// C3.
pub(in crate::par) struct Join;

impl<'s, T> Reducer<Written<'s, T>> for Join {
    fn reduce(self, mut left: Written<'s, T>, right: Written<'s, T>) -> Written<'s, T> {
        if ptr::eq(left.start.wrapping_add(left.len), right.start) {
            left.len += right.len;
            right.release();
        }
        left
    }
}

/// The slots of a piece: `written`, then `rest`.
pub(in crate::par) struct SlotFolder<'s, T> {
    rest: std::slice::IterMut<'s, MaybeUninit<T>>,
    written: Written<'s, T>,
}

impl<'s, T: Send> Folder<T> for SlotFolder<'s, T> {
    type Result = Written<'s, T>;
    const FILLED_BY_OTHERS: bool = false;

    fn consume(mut self, item: T) -> Self {
        self.write(item);
        self
    }

    fn consume_iter<I: IntoIterator<Item = T>>(mut self, items: I) -> Self {
        items.into_iter().for_each(|item| self.write(item));
        self
    }

    fn complete(self) -> Written<'s, T> {
        self.written
    }
}

impl<T> SlotFolder<'_, T> {
    #[inline]
    fn write(&mut self, item: T) {
        let slot = self.rest.next().expect("an iterator makes no more items than it said");
        slot.write(item);
        self.written.len += 1;
    }
}
