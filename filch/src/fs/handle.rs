//! What the clones of a file share, and what operations in flight keep.
//!
//! D1. The descriptor is closed when its last holder goes: files, operations in flight, and what is left
//!     of abandoned ones.
//! D2. The cursor is ours, not the kernel's: it moves when a result is handed out, so a dropped read
//!     has not moved it. Only who has the turn (`Turn`) reads and moves it.
//! D3. The kernel's own position is used where there is no other: for what cannot seek (a pipe), and for
//!     writes that append, after which the cursor follows it.
//! D4. What a dropped read took from something that cannot seek lies in the stash, and is read first.
//! D5. An operation on the file starts when no abandoned write is unfinished (`settled`).
//! D6. Whatever may change the file through this handle moves `version`, before it begins and when it has
//!     ended: what was read ahead under an older one is not handed out.
//! D7. Where the kernel tells readiness only, what cannot seek is watched, if that is possible: a pipe, a
//!     terminal. No thread blocks for it before it is ready, so one that never is holds up nobody.
//!
//! Not here: reads and writes (`transfer`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, ready};

use crate::base::shim::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::io::descriptor::Watch;
use crate::io::driver::Kind;
use crate::io::engine::Engine;
use crate::io::line::{Gate, Line};
use crate::io::sys;
use crate::io::waiters::{Awaited, WaitId, Waiter, Waits};
use crate::task::budget::counted;

/// Where reads and writes without an offset go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// To the cursor.
    Cursor,
    /// Reads to the cursor, writes to the end.
    Append,
    /// Nowhere: it cannot seek.
    None,
}

#[derive(Debug)]
pub(super) struct Handle {
    /// D7. It goes before the descriptor is closed.
    pub(super) watch: Option<Watch>,
    fd: OwnedFd,
    pub(super) engine: Arc<Engine>,
    pub(super) position: Position,
    /// D2.
    cursor: AtomicU64,
    line: Line,
    /// D5.
    pub(super) abandoned: Gate,
    /// Whether a read or write may be tried without waiting; false once the kernel has said no.
    pub(super) reads_at_once: Willing,
    pub(super) writes_at_once: Willing,
    /// D4.
    stash: Mutex<Vec<u8>>,
    /// What became of a read or write that `futures-io` left to itself, if it was not good.
    late: Mutex<Late>,
    /// D6.
    version: AtomicU64,
    /// Held by who waits for an advisory lock.
    pub(super) locks: Line,
}

/// Whether the kernel performs something without waiting, as far as is known.
#[derive(Debug)]
pub(super) struct Willing(AtomicBool);

impl Willing {
    pub(super) fn is(&self) -> bool {
        // ORDERING: Relaxed, a hint.
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) {
        // ORDERING: Relaxed, a hint.
        self.0.store(false, Ordering::Relaxed);
    }
}

/// What is to be said when somebody asks next.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// The end, or an error, of a read of what cannot seek.
    pub(super) read: Option<io::Result<()>>,
    pub(super) write: Option<io::Error>,
}

/// Evidence that the cursor is the holder's (D2); dropped, it is the next one's.
#[derive(Debug)]
pub(super) struct Turn(Arc<Handle>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.line.let_go();
    }
}

impl Handle {
    /// # Errors
    /// If nothing drives I/O in this runtime.
    pub(super) fn new(fd: OwnedFd, engine: Arc<Engine>) -> io::Result<Arc<Self>> {
        let kind = engine.open()?.kind;
        let (cursor, position) = match sys::lseek(fd.as_raw_fd(), 0, libc::SEEK_CUR) {
            Err(_) => (0, Position::None),
            Ok(cursor) if sys::status_flags(fd.as_raw_fd()) & libc::O_APPEND != 0 => {
                (cursor, Position::Append)
            }
            Ok(cursor) => (cursor, Position::Cursor),
        };
        let watches = kind == Kind::Epoll && position == Position::None;
        let watch = watches.then(|| Watch::new(fd.as_raw_fd(), &engine).ok()).flatten();
        Ok(Arc::new(Self {
            watch,
            fd,
            engine,
            position,
            cursor: AtomicU64::new(cursor),
            line: Line::new(),
            abandoned: Gate::new(),
            reads_at_once: Willing(AtomicBool::new(true)),
            writes_at_once: Willing(AtomicBool::new(true)),
            stash: Mutex::new(Vec::new()),
            late: Mutex::new(Late::default()),
            version: AtomicU64::new(0),
            locks: Line::new(),
        }))
    }

    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether an operation that ends as cancelled may be started again elsewhere: a call is cancelled only
    /// by the end of the runtime.
    pub(super) fn moves(&self) -> bool {
        self.engine.find().is_ok_and(|found| found.kind != Kind::Epoll)
    }

    /// The descriptor alone: this one if nobody else has it, else another of the same open file.
    pub(super) fn into_fd(self: Arc<Self>) -> io::Result<OwnedFd> {
        match Arc::try_unwrap(self) {
            Ok(Self { watch, fd, .. }) => {
                drop(watch);
                Ok(fd)
            }
            Err(shared) => shared.fd.try_clone(),
        }
    }

    /// Waits for abandoned writes (D5).
    pub(super) fn poll_settled(&self, who: Waiter<'_>) -> Poll<()> {
        self.abandoned.poll_open(who)
    }

    /// As `poll_settled`; it counts, because most of what it comes before does not wait.
    pub(super) async fn settled(&self) {
        counted(Waits::at(self).until(|handle, who| handle.poll_settled(who))).await;
    }

    /// Waits for the turn at the cursor.
    pub(super) fn poll_turn(self: &Arc<Self>, who: Waiter<'_>) -> Poll<Turn> {
        ready!(self.line.poll_take(who));
        Poll::Ready(Turn(self.clone()))
    }

    pub(super) async fn turn(self: &Arc<Self>) -> Turn {
        Waits::at(&**self).until(|_, who| self.poll_turn(who)).await
    }

    /// The file may change from now on, or has (D6).
    pub(super) fn changes(&self) {
        // ORDERING: Relaxed, who reads afterwards comes after this by its own means.
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn version(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.version.load(Ordering::Relaxed)
    }

    /// What a read or write that was left to itself has to say.
    pub(super) fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stash(&self) -> MutexGuard<'_, Vec<u8>> {
        self.stash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Awaited for Handle {
    fn give_up(&self, id: WaitId) {
        self.abandoned.give_up(id);
        self.line.give_up(id);
        if let Some(watch) = &self.watch {
            watch.give_up(id);
        }
    }
}

impl Turn {
    pub(super) fn cursor(&self) -> u64 {
        // ORDERING: Relaxed, ordered by the line (N1 of `io/line.rs`).
        self.0.cursor.load(Ordering::Relaxed)
    }

    pub(super) fn move_to(&self, cursor: u64) {
        // ORDERING: Relaxed, as above.
        self.0.cursor.store(cursor, Ordering::Relaxed);
    }

    /// Takes bytes off the stash, as many as `take` says it took (D4).
    pub(super) fn unstash(&self, take: impl FnOnce(&[u8]) -> usize) -> usize {
        let mut stash = self.0.stash();
        if stash.is_empty() {
            return 0;
        }
        let taken = take(&stash);
        stash.drain(..taken);
        taken
    }

    /// Puts bytes before all that come (D4).
    pub(super) fn stash_first(&self, bytes: &[u8]) {
        self.0.stash().splice(..0, bytes.iter().copied());
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
