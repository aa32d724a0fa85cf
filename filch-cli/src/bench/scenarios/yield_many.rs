//! A thousand tasks that do nothing but yield.

use super::countdown::Countdown;
use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::Instant;

const TASKS: usize = 1_000;

pub struct YieldMany;

impl Scenario for YieldMany {
    const NAME: &'static str = "yield_many";
    const ABOUT: &'static str = "1,000 tasks yield 4,000 times each, per yield";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let yields = load.pick(4_000, 100);
        let peer = started::<P>(load.threads);
        let countdown = Countdown::new(TASKS);
        let start = Instant::now();
        peer.run_on_worker(async move {
            for _ in 0..TASKS {
                P::detach(P::spawn(async move {
                    for _ in 0..yields {
                        P::yield_now().await;
                    }
                    countdown.done();
                }));
            }
        });
        countdown.wait();
        per_op(start.elapsed(), TASKS * yields)
    }
}
