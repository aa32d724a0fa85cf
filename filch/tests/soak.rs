//! The long storm, in a process of its own so that its memory can be counted.
//!
//! Once a runtime is dropped, every byte that it took is back: tasks, queues, threads, wakers.
//!
//! `cargo test --release -p filch --test soak` runs ten million tasks. `FILCH_STRESS_TASKS` sets
//! how many, `FILCH_SEED_STRESS` which.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use filch::{Builder, Shutdown};

#[path = "stress/storm.rs"]
mod storm;

use storm::{Lanes, Storm, TellSeed, is_about_the_end, seed, tasks};

/// Counts what is allocated.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);
static BLOCKS: AtomicIsize = AtomicIsize::new(0);

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        BLOCKS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes and blocks that are allocated.
fn allocated() -> (isize, isize) {
    (BYTES.load(Ordering::SeqCst), BLOCKS.load(Ordering::SeqCst))
}

/// Runs `f`, and checks that it leaves no memory behind.
#[track_caller]
fn leaves_nothing(what: &str, f: impl FnOnce()) {
    let before = allocated();
    f();
    let after = allocated();
    assert_eq!(after, before, "{what}: bytes and blocks allocated");
}

/// A structure on a runtime that has been aborted panics; saying so would take memory.
fn silence_expected_panics() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload_as_str().is_some_and(is_about_the_end) {
            say(panic);
        }
    }));
}

/// One test, because memory is counted for the whole process.
#[test]
fn ten_million_tasks_leave_no_task_and_no_byte_behind() {
    let seed = seed();
    let _tell = TellSeed(seed);
    silence_expected_panics();
    let total = tasks(10_000_000);
    // The first runtime also pays for what std makes once: the rest is compared.
    let storm = |lanes, tasks| Storm::leak(seed, lanes, tasks);
    let (first, long) = (storm(Lanes::Two, total / 100), storm(Lanes::Two, total));
    let (aborted, single) = (storm(Lanes::Two, total / 100), storm(Lanes::One, total / 100));
    first.rage(Builder::new().workers(2), 8, Shutdown::Drain);
    leaves_nothing("a long storm", || long.rage(Builder::new().workers(2), 8, Shutdown::Drain));
    leaves_nothing("an aborted storm", || aborted.rage_and_abort(Builder::new().workers(2), 8));
    leaves_nothing("a storm on one thread", || {
        single.rage(Builder::new().single_thread(true), 8, Shutdown::Drain);
    });
    leaves_nothing("a runtime that cannot start", || {
        // No thread has a stack of half the address space.
        Builder::new().workers(2).stack_size(1 << 47).build().unwrap_err();
    });
    leaves_nothing("runtimes with tasks that never end", || {
        for _ in 0..20 {
            let runtime = Builder::new().workers(2).build().unwrap();
            for _ in 0..100 {
                drop(runtime.spawn(async { std::future::pending::<()>().await }));
            }
        }
    });
}
