//! What the bodies of a random graph see and write down.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filch::graph::{Canceller, Node, NodeId, Own, Semaphore};
use filch::testkit::switch_point;
use filch::{Graph, Priority};

use super::model::Counts;
use super::plan::{Fault, Input, Kind, Plan};

/// What bodies do besides their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    Off,
    On,
    /// None, but some nodes cancel the run.
    Cancel,
}

impl Faults {
    pub fn fail(self) -> bool {
        self == Self::On
    }
}

#[derive(Debug)]
struct Boom;

impl fmt::Display for Boom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("boom")
    }
}

impl std::error::Error for Boom {}

#[derive(Default)]
struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// Something that is dropped once.
pub struct Item {
    tally: Arc<Tally>,
    node: usize,
    /// Where a second drop would show.
    alive: AtomicBool,
}

impl Item {
    fn new(tally: &Arc<Tally>, node: usize) -> Self {
        tally.made.fetch_add(1, SeqCst);
        Self { tally: tally.clone(), node, alive: AtomicBool::new(true) }
    }

    /// A call, so that closures which ask for it hold all of the item.
    fn index(&self) -> usize {
        self.node
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, SeqCst), "dropped once");
        self.tally.dropped.fetch_add(1, SeqCst);
    }
}

pub struct World {
    plan: Arc<Plan>,
    faults: Mutex<Faults>,
    canceller: Mutex<Canceller>,
    /// Begun and ended, by node.
    begun: Vec<AtomicU32>,
    ended: Vec<AtomicU32>,
    /// Futures that were dropped instead, by node: by a run that was stopped.
    given_up: Vec<AtomicU32>,
    /// Permits out, by semaphore.
    used: Vec<AtomicU32>,
    /// Nodes of the graph that modules share.
    inner: AtomicU32,
    is_ordered: AtomicBool,
    bodies: Arc<Tally>,
    outputs: Arc<Tally>,
}

impl World {
    pub fn new(plan: Arc<Plan>) -> Arc<Self> {
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self {
            begun: zeros(plan.nodes.len()),
            ended: zeros(plan.nodes.len()),
            given_up: zeros(plan.nodes.len()),
            used: zeros(plan.semaphores.len()),
            plan,
            faults: Mutex::new(Faults::Off),
            canceller: Mutex::default(),
            inner: AtomicU32::new(0),
            is_ordered: AtomicBool::new(true),
            bodies: Arc::default(),
            outputs: Arc::default(),
        })
    }

    /// Before a run.
    pub fn begin(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
        *self.canceller.lock().unwrap() = Canceller::new();
        let counts = self.begun.iter().chain(&self.ended).chain(&self.given_up);
        counts.for_each(|count| count.store(0, SeqCst));
        self.inner.store(0, SeqCst);
    }

    /// Runs will overlap.
    pub fn ignore_order(&self) {
        self.is_ordered.store(false, SeqCst);
    }

    pub fn canceller(&self) -> Canceller {
        self.canceller.lock().unwrap().clone()
    }

    /// A node begins: its predecessors have ended as often as it has begun, and there are permits for it. Returns which time it is.
    fn enter(&self, index: usize) -> u32 {
        let node = &self.plan.nodes[index];
        let visit = self.begun[index].fetch_add(1, SeqCst);
        if self.is_ordered.load(SeqCst) {
            assert_eq!(self.ended[index].load(SeqCst), visit, "{index} runs once at a time");
            for &before in node.before.iter().filter(|&&b| self.plan.nodes[b].is_tracked()) {
                assert_eq!(self.ended[before].load(SeqCst), visit + 1, "{before} before {index}");
            }
        }
        for &(semaphore, weight) in &node.limits {
            let used = self.used[semaphore].fetch_add(weight, SeqCst) + weight;
            assert!(used <= self.plan.semaphores[semaphore], "limit of {semaphore} at {index}");
        }
        let faults = *self.faults.lock().unwrap();
        if faults == Faults::Cancel && node.cancels {
            self.canceller().cancel();
        }
        switch_point();
        visit
    }

    /// A node ends, well or badly.
    fn leave(&self, index: usize, visit: u32) -> Result<(), Boom> {
        switch_point();
        self.give_permits_back(index);
        self.ended[index].fetch_add(1, SeqCst);
        let node = &self.plan.nodes[index];
        let faults = *self.faults.lock().unwrap();
        match node.fault {
            Some((when, fault)) if faults.fail() && self.is_due(when, visit) => match fault {
                Fault::Error => Err(Boom),
                // Not `panic!`, which would print.
                Fault::Panic => resume_unwind(Box::new(Boom)),
            },
            _ => Ok(()),
        }
    }

    fn give_permits_back(&self, index: usize) {
        for &(semaphore, weight) in &self.plan.nodes[index].limits {
            self.used[semaphore].fetch_sub(weight, SeqCst);
        }
    }

    /// Where runs overlap, each is a first one.
    fn is_due(&self, when: u32, visit: u32) -> bool {
        if self.is_ordered.load(SeqCst) { when == visit } else { when == 0 }
    }

    /// Every node has run as often as the model says.
    pub fn check(&self, expected: &Counts) {
        let mut inner = 0;
        for (index, node) in self.plan.nodes.iter().enumerate() {
            if node.is_tracked() {
                let counts = (self.begun[index].load(SeqCst), self.ended[index].load(SeqCst));
                assert_eq!(counts, (expected.ran[index], expected.ran[index]), "node {index}");
                assert_eq!(self.given_up[index].load(SeqCst), 0, "nobody stops node {index}");
            } else {
                inner += expected.ran[index];
            }
        }
        assert_eq!(self.inner.load(SeqCst), INNER * inner, "nodes of modules");
        self.check_items();
    }

    /// Of a run that was stopped.
    pub fn check_at_most(&self, expected: &Counts) {
        for (index, node) in self.plan.nodes.iter().enumerate() {
            if node.is_tracked() {
                let (begun, ended) =
                    (self.begun[index].load(SeqCst), self.ended[index].load(SeqCst));
                let given_up = self.given_up[index].load(SeqCst);
                assert_eq!(
                    begun,
                    ended + given_up,
                    "node {index} has ended, or its future is gone"
                );
                assert!(begun <= expected.ran[index], "node {index}");
            }
        }
        self.check_items();
    }

    fn check_items(&self) {
        self.used.iter().for_each(|used| assert_eq!(used.load(SeqCst), 0, "permits"));
        let outputs = (self.outputs.made.load(SeqCst), self.outputs.dropped.load(SeqCst));
        assert_eq!(outputs.0, outputs.1, "outputs are dropped");
        assert_eq!(self.bodies.dropped.load(SeqCst), 0, "bodies stay");
    }

    /// The graph is gone.
    pub fn check_drops(&self) {
        let bodies = (self.bodies.made.load(SeqCst), self.bodies.dropped.load(SeqCst));
        assert_eq!(bodies.0, bodies.1, "bodies are dropped");
    }
}

