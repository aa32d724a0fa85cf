//! Streams without a system behind them: nothing to read, one byte for ever, and where bytes vanish.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};

use crate::task::budget::poll_proceed;

/// A reader that is at its end.
///
/// ```
/// use filch::io::AsyncReadExt;
/// # filch::block_on(async {
/// assert_eq!(filch::io::empty().read(&mut [0; 8]).await?, 0);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub fn empty() -> Empty {
    Empty::default()
}

/// The reader that [`empty`] makes.
///
/// ```
/// let nothing: filch::io::Empty = filch::io::empty();
/// assert_eq!(filch::block_on(filch::io::copy(nothing, filch::io::sink())).unwrap(), 0);
/// ```
#[derive(Debug, Default)]
pub struct Empty {
    /// It was asked what is buffered, has counted, and was not told since that this was taken.
    asked: bool,
}

impl AsyncRead for Empty {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        poll_proceed(cx).map(|()| Ok(0))
    }
}

impl AsyncBufRead for Empty {
    fn poll_fill_buf<'a>(
        mut self: Pin<&'a mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<&'a [u8]>> {
        // Whoever asks twice in a row relies on the same answer, so every second one is free.
        if !std::mem::take(&mut self.asked) {
            ready!(poll_proceed(cx));
            self.asked = true;
        }
        Poll::Ready(Ok(&[]))
    }

    fn consume(mut self: Pin<&mut Self>, _: usize) {
        self.asked = false;
    }
}

/// A reader that gives one byte again and again, without an end.
///
/// ```
/// use filch::io::AsyncReadExt;
/// # filch::block_on(async {
/// let mut line = [0; 4];
/// filch::io::repeat(b'-').read_exact(&mut line).await?;
/// assert_eq!(&line, b"----");
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub fn repeat(byte: u8) -> Repeat {
    Repeat { byte }
}

/// The reader that [`repeat`] makes.
///
/// ```
/// use filch::io::AsyncReadExt;
/// let mut zeros: filch::io::Repeat = filch::io::repeat(0);
/// assert_eq!(filch::block_on(zeros.read(&mut [1; 8])).unwrap(), 8);
/// ```
#[derive(Debug)]
pub struct Repeat {
    byte: u8,
}

impl AsyncRead for Repeat {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        ready!(poll_proceed(cx));
        buf.fill(self.byte);
        Poll::Ready(Ok(buf.len()))
    }
}

/// A writer that takes everything and keeps nothing.
///
/// ```
/// # filch::block_on(async {
/// assert_eq!(filch::io::copy(&b"unread"[..], filch::io::sink()).await?, 6);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub fn sink() -> Sink {
    Sink(())
}

/// The writer that [`sink`] makes.
///
/// ```
/// use filch::io::AsyncWriteExt;
/// let mut sink: filch::io::Sink = filch::io::sink();
/// assert_eq!(filch::block_on(sink.write(b"unread")).unwrap(), 6);
/// ```
#[derive(Debug, Default)]
pub struct Sink(());

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_proceed(cx).map(|()| Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_proceed(cx).map(Ok)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_proceed(cx).map(Ok)
    }
}
