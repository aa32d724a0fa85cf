//! Reads and writes of a file, as futures that own their memory.
//!
//! T1. What is in memory is read at once, by a call that would not wait; so is what the file system
//!     writes without waiting. Only the rest is an operation in flight.
//! T2. A read without an offset moves the cursor when its result is handed out, so a dropped one has
//!     not moved it (D2 of `handle`).
//! T3. A write that is dropped before it started has not happened. One that is dropped in flight runs to
//!     its end: the leftover keeps memory, descriptor and turn, and later operations wait for it (D5).
//! T4. Between the first byte and the result, a transfer is in flight whenever its future waits: so
//!     dropping it leaves nothing half done but what T3 finishes.
//!
//! Not here: the memory (`area`), what the kernel is asked (`io/files.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::area::{Area, BULK, ReadMany, ReadOne, Way, WriteMany, WriteOne};
use super::handle::{Handle, Position, Turn};
use crate::io::descriptor::Descriptor;
use crate::io::driver::Cancel;
use crate::io::files::HERE;
use crate::io::op::{Op, Operation};
use crate::io::request::Request;
use crate::io::slots::{CANCELED, Completion, Late};
use crate::io::{IoBuf, IoBufMut, sys};
use crate::task::budget::poll_proceed;

/// How much a transfer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What there is, or what fits.
    Some,
    /// Everything.
    All,
}

/// Where a transfer is to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    At(u64),
    /// Where the cursor will be when it is this transfer's turn.
    Cursor,
}

/// Where it has started.
struct Spot {
    start: u64,
    /// If it started at the cursor.
    turn: Option<Turn>,
}

impl Spot {
    /// The offset behind the first `done` bytes, for the kernel.
    fn offset(&self, handle: &Handle, way: Way, done: usize) -> io::Result<u64> {
        match (&self.turn, handle.position) {
            (Some(_), Position::None) => return Ok(HERE),
            (Some(_), Position::Append) if way == Way::Write => return Ok(HERE),
            // A ring would read or write all the same.
            (None, Position::None) => return Err(io::Error::from_raw_os_error(libc::ESPIPE)),
            _ => {}
        }
        let offset = self.start.checked_add(done as u64);
        let offset = offset.filter(|&offset| i64::try_from(offset).is_ok());
        offset.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// So many bytes were transferred: the cursor follows (D2, D3).
    fn move_on(&self, handle: &Handle, way: Way, count: usize) {
        let Some(turn) = &self.turn else { return };
        match (handle.position, way) {
            (Position::None, _) => {}
            (Position::Append, Way::Write) if count > 0 => {
                // Where it is now is known to the kernel alone, and does not block.
                if let Ok(end) = sys::lseek(handle.raw(), 0, libc::SEEK_CUR) {
                    turn.move_to(end);
                }
            }
            _ => turn.move_to(self.start + count as u64),
        }
    }
}

/// A piece of a transfer, in flight. It holds the file, and does not borrow it: a future that is
/// forgotten must not leave the number of a closed descriptor behind.
struct Piece<A> {
    handle: Arc<Handle>,
    area: A,
    done: usize,
    offset: u64,
    spot: Spot,
    extent: Extent,
}

// SAFETY: M1 of `area`; the late one keeps the area, and the handle too.
unsafe impl<A: Area> Operation for Piece<A> {
    type Output = (Completion, A, Spot);

    fn request(&mut self) -> Request {
        Request::File(self.area.request(self.handle.raw(), self.done, self.offset))
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        None
    }

    fn finish(self, completion: Completion) -> (Completion, A, Spot) {
        (completion, self.area, self.spot)
    }

    fn into_late(self) -> Box<dyn Late> {
        let Self { handle, area, done, spot, extent, .. } = self;
        match A::WAY {
            Way::Write => {
                handle.abandoned.add();
                let tells = Tells::Nobody;
                Box::new(Leftover { handle, area, done, spot, extent, tells })
            }
            Way::Read if handle.position == Position::None => {
                Box::new(Unread { handle, area, done, spot, tells: Tells::Nobody })
            }
            Way::Read => {
                // T2: the next one need not wait for it.
                drop(spot);
                Box::new(Kept { _handle: handle, _area: area })
            }
        }
    }

