//! Chunks: the system allocations that cells are carved from.
//!
//! A chunk is aligned to [`CHUNK_BYTES`], and every cell begins within that distance of its
//! start, so masking a cell's address finds the header.
//!
//! C1. A [`ChunkPtr`] is used only while its chunk lives: between `create` and `give_back`.
//! C2. [`Guarded`] is touched only under the lock of the depot that registered the chunk; the
//!     [`Locked`] of that depot is the evidence.
//! C3. The first word of every carved cell is an initialised atomic, and stays one until
//!     `give_back`.
//! C4. A chunk holds a strong reference to its pool: the pool outlives its chunks.
//! C5. Cells are carved in address order, so that pages are touched only when needed.
//!
//! Not here: which chunk to carve and when to give one back (depot.rs).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use super::Pool;
use super::cell::{FreeCell, first_word};
use super::class::{CellLayout, Class};
use crate::base::shim::{Ordering, UnsafeCell};

/// Alignment of every chunk and size of a recycled class's chunk, in bytes (guessed: 127 cells
/// of 256 bytes, and a straggler holds no more than this).
pub(super) const CHUNK_BYTES: usize = 32 * 1024;

/// Offset of the first cell, in bytes, unless its alignment is stricter.
pub(super) const FIRST_CELL: usize = size_of::<Chunk>();

/// Evidence that a depot's lock is held: each depot owns one, inside its mutex.
pub(super) struct Locked(());

impl Locked {
    /// Only for the constructor of a depot (C2).
    pub(super) fn for_depot() -> Self {
        Locked(())
    }
}

/// The header at the start of a chunk.
#[repr(C, align(128))]
struct Chunk {
    fixed: Fixed,
    guarded: Line<UnsafeCell<Guarded>>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Chunk>() == 128);

/// Keeps what changes off the cache line that every free reads.
#[repr(align(64))]
struct Line<T>(T);

/// Written by `create`, read by anyone who holds a cell.
pub(super) struct Fixed {
    pub(super) pool: Arc<Pool>,
    pub(super) class: Class,
    /// Bytes from one cell to the next.
    stride: u32,
    /// Offset of the first cell, in bytes.
    first: u32,
    /// Cells this chunk has room for.
    cells: u32,
    layout: Layout,
}

/// Read and written under the depot's lock (C2).
pub(super) struct Guarded {
    /// Cells carved so far, from the front.
    pub(super) carved: u32,
    /// Carved cells that are not in the depot: exact while draining, else as of the last census.
    pub(super) held: u32,
    /// What the sweep under way decided.
    pub(super) fate: Fate,
    /// Where the depot's table lists the chunk.
    pub(super) slot: u32,
}

/// Whether a sweep keeps a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Goes,
}

/// A live chunk (C1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkPtr(NonNull<Chunk>);

// SAFETY: C1 and C2, what a ChunkPtr reaches is immutable or under a lock, from any thread.
unsafe impl Send for ChunkPtr {}

impl ChunkPtr {
    /// A chunk of `CHUNK_BYTES` for many cells of a recycled class.
    pub(super) fn shared(pool: Arc<Pool>, class: Class) -> Self {
        let stride = class.cell_bytes();
        let cells = (CHUNK_BYTES - FIRST_CELL) / stride;
        Self::create(pool, class, stride, FIRST_CELL, cells, CHUNK_BYTES)
    }

    /// A chunk for one cell of any size, listed under the class of `cell`.
    pub(super) fn single(pool: Arc<Pool>, cell: CellLayout) -> Self {
        let first = FIRST_CELL.next_multiple_of(cell.align());
        let stride =
            if cell.class() == Class::DEDICATED { cell.bytes() } else { cell.class().cell_bytes() };
        let bytes = first.checked_add(stride).expect("cell larger than memory");
        Self::create(pool, cell.class(), 0, first, 1, bytes)
    }

