//! Task graphs and pipelines.
//!
//! Graphs are built outside of the time that is taken, unless building is what is measured, and run once
//! before: each value is that of running a graph again.

mod dag;
mod pipeline;
mod shape;

use super::{Entry, Load, Metric, Run, per_op};
use dag::{Body, Cells, Dag, Filch, Seq, body, cells};
#[cfg(feature = "peers")]
use dag::{Flat, RayonDag};
use shape::Shape;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// One sampler, bound to each runtime.
macro_rules! all {
    ($sampler:ident) => {
        vec![
            run::<Filch>($sampler::<Filch>),
            #[cfg(feature = "peers")]
            run::<RayonDag>($sampler::<RayonDag>),
            run::<Seq>($sampler::<Seq>),
        ]
    };
}

/// The graph scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    let graphs = vec![
        Entry::per_op("graph_chain", "1e6 nodes one after the other, per node", all!(chain)),
        Entry::per_op("graph_tree", "binary tree of 2^20 nodes, per node", all!(tree)),
        Entry::per_op("graph_wavefront", "1024 by 1024 nodes, per node", all!(wavefront)),
        Entry::per_op("graph_random", "1e6 nodes with 2 random edges each, per node", all!(random)),
        Entry::per_op("graph_tiny", "1000 graphs of 8 nodes, per run of one", all!(tiny)),
        Entry::per_op(
            "graph_loop",
            "a condition that leads back 1e6 times, per round",
            vec![run::<Filch>(loop_filch), run::<Seq>(loop_seq)],
        ),
        Entry::per_op(
            "graph_async",
            "1e6 futures that are ready at once, one after the other, per node; then as closures",
            vec![
                run::<Filch>(async_filch),
                Run { runtime: "closure", sample: chain::<Filch> },
                run::<Seq>(chain::<Seq>),
            ],
        ),
        Entry {
            metrics: &[
                Metric { name: "ns_per_op", unit: "ns" },
                Metric { name: "ns_with_plan", unit: "ns" },
            ],
            workers: super::Workers::Fixed(1),
            ..Entry::per_op(
                "graph_build",
                "a node of a wavefront with its edges; then made ready to run",
                vec![
                    run::<Filch>(build_filch),
                    #[cfg(feature = "peers")]
                    Run { runtime: "vec", sample: build_vec },
                ],
            )
        },
    ];
    [graphs, pipeline::entries()].concat()
}

fn run<D: Dag>(sample: fn(Load) -> Vec<f64>) -> Run {
    Run { runtime: D::NAME, sample }
}

fn chain<D: Dag>(load: Load) -> Vec<f64> {
    again::<D>(load, &shape::chain(load.pick(1_000_000, 5_000)))
}

/// As `chain`, of nodes that are futures.
fn async_filch(load: Load) -> Vec<f64> {
    let shape = shape::chain(load.pick(1_000_000, 5_000));
    let (runs, cells) = (load.pick(5, 1), cells(shape.nodes));
    let mut graph = filch::Graph::new();
    let nodes: Vec<_> = (0..shape.nodes)
        .map(|number| {
            let body = body(&cells, number);
            graph.async_node("", move || {
                body();
                std::future::ready(())
            })
        })
        .collect();
    graph.linearize(&nodes);
    let elapsed = Filch::start(load.threads).time(vec![graph], runs);
    check(&cells, runs + 1);
    per_op(elapsed, runs * shape.nodes as usize)
}

fn tree<D: Dag>(load: Load) -> Vec<f64> {
    again::<D>(load, &shape::tree(load.pick(20, 10)))
}

fn wavefront<D: Dag>(load: Load) -> Vec<f64> {
    again::<D>(load, &shape::wavefront(load.pick(1024, 64)))
}

fn random<D: Dag>(load: Load) -> Vec<f64> {
    again::<D>(load, &shape::random(load.pick(1_000_000, 5_000)))
}

