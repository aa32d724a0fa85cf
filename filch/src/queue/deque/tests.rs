use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::base::repeated;
use crate::base::shim::AtomicBool;
use crate::queue::testing::{Item, STRESS, Tally, item, join_all, number};

/// A deque whose test is its owner.
struct Owned(Deque<Item>);

impl Owned {
    fn new(capacity: usize) -> Self {
        Self(Deque::new(capacity))
    }

    fn push(&self, n: usize) {
        // SAFETY: the test is the owner.
        unsafe { self.0.push(item(n)) };
    }

    fn pop(&self) -> Option<usize> {
        // SAFETY: the test is the owner.
        unsafe { self.0.pop() }.map(number)
    }

    /// Steals with nobody in the way.
    fn steal(&self) -> Option<usize> {
        match self.0.steal() {
            Steal::Taken(item) => Some(number(item)),
            Steal::Empty => None,
            Steal::Retry => panic!("nobody else takes"),
        }
    }
}

#[test]
fn pop_of_a_fresh_deque_is_none() {
    let deque = Owned::new(4);
    assert_eq!(deque.pop(), None);
    assert_eq!(deque.pop(), None);
    assert_eq!(deque.steal(), None);
    assert_eq!(deque.0.len(), 0);
    deque.push(1);
    assert_eq!(deque.0.len(), 1);
    assert_eq!(deque.pop(), Some(1));
}

#[test]
fn an_item_is_taken_back_by_its_index_unless_it_is_gone_or_buried() {
    let deque = Owned::new(2);
    // SAFETY: the test is the owner, here and below.
    let fork = |n| unsafe { deque.0.push(item(n)) };
    // SAFETY: as above, and pushed.
    let retract = |index| unsafe { deque.0.retract(index) };
    let (low, high) = (fork(0), fork(1));
    assert_eq!(retract(low), Retract::NotNewest);
    assert_eq!(retract(high), Retract::Taken);
    assert_eq!(retract(low), Retract::Taken, "the last item");
    let stolen = fork(2);
    assert_eq!(deque.steal(), Some(2));
    assert_eq!(retract(stolen), Retract::Stolen);
    assert_eq!(deque.0.len(), 0);
    let indices: Vec<_> = (0..100).map(fork).collect();
    assert_eq!(deque.steal(), Some(0));
    assert!(indices[1..].iter().rev().all(|&index| retract(index) == Retract::Taken));
    assert_eq!(retract(indices[0]), Retract::NotNewest, "it is gone");
    assert_eq!(deque.0.bounds(), None);
}

#[test]
fn only_what_is_wanted_is_stolen() {
    let deque = Owned::new(2);
    deque.push(0);
    deque.push(1);
    assert!(matches!(deque.0.steal_if(|item| number(item) == 1), Steal::Empty));
    assert_eq!(deque.0.len(), 2);
    assert!(matches!(deque.0.steal_if(|item| number(item) == 0), Steal::Taken(_)));
    assert_eq!(deque.pop(), Some(1));
}

/// The moment inside `pop` in which `bottom` is one below `top`, held still.
#[test]
fn bottom_below_top_reads_as_empty() {
    let deque = Owned::new(4);
    // ORDERING: Relaxed, one thread.
    deque.0.own.bottom.store(0u64.wrapping_sub(1), Ordering::Relaxed);
    assert_eq!(deque.0.len(), 0);
    assert!(deque.0.is_empty());
    assert_eq!(deque.steal(), None);
}

#[test]
fn owner_takes_the_newest_and_thief_the_oldest() {
    let deque = Owned::new(4);
    (0..4).for_each(|n| deque.push(n));
    assert_eq!((deque.pop(), deque.steal()), (Some(3), Some(0)));
    assert_eq!((deque.pop(), deque.steal()), (Some(2), Some(1)));
    assert_eq!((deque.pop(), deque.steal()), (None, None));
}

#[test]
fn push_beyond_the_capacity_grows_and_loses_nothing() {
    let deque = Owned::new(2);
    (0..100).for_each(|n| deque.push(n));
    assert_eq!(deque.0.len(), 100);
    (0..50).for_each(|n| assert_eq!(deque.steal(), Some(n)));
    (50..100).rev().for_each(|n| assert_eq!(deque.pop(), Some(n)));
    assert_eq!(deque.pop(), None);
}

#[test]
fn slots_behind_the_top_are_reused_without_growing() {
    let deque = Owned::new(4);
    for n in 0..100 {
        deque.push(n);
        assert_eq!(deque.steal(), Some(n));
    }
    // SAFETY: the test is the owner.
    let mask = deque.0.own.view.with(|view| unsafe { &*view }.mask);
    assert_eq!(mask, 3);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    Steal,
}

proptest! {
    #[test]
    fn behaves_like_a_vecdeque(
        steps in prop::collection::vec(
            prop_oneof![3 => Just(Step::Push), 2 => Just(Step::Pop), 1 => Just(Step::Steal)],
            1..repeated(300),
        ),
        capacity in 0usize..9,
    ) {
        let deque = Owned::new(capacity);
        let mut model = VecDeque::new();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push => {
                    deque.push(n);
                    model.push_back(n);
                }
                Step::Pop => prop_assert_eq!(deque.pop(), model.pop_back()),
                Step::Steal => prop_assert_eq!(deque.steal(), model.pop_front()),
            }
            prop_assert_eq!(deque.0.len(), model.len());
            prop_assert_eq!(deque.0.is_empty(), model.is_empty());
        }
    }
}

/// The owner pushes bursts and pops them again, always near the last item; three thieves compete.
#[test]
fn every_item_is_taken_once_under_theft() {
    take_under_theft(false);
}

/// The same with an owner that pays real fences for some indices (D7).
#[test]
fn every_item_is_taken_once_while_the_owner_expects_thieves() {
    take_under_theft(true);
}

fn take_under_theft(mixed: bool) {
    let deque = Owned::new(2);
    let tally = Tally::new(STRESS);
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let thieves = (0..3).map(|_| s.spawn(|| thief(&deque.0, &tally, &over))).collect();
        let mut next = 0;
        while next < STRESS {
            let burst = next..STRESS.min(next + 1 + next % 5);
            next = burst.end;
            burst.clone().for_each(|n| deque.push(n));
            if mixed && next % 7 == 0 {
                // SAFETY: this thread is the owner.
                unsafe { deque.0.expect_thieves() };
            }
            burst.for_each(|_| deque.pop().into_iter().for_each(|n| tally.take(n)));
        }
        while let Some(n) = deque.pop() {
            tally.take(n);
        }
        // ORDERING: Release pairs with the Acquire in `thief`: the deque is empty by then.
        over.store(true, Ordering::Release);
        join_all(thieves);
    });
    tally.assert_complete();
}

fn thief(victim: &Deque<Item>, tally: &Tally, over: &AtomicBool) {
    loop {
        // ORDERING: Acquire pairs with the Release at the owner's end.
        let last_round = over.load(Ordering::Acquire);
        match victim.steal() {
            Steal::Taken(item) => tally.take(number(item)),
            Steal::Retry => {}
            Steal::Empty if last_round => return,
            Steal::Empty => std::thread::yield_now(),
        }
    }
}
