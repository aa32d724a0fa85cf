//! Adaptors with a value for each piece: `map_with`, `map_init`.
//!
//! A value travels as a [`Seed`]: a clone for each piece, or made where the piece starts. `fold` and
//! `try_fold` start from seeds too.

use super::stage::{Pass, Stage, Through};
use crate::par::indexed::IndexedParallelIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Plan, Producer};

/// Where the value of a piece comes from.
pub trait Seed: Send + Sized {
    /// The value.
    type Value;

    /// The seed of a piece that is cut off.
    fn fork(&self) -> Self;

    /// The value, on the thread that runs the piece.
    fn sprout(self) -> Self::Value;
}

/// A value that is cloned for each cut.
#[derive(Debug, Clone)]
pub struct Cloning<T>(pub(in crate::par) T);

impl<T: Clone + Send> Seed for Cloning<T> {
    type Value = T;

    fn fork(&self) -> Self {
        self.clone()
    }

    fn sprout(self) -> T {
        self.0
    }
}

/// A function that makes the value, borrowed.
#[derive(Debug)]
pub struct Making<'f, F>(pub(in crate::par) &'f F);

impl<T, F: Fn() -> T + Sync> Seed for Making<'_, F> {
    type Value = T;

    fn fork(&self) -> Self {
        Self(self.0)
    }

    fn sprout(self) -> T {
        (self.0)()
    }
}

/// A source of seeds: what an adaptor keeps until it is driven.
pub trait Sow: Send {
    /// The value that a seed becomes.
    type Value;

    /// The seed of the whole loop.
    type Seed<'s>: Seed<Value = Self::Value>
    where
        Self: 's;

    /// Makes it.
    fn seed(&self) -> Self::Seed<'_>;
}

impl<T: Clone + Send> Sow for Cloning<T> {
    type Value = T;
    type Seed<'s>
        = Self
    where
        Self: 's;

    fn seed(&self) -> Self {
        self.clone()
    }
}

/// A function that makes the value, owned.
#[derive(Debug, Clone)]
pub struct Maker<F>(pub(in crate::par) F);

impl<T, F: Fn() -> T + Sync + Send> Sow for Maker<F> {
    type Value = T;
    type Seed<'s>
        = Making<'s, F>
    where
        Self: 's;

    fn seed(&self) -> Making<'_, F> {
        Making(&self.0)
    }
}

/// What [`MapWith`] and [`MapInit`] are.
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct With<I, S, F> {
    base: I,
    sow: S,
    f: F,
}

/// Made by [`ParallelIterator::map_with`].
pub type MapWith<I, T, F> = With<I, Cloning<T>, F>;
/// Made by [`ParallelIterator::map_init`].
pub type MapInit<I, INIT, F> = With<I, Maker<INIT>, F>;

impl<I, S, F> With<I, S, F> {
    pub(in crate::par) fn new(base: I, sow: S, f: F) -> Self {
        Self { base, sow, f }
    }
}

/// [`With`] as a stage.
struct WithStage<'f, S, F> {
    value: S,
    f: &'f F,
}

impl<'f, T, R, S, F> Stage<T> for WithStage<'f, S, F>
where
    S: Seed,
    F: Fn(&mut S::Value, T) -> R + Sync,
{
    type Run = WithRun<'f, S::Value, F>;
    const KEEPS_COUNT: bool = true;

    fn fork(&self) -> Self {
        Self { value: self.value.fork(), f: self.f }
    }

    fn start(self) -> Self::Run {
        WithRun { value: self.value.sprout(), f: self.f }
    }
}

/// [`With`] while its piece runs.
struct WithRun<'f, V, F> {
    value: V,
    f: &'f F,
}

impl<T, R, V, F: Fn(&mut V, T) -> R> Pass<T> for WithRun<'_, V, F> {
    type Out = R;

    fn pass<G: Folder<R>>(&mut self, items: impl Iterator<Item = T>, next: G) -> G {
        next.consume_iter(items.map(|item| (self.f)(&mut self.value, item)))
    }
}

impl<I, S, F, R> ParallelIterator for With<I, S, F>
where
    I: ParallelIterator,
    S: Sow,
    F: Fn(&mut S::Value, I::Item) -> R + Sync + Send,
    R: Send,
{
    type Item = R;

    fn drive<C: Consumer<R>>(self, consumer: C) -> C::Result {
        let stage = WithStage { value: self.sow.seed(), f: &self.f };
        self.base.drive(Through { next: consumer, stage })
    }

    fn opt_len(&self) -> Option<usize> {
        self.base.opt_len()
    }
}

impl<I, S, F, R> IndexedParallelIterator for With<I, S, F>
where
    I: IndexedParallelIterator,
    S: Sow,
    F: Fn(&mut S::Value, I::Item) -> R + Sync + Send,
    R: Send,
{
    type Producer<'p>
        = WithProducer<'p, I::Producer<'p>, S::Seed<'p>, F>
    where
        Self: 'p;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn producer(&mut self) -> Self::Producer<'_> {
        WithProducer { base: self.base.producer(), seed: self.sow.seed(), f: &self.f }
    }
}

/// [`With`] where its items are zipped, reversed or numbered later.
#[derive(Debug)]
pub struct WithProducer<'f, P, S, F> {
    base: P,
    seed: S,
    f: &'f F,
}

impl<'f, P, S, F, R> Producer for WithProducer<'f, P, S, F>
where
    P: Producer,
    S: Seed,
    F: Fn(&mut S::Value, P::Item) -> R + Sync,
{
    type Item = R;
    type IntoIter = WithIter<'f, P::IntoIter, S::Value, F>;

    fn into_iter(self) -> Self::IntoIter {
        WithIter { base: self.base.into_iter(), value: self.seed.sprout(), f: self.f }
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let (left, right) = self.base.split_at(index);
        let seed = self.seed.fork();
        (Self { base: left, seed, f: self.f }, Self { base: right, ..self })
    }

    fn plan(&self) -> Plan {
        self.base.plan()
    }
}

/// The items of a [`WithProducer`].
#[derive(Debug)]
pub struct WithIter<'f, I, V, F> {
    base: I,
    value: V,
    f: &'f F,
}

impl<I: Iterator, V, R, F: Fn(&mut V, I::Item) -> R> Iterator for WithIter<'_, I, V, F> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        self.base.next().map(|item| (self.f)(&mut self.value, item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.base.size_hint()
    }
}

impl<I, V, R, F> DoubleEndedIterator for WithIter<'_, I, V, F>
where
    I: DoubleEndedIterator,
    F: Fn(&mut V, I::Item) -> R,
{
    #[inline]
    fn next_back(&mut self) -> Option<R> {
        self.base.next_back().map(|item| (self.f)(&mut self.value, item))
    }
}

impl<I, V, R, F> ExactSizeIterator for WithIter<'_, I, V, F>
where
    I: ExactSizeIterator,
    F: Fn(&mut V, I::Item) -> R,
{
}
