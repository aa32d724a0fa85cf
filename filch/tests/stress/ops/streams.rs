//! Streams of numbered frames, in both directions of a connection.
//!
//! S1. A frame is in the stream whole or not at all, and before every frame with a higher number. Its
//!     bytes follow from its number.
//! S2. A frame whose write ended is there. One whose write was dropped may be there; one whose write was
//!     never polled is not.
//! S3. What was peeked is what is read next.
//! S4. The end comes after the last frame, whatever was dropped before it.
//! S5. If a runtime was aborted, the end may come anywhere, even within a frame. What came before it is
//!     still a prefix of what was sent: no frame whose write ended is missing before one that is there.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use filch::Handle;
use filch::io::{AsyncRead, AsyncWrite, Chunk};
use filch::net::{Read, Recv, TcpListener, TcpStream, UnixStream, Write};

use super::fate::{Fate, Op, dawdle, tempt};
use super::{Aborted, Epoch};
use crate::storm::Rng;

/// Frames of one direction at most.
const FRAMES: usize = 20_000;

/// Length and number.
const HEAD: usize = 8;

/// More than both buffers of a socket hold.
const BIG: u64 = 6 << 20;

type Bytes = Vec<u8>;
type Answer = io::Result<usize>;

/// What TCP and Unix streams have in common.
pub trait Stream: Send + Sync + 'static {
    fn read(&self, buf: Bytes) -> Read<'_, Bytes>;
    fn read_exact(&self, buf: Bytes) -> Read<'_, Bytes>;
    fn recv(&self) -> Recv<'_>;
    fn peek(&self, buf: &mut [u8]) -> impl Future<Output = Answer> + Send;
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> impl Future<Output = Answer> + Send;
    fn try_read(&self, buf: &mut [u8]) -> Answer;
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Answer>;
    fn write(&self, buf: Bytes) -> Write<'_, Bytes>;
    fn write_all(&self, buf: Bytes) -> Write<'_, Bytes>;
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> impl Future<Output = Answer> + Send;
    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Answer>;
    fn poll_close(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

macro_rules! stream {
    ($type:ty) => {
        impl Stream for $type {
            fn read(&self, buf: Bytes) -> Read<'_, Bytes> {
                self.read(buf)
            }
            fn read_exact(&self, buf: Bytes) -> Read<'_, Bytes> {
                self.read_exact(buf)
            }
            fn recv(&self) -> Recv<'_> {
                self.recv()
            }
            fn peek(&self, buf: &mut [u8]) -> impl Future<Output = Answer> + Send {
                self.peek(buf)
            }
            fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
                self.readable()
            }
            fn read_vectored(
                &self,
                bufs: &mut [IoSliceMut<'_>],
            ) -> impl Future<Output = Answer> + Send {
                self.read_vectored(bufs)
            }
            fn try_read(&self, buf: &mut [u8]) -> Answer {
                self.try_read(buf)
            }
            fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Answer> {
                AsyncRead::poll_read(Pin::new(&mut &*self), cx, buf)
            }
            fn write(&self, buf: Bytes) -> Write<'_, Bytes> {
                self.write(buf)
            }
            fn write_all(&self, buf: Bytes) -> Write<'_, Bytes> {
                self.write_all(buf)
            }
            fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> impl Future<Output = Answer> + Send {
                self.write_vectored(bufs)
            }
            fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Answer> {
                AsyncWrite::poll_write(Pin::new(&mut &*self), cx, buf)
            }
            fn poll_close(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                AsyncWrite::poll_close(Pin::new(&mut &*self), cx)
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

/// A connection, which sends without copies sometimes.
pub async fn tcp_pair(dice: &mut Rng) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (there, _) = listener.accept().await.unwrap();
    if dice.one_in(2) {
        here.set_zero_copy(Some(1000));
    }
    (here, there)
}

pub async fn unix_pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// Actors for both directions of a connection, anywhere.
pub fn populate<S: Stream>(
    epoch: &'static Epoch,
    here: S,
    there: S,
    dice: &mut Rng,
    any: impl Fn(&mut Rng) -> Handle,
) {
    let (here, there) = (Arc::new(here), Arc::new(there));
    for (from, to) in [(&here, &there), (&there, &here)] {
        let link = Arc::new(Link::new(dice.next()));
        let writer = Writer { epoch, stream: from.clone(), link: link.clone(), done: 0 };
        epoch.act(&any(dice), "writer", writer.run(epoch.dice(dice.next())));
        let reader = Reader::new(epoch, to.clone(), link);
        epoch.act(&any(dice), "reader", reader.run(epoch.dice(dice.next())));
    }
}

