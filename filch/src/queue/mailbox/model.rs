//! Models of the mailbox. The numbers in the nodes are not atomic, so an item that is popped
//! before it is published is a race that the checker sees.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::queue::testing::{Node, assert_each_once, explore, node, open};

/// Pops until `items` have come. Waits for stalled pushers by yielding.
fn receive(mailbox: &Mailbox<Node>, items: usize) -> Vec<usize> {
    let mut received = Vec::new();
    while received.len() < items {
        // SAFETY: called by the owner only.
        match unsafe { mailbox.pop() } {
            Pop::Item(node) => received.push(open(node)),
            Pop::Empty | Pop::Stalled => thread::yield_now(),
        }
    }
    received
}

#[test]
fn loom_two_pushers_against_owner() {
    explore(3, || {
        let mailbox = Arc::new(Mailbox::<Node>::new());
        let (one, two) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        // SAFETY: fresh nodes, left alone until they are popped.
        let one = thread::spawn(move || unsafe { one.push(node(0)) });
        let two = thread::spawn(move || {
            for n in 1..3 {
                // SAFETY: a fresh node, left alone until it is popped.
                unsafe { two.push(node(n)) };
            }
        });
        let received = receive(&mailbox, 3);
        let of_two: Vec<_> = received.iter().filter(|&&n| n > 0).collect();
        assert_eq!(of_two, [&1, &2], "M4");
        assert_each_once(received, 3);
        one.join().unwrap();
        two.join().unwrap();
        assert!(mailbox.is_empty());
    });
}

/// The owner empties the mailbox while the pusher comes again: `front` is used twice.
#[test]
fn loom_mailbox_emptied_between_pushes_is_used_again() {
    explore(4, || {
        let mailbox = Arc::new(Mailbox::<Node>::new());
        let pusher = Arc::clone(&mailbox);
        let pusher = thread::spawn(move || {
            for n in 0..3 {
                // SAFETY: a fresh node, left alone until it is popped.
                unsafe { pusher.push(node(n)) };
            }
        });
        assert_eq!(receive(&mailbox, 3), [0, 1, 2]);
        pusher.join().unwrap();
        assert!(mailbox.is_empty());
    });
}

#[test]
fn loom_pushed_item_is_seen_by_is_empty() {
    explore(4, || {
        let mailbox = Arc::new(Mailbox::<Node>::new());
        let other = Arc::clone(&mailbox);
        // SAFETY: a fresh node, left alone until it is popped.
        let pusher = thread::spawn(move || unsafe { other.push(node(0)) });
        // SAFETY: a fresh node, left alone until it is popped.
        unsafe { mailbox.push(node(1)) };
        let first = receive(&mailbox, 1)[0];
        pusher.join().unwrap();
        assert!(!mailbox.is_empty(), "one of two is inside");
        assert_eq!(receive(&mailbox, 1), [1 - first]);
        assert!(mailbox.is_empty());
    });
}
