//! Loom models of the state word: task state and handle claim.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

mod waiting;

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

/// Three threads on one word: all interleavings with so many preemptions at most.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The memory of a cell: used by whoever refers to it, freed by the last.
struct Memory {
    cell: loom::cell::UnsafeCell<()>,
    frees: AtomicUsize,
}

// SAFETY: the model checks that nobody frees it while another uses it.
unsafe impl Sync for Memory {}

/// A job with children, as far as the state word knows it.
#[derive(Clone)]
struct JobModel {
    state: Arc<State>,
    memory: Arc<Memory>,
    runs: Arc<AtomicUsize>,
}

impl JobModel {
    fn new(word: u64) -> Self {
        let cell = loom::cell::UnsafeCell::new(());
        let memory = Arc::new(Memory { cell, frees: AtomicUsize::new(0) });
        let runs = Arc::new(AtomicUsize::new(0));
        Self { state: Arc::new(State::new(word)), memory, runs }
    }

    fn fresh() -> Self {
        Self::new(State::fresh(0))
    }

    fn touch(&self) {
        self.memory.cell.with(|_| ());
    }

    /// The pool's part of the end (T1).
    fn free(&self) {
        self.memory.cell.with_mut(|_| ());
        self.memory.frees.fetch_add(1, Ordering::Relaxed);
        self.state.publish(0);
    }

    fn unref(&self) {
        self.touch();
        if self.state.unref() {
            self.free();
        }
    }

    /// A look of `Handle::tasks` or of a shutdown.
    fn walk(&self) {
        if self.state.try_pin() {
            self.touch();
            assert_eq!(self.state.cancel(), Wake::Nothing, "a job is queued, running or done");
            self.unref();
        }
    }

    /// `job::end`, of a job without children.
    fn run_and_end(&self) {
        self.touch();
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.state.is_alone() {
            if self.state.finish_without_output().last {
                self.free();
            }
        } else {
            self.state.finish_keeping();
            self.unref();
        }
    }

    /// An entry is taken out of a queue.
    fn take_entry(&self) {
        match self.state.start() {
            // Dropped instead of run is an end too.
            Start::Run | Start::Cancelled => self.run_and_end(),
            Start::Tombstone => {}
            Start::TombstoneLast => self.free(),
            Start::Detached => unreachable!(),
        }
    }

    /// `Job::run` without a parent; true if the entry is the caller's to push.
    fn launch(&self) -> bool {
        if self.state.is_fresh_alone() {
            assert!(self.state.launch_alone(Launch::Queued));
            return true;
        }
        let seized = self.state.seize(Launch::Queued);
        if seized {
            assert_eq!(self.state.put_back(), PutBack::Push);
        }
        seized
    }

    fn check(&self, runs: usize) {
        assert_eq!(self.runs.load(Ordering::Relaxed), runs, "runs");
        assert_eq!(self.memory.frees.load(Ordering::Relaxed), 1, "freed exactly once");
    }
}

/// One of two handles goes while the other runs the job, and a walk looks: plain stores lose nothing.
#[test]
fn loom_launch_vs_a_handle_that_goes_and_a_walk() {
    bounded(3, || {
        let job = JobModel::fresh();
        job.state.add_handle();
        let other = {
            let job = job.clone();
            thread::spawn(move || job.unref())
        };
        let walker = {
            let job = job.clone();
            thread::spawn(move || job.walk())
        };
        assert!(job.launch());
        job.take_entry();
        other.join().unwrap();
        walker.join().unwrap();
        job.check(1);
    });
}

/// A job is launched alone; a thief has its entry as soon as it is pushed, and a walk looks.
#[test]
fn loom_launch_alone_vs_thief_and_walk() {
    bounded(3, || {
        let job = JobModel::fresh();
        let pushed = Arc::new(AtomicUsize::new(0));
        let thief = {
            let (job, pushed) = (job.clone(), pushed.clone());
            thread::spawn(move || {
                let got = pushed.load(Ordering::Acquire) == 1;
                if got {
                    job.take_entry();
                }
                got
            })
        };
        let walker = {
            let job = job.clone();
            thread::spawn(move || job.walk())
        };
        assert!(job.launch());
        pushed.store(1, Ordering::Release);
        if !thief.join().unwrap() {
            job.take_entry();
        }
        walker.join().unwrap();
        job.check(1);
    });
}

/// Two handles run one job: one wins, the other waits for it, by claiming it if it can.
#[test]
fn loom_seize_vs_seize_and_claim() {
    loom::model(|| {
        let job = JobModel::fresh();
        job.state.add_handle();
        let race = |job: &JobModel| {
            if job.launch() {
                // The handle is now the life reference, and the entry is taken at once.
                job.take_entry();
                return 1;
            }
            if job.state.claim().is_some() {
                job.run_and_end();
            }
            job.unref();
            0
        };
        let other = {
            let job = job.clone();
            thread::spawn(move || race(&job))
        };
        let wins = race(&job) + other.join().unwrap();
        assert_eq!(wins, 1, "run by exactly one");
        job.check(1);
    });
}

