//! Loom models of jobs that wait for others (T10, T11).

use loom::sync::Mutex;

use super::*;

/// A job that waits is woken, and claimed by its handle as soon as that may: until its entry is pushed its group is there (T10).
#[test]
fn loom_wake_of_a_waiting_job_vs_claim() {
    loom::model(|| {
        let state = Arc::new(State::new(State::waiting(Priority::Normal, 0)));
        // What the task's unit keeps: its group and its runtime.
        let kept = Arc::new(AtomicUsize::new(1));
        let waker = {
            let (state, kept) = (state.clone(), kept.clone());
            thread::spawn(move || {
                assert_eq!(state.wake(), Wake::Schedule);
                assert_eq!(kept.load(Ordering::Relaxed), 1, "T10");
                state.may_be_claimed();
            })
        };
        // Not a load first: the checker would see no reason to let the other thread begin.
        state.add_ref();
        let claimed = state.claim().is_some();
        if claimed {
            assert!(!state.finish().expect("the handle lives").last);
            kept.store(0, Ordering::Relaxed);
        }
        waker.join().unwrap();
        match state.start() {
            Start::Tombstone => assert!(claimed),
            start => assert_eq!((start, claimed), (Start::Run, false)),
        }
    });
}

/// A job that waits, and what its group knows of it, as `waker` and `group` deal with them.
struct Dependent {
    state: State,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    /// Whether the job is on the list of those who help.
    listed: bool,
    cancelled: bool,
}

impl Dependent {
    fn new() -> Arc<Self> {
        let state = State::new(State::waiting(Priority::Normal, 0));
        Arc::new(Self { state, members: Mutex::default() })
    }

    /// `queue_waiting`. Nobody takes the entry.
    fn queue(&self) {
        let mut members = self.members.lock().unwrap();
        members.listed = true;
        let cancelled = members.cancelled;
        drop(members);
        if cancelled {
            self.cancel_queued();
        }
        self.state.may_be_claimed();
    }

    /// `begin_task`, on a thread that may be stopped anywhere.
    fn begin(this: &Arc<Self>) -> thread::JoinHandle<()> {
        let this = this.clone();
        thread::spawn(move || {
            if this.state.wake() == Wake::Schedule {
                this.queue();
            }
        })
    }

    fn cancel_task(&self) {
        match self.state.cancel() {
            Wake::Schedule => self.queue(),
            Wake::Nothing => _ = self.state.let_push(),
        }
    }

    fn cancel_queued(&self) {
        assert_eq!(self.state.cancel(), Wake::Nothing);
    }

    /// `Group::cancel`.
    fn cancel_group(&self) {
        let mut members = self.members.lock().unwrap();
        members.cancelled = true;
        if members.listed {
            self.cancel_queued();
        }
        drop(members);
        self.cancel_task();
    }

    /// What a thread that waits for the group finds.
    fn help(&self) -> Option<Start> {
        let listed = std::mem::take(&mut self.members.lock().unwrap().listed);
        if listed { self.state.claim() } else { None }
    }
}

/// A job is cancelled and then claimed by its handle, while another thread queues it. Nobody may be there to take its entry.
#[test]
fn loom_claim_of_what_was_cancelled_never_fails() {
    loom::model(|| {
        let state = Arc::new(State::new(State::waiting(Priority::Normal, 0)));
        let queue = |state: &State, asked| {
            if asked == Wake::Schedule {
                state.may_be_claimed();
            }
        };
        let waker = {
            let state = state.clone();
            thread::spawn(move || queue(&state, state.wake()))
        };
        queue(&state, state.cancel());
        assert_eq!(state.claim(), Some(Start::Cancelled), "T11");
        waker.join().unwrap();
    });
}

/// As above, by its handle and then by who waits for its group.
#[test]
fn loom_who_helps_finds_what_was_cancelled() {
    loom::model(|| {
        let job = Dependent::new();
        let begun = Dependent::begin(&job);
        job.cancel_task();
        assert_eq!(job.help(), Some(Start::Cancelled), "T11");
        begun.join().unwrap();
    });
}

/// As above, by its group and then by who waits for that.
#[test]
fn loom_who_helps_finds_what_was_cancelled_with_its_group() {
    loom::model(|| {
        let job = Dependent::new();
        let begun = Dependent::begin(&job);
        job.cancel_group();
        assert_eq!(job.help(), Some(Start::Cancelled), "T11");
        begun.join().unwrap();
    });
}

/// Who helps takes a job off the list before it may be claimed: it is claimed all the same, since nobody else finds it any more.
#[test]
fn loom_what_is_taken_off_the_list_is_claimed() {
    loom::model(|| {
        let job = Dependent::new();
        let begun = Dependent::begin(&job);
        let early = job.help();
        begun.join().unwrap();
        let late = job.help();
        assert!(early.is_some() ^ late.is_some(), "{early:?} {late:?}");
    });
}

/// A worker has the entry before it may be claimed: one of the two has the body.
#[test]
fn loom_claim_of_a_waiting_job_vs_a_worker() {
    bounded(3, || {
        let state = Arc::new(State::new(State::waiting(Priority::Normal, 0)));
        let waker = {
            let state = state.clone();
            thread::spawn(move || {
                assert_eq!(state.wake(), Wake::Schedule);
                let entry = state.clone();
                let worker = thread::spawn(move || entry.start());
                state.may_be_claimed();
                worker.join().unwrap()
            })
        };
        state.add_ref();
        let claimed = state.claim().is_some();
        match waker.join().unwrap() {
            Start::Tombstone => assert!(claimed),
            start => assert_eq!((start, claimed), (Start::Run, false)),
        }
    });
}
