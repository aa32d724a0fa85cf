//! Fibonacci numbers by their definition: almost nothing but joins.

use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::{Load, per_op};
use std::hint::black_box;

pub fn run<P: Pool>(load: Load) -> Vec<f64> {
    let n = load.pick(35, 18);
    let pool = started::<P>(load.threads);
    let (value, elapsed) = timed(&pool, move |scope| fib::<P>(scope, black_box(n)));
    assert_eq!(value, known(n));
    per_op(elapsed, joins(n))
}

fn fib<P: Pool>(scope: &mut P::Scope<'_>, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = P::join(scope, |scope| fib::<P>(scope, n - 1), |scope| fib::<P>(scope, n - 2));
    a + b
}

fn known(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// How often `fib` forks for `n`.
fn joins(n: u32) -> usize {
    known(n + 1) as usize - 1
}

#[cfg(test)]
mod tests {
    use super::{joins, known};

    #[test]
    fn joins_counts_every_inner_node_of_the_recursion() {
        fn count(n: u32) -> usize {
            if n < 2 { 0 } else { 1 + count(n - 1) + count(n - 2) }
        }
        for n in 0..15 {
            assert_eq!(joins(n), count(n));
        }
        assert_eq!(known(35), 9_227_465);
    }
}
