//! `ParallelExtend` for std's collections.
//!
//! A vector is filled in place when the length is known. Anything else is gathered into vectors, one
//! for each piece, in parallel, and then moved in one after the other.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hash::{BuildHasher, Hash};

use super::{Op, collect, run};
use crate::par::convert::{IntoParallelIterator, ParallelExtend};
use crate::par::parallel::ParallelIterator;

/// Vectors of the pieces, in order.
pub(super) struct Gather;

impl<T: Send> Op<T> for Gather {
    type Acc = LinkedList<Vec<T>>;

    fn start(&self) -> Self::Acc {
        LinkedList::new()
    }

    fn eat(&self, mut acc: Self::Acc, items: impl Iterator<Item = T>) -> Self::Acc {
        match acc.back_mut() {
            Some(last) => last.extend(items),
            None => acc.push_back(items.collect()),
        }
        acc
    }

    fn merge(&self, mut left: Self::Acc, mut right: Self::Acc) -> Self::Acc {
        left.append(&mut right);
        left
    }
}

impl<T: Send> ParallelExtend<T> for Vec<T> {
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, items: I) {
        let items = items.into_par_iter();
        if let Some(len) = items.opt_len() {
            return collect::append(self, len, items);
        }
        let pieces = run(items, Gather);
        self.reserve(pieces.iter().map(Vec::len).sum());
        for mut piece in pieces {
            self.append(&mut piece);
        }
    }
}

impl<'a, T: Copy + Send + Sync + 'a> ParallelExtend<&'a T> for Vec<T> {
    fn par_extend<I: IntoParallelIterator<Item = &'a T>>(&mut self, items: I) {
        self.par_extend(items.into_par_iter().copied());
    }
}

/// Collections that std can extend, one piece after the other.
macro_rules! piecewise {
    ($([$($g:tt)*] $type:ty, $item:ty;)*) => { $(
        impl<$($g)*> ParallelExtend<$item> for $type {
            fn par_extend<I: IntoParallelIterator<Item = $item>>(&mut self, items: I) {
                for piece in run(items.into_par_iter(), Gather) {
                    self.extend(piece);
                }
            }
        }
    )* };
}

piecewise! {
    [T: Send] VecDeque<T>, T;
    [T: Send] LinkedList<T>, T;
    [T: Ord + Send] BinaryHeap<T>, T;
    [T: Ord + Send] BTreeSet<T>, T;
    [K: Ord + Send, V: Send] BTreeMap<K, V>, (K, V);
    [T: Eq + Hash + Send, S: BuildHasher + Send] HashSet<T, S>, T;
    [K: Eq + Hash + Send, V: Send, S: BuildHasher + Send] HashMap<K, V, S>, (K, V);
    [] String, char;
    [] String, String;
    [] String, Box<str>;
    ['a] String, &'a str;
    ['a] String, &'a char;
    ['a] String, Cow<'a, str>;
}

impl ParallelExtend<()> for () {
    fn par_extend<I: IntoParallelIterator<Item = ()>>(&mut self, items: I) {
        items.into_par_iter().for_each(|()| ());
    }
}
