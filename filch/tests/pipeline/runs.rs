//! Runs on real threads: where they may be called, how they end, what they leave.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::time::Duration;

use filch::pipeline::{Canceller, Next, PipelineError, Stage, Token};
use filch::{Builder, Pipeline};

use crate::watchdog::watched;

fn squares(count: u64) -> Vec<u64> {
    Pipeline::new(8).items(0..count).parallel(|x| x * x).collect().run().unwrap()
}

fn expected(count: u64) -> Vec<u64> {
    (0..count).map(|x| x * x).collect()
}

#[test]
fn runs_on_any_thread() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        assert_eq!(squares(100), expected(100));
        assert_eq!(runtime.block_on_fn(|| squares(100)), expected(100));
        assert_eq!(runtime.block_on(runtime.spawn(async { squares(100) })), expected(100));
        assert_eq!(runtime.block_on(runtime.spawn_fn(|| squares(100))), expected(100));
        let single = Builder::new().single_thread(true).build().unwrap();
        assert_eq!(single.block_on_fn(|| squares(100)), expected(100));
    });
}

#[test]
fn pipelines_nest() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let sums = runtime.block_on_fn(|| {
            let sum = |n: u64| squares(n).into_iter().sum::<u64>();
            Pipeline::new(4).items(0..20).parallel(sum).collect().run().unwrap()
        });
        assert_eq!(sums, (0..20).map(|n| expected(n).iter().sum()).collect::<Vec<u64>>());
    });
}

/// A token that is ready goes on although the source, in the middle of a batch, blocks until it has.
#[test]
fn source_that_waits_for_its_own_tokens_gets_them() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        runtime.block_on_fn(|| {
            let (answer, answers) = mpsc::channel();
            let answers = std::sync::Mutex::new(answers);
            let count = Pipeline::new(64)
                .source(move |token| {
                    // At full speed first, so that batches are large.
                    if token.number() > 5_000 {
                        while answers.lock().unwrap().recv().unwrap() + 1 < token.number() {}
                    }
                    if token.number() < 5_300 { Next::Item(token.number()) } else { Next::Stop }
                })
                .parallel(|number| number)
                .for_each(move |number| _ = answer.send(number))
                .run();
            assert_eq!(count.unwrap(), 5_300);
        });
    });
}

/// Two tokens meet inside a parallel stage.
#[test]
fn parallel_stage_has_two_tokens_at_once() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let meeting = Barrier::new(2);
        runtime.block_on_fn(|| {
            let run = Pipeline::new(4).items(0..40).parallel(|_| _ = meeting.wait()).build().run();
            assert_eq!(run.unwrap(), 40);
        });
    });
}

