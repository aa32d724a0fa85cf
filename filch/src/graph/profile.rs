//! Profiles: when each node of a run was at work, where, and what that says about the graph.
//!
//! J1. Whether a run is profiled stands in the word that tells whether it was stopped, which every node looks at
//!     anyway. So a run that is not profiled pays nothing, and one that is takes the slow way (`work`).
//! J2. A begin is logged before the body is called, an end before the token moves on. So of two nodes that an edge
//!     orders, the end of the first is not later than the begin of the second. Who ends a node that went on elsewhere logs that end.
//! J3. The first begin of a node goes with its first end, the second with the second: a node that runs again does so after its end.
//! J4. Every event is logged by who has a token, so the log outlives them all if it outlives the run.
//!
//! Not here: how long a node was ready before it began; the inside of subflows and modules, of which each is one span; pictures (`trace`).

use std::time::Duration;
use std::{iter, mem};

use crossbeam_utils::CachePadded;

use super::build::Graph;
use super::error::RunError;
use super::node::NodeId;
use super::plan::{Plan, trait_bits};
use super::run::Run;
use super::runner::Runner;
use super::slot::Slot;
use crate::base::shim::Mutex;
use crate::sched::worker::Worker;
use crate::time::Instant;

/// Parts of a log, so that workers do not meet. Guessed.
const SHARDS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Begin,
    End,
    /// The end of a node that went on elsewhere.
    EndAway,
}

#[derive(Clone, Copy)]
struct Event {
    at: Instant,
    node: u32,
    worker: Option<u32>,
    mark: Mark,
}

/// What happened in one run.
#[derive(Default)]
pub(super) struct Log {
    shards: [CachePadded<Mutex<Vec<Event>>>; SHARDS],
}

impl Log {
    fn push(&self, node: u32, mark: Mark) {
        // SAFETY: used within this call only.
        let worker = unsafe { Worker::current() }.map(|worker| worker.index() as u32);
        let event = Event { at: Instant::now(), node, worker, mark };
        let shard = &self.shards[worker.map_or(0, |worker| worker as usize % SHARDS)];
        shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(event);
    }

    /// A node that went on elsewhere has ended (J2).
    pub(super) fn end_away(&self, node: u32) {
        self.push(node, Mark::EndAway);
    }

    fn take(self) -> Vec<Event> {
        let take = |shard: &CachePadded<Mutex<Vec<Event>>>| {
            mem::take(&mut *shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
        };
        self.shards.iter().flat_map(take).collect()
    }
}

/// A node at work, until dropped; a panic ends it too.
pub(super) struct Lap<'a> {
    log: &'a Log,
    node: u32,
}

impl<'a> Lap<'a> {
    pub(super) fn begin(slot: &'a Slot, node: u32) -> Option<Self> {
        let log = slot.log()?;
        log.push(node, Mark::Begin);
        Some(Self { log, node })
    }

    /// The node goes on elsewhere; its token may be spent by now, and the log gone (J4).
    pub(super) fn go_on(this: Option<Self>) {
        mem::forget(this);
    }
}

impl Drop for Lap<'_> {
    fn drop(&mut self) {
        self.log.push(self.node, Mark::End);
    }
}

/// One time that a node ran; see [`Profile::spans`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    node: NodeId,
    start: Duration,
    end: Duration,
    worker: Option<u32>,
    pub(super) away: bool,
}

impl Span {
    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// When its closure was called, since the run began.
    pub fn start(&self) -> Duration {
        self.start
    }

    /// When it had ended, since the run began.
    pub fn end(&self) -> Duration {
        self.end
    }

    /// How long it took. For an async node that includes what it waited.
    pub fn time(&self) -> Duration {
        self.end - self.start
    }

    /// The number of the worker on which it began; `None` for a thread that is none.
    pub fn worker(&self) -> Option<usize> {
        self.worker.map(|worker| worker as usize)
    }
}

