use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::base::repeated;
use crate::base::shim::AtomicUsize;
use crate::queue::testing::{Node, STRESS, Tally, join_all, node, open};

fn push(injector: &Injector<Node>, n: usize, hint: usize) {
    // SAFETY: a fresh node, left alone until it is popped.
    unsafe { injector.push(node(n), hint) }
}

fn pop_batch(injector: &Injector<Node>, max: usize, start: usize) -> Vec<usize> {
    let mut out = Vec::new();
    let count = injector.pop_batch(max, start, &mut |node| out.push(open(node)));
    assert_eq!(count, out.len());
    out
}

#[test]
fn batch_comes_out_oldest_first_and_no_larger_than_asked() {
    let injector = Injector::new(1);
    (0..5).for_each(|n| push(&injector, n, n));
    assert_eq!(injector.len(), 5);
    assert_eq!(pop_batch(&injector, 3, 0), [0, 1, 2]);
    assert_eq!(injector.len(), 2);
    assert_eq!(pop_batch(&injector, 9, 0), [3, 4]);
    assert!(injector.is_empty());
    assert!(pop_batch(&injector, 9, 0).is_empty());
}

#[test]
fn batch_goes_through_all_shards_from_its_start() {
    let injector = Injector::new(4);
    (0..8).for_each(|n| push(&injector, n, n));
    assert_eq!(pop_batch(&injector, 5, 3), [3, 7, 0, 4, 1]);
    assert_eq!(pop_batch(&injector, 5, 1), [5, 2, 6]);
}

#[test]
fn consecutive_hints_use_every_shard() {
    let injector = Injector::new(4);
    (0..4).for_each(|hint| push(&injector, hint, hint));
    for shard in 0..4 {
        let mut out = Vec::new();
        assert_eq!(injector.steal_from(shard, 9, &mut |node| out.push(open(node))), 1);
        assert_eq!(out, [shard]);
    }
}

#[test]
fn shard_under_the_lock_of_another_taker_is_passed_over() {
    let injector = Injector::new(2);
    (0..4).for_each(|n| push(&injector, n, n));
    let other = injector.shards[0].try_take().expect("nobody else takes");
    assert!(injector.shards[0].try_take().is_none());
    assert_eq!(pop_batch(&injector, 9, 0), [1, 3]);
    assert!(!injector.is_empty(), "what is left is seen");
    drop(other);
    assert_eq!(pop_batch(&injector, 9, 0), [0, 2]);
}

#[test]
fn taker_may_push_from_its_callback() {
    let injector = Injector::new(1);
    push(&injector, 0, 0);
    let mut out = Vec::new();
    injector.pop_batch(2, 0, &mut |node| {
        out.push(open(node));
        push(&injector, out.len(), 0);
    });
    assert_eq!(out, [0, 1]);
    assert_eq!(pop_batch(&injector, 9, 0), [2]);
}

#[test]
fn taker_that_panics_releases_the_shard() {
    let injector = Injector::new(1);
    (0..2).for_each(|n| push(&injector, n, 0));
    let panic = std::panic::AssertUnwindSafe(|| {
        injector.pop_batch(2, 0, &mut |node| panic!("{}", open(node)));
    });
    assert!(std::panic::catch_unwind(panic).is_err());
    assert_eq!(injector.len(), 1);
    assert_eq!(pop_batch(&injector, 9, 0), [1]);
}

proptest! {
    #[test]
    fn behaves_like_a_vecdeque_per_shard(
        steps in prop::collection::vec((any::<bool>(), 0usize..7, 1usize..5), 1..repeated(150)),
        shards in 1usize..5,
    ) {
        let injector = Injector::new(shards);
        let shards = injector.shards();
        let mut model = vec![VecDeque::new(); shards];
        let mut next = 0;
        for (is_push, place, size) in steps {
            if is_push {
                (next..next + size).for_each(|n| push(&injector, n, place));
                model[place % shards].extend(next..next + size);
                next += size;
            } else {
                let mut expected = Vec::new();
                for i in 0..shards {
                    let shard = &mut model[(place + i) % shards];
                    let share = shard.len().min(size - expected.len());
                    expected.extend(shard.drain(..share));
                }
                prop_assert_eq!(pop_batch(&injector, size, place), expected);
            }
            let inside: usize = model.iter().map(VecDeque::len).sum();
            prop_assert_eq!(injector.len(), inside);
            prop_assert_eq!(injector.is_empty(), inside == 0);
        }
        pop_batch(&injector, usize::MAX, 0);
    }
}

#[test]
fn every_item_is_taken_once_by_many() {
    const PUSHERS: usize = 3;
    const EACH: usize = STRESS / PUSHERS;
    let injector = Injector::new(2);
    let tally = Tally::new(EACH * PUSHERS);
    let taken = AtomicUsize::new(0);
    std::thread::scope(|s| {
        let mut threads = Vec::new();
        for pusher in 0..PUSHERS {
            let injector = &injector;
            threads.push(s.spawn(move || {
                (pusher * EACH..(pusher + 1) * EACH).for_each(|n| push(injector, n, pusher));
            }));
        }
        for taker in 0..3 {
            let (injector, tally, taken) = (&injector, &tally, &taken);
            threads.push(s.spawn(move || {
                // ORDERING: Relaxed, a count that ends the loop.
                while taken.load(Ordering::Relaxed) < EACH * PUSHERS {
                    assert!(injector.len() <= EACH * PUSHERS);
                    let batch = pop_batch(injector, 7, taker);
                    batch.iter().for_each(|&n| tally.take(n));
                    // ORDERING: Relaxed, as above.
                    taken.fetch_add(batch.len(), Ordering::Relaxed);
                    if batch.is_empty() {
                        std::thread::yield_now();
                    }
                }
            }));
        }
        join_all(threads);
    });
    assert!(injector.is_empty());
    tally.assert_complete();
}
