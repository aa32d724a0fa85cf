//! From wishes to numbers: collects what the program sets, and settles the rest.
//!
//! B1. The program wins over the environment, the environment over the machine.
//! B2. A resolved `Config` is valid and has worker counts from 1 to `max_workers`.
//! B3. The CPUs that it lists exist. Whether this process may use them is asked when a thread starts.
//!
//! Not here: starting the threads (runtime.rs).

use std::{env, ffi::OsString, fmt, fs, io, path::Path, sync::Arc};

use crate::{
    base::{
        cpus::{Machine, Within},
        script::ScriptedRng,
        sim,
    },
    config::{
        Affinity, Config, IoBackend, Level,
        env::Environment,
        file::{Chosen, File},
        hooks::{Hooks, WorkerInfo},
    },
    error::{BuildError, ConfigError},
    sched::{
        core::EventCore,
        drive::Closure,
        shared::{Birth, CoreFactory, Parts, Shared},
    },
    spawn::{Place, TaskBuilder},
    task::join::JoinError,
    timer::Clock,
};

mod tuning;

/// Sets up a runtime.
///
/// What the program leaves open is filled from the environment, and what that leaves open from
/// the machine. Open are a worker count of 0, a `None`, and a thread name, a `max_workers`, a
/// `single_thread` or an `unhandled_panic` that was never set. So a variable never overrules a choice of the program.
///
/// | variable | fills | format |
/// | --- | --- | --- |
/// | `FILCH_WORKERS` | both worker counts | a number; 0 is automatic |
/// | `FILCH_IO_WORKERS` | [`Config::io_workers`], before `FILCH_WORKERS` | a number; 0 is automatic |
/// | `FILCH_COMPUTE_WORKERS` | [`Config::compute_workers`], likewise | a number; 0 is automatic |
/// | `FILCH_MAX_WORKERS` | [`Config::max_workers`]; does not cut counts that the program gave | a number |
/// | `FILCH_STACK_SIZE` | [`Config::stack_size`] | bytes |
/// | `FILCH_SEED` | [`Config::seed`] | a number, or hexadecimal after `0x` |
/// | `FILCH_SINGLE_THREAD` | [`Config::single_thread`], unless the program asks for several workers | `1`, `true`, `0` or `false` |
/// | `FILCH_THREAD_NAME` | [`Config::thread_name`] | text |
/// | `FILCH_IO` | [`Config::io_backend`], if that is `Auto` | `auto`, `uring`, `uring-plain` or `epoll` |
/// | `FILCH_UNHANDLED_PANIC` | [`Config::unhandled_panic`] | `propagate` or `report` |
/// | `FILCH_CONFIG` | every parameter that neither the program nor another variable sets | path of a file, see [`Builder::from_file`] |
///
/// A variable that cannot be understood is an error, even where it would not have been used.
///
/// # Examples
///
/// ```
/// let config = filch::Builder::new().io_workers(2).thread_name("web").resolve()?;
/// assert_eq!(config.io_workers, 2);
/// assert!(config.compute_workers >= 1);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    config: Config,
    chosen: Chosen,
    pub(crate) hooks: Hooks,
    clock: Clock,
    cores: Option<CoreFactory>,
    script: Option<ScriptedRng>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("config", &self.config)
            .field("hooks", &self.hooks)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// What tests and event loops put in place of the system's.
