//! Merging two sorted runs into one, by several workers and without branches.
//!
//! The output is cut in halves; a binary search finds which elements of each run belong to which
//! half (the "merge path"), and both halves are merged by themselves. A piece that is not cut any
//! more is merged from both ends of both of its halves at once: four merges whose loads do not
//! wait for each other.
//!
//! M1. Each input element is copied, bit by bit, to exactly one output place, and every place is
//!     written, whatever `less` answers: a merge counts what it took, it never trusts the order.
//! M2. The inputs are only read. If `less` panics they are as they were, and nothing in the output
//!     counts as an element. An element is not compared after it was copied.
//! M3. No element is in two pieces, so none is compared on two threads at once (O1).
//!
//! Not here: who owns the elements after a merge; that is the caller's to say.

use std::cmp::Ordering;
use std::mem::MaybeUninit;

use super::divide::Divide;
use crate::fork::{join_sides, on_worker};

/// Elements of the output for which a fork is worth while. Guessed: 10 µs of work.
const GRAIN: usize = 8 << 10;

/// Elements of the output from which on four merges go at once.
const FOUR: usize = 256;

/// Two runs and the place for one, of which nobody else has any part.
struct Task<'a, T> {
    left: &'a [T],
    right: &'a [T],
    out: &'a mut [MaybeUninit<T>],
}

// SAFETY: M3, the thread that has the task is the only one that looks at its elements, so they are
// lent like `&mut`, for which `Send` suffices.
unsafe impl<T: Send> Send for Task<'_, T> {}

/// Merges copies of `left` and `right` into `out`; of equal elements those of `left` come first.
///
/// The runs are lent whole, though they are only read, because of M3.
pub(super) fn copies<T: Send>(
    left: &mut [T],
    right: &mut [T],
    out: &mut [MaybeUninit<T>],
    less: &(impl Fn(&T, &T) -> bool + Sync),
) {
    debug_assert_eq!(out.len(), left.len() + right.len());
    Task { left, right, out }.run(less, Divide::new(GRAIN));
}

impl<'a, T: Send> Task<'a, T> {
    fn run(self, less: &(impl Fn(&T, &T) -> bool + Sync), divide: Divide) {
        let Some(divide) = divide.halve(self.out.len()) else {
            return self.run_here(less);
        };
        let [lower, upper] = self.halve(less);
        join_sides(|_| lower.run(less, divide), |side| upper.run(less, divide.on(side)));
    }

    /// The lower and the upper half of the output, with what belongs there.
    fn halve(self, less: &impl Fn(&T, &T) -> bool) -> [Task<'a, T>; 2] {
        let mid = self.out.len() / 2;
        let from_left = path(self.left, self.right, mid, less);
        let (l1, l2) = self.left.split_at(from_left);
        let (r1, r2) = self.right.split_at(mid - from_left);
        let (o1, o2) = self.out.split_at_mut(mid);
        [Task { left: l1, right: r1, out: o1 }, Task { left: l2, right: r2, out: o2 }]
    }

    fn run_here(self, less: &impl Fn(&T, &T) -> bool) {
        let ([l0, .., l1] | [l0 @ l1], [r0, .., r1] | [r0 @ r1]) = (self.left, self.right) else {
            return self.concatenate();
        };
        if !less(r0, l1) {
            return self.concatenate();
        }
        if less(r1, l0) {
            let Self { left, right, out } = self;
            return Self { left: right, right: left, out }.concatenate();
        }
        if self.out.len() < FOUR {
            return Ends::new(self).finish(less);
        }
        let [mut lower, mut upper] = self.halve(less).map(Ends::new);
        loop {
            let steps = lower.sure_steps().min(upper.sure_steps());
            if steps == 0 {
                break;
            }
            for _ in 0..steps {
                lower.front(less);
                upper.front(less);
                lower.back(less);
                upper.back(less);
            }
        }
        lower.finish(less);
        upper.finish(less);
    }

    /// The merge of runs of which the left one comes first as a whole.
    fn concatenate(self) {
        let (front, back) = self.out.split_at_mut(self.left.len());
        copy_bits(self.left, front);
        copy_bits(self.right, back);
    }
}

/// How many of the first `n` elements of the merge come from `left`.
fn path<T>(left: &[T], right: &[T], n: usize, less: &impl Fn(&T, &T) -> bool) -> usize {
    let mut low = n.saturating_sub(right.len());
    let mut high = n.min(left.len());
    while low < high {
        let mid = low + (high - low) / 2;
        if less(&right[n - mid - 1], &left[mid]) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    low
}

/// A merge that takes from both ends.
///
/// Taken are `..l0` and `l1..` of the left run, `..r0` and `r1..` of the right one; written is as
/// much at both ends of the output.
struct Ends<'a, T> {
    task: Task<'a, T>,
    l0: usize,
    l1: usize,
    r0: usize,
    r1: usize,
}

