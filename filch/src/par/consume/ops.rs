//! Endings that make one value of all items.

use std::iter::{Product, Sum};
use std::marker::PhantomData;
use std::ops::ControlFlow;

use super::Op;
use crate::base::shim::{AtomicBool, Ordering};
use crate::par::tries::Try;

/// `for_each`.
pub(in crate::par) struct ForEach<F>(pub(in crate::par) F);

impl<T, F: Fn(T) + Sync> Op<T> for ForEach<F> {
    type Acc = ();

    fn start(&self) {}

    fn eat(&self, (): (), items: impl Iterator<Item = T>) {
        items.for_each(&self.0);
    }

    fn merge(&self, (): (), (): ()) {}
}

/// `count`.
pub(in crate::par) struct Count;

impl<T> Op<T> for Count {
    type Acc = usize;

    fn start(&self) -> usize {
        0
    }

    fn eat(&self, acc: usize, items: impl Iterator<Item = T>) -> usize {
        acc + items.count()
    }

    fn merge(&self, left: usize, right: usize) -> usize {
        left + right
    }
}

macro_rules! arithmetic {
    ($(#[$doc:meta])* $name:ident: $bound:ident, $method:ident) => {
        $(#[$doc])*
        pub(in crate::par) struct $name<S>(PhantomData<fn() -> S>);

        impl<S> $name<S> {
            pub(in crate::par) fn new() -> Self {
                Self(PhantomData)
            }
        }

        impl<T, S: $bound<T> + $bound<S> + Send> Op<T> for $name<S> {
            type Acc = Option<S>;

            fn start(&self) -> Option<S> {
                None
            }

            fn eat(&self, acc: Option<S>, items: impl Iterator<Item = T>) -> Option<S> {
                let sum = items.$method();
                Op::<T>::merge(self, acc, Some(sum))
            }

            fn merge(&self, left: Option<S>, right: Option<S>) -> Option<S> {
                match (left, right) {
                    (Some(left), Some(right)) => Some([left, right].into_iter().$method()),
                    (left, right) => left.or(right),
                }
            }
        }
    };
}

arithmetic! {
    /// `sum`, `None` where there was no item yet.
    Total: Sum, sum
}
arithmetic! {
    /// `product`, `None` where there was no item yet.
    Multiple: Product, product
}

/// `reduce`.
pub(in crate::par) struct Reduce<ID, F>(pub(in crate::par) ID, pub(in crate::par) F);

impl<T: Send, ID: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Op<T> for Reduce<ID, F> {
    type Acc = T;

    fn start(&self) -> T {
        (self.0)()
    }

    fn eat(&self, acc: T, items: impl Iterator<Item = T>) -> T {
        items.fold(acc, &self.1)
    }

    fn merge(&self, left: T, right: T) -> T {
        (self.1)(left, right)
    }
}

/// `reduce_with`, and what picks one item of all.
pub(in crate::par) struct ReduceWith<F>(pub(in crate::par) F);

impl<T: Send, F: Fn(T, T) -> T + Sync> Op<T> for ReduceWith<F> {
    type Acc = Option<T>;

    fn start(&self) -> Option<T> {
        None
    }

    fn eat(&self, acc: Option<T>, mut items: impl Iterator<Item = T>) -> Option<T> {
        acc.or_else(|| items.next()).map(|acc| items.fold(acc, &self.0))
    }

    fn merge(&self, left: Option<T>, right: Option<T>) -> Option<T> {
        match (left, right) {
            (Some(left), Some(right)) => Some((self.0)(left, right)),
            (left, right) => left.or(right),
        }
    }
}

/// `try_reduce`, `try_reduce_with`, `try_for_each`: ends with the leftmost break that was seen.
pub(in crate::par) struct TryReduce<ID, F> {
    pub(in crate::par) identity: ID,
    pub(in crate::par) f: F,
    over: AtomicBool,
}

/// The value of a piece: there is none before the first item if there is no identity.
type Tried<R> = ControlFlow<<R as Try>::Residual, Option<<R as Try>::Output>>;

impl<ID, F> TryReduce<ID, F> {
    pub(in crate::par) fn new(identity: ID, f: F) -> Self {
        Self { identity, f, over: AtomicBool::new(false) }
    }

    fn join<R: Try>(&self, left: Option<R::Output>, right: R::Output) -> Tried<R>
    where
        F: Fn(R::Output, R::Output) -> R,
    {
        let Some(left) = left else { return ControlFlow::Continue(Some(right)) };
        match (self.f)(left, right).branch() {
            ControlFlow::Continue(value) => ControlFlow::Continue(Some(value)),
            ControlFlow::Break(residual) => self.stop(residual),
        }
    }

    fn stop<B, C>(&self, residual: B) -> ControlFlow<B, C> {
        // ORDERING: Relaxed, a hint to stop early; the residual travels with the piece.
        self.over.store(true, Ordering::Relaxed);
        ControlFlow::Break(residual)
    }

    fn stopped(&self) -> bool {
        // ORDERING: Relaxed, as in `stop`.
        self.over.load(Ordering::Relaxed)
    }
}

impl<R, ID, F> Op<R> for TryReduce<ID, F>
where
    R: Try<Output: Send, Residual: Send>,
    ID: Fn() -> Option<R::Output> + Sync,
    F: Fn(R::Output, R::Output) -> R + Sync,
{
    type Acc = Tried<R>;
    const STOPS: bool = true;

    fn start(&self) -> Tried<R> {
        ControlFlow::Continue((self.identity)())
    }

    fn eat(&self, mut acc: Tried<R>, items: impl Iterator<Item = R>) -> Tried<R> {
        for item in items {
            acc = match item.branch() {
                ControlFlow::Continue(value) => self.join::<R>(acc?, value),
                ControlFlow::Break(residual) => self.stop(residual),
            };
            if self.stopped() {
                break;
            }
        }
        acc
    }

    fn merge(&self, left: Tried<R>, right: Tried<R>) -> Tried<R> {
        match (left?, right?) {
            (left, Some(right)) => self.join::<R>(left, right),
            (left, None) => ControlFlow::Continue(left),
        }
    }

    fn over(&self) -> bool {
        self.stopped()
    }
}
