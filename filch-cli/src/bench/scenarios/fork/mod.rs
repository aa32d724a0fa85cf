//! Fork-join programs: one source each, compiled for every pool.
//!
//! J1. A program forks at every node: no cut-off below which it goes on alone.
//! J2. Every sample compares the result of its program with what is known without it.

mod fib;
mod greedy;
mod idle_cpu_in_scope;
mod matmul;
mod nqueens;
mod skynet;
mod tree;
mod uts;

use super::{CPU_MS_PER_S, Entry, WarmUp, runs};
#[cfg(feature = "peers")]
use crate::bench::pools::{Chili, Rayon};
use crate::bench::pools::{Filch, Pool, Seq};
use std::ops::Range;

/// The fork-join scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::per_op("fib", "fib(35), per join", runs!(fib::run => Filch, [Rayon, Chili], Seq)),
        Entry::per_op(
            "tree_1k",
            "sum of a boxed binary tree of 1,023 nodes, a join per node, per node",
            runs!(tree::small => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "tree_131k",
            "the same with 131,071 nodes",
            runs!(tree::middle => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "tree_16m",
            "the same with 16,777,215 nodes, walked as they lie in memory",
            runs!(tree::large => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "nqueens",
            "12 queens, all solutions, per board tried",
            runs!(nqueens::run => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "matmul",
            "1024 x 1024 f32, recursive, per product of two 32 x 32 blocks",
            runs!(matmul::run => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "skynet",
            "tree of joins, 1e6 leaves, 10 children each, per node",
            runs!(skynet::run => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "uts",
            "search of an unbalanced random tree, per node",
            runs!(uts::run => Filch, [Rayon, Chili], Seq),
        ),
        Entry::per_op(
            "join_list",
            "200 levels of join(next level, 2 ms of work), per level",
            runs!(greedy::list => Filch, [Rayon, Chili], Seq),
        ),
        Entry {
            metrics: greedy::SKEWED,
            ..Entry::per_op(
                "join_skewed",
                "join of 2 x 50 ms above three jobs of 1 us; others idle, others busy for 2 ms",
                runs!(greedy::skewed => Filch, [Rayon, Chili], Seq),
            )
        },
        Entry {
            metrics: CPU_MS_PER_S,
            warm_up: WarmUp::Needless,
            ..Entry::per_op(
                "idle_cpu_in_scope",
                "CPU time of the process while a scope waits for a child that sleeps",
                runs!(idle_cpu_in_scope::run => Filch, [Rayon, Chili]),
            )
        },
    ]
}

/// Adds up `leaf` over a range by halves, with a join per cut.
fn sum_over<P: Pool, F>(scope: &mut P::Scope<'_>, range: Range<usize>, leaf: &F) -> u64
where
    F: Fn(&mut P::Scope<'_>, usize) -> u64 + Sync,
{
    let Range { start, end } = range;
    match end - start {
        0 => 0,
        1 => leaf(scope, start),
        count => {
            let middle = start + count / 2;
            let (low, high) = P::join(
                scope,
                |scope| sum_over::<P, F>(scope, start..middle, leaf),
                |scope| sum_over::<P, F>(scope, middle..end, leaf),
            );
            low + high
        }
    }
}

/// Runs the same program so many times; all must return the same.
fn repeat<T: PartialEq + std::fmt::Debug>(times: usize, mut program: impl FnMut() -> T) -> T {
    let first = program();
    for _ in 1..times {
        assert_eq!(program(), first);
    }
    first
}