/// When the nodes of a run were at work, and what bounds the run; see [`Runner::profile`].
///
/// ```
/// let mut g = filch::Graph::new();
/// let (a, b) = (g.node("a", || ()), g.node("b", || ()));
/// g.precede(a, b);
/// let (run, profile) = g.runner().profile();
/// assert!(run.is_ok());
/// assert_eq!(profile.spans().len(), 2);
/// assert_eq!(profile.critical_path().collect::<Vec<_>>(), [a.id(), b.id()]);
/// println!("{profile}");
/// ```
#[derive(Debug)]
pub struct Profile<'g, 'env> {
    pub(super) graph: &'g Graph<'env>,
    spans: Vec<Span>,
    elapsed: Duration,
    /// Places in `spans`.
    critical: Vec<usize>,
}

impl<'g, 'env> Runner<'g, 'env> {
    /// As [`Runner::try_run`], and tells when each node ran: the profile is there even if the run fails.
    ///
    /// Times come from the clock of the runtime, so they are exact in a simulation. Each node costs two looks
    /// at that clock and two short locks; runs that are not profiled cost nothing more.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let a = g.node("a", || 7);
    /// let (run, profile) = g.runner().profile();
    /// assert_eq!(run.unwrap().take(a), 7);
    /// assert_eq!(profile.runs_of(a), 1);
    /// assert!(profile.to_trace().contains(r#""name":"a""#));
    /// ```
    ///
    /// # Panics
    /// If the graph has a cycle.
    #[track_caller]
    pub fn profile(&self) -> (Result<Run<'g, 'env>, RunError>, Profile<'g, 'env>) {
        let log = Log::default();
        let slot = self.graph.take_slot();
        // SAFETY: taken just now, and the graph keeps it.
        let this = unsafe { slot.as_ref() };
        // SAFETY: J4, `run_slot` returns when the run is over.
        unsafe { this.profile(&log) };
        let begin = Instant::now();
        let run = self.run_slot(slot);
        let elapsed = begin.elapsed();
        (run, Profile::new(self.graph, log.take(), begin, elapsed))
    }
}

impl<'g, 'env> Profile<'g, 'env> {
    fn new(graph: &'g Graph<'env>, events: Vec<Event>, begin: Instant, elapsed: Duration) -> Self {
        let Ok(prepared) = graph.plan() else { unreachable!("it has run") };
        let mut spans = spans(graph, events, begin);
        let ranks = ranks(&prepared.plan);
        spans.sort_by_key(|span| (span.start, span.end, ranks[span.node.index()]));
        let critical = longest_chain(&spans, &prepared.plan);
        Self { graph, spans, elapsed, critical }
    }

    /// Every time that a node ran, in the order of their beginning. A node in a loop has several, one that was skipped none.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How often a node ran.
    pub fn runs_of(&self, node: impl Into<NodeId>) -> usize {
        let id = node.into();
        self.spans.iter().filter(|span| span.node == id).count()
    }

    /// How long a node was at work, all its times together.
    pub fn time_of(&self, node: impl Into<NodeId>) -> Duration {
        let id = node.into();
        self.spans.iter().filter(|span| span.node == id).map(Span::time).sum()
    }

    /// How long the run took.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// How long all nodes were at work, one after the other; what async nodes waited is part of it.
    pub fn work(&self) -> Duration {
        self.spans.iter().map(Span::time).sum()
    }

    /// The nodes that bound the run, first to last: of all chains along edges the one that took longest. More workers do not make it shorter.
    pub fn critical_path(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.critical_spans().map(Span::node)
    }

    /// The names along [`Profile::critical_path`].
    pub fn critical_names(&self) -> Vec<String> {
        self.critical_path().map(|id| self.graph.parts.name(id.index)).collect()
    }

    /// How long the nodes on the critical path were at work.
    pub fn critical_time(&self) -> Duration {
        self.critical_spans().map(Span::time).sum()
    }

    pub(super) fn critical_spans(&self) -> impl Iterator<Item = &Span> {
        self.critical.iter().map(|&at| &self.spans[at])
    }

    /// How many workers the graph could have used on average: its work through the time of its critical path.
    pub fn possible_parallelism(&self) -> f64 {
        ratio(self.work(), self.critical_time())
    }

    /// How many nodes were at work on average: the work through the time that the run took.
    pub fn achieved_parallelism(&self) -> f64 {
        ratio(self.work(), self.elapsed)
    }
}

