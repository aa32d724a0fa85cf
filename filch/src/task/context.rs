//! What the current thread is doing: the only thread-local with a value (the pool's has none, its
//! address stands for the thread).
//!
//! X1. `group` and `task` are set only around a run (a [`Frame`]) and restored when it ends, also
//!     by a panic, so a task that migrates takes nothing with it and leaves nothing behind.
//! X2. Whoever sets `group` holds a unit or a reference of it for as long as it is set.
//! X3. `worker` and `cache` are set by a worker for the life of its loop, on its own thread.
//! X4. `outer` lists the runtimes that a frame of another runtime hides, so that a runtime that is
//!     about to wait for its tasks can tell that it would wait for its own caller.
//!
//! X5. While `deque` is set, the thread owns it, a unit of the current group is held by the task or
//!     call that runs here, and group and deque belong to one runtime.
//!
//! X6. `below` is set only around the body of a `block_on` or a `scope`, and restored when it ends. The
//!     task is further down on this stack, so it is there.
//!
//! Not here: what a worker is (`sched`); it is kept as an untyped pointer so that this file
//! stays below it.

use std::cell::Cell;
use std::ptr;

use super::count::Ledger;
use super::group::Group;
use super::header::{Header, TaskId};
use crate::base::shim::{AtomicU64, AtomicUsize, Ordering};
use crate::base::sim;
use crate::idle::Idle;
use crate::pool::Cache;
use crate::queue::deque::Deque;

/// Ids handed to a thread at once, so that spawning does not fight for one counter. Guessed.
const ID_BLOCK: u64 = 1024;

pub(crate) struct Context {
    /// sched's `Worker` of this thread, or null.
    pub(crate) worker: Cell<*const ()>,
    /// The worker's own memory of task cells, or null.
    pub(crate) cache: Cell<*const Cache>,
    /// Where a `join` forks: the deque of this thread's worker, or null if it has none or may not
    /// use it now (X5).
    pub(crate) deque: Cell<*const Deque<Header>>,
    /// The idle set of the lane of `deque`.
    pub(crate) idle: Cell<*const Idle>,
    /// The group that a spawn joins, or null outside of any structure.
    pub(crate) group: Cell<*const Group>,
    /// Runtimes of enclosing frames other than that of `group` (X4).
    outer: Cell<*const Outer>,
    /// How many `block_on` and `scope` the thread is inside of, their waits included, and waits of joins.
    pub(crate) waits: Cell<usize>,
    /// The task that runs on this thread, or null.
    pub(crate) task: Cell<*const Header>,
    /// While `task` is null: the task inside of whose `block_on` or `scope` this is, or null (X6).
    below: Cell<*const Header>,
    /// The job whose closure was called on this thread, and not only a forked part of it, or null: its
    /// purse is this thread's (`job`).
    pub(crate) purse: Cell<*const Header>,
    /// Operations left before the running task should let others go first.
    pub(crate) budget: Cell<u32>,
    /// Times that a spent budget refused somebody who polls with another waker than the task's (G3 of
    /// `budget`).
    pub(crate) refused: Cell<u32>,
    /// The running future asked to be queued again without being woken.
    pub(crate) yielded: Cell<bool>,
    /// Units of the running task's group (C4); used on worker threads only.
    pub(crate) ledger: Ledger,
    /// Units of the parent of the job that runs (`job`); used on worker threads only.
    pub(crate) tree: Ledger,
    number: Cell<usize>,
    next_id: Cell<u64>,
    last_id: Cell<u64>,
}

thread_local! {
    static CONTEXT: Context = const {
        Context {
            worker: Cell::new(ptr::null()),
            cache: Cell::new(ptr::null()),
            deque: Cell::new(ptr::null()),
            idle: Cell::new(ptr::null()),
            group: Cell::new(ptr::null()),
            outer: Cell::new(ptr::null()),
            waits: Cell::new(0),
            task: Cell::new(ptr::null()),
            below: Cell::new(ptr::null()),
            purse: Cell::new(ptr::null()),
            budget: Cell::new(u32::MAX),
            refused: Cell::new(0),
            yielded: Cell::new(false),
            ledger: Ledger::new(),
            tree: Ledger::new(),
            number: Cell::new(0),
            next_id: Cell::new(0),
            last_id: Cell::new(0),
        }
    };
}

/// Calls `f` with the thread's context.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Context) -> R) -> R {
    CONTEXT.with(f)
}

impl Context {
    /// A small number of this thread, for spreading over shards.
    pub(crate) fn number(&self) -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(1);
        if self.number.get() == 0 {
            // ORDERING: Relaxed, only uniqueness matters.
            let fresh = || THREADS.fetch_add(1, Ordering::Relaxed);
            self.number.set(sim::number().map_or_else(fresh, |number| number + 1));
        }
        self.number.get()
    }

    /// An id that no other task of the process has.
    #[inline]
    pub(crate) fn fresh_id(&self) -> TaskId {
        static IDS: AtomicU64 = AtomicU64::new(1);
        if self.next_id.get() == self.last_id.get() {
            // ORDERING: Relaxed, only uniqueness matters.
            let fresh = || IDS.fetch_add(ID_BLOCK, Ordering::Relaxed);
            let first = sim::take_ids(ID_BLOCK).unwrap_or_else(fresh);
            self.next_id.set(first);
            self.last_id.set(first + ID_BLOCK);
        }
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        TaskId(id)
    }
}

