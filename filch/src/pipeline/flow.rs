//! The flow: which token may pass which segment of a pipeline, and who takes it there.
//!
//! A *segment* is a serial stage, or parallel stages in a row. A token's *position* is its place in the
//! order in which tokens leave the first segment, so that every serial stage sees positions in order.
//! A *runner* is a thread that claims positions for a segment, runs its stages on them, and lets them
//! pass.
//!
//! W1. A position is claimed for a segment once, after it has passed the one before; for the first
//!     segment, after the position `lines` before it has passed the last. So at most `lines` are in
//!     flight, and what lies at `position & mask` belongs to one position at a time.
//! W2. A serial segment is claimed by one runner at a time, and its positions pass in order.
//! W3. What a runner wrote before it let a position pass is seen by whoever claims that position for
//!     the next segment, and what it wrote before it released a serial segment by the next to claim it.
//! W4. Who publishes looks afterwards whether a runner is missing, and a runner that leaves counts itself
//!     out and then looks whether anything is ready. The halves of an asymmetric fence stand between:
//!     either the leaver sees what was published, or the publisher sees that it left. Of two that
//!     leave, the later sees all that the earlier published. So nothing ready is left behind.
//!
//! A serial segment is one word: how many positions have passed, and whether it is claimed. Nothing in
//! it is changed by a read-modify-write but the claim, which is made once for a batch of positions.
//! Parallel segments note each position that passed, for they pass in any order.
//!
//! Not here: how large a batch is, who runs (`engine`), what the stages do (`stage`).

use crate::base::barrier;
use crate::base::shim::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
mod model;

/// In the word of a serial segment: somebody has claimed it. Positions lie above it.
const CLAIMED: u64 = 1;

/// Whether the tokens of a stage pass one at a time and in order, or side by side.
///
/// ```
/// use filch::pipeline::{Order, Stage};
/// let stage = Stage::parallel(|number: &mut u32| *number += 1);
/// assert_eq!(stage.order(), Order::Parallel);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One token at a time, each after the one before it.
    Serial,
    /// Any number of tokens at a time, in any order.
    Parallel,
}

/// How far the stream has come; only moves forward during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Tokens begin.
    Flowing,
    /// The source has ended; tokens in flight go on.
    Stopped,
    /// Nothing begins any more.
    Halted,
}

/// On a line of its own: the word is written for each token, by whoever has claimed the segment.
#[repr(align(128))]
struct Segment {
    order: Order,
    /// Serial: the positions that have passed, shifted, with [`CLAIMED`]. Parallel: the next position to claim, shifted.
    word: AtomicU64,
    /// Parallel: at `position & mask`, the last position that passed, plus one.
    passed: Box<[AtomicU64]>,
}

/// Positions `from..until` for a segment (W1).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is not run stops the pipeline"]
pub(super) struct Claim {
    pub(super) segment: usize,
    pub(super) from: u64,
    pub(super) until: u64,
}

pub(super) struct Flow {
    segments: Box<[Segment]>,
    lines: u64,
    /// Slots of each ring, a power of two, less one.
    mask: u64,
    phase: AtomicU32,
}

impl Flow {
    /// # Panics
    /// If there are no segments or no lines, or the first segment is parallel.
    pub(super) fn new(orders: &[Order], lines: usize) -> Self {
        assert!(lines > 0, "a pipeline needs a line");
        assert_eq!(orders.first(), Some(&Order::Serial), "the first stage of a pipeline is serial");
        let slots = slots(lines);
        let segment = |&order: &Order| {
            let notes = if order == Order::Parallel { slots } else { 0 };
            let passed = (0..notes).map(|_| AtomicU64::new(0)).collect();
            Segment { order, word: AtomicU64::new(0), passed }
        };
        Self {
            segments: orders.iter().map(segment).collect(),
            lines: lines as u64,
            mask: slots as u64 - 1,
            phase: AtomicU32::new(Phase::Flowing as u32),
        }
    }

