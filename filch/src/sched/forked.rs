//! What a forked child may do with its parent's runtimes: nothing, and it hears so.
//!
//! The child has a copy of their memory, none of their threads, and the kernel's side of their descriptors in
//! common with the parent. So it must neither wait for them, nor lock what a thread of the parent may have
//! locked, nor change what the parent's kernel objects watch.
//!
//! W1. Whatever needs threads of the runtime panics before it takes a lock: a spawn, a wait, a `block_on`, a
//!     fork, a method of a handle, a poll of a group, a graph's run, a detach or a file. Other I/O ends with an error. The checks stand where a thread from outside
//!     enters, and not on the paths of workers.
//! W2. In the child, its thread is no worker any more (`in_child`), so it comes by those checks too. Nor does it
//!     become one again when a worker that was entered on top of another is left there (`Cover`).
//! W3. A task that called `fork` must not return to its worker's loop: it would run the parent's tasks a second
//!     time. The loop ends the process with a message.
//! W4. What is dropped or woken in the child is left as it is: wakers do nothing; runtimes, timers, operations
//!     and cells of tasks leak.
//! W5. Nothing here runs between `fork` and `exec` but `in_child`, which a child of `Command` may call, too.
//!
//! Not here: how a fork is noticed (`base/process.rs`).

use super::worker::Worker;
use crate::base::process;
use crate::task::context;

/// Has forks noticed from now on, once in a process.
pub(super) fn notice_forks() {
    #[cfg(all(unix, not(miri)))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        // SAFETY: `in_child` does what a signal handler may do.
        ONCE.call_once(|| unsafe { process::call_in_children(in_child) });
    }
}

/// Called in a child, before `fork` returns there. Writes to atomics and to thread-locals without destructors,
/// and nothing else (W5).
#[cfg_attr(any(not(unix), miri), expect(dead_code, reason = "nothing forks"))]
extern "C" fn in_child() {
    process::note_fork();
    let worker: *const Worker = context::forget_worker().cast();
    // SAFETY: X3 of `context`, it was this thread's worker when it called `fork`.
    if let Some(worker) = unsafe { worker.as_ref() } {
        worker.stop_in_child();
    }
}

impl Worker {
    /// W3: this thread's task does not come back to the loop.
    fn stop_in_child(&self) {
        self.frame_end.set(Some(self.since.get()));
    }

    /// W3, for whoever sees that a frame has an end.
    #[cold]
    #[inline(never)]
    pub(super) fn end_in_child(&self) {
        if self.shared().process().is_parent() {
            process::end_worker_of_parent();
        }
    }
}
