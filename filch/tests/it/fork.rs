//! `join`: from any thread, with panics, borrowed data and strangers in the deque.

use filch::{Builder, join};

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn join_works_on_every_kind_of_thread() {
    assert_eq!(fib(20), 6765);
    let runtime = Builder::new().workers(2).build().unwrap();
    assert_eq!(runtime.spawn_fn(|| fib(20)).wait(), 6765);
    assert_eq!(runtime.spawn(async { fib(20) }).wait(), 6765);
    assert_eq!(runtime.block_on_fn(|| fib(20)), 6765);
    let one = Builder::new().single_thread(true).build().unwrap();
    assert_eq!(one.spawn_fn(|| fib(20)).wait(), 6765);
    assert_eq!(one.block_on(async { fib(20) }), 6765);
}
