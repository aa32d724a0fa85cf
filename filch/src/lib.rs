//! filch: one work-stealing runtime for async tasks and CPU jobs, with structure.

extern crate self as filch;

mod base;
mod idle;
mod pool;
mod queue;
mod task;

#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
mod sched;
#[cfg(not(loom))]
mod timer;

#[cfg(not(loom))]
mod block_on;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod scope;
#[cfg(not(loom))]
mod spawn;
#[cfg(not(loom))]
mod wait;
