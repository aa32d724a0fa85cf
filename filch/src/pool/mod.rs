//! The memory of task cells for one runtime, and the registry of all that live.
//!
//! The system allocator is slow when one thread allocates and another frees, which is what tasks
//! do. So cells are recycled by size class: each worker keeps magazines of free cells in a
//! [`Cache`], and whole magazines change hands through a depot per class. Because chunks know
//! their cells, and a free cell is recognisable, no list of live tasks is kept: see
//! [`Pool::for_each_cell`].
//!
//! ```text
//! worker:   Cache ──magazines──┐
//!                              ├── Depot (lock per class) ── chunks ── system
//! others:   Shard ──magazines──┘
//! ```
//!
//! P1. The first word of every carved cell is an atomic `u64`, only ever accessed as one, until
//!     its chunk is given back; it is zero while the cell is not in use. The user stores a
//!     nonzero value (Release) as the last step of initialising a cell; freeing stores zero.
//! P2. A cell that is not in the depot keeps its chunk alive, and a chunk keeps its pool alive.
//! P3. Who gives up the last claim on a pool inside one of its locks may not touch that lock
//!     again; so every such thread holds a strong reference of its own to the pool or shard.
//! P4. Locks are taken in the order shard, depot; never two of a kind; no user code runs under
//!     them but the `pin` of `for_each_cell`.
//! P5. Chunks and pool refer to each other until [`Pool::close`]: who makes a pool closes it.
//!
//! Not here: what a cell contains, and when it may be freed (the task module).

mod cache;
mod cell;
mod chunk;
mod class;
mod depot;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use crossbeam_utils::CachePadded;

use crate::base::process::Process;
use crate::base::shim::{AtomicBool, Mutex, MutexGuard, Ordering, RawAtomicU64};
use crate::base::sim;
pub(crate) use cache::Cache;
use cache::Racks;
use cell::{FreeCell, Magazine};
use chunk::ChunkPtr;
pub(crate) use class::CellLayout;
use class::Class;
use depot::Depot;

/// How many pools of the process nobody works for, so that a wait asks its own only where there are such.
static UNSERVED: RawAtomicU64 = RawAtomicU64::new(0);

/// Racks shared by threads without a cache (guessed). One under loom: the hash is not repeatable.
const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };

/// The task cells of one runtime.
pub(crate) struct Pool {
    /// By class, the dedicated one last.
    depots: Box<[CachePadded<Mutex<Depot>>]>,
    shards: [Arc<Shard>; SHARDS],
    /// The one whose threads use it.
    process: Process,
    /// Nobody works yet for what lives in the cells: a hint for whoever waits for it.
    unserved: AtomicBool,
}

/// Racks for threads without a cache; `None` once the pool is closed.
struct Shard(CachePadded<Mutex<Option<Racks>>>);

/// What a shard did with a free cell.
#[must_use = "cells that a shard did not keep are lost"]
enum ShardFree {
    Kept,
    Overflow(Magazine),
    Closed(FreeCell),
}

/// What a pool holds at one moment; each class is counted under its own lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolStats {
    /// System allocations.
    pub(crate) chunks: usize,
    /// Bytes of those.
    pub(crate) bytes: usize,
    /// Cells outside the depots: those in use, and at most two magazines per class in each cache
    /// and shard.
    pub(crate) live_cells: usize,
}

