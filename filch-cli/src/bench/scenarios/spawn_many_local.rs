//! A task on a worker spawns a million tasks and does not wait for them.

use super::countdown::Countdown;
use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::Instant;

pub struct SpawnManyLocal;

impl Scenario for SpawnManyLocal {
    const NAME: &'static str = "spawn_many_local";
    const ABOUT: &'static str = "1e6 tasks spawned by one task on a worker, per task";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let tasks = load.pick(1_000_000, 50_000);
        let peer = started::<P>(load.threads);
        let countdown = Countdown::new(tasks);
        let start = Instant::now();
        peer.run_on_worker(async move {
            for _ in 0..tasks {
                P::detach(P::spawn(async move { countdown.done() }));
            }
        });
        countdown.wait();
        per_op(start.elapsed(), tasks)
    }
}
