//! Algorithms as nodes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::Graph;
use filch::graph::algorithm;
use filch::testkit::Sim;

const LEN: usize = 20_000;

/// Numbers in no order.
fn mixed() -> Vec<u64> {
    (0..LEN as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect()
}

#[test]
fn a_range_is_asked_for_when_the_node_runs() {
    let (len, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut g = Graph::new();
    let grow = g.node("grow", || _ = len.fetch_add(1000, Relaxed));
    let add = g.for_each("add", || 0..len.load(Relaxed), |n| _ = sum.fetch_add(n, Relaxed));
    g.precede(grow, add);
    g.run();
    assert_eq!(sum.swap(0, Relaxed), 499_500);
    g.run();
    assert_eq!(sum.load(Relaxed), 1_999_000);
}

#[test]
fn algorithms_over_data_from_outside_agree_with_iterators() {
    let data = mixed();
    let mut g = Graph::new();
    let halves = g.transform("halves", || &data, |n| n / 2);
    let sum = g.reduce("sum", || data.clone(), || 0, |a, b| a + b);
    let most = g.transform_reduce("most", || &data, |n| n % 1000, || 0, u64::max);
    let found = g.find("found", || &data, |n| **n > 1000);
    let run = g.run();
    assert_eq!(run.take(halves), data.iter().map(|n| n / 2).collect::<Vec<_>>());
    assert_eq!(run.take(sum), data.iter().sum::<u64>());
    assert_eq!(run.take(most), data.iter().map(|n| n % 1000).max().unwrap());
    assert_eq!(run.take(found), data.iter().find(|n| **n > 1000));
}

#[test]
fn algorithms_over_outputs_agree_with_iterators_in_each_run() {
    let mut g = Graph::new();
    let data = g.node("data", mixed);
    let sum =
        g.node("sum", algorithm::transform_reduce(|n: &u64| *n, || 0, |a, b| a + b)).after(&data);
    let place = g.node("place", algorithm::position(|n: &u64| *n > 1000)).after(&data);
    let copy = g.node("copy", algorithm::transform(|n: &u64| *n)).after(&data);
    let sorted = g.node("sort", algorithm::sort()).after(copy);
    let other = g.node("other", Vec::clone as fn(&Vec<u64>) -> Vec<u64>).after(&data);
    let sums = g.node("sums", algorithm::inclusive_scan(|a: &u64, b: &u64| a + b)).after(other);
    let mut expected = mixed();
    let place_expected = expected.iter().position(|n| *n > 1000);
    expected.sort_unstable();
    for _ in 0..3 {
        let run = g.run();
        let sum = run.take(sum);
        assert_eq!(run.get(sums).unwrap().last(), Some(&sum));
        assert_eq!(run.take(place), place_expected);
        assert_eq!(run.take(sorted), expected);
    }
}

#[test]
fn a_panic_in_a_loop_is_a_failure_of_its_node() {
    let mut g = Graph::new();
    let bad = g.for_each("bad", || 0..1000, |n| assert_ne!(n, 500));
    let after = g.node("after", || unreachable!());
    g.precede(bad, after);
    let error = g.try_run().unwrap_err();
    assert_eq!((error.failures()[0].name(), error.skipped()), ("bad", &[after.id()][..]));
}

#[test]
fn loops_of_nodes_that_wait_for_each_other_s_workers_end_under_every_seed() {
    Sim::new().workers(2).check(0..100, || {
        let seen = Mutex::new(Vec::new());
        let mut g = Graph::new();
        let loops = ["a", "b", "c"].map(|name| {
            let seen = &seen;
            g.for_each(name, || 0..20, move |n| seen.lock().unwrap().push(n))
        });
        let count = g.node("count", || assert_eq!(seen.lock().unwrap().len(), 60));
        g.succeed(count, loops);
        g.run();
    });
}
