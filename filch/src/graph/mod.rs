//! Task graphs: work that is described once and run many times.
//!
//! ```
//! let mut g = filch::Graph::new();
//! let load = g.node("load", || vec![3, 1, 2]);
//! let sum = g.node("sum", |v: &Vec<i32>| v.iter().sum::<i32>()).after(&load);
//! let len = g.node("len", |v: &Vec<i32>| v.len() as i32).after(&load);
//! let mean = g.node("mean", |sum: &i32, len: &i32| sum / len).after((&sum, &len));
//! assert_eq!(g.run().take(mean), 2);
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | add a closure; one that may fail; a future | [`Graph::node`], [`Graph::try_node`], [`Graph::async_node`] |
//! | order nodes | [`Graph::precede`], [`Graph::succeed`], [`Graph::linearize`] |
//! | take what others returned | [`Draft::after`], by reference or as an [`Own`] |
//! | branch and loop | [`Graph::condition`], [`Graph::multi_condition`] |
//! | have a graph inside a node | [`Graph::subflow`], [`Graph::retained_subflow`], [`Graph::module`], or `run` in it |
//! | run nodes out of order | [`Graph::scheduler`] |
//! | have parallel loops as nodes | [`Graph::for_each`], [`Graph::reduce`], …; [`algorithm`] |
//! | limit and rank | [`Graph::limit`], [`Graph::prioritize`] |
//! | run | [`Graph::run`], [`Graph::run_n`], [`Graph::run_until`], [`Graph::run_async`] |
//! | stop runs, bound their time, decide what a failure does | [`Graph::runner`] |
//! | see what took how long | [`Runner::profile`] |
//! | have tasks that come after others, without a graph | [`spawn_after`] |
//!
//! Names and meanings are close to Taskflow's; `docs/coming-from-taskflow.md` in the repository lists them, and what differs.

#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod ending;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod join;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod knot;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod permits;

/// What meets the scheduler. Models (loom) know only what is above.
#[cfg(not(loom))]
#[path = "."]
mod scheduled {
    use super::{ending, join, knot, permits};

    pub mod algorithm;

    pub(super) mod after;
    mod body;
    pub(super) mod build;
    mod dump;
    mod edit;
    mod errand;
    pub(super) mod error;
    pub(super) mod flow;
    mod future;
    pub(super) mod handle;
    pub(super) mod limit;
    pub(super) mod node;
    mod output;
    pub(super) mod params;
    mod plan;
    pub(super) mod profile;
    pub(super) mod run;
    pub(super) mod runner;
    pub(super) mod slot;
    mod trace;
    mod work;
}

#[cfg(not(loom))]
pub use self::scheduled::{
    after::{Dependencies, Dependent, Milestone, spawn_after},
    algorithm,
    build::Graph,
    error::{Cause, Cycle, Failure, RunError, Stopped},
    flow::Scheduler,
    handle::{RunHandle, RunOutcome},
    limit::Semaphore,
    node::{Node, NodeId, Nodes},
    params::{Draft, NodeFn, Own, Params, Source, Sources},
    profile::{Profile, Span},
    run::Run,
    runner::{Canceller, Runner},
    slot::OnFailure,
};
