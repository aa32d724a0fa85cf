//! Crews that follow the load: one more worker while work waits and everybody is busy, one less when it
//! has had nothing to do for a while.
//!
//! L1. A lane grows by one at a time: the next comes when the last is there, and still nobody is free.
//!     A runtime that is not run yet does not grow: its work waits for the run, and not for a worker.
//!     If the core that the program makes for it panics, that ends here: the thread belongs to others, and has a task in hand or has
//!     pushed one. Whoever next finds nobody free tries again; after some failures in a row (of the core, or of the
//!     thread) not before a time has passed, which doubles with each.
//! L2. Who came for the load leaves as who is detached does (`leave`), so nothing is lost. Others stay.
//!
//! Not here: places (`roster`), spares, which replace who blocks (`crew`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::leave::{Answer, Request};
use super::roster::{AttachError, Farewell, NewWorker, Term};
use super::shared::{Lane, Phase, Shared};
use super::worker::Worker;
use crate::base::shim::{AtomicBool, AtomicU32, Ordering};
use crate::config::hooks::Role;
use crate::task::group::guard_outside;

impl Shared {
    /// Attaches a worker to the lane if the program wants that, work waits and nobody is free.
    #[inline]
    pub(super) fn grow_with_load(&self, lane: &Lane) {
        if self.config.elastic {
            self.grow(lane);
        }
    }

    #[cold]
    fn grow(&self, lane: &Lane) {
        let counts = lane.idle.counts();
        let somebody_is_free = counts.sleeping > 0 || counts.searching > 0;
        let may_grow = self.phase() == Phase::Open && lane.crew.has_begun();
        if somebody_is_free || !may_grow || !lane.has_ready(&self.slots) {
            return;
        }
        if !lane.growth.begin(self.now_ms()) {
            return;
        }
        let new = match lane.role {
            Role::Io | Role::Both => NewWorker::io(),
            Role::Compute => NewWorker::compute(),
        };
        // SAFETY: the caller's `&self` keeps it alive.
        let shared = unsafe { Self::to_arc(self.root.home().shared.cast()) };
        let attached = guard_outside(|| shared.attach(NewWorker { term: Term::Load, ..new }));
        match attached {
            Some(Ok(_)) => {}
            // The place that is missing now may be free at once.
            Some(Err(AttachError::NoPlace { .. } | AttachError::ShutDown)) => lane.growth.end(),
            Some(Err(AttachError::Thread(error))) => {
                self.refuse(error.to_string());
                lane.growth.fail(self.now_ms());
            }
            None => lane.growth.fail(self.now_ms()),
        }
    }
}

/// Failures in a row after which the next try waits. Guessed: what fails once or twice is tried at once, because
/// nobody may ask again.
const FREE_FAILURES: u32 = 3;

/// What the first wait takes, and the longest, in milliseconds. Guessed.
const WAITS: [u32; 2] = [8, 8 << 10];

/// How far the growth of a lane is (L1). Whoever has set `busy` has the rest.
#[derive(Default)]
pub(crate) struct Growth {
    busy: AtomicBool,
    /// Tries in a row that have failed.
    failures: AtomicU32,
    /// When the next try may begin, by the coarse clock.
    not_before: AtomicU32,
}

impl Growth {
    /// Whether the caller goes on, who then says how it ended.
    fn begin(&self, now_ms: u32) -> bool {
        // ORDERING: Acquire pairs with the Release in `end`: the fields of the last try are seen.
        if self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        // ORDERING: Relaxed, ours while `busy` is.
        let failures = self.failures.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        let left = self.not_before.load(Ordering::Relaxed).wrapping_sub(now_ms).cast_signed();
        let waits = failures >= FREE_FAILURES && left > 0;
        if waits {
            self.end();
        }
        !waits
    }

    /// Who was to come will not come.
    fn fail(&self, now_ms: u32) {
        // ORDERING: Relaxed, ours while `busy` is.
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        // ORDERING: Relaxed, as above.
        self.failures.store(failures, Ordering::Relaxed);
        if let Some(doublings) = failures.checked_sub(FREE_FAILURES) {
            let [first, longest] = WAITS;
            let wait =
                first.checked_shl(doublings.min(16)).map_or(longest, |wait| wait.min(longest));
            // ORDERING: Relaxed, as above.
            self.not_before.store(now_ms.wrapping_add(wait), Ordering::Relaxed);
        }
        self.end();
    }

    /// Who was to come is there.
    pub(super) fn succeed(&self) {
        // ORDERING: Relaxed, ours while `busy` is; a worker that came for something else forgives, too.
        self.failures.store(0, Ordering::Relaxed);
        self.end();
    }

    fn end(&self) {
        // ORDERING: Release pairs with the Acquire in `begin`.
        self.busy.store(false, Ordering::Release);
    }
}

/// How long a worker has had nothing to do.
pub(super) struct Idleness {
    keep_alive: Option<Duration>,
    tick: u64,
    since: Instant,
}

impl Idleness {
    pub(super) fn of(worker: &Worker) -> Self {
        let keep_alive = worker.keep_alive();
        Self { keep_alive, tick: worker.tick.get(), since: worker.time() }
    }

    /// Whether a worker that came for the load has nothing to do any more; between two steps.
    pub(super) fn is_over(&mut self, worker: &Worker) -> bool {
        let Some(keep_alive) = self.keep_alive else { return false };
        let (tick, now) = (worker.tick.get(), worker.time());
        if tick != self.tick {
            (self.tick, self.since) = (tick, now);
        }
        let over = now.saturating_duration_since(self.since) >= keep_alive;
        if over {
            // One that has to stay tries again after as long.
            self.since = now;
        }
        over
    }
}

impl Worker {
    /// How long this worker stays without work, if it goes by itself: a spare, or who came for the load.
    pub(super) fn keep_alive(&self) -> Option<Duration> {
        (self.is_spare() || self.term == Term::Load)
            .then_some(self.shared().config.spare_keep_alive)
    }

    /// This worker has a task in hand that it did not make: if more wait and nobody is free, another comes.
    pub(super) fn make_others_come(&self) {
        if self.shared().config.elastic {
            if self.searching.get() {
                self.stop_searching();
            }
            self.shared().grow_with_load(self.lane());
        }
    }

    /// L2; unless it may not leave.
    pub(super) fn leave_for_lack_of_work(&self) {
        let id = self.shared().id_of_slot(self.index());
        if self.asked.borrow().is_none() && self.shared().dismiss(id) == Ok(Farewell::Works) {
            self.ask_to_leave(Request::new(Arc::new(Answer::default())));
        }
    }
}
