//! `Sim`: a program on a simulated machine.
//!
//! Z1. Every thread of a run (the program's, the workers', the sentry's, those of `spawn_thread`)
//!     is a participant; the thread that calls `run` only waits and watches.
//! Z2. A run ends when all participants have ended. One that fails is given up as it stands: its
//!     threads wait for ever, because unwinding them would run the program's code on.
//! Z3. Real time decides nothing but whether a participant is blocked for good.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{ExitCode, Termination};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::network::{IoScript, Network};
use crate::base::rng::Rng;
use crate::base::shim::{AtomicUsize, Ordering};
use crate::base::sim::{self, Cause, Running, World};
use crate::base::thread;
use crate::builder::Builder;
use crate::config::Config;
use crate::runtime::Handle;
use crate::sched::shutdown::Shutdown;

/// Where a failing seed is replayed alone.
const SEED_VARIABLE: &str = "FILCH_SIM_SEED";

/// Workers of each role. Guessed: the fewest that can race.
const WORKERS: usize = 2;

/// Switches in one run, at most. Guessed: a minute's worth.
const MOST_SWITCHES: u64 = 10_000_000;

/// How often the driver looks whether the run goes on.
const LOOK: Duration = Duration::from_millis(50);

/// So long asleep in the system, without a switch, is blocked for good. Guessed.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

/// So long without a switch is not worth waiting for. Guessed.
const RUNAWAY_AFTER: Duration = Duration::from_secs(60);

/// A simulated machine: a runtime whose threads run one at a time, in an order that a seed decides.
///
/// The program is an ordinary closure that uses filch as it always does; [`spawn()`](crate::spawn()),
/// [`join()`](crate::join()), [`scope()`](crate::scope()) and the others mean the simulated runtime.
/// Where its threads meet (a push, a steal, a sleep, a wake, a lock of this module) another one may go
/// on, as the seed decides. Time is virtual: it jumps to the next deadline when nobody can run. The
/// same seed gives the same run, as long as time, randomness, threads and blocking locks come from
/// [`testkit`](super) and nothing depends on addresses.
///
/// A run fails if the program panics; if everybody waits and nothing is left that could happen; if it
/// does not end; if a thread blocks where the simulation cannot see it, for instance in a `std` lock
/// that another thread holds across a switch. The failure names the seed, the tasks that are alive, and
/// what every thread does.
///
/// ```
/// use filch::testkit::{FailureKind, Mutex, Sim};
/// use std::sync::Arc;
///
/// let failure = Sim::new().find(0..1000, || {
///     let locks = Arc::new((Mutex::new(()), Mutex::new(())));
///     let other = locks.clone();
///     filch::join(
///         move || { let _a = locks.0.lock(); let _b = locks.1.lock(); },
///         move || { let _b = other.1.lock(); let _a = other.0.lock(); },
///     );
/// });
/// assert_eq!(failure.unwrap().kind(), FailureKind::Deadlock);
/// ```
///
/// # Limits
/// A wake from a thread outside of the simulation is not waited for. The program must be `'static`,
/// because a run that fails is given up with its threads. Destructors of thread-locals run beside
/// the others. Sockets are simulated ([`Sim::io`]); files, and names of hosts, are not.
#[derive(Clone, Debug)]
#[must_use = "a simulation does nothing until it runs a program"]
pub struct Sim {
    config: Config,
    seed: Option<u64>,
    most_switches: u64,
    script: IoScript,
}

