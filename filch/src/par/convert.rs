//! Into a parallel iterator, and out of it again: the conversion traits.

use super::parallel::ParallelIterator;

/// What can be iterated in parallel, by value.
///
/// ```
/// use filch::par::prelude::*;
/// let words = vec![String::from("a"), String::from("bc")];
/// let lengths: Vec<usize> = words.into_par_iter().map(|word| word.len()).collect();
/// assert_eq!(lengths, [1, 2]);
/// ```
pub trait IntoParallelIterator {
    /// The iterator.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// What it yields.
    type Item: Send;

    /// Makes it.
    fn into_par_iter(self) -> Self::Iter;
}

impl<I: ParallelIterator> IntoParallelIterator for I {
    type Iter = I;
    type Item = I::Item;

    fn into_par_iter(self) -> I {
        self
    }
}

/// What can be iterated in parallel, by shared reference.
///
/// ```
/// use filch::par::prelude::*;
/// let squares: u32 = [1u32, 2, 3].par_iter().map(|x| x * x).sum();
/// assert_eq!(squares, 14);
/// ```
pub trait IntoParallelRefIterator<'data> {
    /// The iterator.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// What it yields, mostly references.
    type Item: Send + 'data;

    /// Makes it.
    fn par_iter(&'data self) -> Self::Iter;
}

impl<'data, I: ?Sized + 'data> IntoParallelRefIterator<'data> for I
where
    &'data I: IntoParallelIterator,
{
    type Iter = <&'data I as IntoParallelIterator>::Iter;
    type Item = <&'data I as IntoParallelIterator>::Item;

    fn par_iter(&'data self) -> Self::Iter {
        self.into_par_iter()
    }
}

/// What can be iterated in parallel, by exclusive reference.
///
/// ```
/// use filch::par::prelude::*;
/// let mut numbers = [1, 2, 3];
/// numbers.par_iter_mut().for_each(|x| *x *= 2);
/// assert_eq!(numbers, [2, 4, 6]);
/// ```
pub trait IntoParallelRefMutIterator<'data> {
    /// The iterator.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// What it yields, mostly references.
    type Item: Send + 'data;

    /// Makes it.
    fn par_iter_mut(&'data mut self) -> Self::Iter;
}

impl<'data, I: ?Sized + 'data> IntoParallelRefMutIterator<'data> for I
where
    &'data mut I: IntoParallelIterator,
{
    type Iter = <&'data mut I as IntoParallelIterator>::Iter;
    type Item = <&'data mut I as IntoParallelIterator>::Item;

    fn par_iter_mut(&'data mut self) -> Self::Iter {
        self.into_par_iter()
    }
}

/// What a parallel iterator can be collected into.
///
/// ```
/// use filch::par::prelude::*;
///
/// struct Even(usize);
///
/// impl FromParallelIterator<u32> for Even {
///     fn from_par_iter<I: IntoParallelIterator<Item = u32>>(numbers: I) -> Self {
///         Even(numbers.into_par_iter().filter(|n| n % 2 == 0).count())
///     }
/// }
/// let even: Even = (0..9u32).into_par_iter().collect();
/// assert_eq!(even.0, 5);
/// ```
pub trait FromParallelIterator<T: Send> {
    /// Collects.
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(items: I) -> Self;
}

/// What can be extended from a parallel iterator.
///
/// ```
/// use filch::par::prelude::*;
/// let mut numbers = vec![7];
/// numbers.par_extend((0..3).into_par_iter().map(|n| n * n));
/// assert_eq!(numbers, [7, 0, 1, 4]);
/// ```
pub trait ParallelExtend<T: Send> {
    /// Adds all items.
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, items: I);
}
