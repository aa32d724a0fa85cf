//! Parallel algorithms as nodes of a graph.

use filch::Graph;
use filch::graph::algorithm;

fn main() {
    let mut g = Graph::new();
    // Over what a closure gives when the node runs, here a range.
    let numbers = g.transform("numbers", || 0..100_000_u64, |n| n.wrapping_mul(0x9e37_79b9) % 1000);
    // Over what another node returned.
    let sum = g.node("sum", algorithm::reduce(|| 0, |a, b| a + b)).after(&numbers);
    let first = g.node("first", algorithm::position(|n: &u64| *n == 999)).after(&numbers);
    let squares = g.node("squares", algorithm::transform(|n: &u64| n * n)).after(&numbers);
    let sorted = g.node("sort", algorithm::sort()).after(squares);

    let run = g.run();
    let sorted = run.take(sorted);
    println!(
        "sum {}, 999 at {:?}, squares up to {:?}",
        run.take(sum),
        run.take(first),
        sorted.last()
    );
    assert!(sorted.is_sorted());
    assert_eq!((sorted.len(), sorted.last()), (100_000, Some(&(999 * 999))));
}
