//! Random pipelines against a plain loop, under the simulator and on real threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use filch::Pipeline;
use filch::pipeline::{Builder, Next, PipelineError, Stage};
use filch::testkit::{Sim, switch_point};
use proptest::prelude::*;

/// How a stage is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Serial,
    Parallel,
    SerialInPlace,
    ParallelInPlace,
    SerialAsync,
    ParallelAsync,
}

impl Kind {
    fn is_serial(self) -> bool {
        matches!(self, Kind::Serial | Kind::SerialInPlace | Kind::SerialAsync)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    Panic,
}

#[derive(Clone, Debug)]
struct Plan {
    lines: usize,
    most: u32,
    tokens: u64,
    stages: Vec<Kind>,
    /// Whom a token waits for.
    waits: BTreeMap<u64, Vec<u64>>,
    /// Which token stops the stream when it is asked for again.
    stops: Option<u64>,
    /// In which stage, on which token.
    fault: Option<(usize, u64, Fault)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let kind = prop_oneof![
        4 => Just(Kind::Serial),
        4 => Just(Kind::Parallel),
        1 => Just(Kind::SerialInPlace),
        1 => Just(Kind::ParallelInPlace),
        1 => Just(Kind::SerialAsync),
        1 => Just(Kind::ParallelAsync),
    ];
    let wait = (0..12u64, prop::collection::vec(0..13u64, 1..3));
    let fault = prop_oneof![Just(Fault::Error), Just(Fault::Panic)];
    let fault = prop::option::weighted(0.3, (0..5usize, 0..12u64, fault));
    (
        1..7usize,
        1..5u32,
        0..12u64,
        prop::collection::vec(kind, 1..5),
        prop::collection::vec(wait, 0..6),
        prop::option::weighted(0.5, any::<prop::sample::Index>()),
        fault,
    )
        .prop_map(|(lines, most, tokens, stages, waits, stops, fault)| {
            let waits: BTreeMap<u64, Vec<u64>> = waits
                .into_iter()
                .map(|(token, others)| {
                    (token, others.into_iter().filter(|&o| o != token).collect())
                })
                .filter(|(token, others): &(u64, Vec<u64>)| *token < tokens && !others.is_empty())
                .collect();
            let put_off: Vec<u64> = waits.keys().copied().collect();
            let stops = stops.filter(|_| !put_off.is_empty()).map(|stops| *stops.get(&put_off));
            Plan { lines, most, tokens, stages, waits, stops, fault }
        })
}

/// The order in which tokens leave the source, and those that never do.
fn order(plan: &Plan) -> (Vec<u64>, Vec<u64>) {
    let (mut order, mut ready, mut fresh) = (Vec::new(), VecDeque::new(), 0);
    let mut waiting: Vec<(u64, Vec<u64>)> = Vec::new();
    let (mut end, mut over) = (plan.tokens, Vec::new());
    loop {
        let (token, again) = match ready.pop_front() {
            Some(token) => (token, true),
            None => {
                fresh += 1;
                (fresh - 1, false)
            }
        };
        if !again && token >= end {
            waiting.sort();
            return (order, waiting.into_iter().map(|(token, _)| token).collect());
        }
        match plan.waits.get(&token) {
            Some(others) if !again => {
                let missing: Vec<u64> =
                    others.iter().copied().filter(|other| !over.contains(other)).collect();
                match missing.is_empty() {
                    true => ready.push_back(token),
                    false => waiting.push((token, missing)),
                }
            }
            _ => {
                match plan.stops == Some(token) && again {
                    true => end = 0,
                    false => order.push(token),
                }
                over.push(token);
                waiting.iter_mut().for_each(|(_, missing)| missing.retain(|&other| other != token));
                ready
                    .extend(waiting.extract_if(.., |(_, missing)| missing.is_empty()).map(|w| w.0));
            }
        }
    }
}

/// What the stages wrote down.
struct Log {
    lines: usize,
    /// By stage; the source is 0.
    stages: Vec<Mutex<Vec<u64>>>,
    in_flight: AtomicUsize,
    made: AtomicU64,
    dropped: AtomicU64,
}

impl Log {
    fn new(plan: &Plan) -> Arc<Self> {
        Arc::new(Self {
            lines: plan.lines,
            stages: (0..=plan.stages.len()).map(|_| Mutex::default()).collect(),
            in_flight: AtomicUsize::new(0),
            made: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    fn note(&self, stage: usize, token: u64) {
        self.stages[stage].lock().unwrap().push(token);
    }

    fn of(&self, stage: usize) -> Vec<u64> {
        self.stages[stage].lock().unwrap().clone()
    }
}

struct Item {
    token: u64,
    stage: usize,
    log: Arc<Log>,
}

impl Item {
    fn new(token: u64, log: &Arc<Log>) -> Self {
        log.made.fetch_add(1, SeqCst);
        assert!(log.in_flight.fetch_add(1, SeqCst) < log.lines, "at most `lines` in flight");
        Self { token, stage: 0, log: log.clone() }
    }

    /// The token enters a stage.
    fn enter(&mut self, stage: usize) {
        assert_eq!(self.stage + 1, stage, "stages in order, each once");
        self.stage = stage;
        self.log.note(stage, self.token);
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.log.in_flight.fetch_sub(1, SeqCst);
        self.log.dropped.fetch_add(1, SeqCst);
    }
}

type Faulty = Arc<Mutex<Option<(usize, u64, Fault)>>>;

fn body(stage: usize, item: &mut Item, faulty: &Faulty) -> Result<(), &'static str> {
    item.enter(stage);
    switch_point();
    let fault = *faulty.lock().unwrap();
    match fault {
        Some((at, token, fault)) if (at, token) == (stage, item.token) => match fault {
            Fault::Error => Err("planned"),
            Fault::Panic => panic!("planned"),
        },
        _ => Ok(()),
    }
}

fn add<'env>(
    builder: Builder<'env, Item>,
    stage: usize,
    kind: Kind,
    faulty: &Faulty,
) -> Builder<'env, Item> {
    let faulty = faulty.clone();
    let run = move |mut item: Item| body(stage, &mut item, &faulty).map(|()| item);
    match kind {
        Kind::Serial => builder.try_serial(run),
        Kind::Parallel => builder.try_parallel(run),
        Kind::SerialAsync => builder.try_serial_async(move |item| {
            let run = run.clone();
            async move {
                filch::yield_now().await;
                run(item)
            }
        }),
        Kind::ParallelAsync => builder.try_parallel_async(move |item| {
            let run = run.clone();
            async move {
                filch::yield_now().await;
                run(item)
            }
        }),
        Kind::SerialInPlace | Kind::ParallelInPlace => unreachable!("made below"),
    }
}

fn make(plan: &Plan, log: &Arc<Log>, faulty: &Faulty) -> Pipeline<'static> {
    let (waits, tokens, source_log) = (plan.waits.clone(), plan.tokens, log.clone());
    let stops = plan.stops;
    let mut builder = Pipeline::new(plan.lines).most_in_a_row(plan.most).source(move |token| {
        let number = token.number();
        if number == tokens {
            return Next::Stop;
        }
        if let (0, Some(others)) = (token.deferrals(), waits.get(&number)) {
            others.iter().for_each(|&other| token.defer(other));
            return Next::Deferred;
        }
        if token.deferrals() > 0 && stops == Some(number) {
            return Next::Stop;
        }
        source_log.note(0, number);
        Next::Item(Item::new(number, &source_log))
    });
    for (index, &kind) in plan.stages.iter().enumerate() {
        let (stage, faults) = (index + 1, faulty.clone());
        let change = move |item: &mut Item| body(stage, item, &faults);
        builder = match kind {
            Kind::SerialInPlace => builder.stages([Stage::try_serial(change)]),
            Kind::ParallelInPlace => builder.stages([Stage::try_parallel(change)]),
            _ => add(builder, stage, kind, faulty),
        };
    }
    builder.parallel(drop).build()
}

