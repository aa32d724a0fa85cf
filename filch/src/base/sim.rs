//! The simulator's hooks: one thread of a simulation runs at a time, the one with the baton.
//!
//! A participant is an ordinary thread that was started inside a simulation. Where the runtime
//! parks, wakes, yields or pays for a barrier, it calls a hook; on a participant the hook asks the
//! simulation (`world`) who goes on, and the baton moves. On any other thread it does nothing.
//!
//! H1. Between two hooks a participant runs alone among those of its simulation, so what it does
//!     there is atomic to them, and what happens depends on the seed and the program only.
//! H2. No lock of the library is held at a switch, or whoever wants it next would stop the baton.
//! H3. While no simulation runs in the process, a hook is at most one relaxed load of a flag that
//!     nobody writes; those on hot paths stand in branches that are cold then (`barrier::light`).
//!
//! Not here: what a simulation looks like to a test (`testkit`), and I/O (`io/fake`), which hangs on the
//! world as its annex.

#[cfg(loom)]
mod off;
#[cfg(loom)]
pub(crate) use off::*;

#[cfg(all(not(loom), unix))]
mod crash;
#[cfg(not(loom))]
mod hooks;
#[cfg(not(loom))]
mod state;
#[cfg(not(loom))]
mod world;
#[cfg(not(loom))]
pub(crate) use hooks::*;
#[cfg(not(loom))]
pub(crate) use state::{Cause, Key, What};
#[cfg(not(loom))]
pub(crate) use world::{Seat, World};

/// What a panic says.
#[cfg(not(loom))]
pub(crate) fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(all(test, not(loom)))]
mod tests;
