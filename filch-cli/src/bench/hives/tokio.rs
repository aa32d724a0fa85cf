//! Tokio, and what its users write in place of a hive (H1 of `hives`).

use super::{Addressee, Computes, Hive, Sleepers, Sleeps};
use crate::bench::servers::{Work, compute_on_rayon};
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::mpsc;

impl Sleepers for runtime::Handle {
    fn sleeps(&self) -> Sleeps {
        let (metrics, workers) = (self.metrics(), self.metrics().num_workers());
        let times = (0..workers).map(|worker| metrics.worker_park_count(worker)).sum();
        Sleeps { times, workers }
    }
}

pub struct Tokio(runtime::Runtime);

impl Sleepers for Tokio {
    fn sleeps(&self) -> Sleeps {
        self.0.handle().sleeps()
    }
}

impl Hive for Tokio {
    const NAME: &'static str = "tokio";
    type Remote = runtime::Handle;

    fn start(threads: usize) -> Self {
        let mut builder = runtime::Builder::new_multi_thread();
        Self(builder.worker_threads(threads).enable_all().build().expect("tokio starts"))
    }

    fn remote(&self) -> runtime::Handle {
        self.0.handle().clone()
    }

    fn post<F: FnOnce() + Send + 'static>(remote: &runtime::Handle, task: F) {
        drop(remote.spawn(async move { task() }));
    }

    fn post_batch<F: FnOnce() + Send + Copy + 'static>(
        remote: &runtime::Handle,
        count: usize,
        task: F,
    ) {
        (0..count).for_each(|_| Self::post(remote, task));
    }

    fn post_delayed<F: FnOnce() + Send + 'static>(
        remote: &runtime::Handle,
        delay: Duration,
        task: F,
    ) {
        drop(remote.spawn(async move {
            tokio::time::sleep(delay).await;
            task();
        }));
    }

    fn post_local<F: FnOnce() + Send + 'static>(task: F) {
        drop(tokio::spawn(async move { task() }));
    }
}

/// A thread with a runtime of its own that takes closures from a channel, beside Tokio's workers.
pub struct TokioChannel {
    posts: mpsc::UnboundedSender<Box<dyn FnOnce() + Send>>,
    thread: runtime::Handle,
    workers: Tokio,
}

impl Sleepers for TokioChannel {
    fn sleeps(&self) -> Sleeps {
        let (thread, others) = (self.thread.sleeps(), self.workers.sleeps());
        Sleeps { times: thread.times + others.times, workers: thread.workers + others.workers }
    }
}

impl Addressee for TokioChannel {
    const NAME: &'static str = "tokio";

    fn start(threads: usize) -> Self {
        let (posts, mut inbox) = mpsc::unbounded_channel::<Box<dyn FnOnce() + Send>>();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("tokio starts");
        let handle = runtime.handle().clone();
        thread::spawn(move || {
            runtime.block_on(async {
                while let Some(task) = inbox.recv().await {
                    task();
                }
            });
        });
        Self { posts, thread: handle, workers: Tokio::start(threads) }
    }

    fn post_to<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.posts.send(Box::new(task)).expect("the thread lives");
    }
}

impl Computes for Tokio {
    const TOGETHER: &'static str = "tokio+rayon";

    fn compute(&self, threads: usize, work: &'static Work) {
        compute_on_rayon(threads, work);
    }
}
