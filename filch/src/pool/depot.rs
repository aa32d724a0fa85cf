//! Depots: where the magazines of one class change hands, and where its chunks are registered.
//!
//! A depot is `Recycling` until its pool closes: free cells wait here for reuse. Then it is
//! `Draining`: free cells are only counted in their chunk, and the last one frees the chunk. The
//! depot of dedicated cells drains from the start.
//!
//! D1. Every live chunk is listed in the table of exactly one depot, that of its class.
//! D2. Recycling: `free` is the number of cells in `stock`, `carved` that of all carved cells.
//! D3. Draining: `stock` is empty, `free` is zero, a chunk's `held` is exact and above zero, and
//!     `carved` is the sum of all `held`.
//! D4. A chunk leaves the table only when none of its cells is outside the depot.
//!
//! Trimming: a sweep looks at the pointer to every free cell of the class, under the lock, and at
//! chunk headers, never at cells (measured: see tests/cost.rs). It runs when the
//! depot holds more than `threshold` cells and more than are in use; the next threshold is at
//! least twice this one and twice what is left, so each free pays for two looks at most, and a
//! load that comes in waves stops being trimmed after a few. [`Depot::trim`] ends an interval: it
//! lets go of what was not needed since the last one (the low-water mark of Bonwick's magazine
//! layer) and forgets the doubling.
//!
//! Not here: the lock (mod.rs), private magazines (cache.rs).

use std::mem::{replace, take};
use std::ptr::NonNull;
use std::sync::Arc;

use super::Pool;
use super::cell::{FreeCell, Magazine};
use super::chunk::{ChunkPtr, Fate, Locked};
use super::class::{CAPACITY, CellLayout, Class, trim_floor};

/// Cells that the first magazine of a class gets; doubles up to the capacity, so that a small
/// runtime touches few pages (guessed).
const FIRST_BATCH: u32 = if cfg!(loom) { 1 } else { 8 };

/// What becomes of free cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Recycling,
    Draining,
}

/// The shared part of a class; lives in a mutex.
pub(super) struct Depot {
    class: Class,
    phase: Phase,
    locked: Locked,
    stock: Vec<Magazine>,
    free: usize,
    carved: usize,
    /// Bytes of all listed chunks.
    bytes: usize,
    table: Table,
    /// The chunk with room left to carve.
    fresh: Option<ChunkPtr>,
    /// Cells to carve next time.
    batch: u32,
    /// `free` beyond which to sweep.
    threshold: usize,
    /// Least `free` since the last `trim`.
    low: usize,
}

/// Chunks to give back once the lock is released.
#[must_use = "chunks off the table are lost unless given back"]
#[derive(Default)]
pub(super) struct Surplus(Vec<ChunkPtr>);

impl Surplus {
    /// Frees the chunks. The caller holds no lock, and a claim on the pool.
    pub(super) fn give_back(self) {
        for chunk in self.0 {
            // SAFETY: D4, whoever put it here took it off the table with no cell outside.
            unsafe { chunk.give_back() };
        }
    }
}

impl Depot {
    pub(super) fn new(class: Class) -> Self {
        let (phase, threshold) = if class == Class::DEDICATED {
            (Phase::Draining, usize::MAX)
        } else {
            (Phase::Recycling, trim_floor(class))
        };
        Self {
            class,
            phase,
            locked: Locked::for_depot(),
            stock: Vec::new(),
            free: 0,
            carved: 0,
            bytes: 0,
            table: Table::default(),
            fresh: None,
            batch: FIRST_BATCH,
            threshold,
            low: 0,
        }
    }

