//! The plan of a graph: its nodes and edges laid out once, for any number of runs.
//!
//! P1. A plan describes the graph that it was made from: editing drops it. Its records point to bodies that
//!     the graph keeps.
//! P2. `after` holds the successors of all nodes in one row; a node has the part of it that its record
//!     names. A successor's high bits say what a token along that edge means, so that the successor itself is
//!     not touched before it is ready.
//! P3. Strong edges have no cycle. A cycle goes through a condition, whose edges are weak.
//!
//! Not here: the counters, which every run has its own of (`slot`).

use std::collections::HashMap;
use std::ptr::NonNull;

use super::body::{CallFn, Step};
use super::build::Parts;
use super::error::Cycle;
use super::limit::Limit;
use super::work::Hand;

/// A successor in [`Plan::after`] (P2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Successor(u32);

/// The only strong edge into its node: a token is all that the node waits for.
const SOLE: u32 = 1 << 31;
pub(super) const MAX_NODES: usize = 1 << 30;

impl Successor {
    #[inline(always)]
    pub(super) fn index(self) -> u32 {
        self.0 & !SOLE
    }

    #[inline(always)]
    pub(super) fn is_sole(self) -> bool {
        self.0 & SOLE != 0
    }
}

/// What a node is besides a closure.
pub(super) mod trait_bits {
    /// It has weak edges.
    pub(in crate::graph) const CONDITION: u32 = 1 << 0;
    /// It needs permits of semaphores.
    pub(in crate::graph) const LIMITED: u32 = 1 << 1;
    /// Erased.
    pub(in crate::graph) const GONE: u32 = 1 << 2;
    /// It runs others than its edges lead to.
    pub(in crate::graph) const SCHEDULES: u32 = 1 << 3;
    /// Its priority is high, or low.
    pub(in crate::graph) const HIGH: u32 = 1 << 4;
    pub(in crate::graph) const LOW: u32 = 1 << 5;

    /// Other nodes borrow its output, or one takes it.
    pub(in crate::graph) const BORROWED: u32 = 1 << 6;
    pub(in crate::graph) const OWNED: u32 = 1 << 7;

    /// Some node of the graph has a priority. Only in plans.
    pub(in crate::graph) const RANKED: u32 = 1 << 8;

    /// What a run has to look at before it calls the body, and after.
    pub(in crate::graph) const SLOW: u32 = LIMITED | RANKED;
}

/// What a run reads of a node, in half a cache line.
pub(super) struct Record {
    pub(super) data: NonNull<()>,
    pub(super) call: CallFn,
    /// Its part of [`Plan::after`].
    pub(super) first: u32,
    pub(super) count: u32,
    /// Strong edges into it.
    pub(super) strong: u32,
    pub(super) traits: u32,
}

const _: () = assert!(size_of::<Record>() == 32);

/// # Safety
/// None is needed.
unsafe fn no_call(_: NonNull<()>, _: &Hand<'_>) -> Step {
    Step::Done
}

/// Whether the caches follow a run by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Most edges lead to nodes that are not far in memory.
    Near,
    Far,
}

impl Reach {
    /// Nodes within this distance are near: a megabyte of records, which is what a cache of the second level holds. Guessed.
    const NEAR: u32 = 1 << 15;

    /// Judges by a thousand edges.
    fn of(edges: &[(u32, u32)]) -> Self {
        let stride = edges.len() / 1024 + 1;
        let sample = || edges.iter().step_by(stride);
        let far = sample().filter(|(from, to)| from.abs_diff(*to) > Self::NEAR).count();
        if 4 * far > sample().count() { Self::Far } else { Self::Near }
    }
}

pub(super) struct Plan {
    pub(super) records: Box<[Record]>,
    pub(super) after: Box<[Successor]>,
    /// Nodes without edges into them.
    pub(super) sources: Box<[u32]>,
    /// Weak edges or nodes that schedule others: a run may end with counters out of step, and a node may run twice.
    pub(super) loops: bool,
    /// How far edges lead.
    pub(super) reach: Reach,
    /// Some node has a priority (W6 of `work`).
    pub(super) ranked: bool,
    limits: HashMap<u32, Vec<Limit>>,
}

