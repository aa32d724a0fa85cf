//! A hand-made graph on rayon: the first successor that is ready runs where its predecessor did.

use super::{Body, Cells, Dag, Seq, Shape};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct RayonDag(ThreadPool);

/// A graph in flat arrays: a counter for each node, and its successors in one row.
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
