//! The model: the same plan, one node at a time.

use filch::graph::RunError;

use super::plan::{Kind, Plan};
use super::world::Faults;

/// How often each node did what, in one run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    pub ran: Vec<u32>,
    pub failed: Vec<usize>,
    pub skipped: Vec<usize>,
}

impl Counts {
    /// Of a graph in which the first nodes are those of the plan.
    pub fn of(error: &RunError) -> Self {
        let mut failed: Vec<_> = error.failures().iter().map(|f| f.node().index()).collect();
        let mut skipped: Vec<_> = error.skipped().iter().map(|node| node.index()).collect();
        failed.sort_unstable();
        skipped.sort_unstable();
        Self { ran: Vec::new(), failed, skipped }
    }

    pub fn times(&self, runs: u32) -> Self {
        Self { ran: self.ran.iter().map(|ran| ran * runs).collect(), ..Self::default() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Good,
    Bad,
}

/// What a run of the plan comes to.
pub fn run(plan: &Plan, faults: Faults) -> Counts {
    let mut counts = Counts { ran: vec![0; plan.nodes.len()], ..Counts::default() };
    let mut ends = vec![End::Good; plan.nodes.len()];
    let mut ready: Vec<usize> = plan.roots.clone();
    let region_of = |first: usize| plan.regions.iter().position(|r| r.first == first).unwrap();
    while let Some(region) = ready.pop() {
        let region = plan.regions[region];
        for index in region.first..region.until {
            let node = &plan.nodes[index];
            if node.before.iter().any(|&before| ends[before] == End::Bad) {
                ends[index] = End::Bad;
                counts.skipped.push(index);
                continue;
            }
            let visit = counts.ran[index];
            counts.ran[index] += 1;
            ends[index] = match node.fault {
                Some((when, _)) if faults.fail() && when == visit => End::Bad,
                _ => End::Good,
            };
            if ends[index] == End::Bad {
                counts.failed.push(index);
            } else if let Kind::Condition(script) = &node.kind {
                let picks = script.get(visit as usize).into_iter().flatten();
                ready
                    .extend(picks.filter_map(|&pick| node.weak.get(pick)).map(|&to| region_of(to)));
            }
        }
    }
    counts.failed.sort_unstable();
    counts.skipped.sort_unstable();
    counts
}
