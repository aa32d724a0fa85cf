//! Loops and algorithms over slices that use every worker there is.
//!
//! Not here: how work is forked (`crate::fork`).

mod divide;
mod fill;
mod merge;
mod scan;
mod slice_ops;
mod sort;

pub use fill::generate;
pub use merge::{
    merge, merge_by, merge_by_key, merge_uninit, merge_uninit_by, merge_vecs, merge_vecs_by,
    merge_vecs_by_key,
};
pub use scan::{exclusive_scan, exclusive_scan_map, inclusive_scan, inclusive_scan_map};
pub use slice_ops::ParallelSliceOps;

/// What a program imports to have the methods.
///
/// ```
/// use filch::par::prelude::*;
/// let mut v = vec![3, 1, 2];
/// v.par_sort();
/// assert_eq!(v, [1, 2, 3]);
/// ```
pub mod prelude {
    pub use super::slice_ops::ParallelSliceOps;
}