impl Context {
    /// Notes the current runtime if a frame for `group` would hide it (X4). Rare: a task runs at
    /// the bottom of a worker's stack, where nothing is hidden.
    ///
    /// # Safety
    /// X2 holds for `group` and for the current one.
    #[inline]
    unsafe fn hide(&self, group: *const Group) -> Option<Box<Outer>> {
        // SAFETY: by the caller's promise.
        let current = unsafe { self.group.get().as_ref() }?.home().shared;
        // SAFETY: by the caller's promise.
        if unsafe { &*group }.home().shared == current {
            return None;
        }
        let deque = self.deque.replace(ptr::null());
        let (next, idle) = (self.outer.get(), self.idle.get());
        let outer = Box::new(Outer { shared: current, next, deque, idle });
        self.outer.set(&*outer);
        Some(outer)
    }
}

/// A runtime that a frame of another one hides (X4).
struct Outer {
    shared: *const (),
    next: *const Outer,
    /// The deque of the hidden runtime's worker (X5), and its lane's idle set: what runs meanwhile
    /// may fork elsewhere, and that runtime be gone afterwards.
    deque: *const Deque<Header>,
    idle: *const Idle,
}

/// Calls user code that belongs to no task, and holds no unit of the current group: it may not
/// fork into the deque that is open (X5).
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let (deque, idle) = with(|cx| (cx.deque.replace(ptr::null()), cx.idle.get()));
    let value = f();
    with(|cx| {
        cx.deque.set(deque);
        cx.idle.set(idle);
    });
    value
}

/// Whether the thread is inside a task or a `block_on` of the runtime `shared`, however deep.
pub(crate) fn is_inside(shared: *const ()) -> bool {
    with(|cx| {
        // SAFETY: X2, whoever set it keeps the group.
        let innermost = unsafe { cx.group.get().as_ref() };
        if innermost.is_some_and(|group| group.home().shared == shared) {
            return true;
        }
        let mut outer = cx.outer.get();
        // SAFETY: X4, an entry lives as long as its frame, which is on this stack.
        while let Some(hidden) = unsafe { outer.as_ref() } {
            if hidden.shared == shared {
                return true;
            }
            outer = hidden.next;
        }
        false
    })
}

/// Whom what runs here belongs to: the task, or the one that waits for it in a `block_on` (X6). To be
/// compared, and not to be followed.
pub(crate) fn owner() -> *const Header {
    with(|cx| if cx.task.get().is_null() { cx.below.get() } else { cx.task.get() })
}

/// Sets whom a stretch without a task belongs to, until dropped (X6).
#[must_use]
pub(crate) struct Below(*const Header);

impl Below {
    /// To the owner of this stack, which is about to wait for it.
    pub(crate) fn here() -> Self {
        let owner = owner();
        Self(with(|cx| cx.below.replace(owner)))
    }

    /// To nobody on this stack.
    pub(crate) fn nobody() -> Self {
        Self(with(|cx| cx.below.replace(ptr::null())))
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        with(|cx| cx.below.set(self.0));
    }
}

/// Sets what the thread is doing until dropped (X1).
#[must_use]
pub(crate) struct Frame {
    group: *const Group,
    /// What this frame hides (X4).
    hides: Option<Box<Outer>>,
    task: *const Header,
    budget: u32,
    yielded: bool,
}

impl Frame {
    /// # Safety
    /// X2 holds for `group` and the cell of `task` stays alive until the frame is dropped, which
    /// happens on this thread and in stack order.
    pub(crate) unsafe fn enter(group: *const Group, task: *const Header, budget: u32) -> Self {
        with(|cx| Self {
            // SAFETY: X2, by the caller's promise and that of the enclosing frame.
            hides: unsafe { cx.hide(group) },
            group: cx.group.replace(group),
            task: cx.task.replace(task),
            budget: cx.budget.replace(budget),
            yielded: cx.yielded.replace(false),
        })
    }
}

impl Frame {
    /// A frame for a part of the running task that belongs to `group`: task and budget go on.
    ///
    /// # Safety
    /// As for [`Frame::enter`].
    pub(crate) unsafe fn inside(group: *const Group) -> Self {
        let (task, budget) = with(|cx| (cx.task.get(), cx.budget.get()));
        // SAFETY: by the caller's promise; the task is the one that runs.
        unsafe { Self::enter(group, task, budget) }
    }

    /// Ends a frame made by [`Frame::inside`]: what the part used of the budget is used, and if it
    /// yielded, the task did.
    pub(crate) fn merge(mut self) {
        with(|cx| {
            self.budget = cx.budget.get();
            self.yielded |= cx.yielded.get();
        });
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        with(|cx| {
            if let Some(hidden) = &self.hides {
                cx.outer.set(hidden.next);
                cx.deque.set(hidden.deque);
                cx.idle.set(hidden.idle);
            }
            cx.group.set(self.group);
            cx.task.set(self.task);
            cx.budget.set(self.budget);
            cx.yielded.set(self.yielded);
        });
    }
}