/// A run that ended: its value, and how it went.
///
/// ```
/// use filch::testkit::Sim;
/// let run = |seed| Sim::new().seed(seed).try_run(|| filch::join(|| 1, || 2)).unwrap();
/// assert_eq!(run(1).value, (1, 2));
/// assert_eq!(run(1).trace, run(1).trace);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run<T> {
    /// What the program returned.
    pub value: T,
    /// A hash of every switch: equal for equal runs.
    pub trace: u64,
    /// How many switches there were.
    pub switches: u64,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// A machine with two I/O workers and two compute workers, and a configuration that is fit for
    /// simulation: small queues, and searches that give up soon.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// assert_eq!(Sim::new().run(|| filch::spawn_fn(|| 7).wait()), 7);
    /// ```
    pub fn new() -> Self {
        let config = Config {
            io_workers: WORKERS,
            compute_workers: WORKERS,
            ring_capacity: 16,
            explore_yields: 2,
            io_spares: 4,
            ..Config::default()
        };
        Self { config, seed: None, most_switches: MOST_SWITCHES, script: IoScript::new() }
    }

    /// So many workers of each role.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// let workers = Sim::new().workers(3).run(|| filch::Handle::current().config().io_workers);
    /// assert_eq!(workers, 3);
    /// ```
    pub fn workers(self, count: usize) -> Self {
        self.io_workers(count).compute_workers(count)
    }

    /// So many I/O workers.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// assert_eq!(Sim::new().io_workers(1).run(|| filch::spawn(async { 7 }).wait()), 7);
    /// ```
    pub fn io_workers(mut self, count: usize) -> Self {
        self.config.io_workers = count;
        self
    }

    /// So many compute workers.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// assert_eq!(Sim::new().compute_workers(3).run(|| filch::join(|| 1, || 2)), (1, 2));
    /// ```
    pub fn compute_workers(mut self, count: usize) -> Self {
        self.config.compute_workers = count;
        self
    }

    /// One worker that has both roles.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// assert_eq!(Sim::new().single_thread().run(|| filch::spawn(async { 7 }).wait()), 7);
    /// ```
    pub fn single_thread(mut self) -> Self {
        self.config.single_thread = true;
        (self.config.io_workers, self.config.compute_workers) = (1, 1);
        self
    }

    /// A whole configuration; its `seed` is set by the simulation.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// let mut config = filch::Config::default();
    /// (config.io_workers, config.compute_workers, config.ring_capacity) = (1, 2, 4);
    /// assert_eq!(Sim::new().config(config).run(|| filch::join(|| 1, || 2)), (1, 2));
    /// ```
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The seed of [`run`](Self::run); else it is `FILCH_SIM_SEED`, or 0.
    ///
    /// ```
    /// use filch::testkit::{self, Sim};
    /// assert_eq!(Sim::new().seed(3).run(testkit::random), Sim::new().seed(3).run(testkit::random));
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many switches a run may come to; more is a failure. Default ten million.
    ///
    /// ```
    /// use filch::testkit::{self, FailureKind, Sim};
    /// let endless = || loop { testkit::switch_point() };
    /// let failure = Sim::new().most_switches(10_000).find(0..1, endless).unwrap();
    /// assert_eq!(failure.kind(), FailureKind::Endless);
    /// ```
    pub fn most_switches(mut self, count: u64) -> Self {
        self.most_switches = count;
        self
    }

    /// How sockets behave; for Linux only. By default as [`IoScript::new`] says.
    ///
    /// A simulation has a network of its own, in memory: everything of [`net`](crate::net) works on it, and
    /// reaches whoever is bound or listens in the same simulation, at any address. Each socket has a
    /// descriptor of the system's, which is never bound or connected: it holds the options. Operations on
    /// files end with an error, as sockets do that were made elsewhere.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::net::UdpSocket;
    /// use filch::testkit::{IoScript, Sim};
    ///
    /// // Datagrams overtake each other and are lost: this program has not thought of it.
    /// let script = IoScript::new().losses(0.01);
    /// let failure = Sim::new().io(script).find(0..1000, || {
    ///     filch::block_on(async {
    ///         let here = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    ///         here.connect(here.local_addr().unwrap()).await.unwrap();
    ///         for i in 0..3 {
    ///             here.send(&[i]).await.unwrap();
    ///         }
    ///         for i in 0..3 {
    ///             let mut buffer = [0];
    ///             let receive = here.recv(&mut buffer);
    ///             filch::time::timeout(Duration::from_secs(1), receive).await.unwrap().unwrap();
    ///             assert_eq!(buffer, [i]);
    ///         }
    ///     });
    /// });
    /// assert!(failure.is_some());
    /// ```
    #[cfg(target_os = "linux")]
    pub fn io(mut self, script: IoScript) -> Self {
        self.script = script;
        self
    }

    /// Runs a program once, and returns its value when all that it started has ended.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// let sum = Sim::new().seed(7).run(|| filch::block_on(async { filch::spawn(async { 3 }).await }));
    /// assert_eq!(sum, 3);
    /// ```
    ///
    /// # Panics
    /// With the [`Failure`], if the run fails. If the configuration makes no sense, and inside of a
    /// simulation.
    #[track_caller]
    pub fn run<T: Send + 'static>(&self, program: impl FnOnce() -> T + Send + 'static) -> T {
        match self.try_run(program) {
            Ok(run) => run.value,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// As [`run`](Self::run), and tells how it went.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// assert!(Sim::new().try_run(|| panic!("oh")).unwrap_err().to_string().contains("oh"));
    /// ```
    ///
    /// # Errors
    /// If the run fails.
    ///
    /// # Panics
    /// If the configuration makes no sense, and inside of a simulation.
    #[track_caller]
    pub fn try_run<T: Send + 'static>(
        &self,
        program: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Run<T>, Failure> {
        let seed = self.seed.or_else(seed_to_replay).unwrap_or(0);
        let config = self.resolved();
        let _one_cpu = OneCpu::confine();
        self.run_with(seed, &config, program)
    }

    /// Runs a program once for each seed, or for `FILCH_SIM_SEED` alone if that is set, and panics
    /// with the first failure. A `Result` that is an error is a failure, as in `#[test]`.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// Sim::new().check(0..50, || {
    ///     let sum: u32 = filch::wait_all((0..4).map(|i| filch::spawn_fn(move || i))).iter().sum();
    ///     assert_eq!(sum, 6);
    /// });
    /// ```
    ///
    /// # Panics
    /// As [`run`](Self::run).
    #[track_caller]
    pub fn check<T: Termination>(
        &self,
        seeds: Range<u64>,
        program: impl Fn() -> T + Send + Sync + 'static,
    ) {
        let seeds = match seed_to_replay() {
            Some(seed) => seed..seed + 1,
            None => seeds,
        };
        if let Some(failure) = self.find(seeds, program) {
            panic!("{failure}");
        }
    }

    /// Looks for a seed with which the program fails, in their order.
    ///
    /// ```
    /// use filch::testkit::{self, Sim};
    /// let unlucky = || assert_ne!(testkit::random() % 10, 0);
    /// let failure = Sim::new().find(0..1000, unlucky).unwrap();
    /// assert!(Sim::new().seed(failure.seed()).try_run(unlucky).is_err());
    /// ```
    ///
    /// # Panics
    /// If the configuration makes no sense, and inside of a simulation.
    #[track_caller]
    pub fn find<T: Termination>(
        &self,
        seeds: Range<u64>,
        program: impl Fn() -> T + Send + Sync + 'static,
    ) -> Option<Failure> {
        let (config, program) = (self.resolved(), Arc::new(program));
        let _one_cpu = OneCpu::confine();
        seeds.into_iter().find_map(|seed| {
            let program = program.clone();
            let judged = move || {
                let failed = program().report() != ExitCode::SUCCESS;
                assert!(!failed, "the program returned an error");
            };
            self.run_with(seed, &config, judged).err()
        })
    }

    #[track_caller]
    fn resolved(&self) -> Config {
        match Builder::new().config(self.config.clone()).resolve() {
            Ok(config) => config,
            Err(error) => panic!("no simulation of that configuration: {error}"),
        }
    }

    #[track_caller]
    fn run_with<T: Send + 'static>(
        &self,
        seed: u64,
        config: &Config,
        program: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Run<T>, Failure> {
        assert!(!sim::is_on(), "a simulation inside of a simulation");
        let running = Running::begin();
        let network = Arc::new(Network::new(self.script.clone(), seed.rotate_left(32)));
        let world = World::new(seed, self.most_switches, network.clone());
        let stage = Arc::new(Stage { runtime: OnceLock::new(), outcome: Mutex::new(None) });
        let mut config = config.clone();
        config.seed = Some(Rng::new(!seed).next_u64());
        let (stack, main) = (config.stack_size, stage.clone());
        if let Err(error) = world.begin("program", stack, move || main.play(config, program)) {
            panic!("a simulation needs threads: {error}");
        }
        watch(&world);
        let (trace, switches) = (world.trace(), world.steps());
        if let Err(cause) = world.conclude() {
            if let Cause::Stalled { .. } = cause {
                // Who comes back from where it blocked must still be stopped at its next switch.
                std::mem::forget(running);
            }
            return Err(Failure::of_world(seed, &cause, &world, &network, stage.runtime.get()));
        }
        let outcome = stage.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        match outcome.expect("a program that ended leaves its outcome") {
            Ok(value) => Ok(Run { value, trace, switches }),
            Err(payload) => Err(Failure::of_program(seed, &sim::text_of(&*payload))),
        }
    }
}

/// Evidence that this thread, and those that it starts, are confined to one CPU. One at a time
/// runs, so a second CPU only makes it dear to hand the baton over, and to end a thread. Measured:
/// a third of the time.
struct OneCpu {
    /// What the thread may use otherwise.
    before: Vec<usize>,
}

impl OneCpu {
    /// The next of those that the caller may use, so that simulations beside each other spread.
    fn confine() -> Self {
        static PICKED: AtomicUsize = AtomicUsize::new(0);
        let before = thread::current_affinity();
        // ORDERING: Relaxed, any spread will do.
        let turn = PICKED.fetch_add(1, Ordering::Relaxed);
        if let Some(&cpu) = before.get(turn % before.len().max(1)) {
            // Refused, the run is slower and otherwise the same.
            let _ = thread::set_affinity(&[cpu]);
        }
        Self { before }
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        let _ = thread::set_affinity(&self.before);
    }
}

/// What the program's thread and the driver share.
struct Stage<T> {
    runtime: OnceLock<Handle>,
    outcome: Mutex<Option<std::thread::Result<T>>>,
}

impl<T> Stage<T> {
    /// The program's thread.
    fn play(&self, config: Config, program: impl FnOnce() -> T) {
        let runtime = match Builder::new().config(config.clone()).build_resolved(config) {
            Ok(runtime) => runtime,
            Err(error) => panic!("the simulated runtime does not start: {error}"),
        };
        let _ = self.runtime.set(runtime.handle());
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on_fn(program)));
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        runtime.shutdown(Shutdown::Abort);
    }
}

