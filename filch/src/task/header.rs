//! The header of a task: what every body has in common, reached through a thin pointer.
//!
//! H1. A cell is a `Header` followed by its body (`body::Cell`, `repr(C)`), so a pointer to the
//!     header is a pointer to the cell.
//! H2. `vtable`, `id` and `meta` do not change from birth to the freeing of the cell. `group`
//!     changes only by the owner of the body, before it runs it (`detach`).
//! H3. `group` may be followed while the task is not DONE: it holds a unit of it (C1).
//! H4. `link` belongs to the queue that holds the task's one entry (T3).
//!
//! Not here: what the state word means (`state`).

use std::borrow::Cow;
use std::fmt;
use std::mem::{MaybeUninit, size_of};
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;

use super::body::{Failure, NeverRan, Panicked};
use super::context::{self, Frame};
use super::group::Group;
use super::state::{Start, State};
use crate::base::process;
use crate::base::shim::{AtomicPtr, Ordering, UnsafeCell};
use crate::pool::Pool;
use crate::queue::mailbox::Linked;

/// Names one task among all that the process ever had.
///
/// ```
/// let (a, b) = (filch::spawn(async {}), filch::spawn(async {}));
/// assert_ne!(a.id(), b.id());
/// # filch::wait((a, b));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u64);

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which lane runs the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A future: the micro lane.
    Future,
    /// A closure: the job lane. It may be claimed through its handle.
    Job,
    /// A future that stays on one worker.
    Pinned,
    /// A closure for one worker.
    Posted,
    /// A closure that blocks: a thread of its own, apart from the lanes.
    Blocking,
}

/// When a task is queued for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// Whoever makes it pushes its entry.
    AtBirth,
    /// It waits (T10).
    WhenAsked,
}

/// What the worker does with a task that it has run.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It waits for a wake, or has ended and is accounted for.
    Settled,
    /// It wants to run again, after others.
    Requeue,
    /// It ended. Its unit of this group is left to give back, as the last thing.
    Ended(*const Group),
}

/// The type-specific part of a task.
pub(crate) struct Vtable {
    pub(crate) kind: Kind,
    pub(crate) begins: Begins,
    /// Polls or calls the body; the caller owns it (T2).
    pub(crate) run: unsafe fn(RawTask) -> Ran,
    /// Drops the body unrun and finishes with that failure; the caller owns it (T2).
    pub(crate) abandon: unsafe fn(RawTask, Failure) -> Ran,
    /// Moves the output into `*mut Result<T, Failure>`; the caller owns it (T5).
    pub(crate) take: unsafe fn(RawTask, *mut ()),
    /// Drops an output that nobody took, giving a panic to the group; the caller owns it (T5).
    pub(crate) discard: unsafe fn(RawTask),
    /// The worker slot a pinned task belongs to.
    pub(crate) slot: unsafe fn(RawTask) -> u32,
    /// For jobs with children only.
    pub(crate) tree: Option<TreeVtable>,
}

/// What jobs with children add (`job`).
pub(crate) struct TreeVtable {
    /// Whether the first job is a descendant of the second; both cells are alive.
    pub(crate) is_below: unsafe fn(RawTask, RawTask) -> bool,
    /// Calls the closure, and keeps its panic; the caller owns the body.
    pub(crate) call: unsafe fn(RawTask),
    /// Empties a cell that nobody refers to any more.
    pub(crate) release: unsafe fn(RawTask) -> Released,
}

/// What becomes of a cell that nobody refers to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Released {
    Empty,
    /// Children still need it: the last of them frees it.
    Kept,
}

#[repr(C)]
pub(crate) struct Header {
    pub(crate) state: State,
    link: AtomicPtr<Header>,
    pub(crate) vtable: &'static Vtable,
    /// Written at birth and by `rehome`.
    group: AtomicPtr<Group>,
    pub(crate) id: TaskId,
    meta: Meta,
    /// By T6.
    pub(crate) waiter: UnsafeCell<MaybeUninit<Waker>>,
}

const _: () = assert!(size_of::<Header>() <= 64);

/// Where a task was spawned, and its name if it has one: a tagged pointer.
pub(crate) struct Meta(*const ());

struct Named {
    site: &'static Location<'static>,
    name: Cow<'static, str>,
}

const NAMED: usize = 1;

impl Meta {
    pub(crate) fn new(site: &'static Location<'static>, name: Option<Cow<'static, str>>) -> Self {
        match name {
            None => Self(std::ptr::from_ref(site).cast()),
            Some(name) => {
                let named = Box::into_raw(Box::new(Named { site, name }));
                Self(named.map_addr(|address| address | NAMED).cast())
            }
        }
    }

    fn is_named(&self) -> bool {
        self.0.addr() & NAMED != 0
    }

    /// What `new` has boxed. The tag is set.
    fn boxed(&self) -> *mut Named {
        self.0.map_addr(|address| address & !NAMED).cast_mut().cast()
    }

    fn named(&self) -> Option<&Named> {
        if !self.is_named() {
            return None;
        }
        // SAFETY: `new` made it from a box that lives as long as this value.
        Some(unsafe { &*self.boxed() })
    }

