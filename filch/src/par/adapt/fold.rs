//! Adaptors that make one item of each piece: `fold`, `fold_with`, `try_fold`, `try_fold_with`.
//!
//! They are one adaptor: a fold that can break off. One that cannot breaks off with [`Infallible`].

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use super::stage::{Pass, Stage, Through};
use super::with::{Cloning, Maker, Seed, Sow};
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder};
use crate::par::tries::Try;

/// What [`Fold`], [`FoldWith`], [`TryFold`] and [`TryFoldWith`] are.
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Folds<I, S, F, R> {
    base: I,
    sow: S,
    f: F,
    kind: PhantomData<fn() -> R>,
}

impl<I, S, F, R> Folds<I, S, F, R> {
    pub(in crate::par) fn new(base: I, sow: S, f: F) -> Self {
        Self { base, sow, f, kind: PhantomData }
    }
}

/// Made by [`ParallelIterator::fold`].
pub type Fold<I, ID, F> = Folds<I, Maker<ID>, F, Whole>;
/// Made by [`ParallelIterator::fold_with`].
pub type FoldWith<I, T, F> = Folds<I, Cloning<T>, F, Whole>;
/// Made by [`ParallelIterator::try_fold`].
pub type TryFold<I, R, ID, F> = Folds<I, Maker<ID>, F, R>;
/// Made by [`ParallelIterator::try_fold_with`].
pub type TryFoldWith<I, T, R, F> = Folds<I, Cloning<T>, F, R>;

/// A fold that goes on to the end, where [`TryFold`] has the type of its outcome.
#[derive(Debug, Clone)]
pub struct Whole;

/// One step of a fold, and what it makes in the end.
pub trait Step<T, V, K>: Sync + Send {
    /// What breaks it off.
    type Break;
    /// The one item.
    type Out: Send;

    /// Folds an item in.
    fn step(&self, value: V, item: T) -> ControlFlow<Self::Break, V>;

    /// Makes the item.
    fn out(end: ControlFlow<Self::Break, V>) -> Self::Out;
}

impl<T, V: Send, F: Fn(V, T) -> V + Sync + Send> Step<T, V, Whole> for F {
    type Break = Infallible;
    type Out = V;

    #[inline]
    fn step(&self, value: V, item: T) -> ControlFlow<Infallible, V> {
        ControlFlow::Continue(self(value, item))
    }

    fn out(end: ControlFlow<Infallible, V>) -> V {
        let ControlFlow::Continue(value) = end;
        value
    }
}

impl<T, R: Try + Send, F: Fn(R::Output, T) -> R + Sync + Send> Step<T, R::Output, R> for F {
    type Break = R::Residual;
    type Out = R;

    #[inline]
    fn step(&self, value: R::Output, item: T) -> ControlFlow<R::Residual, R::Output> {
        self(value, item).branch()
    }

    fn out(end: ControlFlow<R::Residual, R::Output>) -> R {
        match end {
            ControlFlow::Continue(value) => R::from_output(value),
            ControlFlow::Break(residual) => R::from_residual(residual),
        }
    }
}

struct FoldStage<'f, S, F, K> {
    seed: S,
    f: &'f F,
    kind: PhantomData<fn() -> K>,
}

impl<'f, T, S, F, K> Stage<T> for FoldStage<'f, S, F, K>
where
    S: Seed,
    F: Step<T, S::Value, K>,
{
    type Run = FoldRun<'f, ControlFlow<F::Break, S::Value>, F, K>;
    const KEEPS_COUNT: bool = false;

    fn fork(&self) -> Self {
        Self { seed: self.seed.fork(), ..*self }
    }

    fn start(self) -> Self::Run {
        let value = Some(ControlFlow::Continue(self.seed.sprout()));
        FoldRun { value, f: self.f, kind: PhantomData }
    }
}

/// `value` is there except while a step has it.
struct FoldRun<'f, V, F, K> {
    value: Option<V>,
    f: &'f F,
    kind: PhantomData<fn() -> K>,
}

impl<T, V, K, F: Step<T, V, K>> Pass<T> for FoldRun<'_, ControlFlow<F::Break, V>, F, K> {
    type Out = F::Out;

    fn pass<G: Folder<F::Out>>(&mut self, mut items: impl Iterator<Item = T>, next: G) -> G {
        self.value = match self.value.take() {
            Some(ControlFlow::Continue(value)) => {
                let end = items.try_fold(value, |value, item| match self.f.step(value, item) {
                    // A2 of `stage`: the item stays here, so nobody else asks.
                    ControlFlow::Continue(value) if !next.full() => Ok(value),
                    end => Err(end),
                });
                Some(end.map_or_else(|end| end, ControlFlow::Continue))
            }
            broken => broken,
        };
        next
    }

    fn finish<G: Folder<F::Out>>(self, next: G) -> G {
        match self.value {
            Some(end) => next.consume(F::out(end)),
            None => next,
        }
    }

    fn full(&self) -> bool {
        matches!(self.value, Some(ControlFlow::Break(_)))
    }
}

impl<I, S, F, K> ParallelIterator for Folds<I, S, F, K>
where
    I: ParallelIterator,
    S: Sow,
    F: Step<I::Item, S::Value, K>,
{
    type Item = F::Out;

    fn drive<C: Consumer<F::Out>>(self, consumer: C) -> C::Result {
        let stage = FoldStage { seed: self.sow.seed(), f: &self.f, kind: self.kind };
        self.base.drive(Through { next: consumer, stage })
    }
}
