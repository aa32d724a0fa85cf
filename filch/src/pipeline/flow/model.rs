//! Interleavings of two runners over a few tokens.

use super::{Claim, Flow, Order, Phase, Runners};
use crate::base::shim::{AtomicUsize, Ordering, UnsafeCell};
use crate::pipeline::ring::Ring;
use loom::sync::Arc;
use loom::thread;

/// A pipeline without an engine: each stage writes down what it got.
struct Rig {
    flow: Flow,
    runners: Runners,
    tokens: u64,
    /// Behind each segment.
    rings: Vec<Ring<u64>>,
    /// How many tokens a serial segment has had; its runner's alone (W2).
    states: Vec<UnsafeCell<u64>>,
    ended: AtomicUsize,
}

impl Rig {
    fn new(orders: &[Order], lines: usize, tokens: u64, most: usize) -> Arc<Self> {
        let mut runners = Runners::new();
        runners.reset(most);
        Arc::new(Self {
            flow: Flow::new(orders, lines),
            runners,
            tokens,
            rings: orders.iter().map(|_| Ring::new(lines)).collect(),
            states: orders.iter().map(|_| UnsafeCell::new(0)).collect(),
            ended: AtomicUsize::new(0),
        })
    }

    fn claim(&self, most: u64) -> Option<Claim> {
        (0..self.flow.len()).rev().find_map(|segment| self.flow.claim(segment, 1, most))
    }

    /// Runs until nothing is ready, as the engine's runners do.
    fn work(&self, most: u64) {
        loop {
            while let Some(claim) = self.claim(most) {
                self.run(claim);
            }
            self.runners.leave();
            let ready = (0..self.flow.len()).any(|segment| self.flow.is_ready(segment, 1));
            if !ready || !self.runners.join() {
                return;
            }
        }
    }

    fn run(&self, Claim { segment, from, until }: Claim) {
        for position in from..until {
            if segment == 0 && position == self.tokens {
                self.flow.advance(Phase::Stopped);
                return self.flow.release(0, position);
            }
            self.step(segment, position);
            self.flow.pass(segment, position);
        }
        self.flow.release(segment, until);
    }

    fn step(&self, segment: usize, position: u64) {
        if self.flow.segments[segment].order == Order::Serial {
            self.states[segment].with_mut(|state| {
                // SAFETY: W2.
                let state = unsafe { &mut *state };
                assert_eq!(*state, position, "in order, each once");
                *state += 1;
            });
        }
        let value = match segment {
            0 => position,
            // SAFETY: W1, claimed.
            _ => unsafe { self.rings[segment - 1].take(position) },
        };
        assert_eq!(value, position);
        if segment + 1 < self.flow.len() {
            // SAFETY: W1, claimed.
            unsafe { self.rings[segment].put(position, value) };
        } else {
            // ORDERING: Relaxed, the join of the threads orders it.
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs so many batches at most.
    fn help(&self, batches: usize, most: u64) {
        (0..batches).map_while(|_| self.claim(most)).for_each(|claim| self.run(claim));
    }

    fn check(&self) {
        assert!(self.flow.is_over(), "nothing ready is left behind");
        assert_eq!(self.flow.admitted(), self.tokens);
        // ORDERING: as in `step`.
        assert_eq!(self.ended.load(Ordering::Relaxed) as u64, self.tokens);
    }
}

/// Batches of each of two runners side by side. Four take minutes.
const BATCHES: usize = 3;

/// Two runners run some batches side by side, and one of them the rest.
fn two_runners(orders: &'static [Order], lines: usize, tokens: u64, most: u64) {
    bounded(3).check(move || {
        let rig = Rig::new(orders, lines, tokens, 1);
        let other = rig.clone();
        let thread = thread::spawn(move || other.help(BATCHES, most));
        rig.help(BATCHES, most);
        thread.join().unwrap();
        assert!(rig.runners.join());
        rig.work(most);
        rig.check();
    });
}

/// So many preemptions at most, for the sake of time.
fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model
}

use Order::{Parallel, Serial};

#[test]
fn loom_pipeline_serial_stages_keep_order_and_end() {
    two_runners(&[Serial, Serial], 2, 2, 1);
}

#[test]
fn loom_pipeline_batches_of_serial_stages() {
    two_runners(&[Serial, Serial], 2, 2, 2);
}

#[test]
fn loom_pipeline_parallel_between_serial() {
    two_runners(&[Serial, Parallel, Serial], 2, 2, 1);
}

#[test]
fn loom_pipeline_parallel_last_frees_lines_in_order() {
    two_runners(&[Serial, Parallel], 1, 2, 1);
}

/// A task of a background stage publishes while the last runner leaves: one of them sees the other.
#[test]
fn loom_pipeline_publisher_or_leaver_notices() {
    loom::model(|| {
        let rig = Rig::new(&[Serial, Serial], 1, 1, 1);
        let claim = rig.flow.claim(0, 1, 1).unwrap();
        assert!(rig.runners.join());
        let other = rig.clone();
        let leaver = thread::spawn(move || {
            other.runners.leave();
            other.flow.is_ready(1, 1)
        });
        rig.step(0, claim.from);
        rig.flow.pass(0, claim.from);
        let calls = rig.runners.has_room();
        assert!(leaver.join().unwrap() || calls, "somebody takes the token on");
    });
}

/// Two runners leave when they find nothing, and nothing ready is left behind.
#[test]
fn loom_pipeline_two_that_leave_leave_nothing_behind() {
    bounded(1).check(|| {
        let rig = Rig::new(&[Serial, Serial], 1, 1, 2);
        assert!(rig.runners.join() && rig.runners.join());
        let other = rig.clone();
        let thread = thread::spawn(move || other.work(1));
        rig.work(1);
        thread.join().unwrap();
        rig.check();
    });
}
