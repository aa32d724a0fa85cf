//! Parallel loops: iterators whose items are handed out to the workers.
//!
//! ```
//! use filch::par::prelude::*;
//!
//! let words = ["loops", "that", "spread"];
//! let letters: usize = words.par_iter().map(|word| word.len()).sum();
//! assert_eq!(letters, 15);
//!
//! let mut pixels = vec![0u8; 1 << 16];
//! pixels.par_iter_mut().enumerate().for_each(|(i, pixel)| *pixel = (i % 251) as u8);
//! assert_eq!(pixels.par_iter().max(), Some(&250));
//! ```
//!
//! Names and meanings are those of the rayon crate wherever it has them, so that a port is mostly a
//! change of imports; `docs/coming-from-rayon.md` in the repository lists what differs.
//!
//! | to | use |
//! | --- | --- |
//! | loop over a slice, a vector, a range | [`par_iter`](IntoParallelRefIterator::par_iter), [`par_iter_mut`](IntoParallelRefMutIterator::par_iter_mut), [`into_par_iter`](IntoParallelIterator::into_par_iter) |
//! | over parts of a slice | [`ParallelSlice`], [`ParallelSliceMut`] |
//! | over two or three index ranges | [`grid`] |
//! | over any iterator | [`par_bridge`](ParallelBridge::par_bridge) |
//! | do something with the items | [`ParallelIterator`], [`IndexedParallelIterator`] |
//! | sort or fill a slice | [`ParallelSliceOps`] |
//! | merge, scan, generate | [`merge()`], [`inclusive_scan`], [`exclusive_scan`], [`generate`] |
//! | say how the loop is cut | [`with_min_len`](IndexedParallelIterator::with_min_len), [`partition_by`](IndexedParallelIterator::partition_by) |
//! | make a collection of one's own iterable | [`plumbing`] |
//!
//! # How a loop runs
//!
//! A loop may be called on any thread, and returns when all its pieces have ended. The calling
//! thread works on it too, and while it waits for others it runs pieces of this loop or nothing, so
//! a lock that it holds is safe. A loop is cut in two, again and again, and the halves are left for
//! idle workers to take. How far is a [`Partition`]; by default, cutting follows stealing.
//!
//! A panic in a closure ends its piece, and is carried to the caller when all pieces have run: as in
//! rayon, and for the same reason, that both halves of a [`join`](crate::join()) are always called. Of several
//! panics, the caller sees that of the leftmost piece.
//!
//! A loop that can stop early, such as a search or [`try_for_each`](ParallelIterator::try_for_each),
//! stops all of its pieces after the item that each of them is at, whatever stages lie between.

/// An iterator of known length, driven by way of its producer.
macro_rules! bridged {
    ([$($g:tt)*] $type:ty, $item:ty) => {
        impl<$($g)*> $crate::par::parallel::ParallelIterator for $type {
            type Item = $item;

            fn drive<Into_: $crate::par::plumbing::Consumer<$item>>(
                self,
                consumer: Into_,
            ) -> Into_::Result {
                $crate::par::plumbing::bridge(self, consumer)
            }

            fn opt_len(&self) -> Option<usize> {
                Some($crate::par::indexed::IndexedParallelIterator::len(self))
            }
        }
    };
}

mod adapt;
mod consume;
mod convert;
mod divide;
mod fill;
mod indexed;
mod merge;
mod parallel;
mod partition;
pub mod plumbing;
pub mod prelude;
mod scan;
mod slice_ops;
mod sort;
mod source;
mod tries;

pub use consume::pairs::Either;
pub use convert::{
    FromParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
    IntoParallelRefMutIterator, ParallelExtend,
};
pub use fill::generate;
pub use indexed::IndexedParallelIterator;
pub use merge::{
    merge, merge_by, merge_by_key, merge_uninit, merge_uninit_by, merge_vecs, merge_vecs_by,
    merge_vecs_by_key,
};
pub use parallel::ParallelIterator;
pub use partition::{Partition, dynamic, equal, guided};
pub use scan::{exclusive_scan, exclusive_scan_map, inclusive_scan, inclusive_scan_map};
pub use slice_ops::ParallelSliceOps;
pub use source::bridge::ParallelBridge;
pub use source::grid::{Axes, Grid, grid};
pub use source::option::{empty, once};
pub use source::repeat::{repeat, repeat_n};
pub use source::slice_parts::{ParallelSlice, ParallelSliceMut};
pub use source::string::ParallelString;
pub use tries::Try;

/// The traits, the adaptors that their methods make, and free functions.
///
/// ```
/// use filch::par::iter::{IntoParallelIterator, Map, ParallelIterator};
///
/// fn squares<I: ParallelIterator<Item = u32>>(iter: I) -> Map<I, fn(u32) -> u32> {
///     iter.map(|n| n * n)
/// }
/// assert_eq!(squares((0..4).into_par_iter()).sum::<u32>(), 14);
/// ```
pub mod iter {
    pub use super::adapt::*;
    pub use super::consume::pairs::Either;
    pub use super::convert::*;
    pub use super::indexed::IndexedParallelIterator;
    pub use super::parallel::ParallelIterator;
    pub use super::source::bridge::{IterBridge, ParallelBridge};
    pub use super::source::option::{Empty, Once, empty, once};
    pub use super::source::repeat::{Repeat, RepeatN, repeat, repeat_n};
}

/// Iterators over slices and their parts.
///
/// ```
/// use filch::par::{prelude::*, slice};
/// let rows: slice::Chunks<'_, u8> = [1, 2, 3, 4].par_chunks(2);
/// assert_eq!(rows.count(), 2);
/// ```
pub mod slice {
    pub use super::source::slice::*;
    pub use super::source::slice_parts::*;
}

/// Iterators over vectors.
///
/// ```
/// use filch::par::{prelude::*, vec};
/// let items: vec::IntoIter<u8> = vec![1, 2].into_par_iter();
/// assert_eq!(items.count(), 2);
/// ```
pub mod vec {
    pub use super::source::vec::*;
}

/// Iterators over ranges.
///
/// ```
/// use filch::par::{prelude::*, range};
/// let numbers: range::Iter<u8> = (0..4).into_par_iter();
/// assert_eq!(numbers.count(), 4);
/// ```
pub mod range {
    pub use super::source::range::*;
}

/// Iterators over texts.
///
/// ```
/// use filch::par::{prelude::*, str};
/// let letters: str::Chars<'_> = "abc".par_chars();
/// assert_eq!(letters.count(), 3);
/// ```
pub mod str {
    pub use super::source::string::*;
}
