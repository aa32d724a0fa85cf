//! An open descriptor of a runtime: what sockets and files hold.
//!
//! H1. The descriptor is closed when its last holder goes. Operations in flight, and what is left of
//!     abandoned ones, hold it: its number means the same to the kernel until their last
//!     completion.
//! H2. It is registered for readiness at its first use that needs it, and until it is closed.
//!     So is what somebody else owns and only watches here (`Watch`), from the start.
//! H3. A read of fewer bytes than asked for has emptied a socket, unless it is one within the host: those
//!     stop where the other side has passed a descriptor along, whatever is behind.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use super::cause::{Cause, answer_of};
use super::driver::Kind;
use super::engine::{Engine, Source};
use super::fake;
use super::readiness::{Direction, Look, News, Readiness};
use super::request::Request;
use super::slots::Completion;
use super::sys;
use super::waiters::{Awaited, WaitId, Waiter, guard};
use crate::base::shim::{Mutex, OnceLock};

/// Alone on its cache line, as `Readiness` is.
#[repr(align(64))]
pub(crate) struct Descriptor {
    fd: OwnedFd,
    engine: Arc<Engine>,
    kind: Kind,
    /// H2. Set under `registers`.
    source: OnceLock<(Source, Short)>,
    registers: Mutex<()>,
}

#[cfg(not(loom))]
const _: () = assert!(cfg!(filch_tsan) || size_of::<Descriptor>() == 64);

/// What fewer bytes than asked for mean (H3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    IsAll,
    MayBeMore,
}

impl Descriptor {
    /// # Errors
    /// If nothing drives I/O in this runtime, or what drives it cannot be opened.
    pub(crate) fn new(fd: OwnedFd, engine: &Arc<Engine>) -> io::Result<Self> {
        let kind = engine.open()?.kind;
        Ok(Self {
            fd,
            engine: engine.clone(),
            kind,
            source: OnceLock::new(),
            registers: Mutex::new(()),
        })
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Whether the kernel tells readiness only.
    pub(crate) fn tells_readiness(&self) -> bool {
        self.kind == Kind::Epoll
    }

    #[inline]
    fn readiness(&self) -> io::Result<(&Readiness, Short)> {
        match self.source.get() {
            Some((source, short)) => Ok((&source.readiness, *short)),
            None => self.register(),
        }
    }

    #[cold]
    fn register(&self) -> io::Result<(&Readiness, Short)> {
        let _first = self.registers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.source.get().is_none() {
            let fresh = self.engine.register(self.raw())?;
            let within_host = sys::domain(self.raw()) == libc::AF_UNIX;
            let short = if within_host { Short::MayBeMore } else { Short::IsAll };
            let set = self.source.set((fresh, short));
            debug_assert!(set.is_ok(), "set under the lock");
        }
        let (source, short) = self.source.get().expect("set above");
        Ok((&source.readiness, *short))
    }

    /// Performs a request that does not block, when the descriptor is ready for it.
    ///
    /// # Safety
    /// R1 of `request` holds during the call.
    pub(crate) unsafe fn poll_call(
        &self,
        request: &Request,
        direction: Direction,
        who: Waiter<'_>,
    ) -> Poll<Completion> {
        let call = || {
            // SAFETY: by the caller's promise.
            let result = unsafe { request.call() };
            (result, request.is_short(result))
        };
        self.poll_with(direction, who, call)
    }

    /// Has all who wait for a direction try again, if the kernel tells readiness only: what they wait for may
    /// have come by another way.
    pub(crate) fn wake(&self, direction: Direction) {
        if let Some((source, _)) = self.source.get() {
            let mut woken = Vec::new();
            source.readiness.tell(News::of(direction), &mut woken);
            woken.into_iter().for_each(|waker| guard(|| waker.wake()));
        }
    }

    /// As `poll_call`, for any call that answers as a completion does, and says whether it has found
    /// less than it asked for.
    pub(crate) fn poll_with(
        &self,
        direction: Direction,
        who: Waiter<'_>,
        mut call: impl FnMut() -> (i32, bool),
    ) -> Poll<Completion> {
        let (readiness, means) = match self.readiness() {
            Ok(found) => found,
            Err(error) => return done(answer_of(&error)),
        };
        poll_ready(readiness, direction, who, || {
            let (result, short) = call();
            (result, short && means == Short::IsAll)
        })
    }
}

fn done(result: i32) -> Poll<Completion> {
    Poll::Ready(Completion { result, flags: 0 })
}

/// Makes a call whenever what it needs is ready, until it does not say that it would block. It also says
/// whether the next one would.
fn poll_ready(
    readiness: &Readiness,
    direction: Direction,
    who: Waiter<'_>,
    mut call: impl FnMut() -> (i32, bool),
) -> Poll<Completion> {
    loop {
        match readiness.look(direction) {
            Look::Closed => return done(Cause::Ended.code()),
            Look::Blocked if readiness.wait(direction, who) => return Poll::Pending,
            Look::Blocked => {}
            Look::Ready(seen) => match call() {
                (result, _) if result == -libc::EAGAIN => readiness.clear(direction, seen),
                (result, _) if result == -libc::EINTR => {}
                (result, last) => {
                    if last {
                        readiness.clear_short(direction, seen);
                    }
                    return done(result);
                }
            },
        }
    }
}

/// The readiness of a descriptor that the holder of this owns, and closes after this has gone (H2).
pub(crate) struct Watch {
    engine: Arc<Engine>,
    fd: RawFd,
    source: Source,
}

impl Watch {
    /// # Errors
    /// If it is of a kind that is always ready, or the system refuses.
    pub(crate) fn new(fd: RawFd, engine: &Arc<Engine>) -> io::Result<Self> {
        let source = engine.register(fd)?;
        Ok(Self { engine: engine.clone(), fd, source })
    }

    /// Makes a call that does not block, and answers as a completion does, when the descriptor is ready
    /// for it.
    pub(crate) fn poll_with(
        &self,
        direction: Direction,
        who: Waiter<'_>,
        mut call: impl FnMut() -> i32,
    ) -> Poll<Completion> {
        poll_ready(&self.source.readiness, direction, who, || (call(), false))
    }
}

impl Awaited for Watch {
    fn give_up(&self, id: WaitId) {
        self.source.readiness.give_up(id);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.engine.unregister(self.fd, &self.source);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl Awaited for Descriptor {
    fn give_up(&self, id: WaitId) {
        if let Some((source, _)) = self.source.get() {
            source.readiness.give_up(id);
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let Some((source, _)) = self.source.get() {
            self.engine.unregister(self.raw(), source);
        }
        if self.kind == Kind::Fake {
            fake::close(self.raw());
        }
    }
}
