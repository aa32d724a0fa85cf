//! At most one item: `Option`, `Result`, `once`, `empty`.

use std::option;

use crate::par::convert::IntoParallelIterator;
use crate::par::indexed::IndexedParallelIterator;
use crate::par::plumbing::Producer;

/// The item of an option, if there is one.
///
/// ```
/// use filch::par::prelude::*;
/// let maybe = [Some(1), None, Some(3)];
/// assert_eq!(maybe.par_iter().flatten().sum::<i32>(), 4);
/// ```
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct IntoIter<T> {
    item: Option<T>,
}

bridged!([T: Send] IntoIter<T>, T);

impl<T: Send> IndexedParallelIterator for IntoIter<T> {
    type Producer<'p>
        = Self
    where
        Self: 'p;

    fn len(&self) -> usize {
        usize::from(self.item.is_some())
    }

    fn producer(&mut self) -> Self {
        Self { item: self.item.take() }
    }
}

impl<T: Send> Producer for IntoIter<T> {
    type Item = T;
    type IntoIter = option::IntoIter<T>;
    const SEEN: bool = false;

    fn into_iter(self) -> Self::IntoIter {
        self.item.into_iter()
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let none = Self { item: None };
        if index == 0 { (none, self) } else { (self, none) }
    }
}

/// What is like an option, by value and by reference.
macro_rules! like_option {
    ($([$($g:tt)*] $type:ty, $item:ty, $this:ident => $option:expr;)*) => { $(
        impl<$($g)*> IntoParallelIterator for $type {
            type Iter = IntoIter<$item>;
            type Item = $item;

            fn into_par_iter(self) -> IntoIter<$item> {
                let $this = self;
                IntoIter { item: $option }
            }
        }
    )* };
}

like_option! {
    [T: Send] Option<T>, T, option => option;
    ['a, T: Sync] &'a Option<T>, &'a T, option => option.as_ref();
    ['a, T: Send] &'a mut Option<T>, &'a mut T, option => option.as_mut();
    [T: Send, E] Result<T, E>, T, result => result.ok();
    ['a, T: Sync, E] &'a Result<T, E>, &'a T, result => result.as_ref().ok();
    ['a, T: Send, E] &'a mut Result<T, E>, &'a mut T, result => result.as_mut().ok();
}

/// Made by [`once`].
pub type Once<T> = IntoIter<T>;
/// Made by [`empty`].
pub type Empty<T> = IntoIter<T>;

/// One item.
///
/// ```
/// use filch::par::{once, prelude::*};
/// assert_eq!(once(7).chain(0..2).collect::<Vec<_>>(), [7, 0, 1]);
/// ```
pub fn once<T: Send>(item: T) -> Once<T> {
    Some(item).into_par_iter()
}

/// No items.
///
/// ```
/// use filch::par::{empty, prelude::*};
/// assert_eq!(empty::<u8>().max(), None);
/// ```
pub fn empty<T: Send>() -> Empty<T> {
    None.into_par_iter()
}