impl<'a, T> Ends<'a, T> {
    fn new(task: Task<'a, T>) -> Self {
        let (l1, r1) = (task.left.len(), task.right.len());
        Self { task, l0: 0, l1, r0: 0, r1 }
    }

    /// Steps at each end after which no run is used up, whatever the answers.
    fn sure_steps(&self) -> usize {
        (self.l1 - self.l0).min(self.r1 - self.r0) / 2
    }

    /// Takes the least element.
    #[inline(always)]
    fn front(&mut self, less: &impl Fn(&T, &T) -> bool) {
        let (l, r) = (&self.task.left[self.l0], &self.task.right[self.r0]);
        let from_right = less(r, l);
        self.task.out[self.l0 + self.r0] = bits(if from_right { r } else { l });
        self.l0 += usize::from(!from_right);
        self.r0 += usize::from(from_right);
    }

    /// Takes the greatest element.
    #[inline(always)]
    fn back(&mut self, less: &impl Fn(&T, &T) -> bool) {
        let (l, r) = (&self.task.left[self.l1 - 1], &self.task.right[self.r1 - 1]);
        let from_left = less(r, l);
        self.task.out[self.l1 + self.r1 - 1] = bits(if from_left { l } else { r });
        self.l1 -= usize::from(from_left);
        self.r1 -= usize::from(!from_left);
    }

    fn finish(mut self, less: &impl Fn(&T, &T) -> bool) {
        loop {
            let steps = self.sure_steps();
            if steps == 0 {
                break;
            }
            for _ in 0..steps {
                self.front(less);
                self.back(less);
            }
        }
        while self.l0 < self.l1 && self.r0 < self.r1 {
            self.front(less);
        }
        let rest = &mut self.task.out[self.l0 + self.r0..self.l1 + self.r1];
        let (left, right) = rest.split_at_mut(self.l1 - self.l0);
        copy_bits(&self.task.left[self.l0..self.l1], left);
        copy_bits(&self.task.right[self.r0..self.r1], right);
    }
}

/// The bits of an element, which make no second element.
#[inline(always)]
pub(super) fn bits<T>(x: &T) -> MaybeUninit<T> {
    let mut bits = MaybeUninit::uninit();
    copy_bits(std::slice::from_ref(x), std::slice::from_mut(&mut bits));
    bits
}

/// Copies the bits of elements, which makes no second elements.
pub(super) fn copy_bits<T>(from: &[T], to: &mut [MaybeUninit<T>]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: both are that long, one is shared and the other exclusive, so they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) };
}

/// Merges two sorted slices into `out`. Elements that are equal keep their order, those of `a`
/// before those of `b`.
///
/// If an input is not sorted, `out` gets its elements in an unspecified order.
///
/// ```
/// let mut out = [0; 5];
/// filch::par::merge(&[1, 4, 6], &[2, 4], &mut out);
/// assert_eq!(out, [1, 2, 4, 4, 6]);
/// ```
///
/// # Panics
/// If `out` is not as long as both inputs together, or a comparison panics; then what `out` holds
/// is unspecified.
#[track_caller]
pub fn merge<T: Ord + Copy + Send + Sync>(a: &[T], b: &[T], out: &mut [T]) {
    merge_less(a, b, as_uninit(out), |a, b| a.lt(b));
}

/// As [`merge()`], in the order of `compare`.
///
/// ```
/// let mut out = [0; 5];
/// filch::par::merge_by(&[6, 4, 1], &[4, 2], &mut out, |a, b| b.cmp(a));
/// assert_eq!(out, [6, 4, 4, 2, 1]);
/// ```
///
/// # Panics
/// As [`merge()`].
#[track_caller]
pub fn merge_by<T: Copy + Send + Sync>(
    a: &[T],
    b: &[T],
    out: &mut [T],
    compare: impl Fn(&T, &T) -> Ordering + Sync,
) {
    merge_less(a, b, as_uninit(out), |a, b| compare(a, b).is_lt());
}

/// As [`merge()`], in the order of keys.
///
/// ```
/// let mut out = [""; 4];
/// filch::par::merge_by_key(&["a", "dd"], &["b", "ccc"], &mut out, |s| s.len());
/// assert_eq!(out, ["a", "b", "dd", "ccc"]);
/// ```
///
/// # Panics
/// As [`merge()`].
#[track_caller]
pub fn merge_by_key<T: Copy + Send + Sync, K: Ord>(
    a: &[T],
    b: &[T],
    out: &mut [T],
    key: impl Fn(&T) -> K + Sync,
) {
    merge_less(a, b, as_uninit(out), |a, b| key(a).lt(&key(b)));
}

