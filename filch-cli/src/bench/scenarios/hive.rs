//! Posts: to any worker, to one, for later, stolen, and beside computation.
//!
//! Workers and posters share the cores, and a poster that measures latency sleeps between posts: it runs
//! before others where the system lets it.

use super::countdown::Countdown;
use super::{Entry, Load, Metric, Run, WarmUp, Workers, per_op};
use crate::bench::hives::{Addressee, Computes, Filch, FilchWorker, Hive, Sleepers, Sleeps};
#[cfg(feature = "peers")]
use crate::bench::hives::{Tokio, TokioChannel};
use crate::bench::machine::{cores, hurry};
use crate::bench::servers::Work;
use crate::bench::stats::SplitMix;
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const P50: Metric = Metric { name: "p50_us", unit: "us" };
const P95: Metric = Metric { name: "p95_us", unit: "us" };
const P99: Metric = Metric { name: "p99_us", unit: "us" };
const P999: Metric = Metric { name: "p999_us", unit: "us" };

/// How often a worker was woken for 1000 posts, on average.
const WAKES: Metric = Metric { name: "wakes_per_worker", unit: "per kop" };

/// Pauses between posts in µs.
const PAUSE_US: std::ops::Range<u64> = 100..300;

/// No task has reported yet.
const PENDING: u64 = u64::MAX;

/// One sampler, bound to our hive and to that of a peer.
macro_rules! hives {
    ($sampler:ident => $own:ident, $peer:ident as $name:ident) => {
        vec![
            Run { runtime: $own::$name, sample: $sampler::<$own> },
            #[cfg(feature = "peers")]
            Run { runtime: $peer::$name, sample: $sampler::<$peer> },
        ]
    };
}

pub fn entries() -> Vec<Entry> {
    let late = |name, about, runs| Entry {
        metrics: &[P50, P95, P99, P999, WAKES],
        workers: Workers::Fixed(2),
        warm_up: WarmUp::Needless,
        ..Entry::per_op(name, about, runs)
    };
    vec![
        Entry {
            metrics: &[
                Metric { name: "ns_per_op", unit: "ns" },
                Metric { name: "sleeps_per_kop", unit: "" },
                WAKES,
            ],
            ..Entry::per_op(
                "post_micro",
                "as many threads as workers post tasks that count; and how often workers slept",
                hives!(post_micro => Filch, Tokio as NAME),
            )
        },
        Entry {
            metrics: &[P50, P95, P99, P999, WAKES],
            workers: Workers::Fixed(2),
            warm_up: WarmUp::Needless,
            ..Entry::per_op(
                "post_to",
                "from a post to one worker to its run; Tokio: a thread with a channel",
                hives!(post_to => FilchWorker, TokioChannel as NAME),
            )
        },
        late(
            "post_delayed_1ms",
            "how late a post for 1 ms later runs",
            vec![
                Run { runtime: Filch::NAME, sample: late_by::<Filch, 1> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: late_by::<Tokio, 1> },
            ],
        ),
        late(
            "post_delayed_5ms",
            "how late a post for 5 ms later runs",
            vec![
                Run { runtime: Filch::NAME, sample: late_by::<Filch, 5> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: late_by::<Tokio, 5> },
            ],
        ),
        late(
            "post_delayed_16ms",
            "how late a post for 16 ms later runs",
            vec![
                Run { runtime: Filch::NAME, sample: late_by::<Filch, 16> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: late_by::<Tokio, 16> },
            ],
        ),
        Entry {
            metrics: &[
                Metric { name: "ns_per_op", unit: "ns" },
                Metric { name: "kept_percent", unit: "%" },
                WAKES,
            ],
            workers: Workers::Fixed(2),
            ..Entry::per_op(
                "steal_pressure",
                "one worker posts tasks of 2 us to itself; and the share that idle ones did not run",
                hives!(steal_pressure => Filch, Tokio as NAME),
            )
        },
        Entry {
            metrics: &[P50, P95, P99, P999, Metric { name: "ns_per_piece", unit: "ns" }, WAKES],
            workers: Workers::Fixed(cores().len()),
            warm_up: WarmUp::Needless,
            ..Entry::per_op(
                "hive_mixed",
                "from a post to its run, while a parallel loop saturates all cores; and its pieces",
                hives!(hive_mixed => Filch, Tokio as TOGETHER),
            )
        },
    ]
}

fn post_micro<H: Hive>(load: Load) -> Vec<f64> {
    let (each, batch) = (load.pick(400_000, 2_000), load.batch);
    let hive = H::start(load.threads);
    let batches = each / batch;
    let countdown = Countdown::new(load.threads * batches * batch);
    let (start, before) = (Instant::now(), hive.sleeps());
    thread::scope(|scope| {
        for _ in 0..load.threads {
            let remote = hive.remote();
            scope.spawn(move || {
                for _ in 0..batches {
                    match batch {
                        1 => H::post(&remote, || countdown.done()),
                        _ => H::post_batch(&remote, batch, || countdown.done()),
                    }
                }
            });
        }
        countdown.wait();
    });
    let elapsed = start.elapsed();
    let posts = load.threads * batches * batch;
    let wakes = wakes_per_worker(&hive, before, posts);
    vec![per_op(elapsed, posts)[0], wakes * before.workers as f64, wakes]
}

/// How often a worker was woken since `before` for 1000 of so many posts, on average.
fn wakes_per_worker(hive: &impl Sleepers, before: Sleeps, posts: usize) -> f64 {
    let now = hive.sleeps();
    let wakes = (now.times - before.times) as f64 * 1e3 / posts.max(1) as f64;
    wakes / now.workers.max(1) as f64
}