/// Nodes of the graph that modules share.
const INNER: u32 = 3;

/// The graph of a plan: the nodes of the plan, and then those before roots.
pub struct Made {
    pub graph: Arc<Graph<'static>>,
}

/// A node that returns an item, or one that does not.
#[derive(Clone, Copy)]
enum Handle {
    Item(Node<Item>),
    Unit(Node<()>),
}

impl Handle {
    fn id(self) -> NodeId {
        match self {
            Self::Item(node) => node.id(),
            Self::Unit(node) => node.id(),
        }
    }

    fn item(self) -> Node<Item> {
        match self {
            Self::Item(node) => node,
            Self::Unit(_) => unreachable!("a plan takes items of nodes that have one"),
        }
    }
}

impl Made {
    pub fn new(world: &Arc<World>, semaphores: &[Semaphore]) -> Self {
        let plan = &world.plan;
        let mut g = Graph::new();
        let mut shared = Graph::new();
        let inner: Vec<_> = (0..INNER)
            .map(|_| {
                let world = world.clone();
                shared.node("", move || _ = world.inner.fetch_add(1, SeqCst))
            })
            .collect();
        shared.linearize(&inner[1..]);
        let shared = Arc::new(shared);
        let mut handles: Vec<Handle> = Vec::with_capacity(plan.nodes.len());
        for (index, node) in plan.nodes.iter().enumerate() {
            let handle = match &node.kind {
                Kind::Closure => closure(&mut g, world, index, &handles),
                Kind::Async(waits) => Handle::Item(future(&mut g, world, index, *waits)),
                Kind::Subflow { inner, retained } => {
                    Handle::Unit(subflow(&mut g, world, index, *inner, *retained))
                }
                Kind::Module => Handle::Unit(g.module("", shared.clone())),
                Kind::Condition(script) => Handle::Unit(condition(&mut g, world, index, script)),
            };
            handles.push(handle);
            let id = handle.id();
            for &(semaphore, weight) in &node.limits {
                g.limit(id, &semaphores[semaphore], weight);
            }
            match node.rank {
                0 => {}
                rank => g.prioritize(id, if rank > 0 { Priority::High } else { Priority::Low }),
            }
        }
        for (index, node) in plan.nodes.iter().enumerate() {
            let has_edge = |&&before: &&usize| !matches!(node.input, Input::Borrow(from) | Input::Own(from) if from == before);
            let before = node.before.iter().filter(has_edge).map(|&before| handles[before].id());
            g.succeed(handles[index].id(), before.collect::<Vec<_>>());
            let weak = node.weak.iter().map(|&to| handles[to].id());
            g.precede(handles[index].id(), weak.collect::<Vec<_>>());
        }
        for &root in plan.roots.iter().filter(|&&root| plan.needs_start(root)) {
            let start = g.placeholder("start");
            g.precede(start, handles[plan.regions[root].first].id());
        }
        Self { graph: Arc::new(g) }
    }