    fn cancels(&self) -> Cancel {
        match A::WAY {
            Way::Read => Cancel::Yes,
            // T3.
            Way::Write => Cancel::No,
        }
    }
}

/// Keeps what the kernel may touch.
struct Kept<A> {
    _handle: Arc<Handle>,
    _area: A,
}

impl<A: Area> Late for Kept<A> {
    fn finish(self: Box<Self>, _: Completion) {}
}

/// Who hears of what becomes of something that was left to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    Nobody,
    /// Who asks next (`Handle::late`).
    Next,
}

/// A read that nobody waits for, of what cannot seek. Holds the turn.
struct Unread<A> {
    handle: Arc<Handle>,
    area: A,
    done: usize,
    spot: Spot,
    tells: Tells,
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
struct Leftover<A: Area> {
    handle: Arc<Handle>,
    area: A,
    done: usize,
    spot: Spot,
    extent: Extent,
    tells: Tells,
}

impl<A: Area> Leftover<A> {
    fn go_on(mut self: Box<Self>) -> io::Result<()> {
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

impl<A: Area> Late for Leftover<A> {
    fn finish(mut self: Box<Self>, completion: Completion) {
        let (handle, tells) = (self.handle.clone(), self.tells);
        let result = match completion.to_io() {
            Ok(count) => {
                self.done += count as usize;
                let rest = self.extent == Extent::All && self.done < self.area.len();
                match count {
                    _ if !rest => Ok(()),
                    0 => Err(io::ErrorKind::WriteZero.into()),
                    _ => self.go_on(),
                }
            }
            // The thread that had submitted it ended; or the runtime did, and refuses it next.
            Err(_) if completion.result == CANCELED && self.handle.moves() => self.go_on(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.go_on(),
            Err(error) => Err(error),
        };
        if let (Tells::Next, Err(error)) = (tells, result) {
            handle.late().write = Some(error);
        }
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
pub(super) fn launch_write(handle: &Arc<Handle>, turn: Turn, bytes: Vec<u8>) -> io::Result<()> {
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
pub(super) fn launch_read(handle: &Arc<Handle>, turn: Turn, len: usize) -> io::Result<()> {
    debug_assert_eq!(handle.position, Position::None);
    let spot = Spot { start: 0, turn: Some(turn) };
    let mut area = ReadOne(Vec::with_capacity(len));
    let request = Request::File(area.request(handle.raw(), 0, HERE));
    let late = Unread { handle: handle.clone(), area, done: 0, spot, tells: Tells::Next };
    // SAFETY: M1 of `area`, which is kept.
    unsafe { handle.engine.start_orphan(&request, Box::new(late)) }.map_err(|_| ended())
}

/// See the file header.
pub(super) struct Transfer<'a, A: Area> {
    handle: &'a Arc<Handle>,
    place: Place,
    extent: Extent,
    done: usize,
    cancelled: bool,
    stage: Stage<'a, A>,
}

enum Stage<'a, A: Area> {
    /// Not a byte yet.
    Start(A),
    Flying(Op<'a, Piece<A>>),
    Over,
}

/// What a transfer gives in the end.
type Outcome<A> = (io::Result<usize>, <A as Area>::Buffers);

impl<'a, A: Area> Transfer<'a, A> {
    pub(super) fn new(handle: &'a Arc<Handle>, area: A, place: Place, extent: Extent) -> Self {
        Self { handle, place, extent, done: 0, cancelled: false, stage: Stage::Start(area) }
    }

    fn ask_to_cancel(&mut self) {
        self.cancelled = true;
        if let Stage::Flying(op) = &mut self.stage {
            op.cancel();
        }
    }

    /// Waits for what has to come first; then, where to start.
    fn poll_spot(&self, cx: &Context<'_>) -> Poll<Spot> {
        ready!(poll_proceed(cx));
        ready!(self.handle.poll_settled(cx));
        if A::WAY == Way::Write {
            self.handle.changes();
        }
        Poll::Ready(match self.place {
            Place::At(start) => Spot { start, turn: None },
            Place::Cursor => {
                let turn = ready!(self.handle.poll_turn(cx));
                Spot { start: turn.cursor(), turn: Some(turn) }
            }
        })
    }

    /// Goes as far as possible without waiting (T1); the result, if that is the end.
    fn try_now(&mut self, area: &mut A, spot: &Spot) -> Option<io::Result<usize>> {
        if area.len() == 0 {
            return Some(Ok(0));
        }
        if A::WAY == Way::Read
            && let Some(result) = self.unstash(area, spot)
        {
            return Some(result);
        }
        let willing = match A::WAY {
            Way::Read => &self.handle.reads_at_once,
            Way::Write => &self.handle.writes_at_once,
        };
        while willing.is() && area.len() - self.done < BULK {
            let offset = match spot.offset(self.handle, A::WAY, self.done) {
                Ok(offset) => offset,
                Err(error) => return Some(Err(error)),
            };
            let request = area.request(self.handle.raw(), self.done, offset);
            // SAFETY: M1 of `area`, which is borrowed during the call.
            match unsafe { request.call_at_once() } {
                again if again == -libc::EAGAIN => return None,
                never if never == -libc::EOPNOTSUPP => willing.refused(),
                result => {
                    if let Some(result) = self.advance(result, area, Short::MayBeMore) {
                        return Some(result);
                    }
                }
            }
        }
        None
    }

    /// What earlier reads left behind (D4 of `handle`).
    fn unstash(&mut self, area: &mut A, spot: &Spot) -> Option<io::Result<usize>> {
        let turn = spot.turn.as_ref().filter(|_| self.handle.position == Position::None)?;
        let count = turn.unstash(|bytes| area.fill(self.done, bytes));
        if count == 0 {
            return None;
        }
        self.done += count;
        // SAFETY: so many bytes were filled.
        unsafe { area.note(self.done) };
        (self.extent == Extent::Some || self.done == area.len()).then_some(Ok(self.done))
    }

    /// Takes an answer of the kernel into account; the result, if that is the end.
    fn advance(&mut self, result: i32, area: &mut A, short: Short) -> Option<io::Result<usize>> {
        let count = match sys::to_io(result) {
            Ok(count) => count as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !self.cancelled => {
                return None;
            }
            // What was read or written before was, and the next one will see the error again.
            Err(_) if self.done > 0 && (self.cancelled || self.extent == Extent::Some) => {
                return Some(Ok(self.done));
            }
            // Only a cancelled one is not begun anew.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Some(Err(io::Error::from_raw_os_error(libc::ECANCELED)));
            }
            Err(error) => return Some(Err(error)),
        };
        self.done += count;
        if A::WAY == Way::Read {
            // SAFETY: so many bytes were read.
            unsafe { area.note(self.done) };
        }
        let full = self.done == area.len();
        match (self.extent, A::WAY) {
            _ if full || self.cancelled => Some(Ok(self.done)),
            (Extent::Some, Way::Write) => Some(Ok(self.done)),
            (Extent::Some, Way::Read) => {
                let over = count == 0 || short == Short::IsAll;
                (over || self.handle.position == Position::None).then_some(Ok(self.done))
            }
            (Extent::All, Way::Read) if count == 0 => {
                Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before")))
            }
            (Extent::All, Way::Write) if count == 0 => {
                Some(Err(io::Error::new(io::ErrorKind::WriteZero, "the file takes no more")))
            }
            (Extent::All, _) => None,
        }
    }

    /// Leaves the rest to the kernel; the area is given back if there is no such place.
    fn fly(&mut self, area: A, spot: Spot) -> Result<(), (io::Error, A, Spot)> {
        let handle = self.handle;
        let offset = match spot.offset(handle, A::WAY, self.done) {
            Ok(offset) => offset,
            Err(error) => return Err((error, area, spot)),
        };
        let (done, extent) = (self.done, self.extent);
        let piece = Piece { handle: handle.clone(), area, done, offset, spot, extent };
        let mut op = Op::new(&handle.engine, piece);
        if self.cancelled {
            op.cancel();
        }
        self.stage = Stage::Flying(op);
        Ok(())
    }

    /// Hands the result out.
    fn end(&self, result: io::Result<usize>, area: A, spot: &Spot) -> Poll<Outcome<A>> {
        match (A::WAY, &result) {
            (Way::Write, _) => {
                self.handle.changes();
                spot.move_on(self.handle, Way::Write, self.done);
            }
            (Way::Read, Ok(count)) => spot.move_on(self.handle, Way::Read, *count),
            (Way::Read, Err(_)) => {
                let cannot_seek = self.handle.position == Position::None && self.done > 0;
                if let Some(turn) = spot.turn.as_ref().filter(|_| cannot_seek) {
                    turn.stash_first(&area.copied(self.done));
                }
            }
        }
        Poll::Ready((result, area.into_buffers()))
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<A>> {
        let (mut area, mut spot, mut ended) = match std::mem::replace(&mut self.stage, Stage::Over)
        {
            Stage::Start(area) if self.cancelled => {
                let error = io::Error::from_raw_os_error(libc::ECANCELED);
                return Poll::Ready((Err(error), area.into_buffers()));
            }
            Stage::Start(mut area) => {
                let Poll::Ready(spot) = self.poll_spot(cx) else {
                    self.stage = Stage::Start(area);
                    return Poll::Pending;
                };
                let ended = self.try_now(&mut area, &spot);
                (area, spot, ended)
            }
            Stage::Flying(op) => {
                self.stage = Stage::Flying(op);
                ready!(self.poll_flight(cx))
            }
            Stage::Over => panic!("a read or write was polled after its end"),
        };
        loop {
            if let Some(result) = ended {
                return self.end(result, area, &spot);
            }
            if let Err((error, area, spot)) = self.fly(area, spot) {
                return self.end(Err(error), area, &spot);
            }
            (area, spot, ended) = ready!(self.poll_flight(cx));
        }
    }

    /// Polls what is in flight; what came back, and the result if that is the end.
    fn poll_flight(&mut self, cx: &mut Context<'_>) -> Poll<Landed<A>> {
        let Stage::Flying(op) = &mut self.stage else { unreachable!("set by `fly`") };
        let (completion, mut area, spot) = ready!(Pin::new(op).poll(cx));
        self.stage = Stage::Over;
        let short = if area.is_cut(self.done) { Short::MayBeMore } else { Short::IsAll };
        let ended = self.advance(completion.result, &mut area, short);
        Poll::Ready((area, spot, ended))
    }
}

/// What a flight brings back.
type Landed<A> = (A, Spot, Option<io::Result<usize>>);

/// What fewer bytes than asked for mean, if it is not the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    /// More may be there: not in memory, or not asked for.
    MayBeMore,
    IsAll,
}

macro_rules! transfers {
    ($($(#[$doc:meta])* $name:ident<$bound:ident> = $area:ident => $back:ty;)*) => {$(
        $(#[$doc])*
        #[must_use = "futures do nothing unless awaited"]
        pub struct $name<'a, B: $bound + Unpin>(pub(super) Transfer<'a, $area<B>>);

        impl<B: $bound + Unpin> $name<'_, B> {
            /// Ends it early. How many bytes went is the result, or an error if none did; the memory
            /// comes back in any case.
            ///
            /// ```
            /// use std::pin::pin;
            /// use filch::fs::File;
            /// # filch::block_on(async {
            /// let file = File::open("Cargo.toml").await?;
            /// let read = pin!(file.read_at(vec![0; 10], 0));
            /// let (result, buffer) = read.cancel().await; // not even begun
            /// assert!(result.is_err());
            /// assert_eq!(buffer.len(), 10);
            /// # std::io::Result::Ok(()) }).unwrap();
            /// ```
            pub async fn cancel(mut self: Pin<&mut Self>) -> (io::Result<usize>, $back) {
                self.0.ask_to_cancel();
                self.await
            }
        }

        impl<B: $bound + Unpin> Future for $name<'_, B> {
            type Output = (io::Result<usize>, $back);

            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                self.0.poll_outcome(cx)
            }
        }

        impl<B: $bound + Unpin> std::fmt::Debug for $name<'_, B> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let done = &self.0.done;
                f.debug_struct(stringify!($name)).field("done", done).finish_non_exhaustive()
            }
        }
    )*};
}

transfers! {
    /// A read under way; see [`File::read`](super::File::read) and its siblings.
    Read<IoBufMut> = ReadOne => B;
    /// A write under way; see [`File::write`](super::File::write) and its siblings.
    Write<IoBuf> = WriteOne => B;
    /// A read into several buffers under way; see [`File::read_vectored`](super::File::read_vectored).
    ReadVectored<IoBufMut> = ReadMany => Vec<B>;
    /// A write from several buffers under way; see
    /// [`File::write_vectored`](super::File::write_vectored).
    WriteVectored<IoBuf> = WriteMany => Vec<B>;
}
