//! What else a program does, and what that means to those who wait for its replies: 5,000 requests a
//! second over 64 connections, sent when they are due.
//!
//! Nobody is pinned, and the client runs before others where the system lets it: it shares the cores
//! with what it measures.

use super::{BUFFER, Entry, Load, Metric, Order, P50, P99, P999, Pace, Place, WarmUp, Workers};
use super::{entry, served};
use crate::bench::load::Figures;
use crate::bench::machine::cores;
use crate::bench::scenarios::Run;
use crate::bench::servers::{Blocked, Computing, Filch, FilchEpoll, Server, Work};
#[cfg(feature = "peers")]
use crate::bench::servers::{Tokio, TokioBlocking, TokioRayon};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PACE: Pace = Pace::Open { per_second: 5_000 };

/// How long a task blocks its worker, of each period.
const BLOCKED: Duration = Duration::from_millis(100);
const PERIOD: Duration = Duration::from_millis(200);

pub fn entries() -> Vec<Entry> {
    vec![
        Entry {
            metrics: &[P50, P99, P999],
            workers: Workers::Fixed(2),
            warm_up: WarmUp::Needless,
            ..entry(
                "echo_5k",
                "TCP echo at 5,000 requests a second, 64 connections, nothing else",
                served!(self::echo_5k => Filch, FilchEpoll, [Tokio]),
            )
        },
        Entry {
            metrics: &[P50, P99, P999, Metric { name: "ns_per_piece", unit: "ns" }],
            workers: Workers::Fixed(cores().len()),
            warm_up: WarmUp::Needless,
            ..entry(
                "mixed",
                "as echo_5k, while a parallel loop saturates all cores; and the loop's pieces",
                served!(self::mixed => Filch, [TokioRayon, TokioBlocking]),
            )
        },
        Entry {
            metrics: &[P50, P99, Metric { name: "max_us", unit: "us" }],
            workers: Workers::Fixed(2),
            warm_up: WarmUp::Needless,
            ..entry(
                "hostage_io",
                "as echo_5k, while a task blocks one of 2 workers 100 ms of every 200",
                served!(self::hostage_io => Filch, FilchEpoll, [Tokio]),
            )
        },
    ]
}

fn order<S: Server>(server: &S, load: Load) -> Order {
    Order {
        address: server.echo(BUFFER),
        connections: 64,
        bytes: 64,
        pace: PACE,
        warm_up: Duration::from_millis(load.pick(300, 5)),
        window: load.window(),
        place: Place::Urgent,
    }
}

fn run(order: &Order) -> Figures {
    order.run().expect("the client ends well")
}

fn echo_5k<S: Server>(load: Load) -> Vec<f64> {
    let server = S::start(load.threads);
    let figures = run(&order(&server, load));
    vec![figures.p50_us, figures.p99_us, figures.p999_us]
}

fn mixed<S: Computing>(load: Load) -> Vec<f64> {
    let server = S::start(load.threads);
    let (order, work) = (order(&server, load), Work::new());
    server.compute(load.threads, work);
    let (start, before) = (Instant::now(), work.pieces());
    let figures = run(&order);
    let (ns, pieces) = (start.elapsed().as_nanos(), work.pieces() - before);
    work.end();
    vec![figures.p50_us, figures.p99_us, figures.p999_us, ns as f64 / pieces.max(1) as f64]
}

fn hostage_io<S: Blocked>(load: Load) -> Vec<f64> {
    let server = S::start(load.threads);
    let order = order(&server, load);
    let is_over = AtomicBool::new(false);
    let figures = thread::scope(|scope| {
        scope.spawn(|| {
            // ORDERING: Relaxed on both sides, it publishes nothing.
            while !is_over.load(Ordering::Relaxed) {
                server.block(BLOCKED);
                thread::sleep(PERIOD);
            }
        });
        let figures = run(&order);
        // ORDERING: as above.
        is_over.store(true, Ordering::Relaxed);
        figures
    });
    vec![figures.p50_us, figures.p99_us, figures.max_us]
}
