//! A task spawns others in groups, and awaits all of a group, for so long.

use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::{Duration, Instant};

/// Tasks that are alive at the same time.
const GROUP: usize = 1_000;

pub struct SpawnAwait;

impl Scenario for SpawnAwait {
    const NAME: &'static str = "spawn_await";
    const ABOUT: &'static str = "tasks spawned and awaited by one task, 1,000 at a time, per task";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let window = load.duration.unwrap_or(Duration::from_millis(load.pick(200, 10)));
        let peer = started::<P>(load.threads);
        let (groups, sum, elapsed) = peer.run_on_worker(async move {
            let start = Instant::now();
            let (mut groups, mut sum) = (0, 0);
            while start.elapsed() < window {
                let handles: Vec<_> = (0..GROUP).map(|n| P::spawn(async move { n })).collect();
                for handle in handles {
                    sum += handle.await;
                }
                groups += 1;
            }
            (groups, sum, start.elapsed())
        });
        assert_eq!(sum, groups * GROUP * (GROUP - 1) / 2);
        per_op(elapsed, groups * GROUP)
    }
}
