//! Reading lines, so that a call that is dropped loses nothing.
//!
//! X1. A byte that was read is in the buffer until a call hands it out, and a call hands out at its end only, when
//!     nothing waits any more. So a dropped call leaves all that it has read to the next one.
//! X2. The buffer grows as long as a line has no end, up to the limit. What was searched in vain is not searched
//!     again.
//! X3. Each read inside counts against the budget, and so does each call that needs none. Writes and seeks count here,
//!     because a stream of another crate inside does not. A line that never ends is read in many polls.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite};
use futures_lite::Stream;

use crate::task::budget::{poll_counted, poll_proceed, without_limit};

/// Bytes that one read asks for, unless told. As std's.
const CAPACITY: usize = 8 * 1024;

/// How many times its capacity an empty buffer may keep. Guessed.
const KEPT: usize = 4;

/// A reader with a buffer: it reads lines, and small pieces without a system call for each.
///
/// It reads from anything that implements [`AsyncRead`]: sockets and their halves, files, and streams of other crates. What
/// implements [`AsyncWrite`] too can be written to through it.
///
/// # Cancel safety
/// All of its methods may be dropped at any moment: what they have read stays in the buffer, and the next call
/// goes on with it. So `next_line` in a `select!` or below a `timeout` loses no part of a line.
///
/// ```
/// use std::time::Duration;
///
/// use filch::io::BufReader;
/// use filch::net::UnixStream;
/// use filch::time::timeout;
/// # filch::block_on(async {
/// let (there, here) = UnixStream::pair()?;
/// let mut reader = BufReader::new(here);
/// there.write_all("one li").await.0?;
/// assert!(timeout(Duration::from_millis(1), reader.next_line()).await.is_err());
/// there.write_all("ne\r\nthe last").await.0?;
/// drop(there);
/// assert_eq!(reader.next_line().await?.as_deref(), Some("one line"));
/// assert_eq!(reader.next_line().await?.as_deref(), Some("the last"));
/// assert_eq!(reader.next_line().await?, None);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct BufReader<R> {
    inner: R,
    /// What was read lies in `unread`; the rest is room.
    buf: Vec<u8>,
    unread: Range<usize>,
    /// Most bytes of one read.
    capacity: usize,
    /// Most bytes of a line.
    limit: usize,
    /// So many unread bytes are none like this one (X2).
    searched: (u8, usize),
}

impl<R> BufReader<R> {
    /// A reader with a buffer of 8 KiB.
    ///
    /// ```
    /// let reader = filch::io::BufReader::new(&b"bytes"[..]);
    /// assert!(reader.buffer().is_empty());
    /// ```
    pub fn new(inner: R) -> Self {
        Self::with_capacity(CAPACITY, inner)
    }

