use std::collections::VecDeque;
use std::hint::spin_loop;

use proptest::prelude::*;

use super::*;
use crate::base::repeated;
use crate::base::shim::AtomicBool;
use crate::queue::testing::{Item, STRESS, Tally, item, join_all, number};

/// A ring whose test is its owner.
struct Owned(Ring<Item>);

impl Owned {
    fn new(capacity: usize) -> Self {
        Self(Ring::new(capacity))
    }

    fn holding(capacity: usize, numbers: std::ops::Range<usize>) -> Self {
        let ring = Self::new(capacity);
        assert_eq!(ring.push_batch(numbers.clone()), numbers.len());
        ring
    }

    fn push(&self, n: usize) -> bool {
        // SAFETY: the test is the owner.
        match unsafe { self.0.push(item(n)) } {
            Ok(()) => true,
            Err(Full(back)) => {
                assert_eq!(number(back), n, "the item is handed back");
                false
            }
        }
    }

    fn push_batch(&self, numbers: impl Iterator<Item = usize>) -> usize {
        // SAFETY: the test is the owner.
        unsafe { self.0.push_batch(numbers.map(item)) }
    }

    fn pop(&self) -> Option<usize> {
        // SAFETY: the test is the owner.
        unsafe { self.0.pop() }.map(number)
    }

    fn take_oldest(&self, n: usize) -> Vec<usize> {
        let mut out = Vec::new();
        // SAFETY: the test is the owner.
        let count = unsafe { self.0.take_oldest(n, &mut |i| out.push(number(i))) };
        assert_eq!(count, out.len());
        out
    }

    /// What `self` takes from `victim`: the first item, and how many in all.
    fn steal_from(&self, victim: &Owned) -> Result<(usize, usize), Steal<Item>> {
        // SAFETY: the test is the owner.
        match unsafe { victim.0.steal_into(&self.0) } {
            Steal::Taken { first, moved } => Ok((number(first), moved)),
            other => Err(other),
        }
    }

    fn drain(&self) -> Vec<usize> {
        std::iter::from_fn(|| self.pop()).collect()
    }
}

#[test]
fn pop_gives_items_in_push_order() {
    let ring = Owned::holding(8, 0..5);
    assert_eq!(ring.drain(), [0, 1, 2, 3, 4]);
    assert!(ring.0.is_empty());
}

#[test]
fn push_to_a_full_ring_hands_the_item_back() {
    let ring = Owned::holding(4, 0..4);
    assert_eq!(ring.0.free(), 0);
    assert!(!ring.push(9));
    assert_eq!(ring.drain(), [0, 1, 2, 3]);
}