/// As [`merge()`], into memory that holds nothing yet; returns what it holds now.
///
/// ```
/// let mut out = [std::mem::MaybeUninit::uninit(); 3];
/// assert_eq!(filch::par::merge_uninit(&[1, 3], &[2], &mut out), [1, 2, 3]);
/// ```
///
/// # Panics
/// As [`merge()`].
#[track_caller]
pub fn merge_uninit<'a, T: Ord + Copy + Send + Sync>(
    a: &[T],
    b: &[T],
    out: &'a mut [MaybeUninit<T>],
) -> &'a mut [T] {
    merge_uninit_by(a, b, out, T::cmp)
}

/// As [`merge_uninit`], in the order of `compare`.
///
/// ```
/// let mut out = [std::mem::MaybeUninit::uninit(); 3];
/// let merged = filch::par::merge_uninit_by(&[3, 1], &[2], &mut out, |a, b| b.cmp(a));
/// assert_eq!(merged, [3, 2, 1]);
/// ```
///
/// # Panics
/// As [`merge()`].
#[track_caller]
pub fn merge_uninit_by<'a, T: Copy + Send + Sync>(
    a: &[T],
    b: &[T],
    out: &'a mut [MaybeUninit<T>],
    compare: impl Fn(&T, &T) -> Ordering + Sync,
) -> &'a mut [T] {
    merge_less(a, b, out, |a, b| compare(a, b).is_lt());
    // SAFETY: M1, every place is written, and `T: Copy` allows for a second element.
    unsafe { out.assume_init_mut() }
}

/// Merges two sorted vectors, whose elements move into the one that is returned.
///
/// ```
/// let a = vec!["anna".to_string(), "otto".to_string()];
/// let b = vec!["hannah".to_string()];
/// assert_eq!(filch::par::merge_vecs(a, b), ["anna", "hannah", "otto"]);
/// ```
///
/// # Panics
/// If a comparison panics; the elements are dropped.
pub fn merge_vecs<T: Ord + Send>(a: Vec<T>, b: Vec<T>) -> Vec<T> {
    merge_vecs_less(a, b, |a, b| a.lt(b))
}

/// As [`merge_vecs`], in the order of `compare`.
///
/// ```
/// assert_eq!(filch::par::merge_vecs_by(vec![3, 1], vec![2], |a, b| b.cmp(a)), [3, 2, 1]);
/// ```
///
/// # Panics
/// As [`merge_vecs`].
pub fn merge_vecs_by<T: Send>(
    a: Vec<T>,
    b: Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering + Sync,
) -> Vec<T> {
    merge_vecs_less(a, b, |a, b| compare(a, b).is_lt())
}

/// As [`merge_vecs`], in the order of keys.
///
/// ```
/// let merged = filch::par::merge_vecs_by_key(vec![-1, 3], vec![2], |x: &i32| x.abs());
/// assert_eq!(merged, [-1, 2, 3]);
/// ```
///
/// # Panics
/// As [`merge_vecs`].
pub fn merge_vecs_by_key<T: Send, K: Ord>(
    a: Vec<T>,
    b: Vec<T>,
    key: impl Fn(&T) -> K + Sync,
) -> Vec<T> {
    merge_vecs_less(a, b, |a, b| key(a).lt(&key(b)))
}

#[track_caller]
fn merge_less<T: Copy + Send + Sync>(
    a: &[T],
    b: &[T],
    out: &mut [MaybeUninit<T>],
    less: impl Fn(&T, &T) -> bool + Sync,
) {
    assert_eq!(out.len(), a.len() + b.len(), "the output has another length than the inputs");
    let task = Task { left: a, right: b, out };
    on_worker(|| task.run(&less, Divide::new(GRAIN)));
}

fn merge_vecs_less<T: Send>(
    mut a: Vec<T>,
    mut b: Vec<T>,
    less: impl Fn(&T, &T) -> bool + Sync,
) -> Vec<T> {
    let len = a.len() + b.len();
    let mut out = Vec::with_capacity(len);
    on_worker(|| copies(&mut a, &mut b, &mut out.spare_capacity_mut()[..len], &less));
    // SAFETY: the elements of `a` live on in `out`.
    unsafe { a.set_len(0) };
    // SAFETY: as above.
    unsafe { b.set_len(0) };
    // SAFETY: M1, `len` places are written.
    unsafe { out.set_len(len) };
    out
}

/// Elements that need no drop, as places to write to.
fn as_uninit<T: Copy>(v: &mut [T]) -> &mut [MaybeUninit<T>] {
    let places = &raw mut *v as *mut [MaybeUninit<T>];
    // SAFETY: same layout, and this module writes nothing but whole elements there.
    unsafe { &mut *places }
}