/// What both ends of a direction know.
struct Link {
    key: u64,
    marks: Box<[AtomicU8]>,
    /// Set before the end.
    frames: AtomicUsize,
}

const PERHAPS: u8 = 1 << 0;
const SURE: u8 = 1 << 1;
const NEVER: u8 = 1 << 2;
const SEEN: u8 = 1 << 3;

impl Link {
    fn new(key: u64) -> Self {
        let marks = std::iter::repeat_with(AtomicU8::default).take(FRAMES).collect();
        Self { key, marks, frames: AtomicUsize::new(0) }
    }

    fn byte(&self, number: usize, index: usize) -> u8 {
        let mixed = self.key ^ (number as u64).wrapping_mul(0x9E37_79B9) ^ index as u64;
        (mixed ^ (mixed >> 8) ^ (mixed >> 16)) as u8
    }

    fn frame(&self, number: usize, len: usize) -> Bytes {
        let mut frame = Vec::with_capacity(HEAD + len);
        frame.extend_from_slice(&(len as u32).to_le_bytes());
        frame.extend_from_slice(&(number as u32).to_le_bytes());
        frame.extend((0..len).map(|index| self.byte(number, index)));
        frame
    }

    fn mark(&self, number: usize, bits: u8) -> u8 {
        self.marks[number].fetch_or(bits, SeqCst)
    }

    /// S2 and S5, after the end, of so many frames.
    fn check(&self, frames: usize) {
        for number in 0..frames {
            let mark = self.marks[number].load(SeqCst);
            assert_ne!(mark & (SURE | SEEN), SURE, "S2: frame {number} is lost");
            assert_ne!(mark & (NEVER | SEEN), NEVER | SEEN, "S2: frame {number} came from nowhere");
        }
    }
}

struct Writer<S> {
    epoch: &'static Epoch,
    stream: Arc<S>,
    link: Arc<Link>,
    /// Bytes of the current frame that are gone.
    done: usize,
}

impl<S: Stream> Writer<S> {
    async fn run(mut self, mut dice: Rng) -> Result<(), Aborted> {
        let mut number = 0;
        while number < FRAMES && !self.epoch.stops() {
            let len = match dice.below(64) {
                0 => BIG / 8 + dice.below(BIG),
                1..8 => dice.below(100_000),
                _ => dice.below(2_000),
            };
            self.send(&mut dice, number, len as usize).await?;
            number += 1;
            self.epoch.step();
            dawdle(&mut dice).await;
        }
        // Before the end, which the other side sees after it.
        self.link.frames.store(number, SeqCst);
        let closed = poll_fn(|cx| self.stream.poll_close(cx)).await;
        self.epoch.check(closed, "close").map(drop)
    }

    /// Writes a frame, or gives it up.
    async fn send(&mut self, dice: &mut Rng, number: usize, len: usize) -> Result<(), Aborted> {
        let frame = self.link.frame(number, len);
        self.link.mark(number, PERHAPS);
        self.done = 0;
        if dice.one_in(2) {
            let (stream, frame) = (self.stream.clone(), frame.clone());
            let op: Op<_> = Box::pin(async move { stream.write_all(frame).await.0 });
            match tempt(dice, op).await {
                Fate::Done(result) => {
                    let count = self.epoch.check(result, "write_all")?;
                    assert_eq!(count, HEAD + len);
                    self.link.mark(number, SURE);
                }
                Fate::Never => drop(self.link.mark(number, NEVER)),
                Fate::Perhaps => {}
            }
            return Ok(());
        }
        while self.done < frame.len() {
            self.send_some(dice, &frame).await?;
            if self.done == 0 && dice.one_in(8) {
                // Given up before its first byte.
                self.link.mark(number, NEVER);
                return Ok(());
            }
        }
        self.link.mark(number, SURE);
        Ok(())
    }