    fn site(&self) -> &'static Location<'static> {
        match self.named() {
            Some(named) => named.site,
            // SAFETY: `new` made it from a `&'static Location`.
            None => unsafe { &*self.0.cast() },
        }
    }
}

impl Drop for Meta {
    fn drop(&mut self) {
        if self.is_named() {
            // SAFETY: `new` made it from a box, and this value is dropped once.
            drop(unsafe { Box::from_raw(self.boxed()) });
        }
    }
}

impl Header {
    /// The group, while the task is not DONE (H3).
    ///
    /// # Safety
    /// The task is not DONE for as long as the reference is used, or the caller holds a unit.
    pub(crate) unsafe fn group<'a>(&self) -> &'a Group {
        // SAFETY: H3, by the caller's promise.
        unsafe { &*self.group_ptr() }
    }

    #[inline]
    pub(crate) fn group_ptr(&self) -> *const Group {
        // ORDERING: Relaxed, the state word orders `rehome` before whoever next owns the body or
        // wins QUEUED; others only compare addresses.
        self.group.load(Ordering::Relaxed)
    }

    /// Moves the task to the group `to`, a unit of which the caller hands over, and gives the
    /// unit of the old group back.
    ///
    /// # Safety
    /// The caller owns the body and has not entered a frame for it.
    pub(crate) unsafe fn rehome(&self, to: *const Group) {
        // ORDERING: Relaxed, as in `group_ptr`.
        let old = self.group.swap(to.cast_mut(), Ordering::Relaxed);
        // SAFETY: the task's unit of its old group.
        unsafe { Group::leave(old) };
    }

    /// Makes the task a member of `group`, a unit of which the caller hands over.
    ///
    /// # Safety
    /// The task is fresh (T8) and the caller's to launch.
    pub(crate) unsafe fn join_group(&self, group: *const Group) {
        // ORDERING: Relaxed, `State::launch` publishes it.
        self.group.store(group.cast_mut(), Ordering::Relaxed);
    }

    /// Moves the waker out of the waiter's slot.
    ///
    /// # Safety
    /// The slot is the caller's and holds a waker (T6), which nobody takes again.
    pub(crate) unsafe fn take_waiter(&self) -> Waker {
        // SAFETY: T6, by the caller's promise.
        let slot = self.waiter.with(|slot| unsafe { slot.read() });
        // SAFETY: T6, as above.
        unsafe { slot.assume_init() }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.meta.named().map(|named| &*named.name)
    }

    pub(crate) fn site(&self) -> &'static Location<'static> {
        self.meta.site()
    }
}

/// What is known of a task before it has a cell.
pub(crate) struct Birth {
    pub(crate) group: *const Group,
    pub(crate) id: TaskId,
    pub(crate) meta: Meta,
    /// The first state word (`State::initial`).
    pub(crate) word: u64,
}

impl Birth {
    /// Writes all but the state word of the header at `at`; [`Birth::word`] is published last.
    ///
    /// # Safety
    /// `at` is a fresh cell of the pool, large enough and aligned for a header.
    pub(crate) unsafe fn write(self, at: NonNull<Header>, vtable: &'static Vtable) {
        let at = at.as_ptr();
        // The state word stays untouched: the registry's walk may read it at any time (T1).
        macro_rules! write {
            ($field:ident: $value:expr) => {
                // SAFETY: by the caller's promise the field lies inside the cell.
                let field = unsafe { &raw mut (*at).$field };
                let value = $value;
                // SAFETY: the cell is fresh, so it is ours alone.
                unsafe { field.write(value) };
            };
        }
        write!(link: AtomicPtr::default());
        write!(vtable: vtable);
        write!(group: AtomicPtr::new(self.group.cast_mut()));
        write!(id: self.id);
        write!(meta: self.meta);
        write!(waiter: UnsafeCell::new(MaybeUninit::uninit()));
    }
}

/// A thin pointer to a task. It owns nothing: what makes it valid is said where it is held
/// (a queue entry by T3 and T4, a handle or waker by its reference).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct RawTask(pub(crate) NonNull<Header>);

impl RawTask {
    /// # Safety
    /// The cell is alive while the reference is used.
    #[inline]
    pub(crate) unsafe fn header<'a>(self) -> &'a Header {
        // SAFETY: by the caller's promise.
        unsafe { self.0.as_ref() }
    }