impl Builder {
    /// Sets the clock that workers read.
    ///
    /// ```
    /// use filch::testkit::{Clock, ManualClock};
    /// let clock = Clock::Manual(ManualClock::new().into());
    /// let runtime = filch::Builder::new().workers(1).clock(clock).build()?;
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets choices that come in place of random ones.
    ///
    /// ```
    /// let rng = filch::testkit::ScriptedRng::new();
    /// let runtime = filch::Builder::new().workers(2).rng(rng).build()?;
    /// assert_eq!(runtime.block_on(async { 1 }), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn rng(mut self, rng: ScriptedRng) -> Self {
        self.script = Some(rng);
        self
    }

    /// Sets what makes the event core of each worker, in which it sleeps and learns of events.
    ///
    /// [`EventCore`] has an example of a core.
    ///
    /// ```
    /// struct Restless;
    /// impl filch::EventCore for Restless {
    ///     fn poll(&mut self) -> usize { 0 }
    ///     fn park(&mut self, _: Option<std::time::Duration>) { std::thread::yield_now() }
    ///     fn waker(&self) -> std::task::Waker { std::task::Waker::noop().clone() }
    /// }
    ///
    /// let cores = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    /// let made = cores.clone();
    /// let runtime = filch::Builder::new().single_thread(true).io_spares(0).event_core(move |_| {
    ///     made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    ///     Box::new(Restless)
    /// });
    /// assert_eq!(runtime.build()?.spawn(async { 1 }).wait(), 1);
    /// assert_eq!(cores.load(std::sync::atomic::Ordering::Relaxed), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn event_core(
        mut self,
        make: impl Fn(WorkerInfo) -> Box<dyn EventCore> + Send + Sync + 'static,
    ) -> Self {
        self.cores = Some(Arc::new(make));
        self
    }

    /// What a runtime is made from, once the configuration is resolved.
    pub(crate) fn into_parts(self, config: Config, birth: Birth) -> Parts {
        let Self { hooks, clock, cores, script, .. } = self;
        let clock = match (clock, sim::clock()) {
            (Clock::Real, Some(simulated)) => Clock::Manual(simulated),
            (clock, _) => clock,
        };
        Parts { config, hooks, clock, cores, offload, birth, script }
    }
}

/// Runs a closure of the I/O engine as a task of the runtime's own group. If no thread can be started for it, returns
/// the system's error number.
fn offload(shared: &Shared, closure: Closure) -> Result<(), i32> {
    let place = Place::Group(shared.root.clone());
    let handle = TaskBuilder::at(place).name("system call").spawn_blocking(closure);
    if !handle.is_finished() {
        return Ok(());
    }
    let failed = handle.wait_outcome().err();
    match failed.as_ref().and_then(JoinError::never_ran).and_then(|why| why.errno) {
        Some(errno) => Err(errno),
        None => Ok(()),
    }
}

impl Builder {
    /// Starts with every default.
    ///
    /// # Examples
    ///
    /// ```
    /// let config = filch::Builder::new().resolve()?;
    /// assert_eq!(config.ring_capacity, 256);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with what a configuration file names, and every other default.
    ///
    /// A file has a parameter on each line, by its name in [`Config`], and is what a `Config` prints; `filch
    /// tune` writes one that suits the machine. What is set afterwards wins over the file.
    ///
    /// # Examples
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("filch-{}.conf", std::process::id()));
    /// std::fs::write(&path, "io_workers = 3\nslot_streak = 5\n")?;
    /// let config = filch::Builder::from_file(&path)?.slot_streak(1).resolve()?;
    /// assert_eq!((config.io_workers, config.slot_streak), (3, 1));
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`BuildError::File`] if it cannot be read or understood.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, BuildError> {
        let File { config, named } = read_file(path.as_ref())?;
        Ok(Self { config, chosen: named, ..Self::default() })
    }

    /// Replaces all parameters at once; hooks stay.
    ///
    /// Every field counts as set by the program, yet open values stay open.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut config = filch::Config::default();
    /// config.compute_workers = 3;
    /// let resolved = filch::Builder::new().ring_capacity(512).config(config).resolve()?;
    /// assert_eq!((resolved.compute_workers, resolved.ring_capacity), (3, 256));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self.chosen = Chosen::all();
        self
    }

    /// Applies the environment and the machine, and checks the result.
    ///
    /// Building a runtime does the same; this shows what it would use.
    ///
    /// # Examples
    ///
    /// ```
    /// let config = filch::Builder::new().workers(1000).max_workers(8).resolve()?;
    /// assert_eq!((config.io_workers, config.compute_workers), (8, 8));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`BuildError::Environment`] for a variable that cannot be understood, [`BuildError::File`] for
    /// such a file, and [`BuildError::Config`] for a parameter that makes no sense.
    pub fn resolve(&self) -> Result<Config, BuildError> {
        self.resolve_on(|variable| env::var_os(variable), &Machine::detect())
    }

    /// The same for a hive, whose worker counts are the program's.
    pub(crate) fn resolve_hive(&self) -> Result<Config, BuildError> {
        let mut config = self.resolve()?;
        if !config.single_thread {
            (config.io_workers, config.compute_workers) =
                (self.config.io_workers, self.config.compute_workers);
        }
        Ok(config)
    }

    /// The same for a given environment and machine.
    pub(crate) fn resolve_on(
        &self,
        lookup: impl Fn(&str) -> Option<OsString>,
        machine: &Machine,
    ) -> Result<Config, BuildError> {
        let mut config = self.config.clone();
        let mut chosen = self.chosen.clone();
        let file = lookup("FILCH_CONFIG").map(|path| read_file(path.as_ref())).transpose()?;
        Environment::parse(lookup)?.apply(&mut config, &mut chosen);
        if let Some(file) = file {
            file.apply(&mut config, &chosen);
        }
        config.validate()?;
        check_affinity("io_affinity", &config.io_affinity, machine)?;
        check_affinity("compute_affinity", &config.compute_affinity, machine)?;
        settle_workers(&mut config, &self.config, machine);
        debug_assert!(config.validate().is_ok());
        Ok(config)
    }
}

