//! Parts of slices: chunks from the front and from the back, and windows.
//!
//! W1. Cuts fall between parts, so every piece but the last consists of whole ones.

use std::mem;

use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::Producer;

/// An iterator over parts of a slice that is its own producer.
///
/// `cut(slice, index, size)` are the first `index` parts and the rest.
macro_rules! parts {
    ($(#[$doc:meta])* $name:ident, $bound:ident, $slice:ty, $std:ident, $walk:ident,
     len: $len:expr, cut: $cut:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "parallel iterators do nothing before they are consumed"]
        pub struct $name<'data, T> {
            slice: $slice,
            size: usize,
        }

        bridged!(['data, T: $bound] $name<'data, T>, $slice);

        impl<'data, T: $bound> IndexedParallelIterator for $name<'data, T> {
            type Producer<'p>
                = Self
            where
                Self: 'p;

            fn len(&self) -> usize {
                let len: fn(usize, usize) -> usize = $len;
                len(self.slice.len(), self.size)
            }

            fn producer(&mut self) -> Self {
                Self { slice: mem::take(&mut self.slice), size: self.size }
            }
        }

        impl<'data, T: $bound> Producer for $name<'data, T> {
            type Item = $slice;
            type IntoIter = std::slice::$std<'data, T>;
    const SEEN: bool = false;

            fn into_iter(self) -> Self::IntoIter {
                self.slice.$walk(self.size)
            }

            fn split_at(self, index: usize) -> (Self, Self) {
                let cut: fn($slice, usize, usize) -> ($slice, $slice) = $cut;
                let (left, right) = cut(self.slice, index, self.size);
                (Self { slice: left, size: self.size }, Self { slice: right, size: self.size })
            }
        }
    };
}

/// Where `index` parts end that are counted from the front.
fn front(len: usize, index: usize, size: usize) -> usize {
    index.saturating_mul(size).min(len)
}

/// Where `index` parts start that are counted from the back.
fn back(len: usize, index: usize, size: usize) -> usize {
    len.saturating_sub(index.saturating_mul(size))
}

fn swap<T>((left, right): (T, T)) -> (T, T) {
    (right, left)
}

parts! {
    /// Made by [`ParallelSlice::par_chunks`].
    Chunks, Sync, &'data [T], Chunks, chunks,
    len: usize::div_ceil,
    cut: |slice, index, size| slice.split_at(front(slice.len(), index, size))
}
parts! {
    /// Made by [`ParallelSlice::par_chunks_exact`].
    ChunksExact, Sync, &'data [T], ChunksExact, chunks_exact,
    len: |len, size| len / size,
    cut: |slice, index, size| slice.split_at(front(slice.len(), index, size))
}
parts! {
    /// Made by [`ParallelSlice::par_rchunks`].
    RChunks, Sync, &'data [T], RChunks, rchunks,
    len: usize::div_ceil,
    cut: |slice, index, size| swap(slice.split_at(back(slice.len(), index, size)))
}
parts! {
    /// Made by [`ParallelSlice::par_rchunks_exact`].
    RChunksExact, Sync, &'data [T], RChunksExact, rchunks_exact,
    len: |len, size| len / size,
    cut: |slice, index, size| swap(slice.split_at(back(slice.len(), index, size)))
}
parts! {
    /// Made by [`ParallelSlice::par_windows`].
    Windows, Sync, &'data [T], Windows, windows,
    len: |len, size| len.saturating_sub(size - 1),
    // The last window on the left reaches over the cut.
    cut: |slice, index, size| (&slice[..slice.len().min(index + size - 1)], &slice[index..])
}
parts! {
    /// Made by [`ParallelSliceMut::par_chunks_mut`].
    ChunksMut, Send, &'data mut [T], ChunksMut, chunks_mut,
    len: usize::div_ceil,
    cut: |slice, index, size| slice.split_at_mut(front(slice.len(), index, size))
}
parts! {
    /// Made by [`ParallelSliceMut::par_chunks_exact_mut`].
    ChunksExactMut, Send, &'data mut [T], ChunksExactMut, chunks_exact_mut,
    len: |len, size| len / size,
    cut: |slice, index, size| slice.split_at_mut(front(slice.len(), index, size))
}
parts! {
    /// Made by [`ParallelSliceMut::par_rchunks_mut`].
    RChunksMut, Send, &'data mut [T], RChunksMut, rchunks_mut,
    len: usize::div_ceil,
    cut: |slice, index, size| swap(slice.split_at_mut(back(slice.len(), index, size)))
}
parts! {
    /// Made by [`ParallelSliceMut::par_rchunks_exact_mut`].
    RChunksExactMut, Send, &'data mut [T], RChunksExactMut, rchunks_exact_mut,
    len: |len, size| len / size,
    cut: |slice, index, size| swap(slice.split_at_mut(back(slice.len(), index, size)))
}