/// Runs a graph a few times.
fn again<D: Dag>(load: Load, shape: &Shape) -> Vec<f64> {
    let (runs, cells) = (load.pick(5, 1), cells(shape.nodes));
    let graph = D::build(shape, &cells);
    let elapsed = D::start(load.threads).time(vec![graph], runs);
    check(&cells, runs + 1);
    per_op(elapsed, runs * shape.nodes as usize)
}

fn tiny<D: Dag>(load: Load) -> Vec<f64> {
    let (count, runs) = (load.pick(1_000, 20), load.pick(100, 2));
    let (shape, pool) = (shape::diamond(), D::start(load.threads));
    let all: Vec<Cells> = (0..count).map(|_| cells(shape.nodes)).collect();
    let graphs = all.iter().map(|cells| D::build(&shape, cells)).collect();
    let elapsed = pool.time(graphs, runs);
    all.iter().for_each(|cells| check(cells, runs + 1));
    per_op(elapsed, count * runs)
}

fn check(cells: &Cells, runs: usize) {
    // ORDERING: Relaxed, the runs have ended.
    assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == runs as u64));
}

fn rounds(load: Load) -> u64 {
    load.pick(1_000_000, 2_000)
}

/// What the condition says after the body has run.
fn goes_on(cells: &Cells, rounds: u64) -> impl Fn() -> bool + Send + Sync + 'static {
    let cells = cells.clone();
    // ORDERING: Relaxed, written by the body just before.
    move || !cells[0].load(Ordering::Relaxed).is_multiple_of(rounds)
}

fn loop_filch(load: Load) -> Vec<f64> {
    let (cells, rounds) = (cells(1), rounds(load));
    let mut graph = filch::Graph::new();
    let goes_on = goes_on(&cells, rounds);
    let start = graph.node("start", || ());
    let node = graph.node("body", body(&cells, 0));
    let again = graph.condition("again", move || usize::from(!goes_on()));
    let end = graph.node("end", || ());
    graph.linearize([start.id(), node.id(), again.id()]);
    graph.precede(again, (node, end));
    let elapsed = Filch::start(load.threads).time(vec![graph], 1);
    check(&cells, 2 * rounds as usize);
    per_op(elapsed, rounds as usize)
}

fn loop_seq(load: Load) -> Vec<f64> {
    let (cells, rounds) = (cells(1), rounds(load));
    let node: Body = Box::new(body(&cells, 0));
    let again: Box<dyn Fn() -> bool> = Box::new(goes_on(&cells, rounds));
    let start = Instant::now();
    loop {
        node();
        if !again() {
            break;
        }
    }
    let elapsed = start.elapsed();
    check(&cells, rounds as usize);
    per_op(elapsed, rounds as usize)
}

fn side(load: Load) -> u32 {
    load.pick(1024, 64)
}

fn build_filch(load: Load) -> Vec<f64> {
    let shape = shape::wavefront(side(load));
    let cells = cells(shape.nodes);
    let start = Instant::now();
    let graph = Filch::build(&shape, &cells);
    let built = start.elapsed();
    graph.prepare().expect("no cycle");
    let ready = start.elapsed();
    assert_eq!(graph.len(), shape.nodes as usize);
    [built, ready].into_iter().flat_map(|time| per_op(time, shape.nodes as usize)).collect()
}

/// The arrays of the graph on rayon.
#[cfg(feature = "peers")]
fn build_vec(load: Load) -> Vec<f64> {
    let shape = shape::wavefront(side(load));
    let cells = cells(shape.nodes);
    let start = Instant::now();
    let mut bodies = Vec::new();
    let mut edges = Vec::new();
    for node in 0..shape.nodes {
        bodies.push(Box::new(body(&cells, node)) as Body);
    }
    for &edge in &shape.edges {
        edges.push(edge);
    }
    let built = start.elapsed();
    let flat = Flat::new(bodies, &edges);
    let ready = start.elapsed();
    drop(flat);
    [built, ready].into_iter().flat_map(|time| per_op(time, shape.nodes as usize)).collect()
}
