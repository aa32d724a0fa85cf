//! How a driver stops (V5, V7).

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use super::backend::{Backend, Intake, State};
use super::denied::{AGAIN, Replaced};
use super::{BUDGET, Caller, Driver, wait_in_ring};
use crate::base::shim::yield_now;
use crate::io::batch::Batch;
use crate::io::readiness::Readiness;
use crate::io::sys;
use crate::io::uring::Plan;

/// How long an end waits for the kernel before it asks to cancel again. Guessed.
const CANCEL_AGAIN: Duration = Duration::from_millis(10);

/// How often an end tries to open what it needs in place of a denied ring: for a second. Guessed.
const MOST_TRIES: u32 = 100;

/// How a driver stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// For good (V5).
    Close,
    /// Its thread ends; operations move elsewhere (O5 of `slots`).
    Evacuate,
    /// As `Evacuate`, of a regular worker that leaves: nothing comes here until another has its place.
    Leave,
}

impl Driver {
    /// Cancels what is in flight, waits for its last completions and closes what was open (V5). The
    /// caller is the slot's thread, or there is none. `ending` is asked again while that takes long: a
    /// runtime may stop in the middle of an evacuation.
    pub(crate) fn end(&self, ending: impl Fn() -> Ending, batch: &mut Batch) {
        let mut now = ending();
        self.shut(now, batch);
        while self.lock().drain(batch) > 0 {
            batch.deliver();
        }
        let mut tries = 0;
        while let Some(plan) = self.cancel_all(now) {
            if let Err(errno) = wait_in_ring(plan, Some(CANCEL_AGAIN))
                && self.refused(Caller::Owner, errno, batch) == Replaced::NotYet
            {
                tries += 1;
                if tries == MOST_TRIES {
                    self.leak_ring();
                }
                self.sleep_on_bed(Some(AGAIN));
            }
            while self.lock().reap(BUDGET, batch) == BUDGET {
                batch.deliver();
            }
            batch.deliver();
            if now != Ending::Close && ending() == Ending::Close {
                now = Ending::Close;
                self.shut(now, batch);
            }
        }
        now = self.end_denied(now, ending, batch);
        self.close(now);
    }

    /// Takes no operation any more.
    pub(super) fn shut(&self, ending: Ending, batch: &mut Batch) {
        let mut state = self.lock();
        if ending == Ending::Close {
            state.slots.set_closing();
        }
        state.intake = Intake::Shut;
        if let Backend::Epoll(epoll) = &mut state.backend
            && ending == Ending::Close
        {
            epoll.close(&mut batch.wakers);
        }
        drop(state);
        batch.deliver();
    }

    /// Asks to cancel all that is in flight in a ring; `None` if nothing is.
    pub(super) fn cancel_all(&self, ending: Ending) -> Option<Plan> {
        let mut state = self.lock();
        let State { slots, backend, .. } = &mut *state;
        let Backend::Uring(uring) = backend else { return None };
        if uring.is_quiet() {
            return None;
        }
        // Not again as long as the kernel has not heard all of it: that would be more each time.
        if !uring.is_full() {
            let mut keys = slots.in_flight();
            keys.retain(|&key| slots.is_cancellable(key));
            keys.into_iter().for_each(|key| uring.cancel(key));
        }
        if ending == Ending::Close {
            // O7 of `slots`: a peer that does not read would hold up the end.
            slots.unnoticed().for_each(sys::reset);
        }
        Some(uring.plan())
    }

    /// Takes operations again: a worker looks after it (G5 of `engine`).
    pub(crate) fn admit(&self) {
        self.lock().intake = Intake::Open;
    }

    /// Takes no operations until somebody looks after it again.
    pub(crate) fn refuse(&self) {
        self.lock().intake = Intake::Shut;
    }

    /// Forgets all descriptors, which are to be registered elsewhere.
    pub(crate) fn take_sources(&self) -> Vec<(RawFd, Arc<Readiness>)> {
        let mut state = self.lock();
        let Backend::Epoll(epoll) = &mut state.backend else { return Vec::new() };
        let sources = epoll.take_all();
        self.count(&state);
        sources
    }

    /// Closes what was open, when nobody is in the kernel with it (V7).
    fn close(&self, ending: Ending) {
        let mut state = self.lock();
        while state.visitors > 0 {
            drop(state);
            yield_now();
            state = self.lock();
        }
        state.intake = if ending == Ending::Leave { Intake::Shut } else { Intake::Open };
        let after = match (ending, &state.backend) {
            (Ending::Close, _) => Backend::Closed,
            // Sources stay: others look after them while nobody occupies the slot.
            (Ending::Evacuate, Backend::Epoll(_)) => return,
            (Ending::Evacuate | Ending::Leave, _) => Backend::Unopened,
        };
        let before = std::mem::replace(&mut state.backend, after);
        self.count(&state);
        drop(state);
        drop(before);
    }
}
