//! A storm of posts of every kind on a crew that changes all the time: every task that was taken runs once,
//! where it should, and every other comes back.
//!
//! The account is in atomics, not behind locks: ThreadSanitizer does not see into std's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filch::{Builder, Handle, NewWorker, Shutdown, WorkerId, worker};

use crate::storm::{Rng, TellSeed, seed};
use crate::stress_time;

static POSTED: AtomicUsize = AtomicUsize::new(0);
static RAN: AtomicUsize = AtomicUsize::new(0);
static RETURNED: AtomicUsize = AtomicUsize::new(0);
static CANCELLED: AtomicUsize = AtomicUsize::new(0);
static ASTRAY: AtomicUsize = AtomicUsize::new(0);

/// Counts itself as ran, or else as cancelled when it is dropped.
struct Task {
    there: Option<WorkerId>,
    ran: bool,
}

impl Task {
    fn new(there: Option<WorkerId>) -> Self {
        POSTED.fetch_add(1, Ordering::Relaxed);
        Self { there, ran: false }
    }

    fn run(mut self) {
        self.ran = true;
        RAN.fetch_add(1, Ordering::Relaxed);
        if self.there.is_some() && self.there != worker::current().map(|here| here.id()) {
            ASTRAY.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.ran {
            CANCELLED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What was not taken was dropped with its error, and counted there.
fn came_back(refused: bool) {
    RETURNED.fetch_add(refused.into(), Ordering::Relaxed);
}

fn post_at_random(hive: &Handle, rng: &mut Rng) {
    let workers = hive.workers();
    let someone = workers[rng.below(workers.len() as u64) as usize].id;
    let (any, there) = (Task::new(None), Task::new(Some(someone)));
    match rng.below(64) {
        0..16 => came_back(hive.post(move || any.run()).is_err()),
        16..32 => came_back(hive.post_to(someone, move || there.run()).is_err()),
        32..40 => came_back(hive.post_compute(move || any.run()).is_err()),
        40..48 => {
            let delay = Duration::from_micros(rng.below(2000));
            match hive.post_delayed(delay, move || any.run()) {
                Ok(post) if rng.below(4) == 0 => post.cancel(),
                Ok(post) => drop(post),
                Err(_) => came_back(true),
            }
        }
        48..54 => {
            let made = hive.spawn_to(someone, move || async move {
                filch::time::sleep(Duration::from_micros(50)).await;
                filch::yield_now().await;
                there.run();
            });
            came_back(made.is_err());
        }
        54..58 => {
            let tasks: Vec<_> = (0..8).map(|_| Task::new(None)).map(|t| move || t.run()).collect();
            assert!(hive.post_batch(tasks).is_ok(), "the runtime is open");
        }
        58..60 => {
            let nested = move || {
                let near = Task::new(None);
                came_back(worker::post_local(move || near.run()).is_err());
                let here = worker::current().map(|here| here.id());
                let own = Task::new(here);
                came_back(worker::post_self(move || own.run()).is_err());
                there.run();
            };
            came_back(hive.post_to(someone, nested).is_err());
        }
        60 | 61 => {
            let new = if rng.below(2) == 0 { NewWorker::io() } else { NewWorker::compute() };
            let _ = hive.attach(new);
        }
        62 => drop(hive.detach(someone).wait()),
        _ => hive.wake(someone).unwrap_or(()),
    }
}

#[test]
fn storm_of_posts_on_a_crew_that_changes_loses_none() {
    let seed = seed();
    let _tell = TellSeed(seed);
    let builder = Builder::new().workers(2).attachable_workers(3).ring_capacity(8);
    let runtime = builder.spare_keep_alive(Duration::from_millis(1)).build().unwrap();
    let end = Instant::now() + stress_time(1);
    let posters: Vec<_> = (0..4u64)
        .map(|thread| {
            let hive = runtime.handle();
            std::thread::spawn(move || {
                let mut rng = Rng::new(seed ^ thread);
                while Instant::now() < end {
                    (0..64).for_each(|_| post_at_random(&hive, &mut rng));
                }
            })
        })
        .collect();
    posters.into_iter().for_each(|poster| poster.join().unwrap());
    runtime.shutdown(Shutdown::Drain);
    let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    assert_eq!(read(&POSTED), read(&RAN) + read(&CANCELLED), "some were lost");
    assert!(read(&CANCELLED) >= read(&RETURNED));
    assert_eq!(read(&ASTRAY), 0, "some ran where they should not");
}
