//! What every other module may use: atomics under one name, and small tools without policy.

pub(crate) mod barrier;
pub(crate) mod shim;
