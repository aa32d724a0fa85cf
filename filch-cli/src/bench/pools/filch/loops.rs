//! The loops, sorts and prefix sums of filch.

use super::Filch;
use crate::bench::pools::{Loops, Scans};
use filch::par::prelude::*;

impl Loops for Filch {
    fn for_each<T: Send>(data: &mut [T], body: impl Fn(&mut T) + Send + Sync) {
        data.par_iter_mut().for_each(body);
    }

    fn sum(data: &[u64]) -> u64 {
        data.par_iter().sum()
    }

    fn sort<T: Ord + Send>(data: &mut [T]) {
        data.par_sort();
    }

    fn sort_unstable<T: Ord + Send>(data: &mut [T]) {
        data.par_sort_unstable();
    }

    fn each_index(count: usize, body: impl Fn(usize) + Send + Sync) {
        (0..count).into_par_iter().for_each(body);
    }
}

impl Scans for Filch {
    fn scan<T: Copy + Send + Sync>(data: &mut [T], op: impl Fn(T, T) -> T + Send + Sync) {
        filch::par::inclusive_scan(data, |&a, &b| op(a, b));
    }
}
