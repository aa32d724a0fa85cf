//! What every other module may use: atomics under one name, and small tools without policy.

pub(crate) mod cpus;
pub(crate) mod shim;
pub(crate) mod thread;
