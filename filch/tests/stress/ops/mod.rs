//! Operations that are dropped at random moments, on real sockets, files and timers, for as long as
//! `FILCH_STRESS_SECONDS` says.
//!
//! Time goes by in epochs. Each has its own runtimes, of a random shape, and actors that check what they
//! read against what was written; it ends by a drain after the actors were told to stop, or by an
//! abort amid everything.
//!
//! E1. No byte is lost, doubled or out of order, whatever is dropped: each actor says how it knows.
//! E2. An actor meets no error, unless its epoch has been aborted.
//! E3. After an epoch, as many descriptors are open as before it.
//! E4. In an epoch that nobody aborted, every actor comes to its end.
//!
//! What is shared is in atomics, not behind locks: ThreadSanitizer does not see into std's.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use filch::{Builder, Handle, IoBackend, Runtime, Shutdown};

use crate::storm::{Rng, TellSeed, seed};
use crate::stress_time;

mod connections;
mod datagrams;
mod dog;
mod fate;
mod files;
mod floods;
mod streams;
mod timers;

/// One runtime's life, or that of two.
pub struct Epoch {
    number: usize,
    seed: u64,
    /// Actors come to an end.
    stops: AtomicBool,
    /// E2.
    aborted: AtomicBool,
    /// Moved by every actor now and then, and seen by the dog.
    steps: AtomicUsize,
    /// What went wrong, if anything.
    failures: AtomicUsize,
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// Why an actor ends early: the epoch was aborted, and an operation has failed since.
pub struct Aborted;

impl Epoch {
    /// Lives as long as the process: some bytes for each.
    fn leak(number: usize, seed: u64) -> &'static Self {
        let epoch = Box::leak(Box::new(Self {
            number,
            seed,
            stops: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            steps: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        }));
        // Kept where AddressSanitizer sees that it is not lost.
        static ALL: Mutex<Vec<&Epoch>> = Mutex::new(Vec::new());
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(epoch);
        epoch
    }

