//! How files look to `futures-io`.
//!
//! B1. Nothing of the caller's memory is used after a call has returned.
//! B2. A write that the file does not take at once is copied, answered, and runs to its end by itself; a
//!     later operation waits for it. Its error is told by the next write, flush, close or sync, and if the file
//!     is dropped before, by the hook (D9 of `handle`). Whoever waits for the group waits for the write (D8).
//! B3. A read that is not in memory goes into memory of the file's own, from where the cursor is; its bytes
//!     count as read when they are copied. If the cursor has moved by then, or the file was
//!     written to (D6 of `handle`), they are read anew.
//! B4. A read of what cannot seek is left to itself too, and its bytes lie in the stash (D4 of `handle`);
//!     unless it is watched (D7): then it is made when there is something to read.

use std::future::Future;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::area::BULK;
use super::file::{self, File};
use super::handle::{Position, Turn};
use super::transfer::{Ready, launch_read, launch_write, poll_watched};
use crate::io::files::{FileRequest, HERE, Thread};
use crate::io::readiness::Direction;
use crate::io::sys;
use crate::io::waiters::{Awaited, LazyId, Waiter};
use crate::task::budget::poll_counted;

/// Most bytes that are copied for one write, or read ahead. As Tokio's.
const OWN: usize = 2 << 20;

/// What a file waits for on behalf of `futures-io`.
#[derive(Default)]
pub(super) enum Pending {
    #[default]
    Nothing,
    /// B3.
    Read { future: Reading, from: u64, version: u64 },
    /// Where the file ends.
    End { future: Pin<Box<dyn Future<Output = io::Result<u64>> + Send>>, version: u64 },
}

type Reading = Pin<Box<dyn Future<Output = (io::Result<usize>, Vec<u8>)> + Send>>;

/// Polls of one file by `futures-io`, which come one after another for each kind (B3 of `io/waiters.rs`).
#[derive(Default)]
pub(super) struct Polls {
    pub(super) read: LazyId,
    /// Flushes and closes too.
    pub(super) write: LazyId,
    pub(super) seek: LazyId,
}

impl Drop for File {
    fn drop(&mut self) {
        // Nothing waits for the file any more.
        let Polls { read, write, seek } = &self.polls;
        for id in [read, write, seek].into_iter().filter_map(LazyId::known) {
            self.handle().give_up(id);
        }
    }
}

impl File {
    fn pending(&mut self) -> &mut Pending {
        self.pending.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for abandoned writes, and for the turn.
    fn poll_turn(&self, who: Waiter<'_>) -> Poll<Turn> {
        ready!(self.handle().poll_settled(who));
        self.handle().poll_turn(who)
    }

    /// Writes a copy of the caller's bytes, which are copied once it is their turn (B2).
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        copy: impl FnOnce() -> Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(poll_counted(cx, |cx| {
            self.poll_turn(Waiter::new(cx.waker(), &self.polls.write))
        }));
        self.handle().late().take_write()?;
        let bytes = copy();
        let len = bytes.len();
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        Poll::Ready(launch_write(self.handle(), turn, bytes).map(|()| len))
    }

    /// Reads what is in memory, without waiting; `None` if that is nothing.
    fn read_now(&self, buf: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
        let willing = &self.handle().reads_at_once;
        let len = buf.len().min(BULK) as u32;
        let (fd, thread) = (self.handle().raw(), Thread::Submitter);
        let request = FileRequest::Read { fd, buf: buf.as_mut_ptr(), len, offset, thread };
        while willing.is() {
            // SAFETY: the buffer is borrowed during the call.
            match unsafe { request.call_at_once() } {
                again if again == -libc::EAGAIN => return None,
                again if again == -libc::EINTR => {}
                never if never == -libc::EOPNOTSUPP => willing.refused(),
                result => return Some(sys::to_io(result).map(|count| count as usize)),
            }
        }
        None
    }

    /// Begins to read from the cursor (B3).
    fn read_ahead(&self, from: u64, len: usize) -> Pending {
        let (version, file) = (self.handle().version(), Self::from_handle(self.handle().clone()));
        let future = Box::pin(async move {
            let buf = Vec::with_capacity(len.min(OWN));
            file.read_at(buf, from).await
        });
        Pending::Read { future, from, version }
    }

