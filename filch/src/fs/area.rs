//! The memory of a read or write: one buffer, or several.
//!
//! M1. The pointers of a request lead into the buffers and, for several, into a table beside them on the
//!     heap: all stay where they are while the area moves (Q1 of `io/buf.rs`).

use std::os::fd::RawFd;

use crate::io::files::{FileRequest, Thread};
use crate::io::readiness::Direction;
use crate::io::{IoBuf, IoBufMut};

/// Most bytes that one request asks for: the kernel cuts there anyway.
const MOST: usize = 1 << 30;

/// Most buffers that one request takes.
const MOST_VECTORS: usize = 1024;

/// Bytes of a read from which on a thread of the kernel copies them: as many as a worker should not
/// stop for. Guessed: some 100 µs.
pub(super) const BULK: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

impl Way {
    /// What it waits for.
    pub(super) fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write => Direction::Write,
        }
    }
}

/// See the file header.
///
/// # Safety
/// * What `request` points to is valid as long as the area lives, also while it moves.
/// * A request of the way `Read` may write there, and reads nothing.
pub(super) unsafe trait Area: Send + Unpin + 'static {
    const WAY: Way;
    /// What the user gave, and gets back.
    type Buffers;

    /// How many bytes there are to fill or to write.
    fn len(&self) -> usize;

    /// How many bytes a request for what is left after the first `done` asks for, at least: all of them, or as
    /// many as one request takes.
    fn asked(&self, done: usize) -> usize {
        (self.len() - done).min(MOST)
    }

    /// What is left after the first `done` bytes. `offset` is where that goes.
    fn request(&mut self, fd: RawFd, done: usize, offset: u64) -> FileRequest;

    /// The first `count` bytes were read.
    ///
    /// # Safety
    /// They were.
    unsafe fn note(&mut self, count: usize);

    /// Fills the bytes behind the first `done` as far as both reach; how many that were.
    fn fill(&mut self, done: usize, bytes: &[u8]) -> usize;

    /// The first `count` bytes, which were read.
    fn copied(&self, count: usize) -> Vec<u8>;

    fn into_buffers(self) -> Self::Buffers;
}

pub(super) struct ReadOne<B>(pub(super) B);
pub(super) struct WriteOne<B>(pub(super) B);
pub(super) struct ReadMany<B>(Many<B>);
pub(super) struct WriteMany<B>(Many<B>);

fn capped(len: usize) -> u32 {
    len.min(MOST) as u32
}

/// See [`Area::asked`], of several buffers with these lengths.
fn asked(lens: impl Iterator<Item = usize>, mut done: usize) -> usize {
    let left = lens.filter_map(|len| {
        let skip = done.min(len);
        done -= skip;
        (skip < len).then_some(len - skip)
    });
    left.take(MOST_VECTORS).sum::<usize>().min(MOST)
}

/// Copies as far as both reach.
///
/// # Safety
/// `len` bytes may be written at `to`.
unsafe fn copy(bytes: &[u8], to: *mut u8, len: usize) -> usize {
    let count = bytes.len().min(len);
    // SAFETY: by the caller's promise; a buffer that is being filled is not the source.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    count
}

// SAFETY: M1.
unsafe impl<B: IoBufMut + Unpin> Area for ReadOne<B> {
    const WAY: Way = Way::Read;
    type Buffers = B;

    fn len(&self) -> usize {
        self.0.bytes_total()
    }

    fn request(&mut self, fd: RawFd, done: usize, offset: u64) -> FileRequest {
        let left = self.len() - done;
        let thread = if left < BULK { Thread::Submitter } else { Thread::Kernel };
        // SAFETY: `done` is within the buffer.
        let buf = unsafe { self.0.as_mut_ptr().add(done) };
        FileRequest::Read { fd, buf, len: capped(left), offset, thread }
    }

    unsafe fn note(&mut self, count: usize) {
        // SAFETY: by the caller's promise.
        unsafe { self.0.set_init(count) };
    }

    fn fill(&mut self, done: usize, bytes: &[u8]) -> usize {
        let left = self.len() - done;
        // SAFETY: `done` is within the buffer.
        let to = unsafe { self.0.as_mut_ptr().add(done) };
        // SAFETY: what is left of the buffer may be written.
        unsafe { copy(bytes, to, left) }
    }

    fn copied(&self, count: usize) -> Vec<u8> {
        self.0.as_init()[..count].to_vec()
    }

    fn into_buffers(self) -> B {
        self.0
    }
}

// SAFETY: M1.
unsafe impl<B: IoBuf + Unpin> Area for WriteOne<B> {
    const WAY: Way = Way::Write;
    type Buffers = B;

    fn len(&self) -> usize {
        self.0.bytes_init()
    }

    fn request(&mut self, fd: RawFd, done: usize, offset: u64) -> FileRequest {
        let bytes = &self.0.as_init()[done..];
        FileRequest::Write { fd, buf: bytes.as_ptr(), len: capped(bytes.len()), offset }
    }

