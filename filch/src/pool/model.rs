//! Every interleaving of a close with the frees that race it, with magazines of two cells and one
//! shard. loom tracks the locks and what they guard; the pool's death is seen by its strong count.

use std::sync::Arc;

use loom::thread;

use super::*;

const CELL: CellLayout = CellLayout::new(256, 8);

struct Owned(NonNull<u8>);

// SAFETY: a model hands each cell to one thread at a time.
unsafe impl Send for Owned {}

impl Owned {
    fn free(self) {
        self.free_to(None);
    }

    fn free_to(self, local: Option<&Cache>) {
        // SAFETY: the only owner, and it is consumed.
        unsafe { Pool::free(self.0, local) };
    }
}

#[test]
fn loom_last_straggler_vs_close() {
    loom::model(|| {
        let pool = Pool::new();
        let weak = Arc::downgrade(&pool);
        let cell = Owned(pool.alloc(CELL));
        let straggler = thread::spawn(move || cell.free());
        pool.close();
        drop(pool);
        straggler.join().unwrap();
        assert_eq!(weak.strong_count(), 0);
    });
}

#[test]
fn loom_two_stragglers_of_one_chunk_vs_close() {
    loom::model(|| {
        let pool = Pool::new();
        let weak = Arc::downgrade(&pool);
        let cells = [Owned(pool.alloc(CELL)), Owned(pool.alloc(CELL))];
        let stragglers = cells.map(|cell| thread::spawn(move || cell.free()));
        pool.close();
        drop(pool);
        for straggler in stragglers {
            straggler.join().unwrap();
        }
        assert_eq!(weak.strong_count(), 0);
    });
}

#[test]
fn loom_overflow_of_a_shard_vs_close() {
    loom::model(|| {
        let pool = Pool::new();
        let weak = Arc::downgrade(&pool);
        let cells: [_; 5] = std::array::from_fn(|_| Owned(pool.alloc(CELL)));
        let freer = thread::spawn(move || cells.into_iter().for_each(Owned::free));
        pool.close();
        drop(pool);
        freer.join().unwrap();
        assert_eq!(weak.strong_count(), 0);
    });
}

#[test]
fn loom_cache_flushed_late_vs_close() {
    loom::model(|| {
        let pool = Pool::new();
        let weak = Arc::downgrade(&pool);
        let cache = Cache::new(Arc::clone(&pool));
        let cell = Owned(cache.alloc(CELL));
        let worker = thread::spawn(move || {
            cell.free_to(Some(&cache));
        });
        pool.close();
        drop(pool);
        worker.join().unwrap();
        assert_eq!(weak.strong_count(), 0);
    });
}

#[test]
fn loom_visit_vs_last_free_of_a_closed_pool() {
    loom::model(|| {
        let pool = Pool::new();
        let cell = Owned(pool.alloc(CELL));
        pool.close();
        let straggler = thread::spawn(move || cell.free());
        pool.for_each_cell(|_| Some(()), drop);
        straggler.join().unwrap();
        assert_eq!(pool.stats().chunks, 0);
    });
}

/// A cell is taken without a shard's rack, before or after the depot drains: nothing is lost.
#[test]
fn loom_alloc_vs_close() {
    loom::model(|| {
        let pool = Pool::new();
        let weak = Arc::downgrade(&pool);
        // A magazine of two goes to the depot.
        let cells: [_; 5] = std::array::from_fn(|_| Owned(pool.alloc(CELL)));
        cells.into_iter().for_each(Owned::free);
        let user = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || Owned(pool.alloc(CELL)).free())
        };
        pool.close();
        drop(pool);
        user.join().unwrap();
        assert_eq!(weak.strong_count(), 0);
    });
}
