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
//!
//! Names and meanings are close to Taskflow's; `docs/coming-from-taskflow.md` in the repository lists them, and what differs.

pub mod algorithm;

mod body;
mod build;
mod dump;
mod edit;
mod ending;
mod errand;
mod error;
mod flow;
mod future;
mod handle;
mod limit;
mod node;
mod output;
mod params;
mod plan;
mod profile;
mod run;
mod runner;
mod slot;
mod trace;
mod work;

pub use build::Graph;
pub use error::{Cause, Cycle, Failure, RunError, Stopped};
pub use flow::Scheduler;
pub use handle::{RunHandle, RunOutcome};
pub use limit::Semaphore;
pub use node::{Node, NodeId, Nodes};
pub use params::{Draft, NodeFn, Own, Params, Source, Sources};
pub use profile::{Profile, Span};
pub use run::Run;
pub use runner::{Canceller, Runner};
pub use slot::OnFailure;