    /// Writes a part of a frame, by a write that tells how much is gone.
    async fn send_some(&mut self, dice: &mut Rng, frame: &[u8]) -> Result<(), Aborted> {
        let (stream, rest) = (self.stream.clone(), frame[self.done..].to_vec());
        let kind = dice.below(6);
        let (polls, mut own) = (dice.below(4), Rng::new(dice.next()));
        let op: Op<Answer> = match kind {
            0 => Box::pin(async move { poll_fn(|cx| stream.poll_write(cx, &rest)).await }),
            1 => Box::pin(async move {
                let (a, b) = rest.split_at(rest.len() / 3);
                stream.write_vectored(&[IoSlice::new(a), IoSlice::new(b)]).await
            }),
            2 => Box::pin(async move { stream.write_all(rest).await.0 }),
            3 => Box::pin(async move { stream.write(rest).await.0 }),
            4 => Box::pin(async move { cancelled(stream.write(rest), polls, &mut own).await }),
            _ => Box::pin(async move { cancelled(stream.write_all(rest), polls, &mut own).await }),
        };
        // Only the first two have done nothing if they are dropped.
        let fate = if kind < 2 { tempt(dice, op).await } else { Fate::Done(op.await) };
        match fate.done() {
            Some(Err(error)) if error.raw_os_error() == Some(libc::ECANCELED) && kind >= 4 => {}
            Some(result) => self.done += self.epoch.check(result, "write")?,
            None => {}
        }
        Ok(())
    }
}

/// Polls a write some times, and then cancels it.
async fn cancelled(write: Write<'_, Bytes>, polls: u64, dice: &mut Rng) -> Answer {
    let mut write = pin!(write);
    for _ in 0..polls {
        if let Poll::Ready((result, _)) = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await {
            return result;
        }
        dawdle(dice).await;
    }
    write.cancel().await.0
}

/// What a read brings.
enum Got {
    Bytes(Bytes),
    Chunk(Chunk),
    Peeked(Bytes),
    Nothing,
    End,
}

impl Got {
    fn of(result: Answer, mut buf: Bytes) -> io::Result<Self> {
        Ok(match result {
            Ok(0) => Self::End,
            Ok(count) => {
                buf.truncate(count);
                Self::Bytes(buf)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::WouldBlock => Self::Nothing,
                _ => return Err(error),
            },
        })
    }
}

struct Reader<S> {
    epoch: &'static Epoch,
    stream: Arc<S>,
    link: Arc<Link>,
    /// The head of the current frame, as far as it is there.
    head: Vec<u8>,
    /// How many bytes of its body are there.
    body: usize,
    /// The number that the next frame has at least (S1).
    least: usize,
    /// S3.
    peeked: Bytes,
    /// Chunks that somebody holds.
    hoard: Vec<Chunk>,
}

impl<S: Stream> Reader<S> {
    fn new(epoch: &'static Epoch, stream: Arc<S>, link: Arc<Link>) -> Self {
        let (head, peeked, hoard) = (Vec::new(), Vec::new(), Vec::new());
        Self { epoch, stream, link, head, body: 0, least: 0, peeked, hoard }
    }

    async fn run(mut self, mut dice: Rng) -> Result<(), Aborted> {
        loop {
            let op = self.read(&mut dice);
            let got = match tempt(&mut dice, op).await.done() {
                None => Got::Nothing,
                Some(result) => self.epoch.check(result, "read")?,
            };
            match got {
                Got::Bytes(bytes) => self.take(&bytes),
                Got::Chunk(chunk) => {
                    self.take(&chunk);
                    self.hold(chunk, &mut dice);
                }
                Got::Peeked(bytes) => self.note_peeked(bytes),
                Got::Nothing => {}
                Got::End => break,
            }
            dawdle(&mut dice).await;
        }
        assert!(self.peeked.is_empty(), "S3: what was peeked is not read");
        // The mark of an abort is set before it begins.
        if self.epoch.aborted.load(SeqCst) {
            self.link.check(self.least);
            return Err(Aborted);
        }
        assert!(self.head.is_empty(), "S1: half a frame");
        self.link.check(self.link.frames.load(SeqCst));
        Ok(())
    }

