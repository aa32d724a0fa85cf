//! Size classes: which cells share a depot.
//!
//! Multiples of 16 bytes up to 512, then four steps per doubling up to 4096. Anything larger, or
//! aligned beyond a chunk header, is dedicated: a chunk of its own.
//!
//! K1. The cell of a class is at least as large as any layout of that class, and its size is a
//!     multiple of that layout's alignment.
//!
//! Not here: where cells come from (chunk.rs).

use super::chunk::{CHUNK_BYTES, FIRST_CELL};

/// Number of classes whose cells are recycled.
pub(super) const CLASSES: usize = 44;

/// Smallest cell, the step between small classes and the least alignment, in bytes.
const QUANTUM: usize = 16;

/// Largest cell of the evenly stepped classes, in bytes.
const EVEN_MAX: usize = 512;

/// Largest recycled cell, in bytes.
const POOLED_MAX: usize = 4096;

/// Number of evenly stepped classes.
const EVEN: usize = EVEN_MAX / QUANTUM;

/// The index of a depot: a recycled class, or the dedicated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    /// Cells with a chunk of their own.
    pub(super) const DEDICATED: Class = Class(CLASSES as u8);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every depot's class, the dedicated one last.
    pub(super) fn all() -> impl Iterator<Item = Class> {
        (0..=CLASSES as u8).map(Class)
    }

    /// Bytes of a cell of this class. The dedicated class has no size of its own.
    pub(super) const fn cell_bytes(self) -> usize {
        let index = self.index();
        debug_assert!(index < CLASSES);
        if index < EVEN {
            return (index + 1) * QUANTUM;
        }
        let base = EVEN_MAX << ((index - EVEN) / 4);
        base + base / 4 * ((index - EVEN) % 4 + 1)
    }

    const fn holding(bytes: usize) -> Class {
        debug_assert!(bytes <= POOLED_MAX);
        if bytes <= EVEN_MAX {
            let steps = bytes.div_ceil(QUANTUM);
            return Class(if steps == 0 { 0 } else { steps - 1 } as u8);
        }
        let doubling = ((bytes - 1) / EVEN_MAX).ilog2() as usize;
        let base = EVEN_MAX << doubling;
        Class((EVEN + 4 * doubling + (bytes - 1 - base) / (base / 4)) as u8)
    }
}

/// What a cell must hold, with its class worked out; a constant for a known type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellLayout {
    class: Class,
    bytes: usize,
    align: usize,
}

impl CellLayout {
    /// Strictest alignment a cell can have, in bytes: a cell begins within the first
    /// [`CHUNK_BYTES`] of its chunk, behind the header.
    pub(crate) const MAX_ALIGN: usize = CHUNK_BYTES / 2;

    /// The layout of a cell of `bytes` bytes, aligned to `align`.
    ///
    /// # Panics
    ///
    /// If `align` is not a power of two or exceeds [`Self::MAX_ALIGN`]; at compile time in a
    /// constant.
    pub(crate) const fn new(bytes: usize, align: usize) -> Self {
        assert!(align.is_power_of_two(), "alignment is not a power of two");
        assert!(align <= Self::MAX_ALIGN, "alignment exceeds half a chunk");
        let bytes = if bytes < QUANTUM { QUANTUM } else { bytes };
        let class = if align > FIRST_CELL || bytes.next_multiple_of(align) > POOLED_MAX {
            Class::DEDICATED
        } else {
            Class::holding(bytes.next_multiple_of(align))
        };
        Self { class, bytes, align }
    }

    /// The layout of a cell that holds a `T`.
    pub(crate) const fn of<T>() -> Self {
        Self::new(size_of::<T>(), align_of::<T>())
    }

    pub(super) const fn class(self) -> Class {
        self.class
    }

    pub(super) const fn bytes(self) -> usize {
        self.bytes
    }

    pub(super) const fn align(self) -> usize {
        self.align
    }
}

/// Cells per full magazine: at most 64, and at most 16 KiB unless that were fewer than four
/// (guessed: a magazine should amortise a lock and fit the first-level cache).
pub(super) const CAPACITY: [u32; CLASSES] = {
    let mut table = [0; CLASSES];
    let mut index = 0;
    while index < CLASSES {
        let fitting = 16 * 1024 / Class(index as u8).cell_bytes();
        table[index] = if cfg!(loom) {
            2
        } else if fitting > 64 {
            64
        } else if fitting < 4 {
            4
        } else {
            fitting as u32
        };
        index += 1;
    }
    table
};

/// Free cells below which a depot never trims itself: 4096, or 1 MiB of them (guessed).
pub(super) const fn trim_floor(class: Class) -> usize {
    let fitting = (1 << 20) / class.cell_bytes();
    if fitting > 4096 { 4096 } else { fitting }
}

const _: () = assert!(Class::holding(POOLED_MAX).index() == CLASSES - 1);
const _: () = assert!(Class::holding(POOLED_MAX).cell_bytes() == POOLED_MAX);
const _: () = assert!(Class::holding(EVEN_MAX + 1).index() == EVEN);
// K1 for alignments up to FIRST_CELL: the uneven classes step by multiples of it.
const _: () = assert!((EVEN_MAX / 4).is_multiple_of(128) && FIRST_CELL.is_multiple_of(128));
