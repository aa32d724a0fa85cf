//! Reads as futures: into the caller's buffer, or a chunk.
//!
//! V1. A read that is dropped loses nothing: what it has received, or receives before its cancellation
//!     takes effect, goes to the stash (R1 of `read`).
//! V2. An error comes after the bytes that came before it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::read::{Found, Leaves, MOST, ReadSide};
use super::socket::{Inner, Socket};
use crate::io::descriptor::Descriptor;
use crate::io::op::{Op, Operation};
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::io::waiters::Waits;
use crate::io::{Chunk, IoBufMut};
use crate::task::budget::poll_counted;

/// A receive into the caller's buffer, after the first `filled` bytes. It holds the socket, and does not
/// borrow it: a future that is forgotten must not leave the number of a closed descriptor behind.
struct Receive<B> {
    inner: Arc<Inner>,
    buf: B,
    filled: usize,
    abandoned: Abandoned,
}

/// Whether `reads` knows that nobody waits for a receive any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Abandoned {
    Untold,
    Told,
}

/// A receive that nobody waits for.
struct LateReceive<B> {
    inner: Arc<Inner>,
    buf: B,
    filled: usize,
}

impl<B: IoBufMut> Receive<B> {
    fn asked(&self) -> usize {
        (self.buf.bytes_total() - self.filled).min(MOST)
    }
}

// SAFETY: Q1 of `io/buf.rs`, the bytes stay where they are while the buffer moves; the late one keeps
// the buffer, and the descriptor too.
unsafe impl<B: IoBufMut + Unpin> Operation for Receive<B> {
    type Output = (Completion, B);

    fn request(&mut self) -> Request {
        let (fd, len) = (self.inner.descriptor.raw(), self.asked() as u32);
        // SAFETY: `filled` bytes were received into the buffer before, so it has them.
        let buf = unsafe { self.buf.as_mut_ptr().add(self.filled) };
        Request::Recv { fd, buf, len, flags: 0, first: self.inner.reads.first() }
    }

    /// Where the kernel tells readiness only, a read is made by calls.
    fn descriptor(&self) -> Option<&Descriptor> {
        None
    }

    fn finish(self, completion: Completion) -> (Completion, B) {
        self.inner.reads.learn(completion, self.asked());
        (completion, self.buf)
    }

    fn into_late(self) -> Box<dyn Late> {
        if self.abandoned == Abandoned::Untold {
            self.inner.reads.give_up(&[], Leaves::Receive);
        }
        Box::new(LateReceive { inner: self.inner, buf: self.buf, filled: self.filled })
    }
}

impl<B: IoBufMut> Late for LateReceive<B> {
    fn finish(mut self: Box<Self>, completion: Completion) {
        let (count, error) = match usize::try_from(completion.result) {
            Ok(count) => (count, None),
            Err(_) => (0, Some(-completion.result)),
        };
        // SAFETY: as in `Receive::request`.
        let first = unsafe { self.buf.as_mut_ptr().add(self.filled) };
        // SAFETY: the kernel has written so many bytes there.
        let bytes = unsafe { std::slice::from_raw_parts(first, count) };
        self.inner.reads.abandoned_ends(bytes, error);
    }
}

/// How much a read wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What there is.
    Some,
    /// All that fits.
    All,
}

/// A read under way; see [`TcpStream::read`](super::TcpStream::read).
#[must_use = "futures do nothing unless awaited"]
pub struct Read<'a, B: IoBufMut + Unpin> {
    socket: &'a Socket,
    extent: Extent,
    /// Bytes read so far.
    filled: usize,
    cancelled: bool,
    stage: Stage<'a, B>,
}

