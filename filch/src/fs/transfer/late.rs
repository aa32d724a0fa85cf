//! What is left of reads and writes that nobody waits for.
//!
//! L1. It keeps memory, descriptor and turn until the last completion (T3 of `transfer`), or until the file
//!     was ready for all of it (T5).
//! L2. What went wrong is told before the next one may ask.

use std::io;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::{Extent, Ready, Spot, poll_watched};
use crate::base::shim::Mutex;
use crate::fs::area::{Area, ReadOne, Way, WriteOne};
use crate::fs::handle::{Handle, Position, Turn};
use crate::io::files::HERE;
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{CANCELED, Completion, Late};

/// Keeps what the kernel may touch.
pub(super) struct Kept<A> {
    pub(super) _handle: Arc<Handle>,
    pub(super) _area: A,
}

impl<A: Area> Late for Kept<A> {
    fn finish(self: Box<Self>, _: Completion) {}
}

/// Who hears of what becomes of something that was left to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tells {
    Nobody,
    /// Who asks next (`Handle::late`).
    Next,
}

/// A read that nobody waits for, of what cannot seek. Holds the turn.
pub(super) struct Unread<A> {
    pub(super) handle: Arc<Handle>,
    pub(super) area: A,
    pub(super) done: usize,
    pub(super) spot: Spot,
    pub(super) tells: Tells,
}

impl<A: Area> Late for Unread<A> {
    fn finish(mut self: Box<Self>, completion: Completion) {
        debug_assert_eq!(self.handle.position, Position::None);
        let result = completion.to_io();
        self.done += *result.as_ref().unwrap_or(&0) as usize;
        // SAFETY: so many bytes were read.
        unsafe { self.area.note(self.done) };
        if let Some(turn) = &self.spot.turn {
            turn.stash_first(&self.area.copied(self.done));
        }
        let news = match result {
            Ok(0) => Some(Ok(())),
            // The thread that had submitted it ended: the next one begins anew.
            Err(_) if completion.result == CANCELED => None,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Some(Err(error)),
            _ => None,
        };
        if self.tells == Tells::Next && news.is_some() {
            self.handle.late().read = news;
        }
    }
}

/// A write that nobody waits for (T3). Holds the turn, if it has it.
pub(super) struct Leftover<A: Area> {
    pub(super) handle: Arc<Handle>,
    pub(super) area: A,
    pub(super) done: usize,
    pub(super) spot: Spot,
    pub(super) extent: Extent,
    pub(super) tells: Tells,
}

impl<A: Area> Leftover<A> {
    /// # Errors
    /// If the runtime has ended. What the kernel says is told later.
    pub(super) fn go_on(self: Box<Self>) -> io::Result<()> {
        if self.handle.watch.is_some() {
            Arc::new(Pusher(Mutex::new(Some(self)))).push();
            return Ok(());
        }
        self.fly()
    }

    /// Leaves the rest to the kernel.
    fn fly(mut self: Box<Self>) -> io::Result<()> {
        let handle = self.handle.clone();
        let offset = self.spot.offset(&handle, A::WAY, self.done)?;
        let request = Request::File(self.area.request(handle.raw(), self.done, offset));
        // SAFETY: M1 of `area`, the leftover keeps what the request points to.
        unsafe { handle.engine.start_orphan(&request, self) }.map_err(|_| ended())
    }
}

/// What a runtime's end leaves to say.
fn ended() -> io::Error {
    io::Error::other("the runtime that drives this file has ended")
}