    unsafe fn note(&mut self, _: usize) {}

    fn fill(&mut self, _: usize, _: &[u8]) -> usize {
        unreachable!("a write is not filled")
    }

    fn copied(&self, _: usize) -> Vec<u8> {
        unreachable!("a write has read nothing")
    }

    fn into_buffers(self) -> B {
        self.0
    }
}

/// Buffers, and the table that the kernel reads them from.
struct Many<B> {
    buffers: Vec<B>,
    table: Vec<libc::iovec>,
}

// SAFETY: the table leads into the buffers, which are `Send` (M1).
unsafe impl<B: Send> Send for Many<B> {}

impl<B> Many<B> {
    fn new(buffers: Vec<B>) -> Self {
        Self { buffers, table: Vec::new() }
    }

    /// Fills the table with what is left after the first `done` bytes.
    fn tabulate(
        &mut self,
        mut done: usize,
        part: impl Fn(&mut B) -> (*mut u8, usize),
    ) -> (*const libc::iovec, u32) {
        self.table.clear();
        for buffer in &mut self.buffers {
            let (base, len) = part(buffer);
            let skip = done.min(len);
            done -= skip;
            if skip < len && self.table.len() < MOST_VECTORS {
                // SAFETY: `skip` is within the buffer.
                let base = unsafe { base.add(skip) };
                self.table.push(libc::iovec { iov_base: base.cast(), iov_len: len - skip });
            }
        }
        (self.table.as_ptr(), self.table.len() as u32)
    }
}

impl<B> ReadMany<B> {
    pub(super) fn new(buffers: Vec<B>) -> Self {
        Self(Many::new(buffers))
    }
}

impl<B> WriteMany<B> {
    pub(super) fn new(buffers: Vec<B>) -> Self {
        Self(Many::new(buffers))
    }
}

// SAFETY: M1.
unsafe impl<B: IoBufMut + Unpin> Area for ReadMany<B> {
    const WAY: Way = Way::Read;
    type Buffers = Vec<B>;

    fn len(&self) -> usize {
        self.0.buffers.iter().map(IoBufMut::bytes_total).sum()
    }

    fn asked(&self, done: usize) -> usize {
        asked(self.0.buffers.iter().map(IoBufMut::bytes_total), done)
    }

    fn request(&mut self, fd: RawFd, done: usize, offset: u64) -> FileRequest {
        let part = |buffer: &mut B| (buffer.as_mut_ptr(), buffer.bytes_total());
        let (vectors, count) = self.0.tabulate(done, part);
        FileRequest::ReadVectored { fd, vectors, count, offset }
    }

    unsafe fn note(&mut self, mut count: usize) {
        for buffer in &mut self.0.buffers {
            let here = count.min(buffer.bytes_total());
            count -= here;
            // SAFETY: by the caller's promise; they are filled one after another.
            unsafe { buffer.set_init(here) };
        }
    }

    fn fill(&mut self, mut done: usize, bytes: &[u8]) -> usize {
        let mut filled = 0;
        for buffer in &mut self.0.buffers {
            let total = buffer.bytes_total();
            let skip = done.min(total);
            done -= skip;
            // SAFETY: `skip` is within the buffer.
            let to = unsafe { buffer.as_mut_ptr().add(skip) };
            // SAFETY: what is left of the buffer may be written.
            filled += unsafe { copy(&bytes[filled..], to, total - skip) };
        }
        filled
    }

    fn copied(&self, count: usize) -> Vec<u8> {
        let all = self.0.buffers.iter().flat_map(|buffer| buffer.as_init());
        all.take(count).copied().collect()
    }

    fn into_buffers(self) -> Vec<B> {
        self.0.buffers
    }
}

// SAFETY: M1.
unsafe impl<B: IoBuf + Unpin> Area for WriteMany<B> {
    const WAY: Way = Way::Write;
    type Buffers = Vec<B>;

    fn len(&self) -> usize {
        self.0.buffers.iter().map(IoBuf::bytes_init).sum()
    }

    fn asked(&self, done: usize) -> usize {
        asked(self.0.buffers.iter().map(IoBuf::bytes_init), done)
    }

    fn request(&mut self, fd: RawFd, done: usize, offset: u64) -> FileRequest {
        let part = |buffer: &mut B| (buffer.as_ptr().cast_mut(), buffer.bytes_init());
        let (vectors, count) = self.0.tabulate(done, part);
        FileRequest::WriteVectored { fd, vectors, count, offset }
    }

    unsafe fn note(&mut self, _: usize) {}

    fn fill(&mut self, _: usize, _: &[u8]) -> usize {
        unreachable!("a write is not filled")
    }

    fn copied(&self, _: usize) -> Vec<u8> {
        unreachable!("a write has read nothing")
    }

    fn into_buffers(self) -> Vec<B> {
        self.0.buffers
    }
}
