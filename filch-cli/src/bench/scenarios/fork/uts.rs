//! Search of an unbalanced tree that is not there until it is visited: a node's hash decides
//! whether it has children, and nobody can tell how many are below it.

use super::sum_over;
use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::{Load, per_op};
use crate::bench::stats::mix;

/// Children of a node that has any.
const CHILDREN: usize = 4;

/// A node has children with this probability, in units of 2^-64; a little below one in
/// `CHILDREN`, or the tree would not end. The mean subtree has 200 nodes.
const FERTILE: u64 = (u64::MAX as f64 * 0.248_75) as u64;

/// Children of the root, and the nodes of the whole tree.
const FULL: (usize, u64) = (15_000, 2_385_477);
const QUICK: (usize, u64) = (10, 139);

pub fn run<P: Pool>(load: Load) -> Vec<f64> {
    let (roots, known) = load.pick(FULL, QUICK);
    let pool = started::<P>(load.threads);
    let (nodes, elapsed) = timed(&pool, move |scope| forest::<P>(scope, roots));
    assert_eq!(nodes, known);
    per_op(elapsed, nodes as usize)
}

fn forest<P: Pool>(scope: &mut P::Scope<'_>, roots: usize) -> u64 {
    1 + sum_over::<P, _>(scope, 0..roots, &|scope, root| nodes::<P>(scope, mix(root as u64)))
}

fn nodes<P: Pool>(scope: &mut P::Scope<'_>, hash: u64) -> u64 {
    let children = if hash < FERTILE { CHILDREN } else { 0 };
    1 + sum_over::<P, _>(scope, 0..children, &|scope, child| {
        nodes::<P>(scope, mix(hash.wrapping_add(child as u64)))
    })
}

#[cfg(test)]
mod tests {
    use super::{FULL, QUICK, forest, nodes};
    use crate::bench::pools::Seq;
    use crate::bench::stats::mix;

    #[test]
    fn trees_have_the_size_that_is_recorded() {
        for (roots, known) in [QUICK, FULL] {
            assert_eq!(forest::<Seq>(&mut (), roots), known);
        }
    }

    #[test]
    fn most_subtrees_are_tiny_and_some_are_huge() {
        let mut sizes: Vec<_> =
            (0..FULL.0).map(|root| nodes::<Seq>(&mut (), mix(root as u64))).collect();
        sizes.sort_unstable();
        assert_eq!(sizes[sizes.len() / 2], 1);
        assert!(sizes[sizes.len() - 1] > 10_000);
    }
}
