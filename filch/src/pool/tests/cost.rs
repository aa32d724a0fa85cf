//! What the pool costs, beside the system allocator. Prints; asserts nothing about speed:
//! `cargo test -p filch --release --lib pool::tests::cost -- --ignored --nocapture --test-threads 1`

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;
use std::time::Instant;

use super::*;

const SYSTEM: Layout = match Layout::from_size_align(256, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("valid layout"),
};

fn system_alloc() -> NonNull<u8> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc(SYSTEM) }).expect("memory")
}

fn system_free(cell: NonNull<u8>) {
    // SAFETY: allocated by `system_alloc`.
    unsafe { dealloc(cell.as_ptr(), SYSTEM) }
}

/// Nanoseconds per operation, best of five.
fn best(name: &str, operations: usize, mut run: impl FnMut()) {
    let ns = (0..5).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64 / operations as f64
    });
    println!("{name:<44} {:8.2} ns", ns.fold(f64::INFINITY, f64::min));
}

fn pairs(name: &str, alloc: impl Fn() -> NonNull<u8>, free: impl Fn(NonNull<u8>)) {
    best(&format!("{name}: pair"), 5_000_000, || {
        for _ in 0..5_000_000 {
            let cell = black_box(alloc());
            publish(cell, 1);
            free(cell);
        }
    });
    for batch in [1000, 100_000] {
        let mut cells = Vec::with_capacity(batch);
        best(&format!("{name}: {batch} allocs, then frees"), 2_000_000, || {
            for _ in 0..2_000_000 / batch {
                cells.extend((0..batch).map(|_| {
                    let cell = alloc();
                    publish(cell, 1);
                    cell
                }));
                cells.drain(..).for_each(&free);
            }
        });
    }
}

#[test]
#[ignore = "prints figures"]
fn one_thread() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    pairs("cache", || cache.alloc(SMALL), |cell| free_to(&cache, cell));
    pairs("shard", || pool.alloc(SMALL), free);
    pairs("system", system_alloc, system_free);
    drop(cache);
    pool.close();
}

/// One thread allocates batches, the other frees them; the channel is paid per batch.
fn across<F: Fn(NonNull<u8>)>(
    name: &str,
    alloc: impl Fn() -> NonNull<u8>,
    freer: impl Fn() -> F + Sync,
) {
    const BATCH: usize = 1000;
    const COUNT: usize = 4_000_000;
    best(&format!("{name}: one allocates, one frees"), COUNT, || {
        let (sender, receiver) = mpsc::sync_channel::<Vec<Owned>>(4);
        thread::scope(|scope| {
            scope.spawn(|| {
                let free = freer();
                receiver.into_iter().flatten().for_each(|Owned(cell)| free(cell));
            });
            for _ in 0..COUNT / BATCH {
                let batch = (0..BATCH).map(|_| {
                    let cell = alloc();
                    publish(cell, 1);
                    Owned(cell)
                });
                sender.send(batch.collect()).expect("the other side");
            }
            drop(sender);
        });
    });
}

#[test]
#[ignore = "prints figures"]
fn two_threads() {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    across(
        "cache",
        || cache.alloc(SMALL),
        || {
            let cache = Cache::new(Arc::clone(&pool));
            move |cell| free_to(&cache, cell)
        },
    );
    across("shard", || pool.alloc(SMALL), || free);
    across("system", system_alloc, || system_free);
    drop(cache);
    pool.close();
}

#[test]
#[ignore = "prints figures"]
fn scattered_frees_and_a_sweep() {
    const COUNT: usize = 1_000_000;
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let scatter = |cells: &mut Vec<_>| {
        let mut seed = 1_u64;
        for index in (1..cells.len()).rev() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            cells.swap(index, (seed >> 33) as usize % (index + 1));
        }
    };
    let frees = |name, cells: &mut Vec<NonNull<u8>>, free: &dyn Fn(NonNull<u8>)| {
        let start = Instant::now();
        cells.drain(..).for_each(free);
        let ns = start.elapsed().as_nanos() as f64 / COUNT as f64;
        println!("{name:<44} {ns:8.2} ns");
    };
    let mut cells: Vec<_> = (0..COUNT).map(|_| cache.alloc(SMALL)).collect();
    scatter(&mut cells);
    frees("scattered free, cache", &mut cells, &|c| free_to(&cache, c));
    cells.extend((0..COUNT).map(|_| system_alloc()));
    scatter(&mut cells);
    frees("scattered free, system", &mut cells, &system_free);
    cache.flush();
    pool.trim();
    let start = Instant::now();
    pool.trim();
    println!("trim: {:?}, left {:?}", start.elapsed(), pool.stats());
    drop(cache);
    pool.close();
}
