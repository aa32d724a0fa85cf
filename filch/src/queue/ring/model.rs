//! Models of the ring at capacity 2 or 4. Each thread uses only the half that is its own.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::queue::testing::{Item, assert_each_once, explore, item, number};

fn ring_of(capacity: usize, items: usize) -> Arc<Ring<Item>> {
    // Close to the end of the range, so that the models cross it.
    let ring = Arc::new(Ring::starting_at(capacity, u32::MAX));
    for n in 0..items {
        // SAFETY: this thread is the owner.
        assert!(unsafe { ring.push(item(n)) }.is_ok());
    }
    ring
}

/// Steals once into a fresh ring and returns what was taken, oldest first.
fn steal(victim: &Ring<Item>) -> Vec<usize> {
    let mine = Ring::new(victim.capacity());
    // SAFETY: this thread is the owner of `mine`.
    match unsafe { victim.steal_into(&mine) } {
        Steal::Taken { first, moved } => {
            let taken: Vec<_> = std::iter::once(number(first)).chain(drain(&mine)).collect();
            assert_eq!(taken.len(), moved);
            assert!(taken.is_sorted(), "stolen out of order: {taken:?}");
            taken
        }
        Steal::Empty | Steal::Busy => Vec::new(),
        Steal::Declined => unreachable!("the thief's ring is empty"),
    }
}

fn drain(ring: &Ring<Item>) -> Vec<usize> {
    // SAFETY: called by the owner only.
    std::iter::from_fn(|| unsafe { ring.pop() }).map(number).collect()
}

#[test]
fn loom_push_against_steal() {
    explore(4, || {
        let ring = ring_of(2, 0);
        let victim = Arc::clone(&ring);
        let thief = thread::spawn(move || [steal(&victim), steal(&victim)].concat());
        let mut taken = Vec::new();
        for n in 0..4 {
            // SAFETY: this thread is the owner.
            if let Err(Full(back)) = unsafe { ring.push(item(n)) } {
                taken.push(number(back));
            }
        }
        taken.extend(drain(&ring));
        taken.extend(thief.join().unwrap());
        assert_each_once(taken, 4);
    });
}

#[test]
fn loom_pop_against_steal() {
    explore(4, || {
        let ring = ring_of(4, 3);
        let victim = Arc::clone(&ring);
        let thief = thread::spawn(move || steal(&victim));
        let mut taken = Vec::new();
        // SAFETY: this thread is the owner.
        taken.extend(unsafe { ring.pop() }.map(number));
        // SAFETY: this thread is the owner; there is room whatever the thief claims.
        assert!(unsafe { ring.push(item(3)) }.is_ok());
        taken.extend(drain(&ring));
        assert!(taken.is_sorted(), "popped out of order: {taken:?}");
        taken.extend(thief.join().unwrap());
        assert_each_once(taken, 4);
    });
}

#[test]
fn loom_two_thieves_against_owner() {
    explore(3, || {
        let ring = ring_of(4, 3);
        let (one, two) = (Arc::clone(&ring), Arc::clone(&ring));
        let one = thread::spawn(move || steal(&one));
        let two = thread::spawn(move || steal(&two));
        let mut taken = Vec::new();
        // SAFETY: this thread is the owner.
        taken.extend(unsafe { ring.pop() }.map(number));
        taken.extend(one.join().unwrap());
        taken.extend(two.join().unwrap());
        taken.extend(drain(&ring));
        assert_each_once(taken, 3);
    });
}

#[test]
fn loom_take_oldest_against_steal() {
    explore(4, || {
        let ring = ring_of(2, 2);
        let victim = Arc::clone(&ring);
        let thief = thread::spawn(move || steal(&victim));
        let mut taken = Vec::new();
        // SAFETY: this thread is the owner.
        unsafe { ring.take_oldest(1, &mut |i| taken.push(number(i))) };
        for n in 2..4 {
            // SAFETY: this thread is the owner.
            if let Err(Full(back)) = unsafe { ring.push(item(n)) } {
                taken.push(number(back));
            }
        }
        taken.extend(drain(&ring));
        taken.extend(thief.join().unwrap());
        assert_each_once(taken, 4);
    });
}

#[test]
fn loom_length_is_never_beyond_what_was_pushed() {
    explore(4, || {
        let ring = ring_of(4, 0);
        let watched = Arc::clone(&ring);
        let watcher = thread::spawn(move || assert!(watched.len() <= 2));
        for n in 0..2 {
            // SAFETY: this thread is the owner.
            assert!(unsafe { ring.push(item(n)) }.is_ok());
            // SAFETY: this thread is the owner.
            assert_eq!(unsafe { ring.pop() }.map(number), Some(n));
        }
        watcher.join().unwrap();
    });
}