/// The seed that the environment asks for.
///
/// # Panics
/// If it is no number.
fn seed_to_replay() -> Option<u64> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    match text.parse() {
        Ok(seed) => Some(seed),
        Err(error) => panic!("{SEED_VARIABLE}={text}: {error}"),
    }
}

/// Waits for the verdict. A holder that does not come to a switch is given up (Z3).
fn watch(world: &World) {
    let mut last = world.progress();
    let mut moved = Instant::now();
    let mut awake = moved;
    while !world.wait_for_verdict(LOOK) {
        let (now, progress) = (Instant::now(), world.progress());
        if progress != last {
            (last, moved, awake) = (progress, now, now);
            continue;
        }
        if !sleeps(progress.thread) {
            awake = now;
        }
        let asleep = now - awake >= BLOCKED_AFTER;
        let given_up = (asleep || now - moved >= RUNAWAY_AFTER)
            && world.give_up(progress, Cause::Stalled { asleep });
        if given_up {
            return;
        }
    }
}

/// Whether the system says that the thread waits for something.
#[cfg(target_os = "linux")]
fn sleeps(thread: u32) -> bool {
    let stat =
        std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The name is in parentheses, and may contain some.
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    matches!(state, Some('S' | 'D'))
}

#[cfg(not(target_os = "linux"))]
fn sleeps(_thread: u32) -> bool {
    false
}
