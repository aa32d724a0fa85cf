//! Hives: runtimes that take posts, tasks that nobody waits for, behind one trait.
//!
//! H1. Each method is the call that a user of that runtime would write. What a runtime lacks is what its
//!     users write instead: Tokio has no posts to a worker, so a thread of its own takes closures
//!     from a channel; no batches, so they are spawned one by one; and no delayed posts, so a task
//!     sleeps first. Its tasks are futures with a handle that is dropped, ours are closures without one.
//!
//! Not here: what is measured (`scenarios/hive`).

use super::peers::BASE;
use super::servers::{Work, compute_on_filch, compute_on_rayon};
use filch::{Handle, Role, Runtime, WorkerId};
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::mpsc;

/// How often the workers that take posts have slept: each sleep but the last ends with a wake.
#[derive(Clone, Copy)]
pub struct Sleeps {
    pub times: u64,
    pub workers: usize,
}

/// Workers that sleep when there is nothing to do.
pub trait Sleepers {
    /// Until now.
    fn sleeps(&self) -> Sleeps;
}

impl Sleepers for Runtime {
    fn sleeps(&self) -> Sleeps {
        let snapshot = self.snapshot();
        let micro = snapshot.workers.iter().filter(|worker| worker.role == Role::Io);
        let workers = self.workers().iter().filter(|worker| worker.role == Role::Io).count();
        Sleeps { times: micro.map(|worker| worker.counts.parks).sum(), workers }
    }
}

impl Sleepers for runtime::Handle {
    fn sleeps(&self) -> Sleeps {
        let (metrics, workers) = (self.metrics(), self.metrics().num_workers());
        let times = (0..workers).map(|worker| metrics.worker_park_count(worker)).sum();
        Sleeps { times, workers }
    }
}

/// A runtime that takes posts.
pub trait Hive: Sleepers + Sized + Sync + 'static {
    const NAME: &'static str;

    /// What a thread outside needs in order to post.
    type Remote: Clone + Send + 'static;

    fn start(threads: usize) -> Self;

    fn remote(&self) -> Self::Remote;

    /// For any worker.
    fn post<F: FnOnce() + Send + 'static>(remote: &Self::Remote, task: F);

    /// So many at once.
    fn post_batch<F: FnOnce() + Send + Copy + 'static>(
        remote: &Self::Remote,
        count: usize,
        task: F,
    );

    /// For later.
    fn post_delayed<F: FnOnce() + Send + 'static>(remote: &Self::Remote, delay: Duration, task: F);

    /// From inside a task, behind those of its worker, where others may steal it.
    fn post_local<F: FnOnce() + Send + 'static>(task: F);
}

pub struct Filch(Runtime);

impl Sleepers for Filch {
    fn sleeps(&self) -> Sleeps {
        self.0.sleeps()
    }
}

impl Hive for Filch {
    const NAME: &'static str = BASE;
    type Remote = Handle;

    fn start(threads: usize) -> Self {
        let builder = Runtime::builder().io_workers(threads).compute_workers(threads);
        Self(builder.build().expect("filch starts"))
    }

    fn remote(&self) -> Handle {
        self.0.handle()
    }

    fn post<F: FnOnce() + Send + 'static>(remote: &Handle, task: F) {
        remote.post(task).expect("it is open");
    }

    fn post_batch<F: FnOnce() + Send + Copy + 'static>(remote: &Handle, count: usize, task: F) {
        remote.post_batch((0..count).map(|_| task)).expect("it is open");
    }

    fn post_delayed<F: FnOnce() + Send + 'static>(remote: &Handle, delay: Duration, task: F) {
        drop(remote.post_delayed(delay, task).expect("it is open"));
    }

    fn post_local<F: FnOnce() + Send + 'static>(task: F) {
        filch::worker::post_local(task).expect("on a worker");
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

/// One thread of a program that can be sent closures, beside others.
pub trait Addressee: Sleepers + Sized + Sync + 'static {
    const NAME: &'static str;

    fn start(threads: usize) -> Self;

    fn post_to<F: FnOnce() + Send + 'static>(&self, task: F);
}

/// The last I/O worker.
pub struct FilchWorker(Runtime, WorkerId);

impl Sleepers for FilchWorker {
    fn sleeps(&self) -> Sleeps {
        self.0.sleeps()
    }
}

impl Addressee for FilchWorker {
    const NAME: &'static str = BASE;

    fn start(threads: usize) -> Self {
        let Filch(runtime) = Filch::start(threads);
        let worker = runtime.workers()[threads - 1].id;
        Self(runtime, worker)
    }

    fn post_to<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.post_to(self.1, task).expect("it is attached");
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

/// A hive that computes on the side.
pub trait Computes: Hive {
    /// Its name, with that of what computes.
    const TOGETHER: &'static str;

    /// Has so many threads run the work until it is over.
    fn compute(&self, threads: usize, work: &'static Work);
}

impl Computes for Filch {
    const TOGETHER: &'static str = BASE;

    fn compute(&self, _: usize, work: &'static Work) {
        compute_on_filch(&self.0.handle(), work);
    }
}

impl Computes for Tokio {
    const TOGETHER: &'static str = "tokio+rayon";

    fn compute(&self, threads: usize, work: &'static Work) {
        compute_on_rayon(threads, work);
    }
}
