//! What the current thread is doing: the only thread-local with a value (the pool's has none, its
//! address stands for the thread).
//!
//! X1. `group` and `task` are set only around a run (a [`Frame`]) and restored when it ends, also
//!     by a panic, so a task that migrates takes nothing with it and leaves nothing behind.
//! X2. Whoever sets `group` holds a unit or a reference of it for as long as it is set.
//! X3. `worker` and `cache` belong to the worker on top of this thread. A [`Cover`] puts one there and, when it
//!     ends, restores the one below. That one is still there: it lies further down this stack, or it is that of
//!     an adoption (X7).
//! X4. `outer` lists the runtimes that a frame of another runtime hides, so that a runtime that is
//!     about to wait for its tasks can tell that it would wait for its own caller.
//!
//! X5. While `deque` is set, it is that of `worker`, a unit of the current group is held by the task or
//!     call that runs here, and group and deque belong to one runtime.
//!
//! X6. `below` is set only around the body of a `block_on` or a `scope`, and restored when it ends. The
//!     task is further down on this stack, so it is there.
//!
//! X7. The worker of an adoption is freed only while it is on top and nothing of the library that could use it is on
//!     this stack: no frame (`group`), no wait (`waits`), no user code that the library has called (`calls`).
//!     If its guard goes earlier, the adoption waits in `left`.
//! X8. `task` and `below` are read by other threads too, for reports (`sched/finder`), so they are atomic words.
//!     Only their own thread writes them. Others compare what they read, and do not follow it.
//! X9. `unserved` is what the last poll of this thread's `block_on` awaited although nobody runs its hive. A handle that is pending
//!     sets it, and asks for that only while there are such hives; the `block_on` clears it before each poll. So it is a hint.
//!
//! The [README](README.md) beside this file lists each pointer that is saved across user code.
//!
//! Not here: what a worker is (`sched`); it is kept as an untyped pointer so that this file
//! stays below it.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::ptr;

use super::count::Ledger;
use super::group::Group;
use super::header::{Header, TaskId};
use crate::base::process::Process;
use crate::base::shim::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
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
    /// Calls of user code that belongs to no task, from inside of the library (X7).
    calls: Cell<usize>,
    /// sched's adoption whose guard went too early (X7), or null.
    pub(crate) left: Cell<*mut ()>,
    /// The task that runs on this thread, or null.
    pub(crate) task: Shown,
    /// While `task` is null: the task inside of whose `block_on` or `scope` this is, or null (X6).
    below: Shown,
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
    /// X9.
    pub(crate) unserved: Cell<Option<Unserved>>,
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
            calls: Cell::new(0),
            left: Cell::new(ptr::null_mut()),
            task: Shown::new(),
            below: Shown::new(),
            purse: Cell::new(ptr::null()),
            budget: Cell::new(u32::MAX),
            refused: Cell::new(0),
            yielded: Cell::new(false),
            unserved: Cell::new(None),
            ledger: Ledger::new(),
            tree: Ledger::new(),
            number: Cell::new(0),
            next_id: Cell::new(0),
            last_id: Cell::new(0),
        }
    };
}

/// What is awaited although nobody runs its hive (X9), as a message names it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unserved {
    Task(TaskId, &'static Location<'static>),
    /// Of a graph.
    Run,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(id, site) => write!(f, "task {id} spawned at {site}"),
            Self::Run => f.write_str("a run of a graph"),
        }
    }
}

/// A cell of one thread that others may look into (X8). It costs what a `Cell` costs.
pub(crate) struct Shown(AtomicPtr<Header>);

impl Shown {
    const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> *const Header {
        // ORDERING: Relaxed, its own thread sees what it wrote, and others only compare addresses.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, task: *const Header) {
        // ORDERING: Relaxed, as in `get`.
        self.0.store(task.cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn replace(&self, task: *const Header) -> *const Header {
        let before = self.get();
        self.set(task);
        before
    }
}

/// What a thread says that it runs, for as long as the thread lives: see [`Context::doing`].
#[derive(Clone, Copy)]
pub(crate) struct Doing {
    task: ptr::NonNull<Shown>,
    below: ptr::NonNull<Shown>,
}

impl Doing {
    /// Whether the thread is inside of this task: it runs it, or waits in its `block_on` or `scope`.
    ///
    /// # Safety
    /// The thread whose context this came from has not ended.
    pub(crate) unsafe fn is(self, task: *const Header) -> bool {
        // SAFETY: a thread's context stays where it is until the thread ends, by the caller's promise.
        let runs = unsafe { self.task.as_ref() };
        // SAFETY: as above.
        let below = unsafe { self.below.as_ref() };
        runs.get() == task || below.get() == task
    }
}

/// Calls `f` with the thread's context.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Context) -> R) -> R {
    CONTEXT.with(f)
}

impl Context {
    /// What this thread runs, to be asked by others (X8).
    pub(crate) fn doing(&self) -> Doing {
        Doing { task: (&self.task).into(), below: (&self.below).into() }
    }

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
        Some(self.hide_runtime(current))
    }

    fn hide_runtime(&self, shared: *const ()) -> Box<Outer> {
        let deque = self.deque.replace(ptr::null());
        let (next, idle) = (self.outer.get(), self.idle.get());
        let outer = Box::new(Outer { shared, next, deque, idle });
        self.outer.set(&*outer);
        outer
    }

