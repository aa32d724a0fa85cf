//! In the place of the simulated network where there is no `net`: the system is not Linux.

/// Nothing to say of sockets.
#[derive(Clone, Debug)]
pub(crate) struct IoScript;

impl IoScript {
    pub(super) fn new() -> Self {
        Self
    }
}

/// A network that nobody can reach.
pub(crate) struct Network;

impl Network {
    pub(super) fn new(_script: IoScript, _seed: u64) -> Self {
        Self
    }

    pub(super) fn describe(&self) -> String {
        String::new()
    }
}
