//! Tasks: one allocation each, a thin pointer to a header, and whatever body it runs.
//!
//! | part | file | who touches it |
//! | --- | --- | --- |
//! | state word | `state` | everybody, by its transitions only |
//! | link | `header` | the queue that holds the entry |
//! | vtable, id, meta | `header` | read-only after birth |
//! | group | `header` | the body's owner moves it once, by a detach (H2) |
//! | waiter slot | `header` | handle or finisher, by T6 |
//! | body, then output | `body` | owner of RUNNING, then the handle (T2, T5) |
//!
//! Everything of a task but its place in a queue is here; `sched` decides where and when it runs.

pub(crate) mod count;
pub(crate) mod latch;
pub(crate) mod owner;
pub(crate) mod state;

#[cfg(not(loom))]
pub(crate) mod body;
#[cfg(not(loom))]
pub(crate) mod budget;
#[cfg(not(loom))]
pub(crate) mod context;
#[cfg(not(loom))]
pub(crate) mod group;
#[cfg(not(loom))]
pub(crate) mod header;
#[cfg(not(loom))]
pub(crate) mod job;
#[cfg(not(loom))]
pub(crate) mod join;
#[cfg(not(loom))]
pub(crate) mod node;
#[cfg(not(loom))]
pub(crate) mod stack;
#[cfg(not(loom))]
pub(crate) mod waker;
