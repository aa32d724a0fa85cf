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
//! | `fake` | how does it go in a simulation? |
//! | `epoll`, `readiness` | how is it waited for where there is no ring? |
//! | `fallback` | how is it performed where there is no ring any more? |
//! | `descriptor` | who keeps a descriptor open? |
//! | `buffers`, `buf` | whose memory do the bytes go to? |
//! | `waiting` | what is told first when there is no room for all? |
//! | `wake` | how is a waiting thread woken? |
//! | `waiters` | who waits, and how does one of them give up? |
//! | `line` | whose turn is it, and what has to end first? |
//! | `cause` | what kept an operation from the kernel? |
//! | `batch` | what is told when the lock is free? |
//! | `sys` | which system calls are made? |
//!
//! This leaf knows wakers, never tasks. What counts against a task's budget (`copy`, streams in memory) is
//! in `streams.rs`, and shown here. To write an operation, see `op` and `request`.

#[cfg_attr(loom, allow(dead_code, reason = "models meet no system"))]
pub(crate) mod cause;
pub(crate) mod line;
pub(crate) mod plain;
pub(crate) mod readiness;
pub(crate) mod slots;
pub(crate) mod waiters;
pub(crate) mod wake;

/// What meets the system. Models (loom) know only what is above.
#[cfg(not(loom))]
#[path = "."]
mod system {
    use super::{cause, plain, readiness, slots, waiters, wake};

    pub(crate) mod batch;
    pub(crate) mod buf;
    pub(crate) mod buffers;
    pub(crate) mod descriptor;
    pub(crate) mod driver;
    pub(crate) mod engine;
    pub(crate) mod epoll;
    pub(crate) mod fake;
    pub(crate) mod fallback;
    pub(crate) mod files;
    pub(crate) mod op;
    pub(crate) mod request;
    pub(crate) mod sys;
    pub(crate) mod uring;
    mod waiting;
}

#[cfg(not(loom))]
pub use system::buf::{IoBuf, IoBufMut, Slice};
#[cfg(not(loom))]
pub use system::buffers::Chunk;
#[cfg(not(loom))]
pub(crate) use system::{
    batch, buffers, descriptor, driver, engine, epoll, fake, fallback, files, op, request, sys,
    uring,
};

/// The traits of streams, and what can be done with any stream: buffers, lines, halves.
///
/// ```
/// use filch::io::{AsyncWriteExt, BufReader};
/// use filch::net::UnixStream;
/// # filch::block_on(async {
/// let (mut here, there) = UnixStream::pair()?;
/// AsyncWriteExt::write_all(&mut here, b"one\ntwo\n").await?;
/// let mut reader = BufReader::new(there);
/// assert_eq!(reader.next_line().await?.as_deref(), Some("one"));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[cfg(not(loom))]
#[doc(inline)]
pub use futures_lite::io::{
    AssertAsync, AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt,
    AsyncWrite, AsyncWriteExt, BufWriter, Cursor, Split, Take, split,
};

/// A face that shows itself here; nothing in this module uses it.
#[cfg(not(loom))]
pub use crate::streams::{
    BufReader, Copied, CopyBidirectional, Empty, Lines, Repeat, Sink, copy, copy_bidirectional,
    empty, repeat, sink,
};
