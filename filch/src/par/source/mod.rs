//! Where items come from.

pub(super) mod bridge;
pub(super) mod collections;
pub(super) mod grid;
pub(super) mod option;
pub(super) mod range;
pub(super) mod repeat;
pub(super) mod slice;
pub(super) mod slice_parts;
pub(super) mod string;
pub(super) mod vec;
