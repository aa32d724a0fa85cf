//! Graphs of boxed closures, as each runtime has them.
//!
//! Q1. A runtime gets the same bodies and edges, builds what it builds outside of the time that is taken, and is
//!     run once before.

#[cfg(feature = "peers")]
mod rayon;

#[cfg(feature = "peers")]
pub use rayon::{Flat, RayonDag};

use super::shape::Shape;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

pub type Body = Box<dyn Fn() + Send + Sync>;

/// What the bodies write to: how often each has run. A body takes a few nanoseconds.
pub type Cells = Arc<[AtomicU64]>;

pub fn cells(nodes: u32) -> Cells {
    (0..nodes).map(|_| AtomicU64::new(0)).collect()
}

/// What node `number` does.
pub fn body(cells: &Cells, number: u32) -> impl Fn() + Send + Sync + 'static {
    let cells = cells.clone();
    move || {
        let cell = &cells[number as usize];
        // ORDERING: Relaxed on both, runs of one node come after one another.
        cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// A runtime that runs graphs.
pub trait Dag: Sized + 'static {
    const NAME: &'static str;
    type Graph: Send + 'static;

    fn start(threads: usize) -> Self;

    fn build(shape: &Shape, cells: &Cells) -> Self::Graph;

    fn run(graph: &Self::Graph);

    /// Runs `work` on one of the threads.
    fn on_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T;

    /// The time that so many runs of each graph take, one graph after the other.
    fn time(&self, graphs: Vec<Self::Graph>, runs: usize) -> Duration {
        self.on_thread(move || {
            graphs.iter().for_each(Self::run);
            let start = Instant::now();
            for _ in 0..runs {
                graphs.iter().for_each(Self::run);
            }
            start.elapsed()
        })
    }
}

/// Plain code: one body after the other, on the calling thread.
pub struct Seq;

impl Dag for Seq {
    const NAME: &'static str = "seq";
    type Graph = Vec<Body>;

    fn start(_: usize) -> Self {
        Self
    }

    fn build(shape: &Shape, cells: &Cells) -> Vec<Body> {
        (0..shape.nodes).map(|node| Box::new(body(cells, node)) as Body).collect()
    }

    fn run(graph: &Vec<Body>) {
        graph.iter().for_each(|body| body());
    }

    fn on_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        work()
    }
}

/// The graphs of filch.
pub struct Filch(filch::Runtime);

impl Dag for Filch {
    const NAME: &'static str = crate::bench::peers::BASE;
    type Graph = filch::Graph<'static>;

    fn start(threads: usize) -> Self {
        let runtime = filch::Runtime::builder().io_workers(1).compute_workers(threads).build();
        Self(runtime.expect("filch starts"))
    }

    fn build(shape: &Shape, cells: &Cells) -> filch::Graph<'static> {
        let mut graph = filch::Graph::new();
        let nodes: Vec<_> =
            (0..shape.nodes).map(|node| graph.node("", body(cells, node))).collect();
        for &(from, to) in &shape.edges {
            graph.precede(nodes[from as usize], nodes[to as usize]);
        }
        graph
    }

    fn run(graph: &filch::Graph<'static>) {
        graph.run();
    }

    /// Through a channel: the handle's own wait would run the work here, outside the workers.
    fn on_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, is_done) = mpsc::channel();
        drop(self.0.handle().spawn_fn(move || done.send(work())));
        is_done.recv().expect("the work does not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{chain, diamond, random, tree, wavefront};
    #[cfg(feature = "peers")]
    use super::RayonDag;
    use super::{Dag, Filch, Seq, cells};
    use std::sync::atomic::Ordering;

    fn runs_each_node_once<D: Dag>() {
        for shape in [chain(50), tree(6), wavefront(9), random(300), diamond()] {
            let cells = cells(shape.nodes);
            let graph = D::build(&shape, &cells);
            D::start(2).time(vec![graph], 2);
            // ORDERING: Relaxed, the runs have ended.
            assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 3), "{}", D::NAME);
        }
    }

    #[test]
    fn every_runtime_runs_each_node_once_a_run() {
        runs_each_node_once::<Filch>();
        #[cfg(feature = "peers")]
        runs_each_node_once::<RayonDag>();
        runs_each_node_once::<Seq>();
    }
}
