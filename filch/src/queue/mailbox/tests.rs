use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::base::repeated;
use crate::queue::testing::{Node, STRESS, Tally, join_all, node, open};

/// A mailbox whose test is its owner.
struct Owned(Mailbox<Node>);

impl Owned {
    fn new() -> Self {
        Self(Mailbox::new())
    }

    fn push(&self, n: usize) {
        // SAFETY: a fresh node, left alone until it is popped.
        unsafe { self.0.push(node(n)) }
    }

    /// Pops with no pusher about.
    fn pop(&self) -> Option<usize> {
        // SAFETY: the test is the owner.
        match unsafe { self.0.pop() } {
            Pop::Item(node) => Some(open(node)),
            Pop::Empty => None,
            Pop::Stalled => panic!("no pusher is about"),
        }
    }
}

#[test]
fn items_come_out_in_push_order() {
    let mailbox = Owned::new();
    assert!(mailbox.0.is_empty());
    (0..3).for_each(|n| mailbox.push(n));
    assert!(!mailbox.0.is_empty());
    (0..3).for_each(|n| assert_eq!(mailbox.pop(), Some(n)));
    assert_eq!(mailbox.pop(), None);
    assert!(mailbox.0.is_empty());
}

#[test]
fn moved_mailbox_keeps_its_items() {
    let mailbox = Owned::new();
    (0..3).for_each(|n| mailbox.push(n));
    assert_eq!(mailbox.pop(), Some(0));
    let mailbox = Box::new(mailbox);
    mailbox.push(3);
    (1..4).for_each(|n| assert_eq!(mailbox.pop(), Some(n)));
}

#[test]
fn pusher_between_swap_and_link_stalls_the_owner() {
    let mailbox = Owned::new();
    let (first, late) = (node(0), node(1));
    // SAFETY: a fresh node.
    unsafe { mailbox.0.push(first) };
    // ORDERING: Relaxed, one thread: the first half of a push.
    let before = mailbox.0.pushers.newest.swap(late.as_ptr(), Ordering::Relaxed);
    assert_eq!(before, first.as_ptr());
    // SAFETY: the test is the owner.
    assert!(matches!(unsafe { mailbox.0.pop() }, Pop::Stalled));
    assert!(!mailbox.0.is_empty());
    // SAFETY: `first` is still inside: the second half of the push.
    unsafe { set_link(first, late.as_ptr(), Ordering::Release) };
    assert_eq!((mailbox.pop(), mailbox.pop(), mailbox.pop()), (Some(0), Some(1), None));
}

#[test]
fn pusher_to_an_empty_mailbox_between_swap_and_link_stalls_the_owner() {
    let mailbox = Owned::new();
    let late = node(0);
    // ORDERING: Relaxed, one thread: the first half of a push.
    mailbox.0.pushers.newest.store(late.as_ptr(), Ordering::Relaxed);
    // SAFETY: the test is the owner.
    assert!(matches!(unsafe { mailbox.0.pop() }, Pop::Stalled));
    // ORDERING: Relaxed, one thread: the second half.
    mailbox.0.owner.front.store(late.as_ptr(), Ordering::Relaxed);
    assert_eq!((mailbox.pop(), mailbox.pop()), (Some(0), None));
}

proptest! {
    #[test]
    fn behaves_like_a_vecdeque(steps in prop::collection::vec(0usize..6, 1..repeated(200))) {
        let mailbox = Owned::new();
        let mut model = VecDeque::new();
        let mut next = 0;
        for step in steps {
            // 0..=2: pop; otherwise push one to three.
            if let size @ 1.. = step.saturating_sub(2) {
                (next..next + size).for_each(|n| mailbox.push(n));
                model.extend(next..next + size);
                next += size;
            } else {
                prop_assert_eq!(mailbox.pop(), model.pop_front());
            }
            prop_assert_eq!(mailbox.0.is_empty(), model.is_empty());
        }
        while mailbox.pop().is_some() {}
    }
}

#[test]
fn every_item_arrives_once_and_in_its_pushers_order() {
    const PUSHERS: usize = 4;
    const EACH: usize = STRESS / PUSHERS;
    let mailbox = Owned::new();
    let tally = Tally::new(STRESS);
    std::thread::scope(|s| {
        let mut pushers = Vec::new();
        for pusher in 0..PUSHERS {
            let mailbox = &mailbox;
            pushers.push(s.spawn(move || {
                (pusher * EACH..(pusher + 1) * EACH).for_each(|n| mailbox.push(n));
            }));
        }
        let mut last = [None; PUSHERS];
        let mut count = 0;
        while count < STRESS {
            // SAFETY: this thread is the owner.
            match unsafe { mailbox.0.pop() } {
                Pop::Item(node) => {
                    let n = open(node);
                    tally.take(n);
                    assert!(last[n / EACH] < Some(n), "out of its pusher's order");
                    last[n / EACH] = Some(n);
                    count += 1;
                }
                Pop::Empty | Pop::Stalled => std::thread::yield_now(),
            }
        }
        join_all(pushers);
    });
    assert_eq!(mailbox.pop(), None);
    tally.assert_complete();
}
