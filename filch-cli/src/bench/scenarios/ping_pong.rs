//! Two tasks pass a token to and fro through two channels that hold one.

use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use async_channel::bounded;
use std::time::Instant;

pub struct PingPong;

impl Scenario for PingPong {
    const NAME: &'static str = "ping_pong";
    const ABOUT: &'static str =
        "two tasks, two capacity-1 channels, 5e5 round trips, per hand-over";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let rounds: usize = load.pick(500_000, 20_000);
        let peer = started::<P>(load.threads);
        let start = Instant::now();
        peer.run_on_worker(async move {
            let (there, arrives) = bounded::<usize>(1);
            let (back, returns) = bounded::<usize>(1);
            let partner = P::spawn(async move {
                while let Ok(token) = arrives.recv().await {
                    back.send(token).await.expect("the first task listens");
                }
            });
            for token in 0..rounds {
                there.send(token).await.expect("the partner listens");
                assert_eq!(returns.recv().await, Ok(token));
            }
            drop(there);
            partner.await;
        });
        per_op(start.elapsed(), 2 * rounds)
    }
}
