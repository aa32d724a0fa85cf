//! Private magazines: alloc and free without a lock or an atomic read-modify-write.
//!
//! A rack holds two magazines of a class. Frees fill `loaded`; when it is full it moves to
//! `previous`, and the full one that was there goes to the depot. Allocations empty them in the
//! same order. So the depot is visited at most once per magazine, whatever the order of allocs
//! and frees (Bonwick and Adams, "Magazines and Vmem", 2001).
//!
//! R1. Between calls `previous` is empty or has no room.
//! R2. The cells of a rack are of the rack's class and of its owner's pool.
//! R3. A rack belongs to one thread at a time, and a reference to a magazine in it lives only
//!     within one closure of `Rack` that calls nothing but `Magazine::pop`, `replace`, or `push`
//!     with room: none of them reaches a rack again.
//!
//! Not here: what a magazine is (cell.rs), sharing a rack among threads (mod.rs).

use std::mem::replace;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Pool;
use super::cell::{FreeCell, Magazine};
use super::chunk::ChunkPtr;
use super::class::{CAPACITY, CLASSES, CellLayout, Class};
use crate::base::shim::UnsafeCell;

/// Two magazines of one class. Not `Sync`: one thread at a time.
struct Rack {
    loaded: UnsafeCell<Magazine>,
    previous: UnsafeCell<Magazine>,
}

impl Rack {
    fn new() -> Self {
        Self {
            loaded: UnsafeCell::new(Magazine::default()),
            previous: UnsafeCell::new(Magazine::default()),
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<FreeCell> {
        self.loaded.with_mut(|loaded| {
            // SAFETY: R3.
            let loaded = unsafe { &mut *loaded };
            loaded.pop()
        })
    }

    /// Puts `cell` into `loaded`, or hands it back if that is full.
    #[inline(always)]
    fn push(&self, cell: FreeCell) -> Option<FreeCell> {
        self.loaded.with_mut(|loaded| {
            // SAFETY: R3, and with room a push allocates nothing.
            let loaded = unsafe { &mut *loaded };
            if loaded.has_room() {
                loaded.push(cell);
                return None;
            }
            Some(cell)
        })
    }

    /// Puts `magazine` in the place of `loaded`, and that in the place of `previous`.
    fn shift(&self, magazine: Magazine) -> Magazine {
        let loaded = self.loaded.with_mut(|loaded| {
            // SAFETY: R3.
            replace(unsafe { &mut *loaded }, magazine)
        });
        self.previous.with_mut(|previous| {
            // SAFETY: R3.
            replace(unsafe { &mut *previous }, loaded)
        })
    }

    /// Swaps the two magazines.
    fn swap(&self) {
        let previous = self.shift(Magazine::default());
        let nothing = self.load(previous);
        debug_assert!(nothing.is_empty());
    }

    fn load(&self, magazine: Magazine) -> Magazine {
        self.loaded.with_mut(|loaded| {
            // SAFETY: R3.
            replace(unsafe { &mut *loaded }, magazine)
        })
    }

    #[cold]
    fn pop_previous(&self) -> Option<FreeCell> {
        self.swap();
        self.pop()
    }

    /// Makes room for `cell`: in the other magazine, or in a new one if that is full too.
    #[cold]
    fn push_elsewhere(&self, class: Class, cell: FreeCell) -> Option<Magazine> {
        self.swap();
        let cell = self.push(cell)?;
        let mut room = Magazine::with_room(CAPACITY[class.index()]);
        room.push(cell);
        self.swap();
        Some(self.shift(room)).filter(|full| !full.is_empty())
    }
}

/// A rack per recycled class.
pub(super) struct Racks([Rack; CLASSES]);

impl Racks {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Rack::new()))
    }

    /// A cell of a recycled class, if one is here.
    #[inline(always)]
    pub(super) fn alloc(&self, class: Class) -> Option<FreeCell> {
        let rack = &self.0[class.index()];
        rack.pop().or_else(|| rack.pop_previous())
    }

    /// Takes a magazine in after `alloc` found nothing.
    pub(super) fn load(&self, class: Class, magazine: Magazine) {
        let empty = self.0[class.index()].load(magazine);
        debug_assert!(empty.is_empty(), "loaded over cells");
    }

    /// Keeps a free cell of a recycled class; gives back the magazine that had to make room.
    #[inline(always)]
    pub(super) fn free(&self, class: Class, cell: FreeCell) -> Option<Magazine> {
        let rack = &self.0[class.index()];
        let cell = rack.push(cell)?;
        rack.push_elsewhere(class, cell)
    }

    /// Takes everything out: the magazines that have cells.
    pub(super) fn drain(&self) -> impl Iterator<Item = (Class, Magazine)> {
        Class::all()
            .zip(&self.0)
            .flat_map(|(class, rack)| [0, 1].map(|_| (class, rack.shift(Magazine::default()))))
            .filter(|(_, magazine)| !magazine.is_empty())
    }
}

/// The free cells of one worker thread.
pub(crate) struct Cache {
    pool: Arc<Pool>,
    racks: Racks,
}

impl Cache {
    /// An empty cache on `pool`.
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, racks: Racks::new() }
    }

    /// A cell that can hold `cell`; its first word is zero.
    #[inline]
    pub(crate) fn alloc(&self, cell: CellLayout) -> NonNull<u8> {
        if cell.class() == Class::DEDICATED {
            return self.pool.alloc_single(cell);
        }
        match self.racks.alloc(cell.class()) {
            Some(free) => free.hand_out(),
            None => self.refill(cell),
        }
    }

    #[cold]
    fn refill(&self, cell: CellLayout) -> NonNull<u8> {
        let mut magazine = self.pool.take(cell);
        let free = magazine.pop().expect("the depot gives at least one cell");
        self.racks.load(cell.class(), magazine);
        free.hand_out()
    }

    /// Whether a cell in use is one of this cache's pool.
    ///
    /// # Safety
    ///
    /// `cell` is a cell in use of some pool, and stays so during the call.
    pub(crate) unsafe fn is_from_here(&self, cell: NonNull<u8>) -> bool {
        // SAFETY: by contract; a cell in use keeps its chunk.
        let chunk = unsafe { ChunkPtr::of(cell) };
        Arc::ptr_eq(&self.pool, &chunk.fixed().pool)
    }

    /// Whether `cell` belongs to this cache's pool.
    #[inline]
    pub(super) fn serves(&self, cell: &FreeCell) -> bool {
        Arc::ptr_eq(&self.pool, &cell.chunk().fixed().pool)
    }

    /// Keeps a cell for which [`Self::serves`] holds (R2).
    #[inline]
    pub(super) fn keep(&self, cell: FreeCell, class: Class) {
        if class == Class::DEDICATED {
            self.pool.put(class, Magazine::of(cell));
        } else if let Some(full) = self.racks.free(class, cell) {
            self.pool.put(class, full);
        }
    }

    /// Returns every cell to the pool.
    pub(crate) fn flush(&self) {
        for (class, magazine) in self.racks.drain() {
            self.pool.put(class, magazine);
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.flush();
    }
}
