//! Units that a worker holds back reach their group before the worker rests.

use std::future::Future;
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

/// A scope whose last member ends inside a wait of a task of another scope, which then waits until
/// the scope is over. `wait` runs that member; it is called by the outer task.
fn ends_inside_a_wait_of_another_group<W: Send + 'static>(
    member: impl FnOnce() -> W + Send,
    wait: impl FnOnce(W) + Send,
) {
    let runtime = filch::Builder::new().io_workers(1).compute_workers(1).build().unwrap();
    let (over, is_over) = mpsc::channel();
    runtime.block_on_fn(|| {
        filch::scope(|outer| {
            filch::scope(|inner| {
                inner.spawn(move |_| {
                    let awaited = member();
                    outer.spawn(move |_| {
                        wait(awaited);
                        is_over.recv().expect("the scope ends first");
                    });
                });
            });
            over.send(()).expect("the outer task waits for it");
        });
    });
}

#[test]
fn scope_ends_although_its_last_job_was_run_by_a_waiter_of_another_group() {
    must_end(|| {
        let member = || {
            let job = filch::Job::new(|_| {});
            let handle = job.clone();
            job.run();
            handle
        };
        ends_inside_a_wait_of_another_group(member, |job| job.wait());
    });
}

#[test]
fn scope_ends_although_its_last_closure_was_claimed_by_a_waiter_of_another_group() {
    must_end(|| {
        let member = || filch::spawn_fn(|| filch::Job::new(|_| {}).run_and_wait());
        ends_inside_a_wait_of_another_group(member, |handle| handle.wait());
    });
}

/// An adopted thread claims a job that opens its ledger, and then goes on outside of any task.
fn adopted_thread_waits(wait: fn(filch::JoinHandle<()>)) {
    must_end(move || {
        let builder = filch::Builder::new().io_workers(1).compute_workers(1);
        let runtime = builder.adoptable_threads(1).build().unwrap();
        let (handle, (waited, has_waited)) = (runtime.handle(), mpsc::channel());
        let (ended, has_ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let adopted = handle.adopt().unwrap();
            // The only compute worker is busy, so that this thread claims what it waits for.
            let ((busy, is_busy), (go, may_go)) = (mpsc::channel(), mpsc::channel::<()>());
            drop(filch::spawn_fn(move || {
                busy.send(()).unwrap();
                let _ = may_go.recv();
            }));
            is_busy.recv().unwrap();
            wait(filch::spawn_fn(|| filch::Job::new(|_| {}).run_and_wait()));
            drop(go);
            waited.send(()).unwrap();
            let _ = has_ended.recv();
            drop(adopted);
        });
        has_waited.recv().unwrap();
        let _ = runtime.shutdown(filch::Shutdown::Drain);
        drop(ended);
        thread.join().unwrap();
    });
}

#[test]
fn adopted_thread_between_two_calls_holds_back_no_unit() {
    adopted_thread_waits(|handle| handle.wait());
}

#[test]
fn adopted_thread_after_a_join_holds_back_no_unit() {
    adopted_thread_waits(|handle| _ = filch::join(|| handle.wait(), || ()));
}

#[test]
fn worker_that_waited_for_another_runtime_holds_back_no_unit_of_it() {
    must_end(|| {
        let small = || filch::Builder::new().io_workers(1).compute_workers(1).build().unwrap();
        let (one, two) = (small(), small());
        // The only compute worker is busy, so that the waiter claims what it waits for.
        let ((busy, is_busy), (go, may_go)) = (mpsc::channel(), mpsc::channel::<()>());
        drop(two.spawn_fn(move || {
            busy.send(()).unwrap();
            let _ = may_go.recv();
        }));
        is_busy.recv().unwrap();
        let awaited = two.spawn_fn(|| filch::Job::new(|_| {}).run_and_wait());
        let ((waited, has_waited), (ended, has_ended)) = (mpsc::channel(), mpsc::channel::<()>());
        let waiter = one.spawn_fn(move || {
            awaited.wait();
            waited.send(()).unwrap();
            let _ = has_ended.recv();
        });
        has_waited.recv().unwrap();
        drop(go);
        let _ = two.shutdown(filch::Shutdown::Drain);
        drop(ended);
        waiter.wait();
    });
}

/// A waker that works for another group on the thread that calls it.
struct Busy(filch::Handle);

impl std::task::Wake for Busy {
    fn wake(self: Arc<Self>) {
        self.0.spawn_fn(|| filch::Job::new(|_| {}).run_and_wait()).wait();
    }
}

#[test]
fn units_that_a_waker_leaves_behind_are_not_those_of_the_next_task() {
    must_end(|| {
        let runtime = filch::Builder::new().io_workers(1).compute_workers(1).build().unwrap();
        let handle = runtime.handle();
        runtime.block_on_fn(move || {
            let ((gate, gated), (started, is_started)) = (mpsc::channel::<()>(), mpsc::channel());
            let mut group = Box::pin(filch::group(async move |_: filch::Group<()>| {
                drop(filch::spawn_fn(move || {
                    started.send(()).unwrap();
                    gated.recv().unwrap();
                }));
                Ok(())
            }));
            let waker = std::task::Waker::from(Arc::new(Busy(handle)));
            let mut cx = std::task::Context::from_waker(&waker);
            assert!(group.as_mut().poll(&mut cx).is_pending());
            is_started.recv().unwrap();
            drop(filch::spawn_fn(|| ()));
            gate.send(()).unwrap();
            // Its end calls the waker, on the worker that runs the next task.
            std::mem::forget(group);
        });
        let _ = runtime.shutdown(filch::Shutdown::Drain);
    });
}
