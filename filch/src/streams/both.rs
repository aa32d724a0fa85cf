//! Bytes both ways between two streams.
//!
//! Y1. Each direction goes on until its reader ends; then its writer is flushed and closed, and the other
//!     direction goes on: a connection may be closed by half.
//! Y2. Nothing is read while what was read before is unwritten: who reads slowly is not read ahead of.
//! Y3. An error of either direction ends both: there is nobody to tell the other of it but the caller, who
//!     drops the streams.
//!
//! Y4. Each step counts against the budget of the task: two streams in memory that never wait must not keep
//!     others from running.
//!
//! Not here: one way (`copy` in `streams.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};

use crate::task::budget::poll_counted;

/// Bytes that lie between a reader and a writer at most. Guessed.
const SIZE: usize = 16 * 1024;

/// How many bytes went each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// From the first stream to the second.
    pub there: u64,
    /// From the second stream to the first.
    pub back: u64,
}

/// Copies both ways between two streams, until both have ended.
///
/// When one ends, the other's writing side is closed, and the opposite direction goes on: so a
/// connection that is closed by half stays useful.
///
/// ```
/// use filch::io::{AsyncWriteExt, copy_bidirectional};
/// use filch::net::UnixStream;
/// # filch::block_on(async {
/// let (client, mut left) = UnixStream::pair()?;
/// let (mut right, server) = UnixStream::pair()?;
/// let proxy = filch::spawn(async move { copy_bidirectional(&mut left, &mut right).await });
///
/// client.write_all("question").await.0?;
/// client.shutdown(std::net::Shutdown::Write)?;
/// while server.recv().await?.is_some() {}
/// server.write_all("answer").await.0?;
/// drop(server);
///
/// assert_eq!(&client.recv().await?.unwrap()[..], b"answer");
/// let copied = proxy.await?;
/// assert_eq!((copied.there, copied.back), (8, 6));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// The first error of either stream. What was copied before it is not told.
///
/// # Cancel safety
/// A dropped copy may have read bytes that it has not written.
pub fn copy_bidirectional<'a, A, B>(one: &'a mut A, other: &'a mut B) -> CopyBidirectional<'a, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    CopyBidirectional { one, other, there: Way::new(), back: Way::new() }
}

/// See [`copy_bidirectional`].
#[must_use = "futures do nothing unless awaited"]
pub struct CopyBidirectional<'a, A: ?Sized, B: ?Sized> {
    one: &'a mut A,
    other: &'a mut B,
    there: Way,
    back: Way,
}

/// One direction.
struct Way {
    buf: Box<[u8]>,
    /// What was read and is not written: `from..to`.
    from: usize,
    to: usize,
    stage: Stage,
    copied: u64,
    /// Written since the last flush.
    unflushed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Copies,
    /// The reader has ended (Y1).
    Closes,
    Over,
}

impl Way {
    fn new() -> Self {
        let buf = vec![0; SIZE].into_boxed_slice();
        Self { buf, from: 0, to: 0, stage: Stage::Copies, copied: 0, unflushed: false }
    }

    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        while self.stage != Stage::Over {
            // Y4.
            ready!(poll_counted(cx, |cx| self.poll_step(cx, from, to)))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_step<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        match self.stage {
            Stage::Copies if self.from < self.to => self.poll_empty(cx, to),
            Stage::Copies => self.poll_fill(cx, from, to),
            Stage::Closes => {
                ready!(Pin::new(to).poll_close(cx))?;
                self.stage = Stage::Over;
                Poll::Ready(Ok(()))
            }
            Stage::Over => unreachable!("a direction that is over takes no step"),
        }
    }

    fn poll_empty<W>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<io::Result<()>>
    where
        W: AsyncWrite + Unpin + ?Sized,
    {
        let count = ready!(Pin::new(to).poll_write(cx, &self.buf[self.from..self.to]))?;
        if count == 0 {
            let text = "the stream takes no more bytes";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::WriteZero, text)));
        }
        self.from += count;
        self.copied += count as u64;
        self.unflushed = true;
        Poll::Ready(Ok(()))
    }

    /// Reads, and flushes what was written if there is nothing to read yet.
    fn poll_fill<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin + ?Sized,
        W: AsyncWrite + Unpin + ?Sized,
    {
        match Pin::new(from).poll_read(cx, &mut self.buf)? {
            Poll::Ready(0) => self.stage = Stage::Closes,
            Poll::Ready(count) => (self.from, self.to) = (0, count),
            Poll::Pending => {
                if self.unflushed {
                    ready!(Pin::new(to).poll_flush(cx))?;
                    self.unflushed = false;
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<A, B> Future for CopyBidirectional<'_, A, B>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    type Output = io::Result<Copied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let there = this.there.poll(cx, this.one, this.other)?;
        let back = this.back.poll(cx, this.other, this.one)?;
        if there.is_pending() || back.is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(Copied { there: this.there.copied, back: this.back.copied }))
    }
}

impl<A: ?Sized, B: ?Sized> std::fmt::Debug for CopyBidirectional<'_, A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyBidirectional")
            .field("there", &self.there.copied)
            .field("back", &self.back.copied)
            .finish_non_exhaustive()
    }
}
