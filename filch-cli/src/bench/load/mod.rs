//! Load: the other side of the I/O scenarios, a client in a process of its own.
//!
//! L1. One thread, blocking sockets, level-triggered epoll: a reply costs one receive and its share of
//!     a wait. It is still about as busy as a server on one worker, which compresses ratios there.
//! L2. Nothing but loopback is connected to, and every run is bounded in time: by its window, and by
//!     an error when nothing comes for a while.
//! L3. A latency runs from just before the send to just after the receive of the whole reply. A
//!     connection may have several requests under way, so that a server that keeps one waiting keeps no
//!     other from being sent.
//! L4. What is exchanged before the window is not counted. What waits for its reply at the end counts
//!     among the latencies with the time it has waited.
//!
//! Not here: servers (`servers`), what is asked of them (`scenarios/net`).

mod churn;
mod connection;
mod epoll;
mod exchange;
mod meter;

use super::machine;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a client is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub address: SocketAddr,
    pub connections: usize,
    /// Of each request and its reply.
    pub bytes: usize,
    pub pace: Pace,
    pub warm_up: Duration,
    pub window: Duration,
    pub place: Place,
}

/// When the next request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// When a reply has come; so many are under way on each connection.
    Closed { in_flight: usize },
    /// So many a second in all, each connection in turn, whatever has come.
    Open { per_second: u32 },
    /// As `Closed` with one, on a new connection each time.
    Churn,
}

/// Where and how a client runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Anywhere,
    /// On one core.
    Pinned(usize),
    /// Before others, where the system lets it: what competes with the server does not
    /// compete with who measures it.
    Urgent,
}

/// What a client has seen in its window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub exchanges: u64,
    /// Length of the window.
    pub ns: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// How much of a core the client used, from its start to its end.
    pub cpu: f64,
}

impl Figures {
    /// Time for each exchange.
    pub fn ns_per_op(&self) -> f64 {
        self.ns / self.exchanges.max(1) as f64
    }
}

impl Order {
    /// Runs the client in a process of its own, and waits for it.
    pub fn run(&self) -> io::Result<Figures> {
        let output = Command::new(std::env::current_exe()?)
            .arg("load")
            .arg(serde_json::to_string(self)?)
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("the client ended with {}", output.status)));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// The other side of `Order::run`.
pub fn load(order: &str) -> io::Result<()> {
    let order: Order = serde_json::from_str(order)?;
    assert!(order.address.ip().is_loopback(), "L2");
    machine::name_thread(c"load");
    match order.place {
        Place::Anywhere => {}
        Place::Pinned(core) => machine::pin(core)?,
        Place::Urgent => machine::hurry(),
    }
    let figures = match order.pace {
        Pace::Closed { in_flight } => exchange::closed(&order, in_flight),
        Pace::Open { per_second } => exchange::open(&order, per_second),
        Pace::Churn => churn::churn(&order),
    }?;
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &figures)?;
    out.flush()
}
