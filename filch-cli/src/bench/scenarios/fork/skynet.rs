//! A tree of joins: every inner node adds what its ten children return.

use super::{repeat, sum_over};
use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::skynet_async::{CHILDREN, nodes};
use crate::bench::scenarios::{Load, per_op};
use std::hint::black_box;

pub fn run<P: Pool>(load: Load) -> Vec<f64> {
    let leaves: usize = load.pick(1_000_000, 1_000);
    let times = load.pick(10, 1);
    let pool = started::<P>(load.threads);
    let (sum, elapsed) = timed(&pool, move |scope| {
        repeat(times, || node::<P>(scope, black_box(0), black_box(leaves)))
    });
    assert_eq!(sum as usize, leaves * (leaves - 1) / 2);
    per_op(elapsed, times * nodes(leaves))
}

fn node<P: Pool>(scope: &mut P::Scope<'_>, first: usize, leaves: usize) -> u64 {
    if leaves == 1 {
        return first as u64;
    }
    let share = leaves / CHILDREN;
    sum_over::<P, _>(scope, 0..CHILDREN, &|scope, child| {
        node::<P>(scope, first + child * share, share)
    })
}
