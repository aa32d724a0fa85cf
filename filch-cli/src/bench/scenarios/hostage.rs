//! A task that blocks its worker: how long do others wait that were ready all the while?
//!
//! One stuck: a task fills its worker's queue, spawns a child last (into the newest-task slot,
//! where there is one) and blocks; more tasks arrive from outside while it does. All stuck: every
//! worker is taken by such a task.

use super::countdown::Countdown;
use super::{Load, Metric, Scenario, WarmUp, Workers};
use crate::bench::peers::{Peer, started};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Tasks besides the child whose delay counts.
const OTHERS: usize = 100;

pub struct Hostage;

impl Scenario for Hostage {
    const NAME: &'static str = "hostage";
    const ABOUT: &'static str =
        "worst delay of ready tasks while one or all of 2 workers block for 1 s";
    const METRICS: &'static [Metric] =
        &[Metric { name: "one_stuck_ms", unit: "ms" }, Metric { name: "all_stuck_ms", unit: "ms" }];
    const WORKERS: Workers = Workers::Fixed(2);
    const WARM_UP: WarmUp = WarmUp::Needless;

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let block = load.pick(Duration::from_secs(1), Duration::from_millis(200));
        vec![one_stuck::<P>(load.threads, block), all_stuck::<P>(load.threads, block)]
    }
}

/// The worst delay of the probes that it has handed out.
struct Delays {
    /// Written by probes, read by the thread outside after the countdown.
    worst_ns: AtomicU64,
    countdown: &'static Countdown,
}

impl Delays {
    fn expect(probes: usize) -> &'static Self {
        Box::leak(Box::new(Self { worst_ns: AtomicU64::new(0), countdown: Countdown::new(probes) }))
    }

    /// A task that reports the time from this call to its run.
    fn probe(&'static self) -> impl Future<Output = ()> + Send + 'static {
        let ready = Instant::now();
        async move {
            let delay = ready.elapsed().as_nanos() as u64;
            // ORDERING: Relaxed, the countdown publishes it.
            self.worst_ns.fetch_max(delay, Ordering::Relaxed);
            self.countdown.done();
        }
    }

    fn worst_ms(&self) -> f64 {
        self.countdown.wait();
        // ORDERING: Relaxed, ordered by the countdown.
        self.worst_ns.load(Ordering::Relaxed) as f64 / 1e6
    }
}

fn one_stuck<P: Peer>(threads: usize, block: Duration) -> f64 {
    let peer = started::<P>(threads);
    let remote = peer.remote();
    let delays = Delays::expect(OTHERS + 1);
    let released = Countdown::new(1);
    let (entered, has_entered) = mpsc::channel();
    P::detach(P::spawn_remote(&remote, async move {
        (0..OTHERS / 2).for_each(|_| P::detach(P::spawn(delays.probe())));
        take_worker::<P>(delays, &entered, block);
        released.done();
    }));
    has_entered.recv().expect("the task runs");
    for _ in 0..OTHERS - OTHERS / 2 {
        P::detach(P::spawn_remote(&remote, delays.probe()));
        thread::sleep(block / 100);
    }
    let worst = delays.worst_ms();
    released.wait();
    worst
}

fn all_stuck<P: Peer>(threads: usize, block: Duration) -> f64 {
    let peer = started::<P>(threads);
    let remote = peer.remote();
    let delays = Delays::expect(OTHERS + threads);
    let released = Countdown::new(threads);
    let (entered, has_entered) = mpsc::channel();
    for _ in 0..threads {
        let entered = entered.clone();
        P::detach(P::spawn_remote(&remote, async move {
            take_worker::<P>(delays, &entered, block);
            released.done();
        }));
        has_entered.recv().expect("a worker is left");
    }
    (0..OTHERS).for_each(|_| P::detach(P::spawn_remote(&remote, delays.probe())));
    let worst = delays.worst_ms();
    released.wait();
    worst
}

fn take_worker<P: Peer>(delays: &'static Delays, entered: &Sender<()>, block: Duration) {
    P::detach(P::spawn(delays.probe()));
    entered.send(()).expect("the thread outside listens");
    thread::sleep(block);
}