    /// What was read ahead, if it still is what it was.
    fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        turn: &Turn,
        buf: &mut [u8],
    ) -> Poll<Option<io::Result<usize>>> {
        let now = self.handle().version();
        let Pending::Read { future, from, version } = self.pending() else {
            return Poll::Ready(None);
        };
        if *from != turn.cursor() || *version != now {
            *self.pending() = Pending::Nothing;
            return Poll::Ready(None);
        }
        let (result, bytes) = ready!(future.as_mut().poll(cx));
        *self.pending() = Pending::Nothing;
        Poll::Ready(Some(result.map(|count| {
            let count = count.min(buf.len());
            buf[..count].copy_from_slice(&bytes[..count]);
            count
        })))
    }

    fn poll_read_seekable(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
        turn: &Turn,
    ) -> Poll<io::Result<usize>> {
        let result = loop {
            if let Some(result) = ready!(self.poll_ahead(cx, turn, buf)) {
                break result;
            }
            if let Some(result) = self.read_now(buf, turn.cursor()) {
                break result;
            }
            *self.pending() = self.read_ahead(turn.cursor(), buf.len());
        };
        if let Ok(count) = result {
            turn.move_to(turn.cursor() + count as u64);
        }
        Poll::Ready(result)
    }

    /// A read of what is watched, when it is ready (D7 of `handle`); nothing if it takes another.
    fn poll_read_ready(&self, who: Waiter<'_>, buf: &mut [u8]) -> Poll<Option<io::Result<usize>>> {
        let handle = self.handle();
        let Some(watch) = &handle.watch else { return Poll::Ready(None) };
        let (fd, len, thread) = (handle.raw(), buf.len().min(OWN) as u32, Thread::Submitter);
        let request = FileRequest::Read { fd, buf: buf.as_mut_ptr(), len, offset: HERE, thread };
        // SAFETY: the buffer is borrowed during the call.
        let ready = unsafe { poll_watched(handle, watch, Direction::Read, &request, who) };
        Poll::Ready(match ready!(ready) {
            Ready::Answered(result) => Some(sys::to_io(result).map(|count| count as usize)),
            Ready::ForCall => None,
        })
    }

    /// B4.
    fn poll_read_stream(
        &self,
        who: Waiter<'_>,
        buf: &mut [u8],
        mut turn: Turn,
    ) -> Poll<io::Result<usize>> {
        loop {
            let count = turn.unstash(|bytes| {
                let count = bytes.len().min(buf.len());
                buf[..count].copy_from_slice(&bytes[..count]);
                count
            });
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            if let Some(end) = self.handle().late().read.take() {
                return Poll::Ready(end.map(|()| 0));
            }
            if let Some(result) = ready!(self.poll_read_ready(who, buf)) {
                return Poll::Ready(result);
            }
            launch_read(self.handle(), turn, buf.len().min(OWN))?;
            turn = ready!(self.handle().poll_turn(who));
        }
    }
}

impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| {
            if buf.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let who = Waiter::new(cx.waker(), &self.polls.read);
            let turn = ready!(self.poll_turn(who));
            match self.handle().position {
                Position::None => self.poll_read_stream(who, buf, turn),
                Position::Cursor | Position::Append => self.poll_read_seekable(cx, buf, &turn),
            }
        })
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, || buf[..buf.len().min(OWN)].to_vec())
    }

    /// As `poll_write`, of all buffers together: they are copied anyway.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, || {
            let mut bytes =
                Vec::with_capacity(bufs.iter().map(|buf| buf.len()).sum::<usize>().min(OWN));
            for buf in bufs {
                bytes.extend_from_slice(&buf[..buf.len().min(OWN - bytes.len())]);
            }
            bytes
        })
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(poll_counted(cx, |cx| {
            self.handle().poll_settled(Waiter::new(cx.waker(), &self.polls.write))
        }));
        Poll::Ready(self.handle().late().take_write())
    }

    /// Waits for writes; the file is closed when it is dropped.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn poll_seek(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        poll_counted(cx, |cx| self.poll_seek_counted(cx, to))
    }
}

impl File {
    fn poll_seek_counted(&mut self, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        let turn = ready!(self.poll_turn(Waiter::new(cx.waker(), &self.polls.seek)));
        if !matches!(to, SeekFrom::End(_)) {
            return Poll::Ready(file::seek(self.handle(), &turn, to, None));
        }
        let now = self.handle().version();
        if !matches!(self.pending(), Pending::End { version, .. } if *version == now) {
            let future = Box::pin(file::end_of(self.handle().clone()));
            *self.pending() = Pending::End { future, version: now };
        }
        let Pending::End { future, .. } = self.pending() else { unreachable!("set above") };
        let end = ready!(future.as_mut().poll(cx));
        *self.pending() = Pending::Nothing;
        Poll::Ready(file::seek(self.handle(), &turn, to, Some(end?)))
    }
}