#[test]
fn error_names_stage_and_token_and_the_pipeline_runs_again() {
    watched(|_| {
        let broken = AtomicBool::new(true);
        let mut seen = Vec::new();
        let mut pipeline = Pipeline::new(4)
            .source(
                |token| if token.number() < 9 { Next::Item(token.number()) } else { Next::Stop },
            )
            .parallel(|x| x)
            .try_parallel(|x| if x == 5 && broken.load(SeqCst) { Err("five") } else { Ok(x) })
            .name("check")
            .for_each(|x| seen.push(x));
        let error = pipeline.run().unwrap_err();
        assert_eq!(error.to_string(), "stage 2 (check), token 5: five");
        broken.store(false, SeqCst);
        pipeline.reset();
        assert_eq!(pipeline.run().unwrap(), 9);
        drop(pipeline);
        assert_eq!(seen[seen.len() - 9..], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    });
}

#[test]
fn panic_is_an_error_with_its_payload() {
    watched(|_| {
        let mut pipeline =
            Pipeline::new(4).items(0..9).serial(|x| assert_ne!(x, 3, "three")).build();
        match pipeline.run().unwrap_err() {
            PipelineError::Panicked { at, payload } => {
                assert_eq!((at.stage, at.token), (1, 3));
                let text = payload.into_inner().downcast::<String>().unwrap();
                assert!(text.contains("three"));
            }
            error => panic!("{error}"),
        }
    });
}

#[test]
fn panic_of_a_deferral_to_itself_is_an_error_at_the_source() {
    watched(|_| {
        let mut pipeline = Pipeline::new(4)
            .source(|token| {
                token.defer(token.number());
                Next::<()>::Deferred
            })
            .build();
        assert_eq!(pipeline.run().unwrap_err().place().unwrap().stage, 0);
    });
}

/// What leaves a source whose tokens 0, 1 and 2 wait for 3 at first, and go on as `again` says. Twice, without a reset.
fn deferred(again: fn(&mut Token) -> Next<u64>) -> [Result<Vec<u64>, PipelineError>; 2] {
    let mut pipeline = Pipeline::new(4)
        .source(move |token| match (token.number(), token.deferrals()) {
            (0..3, 0) => {
                token.defer(3);
                Next::Deferred
            }
            (5, _) => Next::Stop,
            (number, 0) => Next::Item(number),
            _ => again(token),
        })
        .collect();
    [pipeline.run(), pipeline.run()]
}

#[test]
fn stop_of_a_deferred_token_loses_none_that_is_ready() {
    watched(|_| {
        let [first, second] = deferred(|token| match token.number() {
            0 => Next::Stop,
            number => Next::Item(number),
        });
        assert_eq!(first.unwrap(), [3, 1, 2]);
        assert_eq!(second.unwrap(), [4], "the next run goes on with new tokens");
    });
}

#[test]
fn stop_of_a_deferred_token_loses_none_that_waits() {
    watched(|_| {
        let [first, second] = deferred(|token| match (token.number(), token.deferrals()) {
            (0, _) => Next::Stop,
            (1, 1) => {
                token.defer(2);
                Next::Deferred
            }
            // Of one that has stopped, too.
            (2, 1) => {
                token.defer(0);
                Next::Deferred
            }
            (number, _) => Next::Item(number),
        });
        assert_eq!(first.unwrap(), [3, 2, 1]);
        assert_eq!(second.unwrap(), [4]);
    });
}

#[test]
fn those_that_wait_for_what_never_comes_are_named_after_a_stop() {
    watched(|_| {
        let [first, _] = deferred(|token| match (token.number(), token.deferrals()) {
            (0, _) => Next::Stop,
            (1, 1) => {
                token.defer(4);
                Next::Deferred
            }
            (number, _) => Next::Item(number),
        });
        let Err(PipelineError::Stuck { tokens }) = first else { panic!("{first:?}") };
        assert_eq!(tokens, [1]);
    });
}

#[test]
fn cancel_ends_futures_that_wait_for_ever() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        runtime.block_on_fn(|| {
            let waiting = Arc::new(AtomicUsize::new(0));
            let seen = waiting.clone();
            let mut pipeline = Pipeline::new(4)
                .items(0..)
                .parallel_async(move |_| {
                    seen.fetch_add(1, SeqCst);
                    std::future::pending::<()>()
                })
                .build();
            let canceller = pipeline.canceller();
            let other = std::thread::spawn(move || {
                while waiting.load(SeqCst) < 4 {
                    std::thread::yield_now();
                }
                assert!(canceller.cancel());
            });
            assert!(matches!(pipeline.run(), Err(PipelineError::Cancelled)));
            other.join().unwrap();
        });
    });
}

#[test]
fn failure_ends_futures_that_wait_for_ever() {
    watched(|_| {
        let mut pipeline = Pipeline::new(4)
            .items(0..)
            .try_parallel_async(async |x| match x {
                2 => Err("two"),
                _ => std::future::pending().await,
            })
            .for_each(|(): ()| ());
        assert_eq!(pipeline.run().unwrap_err().place().unwrap().token, 2);
    });
}

