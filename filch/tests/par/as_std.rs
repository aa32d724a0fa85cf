//! What can be seen from outside is as in std: which closures `skip` and its kin call, when a value is
//! dropped, which lengths are known.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use filch::par::prelude::*;
use filch::par::repeat_n;

use super::{cut, numbers, property};

/// How often each item was seen.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<i32, u32>>);

impl Seen {
    fn see(&self, item: i32) -> i32 {
        *self.0.lock().unwrap().entry(item).or_default() += 1;
        item
    }

    fn take(&self) -> BTreeMap<i32, u32> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Both make the same items, and call the closure for the same ones. Item by item: for whole loops, std
/// knows shortcuts for some types that leave calls out.
macro_rules! same_calls {
    ($seen:ident: $($par:expr, $seq:expr;)*) => { $({
        let par = ($par.collect::<Vec<_>>(), $seen.take());
        let mut items = $seq;
        let seq = (std::iter::from_fn(|| items.next()).collect::<Vec<_>>(), $seen.take());
        assert_eq!(par, seq, "{}", stringify!($par));
    })* };
}

#[test]
fn skip_take_and_step_by_call_the_closures_that_std_calls() {
    let amounts = (0..3000usize, 1..3000usize, 1..50usize);
    property((numbers(), amounts), |((v, how), (n, m, step))| {
        let seen = Seen::default();
        let par = || cut(&v, how).map(|item| seen.see(*item));
        let seq = || v.iter().map(|item| seen.see(*item));
        same_calls! { seen:
            par().skip(n), seq().skip(n);
            par().take(n), seq().take(n);
            par().step_by(step), seq().step_by(step);
            par().skip(n).skip(m), seq().skip(n).skip(m);
            par().skip(n).take(m), seq().skip(n).take(m);
            par().take(n).skip(m), seq().take(n).skip(m);
            par().skip(n).step_by(step), seq().skip(n).step_by(step);
            par().step_by(step).skip(n), seq().step_by(step).skip(n);
            par().rev().skip(n), seq().rev().skip(n);
            par().enumerate().skip(n), seq().enumerate().skip(n);
            par().skip(n).map(|item| item + 1), seq().skip(n).map(|item| item + 1);
        };
        let par = || cut(&v, how).copied().inspect(|item| _ = seen.see(*item));
        let seq = || v.iter().copied().inspect(|item| _ = seen.see(*item));
        same_calls! { seen:
            par().skip(n), seq().skip(n);
            par().chain(par()).skip(n), seq().chain(seq()).skip(n);
            par().zip(par()).skip(n), seq().zip(seq()).skip(n);
        };
        let par = cut(&v, how).map_init(|| (), |(), item| seen.see(*item));
        same_calls! { seen: par.skip(n), v.iter().map(|item| seen.see(*item)).skip(n); };
    });
}

#[test]
fn skip_over_what_calls_nothing_is_free() {
    // Nobody counts so far.
    let last = (0..u64::MAX).into_par_iter().skip(usize::MAX - 1).collect::<Vec<_>>();
    assert_eq!(last, [u64::MAX - 1]);
    let pairs = (0..u64::MAX).into_par_iter().rev().enumerate().zip(0..u64::MAX);
    assert_eq!(pairs.skip(usize::MAX - 1).count(), 1);
}

#[test]
fn nothing_repeated_is_dropped_at_once() {
    let value = Arc::new(());
    let never = repeat_n(value.clone(), 0);
    assert_eq!(Arc::strong_count(&value), 1, "dropped by the call");
    assert_eq!(never.count(), 0);
    let twice = repeat_n(value.clone(), 2);
    assert_eq!(Arc::strong_count(&value), 2);
    assert_eq!(twice.collect::<Vec<_>>().len(), 2);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn ranges_of_wide_integers_know_a_length_that_fits() {
    let len = |range: Range<u128>| range.into_par_iter().opt_len();
    let most = usize::MAX as u128;
    let far = u128::MAX - 10;
    assert_eq!((len(0..10), len(far..u128::MAX), len(7..7)), (Some(10), Some(10), Some(0)));
    assert_eq!((len(5..5 + most), len(5..6 + most)), (Some(usize::MAX), None));
    let len = |range: Range<i128>| range.into_par_iter().opt_len();
    assert_eq!((len(-5..5), len(i128::MIN..i128::MAX)), (Some(10), None));
    let ends = (i128::MIN..i128::MIN + 3, i128::MAX - 3..i128::MAX);
    assert_eq!((len(ends.0), len(ends.1)), (Some(3), Some(3)));
    assert_eq!((3..=5u128).into_par_iter().opt_len(), Some(3));
    assert_eq!((0..=u128::MAX).into_par_iter().opt_len(), None);
    assert_eq!((u128::MAX - 1..=u128::MAX).into_par_iter().opt_len(), Some(2));
}

#[test]
fn items_of_wide_ranges_are_those_of_std_in_order() {
    property((-3000..3000i128, 0..3000i128), |(start, len)| {
        for start in [start, i128::MIN + 3000 + start, i128::MAX - 6000 + start] {
            let range = start..start + len;
            assert_eq!(
                range.clone().into_par_iter().collect::<Vec<_>>(),
                range.collect::<Vec<_>>()
            );
        }
        let range = u128::MAX - len.unsigned_abs()..=u128::MAX;
        assert_eq!(range.clone().into_par_iter().collect::<Vec<_>>(), range.collect::<Vec<_>>());
        let both = (start..start + len).into_par_iter().chain(0..len);
        assert_eq!(both.opt_len(), Some(2 * len as usize));
        assert!(both.collect::<Vec<_>>().into_iter().eq((start..start + len).chain(0..len)));
    });
}
