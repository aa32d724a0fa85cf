//! Every item is dropped exactly once, whatever ends the loop.

use std::collections::LinkedList;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use filch::par::prelude::*;

use super::{partition, property};

/// Counts how often each of its tokens was dropped.
struct Ledger(Vec<AtomicUsize>);

struct Token<'l> {
    ledger: &'l Ledger,
    id: usize,
}

impl Ledger {
    fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicUsize::new(0)).collect())
    }

    fn tokens(&self) -> Vec<Token<'_>> {
        (0..self.0.len()).map(|id| Token { ledger: self, id }).collect()
    }

    #[track_caller]
    fn assert_all_dropped_once(&self) {
        let counts: Vec<_> = self.0.iter().map(|n| n.load(Ordering::SeqCst)).collect();
        assert!(counts.iter().all(|n| *n == 1), "{counts:?}");
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.ledger.0[self.id].fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs loops over fresh tokens, some of which panic, and checks that all tokens are gone.
fn each_once(
    loops: &[fn(par_tokens: Tokens<'_>, bad: usize)],
    len: usize,
    bad: usize,
    how: filch::par::Partition,
) {
    for run in loops {
        let ledger = Ledger::new(len);
        let tokens = ledger.tokens().into_par_iter().partition_by(how);
        let _ = catch_unwind(AssertUnwindSafe(|| run(tokens, bad)));
        ledger.assert_all_dropped_once();
    }
}

type Tokens<'l> = filch::par::iter::PartitionBy<filch::par::vec::IntoIter<Token<'l>>>;

fn check(token: &Token<'_>, bad: usize) {
    if token.id == bad {
        std::panic::resume_unwind(Box::new("bad token"));
    }
}

fn checked(token: Token<'_>, bad: usize) -> Token<'_> {
    check(&token, bad);
    token
}

/// A loop whose result is dropped.
macro_rules! dropped {
    ($(|$tokens:ident, $bad:ident| $made:expr;)*) => {
        &[$(|$tokens: Tokens<'_>, $bad: usize| {
            let _ = $bad;
            let _made = $made;
        }),*]
    };
}

#[test]
fn panicking_loops_drop_every_item_once() {
    let loops: &[fn(Tokens<'_>, usize)] = dropped! {
        |tokens, bad| tokens.for_each(|token| check(&token, bad));
        |tokens, bad| tokens.map(|token| checked(token, bad)).collect::<Vec<_>>();
        |tokens, bad| tokens.inspect(|token| check(token, bad)).rev().enumerate().collect::<Vec<_>>();
        |tokens, bad| tokens.chunks(7).inspect(|chunk| check(&chunk[0], bad)).collect::<Vec<_>>();
        |tokens, bad| tokens.filter(|token| checked_id(token, bad) > 3).collect::<LinkedList<_>>();
        |tokens, bad| tokens.map(|token| (checked(token, bad), 1)).unzip::<_, _, Vec<_>, Vec<_>>();
        |tokens, bad| {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            tokens.map(|token| (checked(token, bad), 1)).unzip_into_vecs(&mut a, &mut b);
            (a, b.len())
        };
        |tokens, bad| tokens.partition::<Vec<_>, Vec<_>, _>(|token| checked_id(token, bad) > 3);
        |tokens, bad| {
            let push = |all: Vec<_>, token| all.into_iter().chain([checked(token, bad)]).collect();
            tokens.fold(Vec::new, push).collect::<LinkedList<_>>()
        };
        |tokens, bad| tokens.reduce_with(|a, b| if checked_id(&b, bad) > 9 { a } else { b });
        |tokens, bad| tokens.flat_map_iter(|token| [checked(token, bad)]).collect::<LinkedList<_>>();
        |tokens, bad| tokens.flat_map(|token| Some(checked(token, bad))).collect::<LinkedList<_>>();
        |tokens, bad| tokens.map(|token| checked(token, bad)).skip(bad + 1).collect::<Vec<_>>();
        |tokens, bad| tokens.map(|token| checked(token, bad)).skip(bad / 2).rev().collect::<Vec<_>>();
        |tokens, bad| {
            let some = tokens.filter(|token| checked_id(token, bad) > 8);
            some.find_any(|token| token.id > 200)
        };
        |tokens, bad| {
            let last = |_, token| Some(checked(token, bad));
            tokens.fold(|| None, last).find_first(|last| last.as_ref().is_some_and(|t| t.id > 100))
        };
    };
    property((0..300usize, 0..320usize, partition()), |(len, bad, how)| {
        each_once(loops, len, bad, how);
    });
}

fn checked_id(token: &Token<'_>, bad: usize) -> usize {
    check(token, bad);
    token.id % 10
}

/// The step of a fold that keeps the last token, until the odd one comes.
fn last_until(token: Token<'_>, odd: usize) -> Result<Option<Token<'_>>, Token<'_>> {
    if token.id == odd { Err(token) } else { Ok(Some(token)) }
}

#[test]
fn loops_that_end_early_drop_every_item_once() {
    let loops: &[fn(Tokens<'_>, usize)] = dropped! {
        |tokens, odd| tokens.find_any(|token| token.id == odd);
        |tokens, odd| tokens.find_first(|token| token.id >= odd);
        |tokens, odd| tokens.find_last(|token| token.id <= odd);
        |tokens, odd| tokens.position_any(|token| token.id == odd);
        |tokens, odd| tokens.try_for_each(|token| (token.id != odd).then_some(()));
        |tokens, odd| tokens.map(|t| (t.id != odd).then_some(t)).collect::<Option<LinkedList<_>>>();
        |tokens, odd| {
            let tried = tokens.map(|t| if t.id == odd { Err(t) } else { Ok(t) });
            tried.collect::<Result<LinkedList<_>, _>>()
        };
        |tokens, odd| tokens.map(|t| (t.id != odd).then_some(t)).while_some().count();
        |tokens, odd| tokens.take(odd).collect::<Vec<_>>();
        |tokens, odd| tokens.skip(odd).collect::<Vec<_>>();
        |tokens, odd| tokens.step_by(odd + 1).collect::<Vec<_>>();
        |tokens, odd| tokens.zip(0..odd).collect::<Vec<_>>();
        |tokens, odd| tokens.skip(1).rev().step_by(odd + 1).rev().chunks(2).collect::<Vec<_>>();
        |tokens, odd| tokens.filter(|token| token.id % 3 == 0).find_any(|token| token.id > odd);
        |tokens, odd| tokens.filter_map(|t| (t.id % 3 == 0).then_some(t)).find_last(|t| t.id < odd);
        |tokens, odd| tokens.flat_map_iter(|t| (t.id >= odd).then_some(t)).find_first(|_| true);
        |tokens, odd| {
            let last = tokens.fold(|| None, |_, token| Some(token));
            last.any(|token: Option<Token<'_>>| token.is_some_and(|token| token.id == odd))
        };
        |tokens, odd| {
            let tried = tokens.try_fold(|| None, |_, token| last_until(token, odd));
            tried.filter(|tried| tried.is_err()).collect::<Result<Vec<_>, _>>()
        };
        |tokens, _odd| tokens;
        |tokens, _odd| tokens.max_by_key(|token| token.id % 10);
    };
    property((0..300usize, 0..320usize, partition()), |(len, odd, how)| {
        each_once(loops, len, odd, how);
    });
}

#[test]
fn bridged_iterator_that_panics_drops_every_item_once() {
    property((0..100usize, 0..110usize), |(len, bad)| {
        let ledger = Ledger::new(len);
        let tokens = ledger.tokens().into_iter().inspect(move |token| check(token, bad));
        let all = catch_unwind(AssertUnwindSafe(|| tokens.par_bridge().collect::<Vec<_>>()));
        assert_eq!(all.is_err(), bad < len);
        drop(all);
        ledger.assert_all_dropped_once();
    });
}

#[test]
fn panic_of_a_closure_reaches_the_caller() {
    property((1..500usize, any::<prop::sample::Index>(), partition()), |(len, bad, how)| {
        let bad = bad.index(len);
        let items = (0..len).into_par_iter().partition_by(how);
        let text = crate::support::panic_of(|| items.for_each(|n| assert!(n != bad, "item {n}")));
        assert!(text.contains(&format!("item {bad}")), "{text}");
    });
}

#[test]
fn zero_sized_items_are_counted_and_dropped() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    property((0..500usize, partition()), |(len, how)| {
        DROPPED.store(0, Ordering::SeqCst);
        let all: Vec<_> = (0..len).into_par_iter().partition_by(how).map(|_| Nothing).collect();
        assert_eq!(all.len(), len);
        assert_eq!(DROPPED.load(Ordering::SeqCst), 0);
        assert_eq!(all.into_par_iter().partition_by(how).step_by(3).count(), len.div_ceil(3));
        assert_eq!(DROPPED.load(Ordering::SeqCst), len);
    });
}

/// An iterator that says it has more or fewer items than it makes.
struct Liar {
    says: usize,
    makes: usize,
}

impl ParallelIterator for Liar {
    type Item = Box<usize>;

    fn drive<C: filch::par::plumbing::Consumer<Box<usize>>>(self, consumer: C) -> C::Result {
        (0..self.makes).into_par_iter().map(Box::new).drive(consumer)
    }

    fn opt_len(&self) -> Option<usize> {
        Some(self.says)
    }
}

#[test]
fn iterator_that_lies_about_its_length_panics() {
    property((0..200usize, 0..200usize), |(says, makes)| {
        let all = catch_unwind(|| Liar { says, makes }.collect::<Vec<_>>());
        assert_eq!(all.is_ok(), says == makes);
    });
}
