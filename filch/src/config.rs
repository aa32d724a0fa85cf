//! Every tuning parameter: its unit, its default, and where that default comes from.
//!
//! C1. `Config` is plain data; a value that makes no sense is found by `validate`, not at use.
//! C2. Each default is marked *measured* (a benchmark chose it) or *guessed* (taste or a peer did).
//! C3. An open value (a worker count of 0, a `None`) means that somebody else decides: the
//!     environment, the machine, or another field.
//!
//! Not here: who sets what (builder.rs), and what the parameters do (the modules they tune).

use std::{fmt, str::FromStr, time::Duration};

pub(crate) mod env;
pub(crate) mod file;
pub(crate) mod hooks;
mod validate;
mod value;

pub use crate::base::thread::Level;
pub use file::ParseConfigError;
pub use hooks::{LostWrite, PanicInfo, Role, WorkerInfo};

/// Which CPUs the workers of one role may run on.
///
/// A list with a CPU that the machine does not have is refused by
/// [`Builder::resolve`](crate::Builder::resolve) and by what builds. Where the system has no affinity, or
/// refuses one for CPUs that are there, the workers run anyway, anywhere. An automatic worker count does
/// not exceed the CPUs that the role is confined to.
///
/// # Examples
///
/// ```
/// use filch::Affinity;
///
/// let config = filch::Builder::new().io_affinity(Affinity::Cpus(vec![0])).resolve()?;
/// assert_eq!(config.io_affinity, Affinity::Cpus(vec![0]));
/// assert_eq!(config.compute_affinity, Affinity::Any);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Affinity {
    /// Wherever the system puts them.
    #[default]
    Any,
    /// Worker *i* on the *i*-th CPU that the process may use, starting over when they run out.
    PinEach,
    /// All of them on these CPUs, counted as the system counts.
    Cpus(Vec<usize>),
}

impl Affinity {
    /// Where worker `index` of the role belongs; `None` leaves it alone.
    ///
    /// `usable` are the CPUs that the process may use.
    pub(crate) fn cpus_for(&self, index: usize, usable: &[usize]) -> Option<Vec<usize>> {
        match self {
            Self::Any => None,
            Self::PinEach => usable.get(index % usable.len().max(1)).map(|&cpu| vec![cpu]),
            Self::Cpus(cpus) => Some(cpus.clone()),
        }
    }
}

/// What drives I/O.
///
/// What is in use, and what the system refused, is told by [`Handle::describe`](crate::Handle::describe).
///
/// # Examples
///
/// ```
/// use filch::IoBackend;
///
/// let runtime = filch::Builder::new().workers(1).io_backend(IoBackend::Epoll).build()?;
/// assert!(runtime.describe().to_string().contains("I/O by epoll"));
/// assert_eq!("uring-plain".parse(), Ok(IoBackend::UringPlain));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IoBackend {
    /// The first of the following that the system grants.
    #[default]
    Auto,
    /// io_uring, cooperative if the kernel can.
    Uring,
    /// io_uring whose completions interrupt their worker.
    UringPlain,
    /// epoll.
    Epoll,
}

impl FromStr for IoBackend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "uring-plain" => Ok(Self::UringPlain),
            "epoll" => Ok(Self::Epoll),
            _ => Err("is none of auto, uring, uring-plain, epoll".to_owned()),
        }
    }
}

impl fmt::Display for IoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::UringPlain => "uring-plain",
            Self::Epoll => "epoll",
        })
    }
}

/// What becomes of a panic of a task whose handle was dropped.
///
/// A panic goes to the holder of the handle under both, and to [`on_panic`](crate::Builder::on_panic) if nobody
/// waits for the task's group. `docs/panics.md` in the repository has a table of every case.
///
/// # Examples
///
/// ```
/// use filch::UnhandledPanic;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// static REPORTED: AtomicU32 = AtomicU32::new(0);
/// let server = filch::Builder::new()
///     .workers(1)
///     .unhandled_panic(UnhandledPanic::Report)
///     .on_panic(|panic| {
///         assert_eq!(panic.message(), "one bad request");
///         REPORTED.fetch_add(1, Relaxed);
///     })
///     .build()?;
/// let value = server.block_on(async {
///     drop(filch::spawn(async { panic!("one bad request") }));
///     filch::spawn(async { "served" }).await
/// });
/// assert_eq!((value, REPORTED.load(Relaxed)), ("served", 1));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// It continues where the task's group is waited for, once all have ended: in `group`, `block_on` or
    /// `scope`. A `group` also cancels the others at once. Any panic after the first is reported.
    #[default]
    Propagate,
    /// [`on_panic`](crate::Builder::on_panic) hears of it at once, and nobody else does.
    Report,
}

