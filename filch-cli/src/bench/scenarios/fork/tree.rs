//! The sum of a binary tree whose nodes are boxed one by one.
//!
//! A node is allocated after its children, the right one's after the left one's; so a walk that
//! goes right first reads memory in one direction, and the processor can fetch ahead.

use super::repeat;
use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::{Load, per_op};
use std::hint::black_box;
use std::sync::OnceLock;

struct Node {
    value: u64,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

impl Node {
    fn tree(layers: u32) -> Self {
        let child = || (layers > 1).then(|| Box::new(Self::tree(layers - 1)));
        Self { value: layers.into(), left: child(), right: child() }
    }
}

/// Short enough that a timer tick does not come by.
pub fn small<P: Pool>(load: Load) -> Vec<f64> {
    static TREE: OnceLock<Node> = OnceLock::new();
    sum_of::<P>(load, &TREE, 10, load.pick(10_000, 20))
}

pub fn middle<P: Pool>(load: Load) -> Vec<f64> {
    static TREE: OnceLock<Node> = OnceLock::new();
    sum_of::<P>(load, &TREE, 17, load.pick(80, 1))
}

/// Larger than any cache.
pub fn large<P: Pool>(load: Load) -> Vec<f64> {
    static TREE: OnceLock<Node> = OnceLock::new();
    sum_of::<P>(load, &TREE, load.pick(24, 14), 1)
}

fn sum_of<P: Pool>(
    load: Load,
    tree: &'static OnceLock<Node>,
    layers: u32,
    times: usize,
) -> Vec<f64> {
    let tree = tree.get_or_init(|| Node::tree(layers));
    let pool = started::<P>(load.threads);
    let (total, elapsed) =
        timed(&pool, move |scope| repeat(times, || sum::<P>(scope, black_box(tree))));
    assert_eq!(total, known(layers));
    per_op(elapsed, times * nodes(layers))
}

fn sum<P: Pool>(scope: &mut P::Scope<'_>, node: &Node) -> u64 {
    let (right, left) = P::join(
        scope,
        |scope| node.right.as_deref().map_or(0, |right| sum::<P>(scope, right)),
        |scope| node.left.as_deref().map_or(0, |left| sum::<P>(scope, left)),
    );
    node.value + left + right
}

fn nodes(layers: u32) -> usize {
    (1 << layers) - 1
}

/// Every node holds its height, so the sum is twice the one below and the new root.
fn known(layers: u32) -> u64 {
    (1..=u64::from(layers)).fold(0, |sum, layer| 2 * sum + layer)
}

#[cfg(test)]
mod tests {
    use super::{Node, known, nodes, sum};
    use crate::bench::pools::Seq;

    #[test]
    fn sum_and_size_of_a_small_tree() {
        assert_eq!(nodes(3), 7);
        assert_eq!(sum::<Seq>(&mut (), &Node::tree(3)), 3 + 2 * 2 + 4);
        assert_eq!(known(3), 11);
    }
}
