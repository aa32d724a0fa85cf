//! What a runtime without work costs.

use super::{CPU_MS_PER_S, Load, Metric, Scenario, WarmUp};
use crate::bench::machine::process_cpu_time;
use crate::bench::peers::{Peer, started};
use std::thread;
use std::time::{Duration, Instant};

/// After its first task a runtime gets this long to fall asleep.
const SETTLE: Duration = Duration::from_millis(100);

pub struct IdleCpu;

impl Scenario for IdleCpu {
    const NAME: &'static str = "idle_cpu";
    const ABOUT: &'static str = "CPU time of the process while the runtime has nothing to do";
    const METRICS: &'static [Metric] = CPU_MS_PER_S;
    const WARM_UP: WarmUp = WarmUp::Needless;

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let span = load.pick(Duration::from_secs(2), Duration::from_millis(300));
        let peer = started::<P>(load.threads);
        thread::sleep(SETTLE);
        let (start, before) = (Instant::now(), process_cpu_time());
        thread::sleep(span);
        let used = process_cpu_time() - before;
        let elapsed = start.elapsed();
        drop(peer);
        vec![used.as_secs_f64() * 1e3 / elapsed.as_secs_f64()]
    }
}
