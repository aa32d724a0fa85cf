//! The hooks in a model: there is no simulation inside of a model checker.

use std::time::Instant;

#[inline(always)]
pub(crate) fn point() {}

pub(crate) fn is_on() -> bool {
    false
}

pub(crate) fn park(_: usize, _: Option<Instant>) -> bool {
    false
}

pub(crate) fn unpark(_: usize) -> bool {
    false
}

pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn number() -> Option<usize> {
    None
}

pub(crate) fn random() -> Option<u64> {
    None
}

pub(crate) fn take_ids(_: u64) -> Option<u64> {
    None
}