#[test]
fn batch_push_takes_no_more_than_fits_from_the_iterator() {
    let ring = Owned::holding(8, 0..5);
    let mut rest = 5..20;
    assert_eq!(ring.push_batch(rest.by_ref()), 3);
    assert_eq!(rest, 8..20);
    assert_eq!(ring.push_batch(rest.by_ref()), 0);
    assert_eq!(rest, 8..20);
    assert_eq!(ring.drain(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_lone_item_can_be_stolen() {
    let (victim, thief) = (Owned::holding(4, 7..8), Owned::new(4));
    assert_eq!(thief.steal_from(&victim).unwrap(), (7, 1));
    assert!(victim.0.is_empty() && thief.0.is_empty());
}

#[test]
fn thief_gets_the_oldest_first_and_the_rest_in_order() {
    let (victim, thief) = (Owned::holding(8, 0..7), Owned::holding(8, 90..92));
    assert_eq!(thief.steal_from(&victim).unwrap(), (0, 4));
    assert_eq!(thief.drain(), [90, 91, 1, 2, 3]);
    assert_eq!(victim.drain(), [4, 5, 6]);
}

#[test]
fn thief_over_half_full_declines() {
    let (victim, thief) = (Owned::holding(8, 0..8), Owned::holding(8, 90..95));
    assert!(matches!(thief.steal_from(&victim), Err(Steal::Declined)));
    assert_eq!(victim.0.len(), 8);
}

#[test]
fn steal_takes_no_more_than_a_smaller_thief_can_hold() {
    let (victim, thief) = (Owned::holding(64, 0..64), Owned::new(4));
    assert_eq!(thief.steal_from(&victim).unwrap(), (0, 5));
    assert_eq!(thief.drain(), [1, 2, 3, 4]);
    assert_eq!(victim.0.len(), 59);
}

#[test]
fn steal_from_an_empty_ring_finds_nothing() {
    let (victim, thief) = (Owned::new(2), Owned::new(2));
    assert!(matches!(thief.steal_from(&victim), Err(Steal::Empty)));
}

#[test]
fn unfinished_steal_keeps_its_slots_and_turns_others_away() {
    let (victim, thief) = (Owned::holding(4, 0..4), Owned::new(4));
    let claim = victim.0.claim(4).expect("nobody else steals");
    assert_eq!((claim.start, claim.count), (0, 2));
    assert!(!victim.push(9), "claimed slots are not free yet");
    assert!(matches!(thief.steal_from(&victim), Err(Steal::Busy)));
    assert_eq!(victim.take_oldest(2), [], "the new item alone overflows then");
    assert_eq!(victim.pop(), Some(2), "the owner pops past the claim");
    assert_eq!(victim.0.free(), 0);
    assert_eq!(number(victim.0.read(claim.start)), 0);
    victim.0.finish(claim);
    assert_eq!(victim.0.free(), 3);
    assert_eq!(victim.take_oldest(9), [3]);
}

#[test]
fn take_oldest_gives_the_oldest_in_order() {
    let ring = Owned::holding(8, 0..8);
    assert_eq!(ring.take_oldest(4), [0, 1, 2, 3]);
    assert_eq!(ring.drain(), [4, 5, 6, 7]);
    assert_eq!(ring.take_oldest(4), []);
}

#[test]
#[should_panic(expected = "power of two")]
fn odd_capacity_is_refused() {
    let _ = Ring::<Item>::new(3);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Batch(usize),
    Pop,
    TakeOldest(usize),
    StealFrom,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Push),
        1 => (0usize..12).prop_map(Step::Batch),
        2 => Just(Step::Pop),
        1 => (0usize..12).prop_map(Step::TakeOldest),
        1 => Just(Step::StealFrom),
    ]
}

proptest! {
    /// Any sequence of operations, started anywhere including just before the wrap-around, does
    /// what two `VecDeque`s do.
    #[test]
    fn behaves_like_a_bounded_vecdeque(
        steps in prop::collection::vec(step(), 1..repeated(200)),
        capacity in (1u32..5).prop_map(|bits| 1usize << bits),
        before_wrap in 0u32..40,
    ) {
        let start = before_wrap.wrapping_neg();
        let ring = Owned(Ring::starting_at(capacity, start));
        let thief = Owned(Ring::starting_at(8, start));
        let (mut model, mut loot) = (VecDeque::new(), VecDeque::new());
        let mut fresh = 0..;
        for step in steps {
            match step {
                Step::Push => {
                    let n = fresh.next().unwrap();
                    let fits = model.len() < capacity;
                    prop_assert_eq!(ring.push(n), fits);
                    if fits { model.push_back(n) }
                }
                Step::Batch(size) => {
                    let numbers: Vec<_> = fresh.by_ref().take(size).collect();
                    let fit = size.min(capacity - model.len());
                    prop_assert_eq!(ring.push_batch(numbers.iter().copied()), fit);
                    model.extend(&numbers[..fit]);
                }
                Step::Pop => prop_assert_eq!(ring.pop(), model.pop_front()),
                Step::TakeOldest(n) => {
                    let expected: Vec<_> = model.drain(..n.min(model.len())).collect();
                    prop_assert_eq!(ring.take_oldest(n), expected);
                }
                Step::StealFrom => {
                    let share = (model.len() - model.len() / 2).min(8 - loot.len() + 1);
                    match thief.steal_from(&ring) {
                        Ok((first, moved)) => {
                            prop_assert_eq!((Some(first), moved), (model.pop_front(), share));
                            loot.extend(model.drain(..share - 1));
                        }
                        Err(Steal::Empty) => prop_assert!(model.is_empty()),
                        Err(Steal::Declined) => {
                            prop_assert!(loot.len() > 4);
                            prop_assert_eq!(&thief.drain(), loot.make_contiguous());
                            loot.clear();
                        }
                        Err(other) => prop_assert!(false, "{:?}", other),
                    }
                }
            }
            prop_assert_eq!(ring.0.len(), model.len());
            prop_assert_eq!(ring.0.free(), capacity - model.len());
        }
        prop_assert_eq!(&ring.drain(), model.make_contiguous());
        prop_assert_eq!(&thief.drain(), loot.make_contiguous());
    }
}

/// One owner that pushes, pops and overflows, three thieves that steal, one more that looks at the
/// length; the indices wrap round within the run.
#[test]
fn every_item_is_taken_once_under_theft() {
    let ring = Owned(Ring::starting_at(64, 1_000u32.wrapping_neg()));
    let tally = Tally::new(STRESS);
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let mut others: Vec<_> = (0..3).map(|_| s.spawn(|| thief(&ring, &tally, &over))).collect();
        others.push(s.spawn(|| {
            // ORDERING: Relaxed, the flag only ends the loop.
            while !over.load(Ordering::Relaxed) {
                assert!(ring.0.len() <= 64);
                spin_loop();
            }
        }));
        owner(&ring, &tally);
        // ORDERING: Release pairs with the Acquire in `thief`: the ring is empty by then.
        over.store(true, Ordering::Release);
        join_all(others);
    });
    tally.assert_complete();
}

fn owner(ring: &Owned, tally: &Tally) {
    let mut next = 0;
    while next < STRESS {
        if next % 7 == 0 {
            next += ring.push_batch(next..STRESS.min(next + 5));
        } else if ring.push(next) {
            next += 1;
        } else {
            let overflow = ring.take_oldest(32);
            overflow.into_iter().for_each(|n| tally.take(n));
        }
        if next % 3 == 0 {
            ring.pop().into_iter().for_each(|n| tally.take(n));
        }
    }
    ring.drain().into_iter().for_each(|n| tally.take(n));
}

fn thief(victim: &Owned, tally: &Tally, over: &AtomicBool) {
    let mine = Owned::new(64);
    loop {
        // ORDERING: Acquire pairs with the Release at the owner's end.
        let last_round = over.load(Ordering::Acquire);
        match mine.steal_from(victim) {
            Ok((first, moved)) => {
                tally.take(first);
                let rest = mine.drain();
                assert_eq!(rest.len(), moved - 1);
                rest.into_iter().for_each(|n| tally.take(n));
            }
            Err(_) if last_round => return,
            Err(_) => std::thread::yield_now(),
        }
    }
}
