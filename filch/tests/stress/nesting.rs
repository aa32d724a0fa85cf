//! Threads that nest adoptions, pumps, hives that they run, and calls of several runtimes, in an order that a
//! seed chooses; guards and pumps are dropped at any moment, also in wakers and event cores.
//!
//! After each round the thread is nobody's worker, and every place can be taken again.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use filch::{Adopted, Builder, EventCore, Graph, Handle, NewWorker, Pump, Runtime, worker};

use crate::storm::{Rng, TellSeed, seed};
use crate::{quieten, stress_time};

const ACTORS: u64 = 3;
/// How deep the actions of a round nest.
const DEPTH: u32 = 6;

thread_local! {
    static GUARD: RefCell<Option<Adopted>> = const { RefCell::new(None) };
    static PUMPS: RefCell<Vec<Pump>> = const { RefCell::new(Vec::new()) };
    /// On actors alone: others may end while they have what the runtime waits for.
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
    /// Wakers of this thread drop its guard while this counts down.
    static HOSTILE: Cell<u32> = const { Cell::new(0) };
}

/// What a thread plays with.
#[derive(Clone)]
struct Stage {
    runtimes: [Handle; 2],
}

/// What a guard says that is dropped inside of a call of its runtime.
const KNOWN: [&str; 1] = ["an adopted thread leaves inside a call"];

/// Drops the guard of this thread, if it has one. Inside of a call of its runtime that panics, as it should.
fn drop_guard() {
    let guard = GUARD.with(|guard| guard.try_borrow_mut().ok()?.take());
    let _ = catch_unwind(AssertUnwindSafe(|| drop(guard)));
}

/// A core that waits to be woken. Its waker may drop the guard of the thread that wakes.
struct Core {
    bell: Sender<()>,
    bells: Receiver<()>,
    /// What its first turn does.
    first: Option<Box<dyn FnOnce() + Send>>,
}

struct Bell(Sender<()>);

impl Core {
    fn new(first: Option<Box<dyn FnOnce() + Send>>) -> Box<Self> {
        let (bell, bells) = mpsc::channel();
        Box::new(Self { bell, bells, first })
    }
}

impl EventCore for Core {
    fn poll(&mut self) -> usize {
        self.first.take().map_or(0, |first| {
            first();
            1
        })
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            None => drop(self.bells.recv()),
            Some(timeout) => drop(self.bells.recv_timeout(timeout)),
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(Bell(self.bell.clone())))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let left = HOSTILE.get();
        if left > 0 {
            HOSTILE.set(left - 1);
            if left == 1 {
                drop_guard();
            }
        }
        let _ = self.0.send(());
    }
}

fn runtime(hostile: bool) -> Runtime {
    let builder = Builder::new().workers(1).adoptable_threads(ACTORS as usize).guest_threads(2);
    match hostile {
        true => builder.event_core(|_| Core::new(None)).build().unwrap(),
        false => builder.build().unwrap(),
    }
}

fn hive() -> Runtime {
    Builder::new().io_workers(1).compute_workers(1).hive().unwrap()
}

/// Runs a hive here, whose event core acts.
fn run_a_hive(seed: u64, depth: u32) {
    let hive = Builder::new().compute_workers(1).hive().unwrap();
    let handle = hive.handle();
    let first = move || {
        act(seed, depth);
        handle.request_stop();
    };
    hive.attach(NewWorker::io().event_core(*Core::new(Some(Box::new(first))))).unwrap();
    hive.run().unwrap();
}

/// One action and what it nests.
fn act(seed: u64, depth: u32) {
    let Some(stage) = STAGE.with_borrow(Clone::clone) else { return };
    let mut rng = Rng::new(seed);
    let runtime = &stage.runtimes[rng.below(2) as usize];
    let (left, right) = (rng.next(), rng.next());
    let deeper = move |seed| {
        if depth > 0 {
            act(seed, depth - 1);
        }
    };
    match rng.below(20) {
        0..=2 => {
            if let Ok(adopted) = runtime.adopt() {
                let before = GUARD.replace(Some(adopted));
                assert!(before.is_none(), "a thread is adopted once at a time");
            }
        }
        3 | 4 => drop_guard(),
        5 => HOSTILE.set(1 + rng.below(3) as u32),
        6 => filch::join(|| deeper(left), || deeper(right)).0,
        7 => filch::scope(|s| {
            s.spawn(|_| deeper(left));
            deeper(right);
        }),
        8 => runtime.block_on_fn(|| deeper(left)),
        9 => filch::block_on(async { deeper(left) }),
        10 => assert_eq!(filch::spawn_fn(|| 7).wait(), 7),
        11 => drop(filch::spawn_fn(|| 7)),
        12 => {
            let _ = runtime.post_compute(|| ());
        }
        13 => {
            let mut graph = Graph::new();
            let _ = graph.node("left", move || deeper(left));
            let _ = graph.node("right", move || deeper(right));
            graph.run();
        }
        14..=16 => with_pump(|pump| pump.enter(|| deeper(left))),
        17 => with_pump(|pump| {
            let posted = pump.handle().post_to(pump.worker(), move || deeper(left));
            assert!(posted.is_ok());
            let _ = pump.run(Duration::from_millis(1));
        }),
        18 => drop(PUMPS.with_borrow_mut(Vec::pop)),
        _ => run_a_hive(left, depth.saturating_sub(1)),
    }
    if depth > 0 {
        act(rng.next(), depth - 1);
    }
}

/// Calls `f` with a pump of this thread, which nobody else uses meanwhile.
fn with_pump(f: impl FnOnce(&mut Pump)) {
    let pump = PUMPS.with_borrow_mut(Vec::pop);
    let mut pump = pump.unwrap_or_else(|| hive().pump(|| ()).unwrap());
    f(&mut pump);
    PUMPS.with_borrow_mut(|pumps| pumps.push(pump));
}

/// One round of one actor.
fn round(stage: &Stage, seed: u64) {
    STAGE.set(Some(stage.clone()));
    for turn in 0..8 {
        act(seed.wrapping_add(turn), DEPTH);
    }
    STAGE.set(None);
    HOSTILE.set(0);
    drop_guard();
    assert!(worker::current().is_none(), "the thread is still a worker");
    for runtime in &stage.runtimes {
        runtime.adopt().expect("nothing is left of the adoptions").emancipate();
    }
    assert_eq!(filch::spawn_fn(|| 7).wait(), 7);
}

#[test]
fn storm_of_workers_on_top_of_each_other_leaves_no_thread_with_one_that_is_gone() {
    let seed = seed();
    let _tell = TellSeed(seed);
    quieten(&KNOWN);
    // The default runtime starts before the actors: ThreadSanitizer does not see that std's `OnceLock`
    // orders its start before their first use.
    assert_eq!(filch::spawn_fn(|| 7).wait(), 7);
    let runtimes = [runtime(true), runtime(false)];
    let stage = Stage { runtimes: [runtimes[0].handle(), runtimes[1].handle()] };
    let end = Instant::now() + stress_time(1);
    let actors: Vec<_> = (0..ACTORS)
        .map(|actor| {
            let stage = stage.clone();
            std::thread::spawn(move || {
                let mut rng = Rng::new(seed ^ actor);
                // Pumps live on over rounds, and with the thread at the latest.
                while Instant::now() < end {
                    round(&stage, rng.next());
                }
                PUMPS.with_borrow_mut(Vec::clear);
            })
        })
        .collect();
    actors.into_iter().for_each(|actor| actor.join().unwrap());
    drop(runtimes);
}
