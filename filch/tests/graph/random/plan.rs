//! What a random graph is made of, as a function of a few numbers that shrink.

/// All but size and seed in percent.
#[derive(Debug, Clone, Copy)]
pub struct Knobs {
    pub size: usize,
    /// Edges more than it takes to hold a region together.
    pub edges: u64,
    /// Nodes that end their region.
    pub regions: u64,
    pub ranks: u64,
    pub limits: u64,
    pub faults: u64,
    /// Async nodes.
    pub waits: u64,
    /// Subflows and modules.
    pub inner: u64,
    /// Nodes that take the output of another.
    pub data: u64,
    pub cancels: u64,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Error,
    Panic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Closure,
    /// A future that waits so often.
    Async(u32),
    /// A graph of so many nodes, made anew or kept.
    Subflow {
        inner: u32,
        retained: bool,
    },
    /// The graph that all modules share.
    Module,
    /// Picks by visit; beyond them the branch ends.
    Condition(Vec<Vec<usize>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    None,
    Borrow(usize),
    Own(usize),
}

#[derive(Debug, Clone)]
pub struct Node {
    pub kind: Kind,
    pub input: Input,
    /// Semaphore and weight.
    pub limits: Vec<(usize, u32)>,
    /// Which time it fails, and how.
    pub fault: Option<(u32, Fault)>,
    /// -1 low, 1 high.
    pub rank: i32,
    /// It cancels the run.
    pub cancels: bool,
    /// Strong edges into it, data included.
    pub before: Vec<usize>,
    /// Weak edges from it, in their order.
    pub weak: Vec<usize>,
}

impl Node {
    pub fn is_condition(&self) -> bool {
        matches!(self.kind, Kind::Condition(_))
    }

    /// Whether its body tells begin and end of itself: modules are one graph for all.
    pub fn is_tracked(&self) -> bool {
        self.kind != Kind::Module
    }

    /// Whether it returns an item.
    fn has_output(&self) -> bool {
        matches!(self.kind, Kind::Closure | Kind::Async(_))
    }
}

/// Nodes `first..until`, in an order that strong edges allow.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    pub first: usize,
    pub until: usize,
}

#[derive(Debug)]
pub struct Plan {
    pub nodes: Vec<Node>,
    pub regions: Vec<Region>,
    /// Regions in which a run begins.
    pub roots: Vec<usize>,
    /// How many permits each has.
    pub semaphores: Vec<u32>,
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}

impl Plan {
    pub fn new(knobs: Knobs) -> Self {
        let mut rng = Rng(knobs.seed);
        let semaphores = (0..3).map(|_| 1 + rng.next() as u32 % 4).collect();
        let mut plan =
            Self { nodes: Vec::new(), regions: Vec::new(), roots: Vec::new(), semaphores };
        while plan.nodes.len() < knobs.size {
            plan.add_region(knobs, &mut rng);
        }
        plan.join_regions(&mut rng);
        plan.add_data(knobs, &mut rng);
        plan
    }

    fn add_region(&mut self, knobs: Knobs, rng: &mut Rng) {
        let first = self.nodes.len();
        let region = self.regions.len();
        loop {
            let index = self.nodes.len();
            let mut before = Vec::new();
            if index > first {
                let reach = (index - first).min(1 + rng.below(64));
                before.push(index - 1 - rng.below(reach));
                let more = knobs.edges / 100 + u64::from(rng.percent(knobs.edges % 100));
                before.extend((0..more).map(|_| first + rng.below(index - first)));
                before.sort_unstable();
                before.dedup();
            }
            let node = self.node(knobs, rng, before);
            self.nodes.push(node);
            let is_full = self.nodes.len() >= knobs.size;
            if is_full || index > first && rng.percent(knobs.regions) {
                break;
            }
        }
        if knobs.regions > 0 && self.nodes.len() > first + 1 {
            let last = self.nodes.len() - 1;
            let has_next =
                |node: usize| self.nodes[node..].iter().any(|other| other.before.contains(&node));
            let sinks: Vec<usize> =
                (first..last).filter(|&node| !has_next(node)).chain([last]).collect();
            let mut end = self.node(knobs, rng, sinks);
            end.kind = Kind::Condition(Vec::new());
            // It can panic only.
            end.fault = end.fault.map(|(visit, _)| (visit, Fault::Panic));
            self.nodes.push(end);
        }
        self.regions.push(Region { first, until: self.nodes.len() });
        if region == 0 {
            self.roots.push(0);
        }
    }

