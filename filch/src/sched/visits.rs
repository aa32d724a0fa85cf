//! When a worker visits its event core, and who gets the tasks that a visit makes ready.

use std::time::Duration;

use super::core::EventCore;
use super::worker::Worker;
use crate::task::group::guard_user_code;

/// How long completions wait for a visit at most while tasks run, as the design has it; one task may
/// take longer.
const IO_AGE: Duration = Duration::from_micros(100);

/// Up to this time for each, tasks are brief: the clock would cost a percent of them. Guessed.
pub(super) const BRIEF: u64 = 8_000;

/// How many brief tasks run between two looks at the clock. Guessed.
const BRIEF_TASKS: u64 = 4;

/// So many tasks in the ring are shared at once, however brief they may be. Guessed: some 300 µs of
/// work, which is more than a wake costs.
pub(super) const HELD_BACK: usize = 64;

impl Worker {
    pub(super) fn events(&self) {
        if self.may_skip_visit() {
            return;
        }
        self.visited.set((self.since.get(), self.tick.get()));
        self.deliver(|core| {
            core.poll();
        });
    }

    /// Has the event core tell what has happened. Tasks that this makes ready stay here for a moment
    /// (D1 of `schedule`): most are brief, and a neighbour that were woken for a few of them would keep their
    /// operations, and be woken for each of them from then on.
    pub(super) fn deliver(&self, tell: impl FnOnce(&mut dyn EventCore)) {
        self.apply_changes();
        self.make_room();
        self.delivering.set(true);
        // E4 of `core`.
        guard_user_code(|| tell(&mut **self.core.borrow_mut()));
        self.delivering.set(false);
        self.note_visit();
        if self.held_back.get() && self.slot().ring.len() >= HELD_BACK {
            self.share_held_back();
        }
    }

    /// Tells others of tasks that were held back, if any are left.
    pub(super) fn share_held_back(&self) {
        if self.held_back.replace(false) && !self.slot().ring.is_empty() {
            self.shared().notify(self.lane());
        }
    }

    /// Whether the visit to a driver that costs a system call each time can wait: there were one or a
    /// park a moment ago, and a worker that has nothing else to do parks there (K4 of `worker`).
    fn may_skip_visit(&self) -> bool {
        let ((at, tick), now) = (self.visited.get(), self.since.get());
        self.runs_futures()
            && !self.guest_core
            && self.visits_cost()
            && now.saturating_duration_since(at) < IO_AGE
            && self.tick.get() - tick < self.shared().config.io_interval as u64
    }

    /// Whether completions have waited for so long that they come before the next task (K4 of `worker`). Tasks that
    /// were held back for so long are for others, too. The clock is read after each task, or, if those before
    /// were brief, after some.
    pub(super) fn is_due(&self, driving: bool) -> bool {
        let age = || self.shared().clock.now().saturating_duration_since(self.since.get());
        let look = (driving || self.held_back.get())
            && (!self.brief.get() || self.tick.get().is_multiple_of(BRIEF_TASKS));
        let due = look && age() >= IO_AGE;
        if due {
            self.share_held_back();
        }
        due || self.frame_is_over()
    }
}
