//! Who goes first while both lanes want the same cores.
//!
//! V1. I/O workers have the shortest slices, compute workers long ones, and the sentry displaces nobody: it would
//!     displace the worker that has just armed it, which then waits for the timer's next tick.
//! V2. Shares stay as they are (H4 of `base/thread`): a worker of either lane that always wants a core gets as much
//!     as it would without.
//! V3. Threads of ours that are neither have the system's slices, whoever started them: a thread inherits those of
//!     its starter. A worker with both roles has them too, and threads of others stay as they are.
//! V4. A caller's thread that is the main worker has an I/O worker's slices for as long as it is, also between
//!     the frames of a pump: that is when the frames wait for a core. Afterwards it has its own again.
//!
//! Not here: levels and CPUs (`start`).

use std::sync::OnceLock;

use super::shared::Shared;
use crate::base::sim;
use crate::base::thread::{LentSlice, Slice, apply_slice, displace_nobody, lend_slice};
use crate::config::Config;
use crate::config::hooks::Role;

/// What came of the wish.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    /// The first refusal: written by the thread that met it, read by `describe`.
    refused: OnceLock<String>,
}

impl Slices {
    pub(crate) fn describe(&self, config: &Config) -> String {
        match self.refused.get() {
            _ if !config.lane_slices => "the system's, as configured".into(),
            _ if config.single_thread => "the system's, for one worker with both roles".into(),
            Some(refusal) => format!("the system's: {refusal}"),
            None => "0.1 ms for io, 10 ms for cpu workers".into(),
        }
    }
}

impl Shared {
    /// Gives the calling thread, a worker of this role, its slices (V1).
    pub(super) fn slice_worker(&self, role: Role) {
        self.slice(|| match role {
            Role::Io => apply_slice(Slice::Short),
            Role::Compute => apply_slice(Slice::Long),
            Role::Both => Ok(()),
        });
    }

    /// The same for a caller's thread that becomes the main worker (V4).
    pub(super) fn slice_main(&self) -> Lent {
        Lent(self.slice(lend_slice))
    }

    /// The same for the sentry.
    pub(super) fn slice_sentry(&self) {
        self.slice(displace_nobody);
    }

    /// The same for a thread for what blocks, which a worker may have started (V3).
    pub(super) fn slice_blocker(&self) {
        self.slice(|| apply_slice(Slice::Usual));
    }

    fn slice<T>(&self, apply: impl FnOnce() -> std::io::Result<T>) -> Option<T> {
        if !self.config.lane_slices || self.config.single_thread || sim::is_on() {
            return None;
        }
        let refuse = |error: std::io::Error| {
            // Others meet the same one.
            let _ = self.slices.refused.set(error.to_string());
        };
        apply().map_err(refuse).ok()
    }
}

/// Slices that a caller's thread has until this is dropped (V4).
pub(super) struct Lent(Option<LentSlice>);

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(lent) = self.0.take() {
            // What was granted once is refused only if the thread has become another kind meanwhile.
            let _ = lent.give_back();
        }
    }
}
