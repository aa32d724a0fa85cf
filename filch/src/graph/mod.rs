//! Task graphs: work that is described once and run many times.

#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod ending;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod join;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod permits;

#[cfg(not(loom))]
mod body;
#[cfg(not(loom))]
mod build;
#[cfg(not(loom))]
mod dump;
#[cfg(not(loom))]
mod edit;
#[cfg(not(loom))]
mod errand;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod flow;
#[cfg(not(loom))]
mod future;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod limit;
#[cfg(not(loom))]
mod node;
#[cfg(not(loom))]
mod output;
#[cfg(not(loom))]
mod params;
#[cfg(not(loom))]
mod plan;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod runner;
#[cfg(not(loom))]
mod slot;
#[cfg(not(loom))]
mod work;

#[cfg(not(loom))]
pub use self::{
    build::Graph,
    error::{Cause, Cycle, Failure, RunError, Stopped},
    flow::Scheduler,
    handle::{RunHandle, RunOutcome},
    limit::Semaphore,
    node::{Node, NodeId, Nodes},
    params::{Draft, NodeFn, Own, Params, Source, Sources},
    run::Run,
    runner::{Canceller, Runner},
    slot::OnFailure,
};
