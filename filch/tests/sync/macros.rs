//! `select!`, `race!`, `join!`, `try_join!` and `task_local!`.

use std::future::{pending, ready};

use filch::sync::{Notify, mpmc};

use crate::support::Drops;

#[test]
fn select_runs_the_branch_that_is_ready_and_drops_the_others_first() {
    filch::block_on(async {
        let drops = Drops::default();
        let token = drops.token();
        let value = filch::select! {
            () = async move { let _token = token; pending().await } => unreachable!(),
            mut value = ready(1) => {
                value += drops.count();
                value
            }
        };
        assert_eq!(value, 2);
    });
}

#[test]
fn select_without_bias_takes_every_branch_in_the_long_run() {
    filch::block_on(async {
        let mut taken = [0; 3];
        for _ in 0..300 {
            let branch = filch::select! {
                () = ready(()) => 0,
                () = ready(()) => 1,
                () = ready(()) => 2,
            };
            taken[branch] += 1;
        }
        assert!(taken.iter().all(|count| *count > 0), "{taken:?}");
    });
}

#[test]
fn biased_select_takes_the_first_that_is_ready() {
    filch::block_on(async {
        for _ in 0..50 {
            let branch = filch::select! {
                biased;
                () = pending() => 0,
                () = ready(()) => 1,
                () = ready(()) => 2,
            };
            assert_eq!(branch, 1);
        }
        assert_eq!(filch::race!(biased; ready(1), ready(2)), 1);
    });
}

#[test]
fn select_skips_what_is_disabled_or_does_not_match() {
    filch::block_on(async {
        let none: Option<std::future::Ready<u32>> = None;
        let value = filch::select! {
            value = none.clone().unwrap(), if none.is_some() => value,
            Some(value) = ready(None) => value,
            Ok(value) = ready(Err::<u32, u32>(1)) => value,
            else => 7,
        };
        assert_eq!(value, 7);
    });
}

#[test]
#[expect(clippy::needless_borrowed_reference, reason = "these patterns are what is tested")]
fn select_takes_patterns_that_look_through_references() {
    filch::block_on(async {
        let (number, pair) = (5, (1, String::from("one")));
        let sum = filch::select! {
            biased;
            Some(&6) = ready(Some(&number)) => 0,
            Some(&(ref _a, ref b)) = ready(Some(&pair)), if pair.0 > 1 => b.len(),
            Some(&n) = ready(Some(&number)) => n + 1,
        };
        assert_eq!(sum, 6);
        let &n = filch::race!(ready(&number));
        assert_eq!(n, 5);
        let length = filch::select! { &(_, ref text) = ready(&pair) => text.len() };
        assert_eq!(length, 3);
    });
}

#[test]
fn select_takes_patterns_that_borrow_to_change() {
    filch::block_on(async {
        let length = filch::select! {
            Some(ref mut text) = ready(Some(String::from("a"))) => {
                text.push('b');
                text.len()
            }
        };
        assert_eq!(length, 2);
        let mut numbers = vec![1];
        let sum = filch::select! {
            biased;
            None::<u32> = ready(Some(1)) => 0,
            (ref mut first, mut second) = ready((&mut numbers, 2)) => {
                first.push(second);
                second += first.len();
                second
            }
        };
        assert_eq!((sum, numbers), (4, vec![1, 2]));
    });
}

#[test]
fn select_keeps_temporaries_as_long_as_their_futures() {
    filch::block_on(async {
        let (sender, receiver) = mpmc::bounded(1);
        sender.send(3).await.unwrap();
        for enabled in [true, false] {
            let value = filch::select! {
                biased;
                () = &mut pending() => 0,
                value = &mut ready(1), if enabled => value,
                value = &mut Box::pin(receiver.recv()) => value.unwrap(),
            };
            assert_eq!(value, if enabled { 1 } else { 3 });
        }
        filch::select! { () = &mut ready(()) => {} }
        assert_eq!(filch::race!(&mut ready(1), &mut pending()), 1);
        assert_eq!(filch::join!(&mut ready(1), &mut ready(2)), (1, 2));
    });
}

#[test]
fn select_of_an_else_alone_evaluates_it() {
    filch::block_on(async {
        assert_eq!(filch::select! { else => 7 }, 7);
        let mut rounds = 0;
        let value = loop {
            filch::select! { biased; else => if rounds == 3 { break 8 } else { rounds += 1 } }
        };
        assert_eq!(value, 8);
    });
}

#[test]
fn join_of_nothing_is_ready() {
    filch::block_on(async {
        let () = filch::join!();
        let () = filch::join!(biased;);
        assert_eq!(filch::try_join!() as Result<(), u32>, Ok(()));
        assert_eq!(filch::try_join!(biased;) as Result<(), u32>, Ok(()));
    });
}

