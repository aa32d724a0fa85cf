//! Futures of groups that nobody in the runtime polls: kept elsewhere, or forgotten. The end of the
//! runtime does not wait for them.
//!
//! K1. A group whose future has begun is listed until it ends, by a weak reference: one lock where it
//!     begins, and nothing later.
//! K2. A future has a unit of its group, whoever polls it. If a task or a `block_on` of the runtime
//!     does, that has a unit besides. So if all units are those of listed futures, nobody in the
//!     runtime is left that could poll one, and the end gives their units back.
//! K3. What K2 asks is a look at several counts, one after the other, each time after those of the
//!     groups inside. It is made twice, because a task might spawn into a group that was looked at and
//!     end before the next is. Memory does not depend on it: who gives a unit back, and that no poll
//!     goes on meanwhile, is decided by `task/owner`.
//!
//! Not here: when the end looks (`shutdown`), what a future does that finds its unit gone (`group`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;

use super::shared::{Shared, lock};
use crate::base::shim::Mutex;
use crate::task::context;
use crate::task::group::{Group, GroupRef};

/// Lists, so that threads that begin groups at the same time seldom meet. Guessed.
const SHARDS: usize = 8;

/// Length at which a list is first swept. Guessed.
const FIRST_SWEEP: usize = 16;

/// The groups whose futures have begun (K1).
pub(super) struct Kept {
    shards: [CachePadded<Mutex<List>>; SHARDS],
}

struct List {
    groups: Vec<Weak<Group>>,
    sweep_at: usize,
}

impl Kept {
    pub(super) fn new() -> Self {
        let list = || List { groups: Vec::new(), sweep_at: FIRST_SWEEP };
        Self { shards: std::array::from_fn(|_| CachePadded::new(Mutex::new(list()))) }
    }

    /// The groups whose futures have their units.
    fn open(&self) -> Vec<GroupRef> {
        let mut open = Vec::new();
        for shard in &self.shards {
            open.extend(lock(shard).groups.iter().filter_map(Weak::upgrade));
        }
        open.retain(|group| group.is_held_by_owner());
        open
    }
}

impl List {
    fn push(&mut self, group: Weak<Group>) {
        if self.groups.len() >= self.sweep_at {
            self.groups.retain(|group| group.strong_count() > 0);
            self.sweep_at = FIRST_SWEEP.max(2 * self.groups.len());
        }
        self.groups.push(group);
    }
}

impl Shared {
    /// A future has begun this group (K1).
    pub(crate) fn note_group(&self, group: &GroupRef) {
        let number = context::with(|cx| cx.number());
        lock(&self.kept.shards[number % SHARDS]).push(Arc::downgrade(group));
    }

    /// Gives back the units of futures if there are no others (K2).
    pub(super) fn revoke_kept(&self) {
        let open = self.kept.open();
        if !hold_all(&open) || !hold_all(&open) {
            return;
        }
        for group in &open {
            drop(Group::take_unit(group));
            if group.is_finished() {
                // Whoever still has it is told.
                group.cancel();
            }
        }
        // C4: if this thread has a ledger.
        Group::settle();
    }
}

/// Whether the futures of these groups have all units of the runtime (K2).
fn hold_all(open: &[GroupRef]) -> bool {
    // How many units of a group are known to be theirs.
    let mut known = HashMap::<*const Group, usize>::new();
    let mut next: Vec<&GroupRef> = open.iter().collect();
    while let Some(group) = next.pop() {
        let known = known.entry(Arc::as_ptr(group)).or_default();
        *known += 1;
        if group.units() > *known {
            continue;
        }
        // Nothing but theirs is inside, and so is the unit that it has of its parent.
        match group.parent() {
            Some(parent) => next.push(parent),
            None => return true,
        }
    }
    false
}