    /// Refuses to wait for a task that will not end here.
    ///
    /// # Safety
    /// The cell is alive.
    ///
    /// # Panics
    /// In a child that was forked from the process of the task's runtime.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn check_process(self) {
        if process::was_forked() {
            // SAFETY: a header is the start of a cell of the pool (H1), which is alive.
            unsafe { Pool::process_of(self.0.cast()) }.check();
        }
    }

    /// Runs or drops the body that `start` gave the caller, as the group's member.
    ///
    /// # Safety
    /// `start` is what [`State::start`] or [`State::claim`] has just returned, and it is `Run` or
    /// `Cancelled`.
    #[inline]
    pub(crate) unsafe fn execute(self, start: Start, budget: u32) -> Ran {
        // SAFETY: T2, the body is ours, so the task is not DONE and the cell is alive.
        let header = unsafe { self.header() };
        // SAFETY: X2, the task's unit keeps the group; it is given back after the frame.
        let frame = unsafe { Frame::enter(header.group_ptr(), self.0.as_ptr(), budget) };
        let ran = match start {
            // SAFETY: T2.
            Start::Run => unsafe { (header.vtable.run)(self) },
            // SAFETY: T2.
            _ => unsafe { (header.vtable.abandon)(self, Failure::Cancelled) },
        };
        drop(frame);
        let Ran::Ended(group) = ran else { return ran };
        // SAFETY: the unit of the task that has ended.
        unsafe { Group::leave(group) };
        Ran::Settled
    }

    /// Drops the body that `start` gave the caller, because no thread could be started for it.
    ///
    /// # Safety
    /// As for [`RawTask::execute`], and the task is no job.
    pub(crate) unsafe fn refuse(self, why: NeverRan) {
        // SAFETY: T2, the body is ours, so the task is not DONE and the cell is alive.
        let header = unsafe { self.header() };
        // SAFETY: X2, the task's unit keeps the group; it is given back after the frame.
        let frame = unsafe { Frame::enter(header.group_ptr(), self.0.as_ptr(), u32::MAX) };
        // SAFETY: not DONE.
        let failure = Failure::Panicked(unsafe { Panicked::new(header, Box::new(why)) });
        // SAFETY: T2.
        let ran = unsafe { (header.vtable.abandon)(self, failure) };
        drop(frame);
        if let Ran::Ended(group) = ran {
            // SAFETY: the unit of the task that has ended.
            unsafe { Group::leave(group) };
        }
    }

    /// Takes the entry of a task that has ended out of the world.
    ///
    /// # Safety
    /// The caller holds the entry and gives it up.
    pub(crate) unsafe fn bury(self) {
        // SAFETY: T4, an entry keeps the cell alive.
        match unsafe { self.header() }.state.start() {
            Start::Tombstone => {}
            // SAFETY: the last reference was ours.
            Start::TombstoneLast => unsafe { self.free() },
            start => unreachable!("a task that has ended was started: {start:?}"),
        }
    }

    /// Drops one reference.
    ///
    /// # Safety
    /// The caller owns a reference and gives it up.
    #[inline]
    pub(crate) unsafe fn unref(self) {
        // SAFETY: the reference keeps the cell alive until here.
        if unsafe { self.header() }.state.unref() {
            // SAFETY: that was the last one.
            unsafe { self.free() };
        }
    }

    /// Gives the cell back to the pool.
    ///
    /// # Safety
    /// No reference and no queue entry is left; body, output and waiter are gone.
    pub(crate) unsafe fn free(self) {
        // SAFETY: the cell is still there.
        if let Some(tree) = &unsafe { self.header() }.vtable.tree {
            // SAFETY: by the caller's promise.
            if unsafe { (tree.release)(self) } == Released::Kept {
                return;
            }
        }
        // SAFETY: by the caller's promise.
        unsafe { self.free_cell() };
    }

    /// As `free`, of a cell that holds nothing but its header.
    ///
    /// # Safety
    /// As for [`RawTask::free`]; a job with children is released.
    pub(crate) unsafe fn free_cell(self) {
        // SAFETY: the cell is alive; only the address is computed.
        let meta = unsafe { &raw mut (*self.0.as_ptr()).meta };
        // SAFETY: the cell is ours alone; `meta` was initialised at birth and dies here.
        unsafe { meta.drop_in_place() };
        let cache = context::with(|cx| cx.cache.get());
        // SAFETY: X3, the cache belongs to this thread's worker while it is set.
        let cache = unsafe { cache.as_ref() };
        // SAFETY: a header is the start of a cell of the pool (H1), and nobody else has it.
        unsafe { Pool::free(self.0.cast(), cache) };
    }
}

/// A counted reference to a task.
pub(crate) struct TaskRef(RawTask);

// SAFETY: a task cell is reached from any thread by design; the body is guarded by T2.
unsafe impl Send for TaskRef {}
// SAFETY: as above; a shared reference only reads constants and makes state transitions.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// # Safety
    /// The cell is alive.
    pub(crate) unsafe fn new(task: RawTask) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { task.header() }.state.add_ref();
        Self(task)
    }

    /// Takes over a reference that the caller owns.
    ///
    /// # Safety
    /// The caller owns a reference and gives it up.
    pub(crate) unsafe fn from_owned(task: RawTask) -> Self {
        Self(task)
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: our reference keeps the cell alive.
        unsafe { self.0.header() }
    }

    pub(crate) fn raw(&self) -> RawTask {
        self.0
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { self.0.unref() };
    }
}

// SAFETY: the link is a field of the header, so each task has its own, and queues alone touch it (H4).
unsafe impl Linked for Header {
    unsafe fn link(this: NonNull<Self>) -> NonNull<AtomicPtr<Self>> {
        // SAFETY: the item is live by the caller's promise.
        NonNull::from(unsafe { &this.as_ref().link })
    }
}
