//! Waiting for several at once, and for those of another runtime.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use crate::support::{Drops, Gate, panic_of};
use crate::watchdog::watched;

#[test]
fn tuple_of_twelve_types_gives_them_in_order() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let twelve = filch::wait((
                filch::spawn(async { 1u8 }),
                filch::spawn_fn(|| 2u16),
                filch::spawn(async { 3u32 }),
                filch::spawn_fn(|| 4u64),
                filch::spawn(async { 5i8 }),
                filch::spawn_fn(|| 6.0f32),
                filch::spawn(async { 7.0f64 }),
                filch::spawn_fn(|| '8'),
                filch::spawn(async { "9" }),
                filch::spawn_fn(|| String::from("10")),
                filch::spawn(async { vec![11] }),
                filch::spawn_fn(|| Some(12)),
            ));
            let expected = (
                1u8,
                2u16,
                3u32,
                4u64,
                5i8,
                6.0f32,
                7.0f64,
                '8',
                "9",
                String::from("10"),
                vec![11],
                Some(12),
            );
            assert_eq!(
                (twelve.0, twelve.1, twelve.2, twelve.3),
                (expected.0, expected.1, expected.2, expected.3)
            );
            assert_eq!(
                (twelve.4, twelve.5, twelve.6, twelve.7),
                (expected.4, expected.5, expected.6, expected.7)
            );
            assert_eq!(
                (twelve.8, twelve.9, twelve.10, twelve.11),
                (expected.8, expected.9, expected.10, expected.11)
            );
        });
    });
}

#[test]
fn vectors_and_tuples_nest() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let many: Vec<_> =
            (0..3).map(|i| (runtime.spawn(async move { i }), runtime.spawn_fn(|| 'x'))).collect();
        let (many, one) = filch::wait((many, runtime.spawn(async {})));
        assert_eq!((many, one), (vec![(0, 'x'), (1, 'x'), (2, 'x')], ()));
        assert_eq!(filch::wait(Vec::<filch::JoinHandle<()>>::new()), []);
    });
}

#[test]
fn async_twins_give_the_same_as_the_blocking_ones() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let (pair, many) = runtime.block_on(async {
            let pair =
                filch::wait_async((filch::spawn(async { 1 }), filch::spawn_fn(|| "two"))).await;
            let many = filch::wait_all_async((0..500).map(|i| filch::spawn_fn(move || i))).await;
            (pair, many)
        });
        assert_eq!(pair, (1, "two"));
        assert!(many.into_iter().eq(0..500));
    });
}

#[test]
fn panic_among_several_continues_after_all_have_ended() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for twin in [Twin::Blocking, Twin::Async] {
            let (gate, ended) = (Gate::default(), Drops::default());
            let panics = runtime.spawn_fn({
                let gate = gate.clone();
                move || -> u8 {
                    // The others may go on only once this one is on its way to panic.
                    gate.open();
                    panic!("first")
                }
            });
            let slow = |token: crate::support::Token, gate: Gate| async move {
                gate.await;
                for _ in 0..100 {
                    filch::yield_now().await;
                }
                drop(token);
            };
            let all = (
                panics,
                runtime.spawn(slow(ended.token(), gate.clone())),
                vec![runtime.spawn(slow(ended.token(), gate.clone()))],
            );
            let text = match twin {
                Twin::Blocking => panic_of(|| filch::wait(all)),
                Twin::Async => panic_of(|| runtime.block_on(filch::wait_async(all))),
            };
            assert_eq!((text.as_str(), ended.count()), ("first", 2));
        }
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

enum Twin {
    Blocking,
    Async,
}

#[test]
fn second_panic_among_several_reaches_the_hook_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let all =
            vec![runtime.spawn(async { panic!("one") }), runtime.spawn(async { panic!("two") })];
        assert_eq!(panic_of(|| filch::wait(all)), "one");
        assert_eq!(runtime.drain(), ["two"]);
    });
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
fn spawn_and_wait_recursion_ends_on_every_kind_of_thread() {
    watched(|dog| {
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            runtime.everywhere(|| assert_eq!(fib(16), 987));
        }
    });
}

fn fib_async(n: u32) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return u64::from(n);
        }
        // Blocks its worker on purpose.
        let a = filch::spawn(fib_async(n - 1));
        let b = filch::spawn_fn(move || fib(n - 2));
        a.wait() + b.wait()
    })
}

#[test]
fn async_tasks_that_block_in_waits_recursively_still_end() {
    watched(|dog| {
        let runtime = dog.rig(2);
        assert_eq!(runtime.spawn(fib_async(8)).wait(), 21);
    });
}

#[test]
fn one_worker_with_both_roles_waits_for_everything() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Runtime::builder().single_thread(true));
        let task = runtime.spawn(async {
            let sum = fib(10) + filch::spawn(async { fib(5) }).wait();
            let mut squares = [1, 2, 3];
            filch::scope(|s| squares.iter_mut().for_each(|x| s.spawn(move |_| *x *= *x)));
            assert_eq!(squares, [1, 4, 9]);
            sum + filch::block_on(async { filch::spawn_fn(|| fib(6)).await })
        });
        assert_eq!(task.wait(), 55 + 5 + 8);
    });
}

#[test]
fn workers_of_two_runtimes_wait_for_each_other_at_the_same_time() {
    watched(|dog| {
        let (a, b) = (dog.rig(1), dog.rig(1));
        for _ in 0..20 {
            let (to_a, to_b) = (a.handle(), b.handle());
            let met = Arc::new(Barrier::new(2));
            let here = met.clone();
            let on_a = a.spawn(async move {
                here.wait();
                to_b.spawn(async { 1 }).wait() + to_b.spawn_fn(|| 2).wait()
            });
            let on_b = b.spawn(async move {
                met.wait();
                to_a.spawn(async { 10 }).wait() + to_a.spawn_fn(|| 20).wait()
            });
            assert_eq!(filch::wait((on_a, on_b)), (3, 30));
            let (to_a, to_b) = (a.handle(), b.handle());
            let met = Arc::new(Barrier::new(2));
            let here = met.clone();
            let on_a = a.spawn_fn(move || {
                here.wait();
                to_b.spawn(async { 1 }).wait()
                    + to_b.block_on(async { filch::spawn_fn(|| 2).await })
            });
            let on_b = b.spawn_fn(move || {
                met.wait();
                to_a.spawn(async { 10 }).wait() + to_a.block_on_fn(|| filch::spawn_fn(|| 20).wait())
            });
            let sums = filch::block_on(async { filch::wait_async((on_a, on_b)).await });
            assert_eq!(sums, (3, 30));
        }
        a.assert_alive();
        b.assert_alive();
    });
}

#[test]
fn job_claimed_by_a_worker_of_another_runtime_belongs_to_its_own() {
    watched(|dog| {
        let (a, b) = (dog.rig(1), dog.rig(1));
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let (to_b, ran) = (b.handle(), ran.clone());
            let on_a = a.spawn_fn(move || {
                let job = to_b.spawn_fn(move || {
                    // Wherever this runs, its children are b's.
                    drop(filch::spawn_fn(move || ran.fetch_add(1, Ordering::SeqCst)));
                    filch::Handle::current().config().thread_name.clone()
                });
                job.wait()
            });
            a.block_on(on_a);
        }
        b.drain();
        assert_eq!(ran.load(Ordering::SeqCst), 100);
        a.assert_alive();
    });
}
