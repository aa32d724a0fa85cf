//! Situations of the pool on real threads and memory.

use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use super::class::{CAPACITY, CLASSES, Class, trim_floor};
use super::{Cache, CellLayout, Pool, PoolStats};
use crate::base::repeated;

mod random;

const SMALL: CellLayout = CellLayout::new(256, 8);
const HUGE: CellLayout = CellLayout::new(100_000, 64);
const NOTHING: PoolStats = PoolStats { chunks: 0, bytes: 0, live_cells: 0 };

struct Owned(NonNull<u8>);

// SAFETY: a test hands each cell to one thread at a time.
unsafe impl Send for Owned {}

fn word<'a>(cell: NonNull<u8>) -> &'a AtomicU64 {
    // SAFETY: P1, and tests use cells only while they are theirs.
    unsafe { cell.cast::<AtomicU64>().as_ref() }
}

fn publish(cell: NonNull<u8>, state: u64) {
    // ORDERING: Release pairs with the Acquire in ChunkPtr::for_each_live.
    word(cell).store(state, Ordering::Release);
}

/// Frees a cell that the caller owns, as a thread without a cache.
fn free(cell: NonNull<u8>) {
    // SAFETY: every test frees a cell once.
    unsafe { Pool::free(cell, None) };
}

fn free_to(cache: &Cache, cell: NonNull<u8>) {
    // SAFETY: every test frees a cell once.
    unsafe { Pool::free(cell, Some(cache)) };
}

fn live(pool: &Pool) -> Vec<u64> {
    let mut seen = Vec::new();
    pool.for_each_cell(
        // ORDERING: Relaxed, the visit loaded with Acquire and no one else writes.
        |cell| Some(word(cell).load(Ordering::Relaxed)),
        |state| seen.push(state),
    );
    seen.sort_unstable();
    seen
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn every_layout_fits_its_class_and_wastes_little() {
    for align in (0..8).map(|shift| 1 << shift) {
        for bytes in 1..=4096_usize {
            let layout = CellLayout::new(bytes, align);
            assert!(layout.class().index() < CLASSES, "{layout:?}");
            let cell = layout.class().cell_bytes();
            assert!(cell >= bytes && cell.is_multiple_of(align), "{layout:?} in {cell}");
            let padded = bytes.max(16).next_multiple_of(align.max(16));
            assert!(cell <= padded.max(padded * 5 / 4), "{layout:?} in {cell}");
        }
    }
}

#[test]
fn a_layout_beyond_the_classes_is_dedicated() {
    const { assert!(CellLayout::new(4097, 1).class().index() == CLASSES) };
    const { assert!(CellLayout::new(16, 256).class().index() == CLASSES) };
    const { assert!(CellLayout::of::<[u64; 9]>().class().index() == 4) };
}

#[test]
fn cells_are_aligned_and_their_first_word_is_zero() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let aligns = (0..).map(|s| 1 << s);
    for align in aligns.take_while(|&align| align <= CellLayout::MAX_ALIGN) {
        for bytes in [1, 17, 500, 513, 3000, 5000, 70_000] {
            let layout = CellLayout::new(bytes, align);
            for cell in [cache.alloc(layout), pool.alloc(layout)] {
                assert_eq!(cell.addr().get() % align.max(16), 0);
                // ORDERING: Relaxed, this thread owns the cell.
                assert_eq!(word(cell).load(Ordering::Relaxed), 0);
                // SAFETY: the cell is this test's and has room for `bytes` bytes.
                unsafe { cell.write_bytes(0xAA, bytes.max(16)) };
                free_to(&cache, cell);
            }
        }
    }
    drop(cache);
    pool.close();
    assert_eq!(pool.stats(), NOTHING);
}

#[test]
fn the_cell_freed_last_is_reused_first() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let cell = cache.alloc(SMALL);
    publish(cell, 7);
    free_to(&cache, cell);
    let again = cache.alloc(SMALL);
    assert_eq!(again, cell);
    // ORDERING: Relaxed, this thread owns the cell.
    assert_eq!(word(again).load(Ordering::Relaxed), 0);
    free_to(&cache, again);
    drop(cache);
    pool.close();
}

#[test]
fn one_task_touches_one_chunk_and_few_cells() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let cell = cache.alloc(SMALL);
    assert_eq!(pool.stats().chunks, 1);
    assert!(pool.stats().live_cells <= 8);
    free_to(&cache, cell);
    drop(cache);
    pool.close();
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn a_flushed_cache_leaves_no_cell_outside() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let cells: Vec<_> = (0..1000).map(|_| cache.alloc(SMALL)).collect();
    assert!(pool.stats().live_cells >= 1000);
    cells.into_iter().for_each(|cell| free_to(&cache, cell));
    cache.flush();
    assert_eq!(pool.stats().live_cells, 0);
    drop(cache);
    pool.close();
    assert_eq!(pool.stats(), NOTHING);
}

