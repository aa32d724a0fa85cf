//! The shapes of graphs. Every edge leads from a lower node to a higher one, so that plain code may call the
//! bodies in the order of their numbers.

use crate::bench::stats::SplitMix;

pub struct Shape {
    pub nodes: u32,
    /// From, to.
    pub edges: Vec<(u32, u32)>,
}

/// One after the other.
pub fn chain(nodes: u32) -> Shape {
    Shape { nodes, edges: (1..nodes).map(|node| (node - 1, node)).collect() }
}

/// A binary tree from its root, so many levels deep.
pub fn tree(levels: u32) -> Shape {
    let nodes = (1 << levels) - 1;
    Shape { nodes, edges: (1..nodes).map(|node| ((node - 1) / 2, node)).collect() }
}

/// A square in which each node comes after the one above and the one to the left.
pub fn wavefront(side: u32) -> Shape {
    let nodes = side * side;
    let edges = |node: u32| {
        let left = (!node.is_multiple_of(side)).then(|| (node - 1, node));
        let above = (node >= side).then(|| (node - side, node));
        [above, left].into_iter().flatten()
    };
    Shape { nodes, edges: (0..nodes).flat_map(edges).collect() }
}

/// Each node comes after one to three others, anywhere before it.
pub fn random(nodes: u32) -> Shape {
    let mut random = SplitMix::new(5);
    let mut edges = Vec::new();
    for node in 1..nodes {
        let first = edges.len();
        for _ in 0..random.within(1..4) {
            let before = random.within(0..node.into()) as u32;
            if !edges[first..].contains(&(before, node)) {
                edges.push((before, node));
            }
        }
    }
    Shape { nodes, edges }
}

/// One, six that come after it side by side, and one after these.
pub fn diamond() -> Shape {
    let edges = (1..7).flat_map(|node| [(0, node), (node, 7)]).collect();
    Shape { nodes: 8, edges }
}

#[cfg(test)]
mod tests {
    use super::{Shape, chain, diamond, random, tree, wavefront};

    #[test]
    fn edges_lead_upwards_and_none_comes_twice() {
        let shapes: [Shape; 5] = [chain(9), tree(4), wavefront(5), random(200), diamond()];
        for Shape { nodes, mut edges } in shapes {
            assert!(edges.iter().all(|&(from, to)| from < to && to < nodes));
            let count = edges.len();
            edges.sort();
            edges.dedup();
            assert_eq!(edges.len(), count);
        }
    }

    #[test]
    fn counts_are_as_known() {
        assert_eq!((tree(4).nodes, tree(4).edges.len()), (15, 14));
        assert_eq!(wavefront(4).edges.len(), 24);
        assert_eq!(diamond().edges.len(), 12);
    }
}
