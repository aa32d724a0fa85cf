//! Hives: runtimes that take posts, tasks that nobody waits for, behind one trait.
//!
//! H1. Each method is the call that a user of that runtime would write. What a runtime lacks is what its
//!     users write instead: Tokio has no posts to a worker, so a thread of its own takes closures
//!     from a channel; no batches, so they are spawned one by one; and no delayed posts, so a task
//!     sleeps first. Its tasks are futures with a handle that is dropped, ours are closures without one.
//!
//! Not here: what is measured (`scenarios/hive`).

#[cfg(feature = "peers")]
mod tokio;

#[cfg(feature = "peers")]
pub use tokio::{Tokio, TokioChannel};

use super::peers::BASE;
use super::servers::{Work, compute_on_filch};
use filch::{Handle, Role, Runtime, WorkerId};
use std::time::Duration;

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
