//! What is counted, and until when (L3, L4 of `load`).

use super::{Figures, Order};
use crate::bench::machine::process_cpu_time;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

pub struct Meter {
    started: Instant,
    begin: Instant,
    end: Instant,
    exchanges: u64,
    /// In ns.
    latencies: Histogram<u64>,
}

impl Meter {
    /// The warm-up begins now.
    pub fn start(order: &Order) -> Self {
        let started = Instant::now();
        let begin = started + order.warm_up;
        let latencies = Histogram::new(3).expect("3 digits are supported");
        Self { started, begin, end: begin + order.window, exchanges: 0, latencies }
    }

    /// Whether the window is still open.
    pub fn is_open(&self, now: Instant) -> bool {
        now < self.end
    }

    /// A reply has come to what was sent then.
    pub fn count(&mut self, sent: Instant, now: Instant) {
        if self.begin <= now && now < self.end {
            self.exchanges += 1;
            let ns = now.saturating_duration_since(sent).as_nanos() as u64;
            self.latencies.record(ns).expect("the histogram grows");
        }
    }

    /// No reply has come yet to what was sent then.
    pub fn count_waiting(&mut self, sent: Instant, now: Instant) {
        let ns = now.saturating_duration_since(sent).as_nanos() as u64;
        self.latencies.record(ns).expect("the histogram grows");
    }

    pub fn figures(&self) -> Figures {
        let at = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let ns = |time: Duration| time.as_nanos() as f64;
        Figures {
            exchanges: self.exchanges,
            ns: ns(self.end - self.begin),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.latencies.max() as f64 / 1e3,
            cpu: ns(process_cpu_time()) / ns(self.started.elapsed()),
        }
    }
}
