//! What is left of reads and writes that nobody waits for.
//!
//! L1. It keeps memory, descriptor and turn until the last completion (T3 of `transfer`), or until the file
//!     was ready for all of it (T5).
//! L2. What went wrong is told before the next one may ask.
//! L3. A write that always ends by itself (D8 of `handle`) does so although no driver takes it any more, or the thread that
//!     was to make the call ends: then it is made here, by a call that may block for a moment.

use std::io;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::{Extent, Ready, Spot, poll_watched};
use crate::base::shim::Mutex;
use crate::fs::area::{Area, ReadOne, Way, WriteOne};
use crate::fs::handle::{Handle, Position, Turn, Units};
use crate::io::cause::Cause;
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

/// How a write that nobody waits for goes on.
enum Onward {
    /// By another request.
    Again,
    /// It was cut short by the end of the runtime: by a call, here (L3).
    Here,
    Ended(io::Result<()>),
}

/// A write that nobody waits for (T3). Holds the turn, if it has it.
pub(super) struct Leftover<A: Area> {
    pub(super) handle: Arc<Handle>,
    pub(super) area: A,
    pub(super) done: usize,
    pub(super) spot: Spot,
    pub(super) extent: Extent,
    pub(super) tells: Tells,
    /// Given back last, when everything has been told (D8 of `handle`).
    pub(super) _units: Units,
}

/// A write that could not go on, and why.
type Refused<A> = (io::Error, Box<Leftover<A>>);

impl<A: Area> Leftover<A> {
    /// # Errors
    /// If the runtime has ended. What the kernel says is told later.
    fn go_on(self: Box<Self>) -> Result<(), Refused<A>> {
        if self.handle.watch.is_some() {
            Arc::new(Pusher(Mutex::new(Some(self)))).push();
            return Ok(());
        }
        self.fly()
    }

    /// Leaves the rest to the kernel.
    fn fly(mut self: Box<Self>) -> Result<(), Refused<A>> {
        // Not the handle: once begun, the write may end elsewhere, and the last holder is to be it (D8).
        let engine = self.handle.engine.clone();
        let offset = match self.spot.offset(&self.handle, A::WAY, self.done) {
            Ok(offset) => offset,
            Err(error) => return Err((error, self)),
        };
        let request = self.area.request(self.handle.raw(), self.done, offset);
        // SAFETY: M1 of `area`.
        let request = Request::File(unsafe { self.handle.take_ready(request) });
        // SAFETY: M1 of `area`, the leftover keeps what the request points to.
        unsafe { engine.start_orphan(&request, self) }.map_err(|this| (ended(), this))
    }

    /// Goes on with a write that has been answered (L3).
    pub(super) fn go_on_anywhere(self: Box<Self>) {
        if let Err((error, this)) = self.go_on() {
            this.end_here(error);
        }
    }

    /// No driver takes it: what can be written here is (L3).
    fn end_here(mut self, error: io::Error) {
        let result = if self.handle.writes_end() { self.write_here() } else { Err(error) };
        self.end(result);
    }

    /// Writes the rest by calls.
    fn write_here(&mut self) -> io::Result<()> {
        loop {
            let offset = self.spot.offset(&self.handle, A::WAY, self.done)?;
            let request = self.area.request(self.handle.raw(), self.done, offset);
            // SAFETY: M1 of `area`, which is borrowed during the call.
            let result = unsafe { request.call() };
            match self.advance(Completion { result, flags: 0 }) {
                Onward::Again if result != CANCELED => {}
                Onward::Again | Onward::Here => return Err(io::Error::from_raw_os_error(-result)),
                Onward::Ended(result) => return result,
            }
        }
    }

    /// Says how it has ended, and lets the next one come (L2).
    fn end(self, result: io::Result<()>) {
        if let (Tells::Next, Err(error)) = (self.tells, result) {
            let offset = self.spot.offset(&self.handle, A::WAY, self.done).unwrap_or(HERE);
            self.handle.lose(error, offset, self.area.len() - self.done);
        }
    }
}

/// What a runtime's end leaves to say.
fn ended() -> io::Error {
    io::Error::other("the runtime that drives this file has ended")
}

impl<A: Area> Leftover<A> {
    /// Takes an answer of the kernel into account.
    fn advance(&mut self, completion: Completion) -> Onward {
        match completion.to_io() {
            Ok(count) => {
                // T6.
                let took_all = count as usize >= self.area.asked(self.done);
                self.done += count as usize;
                let rest = (self.extent == Extent::All || took_all) && self.done < self.area.len();
                match count {
                    _ if !rest => Onward::Ended(Ok(())),
                    0 => Onward::Ended(Err(io::ErrorKind::WriteZero.into())),
                    _ => Onward::Again,
                }
            }
            // The thread that had submitted it ended; or the runtime did, and refuses it next.
            Err(_) if completion.result == CANCELED && self.handle.moves() => Onward::Again,
            Err(_) if completion.result == CANCELED => Onward::Here,
            // A call that no thread has made, in place of a ring that was denied.
            Err(_) if completion.result == Cause::Ended.code() => Onward::Here,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Onward::Again,
            Err(error) => Onward::Ended(Err(error)),
        }
    }
}

impl<A: Area> Late for Leftover<A> {
    fn finish(mut self: Box<Self>, completion: Completion) {
        match self.advance(completion) {
            Onward::Again => self.go_on_anywhere(),
            Onward::Here => self.end_here(ended()),
            Onward::Ended(result) => self.end(result),
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
        let onward = loop {
            let Some(leftover) = &mut *slot else { return };
            match leftover.poll_watched(&cx) {
                // The waker keeps it.
                Poll::Pending => return,
                Poll::Ready(Err(error)) => break Onward::Ended(Err(error)),
                Poll::Ready(Ok(Ready::ForCall)) => break Onward::Again,
                Poll::Ready(Ok(Ready::Answered(result))) => {
                    match leftover.advance(Completion { result, flags: 0 }) {
                        Onward::Again => {}
                        onward => break onward,
                    }
                }
            }
        };
        let leftover = slot.take().expect("nobody else takes it");
        // Whom its end wakes is woken without the lock.
        drop(slot);
        match onward {
            Onward::Again => {
                if let Err((error, leftover)) = leftover.fly() {
                    leftover.end(Err(error));
                }
            }
            Onward::Here => leftover.end(Err(ended())),
            Onward::Ended(result) => leftover.end(result),
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
    let (extent, tells, _units) = (Extent::All, Tells::Next, handle.units());
    let leftover = Leftover { handle, area, done: 0, spot, extent, tells, _units };
    Box::new(leftover).go_on().map_err(|(error, _)| error)
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