/// A job is called in place; its closure gives a handle to another thread, and a walk looks.
#[test]
fn loom_call_alone_vs_a_handle_from_inside_and_a_walk() {
    bounded(2, || {
        let job = JobModel::fresh();
        let walker = {
            let job = job.clone();
            thread::spawn(move || job.walk())
        };
        assert!(job.state.call_alone());
        job.runs.fetch_add(1, Ordering::Relaxed);
        job.state.add_handle();
        let other = {
            let job = job.clone();
            thread::spawn(move || {
                assert!(!job.state.is_fresh() && !job.state.seize(Launch::Queued));
                assert!(job.state.claim().is_none());
                job.unref();
            })
        };
        if job.state.is_alone() {
            job.free();
        } else {
            job.state.end_call(Launch::Here);
            assert!(job.state.is_kept(), "the caller's own handle");
            job.unref();
            job.unref();
        }
        other.join().unwrap();
        walker.join().unwrap();
        job.check(1);
    });
}

/// As above, of a hidden job that a waiter has taken out of its deque.
#[test]
fn loom_call_hidden_vs_a_handle_from_inside_and_a_walk() {
    bounded(3, || {
        let job = JobModel::new(State::unowned(Sight::Hidden, 0));
        let walker = {
            let job = job.clone();
            thread::spawn(move || job.walk())
        };
        assert!(job.state.call_hidden());
        job.runs.fetch_add(1, Ordering::Relaxed);
        job.state.add_handle();
        let other = {
            let job = job.clone();
            thread::spawn(move || job.unref())
        };
        if job.state.is_alone() {
            job.free();
        } else {
            job.state.end_call(Launch::Queued);
            job.unref();
        }
        other.join().unwrap();
        walker.join().unwrap();
        job.check(1);
    });
}

/// A thief starts a hidden job, which ends while two walks look: neither keeps its panic (T9).
#[test]
fn loom_start_hidden_vs_walks() {
    bounded(3, || {
        let job = JobModel::new(State::unowned(Sight::Hidden, 0));
        let walkers = [0, 1].map(|_| {
            let job = job.clone();
            thread::spawn(move || job.walk())
        });
        assert_eq!(job.state.start(), Start::Run);
        assert!(!job.state.is_kept(), "a walk is nobody who waits");
        job.run_and_end();
        for walker in walkers {
            walker.join().unwrap();
        }
        job.check(1);
    });
}

/// The job of a list is claimed through it while a worker takes the tombstone: the tree's reference
/// and the tombstone's come out even.
#[test]
fn loom_finish_keeping_vs_its_tombstone() {
    loom::model(|| {
        let job = JobModel::new(State::unowned(Sight::Visible, 0));
        job.state.add_ref();
        let worker = {
            let job = job.clone();
            thread::spawn(move || job.take_entry())
        };
        if job.state.claim().is_some() {
            assert!(!job.state.is_kept(), "a list is nobody who waits");
            job.run_and_end();
        }
        job.unref();
        worker.join().unwrap();
        job.check(1);
    });
}

/// Two handles run a child: the parent's cell, which only the fresh child keeps, is used by the one
/// who has reserved the child.
#[test]
fn loom_reserve_vs_reserve() {
    loom::model(|| {
        let (parent, child) = (JobModel::fresh(), JobModel::fresh());
        child.state.add_handle();
        let launch = |child: &JobModel, parent: &JobModel| {
            let alone = child.state.is_fresh_alone();
            if !alone && !child.state.reserve() {
                child.unref();
                return;
            }
            parent.touch();
            assert!(child.launch());
            child.take_entry();
            parent.unref();
        };
        let other = {
            let (child, parent) = (child.clone(), parent.clone());
            thread::spawn(move || launch(&child, &parent))
        };
        launch(&child, &parent);
        other.join().unwrap();
        child.check(1);
        parent.check(0);
    });
}

/// A parent has ended, so that its child is refused, through two handles: it stays fresh, and each may
/// try.
#[test]
fn loom_unreserve_leaves_the_job_fresh() {
    loom::model(|| {
        let job = JobModel::fresh();
        job.state.add_handle();
        let refused = |job: &JobModel| {
            if !job.state.is_fresh_alone() && job.state.reserve() {
                assert!(job.state.is_fresh());
                job.state.unreserve();
            }
            job.unref();
        };
        let other = {
            let job = job.clone();
            thread::spawn(move || refused(&job))
        };
        refused(&job);
        other.join().unwrap();
        job.check(0);
    });
}

/// The last handle of a job that was never run goes while its child, which was, ends: the later of the
/// two frees the cell.
#[test]
fn loom_outlive_vs_the_child_and_a_walk() {
    use crate::task::count::Count;
    loom::model(|| {
        let job = JobModel::fresh();
        let count = Arc::new(Count::new());
        count.add(1);
        let child = {
            let (job, count) = (job.clone(), count.clone());
            thread::spawn(move || {
                job.touch();
                if count.sub(1) {
                    job.unref();
                }
            })
        };
        let walker = {
            let job = job.clone();
            thread::spawn(move || job.walk())
        };
        assert!(job.state.unref() && job.state.is_fresh());
        if count.is_only(1) {
            job.free();
        } else {
            job.state.outlive();
            if count.sub(1) {
                job.unref();
            }
        }
        child.join().unwrap();
        walker.join().unwrap();
        job.check(0);
    });
}
