//! Buffers that the kernel picks from when bytes arrive, and chunks: what it put there.
//!
//! F1. A buffer is the kernel's (in the ring of buffers), a chunk's, or on its way in a completion;
//!     never two of these. Only `give_back` makes it the kernel's again.
//! F2. The memory lives as long as a chunk or the driver refers to it. The kernel stops using it when
//!     its ring is closed, which is when nothing is in flight any more.
//! F3. A chunk may be dropped on any thread: the tail is moved under a lock of the pool's own, which
//!     is never held together with another.
//!
//! Not here: what happens when all buffers are taken (a socket then receives into memory of its own).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

use super::slots::Completion;
use crate::base::shim::{Mutex, Ordering, RawAtomicU16};

/// Buffers of one driver, a power of two. Guessed.
const COUNT: u16 = 128;

/// Bytes of each. Guessed.
const SIZE: usize = 32 * 1024;

/// What a ring of buffers has to be aligned to.
const PAGE: usize = 4096;

/// The buffers of one driver.
pub(crate) struct Pool {
    /// `COUNT` entries that the kernel reads, on pages of their own.
    entries: NonNull<BufRingEntry>,
    /// `COUNT` buffers in a row.
    memory: NonNull<u8>,
    /// The next entry to fill, as the kernel sees it after a `give_back`.
    tail: Mutex<u16>,
}

// SAFETY: the memory is reached through the pool only, by the rules of F1 and F3.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

fn layouts() -> (Layout, Layout) {
    let entries = usize::from(COUNT) * size_of::<BufRingEntry>();
    let make =
        |size| Layout::from_size_align(size, PAGE).expect("a page divides the address space");
    (make(entries), make(usize::from(COUNT) * SIZE))
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Pool {
    fn allocated() -> Arc<Self> {
        let (entries, memory) = layouts();
        Arc::new(Self {
            entries: allocate(entries).cast(),
            memory: allocate(memory),
            tail: Mutex::new(0),
        })
    }

    /// Makes buffers that the kernel does not see, for who plays its part.
    pub(super) fn unregistered() -> Arc<Self> {
        let pool = Self::allocated();
        (0..COUNT).for_each(|number| pool.give_back(number));
        pool
    }

    /// The buffer at the place `head` of the ring, if there is one, with its memory and size: for who
    /// plays the kernel's part, and takes it by going on to the next place (F1).
    pub(super) fn next(&self, head: u16) -> Option<(u16, *mut u8, u32)> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if head == *tail {
            return None;
        }
        // SAFETY: within the entries.
        let entry = unsafe { self.entries.add(usize::from(head % COUNT)) };
        // SAFETY: below the tail: filled by `give_back`, which the lock keeps away now.
        let number = unsafe { entry.as_ref() }.bid();
        Some((number, self.buffer(number).as_ptr(), SIZE as u32))
    }

    /// Makes the buffers and shows them to the kernel.
    pub(super) fn register(ring: &IoUring) -> io::Result<Arc<Self>> {
        let pool = Self::allocated();
        let address = pool.entries.addr().get() as u64;
        // SAFETY: F2, the entries outlive the ring's use of them.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, COUNT, pool.group(), 0) }?;
        (0..COUNT).for_each(|number| pool.give_back(number));
        Ok(pool)
    }

    /// The number by which entries name these buffers.
    pub(super) fn group(&self) -> u16 {
        1
    }

    fn buffer(&self, number: u16) -> NonNull<u8> {
        debug_assert!(number < COUNT);
        // SAFETY: there are `COUNT` buffers of `SIZE`.
        unsafe { self.memory.add(usize::from(number) * SIZE) }
    }

    /// Makes a buffer the kernel's (F1).
    fn give_back(&self, number: u16) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: within the entries.
        let mut entry = unsafe { self.entries.add(usize::from(*tail % COUNT)) };
        // SAFETY: the kernel reads an entry below the tail only, and this one is not; the lock keeps
        // others away (F3).
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(self.buffer(number).addr().get() as u64);
        entry.set_len(SIZE as u32);
        entry.set_bid(number);
        *tail = tail.wrapping_add(1);
        // SAFETY: the first entry is initialized, as are all.
        let shared = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: aligned, alive (F2), and written by atomic operations only.
        let shared = unsafe { RawAtomicU16::from_ptr(shared.cast_mut()) };
        // ORDERING: Release pairs with the kernel's acquire of the tail: it sees the entry filled.
        shared.store(*tail, Ordering::Release);
    }

    /// The bytes that a completion brought, if it names a buffer.
    pub(crate) fn chunk(self: &Arc<Self>, completion: Completion) -> Option<Chunk> {
        let number = cqueue::buffer_select(completion.flags)?;
        let len = usize::try_from(completion.result).unwrap_or(0);
        debug_assert!(len <= SIZE, "the kernel keeps to the buffer");
        Some(Chunk(Kind::Pooled { pool: self.clone(), number, start: 0, len }))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let (entries, memory) = layouts();
        // SAFETY: F2, nobody refers to it; allocated with this layout.
        unsafe { dealloc(self.entries.as_ptr().cast(), entries) };
        // SAFETY: as above.
        unsafe { dealloc(self.memory.as_ptr(), memory) };
    }
}

