//! The examples of the documents beside the crates, compiled without a warning and run as doc tests.
//!
//! Not here: the documents of a crate itself, which are doc tests of that crate.

#![doc(test(attr(deny(warnings))))]

/// The front page.
#[doc = include_str!("../README.md")]
pub mod readme {}

/// What there is, with examples.
#[doc = include_str!("features.md")]
pub mod features {}
