//! A join allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: all is left to the system's allocator; the count is a thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = filch::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// On a worker of its own, so that nobody steals and the deque has grown before.
#[test]
fn a_join_allocates_nothing() {
    let runtime = filch::Builder::new().workers(1).build().unwrap();
    let job = runtime.spawn_fn(|| {
        fib(20);
        let before = ALLOCATIONS.get();
        assert_eq!(fib(20), 6765);
        ALLOCATIONS.get() - before
    });
    assert_eq!(runtime.block_on(job), 0);
}

/// Thieves allocate nothing either, for what they steal lies on its owner's stack. Without spares: an
/// owner that blocks may start a thread.
#[test]
fn a_stolen_half_allocates_nothing_in_its_thief() {
    let runtime = filch::Builder::new().workers(2).compute_spares(0).build().unwrap();
    let job = runtime.spawn_fn(|| {
        let counted = || {
            let before = ALLOCATIONS.get();
            fib(16);
            ALLOCATIONS.get() - before
        };
        (0..200).map(|_| filch::join(counted, counted)).fold(0, |sum, (a, b)| sum + a + b)
    });
    assert_eq!(runtime.block_on(job), 0);
}

/// A long run of a pipeline allocates no more than a short one.
#[test]
fn tokens_of_a_pipeline_allocate_nothing() {
    let runtime = filch::Builder::new().workers(1).build().unwrap();
    let job = runtime.spawn_fn(|| {
        let count = |tokens: u64| {
            let mut sum = 0;
            let mut pipeline = filch::Pipeline::new(16)
                .items(0..tokens)
                .parallel(|x| [x, x + 1])
                .serial(|[a, b]| a ^ b)
                .for_each(|x| sum += x);
            let before = ALLOCATIONS.get();
            assert_eq!(pipeline.run().unwrap(), tokens);
            ALLOCATIONS.get() - before
        };
        count(1_000);
        (count(1_000), count(100_000))
    });
    let (short, long) = runtime.block_on(job);
    assert_eq!(short, long);
}
