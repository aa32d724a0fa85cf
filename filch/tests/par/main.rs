//! Parallel loops, compared with std's sequential ones.

mod adaptors;
mod as_std;
mod consumers;
mod drops;
mod early;
mod exits;
mod pieces;
mod places;
mod slices;
mod sources;
mod user;

#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/support.rs"]
mod support;
#[path = "../it/watchdog.rs"]
mod watchdog;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use filch::par::iter::PartitionBy;
use filch::par::prelude::*;
use filch::par::{self, Partition};

use crate::watchdog::watched;

/// Tries a property on random values, on the caller's thread of a runtime with four workers of a kind.
fn property<S>(strategy: S, test: impl Fn(S::Value) + Send + 'static)
where
    S: Strategy + Send + 'static,
{
    watched(move |dog| dog.rig(4).block_on_fn(|| try_all(&strategy.boxed(), &test)));
}

/// Compiled once for each kind of value.
fn try_all<V: std::fmt::Debug + 'static>(strategy: &BoxedStrategy<V>, test: &dyn Fn(V)) {
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(strategy, |value| {
        test(value);
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A vector of numbers, and a way to cut it that makes many pieces more often than not.
fn numbers() -> impl Strategy<Value = (Vec<i32>, Partition)> {
    let short = prop::collection::vec(-100..100, 0..20);
    let long = prop::collection::vec(-100..100, 0..2000);
    (prop_oneof![short, long], partition())
}

fn partition() -> impl Strategy<Value = Partition> {
    prop_oneof![
        Just(par::guided()),
        Just(par::equal()),
        (1..100usize).prop_map(par::dynamic),
        (0..5u32).prop_map(|depth| par::dynamic(1).max_depth(depth)),
    ]
}

/// The numbers of a vector, cut in the given way.
fn cut(numbers: &[i32], partition: Partition) -> PartitionBy<par::slice::Iter<'_, i32>> {
    numbers.par_iter().partition_by(partition)
}

/// Both make the same items in the same order. A list is what is quickest to compile.
macro_rules! same {
    ($par:expr, $seq:expr) => {
        assert_eq!($par.collect::<LinkedList<_>>(), $seq.collect::<LinkedList<_>>())
    };
}
use same;