/// Runs the plan and compares with what a loop would do; then once more without the fault.
fn check(plan: &Plan) {
    let faulty: Faulty = Arc::new(Mutex::new(plan.fault));
    let log = Log::new(plan);
    let mut pipeline = make(plan, &log, &faulty);
    let (order, stuck) = order(plan);
    let fault = plan.fault.filter(|&(stage, token, _)| {
        (1..=plan.stages.len()).contains(&stage) && order.contains(&token)
    });
    match (fault, pipeline.run()) {
        (None, Ok(count)) => {
            assert!(stuck.is_empty());
            assert_eq!(count, order.len() as u64);
            compare(plan, &log, &order);
        }
        (_, Err(PipelineError::Stuck { tokens })) => assert_eq!(tokens, stuck),
        (Some((stage, token, Fault::Error)), Err(PipelineError::Failed { at, .. }))
        | (Some((stage, token, Fault::Panic)), Err(PipelineError::Panicked { at, .. })) => {
            assert_eq!((at.stage, at.token), (stage, token));
            prefixes(plan, &log, &order);
        }
        (fault, result) => panic!("{fault:?} led to {result:?}"),
    }
    assert_eq!(log.in_flight.load(SeqCst), 0);
    assert_eq!(log.made.load(SeqCst), log.dropped.load(SeqCst));

    *faulty.lock().unwrap() = None;
    log.stages.iter().for_each(|stage| stage.lock().unwrap().clear());
    pipeline.reset();
    match pipeline.run() {
        Ok(count) => {
            assert_eq!(count, order.len() as u64);
            compare(plan, &log, &order);
        }
        Err(PipelineError::Stuck { tokens }) => assert_eq!(tokens, stuck),
        Err(error) => panic!("{error}"),
    }
    drop(pipeline);
    assert_eq!(log.in_flight.load(SeqCst), 0);
    assert_eq!(log.made.load(SeqCst), log.dropped.load(SeqCst));
    assert_eq!(Arc::strong_count(&log), 1, "closures are dropped with the pipeline");
}

fn compare(plan: &Plan, log: &Log, order: &[u64]) {
    assert_eq!(log.of(0), order);
    for (index, kind) in plan.stages.iter().enumerate() {
        let mut seen = log.of(index + 1);
        let mut expected = order.to_vec();
        if !kind.is_serial() {
            seen.sort();
            expected.sort();
        }
        assert_eq!(seen, expected, "stage {}", index + 1);
    }
}

/// A run that failed: serial stages have seen a part of the order from its beginning, parallel ones each
/// token once at most.
fn prefixes(plan: &Plan, log: &Log, order: &[u64]) {
    for (index, kind) in plan.stages.iter().enumerate() {
        let mut seen = log.of(index + 1);
        if kind.is_serial() {
            assert_eq!(seen, order[..seen.len()]);
        } else {
            let count = seen.len();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), count);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_pipeline_does_what_a_loop_does_whatever_the_schedule(plan in plans(), seed in any::<u64>()) {
        Sim::new().seed(seed).run(move || check(&plan));
    }
}

#[test]
fn a_pipeline_does_what_a_loop_does_on_real_threads() {
    let runtime = filch::Builder::new().workers(2).build().unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let result = runner.run(&plans(), |plan| {
        runtime.block_on_fn(|| check(&plan));
        Ok(())
    });
    result.unwrap();
}