    /// A reader with a buffer of so many bytes. It grows for a line that is longer.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::with_capacity(2, &b"bytes"[..]);
    /// assert_eq!(reader.fill_buf().await?, b"by");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn with_capacity(capacity: usize, inner: R) -> Self {
        let (capacity, limit) = (capacity.max(1), usize::MAX);
        Self { inner, buf: Vec::new(), unread: 0..0, capacity, limit, searched: (0, 0) }
    }

    /// Sets how many bytes a line may have, its end not counted; there is no limit by default.
    ///
    /// A peer that sends no end of a line makes the buffer grow. With a limit, `read_line`, `read_until` and `next_line` fail
    /// instead. The bytes stay unread: [`buffer`](BufReader::buffer) shows them, and [`consume`](BufReader::consume) skips them.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"1234\n12345\n"[..]).max_line(4);
    /// assert_eq!(reader.next_line().await?.as_deref(), Some("1234"));
    /// let error = reader.next_line().await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    /// assert_eq!(reader.buffer(), b"12345\n");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn max_line(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// The reader inside.
    ///
    /// ```
    /// let reader = filch::io::BufReader::new(&b"bytes"[..]);
    /// assert_eq!(*reader.get_ref(), b"bytes");
    /// ```
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The reader inside. Bytes that are read from it directly come after those in the buffer.
    ///
    /// ```
    /// let mut reader = filch::io::BufReader::new(&b"bytes"[..]);
    /// *reader.get_mut() = b"others";
    /// assert_eq!(*reader.get_ref(), b"others");
    /// ```
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The reader inside; bytes in the buffer are dropped.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"head\nbody"[..]);
    /// reader.next_line().await?;
    /// let ahead = reader.buffer().to_vec();
    /// assert_eq!((&ahead[..], reader.into_inner()), (&b"body"[..], &b""[..]));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// The bytes that were read and are not consumed.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"one\ntwo\n"[..]);
    /// reader.next_line().await?;
    /// assert_eq!(reader.buffer(), b"two\n");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn buffer(&self) -> &[u8] {
        &self.buf[self.unread.clone()]
    }

    /// Skips bytes of the buffer; see [`fill_buf`](BufReader::fill_buf).
    ///
    /// # Panics
    /// If there are fewer.
    #[track_caller]
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.unread.len(), "more bytes are consumed than there are");
        self.unread.start += bytes;
        self.searched.1 = self.searched.1.saturating_sub(bytes);
        if self.unread.is_empty() {
            self.unread = 0..0;
            if self.buf.len() > KEPT * self.capacity {
                self.buf.truncate(self.capacity);
                self.buf.shrink_to_fit();
            }
        }
    }

    /// Drops what was read.
    fn forget(&mut self) {
        self.consume(self.unread.len());
    }

    /// Makes room behind what is unread.
    fn make_room(&mut self) {
        let room = self.buf.len() - self.unread.end;
        if self.unread.start > 0 && room < self.capacity / 2 {
            self.buf.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.unread.end == self.buf.len() {
            self.buf.resize(self.capacity.max(2 * self.buf.len()), 0);
        }
    }

    /// How many unread bytes the line has, its end included, if that is there (X2).
    fn find(&mut self, end: u8) -> io::Result<Option<usize>> {
        let bytes = &self.buf[self.unread.clone()];
        let from = if self.searched.0 == end { self.searched.1 } else { 0 };
        let found = bytes[from..].iter().position(|byte| *byte == end).map(|at| from + at);
        self.searched = (end, found.unwrap_or(bytes.len()));
        if self.searched.1 > self.limit {
            let text = format!("a line has more than {} bytes", self.limit);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(found.map(|at| at + 1))
    }

    /// Hands out the next bytes, as text.
    fn take_text(&mut self, bytes: usize) -> io::Result<String> {
        let text = String::from_utf8(self.buffer()[..bytes].to_vec());
        self.consume(bytes);
        text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl<R: AsyncRead + Unpin> BufReader<R> {
    /// Reads more behind what is unread; 0 bytes are the end.
    fn poll_more(&mut self, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        self.make_room();
        let room = &mut self.buf[self.unread.end..];
        let len = room.len().min(self.capacity);
        let result = ready!(poll_inner(&mut self.inner, cx, &mut room[..len]));
        if let Ok(count) = result {
            self.unread.end += count;
        }
        Poll::Ready(result)
    }

    /// Reads until a line is there; how many bytes it has, its end included. The last may have none.
    fn poll_until(&mut self, cx: &Context<'_>, end: u8) -> Poll<io::Result<usize>> {
        if let Some(found) = self.find(end).transpose() {
            return poll_proceed(cx).map(|()| found);
        }
        loop {
            if ready!(self.poll_more(cx))? == 0 {
                return Poll::Ready(Ok(self.unread.len()));
            }
            if let Some(bytes) = self.find(end)? {
                return Poll::Ready(Ok(bytes));
            }
        }
    }

    fn poll_fill(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return self.poll_more(cx).map_ok(drop);
        }
        poll_proceed(cx).map(Ok)
    }

    fn poll_line(&mut self, cx: &Context<'_>) -> Poll<io::Result<Option<String>>> {
        let bytes = ready!(self.poll_until(cx, b'\n'))?;
        if bytes == 0 {
            return Poll::Ready(Ok(None));
        }
        let mut line = self.take_text(bytes)?;
        if line.ends_with('\n') {
            line.pop();
            if line.ends_with('\r') {
                line.pop();
            }
        }
        Poll::Ready(Ok(Some(line)))
    }

    /// The bytes in the buffer, after a read if there are none; nothing at the end of the stream.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"bytes"[..]);
    /// assert_eq!(reader.fill_buf().await?, b"bytes");
    /// reader.consume(2);
    /// assert_eq!(reader.fill_buf().await?, b"tes");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the reader inside.
    ///
    /// # Cancel safety
    /// A dropped call has lost nothing.
    pub async fn fill_buf(&mut self) -> io::Result<&[u8]> {
        poll_fn(|cx| self.poll_fill(cx)).await?;
        Ok(self.buffer())
    }

    /// Appends bytes up to and with the next `end` to `into`, or up to the end of the stream; returns how many those are.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"key=value"[..]);
    /// let mut key = Vec::new();
    /// assert_eq!(reader.read_until(b'=', &mut key).await?, 4);
    /// assert_eq!(key, b"key=");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the reader inside, and `InvalidData` if there are more bytes than
    /// [`max_line`](BufReader::max_line) allows. What was read before stays in the buffer.
    ///
    /// # Cancel safety
    /// A dropped call has lost nothing, and appended nothing.
    pub async fn read_until(&mut self, end: u8, into: &mut Vec<u8>) -> io::Result<usize> {
        let bytes = poll_fn(|cx| self.poll_until(cx, end)).await?;
        into.extend_from_slice(&self.buffer()[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }

    /// Appends the next line to `into`, with the newline at its end; returns how many bytes it has. 0 is the end of the stream.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"one\ntwo"[..]);
    /// let mut text = String::new();
    /// assert_eq!(reader.read_line(&mut text).await?, 4);
    /// assert_eq!(reader.read_line(&mut text).await?, 3);
    /// assert_eq!(reader.read_line(&mut text).await?, 0);
    /// assert_eq!(text, "one\ntwo");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`next_line`](BufReader::next_line).
    ///
    /// # Cancel safety
    /// A dropped call has lost nothing, and appended nothing.
    pub async fn read_line(&mut self, into: &mut String) -> io::Result<usize> {
        let bytes = poll_fn(|cx| self.poll_until(cx, b'\n')).await?;
        let text = self.take_text(bytes)?;
        into.push_str(&text);
        Ok(bytes)
    }

    /// The next line, without its end (`\n` or `\r\n`); `None` at the end of the stream. The last line needs no end.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut reader = filch::io::BufReader::new(&b"one\r\n\ntwo"[..]);
    /// let mut lines = Vec::new();
    /// while let Some(line) = reader.next_line().await? {
    ///     lines.push(line);
    /// }
    /// assert_eq!(lines, ["one", "", "two"]);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// * Those of the reader inside. What was read before stays in the buffer.
    /// * `InvalidData` if the line has more bytes than [`max_line`](BufReader::max_line) allows. It stays in the buffer.
    /// * `InvalidData` with a [`FromUtf8Error`](std::string::FromUtf8Error) inside, which has the bytes, if the line is not UTF-8. The
    ///   next call goes on behind it.
    ///
    /// # Cancel safety
    /// A dropped call has lost nothing.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        poll_fn(|cx| self.poll_line(cx)).await
    }

    /// The lines as a stream, each as from [`next_line`](BufReader::next_line).
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut lines = filch::io::BufReader::new(&b"one\ntwo\n"[..]).lines();
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
    /// assert_eq!(lines.next_line().await?, None);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn lines(self) -> Lines<R> {
        Lines(self)
    }
}

/// Reads once. That counts once, whatever the reader inside counts (X3).
fn poll_inner<R: AsyncRead + Unpin>(
    inner: &mut R,
    cx: &Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    poll_counted(cx, |cx| {
        loop {
            match ready!(without_limit(|| Pin::new(&mut *inner).poll_read(cx, buf))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    })
}

/// The lines of a [`BufReader`]; see [`BufReader::lines`].
#[derive(Debug)]
pub struct Lines<R>(BufReader<R>);

impl<R> Lines<R> {
    /// The reader of the lines.
    ///
    /// ```
    /// let lines = filch::io::BufReader::new(&b"one\n"[..]).lines();
    /// assert_eq!(*lines.get_ref().get_ref(), b"one\n");
    /// ```
    pub fn get_ref(&self) -> &BufReader<R> {
        &self.0
    }

    /// The reader of the lines, to read something else meanwhile.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut lines = filch::io::BufReader::new(&b"head\nbodytail\n"[..]).lines();
    /// lines.next_line().await?;
    /// lines.get_mut().consume(4);
    /// assert_eq!(lines.next_line().await?.as_deref(), Some("tail"));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn get_mut(&mut self) -> &mut BufReader<R> {
        &mut self.0
    }

    /// The reader of the lines; nothing is lost.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let mut lines = filch::io::BufReader::new(&b"head\nbody"[..]).lines();
    /// lines.next_line().await?;
    /// assert_eq!(lines.into_inner().buffer(), b"body");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub fn into_inner(self) -> BufReader<R> {
        self.0
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The next line; see [`BufReader::next_line`].
    ///
    /// # Errors
    /// As [`BufReader::next_line`].
    ///
    /// # Cancel safety
    /// A dropped call has lost nothing.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        self.0.next_line().await
    }
}

impl<R: AsyncRead + Unpin> Stream for Lines<R> {
    type Item = io::Result<String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_line(cx).map(Result::transpose)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BufReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.unread.is_empty() && buf.len() >= self.capacity {
            return poll_inner(&mut self.inner, cx, buf);
        }
        ready!(self.poll_fill(cx))?;
        let count = self.buffer().len().min(buf.len());
        buf[..count].copy_from_slice(&self.buffer()[..count]);
        self.consume(count);
        Poll::Ready(Ok(count))
    }
}

impl<R: AsyncRead + Unpin> AsyncBufRead for BufReader<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_fill(cx))?;
        Poll::Ready(Ok(this.buffer()))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().consume(bytes);
    }
}