/// One where nothing was measured.
fn ratio(work: Duration, time: Duration) -> f64 {
    if time.is_zero() { 1.0 } else { work.as_secs_f64() / time.as_secs_f64() }
}

/// J3.
fn spans(graph: &Graph<'_>, events: Vec<Event>, begin: Instant) -> Vec<Span> {
    let (mut begins, mut ends): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| event.mark == Mark::Begin);
    begins.sort_by_key(|event| (event.node, event.at));
    ends.sort_by_key(|event| (event.node, event.at));
    let mut ends = ends.into_iter().peekable();
    let since = |at: Instant| at.saturating_duration_since(begin);
    let pair = |from: Event| {
        while ends.next_if(|end| end.node < from.node).is_some() {}
        let end = ends.next_if(|end| end.node == from.node)?;
        Some(Span {
            node: graph.id_of(from.node),
            start: since(from.at),
            end: since(end.at).max(since(from.at)),
            worker: from.worker,
            away: end.mark == Mark::EndAway,
        })
    };
    begins.into_iter().filter_map(pair).collect()
}

/// An order of the nodes that strong edges allow (P3 of `plan`): for nodes that took no time at all.
fn ranks(plan: &Plan) -> Vec<u32> {
    let mut left: Vec<u32> = plan.records.iter().map(|record| record.strong).collect();
    let mut ready: Vec<u32> =
        (0..left.len() as u32).rev().filter(|&index| left[index as usize] == 0).collect();
    let mut ranks = vec![0; left.len()];
    let mut next = 0;
    while let Some(index) = ready.pop() {
        ranks[index as usize] = next;
        next += 1;
        let record = &plan.records[index as usize];
        if record.traits & trait_bits::CONDITION != 0 {
            continue;
        }
        for successor in plan.successors(record) {
            let left = &mut left[successor.index() as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(successor.index());
            }
        }
    }
    ranks
}

/// The edges of a plan, backwards: those who lead to a node, in one row.
struct Before {
    first: Vec<u32>,
    row: Vec<u32>,
}

impl Before {
    fn new(plan: &Plan) -> Self {
        let mut first = vec![0; plan.records.len() + 1];
        plan.after.iter().for_each(|to| first[to.index() as usize + 1] += 1);
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let (mut place, mut row) = (first.clone(), vec![0; plan.after.len()]);
        for (from, record) in plan.records.iter().enumerate() {
            for to in plan.successors(record) {
                let place = &mut place[to.index() as usize];
                row[*place as usize] = from as u32;
                *place += 1;
            }
        }
        Self { first, row }
    }

    fn of(&self, index: usize) -> &[u32] {
        &self.row[self.first[index] as usize..self.first[index + 1] as usize]
    }
}

/// The longest chain that ends with a span.
struct Chain {
    time: Duration,
    /// The span before it in the chain.
    from: Option<usize>,
    /// The time before, of the same node.
    earlier: Option<usize>,
}

/// The spans of the longest chain along edges. Of a node that ran several times, what comes after it follows the latest time that had ended.
fn longest_chain(spans: &[Span], plan: &Plan) -> Vec<usize> {
    let before = Before::new(plan);
    let mut latest: Vec<Option<usize>> = vec![None; plan.records.len()];
    let mut chains: Vec<Chain> = Vec::with_capacity(spans.len());
    for (at, span) in spans.iter().enumerate() {
        let ended = |&node: &u32| {
            let mut times = iter::successors(latest[node as usize], |&at| chains[at].earlier);
            times.find(|&at| spans[at].end <= span.start)
        };
        let predecessors = before.of(span.node.index()).iter();
        let from = predecessors.filter_map(ended).max_by_key(|&at| chains[at].time);
        let time = span.time() + from.map_or(Duration::ZERO, |at| chains[at].time);
        let earlier = latest[span.node.index()].replace(at);
        chains.push(Chain { time, from, earlier });
    }
    let last = (0..chains.len()).max_by_key(|&at| chains[at].time);
    let mut chain: Vec<usize> = iter::successors(last, |&at| chains[at].from).collect();
    chain.reverse();
    chain
}
