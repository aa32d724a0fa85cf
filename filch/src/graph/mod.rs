//! Task graphs: work that is described once and run many times.

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
mod run;
mod runner;
mod slot;
mod work;

pub use build::Graph;
pub use error::{Cause, Cycle, Failure, RunError, Stopped};
pub use flow::Scheduler;
pub use handle::{RunHandle, RunOutcome};
pub use limit::Semaphore;
pub use node::{Node, NodeId, Nodes};
pub use params::{Draft, NodeFn, Own, Params, Source, Sources};
pub use run::Run;
pub use runner::{Canceller, Runner};
pub use slot::OnFailure;
