//! Scenarios: what is measured. Written once each for all runtimes that can run it: async ones for
//! every `Peer`, those of sockets for every `Server`, the rest for every `Pool`.
//!
//! C1. A sample returns one value per metric of its scenario, in that order; lower is better.
//! C2. A sample starts its own runtime, and neither its start nor its end is part of a value.
//! C3. All peers get the same work, the same allocator and, unless these are what is measured, the same
//!     channels.
//!
//! Not here: repetition, order and statistics (`runner`, `stats`).

mod chained_spawn;
mod countdown;
mod files;
mod fork;
mod graph;
mod hive;
mod hostage;
mod idle_cpu;
mod jobs;
mod net;
mod par;
mod ping_pong;
#[cfg(feature = "peers")]
mod ping_pong_oneshot;
mod pump;
mod skynet_async;
mod spawn_await;
mod spawn_many_local;
mod spawn_many_remote;
mod sync;
mod task_memory;
mod timers;
mod wake_latency;
mod yield_many;

use super::peers::{Filch, Peer};
#[cfg(feature = "peers")]
use super::peers::{Smol, Tokio};
use std::time::Duration;

/// A value that a scenario yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
}

const NS_PER_OP: &[Metric] = &[Metric { name: "ns_per_op", unit: "ns" }];
const CPU_MS_PER_S: &[Metric] = &[Metric { name: "cpu_ms_per_s", unit: "ms/s" }];

/// With how many workers a scenario makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// As many as the command line says.
    Asked,
    /// Always this many.
    Fixed(usize),
}

/// Where a sample is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// In the process of the benchmark.
    Shared,
    /// In a child process of its own, whose heap no earlier sample has touched.
    Fresh,
}

/// Whether a round is thrown away before the counted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    OneRound,
    /// The value does not depend on caches, and a round takes seconds.
    Needless,
}

/// How much work a sample does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 0.1 to 1 s for most scenarios.
    Full,
    /// Enough to see that it works; too little to compare.
    Quick,
}

/// What a sample is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub threads: usize,
    pub size: Size,
    /// Tasks that are posted at once, where tasks are posted.
    pub batch: usize,
    /// How long to measure, where that is a matter of time; the scenario knows if this does not.
    pub duration: Option<Duration>,
}

impl Load {
    fn pick<T>(self, full: T, quick: T) -> T {
        match self.size {
            Size::Full => full,
            Size::Quick => quick,
        }
    }

    /// How long to measure, unless the scenario knows better.
    fn window(self) -> Duration {
        self.duration.unwrap_or(Duration::from_millis(self.pick(2_000, 50)))
    }
}

/// A scenario for async runtimes.
trait Scenario {
    const NAME: &'static str;
    const ABOUT: &'static str;
    const METRICS: &'static [Metric] = NS_PER_OP;
    const WORKERS: Workers = Workers::Asked;
    const PROCESS: Process = Process::Shared;
    const WARM_UP: WarmUp = WarmUp::OneRound;

    fn run<P: Peer>(load: Load) -> Vec<f64>;
}

/// A scenario, bound to each runtime that takes part.
#[derive(Clone)]
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    pub metrics: &'static [Metric],
    pub workers: Workers,
    pub process: Process,
    pub warm_up: WarmUp,
    /// The base first, where it takes part.
    pub runs: Vec<Run>,
}

/// One scenario on one runtime.
#[derive(Clone, Copy)]
pub struct Run {
    pub runtime: &'static str,
    pub sample: fn(Load) -> Vec<f64>,
}

impl Entry {
    /// A scenario with the usual metric, for as many workers as asked for.
    fn per_op(name: &'static str, about: &'static str, runs: Vec<Run>) -> Self {
        Self {
            name,
            about,
            metrics: NS_PER_OP,
            workers: Workers::Asked,
            process: Process::Shared,
            warm_up: WarmUp::OneRound,
            runs,
        }
    }

    /// Whether one of these runtimes takes part.
    pub fn has_any(&self, runtimes: &[String]) -> bool {
        self.runs.iter().any(|run| runtimes.iter().any(|name| name == run.runtime))
    }
}

/// One sampler, bound to each of these pools; peers stand in brackets.
macro_rules! runs {
    ($module:ident::$sampler:ident => $own:ident $(, [$($peer:ident),+])? $(, $rest:ident)*) => {
        [
            $crate::bench::scenarios::bound!($own, $module::$sampler),
            $($(
                #[cfg(feature = "peers")]
                $crate::bench::scenarios::bound!($peer, $module::$sampler),
            )+)?
            $($crate::bench::scenarios::bound!($rest, $module::$sampler)),*
        ].to_vec()
    };
}
use runs;

macro_rules! bound {
    ($pool:ident, $module:ident::$sampler:ident) => {
        $crate::bench::scenarios::Run {
            runtime: <$pool as $crate::bench::pools::Pool>::NAME,
            sample: $module::$sampler::<$pool>,
        }
    };
}
use bound;

/// The names of all runtimes, in the order of their first appearance.
pub fn runtimes() -> Vec<&'static str> {
    let mut names = Vec::new();
    for run in catalogue().into_iter().flat_map(|entry| entry.runs) {
        if !names.contains(&run.runtime) {
            names.push(run.runtime);
        }
    }
    names
}

/// All scenarios in the order in which they run.
pub fn catalogue() -> Vec<Entry> {
    let asynchronous = vec![
        entry::<spawn_many_local::SpawnManyLocal>(),
        entry::<spawn_many_remote::SpawnManyRemote<1>>(),
        entry::<spawn_many_remote::SpawnManyRemote<2>>(),
        entry::<spawn_many_remote::SpawnManyRemote<4>>(),
        entry::<spawn_await::SpawnAwait>(),
        entry::<chained_spawn::ChainedSpawn>(),
        entry::<ping_pong::PingPong>(),
        #[cfg(feature = "peers")]
        entry::<ping_pong_oneshot::PingPongOneshot>(),
        entry::<yield_many::YieldMany>(),
        entry::<skynet_async::SkynetAsync>(),
        entry::<wake_latency::WakeLatency>(),
        entry::<idle_cpu::IdleCpu>(),
        entry::<task_memory::TaskMemory>(),
        entry::<hostage::Hostage>(),
    ];
    let io = [net::entries(), files::entries()].concat();
    let hives = [hive::entries(), pump::entries()].concat();
    let apart = [timers::entries(), sync::entries(), hives, io].concat();
    let forks = [fork::entries(), par::entries(), jobs::entries(), graph::entries()].concat();
    [asynchronous, apart, forks].concat()
}

fn entry<S: Scenario>() -> Entry {
    Entry {
        name: S::NAME,
        about: S::ABOUT,
        metrics: S::METRICS,
        workers: S::WORKERS,
        process: S::PROCESS,
        warm_up: S::WARM_UP,
        runs: vec![
            run::<S, Filch>(),
            #[cfg(feature = "peers")]
            run::<S, Tokio>(),
            #[cfg(feature = "peers")]
            run::<S, Smol>(),
        ],
    }
}

fn run<S: Scenario, P: Peer>() -> Run {
    Run { runtime: P::NAME, sample: S::run::<P> }
}

/// Nanoseconds for each of `operations`.
fn per_op(elapsed: Duration, operations: usize) -> Vec<f64> {
    vec![elapsed.as_nanos() as f64 / operations as f64]
}
