//! What every other module may use: atomics under one name, and small tools without policy.

pub(crate) mod barrier;
#[cfg(not(loom))]
pub(crate) mod clock;
pub(crate) mod cpus;
pub(crate) mod parker;
#[cfg(not(loom))]
pub(crate) mod prefetch;
pub(crate) mod rng;
#[cfg_attr(loom, expect(dead_code, reason = "the scheduler is not modelled"))]
pub(crate) mod script;
pub(crate) mod shim;
pub(crate) mod sim;
pub(crate) mod thread;