    fn node(&self, knobs: Knobs, rng: &mut Rng, before: Vec<usize>) -> Node {
        let kind = match () {
            () if rng.percent(knobs.waits) => Kind::Async(rng.next() as u32 % 3),
            () if rng.percent(knobs.inner / 2) => {
                Kind::Subflow { inner: rng.next() as u32 % 6, retained: rng.percent(50) }
            }
            () if rng.percent(knobs.inner / 2) => Kind::Module,
            () => Kind::Closure,
        };
        let mut limits = Vec::new();
        for (semaphore, &most) in self.semaphores.iter().enumerate() {
            if rng.percent(knobs.limits) {
                limits.push((semaphore, 1 + rng.next() as u32 % most));
            }
        }
        let mut fault = None;
        if kind != Kind::Module && rng.percent(knobs.faults / 4) {
            let how = match (rng.percent(50), &kind) {
                (true, Kind::Closure | Kind::Subflow { .. }) => Fault::Error,
                _ => Fault::Panic,
            };
            fault = Some((rng.next() as u32 % 2, how));
        }
        let rank = if rng.percent(knobs.ranks) { 1 - 2 * (rng.next() as i32 & 1) } else { 0 };
        let cancels = rng.percent(knobs.cancels / 4);
        Node { kind, input: Input::None, limits, fault, rank, cancels, before, weak: Vec::new() }
    }

    /// Gives conditions their successors and scripts; a region that no condition leads to is one in which a run begins.
    fn join_regions(&mut self, rng: &mut Rng) {
        let mut next = 1;
        let mut parents: Vec<Option<usize>> = vec![None; self.regions.len()];
        // Whether what leads here may be picked once only: several that a multi-condition chose run side by side.
        let mut forked = vec![false; self.regions.len()];
        for region in 0..self.regions.len() {
            if region > 0 && parents[region].is_none() {
                self.roots.push(region);
                next = next.max(region + 1);
            }
            let Region { first, until } = self.regions[region];
            if !self.nodes[until - 1].is_condition() {
                continue;
            }
            let children: Vec<usize> = (0..rng.below(4))
                .map(|child| next + child)
                .filter(|&c| c < parents.len())
                .collect();
            next += children.len();
            children.iter().for_each(|&child| parents[child] = Some(region));
            let mut weak: Vec<usize> = children.iter().map(|&c| self.regions[c].first).collect();
            let mut script = Vec::new();
            if children.len() > 1 && rng.percent(50) {
                children.iter().for_each(|&child| forked[child] = true);
                script.push((0..children.len()).filter(|_| rng.percent(80)).collect());
            } else {
                // Back to its own beginning, to that of its parent, and somewhere that is not there.
                weak.push(first);
                weak.extend(
                    parents[region].filter(|_| !forked[region]).map(|p| self.regions[p].first),
                );
                let visits = rng.below(4);
                script.extend((0..visits).map(|_| vec![rng.below(weak.len() + 1)]));
            }
            self.nodes[until - 1].weak = weak;
            self.nodes[until - 1].kind = Kind::Condition(script);
        }
    }

    fn add_data(&mut self, knobs: Knobs, rng: &mut Rng) {
        let mut borrowed = vec![false; self.nodes.len()];
        let mut owned = borrowed.clone();
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if node.kind != Kind::Closure || node.before.is_empty() || !rng.percent(2 * knobs.data)
            {
                continue;
            }
            let from = node.before[rng.below(node.before.len())];
            if !self.nodes[from].has_output() || owned[from] {
                continue;
            }
            self.nodes[index].input = match !borrowed[from] && rng.percent(30) {
                true => {
                    owned[from] = true;
                    Input::Own(from)
                }
                false => {
                    borrowed[from] = true;
                    Input::Borrow(from)
                }
            };
        }
    }

    /// Roots whose beginning some condition leads back to need a node before it: a run begins with nodes that no edge leads to.
    pub fn needs_start(&self, root: usize) -> bool {
        let first = self.regions[root].first;
        self.nodes.iter().any(|node| node.weak.contains(&first))
    }
}
