//! An early exit reaches every piece, whatever stage stands before the consumer: pieces of one loop
//! without end and without a hit run beside pieces with hits.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use filch::par::iter::Chain;
use filch::par::plumbing::{Consumer, Folder, Reducer};
use filch::par::prelude::*;
use filch::par::range;

use crate::watchdog::watched;

/// Numbers below this one are no hits. No loop counts so far.
const HITS: u64 = 1 << 62;

fn hit(n: &u64) -> bool {
    *n >= HITS
}

/// Where the hits are: behind what has no end, or before it.
#[derive(Clone, Copy)]
enum Hits {
    Last,
    First,
}

type Source = Chain<range::Iter<u64>, range::Iter<u64>>;

fn source(hits: Hits) -> Source {
    let (endless, few) = ((0..HITS).into_par_iter(), (HITS..HITS + 50).into_par_iter());
    match hits {
        Hits::Last => endless.chain(few),
        Hits::First => few.chain(endless),
    }
}

fn some(n: u64) -> Option<u64> {
    hit(&n).then_some(n)
}

/// Every ending that can stop, behind a stage. Each hangs if the stop does not arrive.
fn every_ending_stops<I: ParallelIterator<Item = u64>>(stage: &str, make: impl Fn(Source) -> I) {
    let last = || make(source(Hits::Last));
    let stop = |n: u64| if hit(&n) { Err(n) } else { Ok(n) };
    let ended = |ending: &str, found: bool| assert!(found, "{stage}, {ending}");
    ended("find_any", last().find_any(hit).is_some());
    ended("find_last", last().find_last(hit).is_some());
    ended("find_first", make(source(Hits::First)).find_first(hit).is_some());
    ended("find_map_any", last().find_map_any(some).is_some());
    ended("any", last().any(|n| hit(&n)));
    ended("all", !last().all(|n| !hit(&n)));
    ended("try_for_each", last().try_for_each(|n| stop(n).map(drop)).is_err());
    ended("try_reduce", last().map(stop).try_reduce(|| 0, |a, _| Ok(a)).is_err());
    let tried = last().map(stop).try_reduce_with(|a, _| Ok(a));
    ended("try_reduce_with", tried.is_some_and(|tried| tried.is_err()));
    ended("collect a result", last().map(stop).collect::<Result<Vec<_>, _>>().is_err());
    let whole = last().map(|n| stop(n).ok()).collect::<Option<Vec<_>>>();
    ended("collect an option", whole.is_none());
    let before = last().map(|n| stop(n).ok()).while_some().count();
    ended("while_some", before < HITS as usize);
}

/// One ending of each kind of folder. All of them behind all stages would take minutes to compile.
fn some_endings_stop<I: ParallelIterator<Item = u64>>(stage: &str, make: impl Fn(Source) -> I) {
    let last = || make(source(Hits::Last));
    assert!(last().find_any(hit).is_some(), "{stage}, find_any");
    let tried = last().try_for_each(|n| if hit(&n) { Err(n) } else { Ok(()) });
    assert!(tried.is_err(), "{stage}, try_for_each");
}

/// A test for each stage: they run beside each other, and a hang has a name.
macro_rules! stages {
    ($endings:ident: $($name:ident: |$iter:ident| $stage:expr;)*) => { $(
        #[test]
        fn $name() {
            watched(|dog| {
                dog.rig(2).block_on_fn(|| {
                    $endings(stringify!($name), |$iter| $stage);
                });
            });
        }
    )* };
}

stages! {
    every_ending_stops:
    a_stop_reaches_filter: |iter| iter.filter(hit);
    a_stop_reaches_fold: |iter| iter.fold(|| 0, |last, n| some(n).unwrap_or(last));
}

stages! {
    some_endings_stop:
    a_stop_reaches_filter_map: |iter| iter.filter_map(some);
    a_stop_reaches_flat_map_iter: |iter| iter.flat_map_iter(some);
    a_stop_reaches_flatten_iter: |iter| iter.map(some).flatten_iter();
    a_stop_reaches_flat_map: |iter| iter.flat_map(some);
    a_stop_reaches_flatten: |iter| iter.map(some).flatten();
    a_stop_reaches_while_some_behind_a_filter: |iter| iter.filter(hit).map(Some).while_some();
    a_stop_reaches_fold_with: |iter| iter.fold_with(0, |last, n| some(n).unwrap_or(last));
    a_stop_reaches_try_fold: |iter| {
        iter.try_fold(|| 0, |last, n| Some(some(n).unwrap_or(last))).map(Option::unwrap_or_default)
    };
    a_stop_reaches_try_fold_with: |iter| {
        let tried = iter.try_fold_with(0, |last, n| Some(some(n).unwrap_or(last)));
        tried.map(Option::unwrap_or_default)
    };
    a_stop_reaches_fold_behind_a_filter: |iter| {
        iter.filter(hit).fold(|| 0, |_, n| n)
    };
    a_stop_reaches_filter_behind_fold: |iter| {
        iter.map(|n| n).fold(|| 0, |last, n| some(n).unwrap_or(last)).filter(hit)
    };
    a_stop_reaches_filters_around_a_map: |iter| {
        iter.filter(|n| n % 2 == 0).map_init(|| 0, |_, n| n).filter(hit).inspect(|_| ())
    };
}

