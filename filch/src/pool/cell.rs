//! Free cells, and magazines of them.
//!
//! A magazine is an array of pointers, not a list through the cells: to pop one cell need not
//! miss the cache on another, and a sweep reads magazines without touching any cell.
//!
//! F1. A [`FreeCell`] is the only claim on its cell: nobody else touches it but for atomic loads
//!     and failing read-modify-writes of its first word.
//! F2. The first word of a free cell is zero.
//! F3. A free cell outside the depot keeps its chunk, hence its pool, alive.
//!
//! Not here: how many cells a magazine may hold (class.rs).

use std::ptr::NonNull;

use super::chunk::ChunkPtr;
use crate::base::shim::{Ordering, RawAtomicU64};

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
}

/// Free cells of one class that move as one.
#[derive(Default)]
pub(super) struct Magazine(Vec<FreeCell>);

impl Magazine {
    /// An empty magazine with room for `cells`.
    pub(super) fn with_room(cells: u32) -> Self {
        Self(Vec::with_capacity(cells as usize))
    }

    /// A magazine of one cell, with room for no more.
    pub(super) fn of(cell: FreeCell) -> Self {
        Self(vec![cell])
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, cell: FreeCell) {
        self.0.push(cell);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<FreeCell> {
        self.0.pop()
    }

    /// Whether a push needs no memory and stays within the capacity that `with_room` was given.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < self.0.capacity()
    }

    /// The chunk of each cell.
    pub(super) fn chunks(&self) -> impl Iterator<Item = ChunkPtr> {
        self.0.iter().map(FreeCell::chunk)
    }
}
