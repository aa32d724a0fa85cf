//! Peers: every runtime under measurement behind one trait, so that a scenario is written once.
//!
//! P1. `start(n)` is the runtime as its own documentation builds it, with `n` workers and defaults
//!     otherwise.
//! P2. Each method is the call that a user of that runtime would write; none adds an allocation or
//!     a lock.
//!
//! Not here: what is measured (`scenarios`), in which order (`runner`).

mod filch;
#[cfg(feature = "peers")]
mod smol;
#[cfg(feature = "peers")]
mod tokio;

pub use filch::Filch;
#[cfg(feature = "peers")]
pub use smol::Smol;
#[cfg(feature = "peers")]
pub use tokio::Tokio;

use std::future::Future;
use std::time::{Duration, Instant};

/// The runtime that ratios refer to.
pub const BASE: &str = "filch";

/// A runtime that the benchmark can drive.
pub trait Peer: Sized + 'static {
    /// Its name in tables and files.
    const NAME: &'static str;

    /// A handle that yields the task's value and panics if the task did.
    type Join<T: Send + 'static>: Future<Output = T> + Send + Unpin + 'static;

    /// What a thread outside the runtime needs in order to spawn.
    type Remote: Clone + Send + 'static;

    /// Starts a runtime with this many workers.
    fn start(threads: usize) -> Self;

    /// A handle for threads outside.
    fn remote(&self) -> Self::Remote;

    /// Spawns from inside a task.
    fn spawn<T, F>(future: F) -> Self::Join<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static;

    /// Spawns from a thread outside.
    fn spawn_remote<T, F>(remote: &Self::Remote, future: F) -> Self::Join<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static;

    /// Lets a task go on without its handle.
    fn detach<T: Send + 'static>(join: Self::Join<T>);

    /// Goes to the back of the queue.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Runs the future as a task on a worker while the calling thread, outside, waits for it.
    fn run_on_worker<T, F>(&self, future: F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static;
}

/// A peer with timers.
pub trait TimerPeer: Peer {
    /// Waits until `at`.
    fn sleep_until(at: Instant) -> impl Future<Output = ()> + Send;

    /// Waits for a future for so long; true if it was ready first.
    fn timeout<F: Future<Output = ()> + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = bool> + Send;
}

/// Starts a runtime and lets one task through, so that thread creation is not measured.
pub fn started<P: Peer>(threads: usize) -> P {
    let peer = P::start(threads);
    peer.run_on_worker(P::yield_now());
    peer
}
