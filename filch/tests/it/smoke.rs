#[test]
fn spawn_and_wait() {
    assert_eq!(filch::spawn(async { 1 }).wait(), 1);
    assert_eq!(filch::spawn_fn(|| 2).wait(), 2);
    let sum = filch::block_on(async {
        let a = filch::spawn(async { 1 });
        let b = filch::spawn_fn(|| 2);
        a.await + b.await
    });
    assert_eq!(sum, 3);
}

#[test]
fn many() {
    let n: u64 = filch::block_on(async {
        let hs: Vec<_> = (0..10_000u64).map(|i| filch::spawn(async move { i })).collect();
        filch::wait_all_async(hs).await.into_iter().sum()
    });
    assert_eq!(n, 9999 * 5000);
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let a = filch::spawn_fn(move || fib(n - 1));
    let b = fib(n - 2);
    a.wait() + b
}

#[test]
fn fib_by_spawn_and_wait() {
    assert_eq!(filch::spawn_fn(|| fib(20)).wait(), 6765);
}
