//! Loops end early when more items would make no difference, also endless ones.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::par::prelude::*;
use filch::par::{self, repeat};

use crate::watchdog::watched;

#[test]
fn huge_ranges_are_searched_until_something_is_found() {
    watched(|dog| {
        for workers in [1, 2, 4] {
            dog.rig(workers).block_on_fn(|| {
                let all = || (0..u64::MAX).into_par_iter();
                assert!(all().find_any(|n| n % 1_000_003 == 7).is_some());
                assert_eq!(all().find_first(|n| n % 100_003 == 99_999), Some(99_999));
                assert!(all().any(|n| n % 100_003 == 5));
                assert!(!all().all(|n| n % 100_003 != 5));
                assert!(all().try_for_each(|n| (n % 100_003 != 5).then_some(())).is_none());
                assert!(all().position_any(|n| n % 100_003 == 5).is_some());
                assert!((0..=u128::MAX).into_par_iter().find_any(|n| n % 9973 == 5).is_some());
                assert!(
                    (i64::MIN..=i64::MAX)
                        .into_par_iter()
                        .find_any(|n| n.rem_euclid(9973) == 5)
                        .is_some()
                );
                assert_eq!(repeat(3).find_any(|n| *n == 3), Some(3));
            });
        }
    });
}

#[test]
fn endless_bridge_ends_with_a_find() {
    watched(|dog| {
        dog.rig(4).block_on_fn(|| {
            assert_eq!((0u64..).par_bridge().find_any(|n| *n == 500), Some(500));
            let flow = (0u64..).par_bridge().try_for_each(|n| match n {
                500 => ControlFlow::Break(n),
                _ => ControlFlow::Continue(()),
            });
            assert_eq!(flow, ControlFlow::Break(500));
        });
    });
}

#[test]
fn stages_before_a_search_stop_with_it() {
    watched(|dog| {
        dog.rig(2).block_on_fn(|| {
            let all = || (0..u64::MAX).into_par_iter();
            assert!(all().map(|n| n + 1).filter(|n| n % 3 == 0).any(|n| n % 1009 == 1));
            assert!(all().flat_map_iter(|n| [n, n]).any(|n| n % 1009 == 1));
            assert!(all().flat_map(|n| [n, n]).any(|n| n % 1009 == 1));
            assert!(all().chain(all().take(0)).any(|n| n % 1009 == 1));
            let some = all().map(|n| (n % 1009 != 1).then_some(n)).while_some();
            assert!(some.map(|n| n % 1009).all(|n| n != 1));
            let tried = all().try_fold(|| 0, |_, n| if n % 1009 == 1 { Err(n) } else { Ok(n) });
            assert!(tried.any(|tried| tried.is_err()));
        });
    });
}

#[test]
fn one_piece_stops_right_after_its_find() {
    let seen = AtomicUsize::new(0);
    let one = (0..1000).into_par_iter().partition_by(par::dynamic(1).max_depth(0));
    let look = one.inspect(|_| _ = seen.fetch_add(1, Ordering::SeqCst));
    assert_eq!(look.find_first(|n| *n == 10), Some(10));
    assert_eq!(seen.into_inner(), 11);
}

#[test]
fn empty_loops_have_the_results_of_nothing() {
    let none = || (5..5u32).into_par_iter();
    assert_eq!(none().sum::<u32>(), 0);
    assert_eq!(none().product::<u32>(), 1);
    assert_eq!((none().min(), none().max()), (None, None));
    assert_eq!(none().reduce_with(|a, _| a), None);
    assert!(none().collect::<Vec<_>>().is_empty());
    assert!(none().all(|_| false));
    assert!(!none().any(|_| true));
}

#[test]
fn parts_wider_than_their_slice() {
    assert_eq!([0; 0].par_windows(3).count(), 0);
    assert_eq!([1, 2].par_windows(usize::MAX).count(), 0);
    assert_eq!([1, 2].par_chunks(usize::MAX).count(), 1);
    assert_eq!([1, 2].par_rchunks(usize::MAX).count(), 1);
}