// SAFETY: the pointers are to bodies, which are `Send` and `Sync`.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    pub(super) fn new(parts: &Parts<'_>) -> Result<Self, Cycle> {
        let nodes = parts.nodes.len();
        let any = |bits| parts.traits & bits != 0;
        let is_ranked = any(trait_bits::HIGH | trait_bits::LOW);
        let ranked = if is_ranked { trait_bits::RANKED } else { 0 };
        let mut records = Vec::with_capacity(nodes);
        for node in &parts.nodes {
            let (data, call) = match &node.body {
                Some(body) => body.parts(),
                None => (NonNull::dangling(), no_call as CallFn),
            };
            let traits = node.traits | ranked;
            records.push(Record { data, call, first: 0, count: 0, strong: 0, traits });
        }
        let mut weak =
            vec![0_u32; if parts.traits & trait_bits::CONDITION != 0 { nodes } else { 0 }];
        for &(from, to) in &parts.edges {
            records[from as usize].count += 1;
            if records[from as usize].traits & trait_bits::CONDITION != 0 {
                weak[to as usize] += 1;
            } else {
                records[to as usize].strong += 1;
            }
        }
        let mut first = 0;
        for record in &mut records {
            record.first = first;
            first += record.count;
        }
        let after = lay_out(&mut records, &parts.edges, first);
        let is_source = |&index: &u32| {
            let (record, index) = (&records[index as usize], index as usize);
            record.strong == 0 && weak.get(index).is_none_or(|&weak| weak == 0)
        };
        let alive = |&index: &u32| records[index as usize].traits & trait_bits::GONE == 0;
        let sources = (0..nodes as u32).filter(alive).filter(is_source).collect();
        let plan = Self {
            records: records.into(),
            after,
            sources,
            loops: any(trait_bits::CONDITION | trait_bits::SCHEDULES),
            ranked: is_ranked,
            reach: Reach::of(&parts.edges),
            limits: parts.limits.clone(),
        };
        if !parts.forward {
            plan.check(parts)?;
        }
        Ok(plan)
    }

    #[inline(always)]
    pub(super) fn successors(&self, record: &Record) -> &[Successor] {
        let (first, count) = (record.first as usize, record.count as usize);
        // SAFETY: P2, `lay_out` gave every node a part of the row.
        unsafe { self.after.get_unchecked(first..first + count) }
    }

    /// What a node needs of semaphores, by their ids (L1 of `limit`).
    pub(super) fn limits_of(&self, index: u32) -> &[Limit] {
        self.limits.get(&index).map_or(&[], Vec::as_slice)
    }

    /// P3.
    fn check(&self, parts: &Parts<'_>) -> Result<(), Cycle> {
        let mut left: Vec<u32> = self.records.iter().map(|record| record.strong).collect();
        let mut ready: Vec<u32> =
            (0..left.len() as u32).filter(|&index| left[index as usize] == 0).collect();
        let mut seen = 0;
        while let Some(index) = ready.pop() {
            seen += 1;
            let record = &self.records[index as usize];
            if record.traits & trait_bits::CONDITION != 0 {
                continue;
            }
            for successor in self.successors(record) {
                let left = &mut left[successor.index() as usize];
                *left -= 1;
                if *left == 0 {
                    ready.push(successor.index());
                }
            }
        }
        if seen == left.len() { Ok(()) } else { Err(self.cycle(&left, parts)) }
    }

    /// A cycle among the nodes that have predecessors `left`: from any of them, back along such predecessors.
    fn cycle(&self, left: &[u32], parts: &Parts<'_>) -> Cycle {
        let stuck = |index: u32| left[index as usize] > 0;
        let mut before = vec![u32::MAX; left.len()];
        for &(from, to) in &parts.edges {
            let strong = self.records[from as usize].traits & trait_bits::CONDITION == 0;
            if strong && stuck(from) && stuck(to) {
                before[to as usize] = from;
            }
        }
        let start = (0..left.len() as u32).find(|&index| stuck(index)).unwrap_or_default();
        let mut seen = vec![false; left.len()];
        let mut at = start;
        while !std::mem::replace(&mut seen[at as usize], true) {
            at = before[at as usize];
        }
        let (end, mut names) = (at, vec![parts.name(at)]);
        loop {
            at = before[at as usize];
            names.push(parts.name(at));
            if at == end {
                break;
            }
        }
        names.reverse();
        Cycle::new(names)
    }
}

/// Sorts edges by their origin, in the order of their making, and marks those that come alone (P2).
fn lay_out(records: &mut [Record], edges: &[(u32, u32)], total: u32) -> Box<[Successor]> {
    let mut after = vec![Successor(0); total as usize];
    for &(from, to) in edges {
        let weak = records[from as usize].traits & trait_bits::CONDITION != 0;
        let sole = !weak && records[to as usize].strong == 1;
        let record = &mut records[from as usize];
        after[record.first as usize] = Successor(to | if sole { SOLE } else { 0 });
        record.first += 1;
    }
    for record in records {
        record.first -= record.count;
    }
    after.into()
}
