//! Timers: what one costs that does not fire, what a million cost that do, and how late they are.

use super::countdown::Countdown;
use super::{Entry, Load, Metric, Process, Run, WarmUp, Workers, per_op};
use crate::bench::machine::process_cpu_time;
#[cfg(feature = "peers")]
use crate::bench::peers::Tokio;
use crate::bench::peers::{Filch, Peer, TimerPeer, started};
use crate::bench::stats::SplitMix;
use hdrhistogram::Histogram;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Operations between two yields, so that no runtime takes the task for stuck.
const CHUNK: usize = 1_000;

/// Timeouts in one poll: fewer than the operations that a runtime lets a task complete in one.
const IN_ONE_POLL: usize = 100;

/// Far enough not to fire.
const FAR: Duration = Duration::from_secs(30);

pub fn entries() -> Vec<Entry> {
    vec![
        Entry::per_op(
            "timeout_cancel",
            "a timeout over a future that is ready at its second poll, made, polled, dropped",
            vec![
                run(timeout_cancel::<Filch>, Filch::NAME),
                #[cfg(feature = "peers")]
                run(timeout_cancel::<Tokio>, Tokio::NAME),
            ],
        ),
        Entry {
            metrics: &[
                Metric { name: "cpu_ns", unit: "ns" },
                Metric { name: "overrun_ms", unit: "ms" },
            ],
            process: Process::Fresh,
            warm_up: WarmUp::Needless,
            ..Entry::per_op(
                "live_sleeps",
                "1e6 tasks that sleep until moments of 2 s: CPU time of each, end past the last",
                vec![
                    run(live_sleeps::<Filch>, Filch::NAME),
                    #[cfg(feature = "peers")]
                    run(live_sleeps::<Tokio>, Tokio::NAME),
                ],
            )
        },
        lateness(
            "timer_lateness_1ms",
            "how late a sleep of 1 ms ends",
            vec![
                run(late::<Filch, 1>, Filch::NAME),
                #[cfg(feature = "peers")]
                run(late::<Tokio, 1>, Tokio::NAME),
            ],
        ),
        lateness(
            "timer_lateness_5ms",
            "how late a sleep of 5 ms ends",
            vec![
                run(late::<Filch, 5>, Filch::NAME),
                #[cfg(feature = "peers")]
                run(late::<Tokio, 5>, Tokio::NAME),
            ],
        ),
        lateness(
            "timer_lateness_16ms",
            "how late a sleep of 16 ms ends",
            vec![
                run(late::<Filch, 16>, Filch::NAME),
                #[cfg(feature = "peers")]
                run(late::<Tokio, 16>, Tokio::NAME),
            ],
        ),
    ]
}

type Sample = fn(Load) -> Vec<f64>;

fn run(sample: Sample, runtime: &'static str) -> Run {
    Run { runtime, sample }
}

fn lateness(name: &'static str, about: &'static str, runs: Vec<Run>) -> Entry {
    Entry {
        metrics: &[Metric { name: "p50_us", unit: "us" }, Metric { name: "p99_us", unit: "us" }],
        workers: Workers::Fixed(2),
        warm_up: WarmUp::Needless,
        ..Entry::per_op(name, about, runs)
    }
}

/// Ready at its second poll.
struct SecondPoll(bool);

impl Future for SecondPoll {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn timeout_cancel<P: TimerPeer>(load: Load) -> Vec<f64> {
    let polls = load.pick(20_000, 200);
    let peer = started::<P>(load.threads);
    let countdown = Countdown::new(load.threads);
    let start = Instant::now();
    for _ in 0..load.threads {
        P::detach(P::spawn_remote(&peer.remote(), async move {
            for _ in 0..polls {
                poll_fn(|cx| {
                    (0..IN_ONE_POLL).for_each(|_| make_and_drop::<P>(cx));
                    Poll::Ready(())
                })
                .await;
                P::yield_now().await;
            }
            countdown.done();
        }));
    }
    countdown.wait();
    per_op(start.elapsed(), load.threads * polls * IN_ONE_POLL)
}

fn make_and_drop<P: TimerPeer>(cx: &mut Context<'_>) {
    let mut timeout = pin!(P::timeout(FAR, SecondPoll(false)));
    assert!(timeout.as_mut().poll(cx).is_pending());
    assert_eq!(timeout.as_mut().poll(cx), Poll::Ready(true));
}

fn live_sleeps<P: TimerPeer>(load: Load) -> Vec<f64> {
    let tasks = load.pick(1_000_000, 20_000);
    let lead = load.pick(Duration::from_secs(2), Duration::from_millis(100));
    let peer = started::<P>(load.threads);
    let countdown = Countdown::new(tasks);
    let (start, before) = (Instant::now(), process_cpu_time());
    let last = start + 2 * lead;
    peer.run_on_worker(async move {
        let mut random = SplitMix::new(1);
        for i in 0..tasks {
            let within = random.within(0..lead.as_micros() as u64);
            let at = if i == 0 { last } else { start + lead + Duration::from_micros(within) };
            P::detach(P::spawn(async move {
                P::sleep_until(at).await;
                countdown.done();
            }));
            if i % CHUNK == 0 {
                P::yield_now().await;
            }
        }
    });
    countdown.wait();
    let overrun = Instant::now().saturating_duration_since(last);
    let used = process_cpu_time() - before;
    vec![used.as_nanos() as f64 / tasks as f64, overrun.as_secs_f64() * 1e3]
}

fn late<P: TimerPeer, const MS: u64>(load: Load) -> Vec<f64> {
    let time = Duration::from_millis(MS);
    let sleeps = load.pick(2_000, 100) / MS.max(4);
    let peer = started::<P>(load.threads);
    let seen = peer.run_on_worker(async move {
        let mut seen = Histogram::<u64>::new(3).expect("3 digits are supported");
        for _ in 0..sleeps {
            let due = Instant::now() + time;
            P::sleep_until(due).await;
            seen.record(due.elapsed().as_nanos() as u64).expect("the histogram grows");
        }
        seen
    });
    [0.5, 0.99].map(|quantile| seen.value_at_quantile(quantile) as f64 / 1e3).into()
}
