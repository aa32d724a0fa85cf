//! What can be done with any stream of bytes, and streams that lie in memory: a part of `filch::io`.
//!
//! Z1. Everything here counts against the budget of the task, also what never waits. That is why it is no
//!     part of the leaf `io`, which knows no tasks.
//!
//! Not here: the traits and cursors, which are those of `futures-lite` (`io/mod.rs`).

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};

use crate::task::budget::poll_counted;

mod both;
mod buffered;
mod memory;

pub use both::{Copied, CopyBidirectional, copy_bidirectional};
pub use buffered::{BufReader, Lines};
pub use memory::{Empty, Repeat, Sink, empty, repeat, sink};

/// Copies everything from a reader to a writer, flushes the writer, and returns how many bytes that were.
///
/// Both are taken by value; pass `&mut` to keep them.
///
/// ```
/// # filch::block_on(async {
/// let mut written = Vec::new();
/// assert_eq!(filch::io::copy(&b"bytes"[..], &mut written).await?, 5);
/// assert_eq!(written, b"bytes");
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// The first error of either; `WriteZero` if the writer takes no more bytes.
///
/// # Cancel safety
/// A dropped copy may have read bytes that it has not written.
pub async fn copy<R, W>(reader: R, writer: W) -> io::Result<u64>
where
    R: AsyncRead,
    W: AsyncWrite,
{
    let reader = pin!(reader);
    let mut reader = pin!(BufReader::new(reader));
    let mut writer = pin!(writer);
    let mut copied = 0;
    loop {
        // Z1: each piece counts, for the source may have no end.
        let piece =
            |cx: &mut Context<'_>| poll_counted(cx, |cx| poll_piece(cx, &mut reader, &mut writer));
        match poll_fn(piece).await? {
            0 => return Ok(copied),
            count => copied += count as u64,
        }
    }
}

/// Copies what the reader has at once, as much as the writer takes; 0 at the end, once all is flushed.
fn poll_piece<R, W>(
    cx: &mut Context<'_>,
    reader: &mut Pin<&mut R>,
    writer: &mut Pin<&mut W>,
) -> Poll<io::Result<usize>>
where
    R: AsyncBufRead,
    W: AsyncWrite,
{
    let bytes = ready!(reader.as_mut().poll_fill_buf(cx))?;
    if bytes.is_empty() {
        return writer.as_mut().poll_flush(cx).map_ok(|()| 0);
    }
    let count = ready!(writer.as_mut().poll_write(cx, bytes))?;
    if count == 0 {
        let text = "the writer takes no more bytes";
        return Poll::Ready(Err(io::Error::new(io::ErrorKind::WriteZero, text)));
    }
    reader.as_mut().consume(count);
    Poll::Ready(Ok(count))
}
