//! A tree of tasks: every inner node spawns ten children and adds what they return.

use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::Instant;

/// Children of an inner node.
pub const CHILDREN: usize = 10;

pub struct SkynetAsync;

impl Scenario for SkynetAsync {
    const NAME: &'static str = "skynet_async";
    const ABOUT: &'static str =
        "tree of tasks, 1e6 leaves, 10 children each, spawn and await, per node";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let leaves: usize = load.pick(1_000_000, 10_000);
        let peer = started::<P>(load.threads);
        let start = Instant::now();
        let sum = peer.run_on_worker(async move { node::<P>(0, leaves).await });
        let elapsed = start.elapsed();
        assert_eq!(sum, leaves * (leaves - 1) / 2);
        per_op(elapsed, nodes(leaves))
    }
}

fn node<P: Peer>(first: usize, leaves: usize) -> P::Join<usize> {
    P::spawn(async move {
        if leaves == 1 {
            return first;
        }
        let share = leaves / CHILDREN;
        let children: [_; CHILDREN] =
            std::array::from_fn(|child| node::<P>(first + child * share, share));
        let mut sum = 0;
        for child in children {
            sum += child.await;
        }
        sum
    })
}

/// All nodes of a tree with so many leaves.
pub fn nodes(leaves: usize) -> usize {
    std::iter::successors(Some(leaves), |&level| (level > 1).then_some(level / CHILDREN)).sum()
}

#[cfg(test)]
mod tests {
    use super::nodes;

    #[test]
    fn nodes_counts_every_level() {
        assert_eq!(nodes(1), 1);
        assert_eq!(nodes(1_000), 1_111);
    }
}