    /// Begins anew; nobody else uses the flow.
    pub(super) fn reset(&mut self) {
        for segment in &self.segments {
            // ORDERING: Relaxed, runners start after it, by way of a spawn.
            segment.word.store(0, Ordering::Relaxed);
            for note in &segment.passed {
                // ORDERING: as above.
                note.store(0, Ordering::Relaxed);
            }
        }
        // ORDERING: as above.
        self.phase.store(Phase::Flowing as u32, Ordering::Relaxed);
    }

    pub(super) fn phase(&self) -> Phase {
        // ORDERING: Relaxed, a hint to runners: what a stop or a halt leaves behind is read when all
        // of them have ended.
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Flowing,
            1 => Phase::Stopped,
            _ => Phase::Halted,
        }
    }

    /// Moves the phase on.
    pub(super) fn advance(&self, to: Phase) {
        // ORDERING: Relaxed, as in `phase`.
        self.phase.fetch_max(to as u32, Ordering::Relaxed);
    }

    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Claims up to `most` positions for a segment, if at least `least` are ready.
    #[inline]
    pub(super) fn claim(&self, segment: usize, least: u64, most: u64) -> Option<Claim> {
        let (word, until) = self.look(segment, least, most)?;
        let here = &self.segments[segment];
        let taken = match here.order {
            Order::Serial => word | CLAIMED,
            Order::Parallel => until << 1,
        };
        // ORDERING: Acquire pairs with the Release in `release`: the stage is as its last runner left it
        // (W3). Positions were acquired by `look`.
        let result = here.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed);
        result.ok().map(|_| Claim { segment, from: word >> 1, until })
    }

    /// Whether `least` positions could be claimed for a segment now.
    #[inline]
    pub(super) fn is_ready(&self, segment: usize, least: u64) -> bool {
        self.look(segment, least, least).is_some()
    }

    /// The word of a segment that nobody has claimed, and the first position after those that are
    /// ready for it.
    #[inline]
    fn look(&self, segment: usize, least: u64, most: u64) -> Option<(u64, u64)> {
        let phase = self.phase();
        if phase == Phase::Halted || segment == 0 && phase != Phase::Flowing {
            return None;
        }
        // ORDERING: Relaxed, the claim decides.
        let word = self.segments[segment].word.load(Ordering::Relaxed);
        let (from, order) = (word >> 1, self.segments[segment].order);
        if order == Order::Serial && word & CLAIMED != 0 {
            return None;
        }
        let until = self.ready_until(segment, from, from + most);
        (until >= from + least).then_some((word, until))
    }

    /// The first position from `from` on that is not ready for a segment; `limit` at most (W1).
    #[inline]
    fn ready_until(&self, segment: usize, from: u64, limit: u64) -> u64 {
        let (before, ahead) = match segment {
            0 => (&self.segments[self.segments.len() - 1], self.lines),
            _ => (&self.segments[segment - 1], 0),
        };
        match before.order {
            // ORDERING: Acquire pairs with the Release in `pass` and `release` (W3).
            Order::Serial => limit.min((before.word.load(Ordering::Acquire) >> 1) + ahead),
            Order::Parallel => {
                let passed = |&position: &u64| {
                    position < ahead || before.has_passed(position - ahead, self.mask)
                };
                from + (from..limit).take_while(passed).count() as u64
            }
        }
    }

    /// Lets a position pass that was claimed for this segment.
    #[inline]
    pub(super) fn pass(&self, segment: usize, position: u64) {
        let here = &self.segments[segment];
        match here.order {
            Order::Serial => {
                // ORDERING: Release pairs with the Acquire in `ready_until`; W2, no other writer.
                here.word.store((position + 1) << 1 | CLAIMED, Ordering::Release);
            }
            Order::Parallel => {
                let note = &here.passed[(position & self.mask) as usize];
                // ORDERING: Release pairs with the Acquire in `has_passed`.
                note.store(position + 1, Ordering::Release);
            }
        }
    }

    /// Gives up a claim, of which the positions below `end` have passed.
    #[inline]
    pub(super) fn release(&self, segment: usize, end: u64) {
        let here = &self.segments[segment];
        if here.order == Order::Serial {
            // ORDERING: Release pairs with the Acquire in `claim` and in `ready_until`; W2, no other
            // writer.
            here.word.store(end << 1, Ordering::Release);
        }
    }

    /// Whether nothing will begin any more, and no runner need wait for it.
    pub(super) fn is_over(&self) -> bool {
        match self.phase() {
            Phase::Flowing => false,
            Phase::Stopped => self.is_drained(),
            Phase::Halted => true,
        }
    }

    /// Whether every position that has passed the first segment has passed the last.
    pub(super) fn is_drained(&self) -> bool {
        // ORDERING: Acquire, as in `ready_until`: who sees the end sees what led to it.
        let first = self.segments[0].word.load(Ordering::Acquire);
        let last = &self.segments[self.segments.len() - 1];
        // ORDERING: as above.
        if first & CLAIMED != 0 || last.word.load(Ordering::Acquire) != first {
            return false;
        }
        let admitted = first >> 1;
        let mut flying = admitted.saturating_sub(self.lines)..admitted;
        last.order == Order::Serial || flying.all(|position| last.has_passed(position, self.mask))
    }

    /// How many positions have passed the first segment.
    pub(super) fn admitted(&self) -> u64 {
        // ORDERING: Relaxed, read when all runners have ended.
        self.segments[0].word.load(Ordering::Relaxed) >> 1
    }
}

