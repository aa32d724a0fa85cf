//! Buffers that an operation owns while it is under way.
//!
//! Q1. The address of a buffer's bytes does not change when the buffer moves, and nobody but its owner
//!     reaches them. So the kernel may read or write them while the operation keeps the buffer,
//!     wherever it keeps it.
//!
//! Not here: buffers that the kernel picks (`buffers`).

use std::ops::{Bound, RangeBounds};

use super::buffers::Chunk;

/// Bytes that an operation may read from while it is under way.
///
/// # Safety
/// * `as_ptr` points to `bytes_init` initialized bytes, which stay there, unchanged, until the value
///   is dropped or used by its owner: also while the value itself is moved.
///
/// # Examples
///
/// ```
/// use filch::io::IoBuf;
/// let buffer = b"hello, world".to_vec();
/// assert_eq!(buffer.bytes_init(), 12);
/// assert_eq!(buffer.slice(7..).as_init(), b"world");
/// ```
pub unsafe trait IoBuf: Send + 'static {
    /// Where the bytes are.
    fn as_ptr(&self) -> *const u8;

    /// How many of them are initialized.
    fn bytes_init(&self) -> usize;

    /// The initialized bytes.
    fn as_init(&self) -> &[u8] {
        // SAFETY: by the promise of the implementation.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.bytes_init()) }
    }

    /// A part of the buffer, as a buffer.
    ///
    /// # Panics
    /// If the range begins after it ends, or after the initialized bytes do.
    #[track_caller]
    fn slice(self, range: impl RangeBounds<usize>) -> Slice<Self>
    where
        Self: Sized,
    {
        Slice::new(self, range)
    }
}

/// Bytes that an operation may write to while it is under way.
///
/// # Safety
/// * `as_mut_ptr` points to `bytes_total` bytes that may be written, and that stay there until the
///   value is dropped or used by its owner: also while the value itself is moved.
/// * The first of them are those of [`IoBuf`].
///
/// # Examples
///
/// ```
/// use filch::io::IoBufMut;
/// let mut buffer = Vec::with_capacity(100);
/// buffer.extend_from_slice(b"old");
/// assert!(buffer.bytes_total() >= 100);
/// ```
pub unsafe trait IoBufMut: IoBuf {
    /// Where the bytes are.
    fn as_mut_ptr(&mut self) -> *mut u8;

    /// How many bytes there are, initialized or not.
    fn bytes_total(&self) -> usize;

    /// Notes that the first `count` bytes are initialized, if they were not.
    ///
    /// # Safety
    /// They are.
    unsafe fn set_init(&mut self, count: usize);
}

// SAFETY: the bytes of a vector are on the heap, and nobody else's.
unsafe impl IoBuf for Vec<u8> {
    fn as_ptr(&self) -> *const u8 {
        self.as_slice().as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

// SAFETY: as above; a vector's capacity is there to be written.
unsafe impl IoBufMut for Vec<u8> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        Vec::as_mut_ptr(self)
    }

    fn bytes_total(&self) -> usize {
        self.capacity()
    }

    unsafe fn set_init(&mut self, count: usize) {
        if count > self.len() {
            // SAFETY: by the caller's promise.
            unsafe { self.set_len(count) };
        }
    }
}

// SAFETY: the bytes are on the heap, and nobody else's.
unsafe impl IoBuf for Box<[u8]> {
    fn as_ptr(&self) -> *const u8 {
        (**self).as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

// SAFETY: as above.
unsafe impl IoBufMut for Box<[u8]> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        (**self).as_mut_ptr()
    }

    fn bytes_total(&self) -> usize {
        self.len()
    }

    unsafe fn set_init(&mut self, _: usize) {}
}

// SAFETY: static bytes stay, unchanged.
unsafe impl IoBuf for &'static [u8] {
    fn as_ptr(&self) -> *const u8 {
        (**self).as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

// SAFETY: static bytes stay, unchanged.
unsafe impl<const N: usize> IoBuf for &'static [u8; N] {
    fn as_ptr(&self) -> *const u8 {
        (**self).as_ptr()
    }

    fn bytes_init(&self) -> usize {
        N
    }
}

// SAFETY: static bytes stay, unchanged.
unsafe impl IoBuf for &'static str {
    fn as_ptr(&self) -> *const u8 {
        (**self).as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

// SAFETY: the bytes of a string are on the heap, and nobody else's.
unsafe impl IoBuf for String {
    fn as_ptr(&self) -> *const u8 {
        self.as_str().as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

// SAFETY: F1 of `buffers`, the bytes are the chunk's alone and do not move with it.
unsafe impl IoBuf for Chunk {
    fn as_ptr(&self) -> *const u8 {
        (**self).as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.len()
    }
}

/// A part of a buffer, as a buffer; see [`IoBuf::slice`].
///
/// A receive into a slice of a vector's free capacity begins where the slice does.
///
/// ```
/// use filch::io::IoBuf;
/// let part = b"0123456789".to_vec().slice(2..5);
/// assert_eq!(part.as_init(), b"234");
/// assert_eq!(part.into_inner(), b"0123456789");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice<B> {
    buf: B,
    start: usize,
    /// `None` is the end of the buffer, however far that is.
    end: Option<usize>,
}

impl<B: IoBuf> Slice<B> {
    #[track_caller]
    fn new(buf: B, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1),
            Bound::Excluded(&end) => Some(end),
            Bound::Unbounded => None,
        };
        let init = buf.bytes_init();
        assert!(start <= init, "the slice begins at {start}, after the {init} initialized bytes");
        assert!(end.is_none_or(|end| start <= end), "the slice ends before it begins");
        Self { buf, start, end }
    }

    /// The whole buffer.
    pub fn into_inner(self) -> B {
        self.buf
    }

    fn cut(&self, whole: usize) -> usize {
        self.end.unwrap_or(usize::MAX).min(whole).saturating_sub(self.start)
    }
}

// SAFETY: a part of a buffer that keeps the promise.
unsafe impl<B: IoBuf> IoBuf for Slice<B> {
    fn as_ptr(&self) -> *const u8 {
        // SAFETY: `start` is within the initialized bytes.
        unsafe { self.buf.as_ptr().add(self.start) }
    }

    fn bytes_init(&self) -> usize {
        self.cut(self.buf.bytes_init())
    }
}

// SAFETY: a part of a buffer that keeps the promise.
unsafe impl<B: IoBufMut> IoBufMut for Slice<B> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        // SAFETY: `start` is within the buffer.
        unsafe { self.buf.as_mut_ptr().add(self.start) }
    }

    fn bytes_total(&self) -> usize {
        self.cut(self.buf.bytes_total())
    }

    unsafe fn set_init(&mut self, count: usize) {
        // SAFETY: by the caller's promise, and what lies before the slice is initialized.
        unsafe { self.buf.set_init(self.start + count) };
    }
}
