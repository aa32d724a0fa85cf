//! The packed word of a lane: who is awake, who searches, who sleeps, whether the sentry watches.
//!
//! ```text
//!   bit   49      48      47..32     31..16    15..0
//!       SHORT   ARMED   sleeping    awake   searching
//! ```
//!
//! W1. `searching <= awake`, and `awake + sleeping <= MAX_WORKERS`: no field reaches another.
//! W2. The word changes only in [`Word::shift`] and [`Word::shift_if`], by one read-modify-write
//!     of one [`Move`]; every move is checked against the word that it replaced.
//! W3. Every read-modify-write is AcqRel, so each move sees what happened before every earlier
//!     move. `README.md` (the moved batch) says who needs that.
//!
//! Not here: the fences of the protocol, and which worker a move is about (`mod.rs`).

use crate::base::shim::{AtomicU64, Ordering};

/// Workers that a lane can hold, and the bound of worker numbers.
pub(crate) const MAX_WORKERS: u32 = u16::MAX as u32;

const SEARCHING: u64 = 1;
const AWAKE: u64 = 1 << 16;
const SLEEPING: u64 = 1 << 32;
const ARMED: u64 = 1 << 48;
const SHORT: u64 = 1 << 49;

const ANY_SEARCHING: u64 = AWAKE - SEARCHING;
const ANY_SLEEPING: u64 = ARMED - SLEEPING;

/// Whether a worker that is awake looks for work or has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Searching,
    Working,
}

/// Whether the sentry watches the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sentry {
    Armed,
    Unarmed,
}

/// One consistent reading of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Awake workers that look for work.
    pub(crate) searching: u32,
    /// All workers that are awake, the searching ones included.
    pub(crate) awake: u32,
    /// Workers between `prepare` and their removal from the stack.
    pub(crate) sleeping: u32,
    pub(crate) sentry: Sentry,
    /// Somebody of the crew is out, and a push may have to call a spare.
    pub(crate) short: bool,
}

impl Counts {
    const fn unpack(word: u64) -> Self {
        Self {
            searching: word as u16 as u32,
            awake: (word / AWAKE) as u16 as u32,
            sleeping: (word / SLEEPING) as u16 as u32,
            sentry: match word & ARMED {
                0 => Sentry::Unarmed,
                _ => Sentry::Armed,
            },
            short: word & SHORT != 0,
        }
    }
}

/// Everything that can happen to the counters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    /// A new worker, awake and working.
    Join,
    /// A working worker is gone.
    Leave,
    /// Working to searching.
    Search,
    /// Searching to working.
    StopSearch,
    /// An awake worker of this role to sleeping.
    Sleep(Role),
    /// So many sleeping workers to awake workers of this role.
    Wake(u32, Role),
    Arm,
    Disarm,
    /// The crew is not complete any more.
    Short,
    /// The crew is complete again.
    Complete,
}

impl Move {
    const fn delta(self) -> u64 {
        const WAKE: u64 = AWAKE.wrapping_sub(SLEEPING);
        match self {
            Self::Join => AWAKE,
            Self::Leave => AWAKE.wrapping_neg(),
            Self::Search => SEARCHING,
            Self::StopSearch => SEARCHING.wrapping_neg(),
            Self::Sleep(Role::Working) => WAKE.wrapping_neg(),
            Self::Sleep(Role::Searching) => WAKE.wrapping_add(SEARCHING).wrapping_neg(),
            Self::Wake(n, Role::Working) => WAKE.wrapping_mul(n as u64),
            Self::Wake(n, Role::Searching) => WAKE.wrapping_add(SEARCHING).wrapping_mul(n as u64),
            Self::Arm => ARMED,
            Self::Disarm => ARMED.wrapping_neg(),
            Self::Short => SHORT,
            Self::Complete => SHORT.wrapping_neg(),
        }
    }

    /// Whether the counters allow this move (W1).
    fn fits(self, before: Counts) -> bool {
        let working = before.awake.wrapping_sub(before.searching);
        match self {
            Self::Join => before.awake + before.sleeping < MAX_WORKERS,
            Self::Leave | Self::Search | Self::Sleep(Role::Working) => working > 0,
            Self::StopSearch | Self::Sleep(Role::Searching) => before.searching > 0,
            Self::Wake(n, _) => n <= before.sleeping,
            Self::Arm => before.sentry == Sentry::Unarmed,
            Self::Disarm => before.sentry == Sentry::Armed && before.awake == 0,
            Self::Short => !before.short,
            Self::Complete => before.short,
        }
    }
}

/// A move that has been made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shift {
    before: Counts,
    pub(super) after: Counts,
}

impl Shift {
    fn checked(step: Move, before: u64) -> Self {
        let shift = Self {
            before: Counts::unpack(before),
            after: Counts::unpack(before.wrapping_add(step.delta())),
        };
        debug_assert!(step.fits(shift.before), "W1: {step:?} from {shift:?}");
        debug_assert!(
            shift.after.searching <= shift.after.awake
                && shift.after.awake + shift.after.sleeping <= MAX_WORKERS,
            "W1: {step:?} makes {shift:?}"
        );
        shift
    }
}

/// See the file header.
#[derive(Debug)]
pub(super) struct Word(AtomicU64);

impl Word {
    pub(super) fn new(sentry: Sentry) -> Self {
        Self(AtomicU64::new(match sentry {
            Sentry::Unarmed => 0,
            Sentry::Armed => ARMED,
        }))
    }

    /// Whether a push asks nothing of anybody: nobody sleeps and the lane is watched and complete, or
    /// somebody searches. Ordered as [`Word::load`].
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        // ORDERING: Relaxed, as in `load`.
        let word = self.0.load(Ordering::Relaxed);
        word & (ANY_SLEEPING | ARMED | SHORT) == ARMED || somebody_searches(word)
    }

    /// The counters now; ordered only by the caller's fence or lock.
    #[inline]
    pub(super) fn load(&self) -> Counts {
        // ORDERING: Relaxed, nothing is read through the counters: where the protocol depends on
        // this load, `fence(SeqCst)` or the stack's lock stands before it.
        Counts::unpack(self.0.load(Ordering::Relaxed))
    }

    /// Makes a move that the caller's own standing allows.
    pub(super) fn shift(&self, step: Move) -> Shift {
        // ORDERING: AcqRel pairs with itself (W3); model: a_batch_moved_by_a_finder.
        let before = self.0.fetch_add(step.delta(), Ordering::AcqRel);
        Shift::checked(step, before)
    }

    /// Makes the move if `allowed`, or says which counters forbade it.
    pub(super) fn shift_if(
        &self,
        step: Move,
        allowed: impl Fn(Counts) -> bool,
    ) -> Result<Shift, Counts> {
        // ORDERING: Relaxed, a first guess that the compare-and-swap confirms or corrects.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let before = Counts::unpack(word);
            if !allowed(before) {
                return Err(before);
            }
            let after = word.wrapping_add(step.delta());
            // ORDERING: AcqRel as in `shift`; a failure only corrects the guess.
            match self.0.compare_exchange(word, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(Shift::checked(step, word)),
                Err(now) => word = now,
            }
        }
    }
}

/// Out of the way of the common case, in which nobody sleeps.
#[cold]
fn somebody_searches(word: u64) -> bool {
    word & ANY_SEARCHING != 0
}