impl Segment {
    #[inline]
    fn has_passed(&self, position: u64, mask: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `pass` (W3).
        self.passed[(position & mask) as usize].load(Ordering::Acquire) == position + 1
    }
}

/// Slots of a ring for so many lines: a power of two, so that no position is divided.
pub(super) fn slots(lines: usize) -> usize {
    lines.checked_next_power_of_two().expect("more lines than memory could hold")
}

/// How many runners there are, begun or spawned (W4).
pub(super) struct Runners {
    count: AtomicUsize,
    most: AtomicUsize,
}

impl Runners {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), most: AtomicUsize::new(1) }
    }

    /// Nobody else uses them.
    pub(super) fn reset(&mut self, most: usize) {
        // ORDERING: Relaxed, runners start after it, by way of a spawn.
        debug_assert_eq!(self.count.load(Ordering::Relaxed), 0, "all have left");
        // ORDERING: as above.
        self.most.store(most, Ordering::Relaxed);
    }

    /// Whether one more could help with what the caller has just published (W4).
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        // LIGHT: pairs with heavy() in Runners::leave (W4)
        barrier::light();
        // ORDERING: Relaxed on both with the light half above, which pairs with the heavy one in
        // `leave`; `join` decides.
        self.count.load(Ordering::Relaxed) < self.most.load(Ordering::Relaxed)
    }

    /// Whether nobody but the caller runs.
    pub(super) fn is_alone(&self) -> bool {
        // ORDERING: Relaxed, decides only how long the caller looks around.
        self.count.load(Ordering::Relaxed) == 1
    }

    /// Counts one more, if there is room.
    pub(super) fn join(&self) -> bool {
        // ORDERING: Relaxed, set before the run.
        let most = self.most.load(Ordering::Relaxed);
        let more = |count| (count < most).then_some(count + 1);
        // ORDERING: Relaxed, publishes nothing; the order that matters is that of `leave`.
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts one less. Who leaves looks once more afterwards: whoever published work and still
    /// counted it did so before, and the look sees that (W4).
    pub(super) fn leave(&self) {
        // ORDERING: Relaxed with the heavy half below, which pairs with the light one in `has_room`.
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "who leaves has joined");
        barrier::heavy();
    }
}