impl<A: Area> Leftover<A> {
    /// Takes an answer of the kernel into account; how it has ended, if it has.
    fn advance(&mut self, completion: Completion) -> Option<io::Result<()>> {
        match completion.to_io() {
            Ok(count) => {
                self.done += count as usize;
                let rest = self.extent == Extent::All && self.done < self.area.len();
                match count {
                    _ if !rest => Some(Ok(())),
                    0 => Some(Err(io::ErrorKind::WriteZero.into())),
                    _ => None,
                }
            }
            // The thread that had submitted it ended; or the runtime did, and refuses it next.
            Err(_) if completion.result == CANCELED && self.handle.moves() => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Tells {
    /// Says how something has ended, if it was not well.
    fn tell(self, handle: &Handle, result: io::Result<()>) {
        if let (Self::Next, Err(error)) = (self, result) {
            handle.late().write = Some(error);
        }
    }
}

impl<A: Area> Late for Leftover<A> {
    fn finish(mut self: Box<Self>, completion: Completion) {
        let (handle, tells) = (self.handle.clone(), self.tells);
        match self.advance(completion) {
            None => tells.tell(&handle, self.go_on()),
            Some(result) => tells.tell(&handle, result),
        }
    }
}

/// Goes on with a leftover whenever the file is ready for more (T5).
struct Pusher<A: Area>(Mutex<Option<Box<Leftover<A>>>>);

impl<A: Area> Pusher<A> {
    fn push(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let cx = Context::from_waker(&waker);
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = loop {
            let Some(leftover) = &mut *slot else { return };
            match leftover.poll_watched(&cx) {
                // The waker keeps it.
                Poll::Pending => return,
                Poll::Ready(Err(error)) => break Some(Err(error)),
                Poll::Ready(Ok(Ready::ForCall)) => break None,
                Poll::Ready(Ok(Ready::Answered(result))) => {
                    let ended = leftover.advance(Completion { result, flags: 0 });
                    if ended.is_some() {
                        break ended;
                    }
                }
            }
        };
        let leftover = slot.take().expect("nobody else takes it");
        // Whom its end wakes is woken without the lock.
        drop(slot);
        let (handle, tells) = (leftover.handle.clone(), leftover.tells);
        match ended {
            None => tells.tell(&handle, leftover.fly()),
            // Told before it is dropped: then the next one may ask.
            Some(result) => {
                tells.tell(&handle, result);
                drop(leftover);
            }
        }
    }
}

impl<A: Area> Wake for Pusher<A> {
    fn wake(self: Arc<Self>) {
        self.push();
    }
}

impl<A: Area> Leftover<A> {
    /// Writes what the file takes, when it is ready.
    fn poll_watched(&mut self, cx: &Context<'_>) -> Poll<io::Result<Ready>> {
        let handle = &*self.handle;
        let watch = handle.watch.as_ref().expect("what is pushed is watched");
        let offset = self.spot.offset(handle, A::WAY, self.done)?;
        let request = self.area.request(handle.raw(), self.done, offset);
        // SAFETY: M1 of `area`, which is borrowed during the call.
        unsafe { poll_watched(handle, watch, Direction::Write, &request, cx.into()) }.map(Ok)
    }
}

impl<A: Area> Drop for Leftover<A> {
    fn drop(&mut self) {
        self.handle.changes();
        self.spot.move_on(&self.handle, Way::Write, self.done);
        drop(self.spot.turn.take());
        self.handle.abandoned.finish();
    }
}

/// Starts to write at the cursor, and leaves that to itself (B2 of `poll`).
///
/// # Errors
/// If the runtime has ended. What the kernel says is told later.
pub(in crate::fs) fn launch_write(
    handle: &Arc<Handle>,
    turn: Turn,
    bytes: Vec<u8>,
) -> io::Result<()> {
    handle.changes();
    handle.abandoned.add();
    let spot = Spot { start: turn.cursor(), turn: Some(turn) };
    let (handle, area) = (handle.clone(), WriteOne(bytes));
    let (extent, tells) = (Extent::All, Tells::Next);
    Box::new(Leftover { handle, area, done: 0, spot, extent, tells }).go_on()
}

/// Starts to read from what cannot seek, and leaves that to itself (B4 of `poll`).
///
/// # Errors
/// If the runtime has ended. What the kernel says is told later.
pub(in crate::fs) fn launch_read(handle: &Arc<Handle>, turn: Turn, len: usize) -> io::Result<()> {
    debug_assert_eq!(handle.position, Position::None);
    let spot = Spot { start: 0, turn: Some(turn) };
    let mut area = ReadOne(Vec::with_capacity(len));
    let request = Request::File(area.request(handle.raw(), 0, HERE));
    let late = Unread { handle: handle.clone(), area, done: 0, spot, tells: Tells::Next };
    // SAFETY: M1 of `area`, which is kept.
    unsafe { handle.engine.start_orphan(&request, Box::new(late)) }.map_err(|_| ended())
}
