//! Models of the deque, with real fences in the place of the asymmetric pair.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::queue::testing::{Item, assert_each_once, explore, item, number};

fn deque_of(capacity: usize, items: usize) -> Arc<Deque<Item>> {
    let deque = Arc::new(Deque::new(capacity));
    for n in 0..items {
        // SAFETY: this thread is the owner.
        unsafe { deque.push(item(n)) };
    }
    deque
}

/// Tries `times` times and returns what was taken.
fn steal(victim: &Deque<Item>, times: usize) -> Vec<usize> {
    let attempts = (0..times).map(|_| victim.steal());
    attempts.filter_map(|s| if let Steal::Taken(i) = s { Some(number(i)) } else { None }).collect()
}

fn pop(deque: &Deque<Item>) -> Option<usize> {
    // SAFETY: called by the owner only.
    unsafe { deque.pop() }.map(number)
}

#[test]
fn loom_pop_against_steal_of_the_last_item() {
    explore(5, || {
        let deque = deque_of(2, 1);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || steal(&victim, 1));
        let mut taken: Vec<_> = pop(&deque).into_iter().collect();
        assert_eq!(pop(&deque), None);
        taken.extend(thief.join().unwrap());
        assert_each_once(taken, 1);
    });
}

/// Two items and two takes on each side: the owner takes one index without a compare-exchange.
#[test]
fn loom_pops_against_steals_of_two_items() {
    explore(5, || {
        let deque = deque_of(2, 2);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || steal(&victim, 2));
        let mut taken: Vec<_> = [pop(&deque), pop(&deque)].into_iter().flatten().collect();
        taken.extend(thief.join().unwrap());
        taken.extend(pop(&deque));
        assert_each_once(taken, 2);
    });
}

#[test]
fn loom_two_thieves_against_owner() {
    explore(3, || {
        let deque = deque_of(2, 2);
        let (one, two) = (Arc::clone(&deque), Arc::clone(&deque));
        let one = thread::spawn(move || steal(&one, 1));
        let two = thread::spawn(move || steal(&two, 1));
        let mut taken: Vec<_> = pop(&deque).into_iter().collect();
        taken.extend(one.join().unwrap());
        taken.extend(two.join().unwrap());
        taken.extend([pop(&deque), pop(&deque)].into_iter().flatten());
        assert_each_once(taken, 2);
    });
}

/// A fork: the owner pushes, and takes back by index what the thief may have.
fn fork_against_thief(below: usize) {
    explore(5, move || {
        let deque = deque_of(2, below);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || steal(&victim, 2));
        // SAFETY: this thread is the owner.
        let index = unsafe { deque.push(item(below)) };
        // SAFETY: this thread is the owner, and pushed it.
        let mut taken = match unsafe { deque.retract(index) } {
            Retract::Taken => vec![below],
            Retract::Stolen => vec![],
            Retract::NotNewest => unreachable!("nothing was pushed above"),
        };
        taken.extend(thief.join().unwrap());
        while let Some(rest) = pop(&deque) {
            taken.push(rest);
        }
        assert_each_once(taken, below + 1);
    });
}

#[test]
fn loom_retract_of_the_only_item_against_steals() {
    fork_against_thief(0);
}

#[test]
fn loom_retract_above_another_item_against_steals() {
    fork_against_thief(1);
}

/// A waiter that wants only what it may run leaves the rest alone.
#[test]
fn loom_steal_of_what_is_wanted_against_retract() {
    explore(5, || {
        let deque = deque_of(2, 1);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || match victim.steal_if(|item| number(item) == 1) {
            Steal::Taken(item) => Some(number(item)),
            Steal::Empty | Steal::Retry => None,
        });
        // SAFETY: this thread is the owner.
        let index = unsafe { deque.push(item(1)) };
        // SAFETY: this thread is the owner, and pushed it.
        assert_eq!(unsafe { deque.retract(index) }, Retract::Taken, "an older item is in the way");
        assert_eq!(thief.join().unwrap(), None);
        assert_eq!(pop(&deque), Some(0));
    });
}

/// The index that the owner pops and fills again must not be taken with its old item.
#[test]
fn loom_pop_and_push_again_against_steals() {
    explore(4, || {
        let deque = deque_of(2, 2);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || steal(&victim, 2));
        let mut taken: Vec<_> = pop(&deque).into_iter().collect();
        // SAFETY: this thread is the owner.
        unsafe { deque.push(item(2)) };
        taken.extend(thief.join().unwrap());
        taken.extend(std::iter::from_fn(|| pop(&deque)));
        assert_each_once(taken, 3);
    });
}

/// The thief may learn of an item from the `bottom` that a pop stored, not the one of its push.
#[test]
fn loom_push_and_pop_against_steal() {
    explore(4, || {
        let deque = deque_of(2, 0);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || steal(&victim, 1));
        for n in 0..2 {
            // SAFETY: this thread is the owner.
            unsafe { deque.push(item(n)) };
        }
        let mut taken: Vec<_> = pop(&deque).into_iter().collect();
        taken.extend(thief.join().unwrap());
        taken.extend(std::iter::from_fn(|| pop(&deque)));
        assert_each_once(taken, 2);
    });
}

#[test]
fn loom_grow_against_steal() {
    explore(4, || {
        let deque = deque_of(2, 1);
        let victim = Arc::clone(&deque);
        let thief = thread::spawn(move || steal(&victim, 2));
        for n in 1..4 {
            // SAFETY: this thread is the owner.
            unsafe { deque.push(item(n)) };
        }
        let mut taken: Vec<_> = std::iter::from_fn(|| pop(&deque)).collect();
        taken.extend(thief.join().unwrap());
        assert_each_once(taken, 4);
    });
}
