//! Going to sleep without missing work: publish, look at every source once more, then park.
//!
//! P1. Between `prepare` and the park, every source that others may have pushed to is looked at:
//!     the mailbox, the lane's three queues and its spill, every neighbour's ring and deque, the
//!     phase; and the own newest-task slot. The idle set's proof does the rest. The nearest deadline
//!     is read there too (M1), and becomes the timeout.
//! P2. Nothing of a group stays in the ledger while the worker sleeps (C4; `find` settled it).

use super::shared::Phase;
use super::steal::TIRED_GAP;
use super::worker::Worker;
use crate::base::shim::yield_now;
use crate::base::sim;
use crate::idle::{Cause, Comes, Owes, Resumed, Role, Ticket};

impl Worker {
    /// Sleeps until there may be work.
    pub(crate) fn sleep(&self) {
        if let Some(ticket) = self.lie_down(Comes::AtOnce) {
            // A spare looks up now and then whether it is still needed.
            let keep_alive = self.keep_alive();
            match self.nap_for_timers() {
                Some(nap) if nap.is_zero() => {}
                Some(nap) => self.park(Some(keep_alive.map_or(nap, |most| most.min(nap)))),
                None => {
                    let told = keep_alive.or_else(|| self.time_left_by_hand());
                    sim::in_background(|| self.park(told));
                }
            }
            self.get_up(ticket);
        }
    }

    /// Publishes that this worker sleeps. If the second look finds work, it does not, and runs it.
    pub(super) fn lie_down(&self, comes: Comes) -> Option<Ticket> {
        let idle = &self.lane().idle;
        let role = if self.searching.replace(false) { Role::Searching } else { Role::Working };
        let ticket = idle.prepare(self.id(), role, comes);
        if self.sees_work() {
            self.resumed(idle.cancel(ticket));
            self.take_what_was_seen();
            // K4: what comes before every sleep must not stop the clock.
            self.note_time();
            return None;
        }
        self.falls_asleep();
        Some(ticket)
    }

    /// Runs what the second look saw, unless the next step finds it among the worker's own.
    fn take_what_was_seen(&self) {
        if self.has_private() || self.has_newest() {
            return;
        }
        match self.next_high().or_else(|| self.sweep()) {
            Some(task) => self.run_found(task),
            None => match self.ripeness.next_due() {
                // R2: it ripens while this worker pauses, and only then. Not sooner than the look is
                // worth the barrier that it costs.
                Some(due) => (0..due.max(TIRED_GAP)).for_each(|_| self.pause()),
                // A pusher is between two instructions, or another taker is at work: let it.
                None => yield_now(),
            },
        }
    }

    /// After the park.
    pub(super) fn get_up(&self, ticket: Ticket) {
        let resumed = self.lane().idle.resume(ticket);
        self.wakes_up(resumed.cause);
        self.resumed(resumed);
    }

    /// The second look (P1).
    pub(super) fn sees_work(&self) -> bool {
        let shared = self.shared();
        self.has_private()
            || self.has_newest()
            || self.lane().has_ready(&shared.slots)
            || shared.phase() == Phase::Stopped
            // Not only where the loop looks: its core may have taken the wake as an event of its own.
            || (self.leaves_early.get() && self.may_be_left_behind())
    }

    /// Takes over the standing that the idle set gave us.
    fn resumed(&self, resumed: Resumed) {
        self.searching.set(resumed.cause == Cause::Chosen);
        self.ripeness.set_woken(resumed.cause == Cause::Chosen);
        self.set_armed(resumed.sentry);
        if self.has_newest() || !self.slot().ring.is_empty() || self.drives() || self.has_timers() {
            // An event core may have woken tasks while we counted as asleep, completions depend on us,
            // and M2.
            self.ensure_watched();
        }
        if resumed.owes == Owes::Notify {
            self.pass_on();
        }
    }
}
