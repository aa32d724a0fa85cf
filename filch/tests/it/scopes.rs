//! `scope`: children borrow, and the function itself waits for them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Drops, Gate, panic_of};
use crate::watchdog::watched;

#[test]
fn children_borrow_from_the_stack_on_every_kind_of_thread() {
    watched(|dog| {
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            runtime.everywhere(|| {
                let mut squares: Vec<usize> = (0..100).collect();
                let names = String::from("borrowed");
                let lengths = AtomicUsize::new(0);
                filch::scope(|s| {
                    for x in &mut squares {
                        s.spawn(|_| {
                            *x *= *x;
                            lengths.fetch_add(names.len(), Ordering::SeqCst);
                        });
                    }
                });
                assert!(squares.into_iter().eq((0..100).map(|x| x * x)));
                assert_eq!(lengths.into_inner(), 100 * names.len());
            });
        }
    });
}

#[test]
fn child_spawns_into_the_same_scope_however_deep() {
    watched(|dog| {
        fn tree<'scope>(s: &filch::Scope<'scope>, depth: u32, count: &'scope AtomicUsize) {
            count.fetch_add(1, Ordering::SeqCst);
            if depth > 0 {
                s.spawn(move |s| tree(s, depth - 1, count));
                s.spawn(move |s| tree(s, depth - 1, count));
            }
        }
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let count = AtomicUsize::new(0);
            filch::scope(|s| tree(s, 10, &count));
            assert_eq!(count.into_inner(), (1 << 11) - 1);
        });
    });
}

#[test]
fn async_children_borrow_too() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let numbers = vec![1, 2, 3];
            let sum = AtomicUsize::new(0);
            filch::scope(|s| {
                for x in &numbers {
                    let sum = &sum;
                    s.spawn_async(async move {
                        filch::yield_now().await;
                        let x = *x;
                        sum.fetch_add(filch::spawn_fn(move || x).await, Ordering::SeqCst);
                    });
                }
            });
            assert_eq!(sum.into_inner(), 6);
        });
    });
}

#[test]
fn value_of_the_body_is_returned() {
    watched(|dog| {
        let runtime = dog.rig(1);
        runtime.everywhere(|| {
            let text = String::from("lives outside");
            let borrowed: &str = filch::scope(|s| {
                s.spawn(|_| assert_eq!(text.len(), 13));
                &text[..5]
            });
            assert_eq!(borrowed, "lives");
        });
    });
}

#[test]
fn panic_of_a_child_continues_after_the_others() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let drops = Drops::default();
            let text = panic_of(|| {
                filch::scope(|s| {
                    s.spawn(|_| panic!("child"));
                    for _ in 0..10 {
                        let token = drops.slow_token();
                        s.spawn(move |s| s.spawn(move |_| drop(token)));
                    }
                    let token = drops.slow_token();
                    s.spawn_async(async move {
                        filch::yield_now().await;
                        drop(token);
                    });
                })
            });
            assert_eq!((text.as_str(), drops.count()), ("child", 11));
        });
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn panic_of_the_body_continues_after_the_children() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let mut done = vec![false; 20];
            let text = panic_of(|| {
                filch::scope(|s| {
                    for done in &mut done {
                        s.spawn(move |_| *done = true);
                    }
                    panic!("body")
                })
            });
            assert_eq!(text, "body");
            assert!(done.into_iter().all(|done| done));
        });
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

#[test]
fn forgetting_everything_inside_breaks_nothing() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let mut data = [0u8; 64];
            let drops = Drops::default();
            filch::scope(|s| {
                for x in &mut data {
                    let token = drops.token();
                    s.spawn(move |inner| {
                        *x += 1;
                        std::mem::forget(token);
                        let _ = inner;
                    });
                }
                // Tasks of the same thread, whose handles nobody will ever ask.
                std::mem::forget(filch::spawn(async { 1 }));
                std::mem::forget(filch::spawn_fn(|| 2));
            });
            assert_eq!(data, [1; 64]);
            assert_eq!(drops.count(), 0);
        });
    });
}

#[test]
fn scope_inside_a_forgotten_future_has_already_waited() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let gate = Gate::default();
        let mut data = vec![0; 8];
        runtime.block_on(async {
            let mut future = Box::pin(async {
                filch::scope(|s| data.iter_mut().for_each(|x| s.spawn(move |_| *x += 1)));
                gate.await;
            });
            std::future::poll_fn(|cx| {
                assert!(future.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            std::mem::forget(future);
        });
        assert_eq!(data, [1; 8]);
    });
}

fn nested(depth: usize, sum: &AtomicUsize) {
    sum.fetch_add(1, Ordering::SeqCst);
    if depth > 0 {
        filch::scope(|s| {
            s.spawn(move |_| nested(depth - 1, sum));
        });
    }
}

#[test]
fn scopes_within_scopes_go_deep() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let sum = AtomicUsize::new(0);
            nested(100, &sum);
            assert_eq!(sum.into_inner(), 101);
        });
    });
}

#[test]
fn wide_recursion_of_scopes_ends() {
    watched(|dog| {
        fn quick_sum(numbers: &[u64]) -> u64 {
            if numbers.len() <= 8 {
                return numbers.iter().sum();
            }
            let (left, right) = numbers.split_at(numbers.len() / 2);
            let (mut a, mut b) = (0, 0);
            filch::scope(|s| {
                s.spawn(|_| a = quick_sum(left));
                s.spawn(|_| b = quick_sum(right));
            });
            a + b
        }
        for workers in [1, 2] {
            let runtime = dog.rig(workers);
            runtime.everywhere(|| {
                let numbers: Vec<u64> = (0..4096).collect();
                assert_eq!(quick_sum(&numbers), 4095 * 2048);
            });
        }
    });
}

#[test]
fn thread_that_waits_helps_and_runs_nothing_else() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (busy, release) = (Gate::default(), Gate::default());
        let blocker = runtime.spawn_fn({
            let (busy, release) = (busy.clone(), release.clone());
            move || {
                busy.open();
                release.block();
            }
        });
        busy.block();
        // The only compute worker is taken: the foreign thread runs its children itself.
        let here = std::thread::current().id();
        let strangers = Mutex::new(Vec::new());
        let stranger = runtime.spawn_fn(move || std::thread::current().id());
        runtime.block_on_fn(|| {
            filch::scope(|s| {
                for _ in 0..10 {
                    s.spawn(|_| strangers.lock().unwrap().push(std::thread::current().id()));
                }
            });
        });
        assert_eq!(strangers.into_inner().unwrap().len(), 10);
        release.open();
        let ran_on = runtime.block_on(async { (blocker.await, stranger.await).1 });
        assert_ne!(ran_on, here, "a stranger's job ran on the waiting thread");
    });
}
