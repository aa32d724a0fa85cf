//! Bodies: what a node runs, behind a data pointer and a function, both of which a plan copies.
//!
//! B1. A body is called by any number of threads at once (runs of one graph may overlap), so it is `Sync`.
//! B2. It is dropped once, with the graph or when the node is erased or filled anew.
//!
//! Not here: when it is called (`work`).

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::work::Hand;

/// What a node asks for at its end.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All successors get their token.
    Done,
    /// Of the successors of a condition, this one is run; none if there are not so many.
    Pick(u32),
    /// The body has left more in its [`Hand`]: an error, several successors.
    Told,
    /// The node goes on elsewhere; a [`super::work::Held`] ends it.
    Held,
}

pub(super) type CallFn = unsafe fn(NonNull<()>, &Hand<'_>) -> Step;

struct Vtable {
    call: CallFn,
    drop: unsafe fn(NonNull<()>),
}

/// A closure of a node, of which the type is forgotten.
pub(super) struct Body<'env> {
    data: NonNull<()>,
    vtable: &'static Vtable,
    life: PhantomData<Box<dyn Fn() + Send + Sync + 'env>>,
}

// SAFETY: made from a closure that is `Send`.
unsafe impl Send for Body<'_> {}
// SAFETY: made from a closure that is `Sync`.
unsafe impl Sync for Body<'_> {}

impl<'env> Body<'env> {
    #[inline]
    pub(super) fn new<F: Fn(&Hand<'_>) -> Step + Send + Sync + 'env>(f: F) -> Self {
        let data = NonNull::from(Box::leak(Box::new(f))).cast();
        let vtable = const { &Vtable { call: call::<F>, drop: drop_box::<F> } };
        Self { data, vtable, life: PhantomData }
    }

    /// The closure's data and how to call it; good as long as the body is.
    pub(super) fn parts(&self) -> (NonNull<()>, CallFn) {
        (self.data, self.vtable.call)
    }
}

/// # Safety
/// `data` is from a `Box<F>` that is alive.
unsafe fn call<F: Fn(&Hand<'_>) -> Step>(data: NonNull<()>, with: &Hand<'_>) -> Step {
    // SAFETY: by the caller's promise.
    let f = unsafe { data.cast::<F>().as_ref() };
    f(with)
}

/// # Safety
/// `data` is from a `Box<F>`, which the caller gives up.
unsafe fn drop_box<F>(data: NonNull<()>) {
    // SAFETY: by the caller's promise.
    drop(unsafe { Box::from_raw(data.cast::<F>().as_ptr()) });
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        // SAFETY: B2, made from a box, and dropped once.
        unsafe { (self.vtable.drop)(self.data) };
    }
}
