//! Units that a worker holds back reach their group before the worker rests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Runs the scenario on a thread of its own, so that a hang is a failure.
fn must_end(scenario: impl FnOnce() + Send + 'static) {
    let (over, is_over) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        scenario();
        over.send(()).expect("the test waits");
    });
    if is_over.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("no end after a minute");
    }
    thread.join().expect("the scenario holds");
}

#[test]
fn group_awaited_on_the_only_worker_ends() {
    must_end(|| {
        let runtime = filch::Builder::new().workers(1).build().unwrap();
        for _ in 0..100 {
            // Called in the task, so that the children belong to this runtime.
            let waits = runtime.spawn(async {
                let body = async |g: filch::Group<()>| {
                    drop(g.spawn(async { Ok(()) }));
                    Ok(())
                };
                filch::group(body).await
            });
            assert_eq!(waits.wait(), Ok(()));
        }
    });
}

#[test]
fn spare_that_stands_by_holds_back_no_unit_and_no_task() {
    must_end(|| {
        let runtime = filch::Builder::new().workers(2).build().unwrap();
        for _ in 0..500 {
            // A worker that waits in a task is what brings the spare.
            let inner = runtime.spawn(async { filch::spawn(async { 6 }).wait() });
            let ran = Arc::new(AtomicU64::new(0));
            runtime.block_on(async { branch(2, &ran) });
            // ORDERING: Relaxed, `block_on` orders it.
            assert_eq!(ran.load(Ordering::Relaxed), 10 + 100);
            assert_eq!(inner.wait(), 6);
        }
    });
}

/// Ten children, tasks and jobs in turn, with as many below each.
fn branch(levels: u32, ran: &Arc<AtomicU64>) {
    let child = |ran: Arc<AtomicU64>| {
        move || {
            // ORDERING: Relaxed, `block_on` orders it.
            ran.fetch_add(1, Ordering::Relaxed);
            if levels > 1 {
                branch(levels - 1, &ran);
            }
        }
    };
    for _ in 0..5 {
        let (task, job) = (child(Arc::clone(ran)), child(Arc::clone(ran)));
        drop(filch::spawn(async move { task() }));
        drop(filch::spawn_fn(job));
    }
}
