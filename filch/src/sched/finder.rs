//! Which thread runs which task: for reports that name a task that does not end.
//!
//! A thread of the runtime enters itself here when it starts. A report then asks each of them whether it is
//! inside of a given task. Nothing is written when a task begins or ends, so this costs the workers nothing.
//!
//! N1. An entry points into the context of a thread that is alive: the thread removes it, under the lock,
//!     before it ends. Whoever reads holds the lock. A guard that removes an entry lies on the thread's own stack, so
//!     it cannot be forgotten.
//!
//! Not here: threads of the program that run a job because they wait for it. No report knows their names.
//! Of a job that runs another one while it waits for it, a report knows the thread only for the inner one.

use std::marker::PhantomData;
use std::thread::{self, ThreadId};

use super::shared::lock;
use crate::base::shim::Mutex;
use crate::task::context::{self, Doing};
use crate::task::header::RawTask;

/// The threads of a runtime that run tasks.
#[derive(Default)]
pub(crate) struct Finder(Mutex<Vec<Entry>>);

struct Entry {
    thread: ThreadId,
    name: String,
    doing: Doing,
}

// SAFETY: `doing` is atomic words of a thread that is alive (N1), which any thread may read.
unsafe impl Send for Entry {}

/// Evidence that the calling thread is entered, until dropped.
#[must_use]
pub(crate) struct Entered<'a> {
    finder: &'a Finder,
    /// N1.
    here: PhantomData<*const ()>,
}

impl Finder {
    /// Enters the calling thread.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let here = thread::current();
        let name = here.name().unwrap_or("unnamed").to_owned();
        let doing = context::with(|cx| cx.doing());
        lock(&self.0).push(Entry { thread: here.id(), name, doing });
        Entered { finder: self, here: PhantomData }
    }

    /// The name of the thread that is inside of the task, if it is one of ours.
    pub(crate) fn thread_of(&self, task: RawTask) -> Option<String> {
        let entries = lock(&self.0);
        // SAFETY: N1, the lock is held.
        let inside = entries.iter().find(|entry| unsafe { entry.doing.is(task.0.as_ptr()) });
        inside.map(|entry| entry.name.clone())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let here = thread::current().id();
        let mut entries = lock(&self.finder.0);
        // Should a thread be entered twice, its entries say the same.
        if let Some(at) = entries.iter().position(|entry| entry.thread == here) {
            entries.swap_remove(at);
        }
    }
}
