//! Frames: how late they begin while all cores compute.
//!
//! The loop is that of a game: it sleeps until a frame is due, does some work of its own, and lends what is left
//! of its budget to tasks, which have pieces computed and hear of the results. Its thread is an ordinary one.

use super::{Entry, Load, Metric, Run, WarmUp, Workers};
#[cfg(feature = "peers")]
use crate::bench::frames::Tokio;
use crate::bench::frames::{Filch, Framed};
use crate::bench::machine::cores;
use crate::bench::servers::Work;
use crate::bench::stats::mix;
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

const HZ: u32 = 60;

/// What tasks may have of a frame.
const BUDGET: Duration = Duration::from_millis(4);

/// Tasks of the loop's thread.
const ACTORS: usize = 8;

/// Steps of the loop's own work in a frame: some 0.5 ms.
const OWN_STEPS: u64 = 250_000;

pub fn entries() -> Vec<Entry> {
    vec![Entry {
        metrics: &[
            Metric { name: "p50_us", unit: "us" },
            Metric { name: "p95_us", unit: "us" },
            Metric { name: "p99_us", unit: "us" },
            Metric { name: "max_us", unit: "us" },
            Metric { name: "ns_per_piece", unit: "ns" },
        ],
        workers: Workers::Fixed(cores().len()),
        warm_up: WarmUp::Needless,
        ..Entry::per_op(
            "pump_60hz",
            "how late the frames of a loop begin that pumps, while all cores compute; and the pieces",
            vec![
                Run { runtime: Filch::NAME, sample: pump_60hz::<Filch> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: pump_60hz::<Tokio> },
            ],
        )
    }]
}

fn pump_60hz<F: Framed>(load: Load) -> Vec<f64> {
    let window = load.duration.unwrap_or(Duration::from_millis(load.pick(5_000, 200)));
    // What a runtime asks of the system for its thread must not be there for the next one.
    let frames = thread::spawn(move || frames::<F>(load.threads, window));
    frames.join().expect("the loop does not panic")
}

fn frames<F: Framed>(threads: usize, window: Duration) -> Vec<f64> {
    let (mut lent, work) = (F::start(threads), Work::new());
    lent.compute(work);
    (0..ACTORS).for_each(|_| lent.act(work));
    let mut late = Histogram::<u64>::new(3).expect("3 digits are supported");
    let (start, before) = (Instant::now(), work.pieces());
    let due = |frame: u32| start + Duration::from_secs(1) * frame / HZ;
    for due in (1..).map(due).take_while(|due| *due <= start + window) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        late.record(due.elapsed().as_nanos() as u64).expect("the histogram grows");
        black_box((0..black_box(OWN_STEPS)).fold(0, |sum, step| mix(sum ^ step)));
        lent.frame(BUDGET);
    }
    let (ns, pieces) = (start.elapsed().as_nanos(), work.pieces() - before);
    work.end();
    let us = |nanos: u64| nanos as f64 / 1e3;
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| us(late.value_at_quantile(share)));
    vec![p50, p95, p99, us(late.max()), ns as f64 / pieces.max(1) as f64]
}
