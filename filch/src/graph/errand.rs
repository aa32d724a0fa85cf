//! Errands: jobs that bring tokens to the job lane, from threads that have no deque or are not there to run nodes.
//!
//! T1. An errand has a token, or the right to begin a run, and spends it once: by running it, or, if it is dropped unrun because its
//!     group was cancelled, by passing it over.
//! T2. It is a member of the run's group, so it runs, or is dropped, before that ends.
//! T3. In a runtime without compute workers it goes to the micro lane.

use std::panic::Location;
use std::ptr::NonNull;

use super::error::Stopped;
use super::slot::Slot;
use super::work;
use crate::sched::shared::Shared;
use crate::spawn::{self, Order};
use crate::task::body::{JobBody, MicroBody};
use crate::task::node::NodeEntry;

/// T1.
enum What {
    Token(NodeEntry),
    Sources,
    Spent,
}

struct Errand {
    slot: NonNull<Slot>,
    what: What,
}

// SAFETY: S3 of `slot`, the errand's unit keeps the run, whose slot is `Sync`.
unsafe impl Send for Errand {}

impl Errand {
    fn run(&mut self) {
        let slot = self.slot;
        match std::mem::replace(&mut self.what, What::Spent) {
            What::Token(token) => {
                // SAFETY: T1, the token is ours.
                unsafe { work::from_worker(slot.cast(), token, work::TURN) };
            }
            What::Sources => {
                // SAFETY: S3, the units of all sources keep the run.
                let this = unsafe { slot.as_ref() };
                // SAFETY: T1, the right to begin is ours; S3, the run is used through its tokens only.
                unsafe { work::begin(this) };
            }
            What::Spent => {}
        }
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if !matches!(self.what, What::Spent) {
            // SAFETY: S3, the errand's unit.
            unsafe { self.slot.as_ref() }.stop(Stopped::Cancelled).ring();
            self.run();
        }
    }
}

/// Has a token run on the job lane.
pub(super) fn send(token: NodeEntry) {
    // SAFETY: the caller has the token.
    let slot = unsafe { token.head() }.cast();
    go(Errand { slot, what: What::Token(token) });
}

/// Has a run begin on the job lane. The caller has begun the slot with a unit for each source.
pub(super) fn send_sources(slot: NonNull<Slot>) {
    go(Errand { slot, what: What::Sources });
}

fn go(mut errand: Errand) {
    // SAFETY: S3 of `slot`, by the errand's unit.
    let group = unsafe { errand.slot.as_ref() }.group.get();
    // SAFETY: S4 of `slot`, the group outlives the run.
    let group = unsafe { &*group };
    group.enter();
    // SAFETY: S1 of `sched/shared.rs`, an unfinished group keeps its runtime.
    let shared = unsafe { Shared::to_arc(group.home().shared.cast()) };
    let run = move || errand.run();
    let order = Order::plain(Location::caller());
    if spawn::runs::<JobBody<fn()>>(&shared) {
        drop(spawn::create(&shared, group, JobBody(run), order));
    } else {
        drop(spawn::create(&shared, group, MicroBody(run), order));
    }
}
