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
//!     terminal. One that does not block is read and written by calls (P1 of `pipe`). No thread blocks for another before it
//!     is ready, and it is not asked for more than it takes then, so one that never is holds up nobody.
//! D8. A write that may outlive its future (D5) holds units of the groups that wait for it: of the group that is
//!     current where it is left to itself, and of the root of the file's own runtime if that is another one. It
//!     holds none if it may wait for ever, as for a pipe that nobody reads: the end of the runtime cancels that.
//! D9. An error of a write that was answered with success lies here until somebody asks. Whatever is untold when the
//!     last holder goes is told to the hook.
//!
//! Not here: reads and writes (`transfer`).

use std::io;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Poll, ready};

use super::pipe::{self, Kind as Opened};
use crate::base::shim::{AtomicBool, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering};
use crate::config::hooks::{LostWrite, LostWriteHook};
use crate::io::descriptor::Watch;
use crate::io::driver::Kind;
use crate::io::engine::Engine;
use crate::io::files::FileRequest;
use crate::io::line::{Gate, Line};
use crate::io::sys;
use crate::io::waiters::{Awaited, WaitId, Waiter, Waits};
use crate::spawn::current;
use crate::task::budget::counted;
use crate::task::context;
use crate::task::group::{Group, Unit, guard_user_code};

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

/// The runtime that a file belongs to, as far as the file knows it.
pub(super) struct Owner {
    pub(super) engine: Arc<Engine>,
    /// D8. Not kept: a hook of the runtime may hold a file.
    root: Weak<Group>,
    on_lost_write: Option<LostWriteHook>,
}

impl Owner {
    /// The runtime that a spawn here would use.
    pub(super) fn here() -> Self {
        current(|shared, _, _| Self {
            engine: shared.engine.clone(),
            root: Arc::downgrade(&shared.root),
            on_lost_write: shared.hooks.on_lost_write.clone(),
        })
    }
}

/// The groups that wait for a write in flight (D8).
#[derive(Default)]
pub(super) struct Units {
    _here: Option<Unit>,
    _root: Option<Unit>,
}

#[derive(Debug)]
pub(super) struct Handle {
    /// D7. It goes before the descriptor is closed.
    pub(super) watch: Option<Watch>,
    /// Of what is watched.
    pub(super) blocks: Blocks,
    fd: OwnedFd,
    pub(super) engine: Arc<Engine>,
    root: Weak<Group>,
    pub(super) position: Position,
    /// D8: whether a write always ends by itself. Asked when it is first needed.
    ends: OnceLock<bool>,
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
    /// What became of a read or write that was left to itself, if it was not good.
    late: Mutex<Late>,
    /// D6.
    version: AtomicU64,
    /// Held by who waits for an advisory lock.
    pub(super) locks: Line,
}

/// Whether calls on a descriptor wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocks {
    Yes,
    No,
    /// No, and whoever gets the descriptor is to find that it does (P1 of `pipe`).
    NotHere,
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
pub(super) struct Late {
    /// The end, or an error, of a read of what cannot seek.
    pub(super) read: Option<io::Result<()>>,
    /// D9.
    write: Option<LostWrite>,
    on_lost_write: Option<LostWriteHook>,
}

impl Late {
    /// Takes the error of a write that was left to itself.
    pub(super) fn take_write(&mut self) -> io::Result<()> {
        self.write.take().map_or(Ok(()), |lost| Err(lost.error))
    }
}

impl Drop for Late {
    /// D9.
    fn drop(&mut self) {
        let Some(lost) = self.write.take() else { return };
        match &self.on_lost_write {
            Some(hook) => {
                context::outside(|| guard_user_code(|| hook(lost)));
            }
            // Nobody is there to hear that it cannot be written.
            None => drop(writeln!(io::stderr(), "filch: {lost}")),
        }
    }
}

