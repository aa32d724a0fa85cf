//! Graphs of boxed closures, as each runtime has them.
//!
//! Q1. A runtime gets the same bodies and edges, builds what it builds outside of the time that is taken, and is
//!     run once before.

use super::shape::Shape;
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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

/// A hand-made graph on rayon: flat arrays, a counter for each node, and the first successor that is ready runs
/// where its predecessor did.
pub struct RayonDag(ThreadPool);

pub struct Flat {
    bodies: Vec<Body>,
    /// Where the successors of a node begin; one more than nodes.
    first: Vec<u32>,
    successors: Vec<u32>,
    predecessors: Vec<u32>,
    /// Predecessors that have not run.
    pending: Vec<AtomicU32>,
    sources: Vec<u32>,
}

impl Flat {
    pub fn new(bodies: Vec<Body>, edges: &[(u32, u32)]) -> Self {
        let mut first = vec![0; bodies.len() + 1];
        let mut predecessors = vec![0; bodies.len()];
        for &(from, to) in edges {
            first[from as usize + 1] += 1;
            predecessors[to as usize] += 1;
        }
        for node in 1..first.len() {
            first[node] += first[node - 1];
        }
        let (mut at, mut successors) = (first.clone(), vec![0; edges.len()]);
        for &(from, to) in edges {
            successors[at[from as usize] as usize] = to;
            at[from as usize] += 1;
        }
        let sources = (0..bodies.len() as u32).filter(|&node| predecessors[node as usize] == 0);
        Self {
            sources: sources.collect(),
            pending: predecessors.iter().map(|&count| AtomicU32::new(count)).collect(),
            bodies,
            first,
            successors,
            predecessors,
        }
    }

    fn work<'s>(&'s self, scope: &Scope<'s>, mut node: u32) {
        loop {
            let here = node as usize;
            (self.bodies[here])();
            // For the next run.
            // ORDERING: Relaxed, the end of the run orders it.
            self.pending[here].store(self.predecessors[here], Ordering::Relaxed);
            let mut next = None;
            for &then in &self.successors[self.first[here] as usize..self.first[here + 1] as usize]
            {
                if !self.is_ready(then) {
                    continue;
                }
                match next {
                    None => next = Some(then),
                    Some(_) => scope.spawn(move |scope| self.work(scope, then)),
                }
            }
            match next {
                Some(then) => node = then,
                None => return,
            }
        }
    }

    /// One predecessor less.
    fn is_ready(&self, node: u32) -> bool {
        self.predecessors[node as usize] == 1
            // ORDERING: AcqRel, what the predecessors did is seen by the node.
            || self.pending[node as usize].fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Dag for RayonDag {
    const NAME: &'static str = "rayon-dag";
    type Graph = Flat;

    fn start(threads: usize) -> Self {
        Self(ThreadPoolBuilder::new().num_threads(threads).build().expect("rayon starts"))
    }

    fn build(shape: &Shape, cells: &Cells) -> Flat {
        Flat::new(Seq::build(shape, cells), &shape.edges)
    }

    fn run(graph: &Flat) {
        rayon::scope(|scope| {
            for &source in &graph.sources {
                scope.spawn(move |scope| graph.work(scope, source));
            }
        });
    }

    fn on_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.0.install(work)
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
    use super::{Dag, Filch, RayonDag, Seq, cells};
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
        runs_each_node_once::<RayonDag>();
        runs_each_node_once::<Seq>();
    }
}
