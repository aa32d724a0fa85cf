//! Operations of the system: rings where the kernel has them, readiness where it has not.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `engine` | which drivers does a runtime have, and which takes an operation? |
//! | `driver` | what is in flight on one worker, and where does its thread wait? |
//! | `slots` | how far is each operation, and whom does a completion concern? |
//! | `op` | how does a future own an operation? |
//! | `request`, `files` | what can be asked of the system? |
//! | `uring` | how does a ring perform it? |
//! | `epoll`, `readiness` | how is it waited for where there is no ring? |
//! | `descriptor` | who keeps a descriptor open? |
//! | `buffers`, `buf` | whose memory do the bytes go to? |
//! | `wake` | how is a waiting thread woken? |
//! | `line` | whose turn is it, and what has to end first? |
//! | `batch` | what is told when the lock is free? |
//! | `sys` | which system calls are made? |
//!
//! This leaf knows wakers, never tasks. To write an operation, see `op` and `request`.

#[cfg(not(loom))]
pub(crate) mod batch;
#[cfg(not(loom))]
mod buf;
#[cfg(not(loom))]
pub(crate) mod buffers;
#[cfg(not(loom))]
pub(crate) mod descriptor;
#[cfg(not(loom))]
pub(crate) mod driver;
#[cfg(not(loom))]
pub(crate) mod engine;
#[cfg(not(loom))]
mod epoll;
#[cfg(not(loom))]
pub(crate) mod files;
pub(crate) mod line;
#[cfg(not(loom))]
pub(crate) mod op;
pub(crate) mod readiness;
#[cfg(not(loom))]
pub(crate) mod request;
pub(crate) mod slots;
#[cfg(not(loom))]
pub(crate) mod sys;
#[cfg(not(loom))]
pub(crate) mod uring;
pub(crate) mod wake;

#[cfg(not(loom))]
pub use buf::{IoBuf, IoBufMut, Slice};
#[cfg(not(loom))]
pub use buffers::Chunk;
