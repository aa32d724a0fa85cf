//! Typed edges of async nodes: closures that make a future from what other nodes returned.
//!
//! D4. As D1 and D2 of `params`, for as long as the future is there: where a node may run twice, readers are counted until it is dropped.
//! D5. A closure that takes a reference takes it for any lifetime, so it can keep it nowhere but in its future. That one is named
//!     as if the reference lived as long as what the closure borrows, and is dropped before it dies (A2 of `future`).

use std::future::Future;
use std::ptr::NonNull;

use super::output::Access;
use super::params::{ByRef, ByValue, MOST, Missing, Own, Params};
use super::slot::Slot;
use super::work::Hand;

/// A closure that can be an async node: up to four parameters, each a `&A` or an [`Own<A>`](Own), for the outputs of other nodes, and
/// a future that is `Send`.
///
/// `M` tells the compiler which of them; it is never written.
///
/// ```
/// let mut g = filch::Graph::new();
/// let a = g.node("a", || 1);
/// let b = g.async_node("b", async |a: &i32| a + 1).after(&a);
/// assert_eq!(g.run().take(b), 2);
/// ```
pub trait AsyncNodeFn<'env, M>: Send + Sync + Sized + 'env {
    /// What its future returns.
    type Output: 'env;
    /// What it takes.
    type Params: Params;
    #[doc(hidden)]
    type Future: Future<Output = Self::Output> + Send;
    #[doc(hidden)]
    type Reads: Send;

    /// Calls it with the outputs in these cells.
    ///
    /// # Safety
    /// The cells are those of the parameters' nodes, which come before the node of this closure. The future is dropped before
    /// the node ends and before its reads.
    #[doc(hidden)]
    unsafe fn begin(
        &self,
        hand: &Hand<'_>,
        cells: &[u32],
    ) -> Result<(Self::Future, Self::Reads), Missing>;
}

/// A closure that makes a future which may hold its arguments.
pub trait Call<Args> {
    type Output;
    type Future: Future<Output = Self::Output> + Send;

    fn call(&self, args: Args) -> Self::Future;
}

macro_rules! calls {
    ($($($P:ident)*;)*) => {$(
        #[allow(non_snake_case)]
        impl<F, A, $($P),*> Call<($($P,)*)> for F
        where
            F: Fn($($P),*) -> A,
            A: Future + Send,
        {
            type Output = A::Output;
            type Future = A;

            #[inline(always)]
            fn call(&self, ($($P,)*): ($($P,)*)) -> A {
                self($($P),*)
            }
        }
    )*};
}
calls! { ; P0; P0 P1; P0 P1 P2; P0 P1 P2 P3; }

impl<'env, F, T: 'env> AsyncNodeFn<'env, fn() -> T> for F
where
    F: Call<(), Output = T> + Send + Sync + 'env,
{
    type Output = T;
    type Params = ();
    type Future = <F as Call<()>>::Future;
    type Reads = ();

    #[inline(always)]
    unsafe fn begin(&self, _: &Hand<'_>, _: &[u32]) -> Result<(Self::Future, ()), Missing> {
        Ok((self.call(()), ()))
    }
}

/// What a future reads, until it is dropped (D4).
pub struct Reads {
    slot: NonNull<Slot>,
    cells: [u32; MOST],
    count: usize,
}

// SAFETY: the slot is `Sync`.
unsafe impl Send for Reads {}

impl Reads {
    fn new(slot: &Slot) -> Self {
        Self { slot: NonNull::from(slot), cells: [u32::MAX; MOST], count: 0 }
    }

    /// # Safety
    /// `cell` is that of a node which returns an `A` and comes before. The reference is not used after these reads are dropped.
    #[inline(always)]
    unsafe fn borrow<'a, A: 'a>(&mut self, cell: u32) -> Result<&'a A, Missing> {
        // SAFETY: A2 of `future`, the node has not ended, so its run goes on.
        let slot = unsafe { self.slot.as_ref() };
        // SAFETY: by the caller's promise.
        let value = unsafe { slot.outputs.borrow::<A>(cell, slot.access) }.map_err(Missing)?;
        if slot.access == Access::Guarded {
            self.cells[self.count] = cell;
            self.count += 1;
        }
        Ok(value)
    }
}

impl Drop for Reads {
    #[inline(always)]
    fn drop(&mut self) {
        for &cell in &self.cells[..self.count] {
            // SAFETY: A2 of `future`.
            let slot = unsafe { self.slot.as_ref() };
            // SAFETY: borrowed by `borrow`, guarded, and not used any more.
            unsafe { slot.outputs.unborrow_at(cell) };
        }
    }
}

macro_rules! parameter {
    (ByRef $A:ident $life:lifetime) => { &$life $A };
    (ByValue $A:ident $life:lifetime) => { Own<$A> };
}

macro_rules! fetch {
    (ByRef $A:ident $hand:ident $reads:ident $cell:expr) => {
        // SAFETY: by the caller's promise (D5).
        unsafe { $reads.borrow::<$A>($cell) }?
    };
    (ByValue $A:ident $hand:ident $reads:ident $cell:expr) => {
        // SAFETY: by the caller's promise; D2, nobody else is at it.
        Own(unsafe { $hand.slot.outputs.take::<$A>($cell) }.map_err(Missing)?)
    };
}

macro_rules! async_node_fn {
    ($($mode:ident $A:ident $value:ident $place:tt,)*) => {
        impl<'env, F, T: 'env, $($A: Send + Sync + 'env),*> AsyncNodeFn<'env, ($($mode<$A>,)* fn() -> T)> for F
        where
            F: for<'a> Call<($(parameter!($mode $A 'a),)*), Output = T> + Send + Sync + 'env,
        {
            type Output = T;
            type Params = ($($mode<$A>,)*);
            type Future = <F as Call<($(parameter!($mode $A 'env),)*)>>::Future;
            type Reads = Reads;

            #[inline(always)]
            unsafe fn begin(&self, hand: &Hand<'_>, cells: &[u32]) -> Result<(Self::Future, Reads), Missing> {
                #[allow(unused_mut)]
                let mut reads = Reads::new(hand.slot);
                $(let $value = fetch!($mode $A hand reads cells[$place]);)*
                Ok((self.call(($($value,)*)), reads))
            }
        }
    };
}

/// One closure type for each choice between reference and value.
macro_rules! async_node_fns {
    ([$($done:tt)*]) => { async_node_fn!($($done)*); };
    ([$($done:tt)*] $A:ident $value:ident $place:tt $($rest:tt)*) => {
        async_node_fns!([$($done)* ByRef $A $value $place,] $($rest)*);
        async_node_fns!([$($done)* ByValue $A $value $place,] $($rest)*);
    };
}
async_node_fns!([] A a 0);
async_node_fns!([] A a 0 B b 1);
async_node_fns!([] A a 0 B b 1 C c 2);
async_node_fns!([] A a 0 B b 1 C c 2 D d 3);
