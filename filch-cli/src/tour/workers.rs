//! Chapters on the scheduler: which task is next, who runs it, and what it counts.

use super::guide::{Bound, Comparison, Guide, Says};
use super::{Shown, seconds, span};
use crate::style::{figure, grouped};
use filch::{Handle, Priority, Role};
use std::collections::HashMap;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long a chapter waits for what should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same number of each class, queued least urgent first while the only worker is held.
pub fn priorities() -> Shown {
    let [high, normal, low] = mean_places(30);
    assert!(high < normal && normal < low, "high {high}, normal {normal}, low {low}");
    let others = tasks_before_a_low_one();
    let [high, normal, low] = [high, normal, low].map(figure);
    format!(
        "90 tasks queued, mean position: high {high}, normal {normal}, low {low}\n\
         beside an endless stream of normal tasks, a low one ran after {} of them",
        grouped(others)
    )
}

/// Which mean place the tasks of each class got, high, normal and low.
fn mean_places(each: usize) -> [f64; 3] {
    const CLASSES: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
    // Without spares, or one would stand in for the worker that is held.
    let builder = filch::Runtime::builder().workers(1).io_spares(0);
    let runtime = builder.build().expect("threads can be started");
    let (release, released) = mpsc::channel::<()>();
    let gate = runtime.spawn(async move { released.recv().is_err() });
    while !runtime.snapshot().workers.iter().any(|worker| worker.role == Role::Io && worker.in_task)
    {
        thread::yield_now();
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let queue = |class: Priority| {
        let order = Arc::clone(&order);
        let task = async move { order.lock().expect("no holder panics").push(class) };
        runtime.task().priority(class).spawn(task)
    };
    let handles: Vec<_> =
        CLASSES.into_iter().rev().flat_map(|class| vec![class; each]).map(queue).collect();
    drop(release);
    assert!(gate.wait());
    filch::wait_all(handles);

    let order = order.lock().expect("no holder panics");
    CLASSES.map(|class| {
        let places = (1..).zip(order.iter()).filter(|(_, other)| **other == class);
        places.map(|(place, _)| f64::from(place)).sum::<f64>() / each as f64
    })
}

/// How often a normal task came round before a low one had its turn.
fn tasks_before_a_low_one() -> u64 {
    let runtime = super::runtime(1);
    let served = Arc::new(AtomicBool::new(false));
    let (low_side, normal_side) = (Arc::clone(&served), served);
    let stream = runtime.spawn(async move {
        // ORDERING: Relaxed, the flag is all that it tells.
        let low = async move { low_side.store(true, Ordering::Relaxed) };
        drop(filch::task().priority(Priority::Low).spawn(low));
        let start = Instant::now();
        let mut rounds = 0;
        // ORDERING: Relaxed, as above.
        while !normal_side.load(Ordering::Relaxed) {
            assert!(start.elapsed() < PATIENCE, "the low task starves");
            rounds += 1;
            filch::yield_now().await;
        }
        rounds
    });
    stream.wait()
}

/// One task fills its own worker's queue and stays until another worker has taken something.
pub fn stealing() -> Shown {
    /// They fit into the queue of one worker, so whatever runs elsewhere was stolen.
    const TASKS: u64 = 250;
    const WORK: Duration = Duration::from_micros(200);
    let runtime = super::runtime(super::workers());
    let start = Instant::now();
    let ran_on = runtime.spawn(spread(TASKS, WORK)).wait();
    let time = start.elapsed();

    let mut shares: HashMap<ThreadId, u64> = HashMap::new();
    ran_on.into_iter().for_each(|thread| *shares.entry(thread).or_default() += 1);
    assert_eq!(shares.values().sum::<u64>(), TASKS);
    assert!(shares.len() > 1, "nobody stole");
    let (least, most) = (shares.values().min(), shares.values().max());
    let moved = runtime.snapshot().total();
    format!(
        "{TASKS} tasks of {} queued on one worker: done after {}\n\
         {} workers ran {} to {} of them each; {} were stolen, in {} steals",
        span(WORK),
        span(time),
        shares.len(),
        least.expect("not empty"),
        most.expect("not empty"),
        moved.stolen,
        moved.steals_won,
    )
}

/// Spawns the tasks and returns where each ran.
async fn spread(tasks: u64, work: Duration) -> Vec<ThreadId> {
    let begun = Arc::new(AtomicBool::new(false));
    let child = || {
        let begun = Arc::clone(&begun);
        filch::spawn(async move {
            // ORDERING: Relaxed, the flag is all that it tells.
            begun.store(true, Ordering::Relaxed);
            spin_for(work);
            thread::current().id()
        })
    };
    let children: Vec<_> = (0..tasks).map(|_| child()).collect();
    let since = Instant::now();
    // ORDERING: Relaxed, as above.
    while !begun.load(Ordering::Relaxed) {
        assert!(since.elapsed() < PATIENCE, "nobody steals");
        hint::spin_loop();
    }
    filch::wait_all_async(children).await
}

pub fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

/// Tasks block one of two workers, then both, while others are ready.
pub fn hostages(guide: &Guide) -> Shown {
    let words = |delays: Comparison| {
        let [one, all] =
            [0, 1].map(|metric| delays.words(metric, Says::Latency, |ms| seconds(ms / 1e3)));
        format!(
            "tasks block their workers for 200 ms; longest delay of any ready task (most wait less):\n  \
             one of 2 workers blocked: {one}\n  both blocked: {all}"
        )
    };
    guide.measure("hostage", "tokio", Bound::Little, 1).map_or_else(|failure| failure, words)
}

/// What the default runtime has done for the tour, and what it is.
pub fn counters() -> Shown {
    const TASKS: u64 = 1_000;
    let handle = Handle::current();
    let before = handle.snapshot().total().polls;
    filch::block_on(async { (0..TASKS).for_each(|_| drop(filch::spawn(async {}))) });
    let snapshot = handle.snapshot();
    let total = snapshot.total();
    assert!(total.polls >= before + TASKS, "each was run and counted");
    let description = handle.describe().to_string();
    let lanes: Vec<_> = description.lines().take(snapshot.lanes.len()).collect();
    let [polls, stolen, wakes, parks] =
        [total.polls, total.stolen, total.wakes, total.parks].map(grouped);
    format!(
        "the default runtime so far: {polls} polls, {stolen} tasks stolen, {wakes} wakes, {parks} sleeps\n{}",
        lanes.join("\n")
    )
}
