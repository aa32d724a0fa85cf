//! Going to sleep without missing work: publish, look at every source once more, then park.
//!
//! P1. Between `prepare` and the park, every source that others may have pushed to is looked at:
//!     the mailbox, the lane's three queues, every neighbour's ring and deque, the phase; and the
//!     own newest-task slot, which nobody else would look into while we sleep. The idle set's proof
//!     does the rest.
//! P2. Nothing of a group stays in the ledger while the worker sleeps (C4; `find` settled it).

use super::shared::Phase;
use super::worker::Worker;
use crate::idle::{Cause, Owes, Resumed, Role};

impl Worker {
    /// Sleeps until there may be work.
    pub(crate) fn sleep(&self) {
        let lane = self.lane();
        let role = if self.searching.replace(false) { Role::Searching } else { Role::Working };
        let ticket = lane.idle.prepare(self.id(), role);
        if self.sees_work() {
            self.resumed(lane.idle.cancel(ticket));
            if let Some(task) = self.sweep() {
                self.run(task);
            }
            return;
        }
        self.falls_asleep();
        // A spare looks up now and then whether it is still needed.
        let timeout = self.is_spare().then_some(self.shared().config.spare_keep_alive);
        self.park(timeout);
        self.wakes_up();
        self.resumed(lane.idle.resume(ticket));
    }

    /// The second look (P1).
    fn sees_work(&self) -> bool {
        let shared = self.shared();
        self.has_private()
            || self.has_newest()
            || self.lane().has_ready(&shared.slots)
            || shared.phase() == Phase::Stopped
    }

    /// Takes over the standing that the idle set gave us.
    fn resumed(&self, resumed: Resumed) {
        self.searching.set(resumed.cause == Cause::Chosen);
        self.set_armed(resumed.sentry);
        if resumed.owes == Owes::Notify {
            self.shared().notify(self.lane());
        }
    }
}