#[test]
fn a_stop_reaches_those_who_take_from_a_bridge() {
    watched(|dog| {
        dog.rig(2).block_on_fn(|| {
            let all = || (0u64..).par_bridge();
            assert_eq!(all().filter(|n| *n == 500).find_any(|_| true), Some(500));
            assert_eq!(all().filter_map(|n| (n == 500).then_some(n)).find_any(|_| true), Some(500));
            let failed =
                all().filter(|n| *n == 500).map(Err::<(), _>).collect::<Result<Vec<_>, _>>();
            assert_eq!(failed, Err(500));
        });
    });
}

/// A consumer that is full when somebody else says so, and counts nothing.
#[derive(Clone, Copy)]
struct Stopped<'s>(&'s AtomicBool);

impl<T> Consumer<T> for Stopped<'_> {
    type Folder = Self;
    type Reducer = Self;
    type Result = ();

    fn split_off(&self) -> Self {
        *self
    }

    fn to_reducer(&self) -> Self {
        *self
    }

    fn into_folder(self) -> Self {
        self
    }

    fn full(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl<T> Folder<T> for Stopped<'_> {
    type Result = ();

    fn consume(self, _: T) -> Self {
        self
    }

    fn complete(self) {}

    fn full(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Reducer<()> for Stopped<'_> {
    fn reduce(self, (): (), (): ()) {}
}

thread_local! {
    /// How many items this thread's loop has touched.
    static TOUCHED: Cell<u32> = const { Cell::new(0) };
}

/// Says stop while the tenth item is looked at.
fn touch(stop: &AtomicBool) {
    TOUCHED.set(TOUCHED.get() + 1);
    if TOUCHED.get() == 10 {
        stop.store(true, Ordering::SeqCst);
    }
}

/// How many items a loop touches in all, on one thread and in one piece.
macro_rules! touched {
    ($($stage:literal: |$iter:ident, $stop:ident| $made:expr;)*) => { $({
        let flag = AtomicBool::new(false);
        let $stop = &flag;
        TOUCHED.set(0);
        let $iter = (0..1000u32).into_par_iter().with_min_len(1000);
        $made.drive(Stopped(&flag));
        assert_eq!(TOUCHED.get(), 10, "{}", $stage);
    })* };
}

#[test]
fn no_item_is_touched_after_a_stop() {
    touched! {
        "map": |iter, stop| iter.map(|_| touch(stop));
        "inspect": |iter, stop| iter.inspect(|_| touch(stop));
        "map_init": |iter, stop| iter.map_init(|| (), |(), _| touch(stop));
        "filter": |iter, stop| iter.filter(|_| { touch(stop); false });
        "filter_map": |iter, stop| iter.filter_map(|_| { touch(stop); None::<()> });
        "flat_map_iter": |iter, stop| iter.flat_map_iter(|_| { touch(stop); None::<()> });
        "flatten_iter": |iter, stop| iter.map(|_| { touch(stop); None::<()> }).flatten_iter();
        "items of one flat_map_iter": |iter, stop| {
            iter.take(1).flat_map_iter(|_| 0..1000).filter(|_| { touch(stop); false })
        };
        "flat_map": |iter, stop| iter.flat_map(|_| { touch(stop); None::<()> });
        "flatten": |iter, stop| iter.map(|_| { touch(stop); None::<()> }).flatten();
        "fold": |iter, stop| iter.fold(|| (), |(), _| touch(stop));
        "fold_with": |iter, stop| iter.fold_with((), |(), _| touch(stop));
        "try_fold": |iter, stop| iter.try_fold(|| (), |(), _| { touch(stop); Some(()) });
        "filter, then fold": |iter, stop| {
            iter.filter(|_| { touch(stop); false }).fold(|| (), |(), _| ())
        };
        "filter, then filter": |iter, stop| {
            iter.filter(|n| n % 2 == 0).filter(|_| { touch(stop); false })
        };
        "a filter, then a producer's adaptor": |iter, stop| {
            iter.rev().enumerate().chunks(1).filter(|_| { touch(stop); false })
        };
        "chain": |iter, stop| {
            iter.clone().take(5).chain(iter).with_min_len(2000).filter(|_| { touch(stop); false })
        };
    }
}
