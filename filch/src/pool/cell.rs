//! Free cells, and magazines of them.
//!
//! A free cell is a zero word, a link, and bytes that mean nothing:
//!
//! ```text
//! 0         8         16
//! | state=0 | link    | ...
//! ```
//!
//! F1. A [`FreeCell`] is the only claim on its cell: nobody else touches it but for atomic loads
//!     and failing read-modify-writes of its first word.
//! F2. The first word of a free cell is zero.
//! F3. A free cell outside the depot keeps its chunk, hence its pool, alive.
//! F4. `count` is the length of the list at `head`.
//!
//! Not here: how many cells a magazine may hold (class.rs).

use std::ptr::NonNull;

use super::chunk::ChunkPtr;
use crate::base::shim::{Ordering, RawAtomicU64};

/// Offset of a free cell's link, in bytes: behind the state word.
const LINK: usize = size_of::<RawAtomicU64>();

/// The state word of a cell.
///
/// # Safety
///
/// `cell` is a cell of a chunk that lives throughout `'a`.
#[inline(always)]
pub(super) unsafe fn first_word<'a>(cell: NonNull<u8>) -> &'a RawAtomicU64 {
    // SAFETY: by contract the cell is live memory, aligned to 16; its first word is only ever
    // accessed as an atomic (pool P1).
    unsafe { cell.cast::<RawAtomicU64>().as_ref() }
}

/// Sole ownership of a cell that is not in use (F1).
pub(super) struct FreeCell(NonNull<u8>);

// SAFETY: F1, ownership of plain memory.
unsafe impl Send for FreeCell {}

impl FreeCell {
    /// Takes a cell over from its carver or from a user who is done with it.
    ///
    /// # Safety
    ///
    /// - `cell` is a cell of a live chunk, with the provenance that carving gave it.
    /// - The caller is its only owner, and gives that up.
    #[inline(always)]
    pub(super) unsafe fn claim(cell: NonNull<u8>) -> Self {
        // SAFETY: by contract the chunk lives.
        let word = unsafe { first_word(cell) };
        // ORDERING: Relaxed, zero publishes nothing. A visitor that still reads the old value
        // fails its read-modify-write, which sees the newest one.
        word.store(0, Ordering::Relaxed);
        Self(cell)
    }

    /// Gives the cell to a user; its first word is still zero.
    #[inline(always)]
    pub(super) fn hand_out(self) -> NonNull<u8> {
        // ORDERING: Relaxed, the owner reads its own store (F1).
        debug_assert_eq!(self.word().load(Ordering::Relaxed), 0, "written while free");
        self.0
    }

    #[inline(always)]
    fn word(&self) -> &RawAtomicU64 {
        // SAFETY: F3, the chunk lives while this claim does.
        unsafe { first_word(self.0) }
    }

    #[inline(always)]
    pub(super) fn chunk(&self) -> ChunkPtr {
        // SAFETY: F3 or, in the depot, the table that lists the chunk.
        unsafe { ChunkPtr::of(self.0) }
    }

    #[inline(always)]
    fn link(&self) -> NonNull<Option<NonNull<u8>>> {
        // SAFETY: every class has room for a word and a link.
        unsafe { self.0.add(LINK) }.cast()
    }
}

/// A list of free cells that moves as one.
#[derive(Default)]
pub(super) struct Magazine {
    head: Option<NonNull<u8>>,
    count: u32,
}

// SAFETY: a magazine is nothing but the FreeCells on its list.
unsafe impl Send for Magazine {}

impl Magazine {
    pub(super) fn of(cell: FreeCell) -> Self {
        let mut magazine = Self::default();
        magazine.push(cell);
        magazine
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, cell: FreeCell) {
        // SAFETY: F1, only the owner touches the link of a free cell.
        unsafe { cell.link().write(self.head) };
        self.head = Some(cell.0);
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<FreeCell> {
        let cell = FreeCell(self.head?);
        // SAFETY: F1, and `push` wrote the link.
        self.head = unsafe { cell.link().read() };
        self.count -= 1;
        Some(cell)
    }

    /// The chunk of each cell, in list order.
    pub(super) fn chunks(&self) -> impl Iterator<Item = ChunkPtr> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let cell = FreeCell(next?);
            // SAFETY: F1, and `push` wrote the link.
            next = unsafe { cell.link().read() };
            Some(cell.chunk())
        })
    }
}