    /// A random source of its own for each number.
    pub fn dice(&self, number: u64) -> Rng {
        let mut dice = Rng::new(self.seed ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.next();
        dice
    }

    pub fn step(&self) {
        self.steps.fetch_add(1, SeqCst);
    }

    pub fn stops(&self) -> bool {
        self.stops.load(SeqCst)
    }

    /// Passes a result on, or says that the actor is to end (E2).
    #[track_caller]
    pub fn check<T>(&self, result: io::Result<T>, what: &str) -> Result<T, Aborted> {
        match result {
            Ok(value) => Ok(value),
            Err(_) if self.aborted.load(SeqCst) => Err(Aborted),
            Err(error) => panic!("E2: epoch {}, {what}: {error}", self.number),
        }
    }

    /// Has an actor run in one of the runtimes.
    fn act<F>(&'static self, handle: &Handle, name: &'static str, actor: F)
    where
        F: Future<Output = Result<(), Aborted>> + Send + 'static,
    {
        self.begun.fetch_add(1, SeqCst);
        let acts = async move {
            if let Ok(()) = actor.await {
                self.ended.fetch_add(1, SeqCst);
            }
        };
        drop(handle.task().name(name).spawn(acts));
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// ThreadSanitizer talks to the process that finds names for it through pipes, from its first report on,
/// suppressed or not. It has them afterwards, and they are counted from the start.
fn open_what_the_sanitizer_needs() {
    #[cfg(filch_tsan)]
    {
        use std::ffi::{c_char, c_void};
        // SAFETY: as the sanitizers' interface has it: `into` may be written for `len` bytes, `format` ends with a zero.
        unsafe extern "C" {
            fn __sanitizer_symbolize_pc(
                at: *mut c_void,
                format: *const c_char,
                into: *mut c_char,
                len: usize,
            );
        }
        let mut name = [0; 256];
        let at = open_what_the_sanitizer_needs as fn() as *mut c_void;
        // SAFETY: there is room for so many bytes, and the format is a C string.
        unsafe { __sanitizer_symbolize_pc(at, c"%f".as_ptr(), name.as_mut_ptr(), name.len()) };
    }
}

/// A runtime whose bounds are small or as ever.
fn build(epoch: &'static Epoch, backend: IoBackend, dice: &mut Rng) -> Runtime {
    let ms = |dice: &mut Rng, most| Duration::from_millis(1 + dice.below(most));
    let both_roles = dice.one_in(8);
    let mut builder = Builder::new()
        .io_backend(backend)
        .single_thread(both_roles)
        .workers(if both_roles { 1 } else { 1 + dice.below(3) as usize })
        .io_spares([0, 1, 2, 16][dice.below(4) as usize])
        .blocking_threads(1 + dice.below(4) as usize)
        .spare_keep_alive(ms(dice, 3))
        .sentry_period(ms(dice, 2))
        .on_panic(move |_| {
            epoch.failures.fetch_add(1, SeqCst);
        });
    if dice.one_in(3) {
        builder = builder.io_interval(1).poll_budget(1).timer_budget(1);
    }
    if dice.one_in(3) {
        builder = builder.ring_capacity(2).local_budget(2);
    }
    builder.build().unwrap()
}

/// Everything at once.
fn populate(epoch: &'static Epoch, runtimes: &[Runtime], dice: &mut Rng) {
    let any = |dice: &mut Rng| runtimes[dice.below(runtimes.len() as u64) as usize].handle();
    for _ in 0..2 {
        // Made in one runtime, used in any.
        let (here, there) = any(dice).block_on(streams::tcp_pair(dice));
        streams::populate(epoch, here, there, dice, any);
        let (here, there) = any(dice).block_on(streams::unix_pair());
        streams::populate(epoch, here, there, dice, any);
    }
    epoch.act(&any(dice), "files::positional", files::positional(epoch, dice.next()));
    epoch.act(&any(dice), "files::streaming", files::streaming(epoch, dice.next()));
    epoch.act(&any(dice), "connections::tcp", connections::tcp(epoch, dice.next()));
    epoch.act(&any(dice), "connections::unix", connections::unix(epoch, dice.next()));
    epoch.act(&any(dice), "datagrams::udp", datagrams::udp(epoch, dice.next()));
    epoch.act(&any(dice), "datagrams::unix", datagrams::unix(epoch, dice.next()));
    epoch.act(&any(dice), "timers::naps", timers::naps(epoch, dice.next()));
    epoch.act(&any(dice), "timers::travels", timers::travels(epoch, dice.next()));
    match dice.below(4) {
        0 => epoch.act(&any(dice), "floods::submissions", floods::submissions(epoch, dice.next())),
        1 => epoch.act(&any(dice), "floods::completions", floods::completions(epoch, dice.next())),
        2 => epoch.act(&any(dice), "floods::buffers", floods::buffers(epoch, dice.next())),
        _ => epoch.act(&any(dice), "floods::blocks", floods::blocks(epoch, dice.next())),
    }
}

/// From the first runtime to the last descriptor.
fn live(number: usize, seed: u64, backend: IoBackend) {
    let _tell = TellSeed(seed);
    let epoch = Epoch::leak(number, seed);
    let mut dice = epoch.dice(0);
    let before = descriptors();
    let count = 1 + dice.below(2);
    let runtimes: Vec<_> = (0..count).map(|_| build(epoch, backend, &mut dice)).collect();
    let dog = dog::watch(epoch, runtimes.iter().map(Runtime::handle).collect());
    populate(epoch, &runtimes, &mut dice);
    // Not to order anything: this is how much happens before the end.
    std::thread::sleep(Duration::from_millis(20 + dice.below(400)));
    let aborts = dice.one_in(2);
    match aborts {
        true => epoch.aborted.store(true, SeqCst),
        false => epoch.stops.store(true, SeqCst),
    }
    if !aborts && count > 1 {
        // Each has sockets that are used in the other.
        while epoch.ended.load(SeqCst) < epoch.begun.load(SeqCst) {
            std::thread::yield_now();
        }
    }
    for runtime in runtimes {
        runtime.shutdown(match (aborts, dice.one_in(2)) {
            (true, false) => Shutdown::Abort,
            (true, true) => Shutdown::DrainFor(Duration::from_millis(dice.below(20))),
            (false, false) => Shutdown::Drain,
            (false, true) => Shutdown::DrainFor(Duration::from_secs(600)),
        });
        epoch.stops.store(true, SeqCst);
    }
    dog.leave();
    let (begun, ended) = (epoch.begun.load(SeqCst), epoch.ended.load(SeqCst));
    assert!(aborts || begun == ended, "E4: {ended} of {begun} actors came to their end");
    check_descriptors(before);
}

/// E3.
fn check_descriptors(before: usize) {
    let patience = Instant::now() + Duration::from_secs(10);
    while descriptors() > before {
        if Instant::now() > patience {
            let names = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let open: Vec<_> = names.map(|fd| (fd.file_name(), fd.path().read_link())).collect();
            panic!("E3: {before} descriptors before, now {open:?}");
        }
        std::thread::yield_now();
    }
}

/// Tests that count descriptors, one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn run(backend: IoBackend) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    open_what_the_sanitizer_needs();
    let (seed, end) = (seed(), Instant::now() + stress_time(3));
    let mut number = 0;
    while Instant::now() < end {
        live(number, seed.wrapping_add(number as u64), backend);
        number += 1;
    }
    println!("{number} epochs on {backend}, from FILCH_SEED_STRESS={seed}");
}

#[test]
fn operations_dropped_at_random_lose_nothing_on_uring() {
    match Builder::new().workers(1).io_backend(IoBackend::Uring).build() {
        Ok(runtime) => drop(runtime),
        Err(error) => return eprintln!("\n*** NOT TESTED ON IO_URING: {error} ***\n"),
    }
    run(IoBackend::Uring);
}

#[test]
fn operations_dropped_at_random_lose_nothing_on_epoll() {
    run(IoBackend::Epoll);
}
