//! Short-lived pairs: a task spawns its partner, and they exchange a message each way.

use super::countdown::Countdown;
use super::{Load, Scenario, per_op};
use crate::bench::peers::{Peer, started};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Pairs that are alive together; the number of tokio's own benchmark.
const PAIRS: usize = 1_000;

pub struct PingPongOneshot;

impl Scenario for PingPongOneshot {
    const NAME: &'static str = "ping_pong_oneshot";
    const ABOUT: &'static str = "1,000 pairs at a time exchange through two oneshots, per pair";

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let waves = load.pick(500, 20);
        let peer = started::<P>(load.threads);
        let elapsed: Duration = (0..waves).map(|_| wave(&peer)).sum();
        per_op(elapsed, waves * PAIRS)
    }
}

fn wave<P: Peer>(peer: &P) -> Duration {
    let countdown = Countdown::new(PAIRS);
    let start = Instant::now();
    peer.run_on_worker(async move {
        for _ in 0..PAIRS {
            P::detach(P::spawn(async move {
                exchange::<P>().await;
                countdown.done();
            }));
        }
    });
    countdown.wait();
    start.elapsed()
}

async fn exchange<P: Peer>() {
    let (ping, pinged) = oneshot::channel::<()>();
    let (pong, ponged) = oneshot::channel::<()>();
    P::detach(P::spawn(async move {
        pinged.await.expect("a ping");
        pong.send(()).expect("the first task listens");
    }));
    ping.send(()).expect("the partner listens");
    ponged.await.expect("a pong");
}
