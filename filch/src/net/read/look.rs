//! Reads that take nothing, wait for nothing, or take everything.
//!
//! The caller's memory is borrowed: bytes come from stash and stream, or by a call that is made while
//! the future is polled (K1 of `when`).

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::task::{Context, Poll, Waker, ready};

use super::{Found, ReadSide};
use crate::io::engine::Ticket;
use crate::io::readiness::Direction;
use crate::io::waiters::{Waiter, Waits};
use crate::io::{Chunk, sys};
use crate::net::socket::uninit;
use crate::net::when::{Goes, at_once, once, when_unless};
use crate::task::budget::{counted, proceed};

impl ReadSide {
    /// What stash and stream have, as far as `take` takes it; nothing if there is neither.
    async fn special<T>(&self, mut take: impl FnMut(&mut Chunk) -> T) -> Option<io::Result<T>> {
        if self.is_plain() {
            return None;
        }
        let poll = |side: &Self, who: Waiter<'_>| {
            Poll::Ready(match ready!(side.poll_take(who, None, &mut take)) {
                Found::Nothing | Found::NoBuffers => None,
                Found::Bytes(result) => Some(result),
            })
        };
        counted(Waits::at(self).until(poll)).await
    }

    /// What a call has that is made when there is something to read; nothing if others come first: stash, stream,
    /// an abandoned receive or its error (R1, R2, R6, R7).
    async fn otherwise<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
        let call = || if self.is_plain() { call().map(Some) } else { Ok(None) };
        let goes = |ticket: Option<Ticket>| {
            let on = ticket.map_or_else(|| self.is_plain(), |ticket| self.goes_on(ticket));
            if on { Goes::On } else { Goes::Back }
        };
        when_unless(&self.descriptor, Direction::Read, goes, call).await.transpose()
    }

    /// Bytes that stay where they are.
    pub(in crate::net) async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let copy = |chunk: &mut Chunk| {
                let count = chunk.len().min(into.len());
                into[..count].copy_from_slice(&chunk[..count]);
                count
            };
            if let Some(result) = self.special(copy).await {
                return result;
            }
            if let Some(result) = self.otherwise(|| self.peek_now(into)).await {
                return result;
            }
        }
    }

    fn peek_now(&self, into: &mut [u8]) -> io::Result<usize> {
        let (fd, len) = (self.descriptor.raw(), into.len().min(super::MOST) as u32);
        // SAFETY: `into` may be written.
        let result = unsafe { sys::recv(fd, into.as_mut_ptr(), len, libc::MSG_PEEK) };
        sys::to_io(result).map(|count| count as usize)
    }

    /// Waits until there is something to read, the end included.
    pub(in crate::net) async fn readable(&self) -> io::Result<()> {
        loop {
            if let Some(result) = self.special(|_| ()).await {
                return result;
            }
            let is_ready = || sys::to_io(sys::is_ready(self.descriptor.raw(), Direction::Read));
            if let Some(result) = self.otherwise(is_ready).await {
                return result.map(drop);
            }
        }
    }

    /// Bytes that are there, without waiting.
    pub(in crate::net) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `poll_copy` and `receive_now` write initialized bytes only.
        let into: &mut [MaybeUninit<u8>] = unsafe { uninit(into) };
        if !self.is_plain() {
            let cx = Context::from_waker(Waker::noop());
            if let Found::Bytes(result) = at_once(self.poll_copy(Waiter::from(&cx), into))? {
                return result;
            }
        }
        self.receive_now(into)
    }

    /// As `try_read`, into several buffers.
    pub(in crate::net) fn try_read_vectored(
        &self,
        into: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        if self.is_plain() {
            return once(|| self.receive_vectored(into));
        }
        let first = into.iter_mut().find(|buf| !buf.is_empty());
        first.map_or(Ok(0), |buf| self.try_read(buf))
    }

    fn receive_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // SAFETY: a header of zeroes is a valid one.
        let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
        msg.msg_iov = into.as_mut_ptr().cast();
        msg.msg_iovlen = into.len().min(libc::UIO_MAXIOV as usize) as _;
        // SAFETY: std promises that a slice of these is one of `iovec`; they may be written.
        let result = unsafe { sys::recvmsg(self.descriptor.raw(), &raw mut msg, 0) };
        sys::to_io(result).map(|count| count as usize)
    }

    /// Bytes into several buffers.
    pub(in crate::net) async fn read_vectored(
        &self,
        into: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        if into.iter().all(|buf| buf.is_empty()) {
            proceed().await;
            return Ok(0);
        }
        loop {
            let spread = |chunk: &mut Chunk| {
                let before = chunk.len();
                for buf in into.iter_mut() {
                    // SAFETY: `drain_into` writes initialized bytes only.
                    chunk.drain_into(unsafe { uninit(buf) });
                }
                before - chunk.len()
            };
            if let Some(result) = self.special(spread).await {
                return result;
            }
            if let Some(result) = self.otherwise(|| self.receive_vectored(into)).await {
                return result;
            }
        }
    }

    /// Ends the stream, waits for what was abandoned, and takes all bytes that were received and not
    /// returned. An error counts if there are none.
    pub(in crate::net) async fn take_all(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut failed = None;
        let stream = self.lock().stream.clone();
        if let Some(stream) = stream {
            self.descriptor.engine().stop_stream(stream.ticket);
        }
        loop {
            match Waits::at(self).until(|side, who| side.poll_chunk(who)).await {
                Found::Bytes(Ok(chunk)) => bytes.extend_from_slice(&chunk),
                Found::Bytes(Err(error)) => failed = Some(error),
                Found::NoBuffers => {}
                Found::Nothing => break,
            }
        }
        failed.filter(|_| bytes.is_empty()).map_or(Ok(bytes), Err)
    }
}
