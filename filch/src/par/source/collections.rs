//! std's other collections: their items, or references to them, are put into a vector first.
//!
//! None of them can be cut in two without a look at every item, so this costs a walk over the
//! collection on one thread; what is done with the items is shared out.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hash::{BuildHasher, Hash};

use super::vec;
use crate::par::convert::IntoParallelIterator;

macro_rules! by_collecting {
    ($([$($g:tt)*] $type:ty, $item:ty;)*) => { $(
        impl<$($g)*> IntoParallelIterator for $type {
            type Iter = vec::IntoIter<$item>;
            type Item = $item;

            fn into_par_iter(self) -> Self::Iter {
                self.into_iter().collect::<Vec<_>>().into_par_iter()
            }
        }
    )* };
}

by_collecting! {
    [T: Send] VecDeque<T>, T;
    ['a, T: Sync] &'a VecDeque<T>, &'a T;
    ['a, T: Send] &'a mut VecDeque<T>, &'a mut T;
    [T: Send] LinkedList<T>, T;
    ['a, T: Sync] &'a LinkedList<T>, &'a T;
    ['a, T: Send] &'a mut LinkedList<T>, &'a mut T;
    [T: Ord + Send] BinaryHeap<T>, T;
    ['a, T: Ord + Sync] &'a BinaryHeap<T>, &'a T;
    [T: Ord + Send] BTreeSet<T>, T;
    ['a, T: Ord + Sync] &'a BTreeSet<T>, &'a T;
    [K: Ord + Send, V: Send] BTreeMap<K, V>, (K, V);
    ['a, K: Ord + Sync, V: Sync] &'a BTreeMap<K, V>, (&'a K, &'a V);
    ['a, K: Ord + Sync, V: Send] &'a mut BTreeMap<K, V>, (&'a K, &'a mut V);
    [T: Eq + Hash + Send, S: BuildHasher] HashSet<T, S>, T;
    ['a, T: Eq + Hash + Sync, S: BuildHasher] &'a HashSet<T, S>, &'a T;
    [K: Eq + Hash + Send, V: Send, S: BuildHasher] HashMap<K, V, S>, (K, V);
    ['a, K: Eq + Hash + Sync, V: Sync, S: BuildHasher] &'a HashMap<K, V, S>, (&'a K, &'a V);
    ['a, K: Eq + Hash + Sync, V: Send, S: BuildHasher] &'a mut HashMap<K, V, S>, (&'a K, &'a mut V);
}
