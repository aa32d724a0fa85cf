//! `FromParallelIterator` for std's collections, and for what may fail on the way.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use crate::par::convert::{FromParallelIterator, IntoParallelIterator, ParallelExtend};
use crate::par::parallel::ParallelIterator;

/// By way of `Default` and `ParallelExtend`.
macro_rules! extended {
    ($([$($g:tt)*] $type:ty, $item:ty;)*) => { $(
        impl<$($g)*> FromParallelIterator<$item> for $type {
            fn from_par_iter<I: IntoParallelIterator<Item = $item>>(items: I) -> Self {
                let mut all = Self::default();
                all.par_extend(items);
                all
            }
        }
    )* };
}

extended! {
    [T: Send] Vec<T>, T;
    [T: Ord + Send] BTreeSet<T>, T;
    [K: Ord + Send, V: Send] BTreeMap<K, V>, (K, V);
    [T: Send] LinkedList<T>, T;
    [T: Eq + Hash + Send, S: BuildHasher + Default + Send] HashSet<T, S>, T;
    [K: Eq + Hash + Send, V: Send, S: BuildHasher + Default + Send] HashMap<K, V, S>, (K, V);
    [] String, char;
    [] String, String;
    [] String, Box<str>;
    ['a] String, &'a str;
    ['a] String, &'a char;
    ['a] String, Cow<'a, str>;
    [] (), ();
}

/// By way of a vector.
macro_rules! from_vec {
    ($([$($g:tt)*] $type:ty, $item:ty;)*) => { $(
        impl<$($g)*> FromParallelIterator<$item> for $type {
            fn from_par_iter<I: IntoParallelIterator<Item = $item>>(items: I) -> Self {
                Vec::from_par_iter(items).into()
            }
        }
    )* };
}

from_vec! {
    [T: Send] Box<[T]>, T;
    [T: Send] Rc<[T]>, T;
    [T: Send] Arc<[T]>, T;
    [T: Send] VecDeque<T>, T;
    [T: Ord + Send] BinaryHeap<T>, T;
}

/// All values, or some error.
impl<T: Send, E: Send, C: FromParallelIterator<T>> FromParallelIterator<Result<T, E>>
    for Result<C, E>
{
    fn from_par_iter<I: IntoParallelIterator<Item = Result<T, E>>>(items: I) -> Self {
        let failed = Mutex::new(None);
        let values = items.into_par_iter().map(|item| match item {
            Ok(value) => Some(value),
            Err(error) => {
                if let Ok(mut failed) = failed.lock() {
                    failed.get_or_insert(error);
                }
                None
            }
        });
        let collection = values.while_some().collect();
        match failed.into_inner().unwrap_or(None) {
            None => Ok(collection),
            Some(error) => Err(error),
        }
    }
}

/// All values, if none is missing.
impl<T: Send, C: FromParallelIterator<T>> FromParallelIterator<Option<T>> for Option<C> {
    fn from_par_iter<I: IntoParallelIterator<Item = Option<T>>>(items: I) -> Self {
        items.into_par_iter().map(|item| item.ok_or(())).collect::<Result<C, ()>>().ok()
    }
}
