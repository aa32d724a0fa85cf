//! Whether this process is the one in which something was made, or a child that was forked from it.
//!
//! A forked child has the memory of its parent and one thread, the caller of `fork`. The other threads of a
//! runtime are missing there, and locks that they held stay locked.
//!
//! R1. The handler that `pthread_atfork` calls in the child counts forks. It does what a signal handler may
//!     do and nothing else: the next thing that the child does may be `exec`.
//! R2. As long as nothing was forked, a check is one relaxed load of a word that nobody writes.
//!
//! Not here: what a runtime refuses in a child (`sched/forked.rs`, docs/adr/0040-fork.md).

#[cfg(not(loom))]
use crate::base::shim::{AtomicU32, Ordering};

/// How often a process was forked on the way from the one that registered the handler to this one. Written by
/// the handler, when the process has no other thread.
#[cfg(not(loom))]
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What a panic says that was caused by the use of a parent's runtime.
pub(crate) const FORKED: &str = "this process was forked; the runtime of the parent has no threads here: \
     build a new runtime in the child";

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The one that calls.
    pub(crate) fn this() -> Self {
        Self(forks())
    }

    /// Whether the caller is in a child that was forked from this process.
    #[inline(always)]
    pub(crate) fn is_parent(self) -> bool {
        forks() != 0 && self != Self::this()
    }

    /// Refuses the use of what belongs to the parent.
    ///
    /// # Panics
    /// In a child that was forked from this process.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check(self) {
        if self.is_parent() {
            refuse();
        }
    }
}

#[cold]
#[track_caller]
fn refuse() -> ! {
    panic!("{FORKED}");
}

#[cfg(not(loom))]
#[inline(always)]
fn forks() -> u32 {
    // ORDERING: Relaxed, the handler writes it before the child has a second thread.
    FORKS.load(Ordering::Relaxed)
}

/// A model does not fork.
#[cfg(loom)]
fn forks() -> u32 {
    0
}

/// Counts a fork: for the handler in the child (R1).
#[cfg(not(loom))]
pub(crate) fn note_fork() {
    // ORDERING: Relaxed, as in `forks`.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has `in_child` called in each child of this process, on its one thread, before `fork` returns there. Where
/// the system refuses, forks are not noticed.
///
/// # Safety
/// `in_child` does what a signal handler may do and nothing else (R1).
#[cfg(all(unix, not(any(loom, miri))))]
pub(crate) unsafe fn call_in_children(in_child: unsafe extern "C" fn()) {
    // SAFETY: by the caller's promise; the function lives as long as the program.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Whether this process or an ancestor of it was forked, ever.
#[inline(always)]
pub(crate) fn was_forked() -> bool {
    forks() != 0
}

/// Ends the process: its thread is one of the parent's workers, and has nothing left to run.
#[cfg(all(unix, not(loom)))]
pub(crate) fn end_worker_of_parent() -> ! {
    let text = [
        "\nfilch: a task called `fork` and has ended or waits in the child; ",
        FORKED,
        ", inside the task, and end the process there\n",
    ];
    for text in text {
        // Not by `eprintln`: a thread of the parent may have held its lock.
        // SAFETY: `text` has so many readable bytes.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // The status of a program whose main thread has panicked.
    // SAFETY: it takes an integer, and does not return.
    unsafe { libc::_exit(101) }
}

#[cfg(all(not(unix), not(loom)))]
pub(crate) fn end_worker_of_parent() -> ! {
    unreachable!("nothing forks here")
}
