//! Threads outside the runtime spawn a million tasks in all.

use super::countdown::Countdown;
use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

pub struct SpawnManyRemote<const PRODUCERS: usize>;

impl<const PRODUCERS: usize> Scenario for SpawnManyRemote<PRODUCERS> {
    const NAME: &'static str = match PRODUCERS {
        1 => "spawn_many_remote_1",
        2 => "spawn_many_remote_2",
        4 => "spawn_many_remote_4",
        _ => panic!("no name for this number of producers"),
    };
    const ABOUT: &'static str = match PRODUCERS {
        1 => "1e6 tasks spawned by a thread outside, per task",
        2 => "the same by 2 threads outside",
        _ => "the same by 4 threads outside",
    };

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let share = load.pick(1_000_000, 50_000) / PRODUCERS;
        let peer = started::<P>(load.threads);
        let countdown = Countdown::new(share * PRODUCERS);
        let barrier = Barrier::new(PRODUCERS + 1);
        let elapsed = thread::scope(|scope| {
            for _ in 0..PRODUCERS {
                let (remote, barrier) = (peer.remote(), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for _ in 0..share {
                        P::detach(P::spawn_remote(&remote, async move { countdown.done() }));
                    }
                });
            }
            barrier.wait();
            let start = Instant::now();
            countdown.wait();
            start.elapsed()
        });
        per_op(elapsed, share * PRODUCERS)
    }
}
