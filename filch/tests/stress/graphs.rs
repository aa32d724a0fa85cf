//! Graphs and pipelines: runs side by side, of which some fail, are cancelled or let go; graphs that are dropped the moment their run
//! is over. Every body and value is dropped once, and no permit is lost.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use filch::graph::{Canceller, Node, OnFailure, RunError, Semaphore};
use filch::pipeline::{Next, PipelineError};
use filch::{Builder, Graph, Pipeline, Priority, Runtime, Shutdown};

use crate::storm::{Rng, TellSeed, seed, tasks};

const THREADS: u64 = 4;

/// Items that were made and dropped. In atomics: ThreadSanitizer does not see into std's locks.
#[derive(Default)]
struct Account {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// On the heap, where the sanitizers see its end.
struct Item {
    account: Arc<Account>,
    number: Box<usize>,
}

impl Item {
    fn new(account: &Arc<Account>, number: usize) -> Self {
        account.made.fetch_add(1, SeqCst);
        Self { account: account.clone(), number: Box::new(number) }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.account.dropped.fetch_add(1, SeqCst);
    }
}

impl Account {
    fn check(&self) {
        assert_eq!(self.made.load(SeqCst), self.dropped.load(SeqCst));
    }
}

/// What graphs are made from.
struct Ground {
    account: Arc<Account>,
    permits: [Semaphore; 2],
    /// Decides which call of a body fails.
    calls: AtomicUsize,
}

const PERMITS: [u32; 2] = [1, 3];

/// What bodies panic with.
const PANIC: &str = "now and then";

impl Ground {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            account: Arc::default(),
            permits: PERMITS.map(Semaphore::new),
            calls: AtomicUsize::new(0),
        })
    }

    /// Fails now and then.
    fn call(&self) -> Result<(), &'static str> {
        match self.calls.fetch_add(1, SeqCst) % 61 {
            17 => Err("now and then"),
            // Not `panic!`, which would print.
            42 => resume_unwind(Box::new(PANIC)),
            _ => Ok(()),
        }
    }

    fn check(&self) {
        self.account.check();
        for (semaphore, most) in self.permits.iter().zip(PERMITS) {
            assert_eq!(semaphore.available(), most as usize);
        }
    }
}

/// A graph of every kind of node. A condition at its end leads back to a part of it, a few times.
fn graph(rng: &mut Rng, ground: &Arc<Ground>) -> Graph<'static> {
    let mut g = Graph::new();
    let mut nodes: Vec<Node<Item>> = Vec::new();
    for number in 0..3 + rng.below(20) as usize {
        let from = (number > 0).then(|| rng.below(number as u64) as usize);
        let node = node(&mut g, rng, ground, number, from.map(|from| (from, nodes[from])));
        if number > 1 && rng.one_in(2) {
            g.precede(nodes[rng.below(number as u64) as usize], node);
        }
        for semaphore in &ground.permits {
            if rng.one_in(6) {
                g.limit(node, semaphore, 1);
            }
        }
        if rng.one_in(40) {
            g.prioritize(node, Priority::High);
        }
        nodes.push(node);
    }
    let inner = g.subflow("inner", |sub| {
        let (a, b) = (sub.node("", || ()), sub.node("", || ()));
        sub.precede(a, b);
    });
    g.succeed(inner, &nodes);
    if rng.one_in(3) {
        let ground = ground.clone();
        let again = g.condition("again", move || ground.calls.fetch_add(1, SeqCst) % 3);
        let tail = g.node("tail", || ());
        g.linearize([inner.id(), tail.id(), again.id()]);
        g.precede(again, tail);
    }
    g
}

fn node(
    g: &mut Graph<'static>,
    rng: &mut Rng,
    ground: &Arc<Ground>,
    number: usize,
    from: Option<(usize, Node<Item>)>,
) -> Node<Item> {
    let (ground, body) = (ground.clone(), Item::new(&ground.account, number));
    match from {
        Some((expected, from)) if rng.one_in(2) => {
            let take = move |item: &Item| {
                assert_eq!(*item.number, expected);
                ground.call().map(|()| Item::new(&ground.account, *body.number))
            };
            g.try_node("", take).after(&from)
        }
        from => {
            let node = if rng.one_in(4) {
                let waits = rng.below(3);
                g.async_node("", move || {
                    let item = Item::new(&ground.account, *body.number);
                    async move {
                        for _ in 0..waits {
                            filch::yield_now().await;
                        }
                        item
                    }
                })
            } else {
                g.try_node("", move || {
                    ground.call().map(|()| Item::new(&ground.account, *body.number))
                })
            };
            if let Some((_, from)) = from {
                g.precede(from, node);
            }
            node
        }
    }
}

/// One run of a graph that others run too, or of one's own, ended in one way or another.
fn one_run(rng: &mut Rng, ground: &Arc<Ground>, shared: &Arc<Graph<'static>>) {
    let mut shape = Rng::new(rng.next());
    let mut own = || Arc::new(graph(&mut shape, ground));
    match rng.below(9) {
        0 => ended(shared.try_run().map(drop)),
        1 => {
            let g = own();
            ended(g.try_run().map(drop));
        }
        2 => ended(shared.run_async().wait_outcome().map(drop)),
        3 => drop(shared.run_async()),
        // The run is the last that has the graph.
        4 => drop(own().run_async()),
        5 => {
            let run = own().run_async();
            run.cancel();
            ended(run.wait_outcome().map(drop));
        }
        6 => {
            let canceller = Canceller::new();
            let other = canceller.clone();
            let cancel = filch::spawn_fn(move || other.cancel());
            ended(shared.runner().canceller(&canceller).try_run().map(drop));
            cancel.wait();
        }
        7 => ended(shared.runner().on_failure(OnFailure::Cancel).try_run().map(drop)),
        _ => {
            let runner = own();
            let stopped = runner.runner().timeout(Duration::from_micros(rng.below(100)));
            ended(stopped.try_run().map(drop));
        }
    }
}

