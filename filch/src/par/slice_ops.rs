//! The methods on slices.
//!
//! Not here: how they work ([`super::sort`], [`super::fill`]).

use std::cmp::Ordering;

use super::{fill, sort};

/// Sorts and fills of slices on several workers.
///
/// The methods may be called on any thread. Short slices are handled where the call is made.
///
/// ```
/// use filch::par::prelude::*;
/// let mut v: Vec<u32> = (0..10_000).rev().collect();
/// v.par_sort();
/// assert!(v.is_sorted());
/// ```
pub trait ParallelSliceOps<T> {
    /// Sorts; equal elements keep their order.
    ///
    /// Needs memory for as many elements again. Sorted and strictly descending slices take as many
    /// comparisons as they have elements.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = ["b", "c", "a"];
    /// v.par_sort();
    /// assert_eq!(v, ["a", "b", "c"]);
    /// ```
    ///
    /// # Panics
    /// If a comparison panics, and perhaps if `Ord` is not a total order. The slice then has its
    /// elements in an unspecified order.
    fn par_sort(&mut self)
    where
        T: Ord + Send;

    /// As [`par_sort`](Self::par_sort), in the order of `compare`.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [5, 4, 1, 3, 2];
    /// v.par_sort_by(|a, b| b.cmp(a));
    /// assert_eq!(v, [5, 4, 3, 2, 1]);
    /// ```
    ///
    /// # Panics
    /// As [`par_sort`](Self::par_sort).
    fn par_sort_by<F>(&mut self, compare: F)
    where
        T: Send,
        F: Fn(&T, &T) -> Ordering + Sync;

    /// As [`par_sort`](Self::par_sort), in the order of keys.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [-5i32, 4, 1, -3, 2];
    /// v.par_sort_by_key(|x| x.abs());
    /// assert_eq!(v, [1, 2, -3, 4, -5]);
    /// ```
    ///
    /// # Panics
    /// As [`par_sort`](Self::par_sort).
    fn par_sort_by_key<K, F>(&mut self, key: F)
    where
        T: Send,
        K: Ord,
        F: Fn(&T) -> K + Sync;

    /// As [`par_sort_by_key`](Self::par_sort_by_key); computes the key of each element once.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [10, 9, 1, 100];
    /// v.par_sort_by_cached_key(|x: &i32| x.to_string());
    /// assert_eq!(v, [1, 10, 100, 9]);
    /// ```
    ///
    /// # Panics
    /// If a key or a comparison panics, and perhaps if `Ord` is not a total order. The slice is
    /// then as it was.
    fn par_sort_by_cached_key<K, F>(&mut self, key: F)
    where
        T: Send,
        K: Ord + Send,
        F: Fn(&T) -> K + Sync;

    /// Sorts in place; equal elements may change places. Faster than [`par_sort`](Self::par_sort).
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [3, 1, 2];
    /// v.par_sort_unstable();
    /// assert_eq!(v, [1, 2, 3]);
    /// ```
    ///
    /// # Panics
    /// As [`par_sort`](Self::par_sort).
    fn par_sort_unstable(&mut self)
    where
        T: Ord + Send;

    /// As [`par_sort_unstable`](Self::par_sort_unstable), in the order of `compare`.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [0.5, -1.0, 2.5];
    /// v.par_sort_unstable_by(f64::total_cmp);
    /// assert_eq!(v, [-1.0, 0.5, 2.5]);
    /// ```
    ///
    /// # Panics
    /// As [`par_sort`](Self::par_sort).
    fn par_sort_unstable_by<F>(&mut self, compare: F)
    where
        T: Send,
        F: Fn(&T, &T) -> Ordering + Sync;

    /// As [`par_sort_unstable`](Self::par_sort_unstable), in the order of keys.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [-5i32, 4, 1, -3, 2];
    /// v.par_sort_unstable_by_key(|x| x.abs());
    /// assert_eq!(v, [1, 2, -3, 4, -5]);
    /// ```
    ///
    /// # Panics
    /// As [`par_sort`](Self::par_sort).
    fn par_sort_unstable_by_key<K, F>(&mut self, key: F)
    where
        T: Send,
        K: Ord,
        F: Fn(&T) -> K + Sync;

    /// Sets every element to a clone of `value`.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [0; 4];
    /// v.par_fill(7);
    /// assert_eq!(v, [7; 4]);
    /// ```
    ///
    /// # Panics
    /// If a clone panics; the slice then has old and new elements.
    fn par_fill(&mut self, value: T)
    where
        T: Clone + Send;

    /// Sets every element to what a call of `make` returns.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = vec![vec![1], vec![2]];
    /// v.par_fill_with(Vec::new);
    /// assert_eq!(v, [[], []]);
    /// ```
    ///
    /// # Panics
    /// If `make` panics; the slice then has old and new elements.
    fn par_fill_with<F>(&mut self, make: F)
    where
        T: Send,
        F: Fn() -> T + Sync;

    /// Sets each element to what `make` returns for its index.
    ///
    /// ```
    /// use filch::par::prelude::*;
    /// let mut v = [0; 4];
    /// v.par_generate(|i| i * i);
    /// assert_eq!(v, [0, 1, 4, 9]);
    /// ```
    ///
    /// # Panics
    /// If `make` panics; the slice then has old and new elements.
    fn par_generate<F>(&mut self, make: F)
    where
        T: Send,
        F: Fn(usize) -> T + Sync;
}

impl<T> ParallelSliceOps<T> for [T] {
    fn par_sort(&mut self)
    where
        T: Ord + Send,
    {
        sort::sort(self, T::lt);
    }

    fn par_sort_by<F>(&mut self, compare: F)
    where
        T: Send,
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        sort::sort(self, |a, b| compare(a, b).is_lt());
    }

    fn par_sort_by_key<K, F>(&mut self, key: F)
    where
        T: Send,
        K: Ord,
        F: Fn(&T) -> K + Sync,
    {
        sort::sort(self, |a, b| key(a).lt(&key(b)));
    }

    fn par_sort_by_cached_key<K, F>(&mut self, key: F)
    where
        T: Send,
        K: Ord + Send,
        F: Fn(&T) -> K + Sync,
    {
        sort::sort_by_cached_key(self, key);
    }

    fn par_sort_unstable(&mut self)
    where
        T: Ord + Send,
    {
        sort::sort_unstable(self, T::lt);
    }

    fn par_sort_unstable_by<F>(&mut self, compare: F)
    where
        T: Send,
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        sort::sort_unstable(self, |a, b| compare(a, b).is_lt());
    }

    fn par_sort_unstable_by_key<K, F>(&mut self, key: F)
    where
        T: Send,
        K: Ord,
        F: Fn(&T) -> K + Sync,
    {
        sort::sort_unstable(self, |a, b| key(a).lt(&key(b)));
    }

    fn par_fill(&mut self, value: T)
    where
        T: Clone + Send,
    {
        fill::fill(self, value);
    }

    fn par_fill_with<F>(&mut self, make: F)
    where
        T: Send,
        F: Fn() -> T + Sync,
    {
        fill::fill_indexed(self, &|_| make());
    }

    fn par_generate<F>(&mut self, make: F)
    where
        T: Send,
        F: Fn(usize) -> T + Sync,
    {
        fill::fill_indexed(self, &make);
    }
}
