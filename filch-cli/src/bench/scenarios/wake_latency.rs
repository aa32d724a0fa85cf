//! A thread outside posts one task at a time to a runtime that has gone to sleep.
//!
//! The poster sleeps between posts and right after each, so that it holds no core which the woken
//! worker wants.

use super::{Load, Metric, Scenario};
use crate::bench::peers::{Peer, started};
use crate::bench::stats::SplitMix;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pauses between posts in µs; long enough for every peer to fall asleep.
const PAUSE_US: std::ops::Range<u64> = 200..1_000;

/// No task has reported yet.
const PENDING: u64 = u64::MAX;

pub struct WakeLatency;

impl Scenario for WakeLatency {
    const NAME: &'static str = "wake_latency";
    const ABOUT: &'static str = "from a post outside to the run on an idle runtime, percentiles";
    const METRICS: &'static [Metric] = &[
        Metric { name: "p50_us", unit: "us" },
        Metric { name: "p95_us", unit: "us" },
        Metric { name: "p99_us", unit: "us" },
        Metric { name: "p999_us", unit: "us" },
    ];

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let posts = load.pick(1_500, 100);
        let peer = started::<P>(load.threads);
        let remote = peer.remote();
        let latency: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(PENDING)));
        let mut pauses = SplitMix::new(posts);
        let mut seen = Histogram::<u64>::new(3).expect("3 digits are supported");
        for _ in 0..posts {
            thread::sleep(Duration::from_micros(pauses.within(PAUSE_US)));
            let posted = Instant::now();
            P::detach(P::spawn_remote(&remote, async move {
                let nanos = posted.elapsed().as_nanos() as u64;
                // ORDERING: Relaxed, the value itself is all that is handed over.
                latency.store(nanos, Ordering::Relaxed);
            }));
            seen.record(collect(latency)).expect("the histogram grows");
        }
        [0.5, 0.95, 0.99, 0.999]
            .map(|quantile| seen.value_at_quantile(quantile) as f64 / 1e3)
            .into()
    }
}

fn collect(latency: &AtomicU64) -> u64 {
    loop {
        thread::sleep(Duration::from_micros(50));
        // ORDERING: Relaxed on both sides: one task is under way, and its value is all that is
        // handed over.
        let nanos = latency.swap(PENDING, Ordering::Relaxed);
        if nanos != PENDING {
            return nanos;
        }
    }
}
