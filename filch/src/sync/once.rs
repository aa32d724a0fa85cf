//! Values that are made once, by whoever asks first.
//!
//! I1. The maker holds the only permit of `making`, and gives it back whether it has made the value,
//!     failed, panicked or was dropped; then the next one tries.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;

use super::coop;
use super::permits::{Attempt, Permits};

/// A cell that is written once, by a future if need be.
///
/// ```
/// use filch::sync::OnceCell;
/// static CONFIG: OnceCell<String> = OnceCell::const_new();
///
/// async fn config() -> &'static str {
///     CONFIG.get_or_init(async || String::from("loaded")).await
/// }
/// assert_eq!(filch::block_on(config()), "loaded");
/// assert!(CONFIG.get().is_some());
/// ```
pub struct OnceCell<T> {
    value: OnceLock<T>,
    making: Permits,
}

/// The right to make the value (I1).
struct Maker<'a>(&'a Permits);

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        self.0.give(1);
    }
}

impl<T> OnceCell<T> {
    /// An empty cell.
    ///
    /// ```
    /// assert!(filch::sync::OnceCell::<u32>::new().get().is_none());
    /// ```
    pub const fn new() -> Self {
        Self { value: OnceLock::new(), making: Permits::new(1) }
    }

    /// As [`OnceCell::new`], by the name that it has elsewhere.
    ///
    /// ```
    /// static CELL: filch::sync::OnceCell<u32> = filch::sync::OnceCell::const_new();
    /// assert!(CELL.get().is_none());
    /// ```
    pub const fn const_new() -> Self {
        Self::new()
    }

    /// The value, if there is one.
    ///
    /// ```
    /// let cell = filch::sync::OnceCell::from(7);
    /// assert_eq!(cell.get(), Some(&7));
    /// ```
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// As [`OnceCell::get`], to be changed.
    ///
    /// ```
    /// let mut cell = filch::sync::OnceCell::from(7);
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.into_inner(), Some(8));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Whether there is a value.
    ///
    /// ```
    /// assert!(filch::sync::OnceCell::from(7).is_initialized());
    /// ```
    pub fn is_initialized(&self) -> bool {
        self.get().is_some()
    }

    /// Writes the value.
    ///
    /// ```
    /// use filch::sync::{OnceCell, SetError};
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(SetError::AlreadyInitialized(2)));
    /// ```
    ///
    /// # Errors
    /// With the value, if there is one, or somebody is making one.
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        let maker = match self.making.try_take(1) {
            Attempt::Taken => Maker(&self.making),
            _ if self.is_initialized() => return Err(SetError::AlreadyInitialized(value)),
            _ => return Err(SetError::Initializing(value)),
        };
        let set = self.value.set(value).map_err(SetError::AlreadyInitialized);
        drop(maker);
        set
    }

    /// The value, made by `init` if there is none. If several ask, one makes it and the others wait.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let cell = filch::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_init(async || 1).await, &1);
    /// assert_eq!(cell.get_or_init(async || 2).await, &1);
    /// # });
    /// ```
    ///
    /// # Panics
    /// If `init` does; the next one who asks tries again.
    ///
    /// # Cancel safety
    /// Dropped, it drops the future of `init`; the next one who waits tries with its own.
    pub async fn get_or_init<F>(&self, init: F) -> &T
    where
        F: AsyncFnOnce() -> T,
    {
        let made: Result<&T, std::convert::Infallible> =
            self.get_or_try_init(async || Ok(init().await)).await;
        match made {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// As [`OnceCell::get_or_init`], with an `init` that may fail.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let cell = filch::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(async || Err("not yet")).await, Err("not yet"));
    /// assert_eq!(cell.get_or_try_init(async || Ok::<_, ()>(1)).await, Ok(&1));
    /// # });
    /// ```
    ///
    /// # Errors
    /// If `init` fails; the next one who asks tries again.
    ///
    /// # Panics
    /// As [`OnceCell::get_or_init`].
    ///
    /// # Cancel safety
    /// As [`OnceCell::get_or_init`].
    pub async fn get_or_try_init<E, F>(&self, init: F) -> Result<&T, E>
    where
        F: AsyncFnOnce() -> Result<T, E>,
    {
        if let Some(value) = self.get() {
            coop::proceed().await;
            return Ok(value);
        }
        let taken = coop::take(&self.making, 1).await;
        debug_assert_eq!(taken, Ok(()), "these permits are never closed");
        let _maker = Maker(&self.making);
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let value = init().await?;
        Ok(self.value.get_or_init(|| value))
    }

    /// The value, if there is one.
    ///
    /// ```
    /// assert_eq!(filch::sync::OnceCell::from(7).into_inner(), Some(7));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out, if there is one, and leaves the cell empty.
    ///
    /// ```
    /// let mut cell = filch::sync::OnceCell::from(7);
    /// assert_eq!((cell.take(), cell.take()), (Some(7), None));
    /// ```
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self { value: OnceLock::from(value), making: Permits::new(1) }
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceCell").field("value", &self.get()).finish()
    }
}

/// Why a [`OnceCell`] was not written; it has the value.
///
/// ```
/// use filch::sync::{OnceCell, SetError};
/// assert_eq!(OnceCell::from(1).set(2), Err(SetError::AlreadyInitialized(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// There is a value.
    AlreadyInitialized(T),
    /// Somebody is making one.
    Initializing(T),
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyInitialized(_) => "the cell has a value",
            Self::Initializing(_) => "somebody is making a value for the cell",
        })
    }
}

impl<T: fmt::Debug> std::error::Error for SetError<T> {}

/// A value that is made when it is first asked for.
///
/// ```
/// use filch::sync::Lazy;
/// # filch::block_on(async {
/// let answer = Lazy::new(|| async { 6 * 7 });
/// assert_eq!(answer.get().await, &42);
/// # });
/// ```
///
/// If the future that makes it is dropped or panics, `init` is called again by the next who asks.
pub struct Lazy<T, F> {
    cell: OnceCell<T>,
    init: F,
}

impl<T, F, A> Lazy<T, F>
where
    F: Fn() -> A,
    A: Future<Output = T>,
{
    /// A value that `init` makes.
    ///
    /// ```
    /// let lazy = filch::sync::Lazy::new(|| async { 1 });
    /// assert_eq!(lazy.try_get(), None);
    /// ```
    pub const fn new(init: F) -> Self {
        Self { cell: OnceCell::new(), init }
    }

    /// The value, made now if nobody has asked before.
    ///
    /// ```
    /// let lazy = filch::sync::Lazy::new(|| async { 1 });
    /// assert_eq!(filch::block_on(lazy.get()), &1);
    /// ```
    ///
    /// # Panics
    /// If `init` does; the next one who asks tries again.
    ///
    /// # Cancel safety
    /// As [`OnceCell::get_or_init`].
    pub async fn get(&self) -> &T {
        self.cell.get_or_init(async || (self.init)().await).await
    }

    /// The value, if it was made.
    ///
    /// ```
    /// let lazy = filch::sync::Lazy::new(|| async { 1 });
    /// filch::block_on(lazy.get());
    /// assert_eq!(lazy.try_get(), Some(&1));
    /// ```
    pub fn try_get(&self) -> Option<&T> {
        self.cell.get()
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy").field("value", &self.cell.get()).finish()
    }
}
