//! Bodies that nobody takes, and why.
//!
//! Not here: who is asked (`spawn`), and what becomes of jobs that wait for a worker until the end (Z9 of `sched/shutdown`).

use super::runs;
use crate::config::hooks::Role;
use crate::sched::shared::{Phase, Shared};
use crate::task::body::Body;
use crate::task::group::Group;
use crate::task::header::Kind;

/// Which workers a task counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takers {
    /// Those that are attached.
    Attached,
    /// Or, of a job, one that may be attached later.
    AnyTime,
}

/// A body that was not taken.
pub(crate) struct Unmade<B> {
    pub(super) body: B,
    pub(super) why: Why,
}

/// Why a body was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The group of the handle has ended, and its runtime has not.
    GroupEnded,
    /// The runtime takes no tasks from there any more.
    ShuttingDown,
    /// The runtime has ended its tasks.
    RuntimeEnded,
    /// No worker of this role is attached, nor can be from now on.
    NoWorker(Role),
    /// Nor could ever be.
    NoPlace(Role),
}

impl Why {
    /// Of a group whose runtime refuses tasks, or that has ended itself. The runtime may be gone.
    #[cold]
    pub(super) fn of_closed(group: &Group) -> Self {
        let root = group.root_of();
        match (root.is_finished(), group.is_finished()) {
            (true, _) => Self::RuntimeEnded,
            (false, true) => Self::GroupEnded,
            (false, false) => Self::ShuttingDown,
        }
    }

    /// What the handle says.
    pub(super) fn text(self) -> String {
        match self {
            Self::GroupEnded => "the group has ended".into(),
            Self::ShuttingDown => "the runtime is shutting down".into(),
            Self::RuntimeEnded => "the runtime has ended".into(),
            Self::NoWorker(role) => format!("no {role} worker is attached"),
            Self::NoPlace(role) => {
                let parameter =
                    if role == Role::Compute { "compute_workers" } else { "io_workers" };
                format!(
                    "the runtime has no {role} worker and no room to attach one \
                     (`{parameter}` and `attachable_workers` are 0)"
                )
            }
        }
    }
}

/// Whether the runtime has such a worker, or may get one in time.
#[inline]
pub(super) fn takes<B: Body>(shared: &Shared, takers: Takers) -> Result<(), Why> {
    if runs::<B>(shared) { Ok(()) } else { takes_later::<B>(shared, takers) }
}

#[cold]
fn takes_later<B: Body>(shared: &Shared, takers: Takers) -> Result<(), Why> {
    let lane = shared.lane_of(B::KIND);
    if lane.seats == 0 {
        return Err(Why::NoPlace(lane.role));
    }
    // Who ends the runtime drops jobs that found no worker (Z9 of `shutdown`).
    let waits = takers == Takers::AnyTime && B::KIND == Kind::Job && shared.phase() == Phase::Open;
    if waits { Ok(()) } else { Err(Why::NoWorker(lane.role)) }
}