fn read_file(path: &Path) -> Result<File, BuildError> {
    let parse = |text: String| {
        text.parse::<File>().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    };
    let fail = |source| BuildError::File { path: path.to_owned(), source };
    fs::read_to_string(path).and_then(parse).map_err(fail)
}

/// Refuses a CPU that this machine does not have (B3).
fn check_affinity(
    field: &'static str,
    affinity: &Affinity,
    machine: &Machine,
) -> Result<(), ConfigError> {
    let Affinity::Cpus(cpus) = affinity else { return Ok(()) };
    match machine.missing(cpus) {
        None => Ok(()),
        Some((cpu, list)) => {
            let reason = format!("there is no CPU {cpu}: this machine has {list}");
            Err(ConfigError::new(field, reason))
        }
    }
}

/// Makes both worker counts concrete (B2).
///
/// A count that the `program` gave is cut by the program's own maximum only (B1).
fn settle_workers(config: &mut Config, program: &Config, machine: &Machine) {
    if config.single_thread {
        (config.io_workers, config.compute_workers) = (1, 1);
        return;
    }
    if config.io_workers == 0 {
        config.io_workers = automatic(config, &config.io_affinity, machine);
    }
    if config.compute_workers == 0 {
        let caller = usize::from(config.caller_works);
        config.compute_workers = automatic(config, &config.compute_affinity, machine) - caller;
    }
    let most = config.max_workers;
    let ceiling = |given: usize| if given > 0 { program.max_workers } else { most };
    config.io_workers = config.io_workers.clamp(1, ceiling(program.io_workers));
    config.compute_workers = config.compute_workers.clamp(1, ceiling(program.compute_workers));
    config.max_workers = most.max(config.io_workers).max(config.compute_workers);
}

fn automatic(config: &Config, affinity: &Affinity, machine: &Machine) -> usize {
    let within = match affinity {
        Affinity::Cpus(cpus) => Within::Cpus(cpus),
        Affinity::Any | Affinity::PinEach => Within::Mask,
    };
    if config.physical_cores { machine.cores(within) } else { machine.cpus(within) }
}

