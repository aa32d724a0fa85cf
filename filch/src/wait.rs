//! Waiting for handles: one, a tuple of several, or as many as there are.
//!
//! V1. A job that nobody has started is run in place by whoever waits for it.
//! V2. All are waited for before the first panic continues, so nothing is left half-way.

use std::future::Future;

use crate::sched::blocking::{claim_and_run, is_pinned_here, wait_for_task};
use crate::task::budget;
use crate::task::join::{JoinError, JoinHandle};

impl<T> JoinHandle<T> {
    /// Blocks until the task has ended and returns its output, from any thread.
    ///
    /// A job that has not started is run here. On a worker thread, a spare takes the worker's
    /// place while it waits.
    ///
    /// ```
    /// assert_eq!(filch::spawn_fn(|| 6 * 7).wait(), 42);
    /// assert_eq!(filch::spawn(async { 6 * 7 }).wait(), 42);
    /// ```
    ///
    /// # Panics
    /// If the task panicked, with its panic; if it was cancelled; on the worker that the task is
    /// pinned to (`spawn_local`), because it could not run meanwhile.
    #[track_caller]
    pub fn wait(self) -> T {
        match self.wait_outcome() {
            Ok(value) => value,
            Err(error) => error.resume(),
        }
    }

    /// As [`JoinHandle::wait`], but tells a panic from a cancellation.
    ///
    /// ```
    /// let error = filch::spawn_fn(|| panic!("oh")).wait_outcome().unwrap_err();
    /// assert!(error.is_panic());
    /// ```
    ///
    /// # Errors
    /// If the task panicked or was cancelled.
    ///
    /// # Panics
    /// If the outcome was taken before, by awaiting a reference to the handle.
    pub fn wait_outcome(mut self) -> Result<T, JoinError> {
        self.wait_end();
        self.take()
    }

    /// Blocks until the task has ended.
    #[track_caller]
    fn wait_end(&mut self) {
        if is_pinned_here(self.raw()) && !self.is_finished() {
            panic!("{:?} is pinned to this worker, which would wait here for ever", self.id());
        }
        // V1; the handle keeps the cell alive.
        if !claim_and_run(self.raw()) {
            wait_for_task(self.raw(), |waker| self.set_waiter(waker));
        }
        debug_assert!(self.is_finished());
    }
}

/// What [`wait`] and [`wait_async`] take: a handle, a tuple of such, or a vector.
///
/// ```
/// use filch::Waitable;
/// let pair = (filch::spawn(async { 1 }), filch::spawn_fn(|| "two"));
/// assert_eq!(pair.wait_here(), (1, "two"));
/// ```
pub trait Waitable: Sized {
    /// What comes of it.
    type Output;

    /// Blocks until all have ended, without looking at what came of them.
    #[doc(hidden)]
    fn wait_ends(&mut self);

    /// Awaits that all have ended, without looking at what came of them.
    #[doc(hidden)]
    fn ends(&mut self) -> impl Future<Output = ()>;

    /// Takes the outputs; all have ended.
    #[doc(hidden)]
    fn take_all(self) -> Self::Output;

    /// Blocks until all have ended, and returns the outputs.
    ///
    /// ```
    /// use filch::Waitable;
    /// assert_eq!(filch::spawn(async { 3 }).wait_here(), 3);
    /// ```
    ///
    /// # Panics
    /// With the first panic among them, once all have ended.
    #[track_caller]
    fn wait_here(mut self) -> Self::Output {
        self.wait_ends();
        self.take_all()
    }
}

impl<T> Waitable for JoinHandle<T> {
    type Output = T;

    fn wait_ends(&mut self) {
        self.wait_end();
    }

    async fn ends(&mut self) {
        std::future::poll_fn(|cx| self.poll_end(cx)).await;
    }

    fn take_all(mut self) -> T {
        self.take().unwrap_or_else(|error| error.resume())
    }
}

impl<W: Waitable> Waitable for Vec<W> {
    type Output = Vec<W::Output>;

    fn wait_ends(&mut self) {
        // Newest first: the last spawned job is the one least likely to have started.
        self.iter_mut().rev().for_each(W::wait_ends);
    }

    async fn ends(&mut self) {
        for handle in self {
            handle.ends().await;
        }
    }

    fn take_all(self) -> Self::Output {
        self.into_iter().map(W::take_all).collect()
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        #[allow(non_snake_case)]
        impl<$($name: Waitable),+> Waitable for ($($name,)+) {
            type Output = ($($name::Output,)+);

            fn wait_ends(&mut self) {
                let ($($name,)+) = self;
                $($name.wait_ends();)+
            }

            async fn ends(&mut self) {
                let ($($name,)+) = self;
                $($name.ends().await;)+
            }

            fn take_all(self) -> Self::Output {
                let ($($name,)+) = self;
                ($($name.take_all(),)+)
            }
        }
    )*};
}

tuples! {
    A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H;
    A B C D E F G H I; A B C D E F G H I J; A B C D E F G H I J K; A B C D E F G H I J K L;
}

/// Blocks until all have ended, from any thread, and returns the outputs.
///
/// ```
/// let (a, b) = filch::wait((filch::spawn(async { 1 }), filch::spawn_fn(|| 2.0)));
/// assert_eq!((a, b), (1, 2.0));
/// ```
///
/// # Panics
/// With the first panic among them, once all have ended.
#[track_caller]
pub fn wait<W: Waitable>(handles: W) -> W::Output {
    handles.wait_here()
}

/// Awaits that all have ended, and returns the outputs.
///
/// ```
/// let (a, b) = filch::block_on(async {
///     filch::wait_async((filch::spawn(async { 1 }), filch::spawn_fn(|| 2))).await
/// });
/// assert_eq!(a + b, 3);
/// ```
///
/// # Panics
/// With the first panic among them, once all have ended.
pub async fn wait_async<W: Waitable>(mut handles: W) -> W::Output {
    budget::counted(handles.ends()).await;
    handles.take_all()
}

/// Blocks until all handles of an iterator have ended, and returns their outputs in order.
///
/// ```
/// let squares = filch::wait_all((0..4).map(|i| filch::spawn_fn(move || i * i)));
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
///
/// # Panics
/// With the first panic among them, once all have ended.
#[track_caller]
pub fn wait_all<W: Waitable>(handles: impl IntoIterator<Item = W>) -> Vec<W::Output> {
    wait(handles.into_iter().collect::<Vec<_>>())
}

/// Awaits that all handles of an iterator have ended, and returns their outputs in order.
///
/// ```
/// let squares = filch::block_on(async {
///     filch::wait_all_async((0..4).map(|i| filch::spawn(async move { i * i }))).await
/// });
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
///
/// # Panics
/// With the first panic among them, once all have ended.
pub async fn wait_all_async<W: Waitable>(handles: impl IntoIterator<Item = W>) -> Vec<W::Output> {
    wait_async(handles.into_iter().collect::<Vec<_>>()).await
}