/// Percentiles in µs.
fn percentiles(seen: &Histogram<u64>) -> [f64; 4] {
    [0.5, 0.95, 0.99, 0.999].map(|quantile| seen.value_at_quantile(quantile) as f64 / 1e3)
}

/// Posts now and then for so long, each when the one before has run; from post to run.
fn latencies(
    window: Duration,
    post: impl Fn(Instant, &'static AtomicU64) + Sync,
) -> Histogram<u64> {
    let latency: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(PENDING)));
    let poster = || {
        hurry();
        let mut pauses = SplitMix::new(1);
        let mut seen = Histogram::<u64>::new(3).expect("3 digits are supported");
        let end = Instant::now() + window;
        while Instant::now() < end {
            thread::sleep(Duration::from_micros(pauses.within(PAUSE_US)));
            post(Instant::now(), latency);
            seen.record(collect(latency)).expect("the histogram grows");
        }
        seen
    };
    thread::scope(|scope| scope.spawn(poster).join().expect("the poster does not panic"))
}

/// What the task that was posted has seen.
fn collect(latency: &AtomicU64) -> u64 {
    loop {
        thread::sleep(Duration::from_micros(50));
        // ORDERING: Relaxed on both sides: one task is under way, and its value is all that is handed over.
        let nanos = latency.swap(PENDING, Ordering::Relaxed);
        if nanos != PENDING {
            return nanos;
        }
    }
}

fn tell(posted: Instant, latency: &AtomicU64) {
    // ORDERING: as in `collect`.
    latency.store(posted.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

fn post_to<A: Addressee>(load: Load) -> Vec<f64> {
    let addressee = A::start(load.threads);
    let before = addressee.sleeps();
    let seen = latencies(load.window(), |posted, latency| {
        addressee.post_to(move || tell(posted, latency));
    });
    let wakes = wakes_per_worker(&addressee, before, seen.len() as usize);
    percentiles(&seen).into_iter().chain([wakes]).collect()
}

fn late_by<H: Hive, const MS: u64>(load: Load) -> Vec<f64> {
    let (delay, posts) = (Duration::from_millis(MS), load.pick(1_000, 50));
    let hive = H::start(load.threads);
    let (remote, before) = (hive.remote(), hive.sleeps());
    let seen: &'static [AtomicU64] =
        Box::leak((0..posts).map(|_| AtomicU64::new(0)).collect::<Box<_>>());
    let countdown = Countdown::new(posts);
    let mut pauses = SplitMix::new(posts as u64);
    for late in seen {
        let due = Instant::now() + delay;
        H::post_delayed(&remote, delay, move || {
            // ORDERING: Relaxed, the countdown hands it over.
            late.store(due.elapsed().as_nanos() as u64, Ordering::Relaxed);
            countdown.done();
        });
        thread::sleep(Duration::from_micros(pauses.within(PAUSE_US)));
    }
    countdown.wait();
    let wakes = wakes_per_worker(&hive, before, posts);
    let mut histogram = Histogram::<u64>::new(3).expect("3 digits are supported");
    for late in seen {
        // ORDERING: as above.
        histogram.record(late.load(Ordering::Relaxed)).expect("the histogram grows");
    }
    percentiles(&histogram).into_iter().chain([wakes]).collect()
}

/// Some 2 µs.
fn spin() {
    black_box((0..black_box(1_000_u64)).fold(0, |sum, step| sum ^ step.wrapping_mul(sum | 1)));
}

fn steal_pressure<H: Hive>(load: Load) -> Vec<f64> {
    let tasks = load.pick(100_000, 1_000);
    let hive = H::start(load.threads);
    let countdown = Countdown::new(tasks);
    let kept: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let (start, before) = (Instant::now(), hive.sleeps());
    H::post(&hive.remote(), move || {
        let home = thread::current().id();
        (0..tasks).for_each(|_| H::post_local(move || pressed(home, kept, countdown)));
    });
    countdown.wait();
    let elapsed = start.elapsed();
    // ORDERING: Relaxed, the countdown has handed it over.
    let kept = kept.load(Ordering::Relaxed);
    let wakes = wakes_per_worker(&hive, before, tasks);
    vec![per_op(elapsed, tasks)[0], kept as f64 * 100.0 / tasks as f64, wakes]
}

/// A task of `steal_pressure`.
fn pressed(home: ThreadId, kept: &AtomicUsize, countdown: &Countdown) {
    spin();
    if thread::current().id() == home {
        // ORDERING: Relaxed, the countdown hands it over.
        kept.fetch_add(1, Ordering::Relaxed);
    }
    countdown.done();
}

fn hive_mixed<H: Computes>(load: Load) -> Vec<f64> {
    let (hive, work) = (H::start(load.threads), Work::new());
    let remote = std::sync::Mutex::new(hive.remote());
    hive.compute(load.threads, work);
    let (start, before, sleeps) = (Instant::now(), work.pieces(), hive.sleeps());
    let seen = latencies(load.window(), |posted, latency| {
        let remote = remote.lock().expect("one thread posts");
        H::post(&remote, move || tell(posted, latency));
    });
    let (ns, pieces) = (start.elapsed().as_nanos(), work.pieces() - before);
    let wakes = wakes_per_worker(&hive, sleeps, seen.len() as usize);
    work.end();
    let [p50, p95, p99, p999] = percentiles(&seen);
    vec![p50, p95, p99, p999, ns as f64 / pieces.max(1) as f64, wakes]
}
