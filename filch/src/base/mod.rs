//! What every other module may use: atomics under one name, and small tools without policy.

pub(crate) mod barrier;
#[cfg(not(loom))]
pub(crate) mod clock;
pub(crate) mod cpus;
pub(crate) mod parker;
#[cfg(not(loom))]
pub(crate) mod prefetch;
pub(crate) mod process;
pub(crate) mod rng;
#[cfg_attr(loom, expect(dead_code, reason = "the scheduler is not modelled"))]
pub(crate) mod script;
pub(crate) mod shim;
pub(crate) mod sim;
pub(crate) mod thread;

/// How often a test does something that it does `times`: less under Miri, which runs it some thousand times slower.
#[cfg(all(test, not(loom)))]
pub(crate) const fn repeated(times: usize) -> usize {
    match times {
        _ if !cfg!(miri) => times,
        0..1000 => times.div_ceil(10),
        _ => times.div_ceil(1000),
    }
}
