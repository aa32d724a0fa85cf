//! tokio: the multi-thread scheduler with every driver enabled.

use super::{Peer, TimerPeer};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

pub struct Tokio(Runtime);

/// A `JoinHandle` that hands a panic on instead of returning it.
pub struct Join<T>(JoinHandle<T>);

impl<T> Future for Join<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| outcome.expect("the task panicked"))
    }
}

impl Peer for Tokio {
    const NAME: &'static str = "tokio";
    type Join<T: Send + 'static> = Join<T>;
    type Remote = Handle;

    fn start(threads: usize) -> Self {
        Self(
            Builder::new_multi_thread()
                .worker_threads(threads)
                .enable_all()
                .build()
                .expect("tokio starts"),
        )
    }

    fn remote(&self) -> Handle {
        self.0.handle().clone()
    }

    fn spawn<T, F>(future: F) -> Join<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        Join(tokio::spawn(future))
    }

    fn spawn_remote<T, F>(remote: &Handle, future: F) -> Join<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        Join(remote.spawn(future))
    }

    fn detach<T: Send + 'static>(join: Join<T>) {
        drop(join);
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn run_on_worker<T, F>(&self, future: F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.0.block_on(Join(self.0.spawn(future)))
    }
}

impl TimerPeer for Tokio {
    fn sleep_until(at: Instant) -> impl Future<Output = ()> + Send {
        tokio::time::sleep_until(at.into())
    }

    async fn timeout<F: Future<Output = ()> + Send>(time: Duration, future: F) -> bool {
        tokio::time::timeout(time, future).await.is_ok()
    }
}
