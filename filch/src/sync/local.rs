//! Values that belong to a task, not to a thread.
//!
//! K1. While a scope's future is polled, or its closure runs, the value lies in a slot of the thread;
//!     between polls it lies in the scope's future. What lay in the slot before comes back afterwards,
//!     also by a panic.
//! K2. A slot says which task put the value there. Another task that runs on top of it, because the
//!     first one waits for it, does not see it, nor does a `block_on` inside of that one: whether a task is
//!     run in place or elsewhere makes no difference.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::thread;

use crate::task::header::Header;
use crate::task::{budget, context};

/// Declares values that belong to a task: statics of type [`LocalKey`](crate::sync::LocalKey).
///
/// ```
/// filch::task_local! {
///     /// Who asked.
///     pub static USER: String;
///     static DEPTH: u32;
/// }
///
/// let greeting = filch::block_on(USER.scope("Ada".to_owned(), async {
///     filch::yield_now().await; // the task may go on elsewhere, the value with it
///     USER.with(|user| format!("hello {user}"))
/// }));
/// assert_eq!(greeting, "hello Ada");
/// assert!(DEPTH.try_with(|_| ()).is_err());
/// ```
///
/// # Inheritance
/// A task that is spawned inside of a scope does not have the value: hand it over, and open a scope there.
/// The same holds for jobs and for the second half of a [`join`](crate::join()), which may run on another
/// thread.
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty; $($rest:tt)*) => {
        $crate::task_local!($(#[$attribute])* $visible static $name: $type);
        $crate::task_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty) => {
        $(#[$attribute])*
        $visible static $name: $crate::sync::LocalKey<$type> = {
            ::std::thread_local! {
                static SLOT: $crate::sync::__private::Slot<$type> =
                    const { $crate::sync::__private::Slot::empty() };
            }
            $crate::sync::LocalKey::__new(SLOT)
        };
    };
}

/// A slot of a thread (K1).
#[derive(Debug)]
pub struct Slot<T>(RefCell<Option<Held<T>>>);

impl<T> Slot<T> {
    /// One without a value.
    pub const fn empty() -> Self {
        Self(RefCell::new(None))
    }
}

/// A value, and the task that it belongs to; null outside of one (K2).
#[derive(Debug)]
struct Held<T> {
    value: T,
    owner: *const Header,
}

/// A value that belongs to a task; made by [`task_local!`](crate::task_local).
///
/// ```
/// filch::task_local! { static LEVEL: u32; }
/// LEVEL.sync_scope(3, || assert_eq!(LEVEL.get(), 3));
/// ```
pub struct LocalKey<T: 'static> {
    slot: thread::LocalKey<Slot<T>>,
}

/// No scope is open for the value here.
///
/// ```
/// filch::task_local! { static LEVEL: u32; }
/// let error: filch::sync::AccessError = LEVEL.try_with(|_| ()).unwrap_err();
/// assert_eq!(error.to_string(), "the task-local value is not set");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task-local value is not set")
    }
}

impl std::error::Error for AccessError {}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn __new(slot: thread::LocalKey<Slot<T>>) -> Self {
        Self { slot }
    }

    /// Runs a future that has the value, wherever it is polled. The value is dropped with it; it is not
    /// set while the future is dropped.
    ///
    /// ```
    /// filch::task_local! { static LEVEL: u32; }
    /// filch::block_on(LEVEL.scope(1, async {
    ///     LEVEL.scope(2, async { assert_eq!(LEVEL.get(), 2) }).await;
    ///     assert_eq!(LEVEL.get(), 1);
    /// }));
    /// ```
    ///
    /// # Panics
    /// If it is polled inside of [`LocalKey::with`] of the same key.
    pub async fn scope<F: Future>(&'static self, value: T, future: F) -> F::Output {
        let mut value = Some(value);
        let mut future = pin!(future);
        let scoped = poll_fn(|cx| self.with_value(&mut value, || future.as_mut().poll(cx)));
        budget::counted(scoped).await
    }

    /// Calls a closure that has the value.
    ///
    /// ```
    /// filch::task_local! { static LEVEL: u32; }
    /// assert_eq!(LEVEL.sync_scope(1, || LEVEL.get()), 1);
    /// ```
    ///
    /// # Panics
    /// Inside of [`LocalKey::with`] of the same key.
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        self.with_value(&mut Some(value), f)
    }

    /// Calls `f` with the value.
    ///
    /// ```
    /// filch::task_local! { static NAME: String; }
    /// NAME.sync_scope("Ada".to_owned(), || NAME.with(|name| assert_eq!(name, "Ada")));
    /// ```
    ///
    /// # Panics
    /// If no scope is open for it.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls `f` with the value, if a scope is open for it.
    ///
    /// ```
    /// filch::task_local! { static LEVEL: u32; }
    /// assert!(LEVEL.try_with(|_| ()).is_err());
    /// ```
    ///
    /// # Errors
    /// If none is.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let call = |slot: &Slot<T>| {
            let held = slot.0.borrow();
            let owner = context::owner();
            // K2.
            let visible = |held: &&Held<T>| held.owner == owner;
            held.as_ref().filter(visible).map(|held| f(&held.value)).ok_or(AccessError(()))
        };
        self.slot.try_with(call).unwrap_or(Err(AccessError(())))
    }

    /// A copy of the value.
    ///
    /// ```
    /// filch::task_local! { static LEVEL: u32; }
    /// assert_eq!(LEVEL.sync_scope(3, || LEVEL.get()), 3);
    /// ```
    ///
    /// # Panics
    /// If no scope is open for it.
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// Calls `f` with the value in the slot (K1).
    #[track_caller]
    fn with_value<R>(&'static self, value: &mut Option<T>, f: impl FnOnce() -> R) -> R {
        let held = value.take().map(|value| Held { value, owner: context::owner() });
        let _inside = Inside { key: self, value, outer: self.swap(held) };
        f()
    }

    /// Puts something else into the slot.
    #[track_caller]
    fn swap(&'static self, held: Option<Held<T>>) -> Option<Held<T>> {
        self.slot.with(|slot| match slot.0.try_borrow_mut() {
            Ok(mut slot) => std::mem::replace(&mut *slot, held),
            Err(_) => panic!("a scope of a task-local value is opened inside of its `with`"),
        })
    }
}

/// A stretch with the value in the slot (K1).
struct Inside<'a, T: 'static> {
    key: &'static LocalKey<T>,
    value: &'a mut Option<T>,
    outer: Option<Held<T>>,
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        let held = self.key.swap(self.outer.take());
        *self.value = held.map(|held| held.value);
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalKey(..)")
    }
}
