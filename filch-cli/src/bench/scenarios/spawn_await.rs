//! A task spawns others in groups, and awaits all of a group.

use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::Instant;

/// Tasks that are alive at the same time.
const GROUP: usize = 1_000;

pub struct SpawnAwait;

impl Scenario for SpawnAwait {
    const NAME: &'static str = "spawn_await";
    const ABOUT: &'static str =
        "1e6 tasks spawned and awaited by one task, 1,000 at a time, per task";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let groups: usize = load.pick(1_000, 20);
        let peer = started::<P>(load.threads);
        let (sum, elapsed) = peer.run_on_worker(async move {
            let start = Instant::now();
            let mut sum = 0;
            for _ in 0..groups {
                let handles: Vec<_> = (0..GROUP).map(|n| P::spawn(async move { n })).collect();
                for handle in handles {
                    sum += handle.await;
                }
            }
            (sum, start.elapsed())
        });
        assert_eq!(sum, groups * GROUP * (GROUP - 1) / 2);
        per_op(elapsed, groups * GROUP)
    }
}