    /// Some read.
    fn read(&self, dice: &mut Rng) -> Op<io::Result<Got>> {
        let stream = self.stream.clone();
        let size = match dice.below(8) {
            0 => 1 + dice.below(16),
            1..4 => 1 + dice.below(70_000),
            _ => 1 + dice.below(5_000),
        };
        let mut buf = vec![0; size as usize];
        let (polls, mut own) = (dice.below(4), Rng::new(dice.next()));
        match dice.below(10) {
            0 => Box::pin(async move {
                let (result, buf) = stream.read(buf).await;
                Got::of(result, buf)
            }),
            1 => Box::pin(async move {
                let (result, buf) = stream.read_exact(buf).await;
                Got::of(result, buf)
            }),
            2..4 => Box::pin(async move {
                let chunk = stream.recv().await?;
                Ok(chunk.map_or(Got::End, Got::Chunk))
            }),
            4 => Box::pin(async move {
                let result = poll_fn(|cx| stream.poll_read(cx, &mut buf)).await;
                Got::of(result, buf)
            }),
            5 => Box::pin(async move {
                let (a, b) = buf.split_at_mut(size as usize / 3);
                let mut bufs = [IoSliceMut::new(a), IoSliceMut::new(b)];
                let result = stream.read_vectored(&mut bufs).await;
                Got::of(result, buf)
            }),
            6 => Box::pin(async move {
                let count = stream.peek(&mut buf).await?;
                buf.truncate(count);
                Ok(Got::Peeked(buf))
            }),
            7 => Box::pin(async move {
                stream.readable().await?;
                let result = stream.try_read(&mut buf);
                Got::of(result, buf)
            }),
            8 => Box::pin(async move { given_up(stream.read(buf), polls, &mut own).await }),
            _ => Box::pin(async move { given_up(stream.read_exact(buf), polls, &mut own).await }),
        }
    }

    /// Keeps a chunk for a while, and has it dropped by another thread.
    fn hold(&mut self, chunk: Chunk, dice: &mut Rng) {
        self.hoard.push(chunk);
        if dice.one_in(16) {
            let all = std::mem::take(&mut self.hoard);
            drop(filch::spawn_fn(move || drop(all)));
        } else if dice.one_in(2) {
            let index = dice.below(self.hoard.len() as u64) as usize;
            drop(self.hoard.swap_remove(index));
        }
    }

    fn note_peeked(&mut self, bytes: Bytes) {
        let both = bytes.len().min(self.peeked.len());
        assert!(bytes[..both] == self.peeked[..both], "S3: peeked twice");
        if bytes.len() > both {
            self.peeked = bytes;
        }
    }

    /// Checks what was read.
    fn take(&mut self, mut bytes: &[u8]) {
        let both = bytes.len().min(self.peeked.len());
        assert!(bytes[..both] == self.peeked[..both], "S3: read something else");
        self.epoch.step();
        self.peeked.drain(..both);
        while !bytes.is_empty() {
            if self.head.len() < HEAD {
                let count = bytes.len().min(HEAD - self.head.len());
                self.head.extend_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                if self.head.len() == HEAD {
                    self.begin_frame();
                }
            } else {
                bytes = self.take_body(bytes);
            }
        }
    }

    /// Length and number of the current frame.
    fn frame(&self) -> (usize, usize) {
        let field = |at: usize| u32::from_le_bytes(self.head[at..at + 4].try_into().unwrap());
        (field(0) as usize, field(4) as usize)
    }

    fn begin_frame(&mut self) {
        let (len, number) = self.frame();
        assert!(number >= self.least && number < FRAMES, "S1: {number} before {}", self.least);
        assert!(len as u64 <= 2 * BIG, "S1: frame {number} of {len} bytes");
        self.least = number + 1;
        self.link.mark(number, SEEN);
        self.end_frame();
    }

    fn take_body<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (len, number) = self.frame();
        let (now, rest) = bytes.split_at(bytes.len().min(len - self.body));
        for (index, &byte) in now.iter().enumerate() {
            let index = self.body + index;
            assert_eq!(byte, self.link.byte(number, index), "S1: byte {index} of frame {number}");
        }
        self.body += now.len();
        self.end_frame();
        rest
    }

    fn end_frame(&mut self) {
        if self.body == self.frame().0 {
            self.head.clear();
            self.body = 0;
        }
    }
}

/// Polls a read some times, and then cancels it.
async fn given_up(read: Read<'_, Bytes>, polls: u64, dice: &mut Rng) -> io::Result<Got> {
    let mut read = pin!(read);
    for _ in 0..polls {
        let poll = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
        if let Poll::Ready((result, buf)) = poll {
            return Got::of(result, buf);
        }
        dawdle(dice).await;
    }
    match read.cancel().await {
        (Err(error), _) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(Got::Nothing),
        (result, buf) => Got::of(result, buf),
    }
}
