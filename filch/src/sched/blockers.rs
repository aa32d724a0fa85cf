//! Threads for closures that block.
//!
//! They are apart from the lanes: a worker that blocks is replaced (`crew`), but spares are few and
//! meant for what a task waits for; a closure that is known to block does not cost one.
//!
//! Q1. A thread is busy, or idle and in the list, or gone; `threads` counts the first two.
//! Q2. After a push there is an unpark, a new thread, or as many busy threads as there may be, each of
//!     which looks at the queue before it idles. So the queue is served, first in, first out.
//! Q3. A thread that was taken off the idle list looks at the queue again before it goes.
//! Q4. No thread exists before the first push. One that cannot start leaves the queue to the others;
//!     if there are none, what is queued is dropped, and its handle says why: better than one that waits for ever.
//! Q5. A thread sees under the lock that the runtime has stopped, before it idles.
//!
//! Not here: a place in the idle set, a deque, thread hooks. These threads are no workers.

use std::collections::VecDeque;
use std::sync::Arc;

use super::shared::{Phase, Shared, lock};
use crate::base::parker::Parker;
use crate::base::process;
use crate::base::shim::Mutex;
use crate::base::sim;
use crate::base::thread::NO_THREAD;
use crate::error::BuildError;
use crate::task::body::NeverRan;
use crate::task::header::RawTask;
use crate::task::state::Start;

pub(crate) struct Blockers(Mutex<Inner>);

struct Inner {
    queue: VecDeque<Entry>,
    /// The last to come is the first to go on, so that the others may end.
    idle: Vec<(usize, Arc<Parker>)>,
    /// Q1.
    threads: usize,
    /// Numbers of threads that are gone, for names.
    numbers: Vec<usize>,
    next_number: usize,
}

/// The entry of a task (T3).
struct Entry(RawTask);

// SAFETY: a task cell is reached from any thread by design; a blocking body is `Send`.
unsafe impl Send for Entry {}

/// Who serves a push (Q2).
#[must_use]
enum Call {
    Idle(Arc<Parker>),
    Start(usize),
    /// All threads are busy.
    Nobody,
}

/// What a thread does next.
#[must_use]
enum Next {
    Run(RawTask),
    Idle,
    Go,
}

/// The threads for closures that block, at a moment; see [`Snapshot`](crate::Snapshot).
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// assert_eq!(runtime.snapshot().blocking.threads, 0); // none before the first use
/// runtime.spawn_blocking(|| ()).wait();
/// assert_eq!(runtime.snapshot().blocking.threads, 1);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingSnapshot {
    /// Threads that exist.
    pub threads: usize,
    /// Of those, threads without a closure.
    pub idle: usize,
    /// Closures that wait for a thread.
    pub queued: usize,
}

impl Blockers {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner {
            queue: VecDeque::new(),
            idle: Vec::new(),
            threads: 0,
            numbers: Vec::new(),
            next_number: 0,
        }))
    }

    pub(crate) fn snapshot(&self) -> BlockingSnapshot {
        let inner = lock(&self.0);
        BlockingSnapshot {
            threads: inner.threads,
            idle: inner.idle.len(),
            queued: inner.queue.len(),
        }
    }

    /// Unparks all that idle, to see a new phase.
    pub(crate) fn wake_all(&self) {
        let idle: Vec<_> = lock(&self.0).idle.iter().map(|(_, parker)| parker.clone()).collect();
        // Past the lock: a simulation may switch here.
        idle.iter().for_each(|parker| parker.unpark());
    }

    fn push(&self, task: RawTask, most: usize) -> Call {
        let mut inner = lock(&self.0);
        inner.queue.push_back(Entry(task));
        if let Some((_, parker)) = inner.idle.pop() {
            return Call::Idle(parker);
        }
        if inner.threads >= most {
            return Call::Nobody;
        }
        inner.threads += 1;
        Call::Start(inner.number())
    }

    /// What the thread `number` does next; if it is to idle, it is in the list (Q2, Q5).
    fn next(&self, shared: &Shared, number: usize, parker: &Arc<Parker>) -> Next {
        let mut inner = lock(&self.0);
        if let Some(Entry(task)) = inner.queue.pop_front() {
            return Next::Run(task);
        }
        if shared.phase() == Phase::Stopped {
            inner.leave(number);
            return Next::Go;
        }
        inner.idle.push((number, parker.clone()));
        Next::Idle
    }

    /// Takes the thread `number` off the list, for good; false if somebody has called it (Q3).
    fn retire(&self, number: usize) -> bool {
        let mut inner = lock(&self.0);
        let Some(at) = inner.idle.iter().position(|(idle, _)| *idle == number) else {
            return false;
        };
        inner.idle.remove(at);
        inner.leave(number);
        true
    }

    fn was_called(&self, number: usize) -> bool {
        !lock(&self.0).idle.iter().any(|(idle, _)| *idle == number)
    }

    /// The thread `number` could not start; returns what nobody is left to run (Q4).
    fn failed(&self, number: usize) -> VecDeque<Entry> {
        let mut inner = lock(&self.0);
        inner.leave(number);
        match inner.threads {
            0 => std::mem::take(&mut inner.queue),
            _ => VecDeque::new(),
        }
    }
}