#[test]
fn cancelled_group_ends_the_run_inside() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let cancelled = Arc::new(AtomicBool::new(false));
        let seen = cancelled.clone();
        let result = runtime.block_on(filch::group(async move |g| {
            let (started, has_started) = filch::sync::oneshot::channel();
            let mut started = Some(started);
            drop(g.spawn_fn(move || {
                let run = Pipeline::new(4)
                    .items(0..)
                    .for_each(move |_| {
                        if let Some(started) = started.take() {
                            _ = started.send(());
                        }
                    })
                    .run();
                seen.store(matches!(run, Err(PipelineError::Cancelled)), SeqCst);
                Ok(())
            }));
            _ = has_started.await;
            Err::<(), _>("enough")
        }));
        assert_eq!(result, Err("enough"));
        assert!(cancelled.load(SeqCst));
    });
}

#[test]
fn dropped_async_run_is_over_before_its_group() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let alive = Arc::new(());
        let inside = alive.clone();
        runtime.block_on(async move {
            let held = inside.clone();
            let run = Pipeline::new(4).items(0..).for_each(move |_: u64| _ = &held).run_async();
            assert!(filch::time::timeout(Duration::from_millis(2), run).await.is_err());
        });
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn async_run_gives_the_pipeline_back() {
    watched(|_| {
        let runtime = Builder::new().workers(2).build().unwrap();
        runtime.block_on(async {
            let mut pipeline = Pipeline::new(4)
                .source(|token| {
                    let number = token.number();
                    if number % 10 < 9 { Next::Item(number) } else { Next::Stop }
                })
                .parallel(|x| x + 1)
                .collect();
            for _ in 0..3 {
                let (back, items) = pipeline.run_async().await;
                assert_eq!(items.unwrap(), (1..10).collect::<Vec<_>>());
                pipeline = back;
                pipeline.reset();
            }
        });
    });
}

#[test]
fn async_stages_hold_no_thread() {
    watched(|_| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let inside = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let (inside, most) = (&inside, &most);
        runtime.block_on_fn(|| {
            let run = Pipeline::new(100)
                .items(0..100)
                .parallel_async(move |_: u32| async move {
                    most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                    while most.load(SeqCst) < 100 {
                        filch::yield_now().await;
                    }
                })
                .build()
                .run();
            assert_eq!(run.unwrap(), 100);
        });
    });
}

#[test]
fn stages_of_a_scalable_pipeline_change_between_runs() {
    watched(|_| {
        let out = std::sync::Mutex::new(Vec::new());
        let mut pipeline = Pipeline::new(3).scalable(|token| match token.number() {
            20 => Next::Stop,
            number => Next::Item(number),
        });
        for count in 0..6u64 {
            let stages = pipeline.stages_mut();
            stages.clear();
            stages.extend((0..count).map(|n| match n % 2 {
                0 => Stage::parallel(move |x: &mut u64| *x += n),
                _ => Stage::serial(move |x: &mut u64| *x += n),
            }));
            stages.push(Stage::serial(|x| out.lock().unwrap().push(*x)));
            pipeline.reset();
            assert_eq!(pipeline.run().unwrap(), 20);
            let added: u64 = (0..count).sum();
            let seen = std::mem::take(&mut *out.lock().unwrap());
            assert_eq!(seen, (0..20).map(|x| x + added).collect::<Vec<_>>());
        }
    });
}

#[test]
fn scalable_pipeline_without_stages_drops_its_items() {
    watched(|_| {
        let item = Arc::new(());
        let held = item.clone();
        let mut pipeline = Pipeline::new(3).scalable(move |token| match token.number() {
            20 => Next::Stop,
            _ => Next::Item(held.clone()),
        });
        assert_eq!(pipeline.run().unwrap(), 20);
        assert_eq!(Arc::strong_count(&item), 2);
    });
}