/// Workers and their threads.
impl Builder {
    /// Sets the number of I/O workers; 0 is automatic.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(filch::Builder::new().io_workers(3).resolve()?.io_workers, 3);
    /// assert!(filch::Builder::new().io_workers(0).resolve()?.io_workers >= 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn io_workers(mut self, workers: usize) -> Self {
        self.config.io_workers = workers;
        self
    }

    /// Sets the number of compute workers; 0 is automatic.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(filch::Builder::new().compute_workers(3).resolve()?.compute_workers, 3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn compute_workers(mut self, workers: usize) -> Self {
        self.config.compute_workers = workers;
        self
    }

    /// Sets the number of workers of both roles: so many of each.
    ///
    /// # Examples
    ///
    /// ```
    /// let config = filch::Builder::new().workers(2).resolve()?;
    /// assert_eq!((config.io_workers, config.compute_workers), (2, 2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn workers(self, workers: usize) -> Self {
        self.io_workers(workers).compute_workers(workers)
    }

    /// Sets the most workers per role; greater counts are cut to it.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(filch::Builder::new().workers(9).max_workers(4).resolve()?.io_workers, 4);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn max_workers(mut self, workers: usize) -> Self {
        self.config.max_workers = workers;
        self.chosen.add("max_workers");
        self
    }

    /// Chooses whether one worker plays both roles.
    ///
    /// # Examples
    ///
    /// ```
    /// let config = filch::Builder::new().single_thread(true).resolve()?;
    /// assert!(config.single_thread);
    /// assert_eq!((config.io_workers, config.compute_workers), (1, 1));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn single_thread(mut self, yes: bool) -> Self {
        self.config.single_thread = yes;
        self.chosen.add("single_thread");
        self
    }

    /// Chooses what drives I/O. Other than [`IoBackend::Auto`], it is used or the build fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use filch::IoBackend;
    /// let config = filch::Builder::new().io_backend(IoBackend::Epoll).resolve()?;
    /// assert_eq!(config.io_backend, IoBackend::Epoll);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn io_backend(mut self, backend: IoBackend) -> Self {
        self.config.io_backend = backend;
        self
    }

    /// Chooses whether I/O workers go first while compute workers want the same cores
    /// ([`Config::lane_slices`]).
    ///
    /// # Examples
    ///
    /// ```
    /// let equal = filch::Builder::new().lane_slices(false).build()?;
    /// assert_eq!(equal.describe().slices, "the system's, as configured");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn lane_slices(mut self, yes: bool) -> Self {
        self.config.lane_slices = yes;
        self.chosen.add("lane_slices");
        self
    }

    /// Chooses whether automatic counts count cores instead of hardware threads.
    ///
    /// # Examples
    ///
    /// ```
    /// let threads = filch::Builder::new().resolve()?.compute_workers;
    /// let cores = filch::Builder::new().physical_cores(true).resolve()?.compute_workers;
    /// assert!(cores <= threads);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn physical_cores(mut self, yes: bool) -> Self {
        self.config.physical_cores = yes;
        self.chosen.add("physical_cores");
        self
    }

    /// Chooses whether the automatic count leaves one CPU to the thread that waits for jobs.
    ///
    /// # Examples
    ///
    /// ```
    /// let all = filch::Builder::new().resolve()?.compute_workers;
    /// let fewer = filch::Builder::new().caller_works(true).resolve()?.compute_workers;
    /// assert!(fewer >= 1 && fewer <= all);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn caller_works(mut self, yes: bool) -> Self {
        self.config.caller_works = yes;
        self.chosen.add("caller_works");
        self
    }

    /// Sets the prefix of the threads' names.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(filch::Builder::new().thread_name("db").resolve()?.thread_name, "db");
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn thread_name(mut self, prefix: impl Into<String>) -> Self {
        self.config.thread_name = prefix.into();
        self.chosen.add("thread_name");
        self
    }

    /// Sets the stack of each thread, in bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// let config = filch::Builder::new().stack_size(1 << 20).resolve()?;
    /// assert_eq!(config.stack_size, Some(1 << 20));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.config.stack_size = Some(bytes);
        self
    }

    /// Sets how urgently the system should run I/O workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use filch::Level;
    ///
    /// assert_eq!(filch::Builder::new().io_level(Level::Display).resolve()?.io_level, Level::Display);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn io_level(mut self, level: Level) -> Self {
        self.config.io_level = level;
        self.chosen.add("io_level");
        self
    }

    /// Sets how urgently the system should run compute workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use filch::Level;
    ///
    /// let config = filch::Builder::new().compute_level(Level::Background).resolve()?;
    /// assert_eq!(config.compute_level, Level::Background);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn compute_level(mut self, level: Level) -> Self {
        self.config.compute_level = level;
        self.chosen.add("compute_level");
        self
    }

    /// Sets the CPUs of the I/O workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use filch::Affinity;
    ///
    /// let config = filch::Builder::new().io_affinity(Affinity::PinEach).resolve()?;
    /// assert_eq!(config.io_affinity, Affinity::PinEach);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn io_affinity(mut self, affinity: Affinity) -> Self {
        self.config.io_affinity = affinity;
        self.chosen.add("io_affinity");
        self
    }

    /// Sets the CPUs of the compute workers.
    ///
    /// # Examples
    ///
    /// ```
    /// use filch::Affinity;
    ///
    /// let error = filch::Builder::new().compute_affinity(Affinity::Cpus(vec![])).resolve();
    /// assert!(error.unwrap_err().to_string().contains("`compute_affinity`: lists no CPU"));
    /// ```
    pub fn compute_affinity(mut self, affinity: Affinity) -> Self {
        self.config.compute_affinity = affinity;
        self.chosen.add("compute_affinity");
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