impl Inner {
    /// A name's number, the lowest that was given back.
    fn number(&mut self) -> usize {
        let lowest = self.numbers.iter().enumerate().min_by_key(|(_, number)| **number);
        if let Some((at, _)) = lowest {
            return self.numbers.swap_remove(at);
        }
        self.next_number += 1;
        self.next_number - 1
    }

    fn leave(&mut self, number: usize) {
        self.threads -= 1;
        self.numbers.push(number);
    }
}

impl Shared {
    /// Queues a closure that blocks, and sees to a thread for it.
    pub(super) fn push_blocking(&self, task: RawTask) {
        match self.blockers.push(task, self.config.blocking_threads) {
            Call::Idle(parker) => parker.unpark(),
            Call::Start(number) => self.start_blocker(number),
            Call::Nobody => {}
        }
    }

    #[cold]
    fn start_blocker(&self, number: usize) {
        // SAFETY: the caller's `&self` keeps it alive.
        let shared = unsafe { Self::to_arc(self.root.home().shared.cast()) };
        let body = {
            let shared = shared.clone();
            move || {
                shared.slice_blocker();
                shared.serve_blocking(number);
            }
        };
        if let Err(error) = shared.start_thread(format!("block-{number}"), body) {
            if shared.phase() != Phase::Stopped {
                shared.refuse(error.to_string());
            }
            for Entry(task) in shared.blockers.failed(number) {
                shared.refuse_blocking(task, &error);
            }
        }
    }

    /// A thread's loop.
    fn serve_blocking(&self, number: usize) {
        let _entered = self.finder.enter();
        let parker = Arc::new(Parker::new());
        loop {
            match self.blockers.next(self, number, &parker) {
                Next::Run(task) => {
                    self.run_blocking(task);
                    if self.process().is_parent() {
                        // W3 of `forked`.
                        process::end_worker_of_parent();
                    }
                }
                Next::Idle if self.idles(number, &parker) => {}
                Next::Idle | Next::Go => return,
            }
        }
    }

    /// Waits for a call; false if none came in time and the thread goes.
    fn idles(&self, number: usize, parker: &Parker) -> bool {
        let keep_alive = self.config.blocking_keep_alive;
        let until = self.clock.now() + keep_alive;
        loop {
            if self.phase() != Phase::Stopped {
                sim::in_background(|| parker.park_timeout(keep_alive));
            }
            if self.blockers.was_called(number) {
                return true;
            }
            let goes = self.clock.now() >= until || self.phase() == Phase::Stopped;
            if goes && self.blockers.retire(number) {
                return false;
            }
        }
    }

    /// Calls or drops a closure whose entry is the caller's.
    fn run_blocking(&self, task: RawTask) {
        // SAFETY: T4, the entry keeps the cell alive.
        let header = unsafe { task.header() };
        let start = match header.state.start() {
            Start::Run | Start::Detached if self.phase() >= Phase::Aborting => Start::Cancelled,
            Start::Detached => {
                // SAFETY: `start` gave us the body, and no frame was entered for it.
                unsafe { self.adopt(header) };
                Start::Run
            }
            start @ (Start::Run | Start::Cancelled) => start,
            Start::Tombstone | Start::TombstoneLast => {
                unreachable!("a closure that blocks is not claimed")
            }
        };
        // SAFETY: `start` gave us the body.
        let _ = unsafe { task.execute(start, u32::MAX) };
    }

    /// Drops a closure that there is no thread for; its handle says why (Q4). The entry is the caller's.
    fn refuse_blocking(&self, task: RawTask, error: &BuildError) {
        // SAFETY: T4, the entry keeps the cell alive.
        let start = unsafe { task.header() }.state.start();
        if start == Start::Cancelled {
            // SAFETY: `start` gave us the body.
            let _ = unsafe { task.execute(start, u32::MAX) };
            return;
        }
        let errno = match error {
            BuildError::Thread { source, .. } => source.raw_os_error(),
            _ => None,
        };
        let reason = error.to_string();
        let why = NeverRan { errno: errno.or(Some(NO_THREAD)), reason };
        // SAFETY: `start` gave us the body, and no job is queued here.
        unsafe { task.refuse(why) };
    }
}
