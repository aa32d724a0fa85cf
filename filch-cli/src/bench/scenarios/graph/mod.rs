//! Task graphs and pipelines.

mod pipeline;

use super::Entry;

/// The graph scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    pipeline::entries()
}
