//! Random graphs of every kind of node, run in the simulator and compared with a model that runs them one node at a time.
//!
//! A graph is made of regions: nodes and strong edges between them, with one node that comes before all others and
//! perhaps a condition that comes after all. The condition leads back to the beginning of its region or its parent's, or on to further
//! regions, as a script says that knows how often it was asked. So nothing is in a region twice at a time, and how often
//! each node runs does not depend on the schedule.

mod model;
mod plan;
mod world;

use std::sync::Arc;

use filch::graph::{OnFailure, Semaphore};
use filch::testkit::{Sim, spawn_thread};
use proptest::prelude::*;

use model::Counts;
use plan::{Knobs, Plan};
use world::{Faults, Made, World};

/// How the run comes about.
#[derive(Debug, Clone, Copy)]
enum From {
    Thread,
    Job,
    Handle,
    Future,
}

fn knobs(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Knobs> {
    let often = 0..30_u64;
    (
        (sizes, 0..300_u64, 0..40_u64, 0..40_u64, any::<u64>()),
        (often.clone(), often.clone(), often.clone(), often.clone(), often.clone(), often),
    )
        .prop_map(|((size, edges, regions, ranks, seed), rest)| {
            let (limits, faults, waits, inner, data, cancels) = rest;
            Knobs { size, edges, regions, ranks, limits, faults, waits, inner, data, cancels, seed }
        })
}

fn from() -> impl Strategy<Value = From> {
    prop_oneof![Just(From::Thread), Just(From::Job), Just(From::Handle), Just(From::Future)]
}

/// Runs once, and says what failed and what was skipped.
fn run(made: &Made, from: From) -> Result<(), Counts> {
    let graph = made.graph.clone();
    let outcome = match from {
        From::Thread => graph.try_run().map(drop),
        From::Job => {
            let graph = graph.clone();
            filch::spawn_fn(move || graph.try_run().map(drop)).wait()
        }
        From::Handle => graph.run_async().wait_outcome().map(drop),
        From::Future => filch::block_on(graph.run_async().outcome()).map(drop),
    };
    outcome.map_err(|error| Counts::of(&error))
}

/// A run with faults, one that is stopped in the middle, and two without: each as the model says.
fn program(plan: Arc<Plan>, from: From) {
    let semaphores: Vec<_> = plan.semaphores.iter().map(|&most| Semaphore::new(most)).collect();
    let world = World::new(plan.clone());
    let made = Made::new(&world, &semaphores);
    let as_modelled = |faults: Faults| {
        world.begin(faults);
        let counts = run(&made, from).err().unwrap_or_default();
        let expected = model::run(&plan, faults);
        assert_eq!(counts.failed, expected.failed, "what failed");
        assert_eq!(counts.skipped, expected.skipped, "what was skipped");
        world.check(&expected);
    };
    as_modelled(Faults::On);
    for on_failure in [OnFailure::Continue, OnFailure::Cancel] {
        world.begin(if on_failure == OnFailure::Cancel { Faults::On } else { Faults::Cancel });
        let runner = made.graph.runner().on_failure(on_failure).canceller(&world.canceller());
        let _stopped_or_not = runner.try_run().map(drop);
        world.check_at_most(&model::run(&plan, Faults::Off));
    }
    as_modelled(Faults::Off);
    as_modelled(Faults::Off);
    for (semaphore, &most) in semaphores.iter().zip(&plan.semaphores) {
        assert_eq!(semaphore.available(), most as usize);
    }
    made.drop();
    world.check_drops();
}

fn check(knobs: Knobs, from: From, sim: &Sim) -> Result<(), TestCaseError> {
    let plan = Arc::new(Plan::new(knobs));
    let run = sim.try_run(move || program(plan, from));
    run.map(drop).map_err(|failure| TestCaseError::fail(failure.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn small_graphs_run_as_modelled(knobs in knobs(1..40), from in from(), seed in any::<u64>()) {
        check(knobs, from, &Sim::new().seed(seed))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn graphs_of_hundreds_of_nodes_run_as_modelled(
        knobs in knobs(100..600),
        from in from(),
        workers in 1..4_usize,
        seed in any::<u64>(),
    ) {
        check(knobs, from, &Sim::new().workers(workers).seed(seed))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 30, ..ProptestConfig::default() })]

    #[test]
    fn graphs_of_ten_thousand_nodes_run_as_modelled(
        knobs in knobs(9_000..10_001),
        from in from(),
        seed in any::<u64>(),
    ) {
        check(knobs, from, &Sim::new().most_switches(u64::MAX).seed(seed))?;
    }
}

/// Several runs of one graph at the same time, some of them with cancellers: what comes out is the sum.
fn side_by_side(plan: Arc<Plan>, runs: u32) {
    let semaphores: Vec<_> = plan.semaphores.iter().map(|&most| Semaphore::new(most)).collect();
    let world = World::new(plan.clone());
    let made = Made::new(&world, &semaphores);
    world.begin(Faults::On);
    world.ignore_order();
    let threads: Vec<_> = (0..runs)
        .map(|_| {
            let graph = made.graph.clone();
            spawn_thread(move || graph.try_run().map(drop).err())
        })
        .collect();
    let expected = model::run(&plan, Faults::On);
    for thread in threads {
        let error = thread.join().unwrap();
        let counts = error.as_ref().map(Counts::of).unwrap_or_default();
        assert_eq!(
            (counts.failed, counts.skipped),
            (expected.failed.clone(), expected.skipped.clone())
        );
    }
    world.check(&expected.times(runs));
    made.drop();
    world.check_drops();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn runs_side_by_side_add_up(knobs in knobs(1..60), runs in 2..5_u32, seed in any::<u64>()) {
        let plan = Arc::new(Plan::new(Knobs { regions: 0, cancels: 0, ..knobs }));
        let run = Sim::new().seed(seed).try_run(move || side_by_side(plan, runs));
        run.map(drop).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
    }
}