/// Bytes that arrived, where the kernel put them.
///
/// A chunk from a ring occupies one of its worker's buffers until it is dropped, on any thread. As
/// long as somebody holds many of them, sockets receive into memory of their own, which is slower.
///
/// ```
/// use filch::net::{TcpListener, TcpStream};
/// # filch::block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let client = TcpStream::connect(listener.local_addr()?).await?;
/// let (server, _) = listener.accept().await?;
/// client.write_all(b"hello".to_vec()).await.0?;
/// let chunk = server.recv().await?.expect("not the end");
/// assert_eq!(&chunk[..], b"hello");
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct Chunk(Kind);

enum Kind {
    Pooled { pool: Arc<Pool>, number: u16, start: usize, len: usize },
    Owned { bytes: Vec<u8>, start: usize },
}

impl Default for Chunk {
    /// An empty one.
    fn default() -> Self {
        Self::from_vec(Vec::new())
    }
}

impl Chunk {
    pub(crate) fn from_vec(bytes: Vec<u8>) -> Self {
        Self(Kind::Owned { bytes, start: 0 })
    }

    /// Takes bytes off the front: as many as there are, up to the length of `into`.
    pub(crate) fn drain_into(&mut self, into: &mut [std::mem::MaybeUninit<u8>]) -> usize {
        let count = self.len().min(into.len());
        into[..count].write_copy_of_slice(&self[..count]);
        self.advance(count);
        count
    }

    /// Lets go of the first `count` bytes.
    ///
    /// ```
    /// let mut chunk = filch::io::Chunk::from(b"head and body".to_vec());
    /// chunk.advance(9);
    /// assert_eq!(&*chunk, b"body");
    /// ```
    ///
    /// # Panics
    /// If there are fewer.
    #[track_caller]
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "a chunk of {} bytes has no {count} bytes", self.len());
        match &mut self.0 {
            Kind::Pooled { start, len, .. } => {
                *start += count;
                *len -= count;
            }
            Kind::Owned { start, .. } => *start += count,
        }
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_vec(bytes)
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Pooled { pool, number, start, len } => {
                // SAFETY: within the buffer: `start` and `len` only move together.
                let first = unsafe { pool.buffer(*number).add(*start) };
                // SAFETY: F1, the buffer is this chunk's, and the kernel wrote these bytes.
                unsafe { std::slice::from_raw_parts(first.as_ptr(), *len) }
            }
            Kind::Owned { bytes, start } => &bytes[*start..],
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Kind::Pooled { pool, number, .. } = &self.0 {
            pool.give_back(*number);
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chunk").field(&&**self).finish()
    }
}