    fn create(
        pool: Arc<Pool>,
        class: Class,
        stride: usize,
        first: usize,
        cells: usize,
        bytes: usize,
    ) -> Self {
        let layout = Layout::from_size_align(bytes, CHUNK_BYTES).expect("cell larger than memory");
        // SAFETY: the layout holds at least a header, so it is not empty.
        let memory = unsafe { alloc(layout) };
        let Some(chunk) = NonNull::new(memory.cast::<Chunk>()) else { handle_alloc_error(layout) };
        let header = Chunk {
            fixed: Fixed {
                pool,
                class,
                stride: stride as u32,
                first: first as u32,
                cells: cells as u32,
                layout,
            },
            guarded: Line(UnsafeCell::new(Guarded {
                carved: 0,
                held: 0,
                fate: Fate::Stays,
                slot: 0,
            })),
        };
        // SAFETY: fresh memory, larger than a header and aligned to CHUNK_BYTES.
        unsafe { chunk.write(header) };
        Self(chunk)
    }

    /// The chunk of a cell.
    ///
    /// # Safety
    ///
    /// - `cell` was carved from a chunk that lives for as long as the result is used (C1).
    /// - `cell` has the provenance that carving gave it.
    #[inline(always)]
    pub(super) unsafe fn of(cell: NonNull<u8>) -> Self {
        let header = cell.as_ptr().map_addr(|addr| addr & !(CHUNK_BYTES - 1));
        // SAFETY: a chunk is never at address zero, and the cell begins within CHUNK_BYTES of it.
        Self(unsafe { NonNull::new_unchecked(header.cast()) })
    }

    #[inline(always)]
    fn header(&self) -> &Chunk {
        // SAFETY: C1, and the header is written before a ChunkPtr exists; C2 for what changes.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(super) fn fixed(&self) -> &Fixed {
        &self.header().fixed
    }

    /// Bytes of the system allocation.
    pub(super) fn bytes(&self) -> usize {
        self.fixed().layout.size()
    }

    /// Reads or changes what the depot's lock guards.
    pub(super) fn guarded<R>(self, _: &mut Locked, f: impl FnOnce(&mut Guarded) -> R) -> R {
        self.header().guarded.0.with_mut(|guarded| {
            // SAFETY: C2, the lock of this chunk's depot is held.
            f(unsafe { &mut *guarded })
        })
    }

    fn cell(self, index: u32) -> NonNull<u8> {
        let fixed = self.fixed();
        debug_assert!(index < fixed.cells);
        let offset = fixed.first as usize + index as usize * fixed.stride as usize;
        // SAFETY: `create` made room for `cells` cells behind `first`.
        unsafe { self.0.cast::<u8>().add(offset) }
    }

    /// Carves the next cell, if one is left.
    pub(super) fn carve(self, locked: &mut Locked) -> Option<FreeCell> {
        let cells = self.fixed().cells;
        let index = self.guarded(locked, |guarded| {
            let index = guarded.carved;
            (index < cells).then(|| {
                guarded.carved += 1;
                index
            })
        })?;
        // SAFETY: the cell lies in this chunk and was never carved: the caller is its first owner.
        Some(unsafe { FreeCell::claim(self.cell(index)) })
    }

    /// Calls `f` with every carved cell whose first word is not zero.
    pub(super) fn for_each_live(self, locked: &mut Locked, mut f: impl FnMut(NonNull<u8>)) {
        let carved = self.guarded(locked, |guarded| guarded.carved);
        for cell in (0..carved).map(|index| self.cell(index)) {
            // SAFETY: C3, the cell is carved and its chunk lives (C1).
            let word = unsafe { first_word(cell) };
            // ORDERING: Acquire pairs with the user's Release store that publishes the cell, so
            // that the visitor may read what was initialised before it.
            if word.load(Ordering::Acquire) != 0 {
                f(cell);
            }
        }
    }

    /// Returns the memory to the system and lets go of the pool, perhaps as the last.
    ///
    /// # Safety
    ///
    /// - No table lists the chunk any more.
    /// - No cell of it is handed out, and no magazine holds one.
    /// - No depot lock is held: this may drop the pool.
    pub(super) unsafe fn give_back(self) {
        // SAFETY: by contract nobody else reaches the header, and it is not used again.
        let header = unsafe { self.0.read() };
        // SAFETY: `create` allocated this memory with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), header.fixed.layout) };
        drop(header);
    }
}
