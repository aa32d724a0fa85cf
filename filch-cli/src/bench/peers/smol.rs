//! smol: its executor, run by plain threads until a shutdown channel closes, as its documentation
//! shows.

use super::Peer;
use async_channel::Sender;
use async_executor::{Executor, Task};
use futures_lite::future;
use std::cell::OnceCell;
use std::future::Future;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

thread_local! {
    /// The executor that this worker thread runs; set once, when the thread starts.
    static CURRENT: OnceCell<Arc<Executor<'static>>> = const { OnceCell::new() };
}

pub struct Smol {
    executor: Arc<Executor<'static>>,
    shutdown: Sender<()>,
    workers: Vec<JoinHandle<()>>,
}

impl Peer for Smol {
    const NAME: &'static str = "smol";
    type Join<T: Send + 'static> = Task<T>;
    type Remote = Arc<Executor<'static>>;

    fn start(threads: usize) -> Self {
        let executor = Arc::new(Executor::new());
        let (shutdown, closed) = async_channel::bounded::<()>(1);
        let worker = |_| {
            let (executor, closed) = (Arc::clone(&executor), closed.clone());
            thread::spawn(move || {
                CURRENT.with(|current| {
                    current.get_or_init(|| Arc::clone(&executor));
                });
                // An error says that the channel has closed, which is the signal.
                let _ = future::block_on(executor.run(closed.recv()));
            })
        };
        let workers = (0..threads).map(worker).collect();
        Self { executor, shutdown, workers }
    }

    fn remote(&self) -> Self::Remote {
        Arc::clone(&self.executor)
    }

    fn spawn<T, F>(future: F) -> Task<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        CURRENT.with(|current| current.get().expect("called on a worker").spawn(future))
    }

    fn spawn_remote<T, F>(remote: &Self::Remote, future: F) -> Task<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        remote.spawn(future)
    }

    fn detach<T: Send + 'static>(join: Task<T>) {
        join.detach();
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }

    fn run_on_worker<T, F>(&self, future: F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        future::block_on(self.executor.spawn(future))
    }
}

impl Drop for Smol {
    fn drop(&mut self) {
        self.shutdown.close();
        for worker in self.workers.drain(..) {
            worker.join().expect("no task panicked");
        }
    }
}
