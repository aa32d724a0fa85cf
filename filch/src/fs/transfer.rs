//! Reads and writes of a file, as futures that own their memory.
//!
//! T1. What is in memory is read at once, by a call that would not wait; so is what the file system
//!     writes without waiting. Only the rest is an operation in flight.
//! T2. A read without an offset moves the cursor when its result is handed out, so a dropped one has
//!     not moved it (D2 of `handle`).
//! T3. A write that is dropped before it started has not happened. One that is dropped in flight runs to
//!     its end: the leftover keeps memory, descriptor and turn, and later operations wait for it (D5). So does the
//!     group (D8).
//! T4. Between the first byte and the result, a transfer is in flight whenever its future waits, or waits
//!     for readiness (T5): so dropping it leaves nothing half done but what T3 finishes.
//! T5. What is watched (D7 of `handle`) is read and written by calls when it is ready, which do not wait. Its
//!     turn is kept meanwhile. Dropped, a write goes on as a leftover, as one in flight does, and what a
//!     read has taken goes to the stash. A kernel that cannot be asked not to wait is asked once
//!     it is ready, on a thread.
//! T6. One request takes only so many buffers and bytes (`area`). When the kernel has taken all that such a request
//!     asked for, the transfer goes on with the rest; so does its leftover.
//!
//! Not here: the memory (`area`), what the kernel is asked (`io/files.rs`), what becomes of those that nobody
//! waits for (`transfer/late.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::area::{Area, BULK, ReadMany, ReadOne, Way, WriteMany, WriteOne};
use super::handle::{Blocks, Handle, Position, Turn};
use crate::io::descriptor::{Descriptor, Watch};
use crate::io::driver::Cancel;
use crate::io::files::{FileRequest, HERE};
use crate::io::op::{Op, Operation};
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{CANCELED, Completion, Late};
use crate::io::waiters::{Waiter, Waits};
use crate::io::{IoBuf, IoBufMut, sys};
use crate::task::budget::poll_counted;

mod late;

use self::late::{Kept, Leftover, Tells, Unread};
pub(super) use self::late::{launch_read, launch_write};

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

/// What came of the wait for readiness (T5).
#[must_use]
pub(super) enum Ready {
    /// The kernel's answer.
    Answered(i32),
    /// It is ready, but the kernel cannot be asked not to wait.
    ForCall,
}

/// Waits until a file is ready, and reads or writes what it takes then.
///
/// # Safety
/// R1 of `io/request.rs` holds during the call.
pub(super) unsafe fn poll_watched(
    handle: &Handle,
    watch: &Watch,
    direction: Direction,
    request: &FileRequest,
    who: Waiter<'_>,
) -> Poll<Ready> {
    let willing = match direction {
        Direction::Read => &handle.reads_at_once,
        Direction::Write => &handle.writes_at_once,
    };
    let mut asked = true;
    let completion = ready!(watch.poll_with(direction, who, || {
        if handle.blocks != Blocks::Yes {
            // SAFETY: by the caller's promise.
            return unsafe { request.call() };
        }
        if willing.is() {
            // SAFETY: by the caller's promise.
            let result = unsafe { request.call_at_once() };
            if result != -libc::EOPNOTSUPP {
                return result;
            }
            willing.refused();
        }
        asked = false;
        sys::is_ready(handle.raw(), direction)
    }));
    Poll::Ready(match completion.result {
        result if asked || result < 0 => Ready::Answered(result),
        _ => Ready::ForCall,
    })
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
        let request = self.area.request(self.handle.raw(), self.done, self.offset);
        // SAFETY: M1 of `area`.
        Request::File(unsafe { self.handle.take_ready(request) })
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
                let (tells, _units) = (Tells::Nobody, handle.units());
                Box::new(Leftover { handle, area, done, spot, extent, tells, _units })
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

/// See the file header.
pub(super) struct Transfer<'a, A: Area> {
    handle: &'a Arc<Handle>,
    place: Place,
    extent: Extent,
    done: usize,
    cancelled: bool,
    waits: Waits<'a, Handle>,
    stage: Stage<'a, A>,
}

enum Stage<'a, A: Area> {
    /// Not a byte yet.
    Start(A),
    /// Until it is ready (T5).
    Waiting(A, Spot),
    Flying(Op<'a, Piece<A>>),
    Over,
}

/// What a transfer gives in the end.
type Outcome<A> = (io::Result<usize>, <A as Area>::Buffers);

