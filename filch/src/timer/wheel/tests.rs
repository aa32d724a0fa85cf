//! The wheel against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::base::repeated;

struct Item {
    node: UnsafeCell<Node<Item>>,
    name: usize,
}

// SAFETY: it is always the same field.
unsafe impl Linked for Item {
    fn node(&self) -> &UnsafeCell<Node<Self>> {
        &self.node
    }
}

/// A wheel, and what should be in it.
struct Pair {
    wheel: Wheel<Item>,
    items: Vec<NonNull<Item>>,
    /// Names by their deadlines.
    model: BTreeMap<(u64, usize), ()>,
    now: u64,
}

impl Drop for Pair {
    fn drop(&mut self) {
        for item in &self.items {
            // SAFETY: it came from a box, and the wheel is not used any more.
            drop(unsafe { Box::from_raw(item.as_ptr()) });
        }
    }
}

impl Pair {
    fn new(now: u64) -> Self {
        Self { wheel: Wheel::new(), items: Vec::new(), model: BTreeMap::new(), now }
    }

    /// Returns whether it waits.
    fn insert(&mut self, deadline: u64) -> bool {
        let name = self.items.len();
        let item = Item { node: UnsafeCell::new(Node::new()), name };
        let item = NonNull::from(Box::leak(Box::new(item)));
        self.items.push(item);
        // SAFETY: it is new, and stays until the end of the pair.
        let inserted = unsafe { self.wheel.insert(item, deadline, self.now) };
        if inserted == Inserted::Due {
            assert!(deadline <= self.now, "not due before its time");
            return false;
        }
        self.model.insert((deadline, name), ());
        true
    }

    fn cancel(&mut self, choice: usize) {
        let Some(&key) = self.model.keys().nth(choice % self.model.len().max(1)) else { return };
        self.model.remove(&key);
        // SAFETY: the model says that it is in the wheel.
        unsafe { self.wheel.remove(self.items[key.1]) };
    }

    /// Takes out what is due, at most `budget`; false if there may be more.
    fn pop(&mut self, budget: usize, mut moves: usize) -> bool {
        for _ in 0..budget {
            match self.wheel.pop(self.now, &mut moves) {
                Popped::Entry(item) => {
                    // SAFETY: items stay until the end of the pair.
                    let name = unsafe { item.as_ref() }.name;
                    let due = self.model.keys().find(|key| key.1 == name).copied();
                    let due = due.expect("it is in the wheel once");
                    assert!(due.0 <= self.now, "early");
                    self.model.remove(&due);
                }
                Popped::Nothing => {
                    let left = self.model.keys().next();
                    assert!(left.is_none_or(|left| left.0 > self.now), "forgotten");
                    return true;
                }
                Popped::Later => return false,
            }
        }
        false
    }

    /// As `pop`, at a time that others know to be past: what goes out is due at `now`.
    fn pop_late(&mut self, budget: usize, mut moves: usize, now: u64) {
        for _ in 0..budget {
            let Popped::Entry(item) = self.wheel.pop(self.now, &mut moves) else { return };
            // SAFETY: items stay until the end of the pair.
            let name = unsafe { item.as_ref() }.name;
            let due = self.model.keys().find(|key| key.1 == name).copied();
            let due = due.expect("it is in the wheel once");
            assert!(due.0 <= now, "early");
            self.model.remove(&due);
        }
    }