/// Writes go to the stream inside, past the buffer.
impl<S: AsyncWrite + Unpin> AsyncWrite for BufReader<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| Pin::new(&mut self.inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_counted(cx, |cx| Pin::new(&mut self.inner).poll_write_vectored(cx, bufs))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_counted(cx, |cx| Pin::new(&mut self.inner).poll_flush(cx))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_counted(cx, |cx| Pin::new(&mut self.inner).poll_close(cx))
    }
}

/// A position is that of the next byte that is read from here. A seek drops what is in the buffer.
impl<R: AsyncSeek + Unpin> AsyncSeek for BufReader<R> {
    fn poll_seek(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        poll_counted(cx, |cx| {
            let ahead = self.unread.len() as i64;
            let to = match to {
                SeekFrom::Current(by) => match by.checked_sub(ahead) {
                    Some(by) => SeekFrom::Current(by),
                    None => {
                        let text = "the position is before the start";
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidInput, text)));
                    }
                },
                other => other,
            };
            let position = ready!(Pin::new(&mut self.inner).poll_seek(cx, to))?;
            self.forget();
            Poll::Ready(Ok(position))
        })
    }
}

impl<R: fmt::Debug> fmt::Debug for BufReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufReader")
            .field("inner", &self.inner)
            .field("unread", &self.unread.len())
            .finish_non_exhaustive()
    }
}
