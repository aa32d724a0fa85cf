//! Chapter on fork-join: what a join costs, and what it gains.

use super::{Shown, each, span};
use crate::style::figure;
use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The same sum by recursion with a join per cut, and a loop with and without helpers.
pub fn forks() -> Shown {
    const N: u32 = 22;
    const JOINS: u64 = 28_656;
    let runtime = super::runtime(super::workers());
    let (value, time) = on_worker(&runtime, || fib(N));
    assert_eq!(value, 17_711, "every branch was counted once");

    let numbers: Vec<u64> = (0..400_000).collect();
    let alone = numbers.clone();
    let (expected, alone) = on_worker(&runtime, move || sum_of_hashes(&alone));
    let (shared, together) = on_worker(&runtime, move || shared_sum_of_hashes(&numbers));
    assert_eq!(shared, expected, "in pieces as in one go");
    format!(
        "fib({N}): {} per join; a loop of {} in {} on {} workers, {} times as fast",
        each(time, JOINS),
        span(alone),
        span(together),
        super::workers(),
        figure(alone.as_secs_f64() / together.as_secs_f64())
    )
}

/// What `work` returns and how long it took on a compute worker. Through a channel: the handle's
/// own wait might run it here.
fn on_worker<T: Send + 'static>(
    runtime: &filch::Handle,
    work: impl FnOnce() -> T + Send + 'static,
) -> (T, Duration) {
    let (done, is_done) = mpsc::channel();
    drop(runtime.spawn_fn(move || {
        let start = Instant::now();
        done.send((work(), start.elapsed()))
    }));
    is_done.recv().expect("the work does not panic")
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// By halves, so that whoever is idle finds a large piece; small ones are not worth a cut.
fn shared_sum_of_hashes(numbers: &[u64]) -> u64 {
    if numbers.len() < 5_000 {
        return sum_of_hashes(numbers);
    }
    let (low, high) = numbers.split_at(numbers.len() / 2);
    let (low, high) = filch::join(|| shared_sum_of_hashes(low), || shared_sum_of_hashes(high));
    low.wrapping_add(high)
}

fn sum_of_hashes(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, &number| sum.wrapping_add(hash(number)))
}

/// Long enough to be worth sharing.
fn hash(number: u64) -> u64 {
    (0..20).fold(number, |hash, _| black_box(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1)
}