/// A method that makes parts of a size that is not 0.
macro_rules! make {
    ($(#[$doc:meta])* $method:ident, $name:ident, [$($this:tt)*], $as:ident) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// If `size` is 0.
        #[track_caller]
        fn $method($($this)* self, size: usize) -> $name<'_, T> {
            assert!(size > 0, "a part of a slice has at least one item");
            $name { slice: self.$as(), size }
        }
    };
}

/// Parts of shared slices.
///
/// ```
/// use filch::par::prelude::*;
/// let n = [1, 2, 3, 4, 5];
/// assert_eq!(n.par_chunks(2).map(|c| c.len()).collect::<Vec<_>>(), [2, 2, 1]);
/// assert_eq!(n.par_chunks_exact(2).count(), 2);
/// assert_eq!(n.par_rchunks(2).map(|c| c[0]).collect::<Vec<_>>(), [4, 2, 1]);
/// assert_eq!(n.par_rchunks_exact(2).map(|c| c[0]).collect::<Vec<_>>(), [4, 2]);
/// assert!(n.par_windows(2).all(|w| w[0] < w[1]));
/// ```
pub trait ParallelSlice<T: Sync> {
    /// The slice.
    fn as_parallel_slice(&self) -> &[T];

    make! {
        /// Chunks of `size` items, the last one perhaps shorter.
        par_chunks, Chunks, [&], as_parallel_slice
    }
    make! {
        /// Chunks of exactly `size` items; what is left at the end is left out.
        par_chunks_exact, ChunksExact, [&], as_parallel_slice
    }
    make! {
        /// Chunks of `size` items from the end on, the last one perhaps shorter.
        par_rchunks, RChunks, [&], as_parallel_slice
    }
    make! {
        /// Chunks of exactly `size` items from the end on; what is left at the front is left out.
        par_rchunks_exact, RChunksExact, [&], as_parallel_slice
    }
    make! {
        /// All runs of `size` neighbours.
        par_windows, Windows, [&], as_parallel_slice
    }
}

impl<T: Sync> ParallelSlice<T> for [T] {
    fn as_parallel_slice(&self) -> &[T] {
        self
    }
}

/// Parts of exclusive slices.
///
/// ```
/// use filch::par::prelude::*;
/// let mut n = [1, 2, 3, 4, 5];
/// n.par_chunks_mut(2).for_each(|c| c.reverse());
/// assert_eq!(n, [2, 1, 4, 3, 5]);
/// n.par_chunks_exact_mut(2).for_each(|c| c.reverse());
/// assert_eq!(n, [1, 2, 3, 4, 5]);
/// n.par_rchunks_mut(2).enumerate().for_each(|(i, c)| c.fill(i));
/// assert_eq!(n, [2, 1, 1, 0, 0]);
/// n.par_rchunks_exact_mut(4).for_each(|c| c.fill(7));
/// assert_eq!(n, [2, 7, 7, 7, 7]);
/// ```
pub trait ParallelSliceMut<T: Send> {
    /// The slice.
    fn as_parallel_slice_mut(&mut self) -> &mut [T];

    make! {
        /// Chunks of `size` items, the last one perhaps shorter.
        par_chunks_mut, ChunksMut, [&mut], as_parallel_slice_mut
    }
    make! {
        /// Chunks of exactly `size` items; what is left at the end is left out.
        par_chunks_exact_mut, ChunksExactMut, [&mut], as_parallel_slice_mut
    }
    make! {
        /// Chunks of `size` items from the end on, the last one perhaps shorter.
        par_rchunks_mut, RChunksMut, [&mut], as_parallel_slice_mut
    }
    make! {
        /// Chunks of exactly `size` items from the end on; what is left at the front is left out.
        par_rchunks_exact_mut, RChunksExactMut, [&mut], as_parallel_slice_mut
    }
}

impl<T: Send> ParallelSliceMut<T> for [T] {
    fn as_parallel_slice_mut(&mut self) -> &mut [T] {
        self
    }
}