enum Stage<'a, B: IoBufMut + Unpin> {
    /// Nothing is in flight; where the kernel tells readiness only, it stays so.
    Start(B, Waits<'a, ReadSide>),
    Receive(Op<'a, Receive<B>>),
    Over,
}

impl<'a, B: IoBufMut + Unpin> Read<'a, B> {
    pub(super) fn new(socket: &'a Socket, buf: B, extent: Extent) -> Self {
        let stage = Stage::Start(buf, Waits::at(&socket.reads));
        Self { socket, extent, filled: 0, cancelled: false, stage }
    }

    /// Ends the read early: what came before is its result, else an error, and the buffer comes back
    /// in any case.
    ///
    /// ```
    /// use std::{future::Future, pin::pin, task::Poll};
    /// use filch::net::{TcpListener, TcpStream};
    /// # filch::block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let mut read = pin!(client.read(vec![0; 16]));
    /// let first = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
    /// assert!(first.is_pending());
    /// let (result, buffer) = read.cancel().await;
    /// assert!(result.is_err());
    /// assert_eq!(buffer.len(), 16);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub async fn cancel(mut self: Pin<&mut Self>) -> (io::Result<usize>, B) {
        self.cancelled = true;
        if let Stage::Receive(op) = &mut self.stage {
            op.cancel();
        }
        self.await
    }

    /// Takes `count` more bytes into account; the result if that is enough.
    fn advance(&mut self, buf: &mut B, count: usize) -> Option<io::Result<usize>> {
        self.filled += count;
        // SAFETY: so many bytes were written from the start of the buffer.
        unsafe { buf.set_init(self.filled) };
        let enough = self.extent == Extent::Some || (self.cancelled && count > 0);
        if enough || self.filled == buf.bytes_total() {
            return Some(Ok(std::mem::take(&mut self.filled)));
        }
        if count == 0 {
            let text = "the stream ended before the buffer was full";
            return Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
        None
    }

    fn over(&mut self, result: io::Result<usize>, buf: B) -> Poll<(io::Result<usize>, B)> {
        self.stage = Stage::Over;
        let filled = std::mem::take(&mut self.filled);
        let is_cancel = |error: &io::Error| error.raw_os_error() == Some(libc::ECANCELED);
        let result = match result {
            Err(error) if self.cancelled && filled > 0 && is_cancel(&error) => Ok(filled),
            Err(error) => {
                // What came before the error is not lost.
                self.socket.reads.give_up(&buf.as_init()[..filled], Leaves::Nothing);
                Err(error)
            }
            ok => ok,
        };
        Poll::Ready((result, buf))
    }

    /// A receive that was called back has ended: its result, if that may be told at once (R9 of `read`).
    fn comes_back(&self, buf: &mut B, result: io::Result<usize>) -> Option<io::Result<usize>> {
        // SAFETY: `filled` is within the buffer.
        let first = unsafe { buf.as_mut_ptr().add(self.filled) };
        let bytes = result.map(|count| {
            // SAFETY: the kernel has written so many bytes there, and nobody else reaches them now.
            unsafe { std::slice::from_raw_parts(first, count) }
        });
        self.socket.reads.comes_back(bytes)
    }

    fn start(&mut self, buf: B) {
        self.stage = Stage::Start(buf, Waits::at(&self.socket.reads));
    }

    /// What can be had without a receive in flight: of stash and stream, or by a call where the kernel
    /// tells readiness only.
    fn poll_start(
        &self,
        cx: &Context<'_>,
        buf: &mut B,
        waits: &mut Waits<'_, ReadSide>,
    ) -> Poll<Found<usize>> {
        let calls = self.socket.descriptor.tells_readiness();
        if self.socket.reads.is_plain() && !calls {
            return Poll::Ready(Found::Nothing);
        }
        let room = buf.bytes_total() - self.filled;
        // SAFETY: `filled` is within the buffer.
        let first = unsafe { buf.as_mut_ptr().add(self.filled) };
        // SAFETY: the rest of the buffer may be written, and nobody else reaches it now.
        let into = unsafe { std::slice::from_raw_parts_mut(first.cast(), room) };
        waits.poll(cx, |reads, who| {
            if calls {
                return reads.poll_read(who, into).map(Found::Bytes);
            }
            reads.poll_copy(who, into)
        })
    }
}

impl<B: IoBufMut + Unpin> Future for Read<'_, B> {
    type Output = (io::Result<usize>, B);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll_counted(cx, |cx| self.advance_all(cx))
    }
}