#[test]
fn a_cell_freed_beside_another_pools_cache_goes_home() {
    let (home, away) = (Pool::new(), Pool::new());
    let cache = Cache::new(Arc::clone(&away));
    let cell = home.alloc(SMALL);
    free_to(&cache, cell);
    cache.flush();
    assert_eq!(away.stats(), NOTHING);
    assert_eq!(home.alloc(SMALL), cell);
    free(cell);
    home.close();
    assert_eq!(home.stats(), NOTHING);
    drop(cache);
    away.close();
}

#[test]
fn a_dedicated_cell_takes_its_memory_with_it() {
    let pool = Pool::new();
    let cells = [pool.alloc(HUGE), pool.alloc(HUGE)];
    assert_eq!(pool.stats().live_cells, 2);
    assert!(pool.stats().bytes >= 200_000);
    cells.into_iter().for_each(free);
    assert_eq!(pool.stats(), NOTHING);
    assert_eq!(Arc::strong_count(&pool), 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn a_visit_sees_each_published_cell_once() {
    let pool = Pool::new();
    let layouts = [SMALL, HUGE, CellLayout::new(32, 8)];
    let cells: Vec<_> = (1..=600)
        .map(|state| {
            let cell = pool.alloc(layouts[state as usize % 3]);
            publish(cell, state);
            cell
        })
        .collect();
    let unpublished = pool.alloc(SMALL);
    assert_eq!(live(&pool), (1..=600).collect::<Vec<_>>());
    for pair in cells.chunks_exact(2) {
        free(pair[0]);
    }
    let even: Vec<_> = (1..=600).filter(|state| state % 2 == 0).collect();
    assert_eq!(live(&pool), even);
    pool.close();
    assert_eq!(live(&pool), even);
    for pair in cells.chunks_exact(2) {
        free(pair[1]);
    }
    free(unpublished);
    assert!(live(&pool).is_empty());
    assert_eq!(pool.stats(), NOTHING);
}

#[test]
fn a_visitor_may_free_what_it_visits() {
    for closed in [false, true] {
        let pool = Pool::new();
        for state in 1..=repeated(5000) as u64 {
            publish(pool.alloc(SMALL), state);
            publish(pool.alloc(HUGE), state);
        }
        if closed {
            pool.close();
        }
        let mut count = 0;
        pool.for_each_cell(Some, |cell| {
            count += 1;
            free(cell);
        });
        assert_eq!(count, 2 * repeated(5000));
        pool.close();
        assert_eq!(pool.stats(), NOTHING);
    }
}

#[test]
fn a_panicking_pin_leaves_the_pool_usable() {
    let pool = Pool::new();
    publish(pool.alloc(SMALL), 1);
    let visit = std::panic::AssertUnwindSafe(|| {
        pool.for_each_cell(|_| -> Option<()> { panic!("pin") }, drop);
    });
    assert!(std::panic::catch_unwind(visit).is_err());
    assert_eq!(live(&pool), [1]);
    pool.for_each_cell(Some, free);
    pool.close();
    assert_eq!(pool.stats(), NOTHING);
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn stragglers_hold_their_chunk_and_the_last_one_frees_it() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let mut cells: Vec<_> = (0..10_000).map(|_| cache.alloc(SMALL)).collect();
    let stragglers = [cells.swap_remove(5000), cells.swap_remove(100)];
    let neighbour = cells.swap_remove(101);
    cells.into_iter().for_each(|cell| free_to(&cache, cell));
    drop(cache);
    pool.close();
    assert_eq!(pool.stats().live_cells, 3);
    assert!(pool.stats().chunks <= 3);
    stragglers.into_iter().for_each(free);
    assert_eq!(pool.stats().chunks, 1);
    let weak = Arc::downgrade(&pool);
    drop(pool);
    assert_eq!(weak.strong_count(), 1);
    free(neighbour);
    assert_eq!(weak.strong_count(), 0);
}

#[test]
fn a_closed_pool_still_allocates_and_returns_at_once() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let early = cache.alloc(SMALL);
    pool.close();
    let late: Vec<_> =
        (0..100).flat_map(|_| [pool.alloc(SMALL), cache.alloc(SMALL), pool.alloc(HUGE)]).collect();
    let distinct: HashSet<_> = late.iter().collect();
    assert_eq!(distinct.len(), 300);
    late.into_iter().for_each(free);
    free_to(&cache, early);
    drop(cache);
    assert_eq!(pool.stats(), NOTHING);
    assert_eq!(Arc::strong_count(&pool), 1);
}

#[test]
fn closing_twice_is_closing_once() {
    let pool = Pool::new();
    let cell = pool.alloc(SMALL);
    pool.close();
    pool.close();
    assert_eq!(pool.stats().live_cells, 1);
    free(cell);
    assert_eq!(pool.stats(), NOTHING);
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn a_burst_that_ends_is_given_back_and_waves_are_kept() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let floor = trim_floor(SMALL.class());
    let wave = || {
        let cells: Vec<_> = (0..16 * floor).map(|_| cache.alloc(SMALL)).collect();
        let peak = pool.stats().chunks;
        cells.into_iter().for_each(|cell| free_to(&cache, cell));
        (peak, pool.stats().chunks)
    };
    let (peak, rest) = wave();
    assert!(rest <= peak / 8, "{rest} of {peak} chunks left");
    let (peak, rest) = (0..5).fold(wave(), |_, _| wave());
    assert_eq!(rest, peak);
    pool.trim();
    pool.trim();
    assert!(pool.stats().chunks <= 4, "{:?}", pool.stats());
    drop(cache);
    pool.close();
    assert_eq!(pool.stats(), NOTHING);
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn trimming_spares_what_the_interval_used() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let wave = |count: usize| {
        let cells: Vec<_> = (0..count).map(|_| cache.alloc(SMALL)).collect();
        cells.into_iter().for_each(|cell| free_to(&cache, cell));
    };
    wave(4000);
    let full = pool.stats().chunks;
    pool.trim();
    wave(4000);
    pool.trim();
    assert_eq!(pool.stats().chunks, full);
    wave(1000);
    pool.trim();
    let left = pool.stats().chunks;
    assert!(left < full && left >= 1000 / 128, "{left} of {full} chunks");
    drop(cache);
    pool.close();
}

#[test]
#[cfg_attr(miri, ignore = "takes thousands of cells")]
fn sweeping_keeps_chunks_with_a_cell_in_use() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let count = 8 * trim_floor(SMALL.class());
    let mut kept = Vec::new();
    let cells: Vec<_> = (0..count).map(|_| cache.alloc(SMALL)).collect();
    for (index, cell) in cells.into_iter().enumerate() {
        if index % 1024 == 0 {
            publish(cell, index as u64 + 1);
            kept.push(cell);
        } else {
            free_to(&cache, cell);
        }
    }
    let states: Vec<_> = (1..=count as u64).step_by(1024).collect();
    assert_eq!(live(&pool), states);
    assert!(pool.stats().chunks < count / 127);
    kept.into_iter().for_each(free);
    drop(cache);
    pool.close();
    assert_eq!(pool.stats(), NOTHING);
}

