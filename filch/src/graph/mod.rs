//! Task graphs: work that is described once and run many times.

mod body;
mod build;
mod ending;
mod error;
mod node;
mod output;
mod plan;
mod run;
mod slot;
mod work;

pub use build::Graph;
pub use error::{Cause, Cycle, Failure, RunError, Stopped};
pub use node::{Node, NodeId, Nodes};
pub use run::{Run, Runner};
pub use slot::OnFailure;