    pub(super) fn chunks(&self) -> usize {
        self.table.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Cells outside the depot.
    pub(super) fn outside(&self) -> usize {
        self.carved - self.free
    }

    /// A magazine with at least one cell that can hold `cell`.
    pub(super) fn take(&mut self, pool: &Arc<Pool>, cell: CellLayout) -> Magazine {
        debug_assert_eq!(cell.class(), self.class);
        if self.phase == Phase::Draining {
            return Magazine::of(self.take_single(pool, cell));
        }
        if let Some(magazine) = self.stock.pop() {
            self.free -= magazine.len();
            self.low = self.low.min(self.free);
            return magazine;
        }
        self.carve(pool)
    }

    fn carve(&mut self, pool: &Arc<Pool>) -> Magazine {
        let capacity = CAPACITY[self.class.index()];
        let wanted = self.batch;
        self.batch = (wanted * 2).min(capacity);
        let chunk = match self.fresh {
            Some(chunk) => chunk,
            None => self.enlist(ChunkPtr::shared(Arc::clone(pool), self.class)),
        };
        self.fresh = Some(chunk);
        let mut magazine = Magazine::with_room(capacity);
        while magazine.len() < wanted as usize {
            let Some(cell) = chunk.carve(&mut self.locked) else {
                self.fresh = None;
                break;
            };
            magazine.push(cell);
        }
        self.carved += magazine.len();
        if magazine.is_empty() {
            return self.carve(pool);
        }
        magazine
    }

    fn take_single(&mut self, pool: &Arc<Pool>, cell: CellLayout) -> FreeCell {
        let chunk = self.enlist(ChunkPtr::single(Arc::clone(pool), cell));
        let cell = chunk.carve(&mut self.locked);
        chunk.guarded(&mut self.locked, |guarded| guarded.held = guarded.carved);
        self.carved += 1;
        cell.expect("a new chunk has room for a cell")
    }

    fn enlist(&mut self, chunk: ChunkPtr) -> ChunkPtr {
        let slot = self.table.insert(chunk);
        chunk.guarded(&mut self.locked, |guarded| guarded.slot = slot);
        self.bytes += chunk.bytes();
        chunk
    }

    fn strike(&mut self, chunk: ChunkPtr) {
        let slot = chunk.guarded(&mut self.locked, |guarded| guarded.slot);
        self.table.remove(slot, chunk);
        self.bytes -= chunk.bytes();
        if self.fresh == Some(chunk) {
            self.fresh = None;
        }
    }

    /// Takes free cells in.
    pub(super) fn put(&mut self, magazine: Magazine) -> Surplus {
        debug_assert!(!magazine.is_empty());
        match self.phase {
            Phase::Recycling => {
                self.free += magazine.len();
                self.stock.push(magazine);
                self.trim_if_bloated()
            }
            Phase::Draining => self.retire(magazine),
        }
    }

    fn retire(&mut self, mut magazine: Magazine) -> Surplus {
        let mut surplus = Surplus::default();
        while let Some(cell) = magazine.pop() {
            let chunk = cell.chunk();
            let held = chunk.guarded(&mut self.locked, |guarded| {
                debug_assert!(guarded.held > 0, "cell freed twice");
                guarded.held -= 1;
                guarded.held
            });
            self.carved -= 1;
            if held == 0 {
                self.strike(chunk);
                surplus.0.push(chunk);
            }
        }
        surplus
    }

    fn trim_if_bloated(&mut self) -> Surplus {
        if self.free <= self.threshold || self.free <= self.outside() {
            return Surplus::default();
        }
        let reserve = trim_floor(self.class) / 2;
        let surplus = self.sweep(self.free - reserve);
        self.threshold = (2 * self.threshold).max(2 * self.free);
        surplus
    }

    /// Ends an interval: lets go of cells that were free throughout it.
    pub(super) fn trim(&mut self) -> Surplus {
        if self.phase == Phase::Draining {
            return Surplus::default();
        }
        let unneeded = self.low;
        let surplus = if unneeded == 0 { Surplus::default() } else { self.sweep(unneeded) };
        self.low = self.free;
        self.threshold = trim_floor(self.class).max(2 * self.free);
        surplus
    }

    /// Stops recycling: lets go of every chunk that is free, and counts in the others.
    pub(super) fn drain(&mut self) -> Surplus {
        if self.phase == Phase::Draining {
            return Surplus::default();
        }
        let surplus = self.sweep(usize::MAX);
        self.phase = Phase::Draining;
        self.stock = Vec::new();
        self.carved -= take(&mut self.free);
        self.fresh = None;
        surplus
    }

    /// Sets `held` of every chunk.
    fn census(&mut self) {
        for chunk in self.table.iter() {
            chunk.guarded(&mut self.locked, |guarded| guarded.held = guarded.carved);
        }
        for chunk in self.stock.iter().flat_map(Magazine::chunks) {
            chunk.guarded(&mut self.locked, |guarded| guarded.held -= 1);
        }
    }

    /// Takes chunks off the table that have no cell outside, with at most `limit` cells in all.
    fn sweep(&mut self, limit: usize) -> Surplus {
        self.census();
        let mut gone = 0;
        let mut surplus = Surplus::default();
        for chunk in self.table.iter() {
            chunk.guarded(&mut self.locked, |guarded| {
                let cells = guarded.carved as usize;
                if guarded.held == 0 && cells <= limit - gone {
                    guarded.fate = Fate::Goes;
                    gone += cells;
                    surplus.0.push(chunk);
                }
            });
        }
        if gone > 0 {
            self.restock();
            surplus.0.iter().for_each(|&chunk| self.strike(chunk));
            self.free -= gone;
            self.carved -= gone;
            self.low = self.low.min(self.free);
        }
        surplus
    }

    /// Drops the cells of chunks that go from `stock`, and packs the others into full magazines.
    fn restock(&mut self) {
        let capacity = CAPACITY[self.class.index()];
        let mut packed = Magazine::with_room(capacity);
        for mut magazine in take(&mut self.stock) {
            while let Some(cell) = magazine.pop() {
                let fate = cell.chunk().guarded(&mut self.locked, |guarded| guarded.fate);
                if fate == Fate::Goes {
                    continue;
                }
                if !packed.has_room() {
                    let full = replace(&mut packed, Magazine::with_room(capacity));
                    self.stock.push(full);
                }
                packed.push(cell);
            }
        }
        if !packed.is_empty() {
            self.stock.push(packed);
        }
    }

    /// Calls `f` with the live cells of the chunk in `slot`. Returns the next slot, if any.
    pub(super) fn visit(&mut self, slot: usize, f: impl FnMut(NonNull<u8>)) -> Option<usize> {
        if let Some(Some(chunk)) = self.table.slots.get(slot) {
            chunk.for_each_live(&mut self.locked, f);
        }
        let next = slot + 1;
        (next < self.table.slots.len()).then_some(next)
    }
}

/// The chunks of a depot (D1). A chunk keeps its slot while it lives, so that a visit can be
/// resumed by slot number.
#[derive(Default)]
struct Table {
    slots: Vec<Option<ChunkPtr>>,
    vacant: Vec<u32>,
}

impl Table {
    fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    fn iter(&self) -> impl Iterator<Item = ChunkPtr> {
        self.slots.iter().filter_map(|slot| *slot)
    }

    fn insert(&mut self, chunk: ChunkPtr) -> u32 {
        match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(chunk);
                slot
            }
            None => {
                self.slots.push(Some(chunk));
                self.slots.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, slot: u32, chunk: ChunkPtr) {
        let found = self.slots[slot as usize].take();
        debug_assert!(found == Some(chunk), "slot of another chunk");
        self.vacant.push(slot);
        if self.len() == 0 {
            *self = Self::default();
        }
    }
}
