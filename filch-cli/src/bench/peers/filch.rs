//! filch: as many I/O workers as asked for, and as many compute workers, which sleep here.

use super::{Peer, TimerPeer};
use filch::{Handle, JoinHandle, Runtime};
use std::future::Future;
use std::time::{Duration, Instant};

pub struct Filch(Runtime);

impl Peer for Filch {
    const NAME: &'static str = super::BASE;
    type Join<T: Send + 'static> = JoinHandle<T>;
    type Remote = Handle;

    fn start(threads: usize) -> Self {
        let runtime = Runtime::builder().io_workers(threads).compute_workers(threads).build();
        Self(runtime.expect("filch starts"))
    }

    fn remote(&self) -> Handle {
        self.0.handle()
    }

    fn spawn<T, F>(future: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        filch::spawn(future)
    }

    fn spawn_remote<T, F>(remote: &Handle, future: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        remote.spawn(future)
    }

    fn detach<T: Send + 'static>(join: JoinHandle<T>) {
        drop(join);
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        filch::yield_now()
    }

    fn run_on_worker<T, F>(&self, future: F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.0.handle().spawn(future).wait()
    }
}

impl TimerPeer for Filch {
    fn sleep_until(at: Instant) -> impl Future<Output = ()> + Send {
        filch::time::sleep_until(at.into())
    }

    async fn timeout<F: Future<Output = ()> + Send>(time: Duration, future: F) -> bool {
        filch::time::timeout(time, future).await.is_ok()
    }
}