impl<'a, A: Area> Transfer<'a, A> {
    pub(super) fn new(handle: &'a Arc<Handle>, area: A, place: Place, extent: Extent) -> Self {
        let (waits, stage) = (Waits::at(&**handle), Stage::Start(area));
        Self { handle, place, extent, done: 0, cancelled: false, waits, stage }
    }

    fn ask_to_cancel(&mut self) {
        self.cancelled = true;
        if let Stage::Flying(op) = &mut self.stage {
            op.cancel();
        }
    }

    /// Waits for what has to come first; then, where to start.
    fn poll_spot(&mut self, cx: &Context<'_>) -> Poll<Spot> {
        let (handle, place) = (self.handle, self.place);
        self.waits.poll(cx, |_, who| {
            ready!(handle.poll_settled(who));
            if A::WAY == Way::Write {
                handle.changes();
            }
            Poll::Ready(match place {
                Place::At(start) => Spot { start, turn: None },
                Place::Cursor => {
                    let turn = ready!(handle.poll_turn(who));
                    Spot { start: turn.cursor(), turn: Some(turn) }
                }
            })
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
        while self.handle.watch.is_none() && willing.is() && area.len() - self.done < BULK {
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
        let took_all = count >= area.asked(self.done);
        self.done += count;
        if A::WAY == Way::Read {
            // SAFETY: so many bytes were read.
            unsafe { area.note(self.done) };
        }
        let full = self.done == area.len();
        match (self.extent, A::WAY) {
            _ if full || self.cancelled => Some(Ok(self.done)),
            (Extent::Some, way) => {
                // T6. What cannot seek would wait for more.
                let goes_on = match (self.handle.position, way) {
                    (Position::None, Way::Read) => false,
                    (Position::None, Way::Write) => took_all,
                    _ => took_all || short == Short::MayBeMore,
                };
                (count == 0 || !goes_on).then_some(Ok(self.done))
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

    /// Goes on whenever the file is ready (T5); the result, if that is the end. Without one, it is to fly.
    fn poll_ready(
        &mut self,
        cx: &Context<'_>,
        area: &mut A,
        spot: &Spot,
    ) -> Poll<Option<io::Result<usize>>> {
        let Some(watch) = &self.handle.watch else { return Poll::Ready(None) };
        loop {
            if self.cancelled {
                return Poll::Ready(self.advance(CANCELED, area, Short::IsAll));
            }
            let offset = match spot.offset(self.handle, A::WAY, self.done) {
                Ok(offset) => offset,
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            let request = area.request(self.handle.raw(), self.done, offset);
            let direction = A::WAY.direction();
            let ready = self.waits.poll(cx, |handle, who| {
                // SAFETY: M1 of `area`, which is borrowed during the call.
                unsafe { poll_watched(handle, watch, direction, &request, who) }
            });
            let Ready::Answered(answer) = ready!(ready) else { return Poll::Ready(None) };
            if let Some(result) = self.advance(answer, area, Short::MayBeMore) {
                return Poll::Ready(Some(result));
            }
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
            Stage::Waiting(area, spot) => (area, spot, None),
            Stage::Flying(op) => {
                self.stage = Stage::Flying(op);
                ready!(self.poll_flight(cx))
            }
            Stage::Over => panic!("a read or write was polled after its end"),
        };
        loop {
            if ended.is_none() {
                let Poll::Ready(now) = self.poll_ready(cx, &mut area, &spot) else {
                    self.stage = Stage::Waiting(area, spot);
                    return Poll::Pending;
                };
                ended = now;
            }
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
        let ended = self.advance(completion.result, &mut area, Short::IsAll);
        Poll::Ready((area, spot, ended))
    }
}

impl<A: Area> Drop for Transfer<'_, A> {
    /// T5. What is in flight sees to itself.
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let Stage::Waiting(area, spot) = stage else { return };
        match (A::WAY, &spot.turn) {
            (Way::Read, turn) => {
                let turn = turn.as_ref().expect("what cannot seek has no other place");
                turn.stash_first(&area.copied(self.done));
            }
            (Way::Write, _) => {
                self.handle.abandoned.add();
                let (handle, done, extent) = (self.handle.clone(), self.done, self.extent);
                let (tells, _units) = (Tells::Nobody, handle.units());
                let leftover = Leftover { handle, area, done, spot, extent, tells, _units };
                Box::new(leftover).go_on_anywhere();
            }
        }
    }
}

/// What a flight brings back.
type Landed<A> = (A, Spot, Option<io::Result<usize>>);

/// What fewer bytes than asked for mean, if it is not the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    /// More may be there: not in memory.
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
                poll_counted(cx, |cx| self.0.poll_outcome(cx))
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
