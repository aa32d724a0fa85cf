//! Servers: every runtime with sockets behind one trait.
//!
//! S1. The runtime is built as in `peers` (P1 there).
//! S2. Each server is the loop that a user of that runtime would write: accept, a task for each
//!     connection, read into a buffer of the connection's own, write all of it. They differ in
//!     the runtime's calls only. filch reads and writes with its owned buffers (`read`,
//!     `write_all`), the calls that stand nearest to Tokio's; not with `recv`, whose chunks save the
//!     connection's own buffer.
//! S3. An error ends its connection, and a test of the same exchange would show it.
//!
//! Not here: the clients (`load`).

#[cfg(feature = "peers")]
mod compio;
mod filch;
#[cfg(feature = "peers")]
mod tokio;

#[cfg(feature = "peers")]
pub use compio::Compio;
pub use filch::{Filch, FilchEpoll, compute_on_filch};
#[cfg(feature = "peers")]
pub use tokio::{Tokio, TokioBlocking, TokioRayon, compute_on_rayon};

use super::stats::mix;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Where servers listen.
const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A runtime that serves.
pub trait Server: Sized + Sync {
    /// Its name in tables and files.
    const NAME: &'static str;

    /// Starts a runtime with this many workers.
    fn start(threads: usize) -> Self;

    /// Serves echo from now on, with a buffer of so many bytes for each connection.
    fn echo(&self, buffer: usize) -> SocketAddr;
}

/// A server whose workers may be blocked.
pub trait Blocked: Server {
    /// Spawns a task that blocks its worker for so long.
    fn block(&self, time: Duration);
}

/// A server that computes on the side.
pub trait Computing: Server {
    /// Has so many threads, in this runtime's way, run the work until it is over.
    fn compute(&self, threads: usize, work: &'static Work);
}

/// Computation that goes on beside the server, in pieces of some 10 µs.
pub struct Work {
    /// Written by whoever measures, read by those who compute.
    is_over: AtomicBool,
    /// Pieces done: written by those who compute, read by whoever measures.
    pieces: AtomicU64,
}

/// Pieces of one parallel loop: some 5 ms on two cores.
pub const LOOP: usize = 1_000;

/// Steps of one piece.
const STEPS: u64 = 5_000;

impl Work {
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self { is_over: AtomicBool::new(false), pieces: AtomicU64::new(0) }))
    }

    pub fn end(&self) {
        // ORDERING: Relaxed, it publishes nothing.
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub fn goes_on(&self) -> bool {
        // ORDERING: Relaxed, as above.
        !self.is_over.load(Ordering::Relaxed)
    }

    pub fn piece(&self) {
        black_box((0..black_box(STEPS)).fold(0, |sum, step| mix(sum ^ step)));
        // ORDERING: Relaxed, a count that publishes nothing.
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    pub fn pieces(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.pieces.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "peers")]
    use super::{Compio, Tokio, TokioBlocking, TokioRayon};
    use super::{Computing, Filch, FilchEpoll, Server, Work};
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    fn echoes<S: Server>() {
        let server = S::start(1);
        let address = server.echo(100);
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).unwrap();
            let sent: Vec<u8> = (0..=255).cycle().take(10_000).collect();
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, sent, "{}", S::NAME);
        }
    }

    #[test]
    fn every_server_sends_back_what_it_gets_and_ends_when_the_client_does() {
        echoes::<Filch>();
        echoes::<FilchEpoll>();
        #[cfg(feature = "peers")]
        echoes::<Tokio>();
        #[cfg(feature = "peers")]
        echoes::<Compio>();
    }

    #[test]
    fn computation_goes_on_until_it_is_over() {
        fn computes<S: Computing>() {
            let (server, work) = (S::start(2), Work::new());
            server.compute(2, work);
            while work.pieces() < 10 {
                std::thread::yield_now();
            }
            work.end();
        }
        computes::<Filch>();
        #[cfg(feature = "peers")]
        computes::<TokioRayon>();
        #[cfg(feature = "peers")]
        computes::<TokioBlocking>();
    }
}
