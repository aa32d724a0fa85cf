//! Pipelines under many schedules of the simulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use filch::Pipeline;
use filch::pipeline::{Next, PipelineError};
use filch::testkit::{Condvar, Mutex, Sim, random, spawn_thread, switch_point};

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("FILCH_SIM_SEEDS").ok().and_then(|text| text.parse().ok());
    0..count.unwrap_or(500)
}

#[test]
fn serial_stages_keep_order_under_all_seeds() {
    Sim::new().check(seeds(), || {
        let lines = 1 + random() as usize % 6;
        let mut last = None;
        let run = Pipeline::new(lines)
            .items(0..20u64)
            .serial(|x| {
                switch_point();
                x
            })
            .parallel(|x| {
                switch_point();
                x
            })
            .for_each(|x| {
                assert_eq!(last.map_or(0, |last: u64| last + 1), x);
                last = Some(x);
            })
            .run();
        assert_eq!(run.unwrap(), 20);
    });
}

#[test]
fn stage_may_lock_what_its_caller_does_not_hold() {
    Sim::new().check(seeds(), || {
        let sum = Mutex::new(0);
        let run =
            Pipeline::new(4).items(0..12).parallel(|x| *sum.lock().unwrap() += x).build().run();
        assert_eq!((run.unwrap(), sum.into_inner().unwrap()), (12, 66));
    });
}

/// Each token calls a runner for itself: the source, in the middle of a batch, goes on only when those before have come out.
#[test]
fn source_that_waits_for_what_it_gave_gets_it_under_all_seeds() {
    Sim::new().check(seeds(), || {
        let out = Arc::new((Mutex::new(0), Condvar::new()));
        let (seen, note) = (out.clone(), out);
        let run = Pipeline::new(16)
            .source(move |token| {
                // At full speed first, so that batches are large.
                if token.number() > 16 {
                    let count = seen.0.lock().unwrap();
                    drop(seen.1.wait_while(count, |count| *count < token.number()).unwrap());
                }
                if token.number() < 40 { Next::Item(()) } else { Next::Stop }
            })
            .parallel(|()| switch_point())
            .for_each(move |()| {
                *note.0.lock().unwrap() += 1;
                note.1.notify_all();
            })
            .run();
        assert_eq!(run.unwrap(), 40);
    });
}

#[test]
fn cancel_from_elsewhere_ends_every_schedule() {
    Sim::new().check(seeds(), || {
        let passed = Arc::new(AtomicU64::new(0));
        let seen = passed.clone();
        let mut pipeline = Pipeline::new(3)
            .items(0..40u64)
            .parallel_async(async |x| {
                filch::time::sleep(Duration::from_micros(x % 3)).await;
                x
            })
            .for_each(move |_| _ = seen.fetch_add(1, SeqCst));
        let canceller = pipeline.canceller();
        let other = spawn_thread(move || {
            switch_point();
            canceller.cancel()
        });
        let run = pipeline.run();
        let cancelled = other.join().unwrap();
        match run {
            Ok(count) => assert_eq!((count, passed.load(SeqCst)), (40, 40)),
            Err(PipelineError::Cancelled) => assert!(cancelled),
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn same_seed_same_run() {
    let run = |seed| {
        let run = Sim::new()
            .seed(seed)
            .try_run(|| Pipeline::new(4).items(0..30).parallel(|x| x * 2).collect().run().unwrap());
        run.unwrap()
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed));
    }
}