fn ended(outcome: Result<(), RunError>) {
    if let Err(error) = outcome {
        let told = error.failures().len() + error.skipped().len();
        assert!(told > 0 || error.stopped().is_some(), "{error}");
    }
}

/// Calls `round` so often on each of some threads, inside the runtime.
fn from_everywhere(runtime: &Runtime, seed: u64, rounds: usize, round: impl Fn(&mut Rng) + Sync) {
    std::thread::scope(|s| {
        let work = |thread| {
            let mut rng = Rng::new(seed ^ (thread << 32));
            for _ in 0..rounds {
                let inside = rng.one_in(2);
                let call = AssertUnwindSafe(|| match inside {
                    true => runtime.block_on_fn(|| round(&mut rng)),
                    false => runtime.block_on(async { round(&mut rng) }),
                });
                // A run that was let go tells its group of its panics.
                if let Err(payload) = catch_unwind(call)
                    && payload.downcast_ref() != Some(&PANIC)
                {
                    resume_unwind(payload);
                }
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| s.spawn(move || work(thread))).collect();
        // Joined one by one: the sanitizer does not see the end of the scope.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn storm_of_runs_of_graphs_leaves_nothing_behind() {
    let seed = seed();
    let _tell = TellSeed(seed);
    let ground = Ground::new();
    let shared = Arc::new(graph(&mut Rng::new(seed), &ground));
    let runtime = Builder::new().workers(3).build().unwrap();
    let rounds = tasks(1_000_000) / 150;
    from_everywhere(&runtime, seed, rounds, |rng| one_run(rng, &ground, &shared));
    runtime.shutdown(Shutdown::Drain);
    drop(shared);
    ground.check();
}

/// A pipeline of every kind of stage, of which some tokens wait for others.
fn one_pipeline(rng: &mut Rng, account: &Arc<Account>) {
    let (tokens, lines) = (rng.below(60), 1 + rng.below(8) as usize);
    let (bad, late) = (rng.below(120), rng.below(8));
    let [made, changed] = [(); 2].map(|()| account.clone());
    let mut pipeline = Pipeline::new(lines)
        .source(move |token| {
            let number = token.number();
            if number == tokens {
                return Next::Stop;
            }
            // Every eighth waits for the one after it.
            if number % 8 == late && number + 1 < tokens && token.deferrals() == 0 {
                token.defer(number + 1);
                return Next::Deferred;
            }
            Next::Item(Item::new(&made, number as usize))
        })
        .parallel(move |item: Item| Item::new(&changed, *item.number))
        .parallel_async(async |item: Item| {
            filch::yield_now().await;
            item
        })
        .try_serial(move |item: Item| match *item.number as u64 {
            number if number == bad => Err("bad"),
            _ => Ok(item),
        })
        .for_each(move |item: Item| assert!((*item.number as u64) < tokens));
    let canceller = pipeline.canceller();
    match rng.below(4) {
        0 => drop(filch::block_on(filch::time::timeout(
            Duration::from_micros(rng.below(200)),
            pipeline.run_async(),
        ))),
        1 => {
            let cancel = filch::spawn_fn(move || canceller.cancel());
            flowed(pipeline.run(), tokens, bad);
            cancel.wait();
        }
        _ => {
            flowed(pipeline.run(), tokens, bad);
            pipeline.reset();
            flowed(pipeline.run(), tokens, bad);
        }
    }
}

fn flowed(outcome: Result<u64, PipelineError>, tokens: u64, bad: u64) {
    match outcome {
        Ok(count) => assert!(count == tokens && bad >= tokens),
        Err(PipelineError::Failed { at, .. }) => assert!(bad < tokens && at.token == bad),
        Err(PipelineError::Cancelled) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn storm_of_pipelines_leaves_nothing_behind() {
    let seed = seed();
    let _tell = TellSeed(seed);
    let account = Arc::<Account>::default();
    let runtime = Builder::new().workers(3).build().unwrap();
    let rounds = tasks(1_000_000) / 600;
    from_everywhere(&runtime, seed, rounds, |rng| one_pipeline(rng, &account));
    runtime.shutdown(Shutdown::Drain);
    account.check();
}

/// A thread whose token goes its own way, with a future or to a semaphore, may find the run over when it looks for another, and the
/// graph gone. It looks at all only if something lies in its deque: here that is a node of another run. The simulator finds the
/// moment, the sanitizer what is touched.
#[test]
#[cfg(not(filch_tsan))]
fn run_that_is_over_before_one_of_its_threads_is_not_touched() {
    filch::testkit::Sim::new().compute_workers(1).check(0..400, || {
        let mut long = Graph::new();
        let first = long.node("", || ());
        for _ in 0..400 {
            let node = long.node("", || ());
            long.precede(first, node);
        }
        let long = Arc::new(long).run_async();
        let permits = Semaphore::new(1);
        for _ in 0..6 {
            let mut brief = Graph::new();
            let node = brief.async_node("", filch::yield_now);
            brief.limit(node, &permits, 1);
            let brief = Arc::new(brief);
            let runs = [brief.run_async(), brief.run_async()];
            drop(brief);
            runs.into_iter().for_each(|run| drop(run.wait()));
        }
        drop(long.wait());
    });
}