/// Locks, whatever a panicking `pin` left behind: no state here is ever half-changed by one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// An empty pool. Someone must [`close`](Self::close) it (P5).
    pub(crate) fn new() -> Arc<Self> {
        let depot = |class| CachePadded::new(Mutex::new(Depot::new(class)));
        let fresh = || Arc::new(Shard(CachePadded::new(Mutex::new(Some(Racks::new())))));
        let first = fresh();
        // In a simulation all are one, because the choice goes by an address.
        let shard = || if sim::is_on() { first.clone() } else { fresh() };
        Arc::new(Self {
            depots: Class::all().map(depot).collect(),
            shards: std::array::from_fn(|_| shard()),
            process: Process::this(),
            unserved: AtomicBool::new(false),
        })
    }

    /// The pool of a cell.
    ///
    /// # Safety
    /// `cell` is a cell in use of some pool, and stays so while the result is used.
    pub(crate) unsafe fn of<'a>(cell: NonNull<u8>) -> &'a Self {
        // SAFETY: by contract; a cell in use keeps its chunk (P2).
        let chunk = unsafe { ChunkPtr::of(cell) };
        let pool = Arc::as_ptr(&chunk.fixed().pool);
        // SAFETY: P2, a chunk keeps its pool.
        unsafe { &*pool }
    }

    /// Notes that nobody works for the cells until [`serve`](Self::serve).
    pub(crate) fn await_service(&self) {
        // ORDERING: Relaxed, a hint; so is the count.
        if !self.unserved.swap(true, Ordering::Relaxed) {
            // ORDERING: Relaxed, as above.
            UNSERVED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Somebody works for the cells, or there will be none.
    pub(crate) fn serve(&self) {
        // ORDERING: Relaxed, a hint; so is the count.
        if self.unserved.swap(false, Ordering::Relaxed) {
            // ORDERING: Relaxed, as above.
            UNSERVED.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether nobody works for the cells yet.
    pub(crate) fn is_unserved(&self) -> bool {
        // ORDERING: Relaxed, a hint.
        self.unserved.load(Ordering::Relaxed)
    }

    /// Whether there is any pool for whose cells nobody works yet.
    #[inline]
    pub(crate) fn is_any_unserved() -> bool {
        // ORDERING: Relaxed, a hint.
        UNSERVED.load(Ordering::Relaxed) > 0
    }

    fn depot(&self, class: Class) -> MutexGuard<'_, Depot> {
        lock(&self.depots[class.index()])
    }

    /// The calling thread's shard, by a hash of where its thread-locals are.
    fn shard(&self) -> &Arc<Shard> {
        thread_local!(static PLACE: u8 = const { 0 });
        let address = PLACE.with(|place| std::ptr::from_ref(place).addr() as u64);
        let hash = (address >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[hash as usize % self.shards.len()]
    }

    /// A magazine with at least one cell.
    fn take(self: &Arc<Self>, cell: CellLayout) -> Magazine {
        self.depot(cell.class()).take(self, cell)
    }

    /// Takes free cells of this pool in. The caller's claim on the pool is not one of them (P3).
    fn put(&self, class: Class, magazine: Magazine) {
        let surplus = self.depot(class).put(magazine);
        surplus.give_back();
    }

    fn alloc_single(self: &Arc<Self>, cell: CellLayout) -> NonNull<u8> {
        let mut magazine = self.take(cell);
        let single = magazine.pop().expect("the depot gives at least one cell");
        if !magazine.is_empty() {
            // The shards are closed and the depot is not yet: it gave a whole magazine.
            self.put(cell.class(), magazine);
        }
        single.hand_out()
    }

    /// A cell for a thread that has no cache; its first word is zero.
    pub(crate) fn alloc(self: &Arc<Self>, cell: CellLayout) -> NonNull<u8> {
        if cell.class() == Class::DEDICATED {
            return self.alloc_single(cell);
        }
        let shard = lock(&self.shard().0);
        let Some(racks) = shard.as_ref() else {
            drop(shard);
            return self.alloc_single(cell);
        };
        if let Some(free) = racks.alloc(cell.class()) {
            return free.hand_out();
        }
        let mut magazine = self.take(cell);
        let free = magazine.pop().expect("the depot gives at least one cell");
        racks.load(cell.class(), magazine);
        free.hand_out()
    }

    /// Frees a cell of any pool: into `local` if that is a cache on the cell's pool.
    ///
    /// # Safety
    ///
    /// - `cell` was allocated from some pool, and has the provenance it was given.
    /// - Nothing in it needs dropping, and nobody else uses it but for failing
    ///   read-modify-writes of its first word.
    #[inline]
    pub(crate) unsafe fn free(cell: NonNull<u8>, local: Option<&Cache>) {
        // SAFETY: by contract the caller owns the cell and gives it up.
        let free = unsafe { FreeCell::claim(cell) };
        match local {
            Some(cache) if cache.serves(&free) => {
                let class = free.chunk().fixed().class;
                cache.keep(free, class);
            }
            _ => Self::free_foreign(free),
        }
    }

    /// The process in which the pool of a cell was made.
    ///
    /// # Safety
    /// `cell` was allocated from some pool and not freed, and has the provenance it was given.
    pub(crate) unsafe fn process_of(cell: NonNull<u8>) -> Process {
        // SAFETY: by contract the cell is in use, so its chunk lives.
        unsafe { chunk::ChunkPtr::of(cell) }.fixed().pool.process
    }

    fn free_foreign(cell: FreeCell) {
        let chunk = cell.chunk();
        let fixed = chunk.fixed();
        if fixed.pool.process.is_parent() {
            // A thread of the parent may have held a lock.
            return;
        }
        let class = fixed.class;
        if class == Class::DEDICATED {
            return Self::put_claimed(class, Magazine::of(cell));
        }
        // P3: once the cell is in the shard, closing may free pool and chunk under our feet.
        let shard = Arc::clone(fixed.pool.shard());
        match shard.free(class, cell) {
            ShardFree::Kept => {}
            ShardFree::Overflow(full) => Self::put_claimed(class, full),
            ShardFree::Closed(cell) => Self::put_claimed(class, Magazine::of(cell)),
        }
    }

    /// Puts a magazine that is the caller's only claim on its pool (P3).
    fn put_claimed(class: Class, magazine: Magazine) {
        let first = magazine.chunks().next();
        if let Some(chunk) = first {
            let pool = Arc::clone(&chunk.fixed().pool);
            pool.put(class, magazine);
        }
    }

    /// Returns to the system what was free throughout the time since the last call: for whoever
    /// keeps time. Looks at every free cell of the classes that have any such.
    pub(crate) fn trim(&self) {
        for class in Class::all() {
            let surplus = self.depot(class).trim();
            surplus.give_back();
        }
    }

    /// Ends recycling: returns every chunk that is free, and from now on each other one with its
    /// last cell. Call it once all caches are flushed; one that is flushed later only delays the
    /// return of its cells. Cells can still be allocated, each in a chunk of its own.
    pub(crate) fn close(self: &Arc<Self>) {
        self.serve();
        for shard in &self.shards {
            let racks = lock(&shard.0).take();
            for (class, magazine) in racks.iter().flat_map(Racks::drain) {
                self.put(class, magazine);
            }
        }
        for class in Class::all() {
            let surplus = self.depot(class).drain();
            surplus.give_back();
        }
    }

    /// Visits cells in use: calls `pin` with each cell whose first word is not zero, and `visit`
    /// with what it returns.
    ///
    /// A cell that is published before the call and not freed during it is seen exactly once;
    /// others may be seen or not.
    ///
    /// `pin` runs under the lock of the cell's depot, held for one chunk at a time, so that the
    /// chunk stays. The cell may be
    /// freed or reused at any moment: `pin` may only try to acquire it by a read-modify-write of
    /// the first word that fails on zero. It must not allocate from or free to any pool. `visit`
    /// runs without locks and may do both.
    pub(crate) fn for_each_cell<T>(
        &self,
        mut pin: impl FnMut(NonNull<u8>) -> Option<T>,
        mut visit: impl FnMut(T),
    ) {
        let mut pinned = Vec::new();
        for class in Class::all() {
            let mut next = Some(0);
            while let Some(slot) = next {
                next = self.depot(class).visit(slot, |cell| pinned.extend(pin(cell)));
                pinned.drain(..).for_each(&mut visit);
            }
        }
    }

    /// What the pool holds.
    pub(crate) fn stats(&self) -> PoolStats {
        let mut stats = PoolStats::default();
        for class in Class::all() {
            let depot = self.depot(class);
            stats.chunks += depot.chunks();
            stats.bytes += depot.bytes();
            stats.live_cells += depot.outside();
        }
        stats
    }
}

impl Shard {
    fn free(&self, class: Class, cell: FreeCell) -> ShardFree {
        match lock(&self.0).as_ref() {
            None => ShardFree::Closed(cell),
            Some(racks) => match racks.free(class, cell) {
                None => ShardFree::Kept,
                Some(full) => ShardFree::Overflow(full),
            },
        }
    }
}
