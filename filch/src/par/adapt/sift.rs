//! Adaptors that drop items, or make several of one on the spot: `filter`, `filter_map`,
//! `flat_map_iter`, `flatten_iter`, `while_some`.

use super::stage::{Pass, Stage, Through};
use crate::base::shim::{AtomicBool, Ordering};
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder};

/// A stage that keeps nothing of its own: shared by all pieces.
macro_rules! shared_stage {
    ($stage:ident<$f:ident>: $($bound:tt)*) => {
        impl<T, $($bound)*> Stage<T> for $stage<'_, $f> {
            type Run = Self;
            const KEEPS_COUNT: bool = false;

            fn fork(&self) -> Self {
                Self(self.0)
            }

            fn start(self) -> Self {
                self
            }
        }
    };
}

/// Made by [`ParallelIterator::filter`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Filter<I, P> {
    pub(in crate::par) base: I,
    pub(in crate::par) predicate: P,
}

struct FilterStage<'f, P>(&'f P);
shared_stage!(FilterStage<P>: P: Fn(&T) -> bool + Sync);

impl<T, P: Fn(&T) -> bool> Pass<T> for FilterStage<'_, P> {
    type Out = T;
    const DROPS: bool = true;

    fn pass<F: Folder<T>>(&mut self, items: impl Iterator<Item = T>, next: F) -> F {
        next.consume_iter(items.filter(self.0))
    }
}

impl<I: ParallelIterator, P: Fn(&I::Item) -> bool + Sync + Send> ParallelIterator for Filter<I, P> {
    type Item = I::Item;

    fn drive<C: Consumer<I::Item>>(self, consumer: C) -> C::Result {
        self.base.drive(Through { next: consumer, stage: FilterStage(&self.predicate) })
    }
}

/// Made by [`ParallelIterator::filter_map`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct FilterMap<I, F> {
    pub(in crate::par) base: I,
    pub(in crate::par) f: F,
}

struct FilterMapStage<'f, F>(&'f F);
shared_stage!(FilterMapStage<F>: R, F: Fn(T) -> Option<R> + Sync);

impl<T, R, F: Fn(T) -> Option<R>> Pass<T> for FilterMapStage<'_, F> {
    type Out = R;
    const DROPS: bool = true;

    fn pass<G: Folder<R>>(&mut self, items: impl Iterator<Item = T>, next: G) -> G {
        next.consume_iter(items.filter_map(self.0))
    }
}

impl<I, R, F> ParallelIterator for FilterMap<I, F>
where
    I: ParallelIterator,
    R: Send,
    F: Fn(I::Item) -> Option<R> + Sync + Send,
{
    type Item = R;

    fn drive<C: Consumer<R>>(self, consumer: C) -> C::Result {
        self.base.drive(Through { next: consumer, stage: FilterMapStage(&self.f) })
    }
}

/// Made by [`ParallelIterator::flat_map_iter`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct FlatMapIter<I, F> {
    pub(in crate::par) base: I,
    pub(in crate::par) f: F,
}

struct FlatMapIterStage<'f, F>(&'f F);
shared_stage!(FlatMapIterStage<F>: R: IntoIterator, F: Fn(T) -> R + Sync);

impl<T, R: IntoIterator, F: Fn(T) -> R> Pass<T> for FlatMapIterStage<'_, F> {
    type Out = R::Item;
    const DROPS: bool = true;

    fn pass<G: Folder<R::Item>>(&mut self, items: impl Iterator<Item = T>, next: G) -> G {
        next.consume_iter(items.flat_map(self.0))
    }
}

impl<I, R, F> ParallelIterator for FlatMapIter<I, F>
where
    I: ParallelIterator,
    R: IntoIterator<Item: Send>,
    F: Fn(I::Item) -> R + Sync + Send,
{
    type Item = R::Item;

    fn drive<C: Consumer<R::Item>>(self, consumer: C) -> C::Result {
        self.base.drive(Through { next: consumer, stage: FlatMapIterStage(&self.f) })
    }
}

/// Made by [`ParallelIterator::flatten_iter`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct FlattenIter<I> {
    pub(in crate::par) base: I,
}

impl<I: ParallelIterator<Item: IntoIterator<Item: Send>>> ParallelIterator for FlattenIter<I> {
    type Item = <I::Item as IntoIterator>::Item;

    fn drive<C: Consumer<Self::Item>>(self, consumer: C) -> C::Result {
        self.base.drive(Through { next: consumer, stage: FlatMapIterStage(&|items| items) })
    }
}

/// Made by [`ParallelIterator::while_some`].
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct WhileSome<I> {
    pub(in crate::par) base: I,
}

/// The flag is set by the first `None`, wherever it turns up.
struct WhileSomeStage<'f, B>(&'f B);

impl<T> Stage<Option<T>> for WhileSomeStage<'_, AtomicBool> {
    type Run = Self;
    const KEEPS_COUNT: bool = false;

    fn fork(&self) -> Self {
        Self(self.0)
    }

    fn start(self) -> Self {
        self
    }

    fn full(&self) -> bool {
        // ORDERING: Relaxed, a hint to stop early; nothing is published.
        self.0.load(Ordering::Relaxed)
    }
}

impl<T> Pass<Option<T>> for WhileSomeStage<'_, AtomicBool> {
    type Out = T;
    const FILLED_BY_OTHERS: bool = true;

    fn pass<F: Folder<T>>(&mut self, items: impl Iterator<Item = Option<T>>, next: F) -> F {
        next.consume_iter(items.map_while(|item| {
            if item.is_none() {
                // ORDERING: Relaxed, as in `full`.
                self.0.store(true, Ordering::Relaxed);
            }
            // ORDERING: Relaxed, as in `full`.
            item.filter(|_| !self.0.load(Ordering::Relaxed))
        }))
    }

    fn full(&self) -> bool {
        Stage::<Option<T>>::full(self)
    }
}

impl<T: Send, I: ParallelIterator<Item = Option<T>>> ParallelIterator for WhileSome<I> {
    type Item = T;

    fn drive<C: Consumer<T>>(self, consumer: C) -> C::Result {
        let none = AtomicBool::new(false);
        self.base.drive(Through { next: consumer, stage: WhileSomeStage(&none) })
    }
}
