//! Which thread runs which task: for reports that name a task that does not end.
//!
//! A thread of the runtime enters itself here when it starts. A report then asks each of them whether it is
//! inside of a given task. Nothing is written when a task begins or ends, so this costs the workers nothing.
//!
//! N1. An entry points into the context of a thread that is alive: the thread removes it, under the lock,
//!     before it ends. Whoever reads holds the lock.
//!
//! Not here: threads of the program that run a job because they wait for it. No report knows their names.
//! Of a job that runs another one while it waits for it, a report knows the thread only for the inner one.

use super::shared::{Shared, lock};
use crate::base::shim::Mutex;
use crate::task::context::{self, Doing};
use crate::task::header::RawTask;

/// The threads of a runtime that run tasks.
#[derive(Default)]
pub(crate) struct Runners(Mutex<Vec<Runner>>);

struct Runner {
    thread: std::thread::ThreadId,
    name: String,
    doing: Doing,
}

// SAFETY: `doing` is atomic words of a thread that is alive (N1), which any thread may read.
unsafe impl Send for Runner {}

/// The calling thread's entry, until dropped.
#[must_use]
pub(crate) struct Entered<'a> {
    runners: &'a Runners,
    /// An entry is removed on its own thread (N1).
    here: std::marker::PhantomData<*const ()>,
}

impl Runners {
    /// Enters the calling thread.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let here = std::thread::current();
        let runner = Runner {
            thread: here.id(),
            name: here.name().unwrap_or("unnamed").to_owned(),
            doing: context::with(|cx| cx.doing()),
        };
        lock(&self.0).push(runner);
        Entered { runners: self, here: std::marker::PhantomData }
    }

    /// The name of the thread that is inside of the task.
    pub(crate) fn thread_of(&self, task: RawTask) -> Option<String> {
        let runners = lock(&self.0);
        // SAFETY: N1, the lock is held.
        let inside = runners.iter().find(|runner| unsafe { runner.doing.is(task.0.as_ptr()) });
        inside.map(|runner| runner.name.clone())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let here = std::thread::current().id();
        let mut runners = lock(&self.runners.0);
        // Should a thread be entered twice, its entries say the same.
        if let Some(at) = runners.iter().position(|runner| runner.thread == here) {
            runners.swap_remove(at);
        }
    }
}

impl Shared {
    /// The name of the thread that is inside of the task, if it is one of ours.
    pub(super) fn thread_of(&self, task: RawTask) -> Option<String> {
        self.runners.thread_of(task)
    }
}
