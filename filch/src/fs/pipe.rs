//! Named pipes: opening one waits for its other side, and no thread may wait for that.
//!
//! P1. A pipe is opened as if it was not to block: a ring does so by itself, a call is told to. Where the kernel tells
//!     readiness only, it stays so until `File::into_std` gives it away: reads and writes are calls then, made when it is
//!     ready (D7 of `handle`). The open file is ours alone, so nobody else is surprised.
//! P2. A pipe is open when its other side has come, as for every program. To open one that nobody reads fails with `ENXIO`.
//!     That nobody writes is not told to a reader: an empty pipe with a writer answers `EAGAIN`, one without answers the end, and one
//!     whose writer has gone again is hung up. A byte that such a look takes goes to the stash.
//! P3. Nothing can be waited for until the other side comes, so both look again after a pause. A dropped wait just stops.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use super::ask::{ask, offload};
use super::handle::{Blocks, Handle, Turn};
use crate::io::driver;
use crate::io::engine::Engine;
use crate::io::files::{FileRequest, HERE, Thread};
use crate::io::sys;
use crate::time::sleep;

/// The first and the longest pause between two looks for the other side (P3). Guessed.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// How to open a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) flags: i32,
    pub(super) mode: u32,
}

impl How {
    /// Whether an open waits for the other side of a pipe.
    fn waits(self) -> bool {
        self.flags & libc::O_NONBLOCK == 0
    }

    /// Whether a pipe that was opened so waits for a writer (P2).
    pub(super) fn wants_writer(self) -> bool {
        self.waits() && self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }
}

/// What was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A pipe that does not block though nobody asked for that (P1).
    Pipe,
    Other,
}

/// Pauses that grow.
struct Pauses(Duration);

impl Pauses {
    async fn pause(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Opens a path. If it is a pipe to write to, waits until somebody reads it.
pub(super) async fn open(
    engine: &Arc<Engine>,
    mut path: CString,
    how: How,
) -> io::Result<(OwnedFd, Kind)> {
    let mut pauses = Pauses(FIRST_PAUSE);
    loop {
        let (result, back) = match engine.find()?.kind {
            driver::Kind::Epoll => offload(move || Ok((open_by_call(&path, how), path))).await?,
            driver::Kind::Uring(_) | driver::Kind::Fake => open_in_ring(engine, path, how).await,
        };
        match result {
            Ok(opened) => return Ok(opened),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nobody reads the pipe; or there is no such device.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && how.waits() => {
                if !is_pipe(&back) {
                    return Err(error);
                }
                pauses.pause().await;
            }
            Err(error) => return Err(error),
        }
        path = back;
    }
}

fn is_pipe(path: &CString) -> bool {
    // SAFETY: a C string.
    unsafe { sys::kind_of_path(path.as_ptr()) == libc::S_IFIFO }
}

async fn open_in_ring(
    engine: &Arc<Engine>,
    path: CString,
    how: How,
) -> (io::Result<(OwnedFd, Kind)>, CString) {
    let How { flags, mode } = how;
    let request = FileRequest::Open { path: path.as_ptr(), flags, mode };
    // SAFETY: K1, the path is kept.
    let (result, path) = unsafe { ask(engine, request, path) }.await;
    (result.map(|fd| (opened(fd), Kind::Other)), path)
}

fn open_by_call(path: &CString, how: How) -> io::Result<(OwnedFd, Kind)> {
    let How { mut flags, mode } = how;
    let kind = if how.waits() && is_pipe(path) { Kind::Pipe } else { Kind::Other };
    if kind == Kind::Pipe {
        flags |= libc::O_NONBLOCK;
    }
    // SAFETY: a C string.
    let fd = sys::to_io(unsafe { sys::open(path.as_ptr(), flags, mode) })?;
    Ok((opened(fd), kind))
}

fn opened(fd: u32) -> OwnedFd {
    // SAFETY: it was opened for us.
    unsafe { OwnedFd::from_raw_fd(fd.cast_signed()) }
}

/// If it is a pipe, which was just opened to read, waits until it has a writer, or has had one (P2).
pub(super) async fn writer_comes(handle: &Arc<Handle>) -> io::Result<()> {
    if sys::kind_of(handle.raw()) != libc::S_IFIFO {
        return Ok(());
    }
    let turn = handle.turn().await;
    let mut pauses = Pauses(FIRST_PAUSE);
    while !has_writer(handle, &turn)? {
        pauses.pause().await;
    }
    Ok(())
}

fn has_writer(handle: &Handle, turn: &Turn) -> io::Result<bool> {
    let fd = handle.raw();
    if handle.blocks == Blocks::Yes {
        set_blocking(fd, Blocks::No)?;
    }
    let (mut byte, thread) = (0, Thread::Submitter);
    let request = FileRequest::Read { fd, buf: &raw mut byte, len: 1, offset: HERE, thread };
    // SAFETY: the byte lives during the call, which does not block.
    let answer = unsafe { request.call() };
    // Asked afterwards: a writer that has come and gone by now has left something, or hung up.
    let gone = sys::has_hung_up(fd);
    if handle.blocks == Blocks::Yes {
        set_blocking(fd, Blocks::Yes)?;
    }
    match answer {
        0 => Ok(gone),
        1 => {
            turn.stash_first(&[byte]);
            Ok(true)
        }
        _ if answer == -libc::EAGAIN => Ok(true),
        _ if answer == -libc::EINTR => Ok(false),
        _ => sys::to_io(answer).map(|_| true),
    }
}

fn set_blocking(fd: RawFd, blocks: Blocks) -> io::Result<()> {
    let flags = sys::status_flags(fd);
    let flags = match blocks {
        Blocks::Yes => flags & !libc::O_NONBLOCK,
        Blocks::No | Blocks::NotHere => flags | libc::O_NONBLOCK,
    };
    sys::to_io(sys::set_status_flags(fd, flags)).map(drop)
}

/// Has a pipe block again, for whoever gets it.
pub(super) fn block_again(fd: &OwnedFd) -> io::Result<()> {
    set_blocking(fd.as_raw_fd(), Blocks::Yes)
}
