//! Echo servers under load from a second process (`load`), over loopback.
//!
//! N1. The server has a process of its own too, so that it can be kept to a core and is measured alone.
//!     With one worker it is pinned to the first core and the client to the second; with more, neither
//!     is.
//! N2. All servers get the same requests from the same client, and answer from buffers of one size.
//!
//! Not here: the servers (`servers`).

mod beside;

use super::{Entry, Load, Metric, Process, Run, WarmUp, Workers};
use crate::bench::load::{Figures, Order, Pace, Place};
use crate::bench::machine::{cores, pin};
#[cfg(feature = "peers")]
use crate::bench::servers::{Compio, Tokio};
use crate::bench::servers::{Filch, FilchEpoll, Server};
use std::time::Duration;

/// Of a connection, where replies are small. Some pages, as the examples of all runtimes have it.
const BUFFER: usize = 4 * 1024;

/// Of a connection that is sent many requests at once.
const LARGE_BUFFER: usize = 16 * 1024;

const NS_PER_OP: Metric = Metric { name: "ns_per_op", unit: "ns" };
const P50: Metric = Metric { name: "p50_us", unit: "us" };
const P99: Metric = Metric { name: "p99_us", unit: "us" };
const P999: Metric = Metric { name: "p999_us", unit: "us" };

/// One sampler, bound to each of these servers; peers stand in brackets.
macro_rules! served {
    ($sampler:path => $($own:ident),+ , [$($peer:ident),+]) => {
        vec![
            $(served!($sampler, $own),)+
            $(
                #[cfg(feature = "peers")]
                served!($sampler, $peer),
            )+
        ]
    };
    ($sampler:path, $server:ident) => {
        Run {
            runtime: <$server as $crate::bench::servers::Server>::NAME,
            sample: { use $sampler as sampler; sampler::<$server> },
        }
    };
}
use served;

/// The socket scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    let mut entries = vec![
        Entry {
            metrics: &[P50, P99],
            workers: Workers::Fixed(1),
            ..entry(
                "echo_1",
                "TCP echo of 64 B, 1 connection",
                served!(self::echo_1 => Filch, FilchEpoll, [Tokio, Compio]),
            )
        },
        entry(
            "echo_64",
            "TCP echo of 64 B, 64 connections, per request",
            served!(self::echo_64 => Filch, FilchEpoll, [Tokio, Compio]),
        ),
        Entry {
            workers: Workers::Fixed(1),
            ..entry(
                "echo_1000",
                "TCP echo of 64 B, 1,000 connections, per request",
                served!(self::echo_1000 => Filch, FilchEpoll, [Tokio, Compio]),
            )
        },
        Entry {
            metrics: &[Metric { name: "ns_per_kib", unit: "ns" }],
            ..entry(
                "echo_pipelined",
                "TCP echo of 1 KiB, 32 under way on each of 16 connections",
                served!(self::echo_pipelined => Filch, FilchEpoll, [Tokio, Compio]),
            )
        },
        entry(
            "churn",
            "connect, one echo of 64 B, close; 64 at a time, per connection",
            served!(self::churn => Filch, FilchEpoll, [Tokio, Compio]),
        ),
    ];
    entries.extend(beside::entries());
    entries
}

fn entry(name: &'static str, about: &'static str, runs: Vec<Run>) -> Entry {
    Entry {
        name,
        about,
        metrics: &[NS_PER_OP, P50, P99],
        workers: Workers::Asked,
        process: Process::Fresh,
        warm_up: WarmUp::OneRound,
        runs,
    }
}

/// Starts a server and its client where they belong (N1).
fn measure<S: Server>(load: Load, connections: usize, bytes: usize, pace: Pace) -> Figures {
    let place = match (load.threads, &cores()[..]) {
        (1, &[server, client, ..]) => {
            pin(server).expect("the core is ours to use");
            Place::Pinned(client)
        }
        _ => Place::Anywhere,
    };
    let server = S::start(load.threads);
    let buffer = if bytes > BUFFER / 16 { LARGE_BUFFER } else { BUFFER };
    let order = Order {
        address: server.echo(buffer),
        connections,
        bytes,
        pace,
        warm_up: Duration::from_millis(load.pick(200, 5)),
        window: Duration::from_millis(load.pick(800, 20)),
        place,
    };
    order.run().expect("the client ends well")
}

fn echo_1<S: Server>(load: Load) -> Vec<f64> {
    let figures = measure::<S>(load, 1, 64, Pace::Closed { in_flight: 1 });
    vec![figures.p50_us, figures.p99_us]
}

fn rate_and_latency(figures: Figures) -> Vec<f64> {
    vec![figures.ns_per_op(), figures.p50_us, figures.p99_us]
}

fn echo_64<S: Server>(load: Load) -> Vec<f64> {
    rate_and_latency(measure::<S>(load, 64, 64, Pace::Closed { in_flight: 1 }))
}

fn echo_1000<S: Server>(load: Load) -> Vec<f64> {
    rate_and_latency(measure::<S>(load, 1_000, 64, Pace::Closed { in_flight: 1 }))
}

fn echo_pipelined<S: Server>(load: Load) -> Vec<f64> {
    vec![measure::<S>(load, 16, 1_024, Pace::Closed { in_flight: 32 }).ns_per_op()]
}

fn churn<S: Server>(load: Load) -> Vec<f64> {
    rate_and_latency(measure::<S>(load, 64, 64, Pace::Churn))
}