/// All tuning parameters of a runtime, as plain data.
///
/// Usually set one by one through the [`Builder`](crate::Builder). Fields may be added, so outside
/// this crate a `Config` starts as the default and is changed field by field.
///
/// # Examples
///
/// ```
/// let mut config = filch::Config::default();
/// config.io_workers = 2;
/// config.ring_capacity = 512;
/// assert!(config.validate().is_ok());
///
/// config.ring_capacity = 100;
/// assert_eq!(
///     config.validate().unwrap_err().to_string(),
///     "`ring_capacity`: 100 is not a power of two between 2 and 32768",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Threads that run async tasks, timers and completions. Default 0, *guessed*: automatic, as
    /// many as CPUs that the process may use.
    pub io_workers: usize,
    /// Threads that run jobs. Default 0, *guessed*: automatic, as many as CPUs that the process may
    /// use.
    pub compute_workers: usize,
    /// Most threads per role, spares apart; greater counts are cut to it. Default 512, *guessed*.
    pub max_workers: usize,
    /// Tasks that a worker's ring holds, a power of two from 2 to 32768. Default 256, *guessed*.
    pub ring_capacity: usize,
    /// Ticks of a worker between two looks at the injector, at the start: the runtime adapts it to
    /// the time that polls take. Default 61, *guessed*.
    pub global_interval: usize,
    /// Most tasks that a worker takes from the injector at once. Default 16, *guessed*.
    pub global_batch: usize,
    /// Polls between two visits to the I/O driver and the timers while there is work. Default 61,
    /// *guessed*.
    pub io_interval: usize,
    /// Tasks that a worker runs from its own ring in one step. Default 61, *guessed*.
    pub local_budget: usize,
    /// Pinned tasks that a worker runs in one step. Default 32, *guessed*.
    pub private_budget: usize,
    /// Timers of a wheel that a worker fires in one step. Default 64, *guessed*.
    pub timer_budget: usize,
    /// Probes of one search for work before the searcher pauses between them. Default `None`, *guessed*:
    /// 2 · (workers + shards + 1).
    pub explore_tries: Option<usize>,
    /// Most probes with a pause that a searcher makes before it gives up; how many it makes is learnt.
    /// Default 150, *guessed*; 0 gives up after the first fruitless search.
    pub explore_yields: usize,
    /// Workers of a lane that may search at the same time. Default `None`, *guessed*: half of
    /// them, rounded up.
    pub searcher_limit: Option<usize>,
    /// Tasks that the newest-task slot may serve in a row before the ring has its turn. Default 3,
    /// *guessed*.
    pub slot_streak: usize,
    /// Most spare I/O threads that stand in for blocked ones. Default 16, *guessed*; with 0 a
    /// blocked I/O worker is not replaced.
    pub io_spares: usize,
    /// Most spare compute threads that stand in for waiting ones. Default `None`, *guessed*: as
    /// many as compute workers.
    pub compute_spares: Option<usize>,
    /// Threads of the program that may be workers at the same time, by [`Handle::adopt`](crate::Handle::adopt);
    /// at most 1024. Default 0, *guessed*: a program that adopts says how often.
    pub adoptable_threads: usize,
    /// Workers of each role that may be attached ([`Handle::attach`](crate::Handle::attach)) beyond those
    /// that the runtime has from the start; at most 1024. Default `None`, *guessed*: 16 in a hive
    /// ([`Builder::hive`](crate::Builder::hive)), none elsewhere. Each is a place that costs some kilobytes.
    pub attachable_workers: Option<usize>,
    /// Whether crews follow the load: when all workers of a role are busy and work waits, one more is attached,
    /// as long as there is a place (`attachable_workers`); it leaves when it has had nothing to do for
    /// `spare_keep_alive`. Default `false`, *guessed*.
    pub elastic: bool,
    /// Threads that are no compute workers and may have others join in their `join`, `scope` or loop at
    /// the same time; at most 1024. Default 16, *guessed*. Any further one works alone.
    pub guest_threads: usize,
    /// How long an idle spare waits before its thread ends; at most a day. Default 1 s, *guessed*.
    pub spare_keep_alive: Duration,
    /// Most threads that run closures of `spawn_blocking`; more closures wait for their turn. Default
    /// 64, *guessed*. They start when they are needed.
    pub blocking_threads: usize,
    /// How long such a thread waits for its next closure before it ends; at most a day. Default 10 s,
    /// *guessed*.
    pub blocking_keep_alive: Duration,
    /// How often the sentry looks for stuck workers while somebody runs; at most 10 ms. Default
    /// 2 ms, *measured*: what a stuck worker holds, completions too, waits for the second look, and the
    /// worker is replaced at the fifth.
    pub sentry_period: Duration,
    /// How many of its oldest tasks a worker with a full ring spills in one go, for any worker of its
    /// lane to take, at most `ring_capacity`. Default `None`, *guessed*: half of `ring_capacity`.
    pub outbound_batch: Option<usize>,
    /// Independent queues that make up the injector, at most 1024. Default 4, *guessed*.
    pub injector_shards: usize,
    /// Operations that a task, or the future of a `block_on`, may complete in one poll before it has to
    /// yield. Default 128, *guessed*.
    pub poll_budget: usize,
    /// What becomes of a panic of a task whose handle was dropped, in each `block_on`, `scope`, and
    /// `group` that does not say otherwise. Default `Propagate`, *guessed*.
    pub unhandled_panic: UnhandledPanic,
    /// Seed of everything random: victims, start positions. Default `None`, *guessed*: a new one
    /// for each runtime.
    pub seed: Option<u64>,
    /// Bytes of stack for each thread, at least 16 KiB. Default `None`, *guessed*: std's choice,
    /// which is 2 MiB or `RUST_MIN_STACK`.
    pub stack_size: Option<usize>,
    /// Prefix of the threads' names, without NUL. Default `filch`, *guessed*. Linux keeps 15 bytes
    /// of a name, so a long prefix is cut.
    pub thread_name: String,
    /// Automatic worker counts count cores instead of hardware threads. Default `false`, *guessed*.
    pub physical_cores: bool,
    /// The thread that waits for jobs does its share, so the automatic number of compute workers is
    /// one less, yet at least one. Default `false`, *guessed*.
    pub caller_works: bool,
    /// Level of the I/O workers. Default `Normal`, *guessed*.
    pub io_level: Level,
    /// Level of the compute workers. Default `Normal`, *guessed*.
    pub compute_level: Level,
    /// I/O workers ask the kernel for slices of 0.1 ms, compute workers for 10 ms: while both want a core, who
    /// replies goes first, and shares stay as they are. The thread that runs or pumps a hive has an I/O worker's as
    /// long as it does. Default `true`, *measured* (`mixed`, `pump_60hz`). It needs no privilege, and Linux 6.12; [`describe`](crate::Handle::describe) tells what came of it.
    pub lane_slices: bool,
    /// CPUs of the I/O workers. Default `Any`, *guessed*.
    pub io_affinity: Affinity,
    /// CPUs of the compute workers. Default `Any`, *guessed*.
    pub compute_affinity: Affinity,
    /// What drives I/O. Default `Auto`, *guessed*: a ring where the kernel grants one, else epoll.
    pub io_backend: IoBackend,
    /// One worker that plays both roles. Default `false`, *guessed*. Worker counts must then be 0
    /// or 1.
    pub single_thread: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            io_workers: 0,
            compute_workers: 0,
            max_workers: 512,
            ring_capacity: 256,
            global_interval: 61,
            global_batch: 16,
            io_interval: 61,
            local_budget: 61,
            private_budget: 32,
            timer_budget: 64,
            explore_tries: None,
            explore_yields: 150,
            searcher_limit: None,
            slot_streak: 3,
            io_spares: 16,
            compute_spares: None,
            adoptable_threads: 0,
            attachable_workers: None,
            elastic: false,
            guest_threads: 16,
            spare_keep_alive: Duration::from_secs(1),
            blocking_threads: 64,
            blocking_keep_alive: Duration::from_secs(10),
            sentry_period: Duration::from_millis(2),
            outbound_batch: None,
            injector_shards: 4,
            poll_budget: 128,
            unhandled_panic: UnhandledPanic::Propagate,
            seed: None,
            stack_size: None,
            thread_name: "filch".to_owned(),
            physical_cores: false,
            caller_works: false,
            io_level: Level::Normal,
            compute_level: Level::Normal,
            lane_slices: true,
            io_affinity: Affinity::Any,
            compute_affinity: Affinity::Any,
            io_backend: IoBackend::Auto,
            single_thread: false,
        }
    }
}

/// What open values come to, once the worker counts are known.
impl Config {
    /// `explore_tries` for a lane of `workers`.
    pub(crate) fn tries_among(&self, workers: usize) -> usize {
        self.explore_tries.unwrap_or(2 * (workers + self.injector_shards + 1))
    }

    /// `searcher_limit` for a lane of `workers`.
    pub(crate) fn searchers_among(&self, workers: usize) -> usize {
        self.searcher_limit.unwrap_or(workers.div_ceil(2)).max(1)
    }

    /// `compute_spares`, by default as many as compute workers.
    pub(crate) fn compute_spares_or_default(&self) -> usize {
        self.compute_spares.unwrap_or(self.compute_workers)
    }

    /// `outbound_batch`, by default half of the ring.
    pub(crate) fn outbound_batch_or_default(&self) -> usize {
        self.outbound_batch.unwrap_or(self.ring_capacity / 2)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