/// Each of `SIDES` threads allocates and sends to the next, which checks and frees; half of them
/// have no cache. Visits and a close run against them. Everything must be back at the end.
#[test]
fn cells_freed_elsewhere_all_return() {
    const SIDES: usize = 4;
    let pool = Pool::new();
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..SIDES).map(|_| mpsc::sync_channel::<Owned>(200)).unzip();
    let weak = Arc::downgrade(&pool);
    thread::scope(|scope| {
        for (side, inbox) in receivers.into_iter().enumerate() {
            let outbox = senders[(side + 1) % SIDES].clone();
            let cache = (side % 2 == 0).then(|| Cache::new(Arc::clone(&pool)));
            let pool = Arc::clone(&pool);
            scope.spawn(move || {
                for round in 0..repeated(20_000) as u64 {
                    let layout = CellLayout::new([64, 200, 256, 4000][round as usize % 4], 16);
                    let cell = match &cache {
                        Some(cache) => cache.alloc(layout),
                        None => pool.alloc(layout),
                    };
                    publish(cell, cell.addr().get() as u64);
                    if outbox.try_send(Owned(cell)).is_err() {
                        free(cell);
                    }
                    if let Ok(Owned(cell)) = inbox.try_recv() {
                        take_apart(cell, cache.as_ref());
                    }
                }
                drop((outbox, pool));
                for Owned(cell) in inbox {
                    take_apart(cell, cache.as_ref());
                }
            });
        }
        drop(senders);
        for _ in 0..20 {
            pool.for_each_cell(
                // ORDERING: Relaxed, the value is only compared with the address.
                |cell| Some((cell.addr().get() as u64, word(cell).load(Ordering::Relaxed))),
                |(address, state)| assert!(state == address || state == 0),
            );
            thread::yield_now();
        }
        pool.close();
    });
    assert_eq!(pool.stats(), NOTHING);
    drop(pool);
    assert_eq!(weak.strong_count(), 0);
}

fn take_apart(cell: NonNull<u8>, cache: Option<&Cache>) {
    // ORDERING: Relaxed, the channel ordered this after the publication.
    let state = word(cell).load(Ordering::Relaxed);
    assert_eq!(state, cell.addr().get() as u64, "somebody else's cell");
    // SAFETY: the channel made this thread the owner.
    unsafe { Pool::free(cell, cache) };
}

#[test]
fn the_last_straggler_on_another_thread_frees_the_pool() {
    for _ in 0..if cfg!(miri) { 4 } else { 200 } {
        let pool = Pool::new();
        let weak = Arc::downgrade(&pool);
        let cells: Vec<_> = (0..4).map(|_| Owned(pool.alloc(SMALL))).collect();
        thread::scope(|scope| {
            for Owned(cell) in cells {
                let cell = Owned(cell);
                scope.spawn(move || {
                    let Owned(cell) = { cell };
                    free(cell);
                });
            }
            pool.close();
            drop(pool);
        });
        assert_eq!(weak.strong_count(), 0);
    }
}

#[test]
fn magazines_hold_between_4_and_64_cells() {
    for class in Class::all().take(CLASSES) {
        let capacity = CAPACITY[class.index()];
        assert!((4..=64).contains(&capacity));
        assert!(capacity == 4 || capacity as usize * class.cell_bytes() <= 16 * 1024);
    }
}
