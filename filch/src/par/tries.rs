//! What the fallible loops take: values that go on or break off, as `?` knows them.
//!
//! Not here: users' own such types. std's trait is not stable, and this one is closed until it is.

use std::convert::Infallible;
use std::ops::ControlFlow;

/// [`Option`], [`Result`] and [`ControlFlow`]: what closures of
/// [`try_for_each`](super::ParallelIterator::try_for_each) and its kin may return.
///
/// ```
/// use std::ops::ControlFlow;
/// use filch::par::prelude::*;
///
/// let found = (1..100).into_par_iter().try_for_each(|n| match n * n == 49 {
///     true => ControlFlow::Break(n),
///     false => ControlFlow::Continue(()),
/// });
/// assert_eq!(found, ControlFlow::Break(7));
/// ```
pub trait Try: sealed::Sealed {
    /// What it holds when it goes on.
    type Output;
    /// What it holds when it breaks off.
    type Residual;

    /// One that goes on.
    fn from_output(output: Self::Output) -> Self;

    /// One that breaks off.
    fn from_residual(residual: Self::Residual) -> Self;

    /// Which of both it is.
    fn branch(self) -> ControlFlow<Self::Residual, Self::Output>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! tries {
    ($type:ty, <$($p:ident),+>, $output:ty, $residual:ty, $go:pat => $value:expr,
     $break:pat => $why:expr, $from:expr, $from_residual:expr) => {
        impl<$($p),+> sealed::Sealed for $type {}

        impl<$($p),+> Try for $type {
            type Output = $output;
            type Residual = $residual;

            #[inline]
            fn from_output(output: $output) -> Self {
                $from(output)
            }

            #[inline]
            fn from_residual(residual: $residual) -> Self {
                $from_residual(residual)
            }

            #[inline]
            fn branch(self) -> ControlFlow<$residual, $output> {
                match self {
                    $go => ControlFlow::Continue($value),
                    $break => ControlFlow::Break($why),
                }
            }
        }
    };
}

tries!(Option<T>, <T>, T, Option<Infallible>,
    Some(value) => value, None => None, Some, |_| None);
tries!(Result<T, E>, <T, E>, T, E,
    Ok(value) => value, Err(error) => error, Ok, Err);
tries!(ControlFlow<B, C>, <B, C>, C, B,
    ControlFlow::Continue(value) => value, ControlFlow::Break(why) => why,
    ControlFlow::Continue, ControlFlow::Break);
