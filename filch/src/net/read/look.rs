//! Reads that take nothing, wait for nothing, or take everything.
//!
//! The caller's memory is borrowed: bytes come from stash and stream, or by a call that is made while
//! the future is polled (K1 of `when`).

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::task::{Context, Poll, Waker, ready};

use super::{Found, ReadSide};
use crate::io::readiness::Direction;
use crate::io::waiters::{Waiter, Waits};
use crate::io::{Chunk, sys};
use crate::net::socket::uninit;
use crate::net::when::{at_once, once, ready as when_ready, when};

impl ReadSide {
    /// Puts a chunk back to where it came from.
    fn put_back(&self, chunk: Chunk) {
        if !chunk.is_empty() {
            let mut state = self.lock();
            state.stash.push_front(chunk);
            self.note(&state);
        }
    }

    /// What stash and stream have, taken by `take`, and the rest put back; nothing if there is neither.
    async fn special<T>(&self, mut take: impl FnMut(&mut Chunk) -> T) -> Option<io::Result<T>> {
        if self.is_plain() {
            return None;
        }
        let poll = |side: &Self, who: Waiter<'_>| {
            Poll::Ready(match ready!(side.poll_chunk(who)) {
                Found::Nothing | Found::NoBuffers => None,
                Found::Bytes(Err(error)) => Some(Err(error)),
                Found::Bytes(Ok(mut chunk)) => {
                    let taken = take(&mut chunk);
                    side.put_back(chunk);
                    Some(Ok(taken))
                }
            })
        };
        Waits::at(self).until(poll).await
    }

    /// Bytes that stay where they are.
    pub(in crate::net) async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let copy = |chunk: &mut Chunk| {
            let count = chunk.len().min(into.len());
            into[..count].copy_from_slice(&chunk[..count]);
            count
        };
        match self.special(copy).await {
            Some(result) => result,
            None => when(&self.descriptor, Direction::Read, || self.peek_now(into)).await,
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
        match self.special(|_| ()).await {
            Some(result) => result,
            None => when_ready(&self.descriptor, Direction::Read).await,
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
            return Ok(0);
        }
        let spread = |chunk: &mut Chunk| {
            let before = chunk.len();
            for buf in into.iter_mut() {
                // SAFETY: `drain_into` writes initialized bytes only.
                chunk.drain_into(unsafe { uninit(buf) });
            }
            before - chunk.len()
        };
        match self.special(spread).await {
            Some(result) => result,
            None => when(&self.descriptor, Direction::Read, || self.receive_vectored(into)).await,
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
