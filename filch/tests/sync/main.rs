//! Locks, signs, channels, `select!` and task-local values: what they promise, and what a drop at any
//! moment must not lose.

mod bounds;
mod budget;
mod cancel;
mod channels;
mod locks;
mod macros;
mod model;
mod ready;
mod sims;
mod streams;

#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/support.rs"]
mod support;
#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/watchdog.rs"]
mod watchdog;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use support::CountingWaker;

/// A future that a test polls by hand.
struct Hand<F> {
    future: Pin<Box<F>>,
    wakes: Arc<CountingWaker>,
}

impl<F: Future> Hand<F> {
    fn new(future: F) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// One that was polled and waits.
    #[track_caller]
    fn waiting(future: F) -> Self {
        let mut hand = Self::new(future);
        assert!(hand.poll().is_none(), "it should wait");
        hand
    }

    fn poll(&mut self) -> Option<F::Output> {
        let waker = Waker::from(self.wakes.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn wakes(&self) -> usize {
        self.wakes.wakes()
    }
}