    /// Drops the graph. A run may have it for a moment longer than its handle.
    pub fn drop(self) {
        while Arc::strong_count(&self.graph) > 1 {
            switch_point();
        }
    }
}

fn closure(g: &mut Graph<'static>, world: &Arc<World>, index: usize, handles: &[Handle]) -> Handle {
    let body = {
        let (world, life) = (world.clone(), Item::new(&world.bodies, index));
        move |input: Option<&Item>, from: Option<usize>| -> Result<Item, Boom> {
            assert_eq!(input.map(|item| item.node), from, "the input is its node's");
            let visit = world.enter(life.index());
            let item = Item::new(&world.outputs, life.index());
            world.leave(life.index(), visit)?;
            Ok(item)
        }
    };
    Handle::Item(match world.plan.nodes[index].input {
        Input::None => g.try_node("", move || body(None, None)),
        Input::Borrow(from) => {
            let node = g.try_node("", move |item: &Item| body(Some(item), Some(from)));
            node.after(&handles[from].item())
        }
        Input::Own(from) => {
            let node = g.try_node("", move |Own(item): Own<Item>| body(Some(&item), Some(from)));
            node.after(handles[from].item())
        }
    })
}

fn future(g: &mut Graph<'static>, world: &Arc<World>, index: usize, waits: u32) -> Node<Item> {
    let (world, life) = (world.clone(), Item::new(&world.bodies, index));
    g.async_node("", move || {
        let (world, index) = (world.clone(), life.index());
        async move {
            let visit = world.enter(index);
            let stay = Stay { world: &world, index };
            let item = Item::new(&world.outputs, index);
            for wait in 0..waits {
                match wait {
                    0 => filch::yield_now().await,
                    _ => filch::time::sleep(Duration::from_micros(7)).await,
                }
            }
            std::mem::forget(stay);
            let ended = world.leave(index, visit);
            assert!(ended.is_ok(), "a future fails by panics");
            item
        }
    })
}

/// A future that waits: if it is dropped meanwhile, its node is over.
struct Stay<'a> {
    world: &'a World,
    index: usize,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.world.give_permits_back(self.index);
        self.world.given_up[self.index].fetch_add(1, SeqCst);
    }
}

/// A subflow of nodes side by side, and one after them.
fn subflow(
    g: &mut Graph<'static>,
    world: &Arc<World>,
    index: usize,
    inner: u32,
    retained: bool,
) -> Node<()> {
    let (world, life) = (world.clone(), Item::new(&world.bodies, index));
    let visits = Arc::new(AtomicU32::new(0));
    let make = move |sub: &mut Graph<'static>| {
        let enter = {
            let (world, index, visits) = (world.clone(), life.index(), visits.clone());
            sub.node("", move || visits.store(world.enter(index), SeqCst))
        };
        let leave = {
            let (world, index, visits) = (world.clone(), life.index(), visits.clone());
            sub.try_node("", move || world.leave(index, visits.load(SeqCst)))
        };
        let side: Vec<_> = (0..inner).map(|_| sub.node("", switch_point)).collect();
        sub.precede(enter, (&side, leave));
        sub.precede(&side, leave);
    };
    if retained { g.retained_subflow("", make) } else { g.subflow("", make) }
}

fn condition(
    g: &mut Graph<'static>,
    world: &Arc<World>,
    index: usize,
    script: &[Vec<usize>],
) -> Node<()> {
    let (world, life) = (world.clone(), Item::new(&world.bodies, index));
    let script = script.to_vec();
    let is_multi = script.iter().any(|picks| picks.len() != 1);
    let picks = move || {
        let visit = world.enter(life.index());
        let ended = world.leave(life.index(), visit);
        assert!(ended.is_ok(), "a condition fails by panics");
        script.get(visit as usize).cloned().unwrap_or_default()
    };
    match is_multi {
        true => g.multi_condition("", picks),
        false => g.condition("", move || picks().first().copied().unwrap_or(usize::MAX)),
    }
}
