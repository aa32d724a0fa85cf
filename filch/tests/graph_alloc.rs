//! A graph that has run once runs again without an allocation, on any thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use filch::{Builder, Graph};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts the allocations of all threads.
struct Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIDE: usize = 1000;

/// Each node comes after its neighbours above and to the left.
fn wavefront(ran: &AtomicUsize) -> Graph<'_> {
    let mut g = Graph::with_capacity(SIDE * SIDE, 2 * SIDE * SIDE);
    let mut above = Vec::<filch::graph::Node<()>>::new();
    for _ in 0..SIDE {
        let mut row = Vec::with_capacity(SIDE);
        for column in 0..SIDE {
            let node = g.node("", || _ = ran.fetch_add(1, SeqCst));
            if let Some(&above) = above.get(column) {
                g.precede(above, node);
            }
            if let Some(&left) = row.last() {
                g.precede(left, node);
            }
            row.push(node);
        }
        above = row;
    }
    g
}

/// Allocations in the last nine of ten calls.
fn in_the_last_nine(mut run: impl FnMut()) -> Vec<usize> {
    let mut allocated = Vec::with_capacity(9);
    run();
    for _ in 0..9 {
        let before = ALLOCATIONS.load(SeqCst);
        run();
        allocated.push(ALLOCATIONS.load(SeqCst) - before);
    }
    allocated
}

/// Allocations in the last nine of ten runs.
fn allocations(workers: usize) -> Vec<usize> {
    let ran: &'static AtomicUsize = Box::leak(Box::default());
    let g = wavefront(ran);
    // Without spares: a caller that sleeps may start a thread.
    let runtime = Builder::new().workers(workers).compute_spares(0).build().unwrap();
    let job = runtime.spawn_fn(move || in_the_last_nine(|| drop(g.run())));
    // Not `wait`, which would run the job here: a thread that is no worker becomes one for each call.
    let allocated = runtime.block_on(job);
    assert_eq!(ran.load(SeqCst), 10 * SIDE * SIDE);
    allocated
}

/// As `allocations`, of runs by a thread that is no worker, of a small graph.
fn allocations_of_a_guest() -> Vec<usize> {
    let mut g = Graph::new();
    let [first, second] = ["first", "second"].map(|name| g.node(name, || ()));
    g.precede(first, second);
    let runtime = Builder::new().workers(1).compute_spares(0).build().unwrap();
    runtime.block_on_fn(|| in_the_last_nine(|| drop(g.run())))
}

/// One test, because others would be counted.
#[test]
fn wavefront_of_a_million_nodes_allocates_in_its_first_run_only() {
    assert_eq!(allocations(1), [0; 9], "one worker");
    assert_eq!(allocations(2), [0; 9], "two workers");
    assert_eq!(allocations_of_a_guest(), [0; 9], "a thread that is no worker");
}
