//! Each task spawns the next and ends.

use super::countdown::Countdown;
use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::Instant;

pub struct ChainedSpawn;

impl Scenario for ChainedSpawn {
    const NAME: &'static str = "chained_spawn";
    const ABOUT: &'static str = "2e6 tasks, each spawns the next, per task";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let tasks = load.pick(2_000_000, 50_000);
        let peer = started::<P>(load.threads);
        let countdown = Countdown::new(1);
        let start = Instant::now();
        peer.run_on_worker(async move { link::<P>(tasks, countdown) });
        countdown.wait();
        per_op(start.elapsed(), tasks)
    }
}

fn link<P: Peer>(left: usize, end: &'static Countdown) {
    match left {
        0 => end.done(),
        _ => P::detach(P::spawn(async move { link::<P>(left - 1, end) })),
    }
}
