//! Random storms on runtimes of every shape, with every kind of end. The sanitizers run these.

use std::future::poll_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use filch::{Builder, Shutdown};

mod graphs;
mod hive;
mod kept;
mod nesting;
mod ops;
mod storm;
mod stragglers;

use storm::{Lanes, Rng, Storm, TellSeed, seed, tasks};

const THREADS: u64 = 8;

/// How long a test that runs against the clock goes on: `FILCH_STRESS_SECONDS`, or so many.
fn stress_time(seconds: u64) -> Duration {
    let text = std::env::var("FILCH_STRESS_SECONDS").ok();
    let number = |text: String| text.parse().expect("FILCH_STRESS_SECONDS is a number");
    Duration::from_secs(text.map_or(seconds, number))
}

/// Keeps panics off the terminal whose text has one of these parts. ThreadSanitizer does not see the lock under
/// which std prints them.
fn quieten(known: &'static [&'static str]) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if !known.iter().any(|known| text.contains(known)) {
            before(info);
        }
    }));
}

fn storm(share: usize) -> (&'static Storm, TellSeed) {
    let seed = seed();
    (Storm::leak(seed, Lanes::Two, tasks(1_000_000) / share), TellSeed(seed))
}

#[test]
fn storm_on_two_lanes_leaves_no_task_unaccounted() {
    let (storm, _seed) = storm(1);
    storm.rage(Builder::new().workers(2), THREADS, Shutdown::Drain);
}

#[test]
fn storm_on_more_workers_than_processors_leaves_no_task_unaccounted() {
    let (storm, _seed) = storm(4);
    storm.rage(Builder::new().workers(7), THREADS, Shutdown::Drain);
}

#[test]
fn storm_on_one_thread_leaves_no_task_unaccounted() {
    let seed = seed();
    let _tell = TellSeed(seed);
    let storm = Storm::leak(seed, Lanes::One, tasks(1_000_000) / 4);
    storm.rage(Builder::new().single_thread(true), THREADS, Shutdown::Drain);
}

/// Rings overflow, searches end at once, every budget is one.
#[test]
fn storm_with_the_smallest_parameters_leaves_no_task_unaccounted() {
    let (storm, _seed) = storm(8);
    let builder = Builder::new()
        .io_workers(3)
        .compute_workers(2)
        .ring_capacity(2)
        .global_interval(1)
        .global_batch(1)
        .local_budget(1)
        .private_budget(1)
        .poll_budget(1)
        .slot_streak(1)
        .explore_tries(1)
        .explore_yields(0)
        .injector_shards(1)
        .spare_keep_alive(Duration::from_millis(1))
        .sentry_period(Duration::from_millis(1));
    storm.rage(builder, THREADS, Shutdown::Drain);
}

#[test]
fn storm_that_ends_in_drain_for_leaves_no_task_unaccounted() {
    let (storm, _seed) = storm(8);
    let end = Shutdown::DrainFor(Duration::from_secs(600));
    storm.rage(Builder::new().workers(2), THREADS, end);
}

#[test]
fn storm_that_is_aborted_drops_every_body_once() {
    for round in 0..8 {
        let seed = seed().wrapping_add(round);
        let _tell = TellSeed(seed);
        let storm = Storm::leak(seed, Lanes::Two, tasks(1_000_000) / 64);
        storm.rage_and_abort(Builder::new().workers(2), THREADS);
    }
}

/// A waker behind a lock that ThreadSanitizer sees.
struct Bell {
    locked: AtomicBool,
    rings: AtomicUsize,
    waker: std::cell::UnsafeCell<Option<Waker>>,
}

// SAFETY: `waker` is used by whoever holds `locked`.
unsafe impl Sync for Bell {}

impl Bell {
    fn new() -> Self {
        Self { locked: AtomicBool::new(false), rings: AtomicUsize::new(0), waker: None.into() }
    }