    /// Whether the library is in the middle of something on this thread (X7).
    pub(crate) fn is_inside_call(&self) -> bool {
        !self.group.get().is_null() || self.waits.get() > 0 || self.calls.get() > 0
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
/// fork into the deque that is open (X5), nor free the worker that the caller uses (X7).
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _calling = Calling::new();
    let (deque, idle) = with(|cx| (cx.deque.replace(ptr::null()), cx.idle.get()));
    let value = f();
    with(|cx| {
        cx.deque.set(deque);
        cx.idle.set(idle);
    });
    value
}

/// The thread's worker is in use until dropped (X7).
#[must_use]
pub(crate) struct Calling(());

impl Calling {
    pub(crate) fn new() -> Self {
        with(|cx| cx.calls.set(cx.calls.get() + 1));
        Self(())
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        with(|cx| cx.calls.set(cx.calls.get() - 1));
    }
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

/// Whether the thread is inside a task or a `block_on` of any runtime, however deep.
pub(crate) fn is_inside_any() -> bool {
    with(|cx| !cx.group.get().is_null() || !cx.outer.get().is_null())
}

/// Whom what runs here belongs to: the task, or the one that waits for it in a `block_on` (X6). To be
/// compared, and not to be followed.
pub(crate) fn owner() -> *const Header {
    with(|cx| if cx.task.get().is_null() { cx.below.get() } else { cx.task.get() })
}

/// Refuses to wait for what belongs to the current group.
///
/// # Panics
/// In a child that was forked from the process of its runtime.
#[track_caller]
pub(crate) fn check_process() {
    let group = with(|cx| cx.group.get());
    // SAFETY: X2, whoever set it keeps the group.
    if let Some(group) = unsafe { group.as_ref() } {
        group.home().process.check();
    }
}

/// Has this thread, the one that a forked child has, be no worker any more; returns the worker that it was. What
/// units its ledgers hold are the parent's. Does what a signal handler may do.
pub(crate) fn forget_worker() -> *const () {
    let forget = |cx: &Context| {
        cx.deque.set(ptr::null());
        cx.cache.set(ptr::null());
        cx.ledger.forget();
        cx.tree.forget();
        cx.worker.replace(ptr::null())
    };
    CONTEXT.try_with(forget).unwrap_or(ptr::null())
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
    /// A frame for what belongs to no group and no task.
    ///
    /// # Safety
    /// X2 holds for the enclosing frame.
    unsafe fn bare() -> Self {
        with(|cx| {
            // SAFETY: by the caller's promise.
            let current = unsafe { cx.group.get().as_ref() }.map(|group| group.home().shared);
            Self {
                hides: current.map(|shared| cx.hide_runtime(shared)),
                group: cx.group.replace(ptr::null()),
                task: cx.task.replace(ptr::null()),
                budget: cx.budget.replace(u32::MAX),
                yielded: cx.yielded.replace(false),
            }
        })
    }

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

/// Puts a worker on top of the thread's until dropped (X3).
#[must_use]
pub(crate) struct Cover {
    worker: *const (),
    cache: *const Cache,
    deque: *const Deque<Header>,
    idle: *const Idle,
    stretch: Option<Stretch>,
    /// Whose worker is covered.
    process: Process,
}

/// What the thread was doing, apart from its worker.
struct Stretch {
    frame: Frame,
    below: Below,
    purse: *const Header,
    waits: usize,
}

impl Cover {
    /// For a loop of its own: what runs in it knows nothing of what the thread was doing.
    ///
    /// # Safety
    /// Worker and cache stay where they are until the cover is dropped, which happens on this thread and in
    /// stack order. X2 holds for the enclosing frame.
    pub(crate) unsafe fn enter(worker: *const (), cache: *const Cache) -> Self {
        // SAFETY: by the caller's promise.
        let mut cover = unsafe { Self::lend(worker, cache) };
        cover.stretch = Some(Stretch {
            // SAFETY: by the caller's promise.
            frame: unsafe { Frame::bare() },
            below: Below::nobody(),
            purse: with(|cx| cx.purse.replace(ptr::null())),
            waits: with(|cx| cx.waits.replace(0)),
        });
        cover
    }

    /// For a part of what the thread is doing.
    ///
    /// # Safety
    /// As for [`Cover::enter`], but for X2.
    pub(crate) unsafe fn lend(worker: *const (), cache: *const Cache) -> Self {
        with(|cx| Self {
            worker: cx.worker.replace(worker),
            cache: cx.cache.replace(cache),
            deque: cx.deque.replace(ptr::null()),
            idle: cx.idle.get(),
            stretch: None,
            process: Process::this(),
        })
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        if let Some(Stretch { frame, below, purse, waits }) = self.stretch.take() {
            with(|cx| {
                cx.waits.set(waits);
                cx.purse.set(purse);
            });
            drop((below, frame));
        }
        if self.process.is_parent() {
            // W2 of `sched/forked`: the thread of a child is no worker, nor what it was below.
            forget_worker();
            return;
        }
        with(|cx| {
            cx.worker.set(self.worker);
            cx.cache.set(self.cache);
            cx.deque.set(self.deque);
            cx.idle.set(self.idle);
        });
    }
}
