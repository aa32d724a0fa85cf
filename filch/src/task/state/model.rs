//! Loom models of the state word: task state and handle claim.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

fn task() -> Arc<State> {
    Arc::new(State::new(State::initial(Priority::Normal, 0)))
}

/// A body that counts overlapping owners and sees what wakers wrote.
struct Body {
    owners: AtomicUsize,
    message: AtomicUsize,
}

impl Body {
    fn new() -> Arc<Self> {
        Arc::new(Self { owners: AtomicUsize::new(0), message: AtomicUsize::new(0) })
    }

    fn poll(&self) -> bool {
        assert_eq!(self.owners.fetch_add(1, Ordering::Relaxed), 0, "T2: two owners");
        let seen = self.message.load(Ordering::Relaxed) == 1;
        self.owners.fetch_sub(1, Ordering::Relaxed);
        seen
    }
}

/// A wake during the first poll is never lost: somebody polls after the message was written.
#[test]
fn loom_wake_vs_pause() {
    loom::model(|| {
        let (state, body) = (task(), Body::new());
        let waker = {
            let (state, body) = (state.clone(), body.clone());
            thread::spawn(move || {
                body.message.store(1, Ordering::Relaxed);
                match state.wake() {
                    Wake::Schedule => {
                        assert_eq!(state.start(), Start::Run);
                        let seen = body.poll();
                        assert_eq!(state.pause(), Pause::Idle);
                        seen
                    }
                    Wake::Nothing => false,
                }
            })
        };
        let mut seen;
        loop {
            assert_eq!(state.start(), Start::Run);
            seen = body.poll();
            match state.pause() {
                Pause::Requeue => continue,
                Pause::Idle => break,
                Pause::Cancelled => unreachable!(),
            }
        }
        let seen_there = waker.join().unwrap();
        assert!(seen | seen_there, "the wake was lost");
    });
}

/// Worker and claimer race for one job: one runs it, and the references come out even.
#[test]
fn loom_claim_vs_start() {
    loom::model(|| {
        let (state, body) = (task(), Body::new());
        let worker = {
            let (state, body) = (state.clone(), body.clone());
            thread::spawn(move || match state.start() {
                Start::Run => {
                    body.poll();
                    let end = state.finish().expect("the handle lives");
                    (1, usize::from(end.last))
                }
                Start::Tombstone => (0, 0),
                Start::TombstoneLast => (0, 1),
                Start::Detached | Start::Cancelled => unreachable!(),
            })
        };
        let mut ran = 0;
        if state.claim().is_some() {
            body.poll();
            let end = state.finish().expect("the handle lives");
            assert!(!end.last && !end.waiter);
            ran += 1;
        }
        let mut freed = 0;
        if state.is_done() {
            assert_eq!(state.drop_handle(), HandleDrop::Done);
            freed += usize::from(state.unref());
        }
        let (worker_ran, worker_freed) = worker.join().unwrap();
        if state.refs() != 0 {
            assert_eq!(state.drop_handle(), HandleDrop::Done);
            freed += usize::from(state.unref());
        }
        assert_eq!(ran + worker_ran, 1, "ran exactly once");
        assert_eq!(freed + worker_freed, 1, "freed exactly once");
    });
}

/// A waiter claims a job and puts it back while a worker takes its entry: there is one entry.
#[test]
fn loom_put_back_vs_start() {
    loom::model(|| {
        let (state, body) = (task(), Body::new());
        let worker = {
            let (state, body) = (state.clone(), body.clone());
            thread::spawn(move || match state.start() {
                Start::Run => {
                    body.poll();
                    assert!(!state.finish().expect("the handle lives").last);
                    true
                }
                Start::Tombstone => false,
                start => unreachable!("{start:?}"),
            })
        };
        let mut pushed = false;
        if state.claim().is_some() {
            body.poll();
            pushed = state.put_back() == PutBack::Push;
        }
        assert_eq!(worker.join().unwrap(), !pushed, "run once, or pushed again");
        assert_eq!(state.refs(), if pushed { 2 } else { 1 });
    });
}

/// Registering a waiter races with the end: either the finisher owns the waker or the handle
/// learns that the task is done.
#[test]
fn loom_waiter_vs_finish() {
    loom::model(|| {
        let state = task();
        let slot = Arc::new(AtomicUsize::new(0));
        let finisher = {
            let (state, slot) = (state.clone(), slot.clone());
            thread::spawn(move || {
                assert_eq!(state.start(), Start::Run);
                let end = state.finish().expect("the handle lives");
                if end.waiter {
                    assert_eq!(slot.swap(0, Ordering::Relaxed), 1, "T6: the waker is there");
                    let _ = state.unref();
                    return true;
                }
                false
            })
        };
        slot.store(1, Ordering::Relaxed);
        let registered = state.set_waiter();
        let woken = finisher.join().unwrap();
        assert_eq!(registered, woken, "a registered waiter is woken, another is told");
    });
}

/// The handle goes while the task ends: the output is dropped exactly once.
#[test]
fn loom_drop_handle_vs_finish() {
    loom::model(|| {
        let state = task();
        let drops = Arc::new(AtomicUsize::new(0));
        let finisher = {
            let (state, drops) = (state.clone(), drops.clone());
            thread::spawn(move || {
                assert_eq!(state.start(), Start::Run);
                let end = state.finish().unwrap_or_else(|| {
                    drops.fetch_add(1, Ordering::Relaxed);
                    state.finish_without_output()
                });
                usize::from(end.last)
            })
        };
        let mut freed = match state.drop_handle() {
            HandleDrop::Alive | HandleDrop::AliveWithWaiter => 0,
            HandleDrop::Done => {
                drops.fetch_add(1, Ordering::Relaxed);
                usize::from(state.unref())
            }
        };
        freed += finisher.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 1, "T5: one owner of the output");
        assert_eq!(freed, 1, "freed exactly once");
    });
}

/// Cancel against the end of a poll: the body is dropped by exactly one, and is not forgotten.
#[test]
fn loom_cancel_vs_pause() {
    loom::model(|| {
        let state = task();
        let canceller = {
            let state = state.clone();
            thread::spawn(move || match state.cancel() {
                Wake::Schedule => {
                    assert_eq!(state.start(), Start::Cancelled);
                    1
                }
                Wake::Nothing => 0,
            })
        };
        let mut dropped = 0;
        match state.start() {
            Start::Run => match state.pause() {
                Pause::Cancelled => dropped += 1,
                Pause::Idle => {}
                Pause::Requeue => unreachable!("cancel sets both bits at once"),
            },
            Start::Cancelled => dropped += 1,
            _ => unreachable!(),
        }
        dropped += canceller.join().unwrap();
        assert_eq!(dropped, 1, "the body is dropped exactly once");
    });
}

/// A claimed job is cancelled while it runs, and its entry is taken meanwhile: one owner, one end.
#[test]
fn loom_cancel_of_a_claimed_job_vs_its_tombstone() {
    loom::model(|| {
        let (state, body) = (task(), Body::new());
        assert_eq!(state.claim(), Some(Start::Run));
        let canceller = {
            let state = state.clone();
            thread::spawn(move || assert_eq!(state.cancel(), Wake::Nothing))
        };
        let worker = {
            let state = state.clone();
            thread::spawn(move || {
                let start = state.start();
                assert!(matches!(start, Start::Tombstone | Start::TombstoneLast), "{start:?}");
            })
        };
        body.poll();
        let _ = state.finish().expect("the handle lives");
        canceller.join().unwrap();
        worker.join().unwrap();
        assert_eq!(state.refs(), 1, "only the handle is left");
    });
}