impl std::fmt::Debug for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Late")
            .field("read", &self.read)
            .field("write", &self.write)
            .finish_non_exhaustive()
    }
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
    pub(super) fn new(fd: OwnedFd, owner: Owner, opened: Opened) -> io::Result<Arc<Self>> {
        let Owner { engine, root, on_lost_write } = owner;
        let kind = engine.open()?.kind;
        let (cursor, position) = match sys::lseek(fd.as_raw_fd(), 0, libc::SEEK_CUR) {
            Err(_) => (0, Position::None),
            Ok(cursor) if is_set(&fd, libc::O_APPEND) => (cursor, Position::Append),
            Ok(cursor) => (cursor, Position::Cursor),
        };
        let watches = kind == Kind::Epoll && position == Position::None;
        let watch = watches.then(|| Watch::new(fd.as_raw_fd(), &engine).ok()).flatten();
        let blocks = match opened {
            Opened::Pipe if watch.is_some() => Blocks::NotHere,
            Opened::Pipe => {
                pipe::block_again(&fd)?;
                Blocks::Yes
            }
            Opened::Other if watch.is_some() && is_set(&fd, libc::O_NONBLOCK) => Blocks::No,
            Opened::Other => Blocks::Yes,
        };
        Ok(Arc::new(Self {
            watch,
            blocks,
            fd,
            engine,
            root,
            position,
            ends: OnceLock::new(),
            cursor: AtomicU64::new(cursor),
            line: Line::new(),
            abandoned: Gate::new(),
            reads_at_once: Willing(AtomicBool::new(true)),
            writes_at_once: Willing(AtomicBool::new(true)),
            stash: Mutex::new(Vec::new()),
            late: Mutex::new(Late { read: None, write: None, on_lost_write }),
            version: AtomicU64::new(0),
            locks: Line::new(),
        }))
    }

    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether a write always ends by itself: a device or a pipe may have nobody who takes the bytes.
    pub(super) fn writes_end(&self) -> bool {
        *self.ends.get_or_init(|| matches!(sys::kind_of(self.raw()), libc::S_IFREG | libc::S_IFBLK))
    }

    /// The request as it is left to others: of what is watched, for as much only as it takes when it is ready (D7).
    ///
    /// # Safety
    /// R1 of `io/request.rs` holds during the call.
    pub(super) unsafe fn take_ready(&self, request: FileRequest) -> FileRequest {
        match self.watch {
            // SAFETY: by the caller's promise.
            Some(_) => unsafe { request.for_what_is_ready() },
            None => request,
        }
    }

    /// Units for a write that is left to itself here (D8).
    pub(super) fn units(&self) -> Units {
        // A forked child's groups cannot wait for what the parent's kernel does.
        if !self.writes_end() || self.engine.is_of_parent() {
            return Units::default();
        }
        let (here, root) = (Group::here().and_then(Unit::of), self.root.upgrade());
        let held = |root: &Arc<Group>| here.as_ref().is_some_and(|here| here.is_below(root));
        let root = root.filter(|root| !held(root)).and_then(Unit::of);
        Units { _here: here, _root: root }
    }

    /// A write that was answered with success has failed: so many bytes that belong there are lost (D9).
    pub(super) fn lose(&self, error: io::Error, offset: u64, len: usize) {
        let offset = i64::try_from(offset).is_ok().then_some(offset);
        let path: PathBuf = format!("/proc/self/fd/{}", self.raw()).into();
        let path = std::fs::read_link(path).ok();
        self.late().write = Some(LostWrite { error, offset, len, path });
    }

    /// Whether an operation that ends as cancelled may be started again elsewhere: a call is cancelled only
    /// by the end of the runtime.
    pub(super) fn moves(&self) -> bool {
        self.engine.find().is_ok_and(|found| found.kind != Kind::Epoll)
    }

    /// The descriptor alone: this one if nobody else has it, else another of the same open file.
    pub(super) fn into_fd(self: Arc<Self>) -> io::Result<OwnedFd> {
        match Arc::try_unwrap(self) {
            Ok(Self { watch, fd, blocks, .. }) => {
                drop(watch);
                if blocks == Blocks::NotHere {
                    pipe::block_again(&fd)?;
                }
                Ok(fd)
            }
            Err(shared) => shared.fd.try_clone(),
        }
    }

    /// Waits for abandoned writes (D5).
    ///
    /// # Panics
    /// In a forked child: nothing that it waits for happens there (W1 of `sched/forked`).
    pub(super) fn poll_settled(&self, who: Waiter<'_>) -> Poll<()> {
        self.engine.check_process();
        self.abandoned.poll_open(who)
    }

    /// As `poll_settled`; it counts, because most of what it comes before does not wait.
    pub(super) async fn settled(&self) {
        counted(Waits::at(self).until(|handle, who| handle.poll_settled(who))).await;
    }

    /// Waits for the turn at the cursor.
    ///
    /// # Panics
    /// As [`poll_settled`](Self::poll_settled).
    pub(super) fn poll_turn(self: &Arc<Self>, who: Waiter<'_>) -> Poll<Turn> {
        self.engine.check_process();
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

fn is_set(fd: &OwnedFd, flag: i32) -> bool {
    sys::status_flags(fd.as_raw_fd()) & flag != 0
}

impl Awaited for Handle {
    fn give_up(&self, id: WaitId) {
        if self.engine.is_of_parent() {
            // W4 of `sched/forked`.
            return;
        }
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