/// Ready at the third poll; notes each poll.
async fn third(name: u32, polls: &std::cell::RefCell<Vec<u32>>) -> Result<u32, u32> {
    let mut left = 3;
    std::future::poll_fn(|cx| {
        polls.borrow_mut().push(name);
        left -= 1;
        cx.waker().wake_by_ref();
        if left == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    Ok(name)
}

#[test]
fn biased_join_polls_in_order_and_a_fair_one_in_turn() {
    filch::block_on(async {
        let polls = std::cell::RefCell::default();
        let both = filch::join!(biased; third(1, &polls), third(2, &polls));
        assert_eq!(both, (Ok(1), Ok(2)));
        assert_eq!(polls.take(), [1, 2, 1, 2, 1, 2]);
        let both = filch::try_join!(biased; third(1, &polls), third(2, &polls),);
        assert_eq!(both, Ok((1, 2)));
        assert_eq!(polls.take(), [1, 2, 1, 2, 1, 2]);
        filch::join!(third(1, &polls), third(2, &polls)).0.unwrap();
        assert_eq!(polls.take(), [1, 2, 2, 1, 1, 2]);
    });
}

#[test]
fn select_looks_at_all_conditions_before_it_makes_a_future() {
    filch::block_on(async {
        let (mut queue, log) = (vec![1, 2], std::cell::RefCell::new(Vec::new()));
        let note = |what| {
            log.borrow_mut().push(what);
            true
        };
        async fn pop(queue: &mut Vec<u32>) -> Option<u32> {
            queue.pop()
        }
        let popped = filch::select! {
            biased;
            // Borrows what the second condition reads.
            popped = pop(&mut queue), if note("first") => popped,
            () = pending(), if note("second") && queue.len() < 10 => None,
        };
        assert_eq!((popped, &log.borrow()[..]), (Some(2), &["first", "second"][..]));
    });
}

#[test]
#[should_panic(expected = "all branches of `select!` are disabled")]
fn select_with_nothing_left_panics() {
    filch::block_on(async {
        filch::select! { Some(()) = ready(None) => () }
    });
}

#[test]
fn handlers_are_part_of_the_function_around_them() {
    async fn first_error() -> Result<u32, String> {
        let (sender, receiver) = mpmc::bounded(4);
        sender.send(Ok(1)).await.unwrap();
        sender.send(Err("bad".to_owned())).await.unwrap();
        let mut sum = 0;
        loop {
            filch::select! {
                Ok(message) = receiver.recv() => sum += message?,
                else => break,
            }
        }
        Ok(sum)
    }
    assert_eq!(filch::block_on(first_error()), Err("bad".to_owned()));
}

#[test]
fn select_in_a_loop_loses_no_message() {
    filch::block_on(async {
        let (sender, receiver) = mpmc::bounded(1);
        let tick = std::sync::Arc::new(Notify::new());
        let ticks = tick.clone();
        drop(filch::spawn(async move {
            for i in 0..100 {
                tick.notify_one();
                sender.send(i).await.unwrap();
            }
        }));
        let mut received = Vec::new();
        loop {
            filch::select! {
                message = receiver.recv() => match message {
                    Ok(message) => received.push(message),
                    Err(_) => break,
                },
                () = ticks.notified() => {}
            }
        }
        assert!(received.into_iter().eq(0..100));
    });
}

#[test]
fn join_gives_all_values_and_try_join_the_first_error() {
    filch::block_on(async {
        let (sender, receiver) = mpmc::bounded(1);
        let (sum, ()) = filch::join!(
            async {
                let mut sum = 0;
                while let Ok(message) = receiver.recv().await {
                    sum += message;
                }
                sum
            },
            async {
                for i in 0..10 {
                    sender.send(i).await.unwrap();
                }
                drop(sender);
            },
        );
        assert_eq!(sum, 45);
        assert_eq!(filch::try_join!(ready(Ok::<_, u32>(1)), ready(Ok("two"))), Ok((1, "two")));
        let failed = filch::try_join!(pending::<Result<(), u32>>(), ready(Err::<(), _>(3)));
        assert_eq!(failed, Err(3));
    });
}

filch::task_local! {
    static LEVEL: u32;
    static NAME: String;
}

#[test]
fn task_local_value_follows_its_task_and_nobody_else() {
    filch::block_on(async {
        let task = |level| {
            LEVEL.scope(level, async move {
                for _ in 0..20 {
                    filch::yield_now().await;
                    assert_eq!(LEVEL.get(), level);
                }
                let child = filch::spawn(async { LEVEL.try_with(|_| ()).is_err() });
                assert!(child.await, "not inherited");
                NAME.scope("inner".to_owned(), async { assert_eq!(LEVEL.get(), level) }).await;
            })
        };
        filch::wait_all_async((0..8).map(|level| filch::spawn(task(level))).collect::<Vec<_>>())
            .await;
        assert!(LEVEL.try_with(|_| ()).is_err());
    });
}

#[test]
fn job_that_is_run_in_place_does_not_see_the_value_of_who_waits() {
    filch::block_on(async {
        filch::spawn(LEVEL.scope(1, async {
            for _ in 0..100 {
                let job = filch::spawn_fn(|| {
                    let inside = filch::block_on(async { LEVEL.try_with(|_| ()) });
                    (LEVEL.try_with(|_| ()).is_err(), inside.is_err())
                });
                assert_eq!(job.wait(), (true, true));
            }
            assert_eq!(filch::block_on(async { LEVEL.get() }), 1);
            let nested = filch::block_on(async { filch::block_on_fn(|| LEVEL.get()) });
            assert_eq!(nested, 1);
        }))
        .await;
    });
}

#[test]
fn value_is_back_after_a_panic_in_an_inner_scope() {
    LEVEL.sync_scope(1, || {
        let inner = std::panic::catch_unwind(|| LEVEL.sync_scope(2, || panic!("inner")));
        assert!(inner.is_err());
        assert_eq!(LEVEL.get(), 1);
    });
    assert!(LEVEL.try_with(|_| ()).is_err());
}
