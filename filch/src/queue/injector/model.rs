//! Models of the injector with one and two shards.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::queue::testing::{Node, assert_each_once, explore, node, open};

fn take(injector: &Injector<Node>, start: usize) -> Vec<usize> {
    let mut out = Vec::new();
    injector.pop_batch(2, start, &mut |node| out.push(open(node)));
    injector.shards.iter().for_each(assert_counts_in_order);
    out
}

/// I3, which the saturating difference in `len` would hide.
fn assert_counts_in_order(shard: &Shard<Node>) {
    // ORDERING: as in `Shard::len`.
    let popped = shard.takers().popped.load(Ordering::Acquire);
    // ORDERING: as in `Shard::len`.
    let pushed = shard.pushed().load(Ordering::Relaxed);
    assert!(popped <= pushed, "{popped} popped of {pushed} pushed");
}

fn pushers_against_takers(shards: usize) {
    let injector = Arc::new(Injector::<Node>::new(shards));
    let pusher = Arc::clone(&injector);
    // SAFETY: a fresh node, left alone until it is popped.
    let pusher = thread::spawn(move || unsafe { pusher.push(node(0), 0) });
    let taker = Arc::clone(&injector);
    let taker = thread::spawn(move || take(&taker, 0));
    // SAFETY: a fresh node, left alone until it is popped.
    unsafe { injector.push(node(1), 1) };
    assert!(injector.len() <= 2);
    let mut taken = take(&injector, 1);
    pusher.join().unwrap();
    taken.extend(taker.join().unwrap());
    assert_eq!(injector.len(), 2 - taken.len());
    assert_eq!(injector.is_empty(), taken.len() == 2);
    taken.extend(take(&injector, 0));
    assert_each_once(taken, 2);
}

#[test]
fn loom_two_pushers_against_two_takers_of_one_shard() {
    explore(3, || pushers_against_takers(1));
}

#[test]
fn loom_two_pushers_against_two_takers_of_two_shards() {
    explore(3, || pushers_against_takers(2));
}