#[test]
fn lines_that_no_memory_holds_are_refused() {
    for lines in [0, (1 << 20) + 1, 1 << 40, usize::MAX] {
        let payload = std::panic::catch_unwind(|| _ = Pipeline::new(lines)).expect_err("refused");
        let message = payload.downcast_ref::<String>().cloned();
        let message = message.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.into()));
        assert!(message.expect("a message").starts_with("a pipeline "), "{lines} lines");
    }
    let most = std::panic::catch_unwind(|| Pipeline::new(1 << 20));
    assert!(most.is_ok(), "what memory holds is not refused");
}

/// The source is asked again and again within one claim.
#[test]
fn cancel_ends_a_source_that_puts_off_for_ever() {
    watched(|_| {
        let asked = AtomicUsize::new(0);
        let canceller = OnceLock::<Canceller>::new();
        let mut pipeline = Pipeline::new(4)
            .source(|_| {
                if asked.fetch_add(1, SeqCst) == 1000 {
                    canceller.get().unwrap().cancel();
                }
                Next::<()>::Deferred
            })
            .build();
        canceller.set(pipeline.canceller()).unwrap();
        assert!(matches!(pipeline.run(), Err(PipelineError::Cancelled)));
        assert_eq!(asked.load(SeqCst), 1001);
    });
}

/// Batches are large when the stage cancels the run; the rest of its batch is not begun.
#[test]
fn nothing_begins_after_a_cancel_inside_a_batch() {
    watched(|_| {
        let last = AtomicU64::new(0);
        let canceller = OnceLock::<Canceller>::new();
        let mut pipeline = Pipeline::new(256).items(0..100_000u64).for_each(|x| {
            last.store(x, SeqCst);
            if x == 50_001 {
                canceller.get().unwrap().cancel();
            }
        });
        canceller.set(pipeline.canceller()).unwrap();
        assert!(matches!(pipeline.run(), Err(PipelineError::Cancelled)));
        assert_eq!(last.load(SeqCst), 50_001);
    });
}

struct Explosive;

impl From<Explosive> for Box<dyn std::error::Error + Send + Sync> {
    fn from(_: Explosive) -> Self {
        panic!("explosive")
    }
}

#[test]
fn panic_of_an_error_of_a_future_is_an_error_at_its_stage() {
    watched(|_| {
        let mut pipeline = Pipeline::new(2)
            .items(0..3)
            .try_serial_async(async |_| Err::<(), _>(Explosive))
            .build();
        let error = pipeline.run().unwrap_err();
        assert!(matches!(error, PipelineError::Panicked { .. }), "{error}");
        assert_eq!(error.place().unwrap().stage, 1);
    });
}

/// What comes out of the drop of a future that was cancelled is the caller's; the pipeline can be used
/// again, and has dropped what was in flight.
#[test]
fn panic_of_a_drop_leaves_a_pipeline_that_runs_again() {
    watched(|_| {
        struct Bomb(bool);
        impl Drop for Bomb {
            fn drop(&mut self) {
                assert!(!self.0, "bomb");
            }
        }
        let (broken, item) = (AtomicBool::new(true), Arc::new(()));
        let (fails, held) = (&broken, item.clone());
        let mut pipeline = Pipeline::new(4)
            .source(move |token| match token.number() {
                9 => Next::Stop,
                number => Next::Item((number, held.clone())),
            })
            .try_parallel_async(move |(number, item)| async move {
                let bomb = Bomb(fails.load(SeqCst) && number == 0);
                while fails.load(SeqCst) && number != 1 {
                    filch::yield_now().await;
                }
                drop((bomb, item));
                if fails.load(SeqCst) { Err("one") } else { Ok(()) }
            })
            .build();
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pipeline.run()));
        assert!(run.is_err() || run.is_ok_and(|result| result.is_err()));
        assert_eq!(Arc::strong_count(&item), 2, "that of the source alone");
        broken.store(false, SeqCst);
        pipeline.reset();
        assert_eq!(pipeline.run().unwrap(), 9);
    });
}