impl<B: IoBufMut + Unpin> Read<'_, B> {
    /// Goes as far as it can.
    fn advance_all(&mut self, cx: &mut Context<'_>) -> Poll<(io::Result<usize>, B)> {
        let this = self;
        loop {
            match std::mem::replace(&mut this.stage, Stage::Over) {
                Stage::Start(buf, _) if this.cancelled => {
                    return this.over(Err(io::Error::from_raw_os_error(libc::ECANCELED)), buf);
                }
                Stage::Start(mut buf, mut waits) => {
                    if buf.bytes_total() == 0 {
                        return this.over(Ok(0), buf);
                    }
                    let count = match this.poll_start(cx, &mut buf, &mut waits) {
                        Poll::Pending => {
                            this.stage = Stage::Start(buf, waits);
                            return Poll::Pending;
                        }
                        Poll::Ready(Found::Bytes(Ok(count))) => count,
                        Poll::Ready(Found::Bytes(Err(error))) => {
                            return this.over(Err(error), buf);
                        }
                        Poll::Ready(Found::Nothing | Found::NoBuffers) => {
                            let inner: &Arc<Inner> = this.socket;
                            let (inner, filled) = (inner.clone(), this.filled);
                            let abandoned = Abandoned::Untold;
                            let work = Receive { inner, buf, filled, abandoned };
                            let inner: &Arc<Inner> = this.socket;
                            this.stage = Stage::Receive(Op::new(inner.descriptor.engine(), work));
                            continue;
                        }
                    };
                    match this.advance(&mut buf, count) {
                        Some(result) => return this.over(result, buf),
                        None => this.start(buf),
                    }
                }
                Stage::Receive(mut op) => {
                    let Poll::Ready((completion, mut buf)) = Pin::new(&mut op).poll(cx) else {
                        // R7 of `read`.
                        if op.ticket().is_some_and(|ticket| !this.socket.reads.goes_on(ticket)) {
                            op.call_back();
                        }
                        this.stage = Stage::Receive(op);
                        return Poll::Pending;
                    };
                    let result = match completion.to_io().map(|count| count as usize) {
                        result if completion.is_called_back() => {
                            match this.comes_back(&mut buf, result) {
                                Some(result) => result,
                                None => {
                                    this.start(buf);
                                    continue;
                                }
                            }
                        }
                        result => result,
                    };
                    let count = match result {
                        // The end comes behind what there is elsewhere, and is told again.
                        Ok(0) if !this.socket.reads.is_plain() => {
                            this.start(buf);
                            continue;
                        }
                        Ok(count) => count,
                        Err(error) => return this.over(Err(error), buf),
                    };
                    match this.advance(&mut buf, count) {
                        Some(result) => return this.over(result, buf),
                        None => this.start(buf),
                    }
                }
                Stage::Over => panic!("a read was polled after its end"),
            }
        }
    }
}

impl<B: IoBufMut + Unpin> Drop for Read<'_, B> {
    /// What a read of all has got so far is for the next read (R1, R2). A receive in flight sees to its own.
    fn drop(&mut self) {
        if self.filled == 0 {
            return;
        }
        let (first, leaves) = match &mut self.stage {
            Stage::Start(buf, _) => (buf.as_ptr(), Leaves::Nothing),
            Stage::Receive(op) => {
                let in_flight = op.work_in_flight().map(|work| {
                    work.abandoned = Abandoned::Told;
                    (work.buf.as_ptr(), Leaves::Receive)
                });
                let idle = || op.work().map(|work| (work.buf.as_ptr(), Leaves::Nothing));
                match in_flight.or_else(idle) {
                    Some(left) => left,
                    None => return,
                }
            }
            Stage::Over => return,
        };
        // SAFETY: so many bytes were received; a receive in flight writes behind them.
        let bytes = unsafe { std::slice::from_raw_parts(first, self.filled) };
        self.socket.reads.give_up(bytes, leaves);
    }
}

/// The next chunk; see [`TcpStream::recv`](super::TcpStream::recv).
#[must_use = "futures do nothing unless awaited"]
pub struct Recv<'a>(Waits<'a, ReadSide>);

impl<'a> Recv<'a> {
    pub(super) fn new(socket: &'a Socket) -> Self {
        Self(Waits::at(&socket.reads))
    }
}

impl Future for Recv<'_> {
    type Output = io::Result<Option<Chunk>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = |cx: &mut Context<'_>| self.0.poll(cx, |reads, who| reads.poll_recv(who));
        let chunk = ready!(poll_counted(cx, poll))?;
        Poll::Ready(Ok(Some(chunk).filter(|chunk| !chunk.is_empty())))
    }
}

impl std::fmt::Debug for Recv<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recv").finish_non_exhaustive()
    }
}

impl<B: IoBufMut + Unpin> std::fmt::Debug for Read<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read").field("filled", &self.filled).finish_non_exhaustive()
    }
}
