//! The traits, for `use filch::par::prelude::*`.

pub use super::convert::{
    FromParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
    IntoParallelRefMutIterator, ParallelExtend,
};
pub use super::indexed::IndexedParallelIterator;
pub use super::parallel::ParallelIterator;
pub use super::slice_ops::ParallelSliceOps;
pub use super::source::bridge::ParallelBridge;
pub use super::source::slice_parts::{ParallelSlice, ParallelSliceMut};
pub use super::source::string::ParallelString;