    fn swap(&self, new: Option<Waker>) -> Option<Waker> {
        while self.locked.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: the lock is ours.
        let slot = unsafe { &mut *self.waker.get() };
        let old = std::mem::replace(slot, new);
        self.locked.store(false, Ordering::Release);
        old
    }

    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        if let Some(waker) = self.swap(None) {
            waker.wake();
        }
    }

    /// Ready once the bell has rung `until` times.
    async fn heard(&self, until: usize) {
        poll_fn(|cx| {
            drop(self.swap(Some(cx.waker().clone())));
            match self.rings.load(Ordering::SeqCst) < until {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
    }
}

/// A wake that is lost, or two polls at once, would show: each task counts rings one by one.
#[test]
fn storm_of_wakes_from_everywhere_loses_none() {
    const BELLS: usize = 16;
    let seed = seed();
    let _tell = TellSeed(seed);
    let rings = (tasks(2_000_000) / 100).max(BELLS);
    static ROW: OnceLock<Vec<Bell>> = OnceLock::new();
    let bells = ROW.get_or_init(|| (0..BELLS).map(|_| Bell::new()).collect());
    let runtime = Builder::new().workers(2).build().unwrap();
    let listeners: Vec<_> = bells
        .iter()
        .map(|bell| {
            runtime.spawn(async move {
                for n in 1..=rings {
                    bell.heard(n).await;
                }
            })
        })
        .collect();
    let ringers: Vec<_> = (0..4u64)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut rng = Rng::new(seed ^ thread);
                for _ in 0..rings * BELLS / 4 {
                    bells[rng.below(BELLS as u64) as usize].ring();
                }
            })
        })
        .collect();
    ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    // The random shares were uneven: the rest from inside.
    let rest = runtime.spawn(async move {
        for bell in bells {
            while bell.rings.load(Ordering::SeqCst) < rings {
                bell.ring();
                filch::yield_now().await;
            }
        }
    });
    rest.wait();
    filch::wait_all(listeners);
    runtime.shutdown(Shutdown::Drain);
    // What is left in the bells are wakers of tasks that have ended.
    bells.iter().for_each(Bell::ring);
}

/// A lock that the sanitizer sees: std's is built without it.
#[derive(Default)]
struct Lock(AtomicBool);

impl Lock {
    /// Calls `f` under the lock.
    fn hold<R>(&self, f: impl FnOnce() -> R) -> R {
        while self.0.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        let result = f();
        self.0.store(false, Ordering::Release);
        result
    }
}

/// A tree of forks of every kind, shaped by a number: returns how many leaves it has, counted by
/// running it.
fn forks(shape: u64, depth: u32, lock: &Lock) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut rng = Rng::new(shape);
    let (kind, left, right) = (rng.below(8), rng.next(), rng.next());
    let halves = || filch::join(|| forks(left, depth - 1, lock), || forks(right, depth - 1, lock));
    match kind {
        0..4 => {
            let (a, b) = halves();
            a + b
        }
        4 => {
            let leaves = AtomicUsize::new(0);
            filch::scope(|s| {
                for shape in [left, right] {
                    let leaves = &leaves;
                    s.spawn(move |_| {
                        leaves.fetch_add(forks(shape, depth - 1, lock) as usize, Ordering::Relaxed);
                    });
                }
            });
            leaves.into_inner() as u64
        }
        5 => {
            // Strangers in the deque.
            for _ in 0..3 {
                drop(filch::spawn_fn(|| std::hint::black_box(7)));
            }
            let (a, b) = halves();
            a + b
        }
        6 => {
            let below = std::panic::AssertUnwindSafe(|| {
                let (_, _) = halves();
                std::panic::resume_unwind(Box::new(()))
            });
            assert!(std::panic::catch_unwind(below).is_err());
            0
        }
        _ => {
            // A lock held across a join; the trees below want none.
            let halves = || filch::join(|| plain(depth - 1), || plain(depth - 1));
            let (a, b) = lock.hold(halves);
            a + b
        }
    }
}

/// A full tree of joins and nothing else.
fn plain(depth: u32) -> u64 {
    match depth {
        0 => 1,
        _ => {
            let (a, b) = filch::join(|| plain(depth - 1), || plain(depth - 1));
            a + b
        }
    }
}

/// Every kind of thread forks at the same time, more of them than there is room for; adopted ones
/// come and go. The same tree has the same number of leaves each time.
#[test]
fn storm_of_forks_from_everywhere_gives_the_same_trees() {
    let seed = seed();
    let _tell = TellSeed(seed);
    let rounds = tasks(1_000_000) / 20_000;
    let runtime = Builder::new().workers(3).guest_threads(2).adoptable_threads(2).build().unwrap();
    let grow = move |round: usize| forks(seed.wrapping_add(round as u64), 9, &Lock::default());
    let expected: Vec<u64> = (0..rounds).map(|round| runtime.block_on_fn(|| grow(round))).collect();
    let check = |round: usize| assert_eq!(grow(round), expected[round]);
    std::thread::scope(|s| {
        let from_outside = || (0..rounds).for_each(|round| runtime.block_on_fn(|| check(round)));
        let adopted = || {
            for round in 0..rounds {
                let _adopted = runtime.adopt().unwrap();
                check(round);
            }
        };
        let mut threads: Vec<_> = (0..3).map(|_| s.spawn(from_outside)).collect();
        threads.extend((0..2).map(|_| s.spawn(adopted)));
        for (round, &leaves) in expected.iter().enumerate() {
            let job = runtime.spawn_fn(move || grow(round));
            let task = runtime.spawn(async move { grow(round) });
            let (a, b) = runtime.block_on(filch::wait_async((job, task)));
            assert_eq!((a, b), (leaves, leaves));
        }
        // Joined one by one: the sanitizer does not see the end of the scope.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
