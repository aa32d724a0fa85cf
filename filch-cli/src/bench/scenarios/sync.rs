//! Channels and locks, each runtime with its own: what a program on it would use.
//!
//! Tokio has no channel with several receivers; both peers run `async-channel`, which is smol's.

use super::{Entry, Load, Run, per_op};
use crate::bench::peers::{Filch, Peer, started};
#[cfg(feature = "peers")]
use crate::bench::peers::{Smol, Tokio};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

/// Producers, and as many consumers.
const ENDS: usize = 4;

/// Messages that a channel holds.
const CAPACITY: usize = 128;

/// Tasks that want one lock.
const TASKS: usize = 16;

pub fn entries() -> Vec<Entry> {
    vec![
        Entry::per_op(
            "channel_4x4",
            "4 producers, 4 consumers, one channel that holds 128, per message",
            vec![
                Run { runtime: Filch::NAME, sample: channel_4x4::<Filch> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: channel_4x4::<Tokio> },
                #[cfg(feature = "peers")]
                Run { runtime: Smol::NAME, sample: channel_4x4::<Smol> },
            ],
        ),
        Entry::per_op(
            "lock_contended",
            "16 tasks count under one async mutex, per increment",
            vec![
                Run { runtime: Filch::NAME, sample: lock_contended::<Filch> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: lock_contended::<Tokio> },
            ],
        ),
    ]
}

/// A channel with several receivers.
trait Channel: Peer {
    type Sender: Clone + Send + Sync;
    type Receiver: Clone + Send + Sync;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver);
    fn send(sender: &Self::Sender, message: usize) -> impl Future<Output = ()> + Send;
    fn recv(receiver: &Self::Receiver) -> impl Future<Output = Option<usize>> + Send;
}

impl Channel for Filch {
    type Sender = filch::sync::mpmc::Sender<usize>;
    type Receiver = filch::sync::mpmc::Receiver<usize>;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
        filch::sync::mpmc::bounded(capacity)
    }

    async fn send(sender: &Self::Sender, message: usize) {
        sender.send(message).await.expect("somebody receives");
    }

    async fn recv(receiver: &Self::Receiver) -> Option<usize> {
        receiver.recv().await.ok()
    }
}

#[cfg(feature = "peers")]
macro_rules! async_channel {
    ($($peer:ty),+) => {$(
        impl Channel for $peer {
            type Sender = async_channel::Sender<usize>;
            type Receiver = async_channel::Receiver<usize>;

            fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
                async_channel::bounded(capacity)
            }

            async fn send(sender: &Self::Sender, message: usize) {
                sender.send(message).await.expect("somebody receives");
            }

            async fn recv(receiver: &Self::Receiver) -> Option<usize> {
                receiver.recv().await.ok()
            }
        }
    )+};
}
#[cfg(feature = "peers")]
async_channel!(Tokio, Smol);

fn channel_4x4<P: Channel>(load: Load) -> Vec<f64> {
    let messages: usize = load.pick(500_000, 10_000);
    let peer = started::<P>(load.threads);
    let start = Instant::now();
    let received = peer.run_on_worker(exchange::<P>(messages));
    let elapsed = start.elapsed();
    assert_eq!(received, ENDS * messages);
    per_op(elapsed, received)
}

/// Each producer sends so many messages; returns how many arrive.
async fn exchange<P: Channel>(messages: usize) -> usize {
    let (sender, receiver) = P::bounded(CAPACITY);
    for _ in 0..ENDS {
        let sender = sender.clone();
        P::detach(P::spawn(async move {
            for message in 0..messages {
                P::send(&sender, message).await;
            }
        }));
    }
    drop(sender);
    let consume = |receiver: P::Receiver| async move {
        let mut received = 0;
        while P::recv(&receiver).await.is_some() {
            received += 1;
        }
        received
    };
    let consumers: Vec<_> = (0..ENDS).map(|_| P::spawn(consume(receiver.clone()))).collect();
    let mut received = 0;
    for consumer in consumers {
        received += consumer.await;
    }
    received
}

/// A lock that tasks wait for.
trait Lock: Peer {
    type Mutex: Send + Sync + 'static;

    fn mutex() -> Self::Mutex;
    fn add_one(mutex: &Self::Mutex) -> impl Future<Output = usize> + Send;
}

macro_rules! lock {
    ($peer:ty, $mutex:path) => {
        impl Lock for $peer {
            type Mutex = $mutex;

            fn mutex() -> $mutex {
                <$mutex>::new(0)
            }

            async fn add_one(mutex: &$mutex) -> usize {
                let mut sum = mutex.lock().await;
                *sum += 1;
                *sum
            }
        }
    };
}
lock!(Filch, filch::sync::Mutex<usize>);
#[cfg(feature = "peers")]
lock!(Tokio, tokio::sync::Mutex<usize>);

fn lock_contended<P: Lock>(load: Load) -> Vec<f64> {
    let turns: usize = load.pick(200_000, 5_000);
    let peer = started::<P>(load.threads);
    let start = Instant::now();
    let sum = peer.run_on_worker(async move {
        let mutex = Arc::new(P::mutex());
        let count = |mutex: Arc<P::Mutex>| async move {
            for _ in 0..turns {
                P::add_one(&mutex).await;
            }
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| P::spawn(count(mutex.clone()))).collect();
        for task in tasks {
            task.await;
        }
        P::add_one(&mutex).await - 1
    });
    let elapsed = start.elapsed();
    assert_eq!(sum, TASKS * turns);
    per_op(elapsed, sum)
}