    fn check(&self) {
        assert_eq!(self.wheel.is_empty(), self.model.is_empty());
        let nearest = self.wheel.nearest();
        match self.model.keys().next() {
            Some(first) => assert!(nearest <= first.0, "W4"),
            None if self.wheel.cut.is_none() => assert_eq!(nearest, NEVER),
            None => {}
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// After so many nanoseconds.
    Insert(u64),
    Cancel(usize),
    /// Time passes, and so much is taken out.
    Advance(u64, usize, usize),
    /// Somebody looks who read the clock so long ago, and takes so much out.
    Late(u64, usize, usize),
    /// Time passes up to the nearest deadline.
    Wait,
}

/// From a nanosecond to centuries, each order of magnitude as likely.
fn span() -> impl Strategy<Value = u64> {
    (0..60u32, any::<u64>()).prop_map(|(bits, noise)| noise >> (63 - bits))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => span().prop_map(Step::Insert),
        2 => any::<usize>().prop_map(Step::Cancel),
        2 => (span(), 0..20usize, 0..20usize).prop_map(|(by, b, m)| Step::Advance(by, b, m)),
        1 => (span(), 0..20usize, 0..20usize).prop_map(|(by, b, m)| Step::Late(by, b, m)),
        2 => Just(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn wheel_holds_what_a_sorted_map_holds(
        start in span(),
        steps in prop::collection::vec(step(), 1..repeated(200)),
    ) {
        let mut pair = Pair::new(start);
        for step in steps {
            match step {
                Step::Insert(after) => {
                    pair.insert(pair.now.saturating_add(after).min(LATEST));
                }
                Step::Cancel(choice) => pair.cancel(choice),
                Step::Advance(by, budget, moves) => {
                    pair.now = pair.now.saturating_add(by);
                    pair.pop(budget, moves);
                }
                Step::Late(by, budget, moves) => {
                    let now = pair.now;
                    pair.now = now.saturating_sub(by);
                    pair.pop_late(budget, moves, now);
                    pair.now = now;
                }
                Step::Wait => {
                    if !pair.model.is_empty() {
                        pair.now = pair.now.max(pair.wheel.nearest());
                    }
                    while !pair.pop(7, 5) {}
                }
            }
            pair.check();
        }
        // All go out in the end, each look bringing something or a later deadline.
        let mut looks = 0;
        while !pair.model.is_empty() {
            let before = (pair.wheel.nearest(), pair.model.len());
            pair.now = pair.now.max(before.0);
            while !pair.pop(7, 5) {}
            prop_assert!(pair.wheel.nearest() > before.0 || pair.model.len() < before.1, "W5");
            looks += 1;
            prop_assert!(looks < 10_000);
        }
        pair.check();
    }
}

/// What goes out at one time, in order.
fn names(pair: &mut Pair) -> Vec<usize> {
    let mut names = Vec::new();
    let mut moves = usize::MAX;
    while let Popped::Entry(item) = pair.wheel.pop(pair.now, &mut moves) {
        // SAFETY: items stay until the end of the pair.
        names.push(unsafe { item.as_ref() }.name);
    }
    names
}

#[test]
fn a_deadline_is_exact_at_every_level() {
    for bits in 0..63 {
        let mut pair = Pair::new(12_345_678);
        let deadline = pair.now + (1 << bits) + 1;
        assert!(pair.insert(deadline));
        assert_eq!(pair.wheel.nearest(), deadline, "2^{bits}");
        pair.now = deadline - 1;
        assert_eq!(names(&mut pair), [], "2^{bits}: early");
        pair.now = deadline;
        assert_eq!(names(&mut pair), [0], "2^{bits}");
    }
}

#[test]
fn what_is_due_at_once_does_not_enter() {
    let mut pair = Pair::new(1 << 40);
    assert!(!pair.insert(0));
    assert!(!pair.insert(1 << 40));
    assert!(pair.insert((1 << 40) + 1));
}

#[test]
fn the_latest_deadline_waits_and_comes() {
    let mut pair = Pair::new(0);
    assert!(pair.insert(LATEST));
    assert_eq!(pair.wheel.nearest(), LATEST);
    pair.now = LATEST - 1;
    assert_eq!(names(&mut pair), []);
    pair.now = u64::MAX;
    assert_eq!(names(&mut pair), [0]);
}

#[test]
fn equal_deadlines_come_in_the_order_of_insertion() {
    let mut pair = Pair::new(0);
    for _ in 0..5 {
        pair.insert(1 << 35);
    }
    pair.now = 1 << 36;
    assert_eq!(names(&mut pair), [0, 1, 2, 3, 4]);
}

#[test]
fn moving_is_interrupted_and_goes_on() {
    let mut pair = Pair::new(0);
    // One slot of a high level: one is due, then many that have to move.
    pair.insert(1 << 40);
    for i in 1..100 {
        pair.insert((1 << 40) + (i << 14));
    }
    pair.now = 1 << 40;
    assert!(!pair.pop(50, 10));
    assert_eq!(pair.model.len(), 99);
    assert!(pair.wheel.nearest() <= pair.now, "somebody has to go on");
    pair.insert((1 << 40) + (50 << 14));
    let mut looks = 0;
    while !pair.pop(50, 10) {
        looks += 1;
    }
    assert_eq!(looks, 8);
    pair.check();
    pair.now = 1 << 41;
    assert_eq!(names(&mut pair).len(), 100);
}

#[test]
fn a_look_that_is_late_finds_what_an_interrupted_one_left() {
    // At one nanosecond, so that `elapsed` is the deadline itself.
    let mut pair = Pair::new(1 << 20);
    let deadline = pair.now + 7;
    (0..3).for_each(|_| assert!(pair.insert(deadline)));
    pair.now = deadline;
    assert!(!pair.pop(1, 9), "interrupted");
    // Who read the clock before, and then waited for the lock.
    pair.now = deadline - 1;
    pair.pop_late(1, 9, deadline);
    pair.now = deadline;
    assert!(pair.pop(9, 9));
    assert!(pair.model.is_empty());
}

#[test]
fn a_wheel_of_cancelled_timers_asks_for_no_look() {
    let mut pair = Pair::new(0);
    pair.insert(1 << 30);
    pair.insert(1 << 20);
    pair.cancel(0);
    pair.cancel(0);
    assert_eq!(pair.wheel.nearest(), NEVER);
}
