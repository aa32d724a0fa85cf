//! The list against a deque.

use std::collections::VecDeque;
use std::task::Waker;

use proptest::prelude::*;

use super::{KEPT, Key, Waiters};
use crate::base::repeated;

#[derive(Clone, Debug)]
enum Act {
    PushBack,
    PushFront,
    PopFront,
    /// The n-th of all that are alive.
    Unlink(usize),
    Remove(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::PushBack),
        1 => Just(Act::PushFront),
        2 => Just(Act::PopFront),
        1 => any::<usize>().prop_map(Act::Unlink),
        2 => any::<usize>().prop_map(Act::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn list_is_a_deque_of_keys(acts in prop::collection::vec(act(), 0..repeated(200))) {
        let mut list = Waiters::new();
        let mut order: VecDeque<(Key, u32)> = VecDeque::new();
        let mut alive: Vec<(Key, u32)> = Vec::new();
        for (number, act) in acts.into_iter().enumerate() {
            let number = number as u32;
            match act {
                Act::PushBack | Act::PushFront => {
                    let waker = Some(Waker::noop().clone());
                    let back = matches!(act, Act::PushBack);
                    let key = if back {
                        list.push_back(waker, number)
                    } else {
                        list.push_front(waker, number)
                    };
                    let entry = (key, number);
                    if back { order.push_back(entry) } else { order.push_front(entry) }
                    alive.push(entry);
                }
                Act::PopFront => {
                    let expected = order.pop_front();
                    let popped = list.pop_front(number);
                    prop_assert_eq!(popped.is_some(), expected.is_some());
                    if let Some((key, _)) = expected {
                        alive.iter_mut().find(|entry| entry.0 == key).unwrap().1 = number;
                    }
                }
                Act::Unlink(n) if !alive.is_empty() => {
                    let (key, _) = alive[n % alive.len()];
                    list.unlink(key);
                    order.retain(|entry| entry.0 != key);
                }
                Act::Remove(n) if !alive.is_empty() => {
                    let (key, ticket) = alive.swap_remove(n % alive.len());
                    prop_assert_eq!(list.remove(key).0, ticket);
                    order.retain(|entry| entry.0 != key);
                }
                Act::Unlink(_) | Act::Remove(_) => {}
            }
            prop_assert_eq!(list.front().map(|(key, _)| key), order.front().map(|entry| entry.0));
            prop_assert_eq!(list.is_empty(), order.is_empty());
            for (key, ticket) in &alive {
                prop_assert_eq!(list.ticket(*key), ticket);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of waiters")]
fn list_that_was_long_gives_its_memory_back_when_nobody_waits() {
    let mut list = Waiters::new();
    let keys: Vec<_> = (0..10 * KEPT).map(|n| list.push_back(None, n)).collect();
    for key in keys {
        list.remove(key);
    }
    assert_eq!(list.entries.capacity(), 0);
    assert_eq!(list.push_back(None, 7), Key(0));
}
