//! Groups: who belongs together, who is told at the end, and where panics go.
//!
//! Every task belongs to one group, until it is detached, which moves it to the root. Groups form
//! a tree whose root is the runtime's; a group holds one unit of its parent until it is finished,
//! so a finished group has no live descendant on any lane.
//!
//! G1. A group's memory is kept by references (`Arc`); one of them belongs to the count, from
//!     birth to its end, so whoever holds a unit may use the group (PITFALL: a tracker on the
//!     waiter's stack).
//! G2. The end: the one finisher (C2) takes the waiter out and wakes it, releases the parent's
//!     unit, then drops the count's reference; it touches nothing of the waiter's after the wake.
//! G3. A panic that nobody took is delivered once: to the group while it is open, unless the group
//!     reports panics; to the parent if the group was orphaned; else to the runtime's hook.
//! G4. In a tracked group every live member is in the list, so that cancelling reaches all.
//!     A group is tracked if it can be cancelled (`filch::group`) or if its waiter has no deque
//!     to find its jobs in (a `scope` on a thread that is no compute worker) or has to find those
//!     too that are in no deque (a `block_on` on a worker), or inside one such.
//! G5. A group *fails* once, by an error or by a panic that cancels. It cancels its members and wakes
//!     its waiter, which until then waits for the end or, while the body of a `group` runs, for the
//!     failure alone. The reason is stored before, so whoever sees the failure finds it.
//! G6. A group's first unit is its owner's. If that is a future, it may be kept elsewhere or
//!     forgotten, so the end of the runtime may give the unit back in its place; `owner` decides
//!     between the two.
//!
//! Not here: how a thread waits (`sched/blocking.rs`), the public faces (`block_on`, `group`, `scope`).

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::mem::take;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use crossbeam_utils::CachePadded;

use super::context;
use super::count::Count;
use super::header::{Header, Kind, RawTask, TaskId, TaskRef};
use super::job;
use super::owner::Owner;
use super::waker::{cancel_queued, cancel_task};
use crate::base::process::Process;
use crate::base::shim::{AtomicBool, Mutex, MutexGuard, Ordering};

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// A panic on its way to somebody.
pub(crate) struct Fallout {
    pub(crate) payload: Payload,
    pub(crate) task: TaskId,
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) site: &'static Location<'static>,
}

impl Fallout {
    pub(crate) fn of(header: &Header, payload: Payload) -> Self {
        let name = header.name().map(|name| Cow::Owned(name.to_owned()));
        Self { payload, task: header.id, name, site: header.site() }
    }
}

/// What takes the panics that no group took.
pub(crate) type Hook = Arc<dyn Fn(Fallout) + Send + Sync>;

/// What a task knows of its runtime. Valid while the caller holds a unit of any of its groups (H3).
#[derive(Clone, Copy)]
pub(crate) struct Home {
    /// sched's `Shared`.
    pub(crate) shared: *const (),
    /// Pushes the entry that the caller has the right to push, and wakes whom it takes.
    pub(crate) schedule: unsafe fn(*const (), RawTask),
    /// As `schedule`, of a job that waited: lets it be claimed before it wakes anybody (T11).
    pub(crate) begin: unsafe fn(*const (), RawTask),
    /// The one whose threads the runtime has.
    pub(crate) process: Process,
}

impl Home {
    /// # Safety
    /// The caller has just won QUEUED for `task` (T3).
    #[inline]
    pub(crate) unsafe fn schedule(self, task: RawTask) {
        // SAFETY: the task is not DONE, so it holds a unit: the runtime is there.
        unsafe { (self.schedule)(self.shared, task) }
    }

    /// # Safety
    /// The caller has just won QUEUED for `task`, a job that waited (T10), and keeps its cell alive.
    pub(crate) unsafe fn begin(self, task: RawTask) {
        // SAFETY: the task is not DONE, so it holds a unit: the runtime is there.
        unsafe { (self.begin)(self.shared, task) }
    }
}

/// What becomes of a panic that nobody took, and of the other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnPanic {
    /// The owner gets it at the end, and they go on (`block_on`, `scope`).
    Continue,
    /// The owner gets it at the end, and the group fails (`group`).
    Cancel,
    /// The hook gets it at once, and they go on.
    Report,
}

/// Where panics of members go (G3).
enum Sink {
    Open(Option<Fallout>),
    Orphaned,
    Closed,
    Root(Hook),
}

pub(crate) type GroupRef = Arc<Group>;

pub(crate) struct Group {
    count: CachePadded<Count>,
    /// Of a group that a future owns: who gives the first unit back (G6).
    owner: Owner,
    home: Home,
    /// The pointer that the `Arc` gave: a reference to the group may not be used for the counts beside it. Written
    /// once, by `with`.
    me: Cell<*const Self>,
    parent: Option<GroupRef>,
    on_panic: OnPanic,
    /// Set once, under the lock of `members`; read by spawns.
    cancelled: AtomicBool,
    waiter: Mutex<Waiter>,
    sink: Mutex<Sink>,
    members: Option<Mutex<Members>>,
}

// SAFETY: `home` points to a `Shared`, which is reached from any thread by design.
unsafe impl Send for Group {}
// SAFETY: as above; everything else is atomic or locked.
unsafe impl Sync for Group {}

/// Code of users runs outside of the locks, and its panics end there. Files have a group, and are unwind safe with it.
impl UnwindSafe for Group {}
impl RefUnwindSafe for Group {}

/// Who waits for the group.
#[derive(Default)]
struct Waiter {
    waker: Option<Waker>,
    /// Set once (G5).
    failed: bool,
}

/// The members of a tracked group (G4). Finished tasks stay until the list has doubled.
struct Members {
    /// Futures, closures that block, and jobs that wait for others.
    tasks: Vec<TaskRef>,
    /// Jobs that are queued. Whoever helps takes them off the list: one that has started is past cancelling.
    jobs: Vec<TaskRef>,
    groups: Vec<GroupRef>,
    /// Woken when the group is cancelled, or at its end.
    on_cancel: Option<Waker>,
    sweep_at: usize,
}

/// Length at which the list of members is first swept. Guessed.
const FIRST_SWEEP: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of the user's runs under these locks, so poison means nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A unit that no task holds: the group is not finished before it is dropped.
pub(crate) struct Unit(GroupRef);

impl Unit {
    /// A unit of the group; `None` if the group is finished.
    pub(crate) fn of(group: GroupRef) -> Option<Self> {
        group.try_enter().then_some(Self(group))
    }

    /// Whether the group belongs to the runtime of which this is the root.
    pub(crate) fn is_below(&self, root: &Group) -> bool {
        self.0.home.shared == root.home.shared
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: the unit taken in `of`, given back once; the reference keeps the group.
        unsafe { Group::leave(Arc::as_ptr(&self.0)) };
    }
}

impl Group {
    /// The group that is current on this thread, if any.
    pub(crate) fn here() -> Option<GroupRef> {
        let group = context::with(|cx| cx.group.get());
        // SAFETY: X2, whoever set it keeps the group.
        unsafe { group.as_ref() }.map(Self::to_ref)
    }

    /// The root of a runtime: its panics go to the hook.
    pub(crate) fn root(home: Home, hook: Hook) -> GroupRef {
        let group = Self::with(home, None, OnPanic::Continue, Tracking::No);
        *lock(&group.sink) = Sink::Root(hook);
        group
    }

    /// A group of no runtime, for a task that ends before anybody can wake it.
    pub(crate) fn nowhere() -> GroupRef {
        /// # Safety
        /// None is needed: it is never called, and panics if it is.
        unsafe fn never(_: *const (), _: RawTask) {
            unreachable!("a task of no runtime is never queued");
        }
        let process = Process::this();
        let home = Home { shared: std::ptr::null(), schedule: never, begin: never, process };
        Self::root(home, Arc::new(drop))
    }

    /// A group inside `parent`; `None` if `parent` is finished.
    pub(crate) fn inside(
        parent: &GroupRef,
        on_panic: OnPanic,
        tracking: Tracking,
    ) -> Option<GroupRef> {
        if !parent.count.try_add(1) {
            return None;
        }
        let tracking = if parent.is_tracked() { Tracking::Yes } else { tracking };
        let group = Self::with(parent.home, Some(parent.clone()), on_panic, tracking);
        if let Some(members) = &parent.members {
            let mut members = lock(members);
            members.sweep();
            members.groups.push(group.clone());
            // ORDERING: Relaxed, the lock orders it with `cancel`.
            if parent.cancelled.load(Ordering::Relaxed) {
                drop(members);
                group.cancel();
            }
        }
        Some(group)
    }

    fn with(
        home: Home,
        parent: Option<GroupRef>,
        on_panic: OnPanic,
        tracking: Tracking,
    ) -> GroupRef {
        let members = match tracking {
            Tracking::No => None,
            Tracking::Yes => Some(Mutex::new(Members {
                tasks: Vec::new(),
                jobs: Vec::new(),
                groups: Vec::new(),
                on_cancel: None,
                sweep_at: FIRST_SWEEP,
            })),
        };
        let group = Arc::new(Self {
            count: CachePadded::new(Count::new()),
            owner: Owner::new(),
            home,
            me: Cell::new(ptr::null()),
            parent,
            on_panic,
            cancelled: AtomicBool::new(false),
            waiter: Mutex::default(),
            sink: Mutex::new(Sink::Open(None)),
            members,
        });
        group.me.set(Arc::as_ptr(&group));
        // G1: the count's own reference, dropped by `announce`.
        std::mem::forget(group.clone());
        group
    }

    /// A reference to the group that this is.
    pub(crate) fn to_ref(&self) -> GroupRef {
        // SAFETY: groups live in an `Arc` (the constructors are private).
        unsafe { Arc::increment_strong_count(self.as_ptr()) };
        // SAFETY: the reference just made.
        unsafe { Arc::from_raw(self.as_ptr()) }
    }

    /// A pointer to the group that a reference to it can be made from.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const Self {
        self.me.get()
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }

    pub(crate) fn units(&self) -> usize {
        self.count.units()
    }

    /// The group that this one holds a unit of; a runtime's own has none.
    pub(crate) fn parent(&self) -> Option<&GroupRef> {
        self.parent.as_ref()
    }

    /// The root above it: the runtime's own group, which is finished once all tasks of the runtime are gone.
    pub(crate) fn root_of(&self) -> &Group {
        let mut group = self;
        while let Some(parent) = group.parent() {
            group = parent;
        }
        group
    }

    /// The owner's unit, for a poll of its future; `None` if the runtime has ended (G6).
    pub(crate) fn use_unit(group: &GroupRef) -> Option<UnitInUse<'_>> {
        group.owner.begin_use().then(|| UnitInUse(group))
    }

    /// Takes the owner's unit, to be given back, unless that is done or a poll uses it (G6).
    pub(crate) fn take_unit(group: &GroupRef) -> Option<OwnersUnit<'_>> {
        group.owner.take().then(|| OwnersUnit(group))
    }

    /// Whether the future that owns the group still has its unit (G6).
    pub(crate) fn is_held_by_owner(&self) -> bool {
        self.owner.has_unit()
    }

    /// Takes a unit for a new member; the caller holds one (C3).
    #[inline]
    pub(crate) fn enter(&self) {
        context::with(|cx| {
            if std::ptr::eq(cx.ledger.count(), &*self.count) {
                cx.ledger.draw(&self.count);
            } else {
                self.count.add(1);
            }
        });
    }

    /// Takes a unit for a new member without holding one; false if the group is finished.
    #[must_use]
    pub(crate) fn try_enter(&self) -> bool {
        self.count.try_add(1)
    }

    /// As `try_enter`, for several members: all or none.
    #[must_use]
    pub(crate) fn try_enter_many(&self, members: usize) -> bool {
        self.count.try_add(members)
    }

    /// Gives a member's unit back, by way of the ledger where this worker deals in it.
    ///
    /// # Safety
    /// The caller holds a unit and gives it up; it does not use the group afterwards unless it
    /// holds a reference.
    #[inline]
    pub(crate) unsafe fn leave(group: *const Self) {
        // SAFETY: G1, by the unit.
        let this = unsafe { &*group };
        let finished = context::with(|cx| {
            if std::ptr::eq(cx.ledger.count(), &*this.count) {
                cx.ledger.deposit(&this.count);
                false
            } else {
                this.count.sub(1)
            }
        });
        if finished {
            // SAFETY: G1, the count's reference is now ours.
            unsafe { Self::announce(group) };
        }
    }

    /// Makes this thread's ledger deal in the group of the task it is about to run (C4).
    ///
    /// # Safety
    /// The caller runs a task of this group next, on a worker thread.
    #[inline]
    pub(crate) unsafe fn open_ledger(group: *const Self) {
        // By the pointer of the group, to which `settle` returns.
        let count: *const Count =
            group.wrapping_byte_add(std::mem::offset_of!(Group, count)).cast();
        let current = context::with(|cx| cx.ledger.count());
        if current != count {
            Self::settle();
            context::with(|cx| cx.ledger.open(count));
        }
    }

    /// Whether this thread's ledger deals in units of `group`; only its address is used.
    pub(crate) fn is_in_ledger(group: *const Self) -> bool {
        let count = group.wrapping_byte_add(std::mem::offset_of!(Group, count)).cast();
        context::with(|cx| cx.ledger.count() == count)
    }

    /// Settles this thread's ledger (C4): before searching, parking or blocking. Nothing is in it
    /// afterwards, whatever the wakers of those who waited have done here meanwhile.
    pub(crate) fn settle() {
        loop {
            // First, because a job that ends thereby may deliver a panic to the group.
            job::settle();
            let Some(count) = context::with(|cx| cx.ledger.settle()) else { return };
            // SAFETY: a ledger's count is the field of a group; the count's reference is ours.
            unsafe { Self::announce(Self::of_count(count)) };
        }
    }

    fn of_count(count: *const Count) -> *const Self {
        let padded: *const CachePadded<Count> = count.cast();
        padded.wrapping_byte_sub(std::mem::offset_of!(Group, count)).cast()
    }

    /// G2, for this group and every ancestor that it thereby finishes.
    ///
    /// # Safety
    /// The caller finished the count of `group`.
    unsafe fn announce(group: *const Self) {
        let mut finished = Some(group);
        while let Some(group) = finished.take() {
            // SAFETY: G1, this is the count's reference, and it ends here.
            let group = unsafe { Arc::from_raw(group) };
            if let Some(members) = &group.members {
                let (tasks, jobs, groups, on_cancel) = lock(members).take();
                drop((tasks, jobs, groups));
                wake(on_cancel);
            }
            let waiter = lock(&group.waiter).waker.take();
            wake(waiter);
            if let Some(parent) = &group.parent {
                // The parent's ledger is not used: an ancestor is rarely the group being run.
                if parent.count.sub(1) {
                    finished = Some(Arc::as_ptr(parent));
                }
            }
        }
    }

    /// Whether every member is gone.
    pub(crate) fn is_finished(&self) -> bool {
        self.count.is_finished()
    }

    /// Has `waker` woken at the end, or if the group fails before; false if it is finished already.
    #[must_use]
    pub(crate) fn set_waiter(&self, waker: &Waker) -> bool {
        self.wait_until(waker, |_| self.count.is_finished())
    }

    /// Has `waker` woken if the group fails; false if it has (G5). For the owner, whose unit keeps the
    /// group from its end.
    #[must_use]
    pub(crate) fn set_waiter_for_failure(&self, waker: &Waker) -> bool {
        self.wait_until(waker, |waiter| waiter.failed)
    }

    /// Forgets the waker, if there is one: who waited looks by itself.
    pub(crate) fn clear_waiter(&self) {
        let waker = lock(&self.waiter).waker.take();
        guard_user_code(|| drop(waker));
    }

    fn wait_until(&self, waker: &Waker, is_over: impl Fn(&Waiter) -> bool) -> bool {
        {
            let waiter = lock(&self.waiter);
            if is_over(&waiter) {
                return false;
            }
            if waiter.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                return true;
            }
        }
        // The user's code (clone and drop of a waker) runs outside of the lock.
        let waker = waker.clone();
        let mut waiter = lock(&self.waiter);
        if is_over(&waiter) {
            drop(waiter);
            guard_user_code(|| drop(waker));
            return false;
        }
        let old = waiter.waker.replace(waker);
        drop(waiter);
        guard_user_code(|| drop(old));
        true
    }

    /// Cancels every member because of an error or a panic, which the caller has stored (G5).
    pub(crate) fn fail(&self) {
        let waiter = {
            let mut waiter = lock(&self.waiter);
            waiter.failed = true;
            waiter.waker.take()
        };
        self.cancel();
        wake(waiter);
    }

    /// Delivers a panic that nobody took (G3).
    pub(crate) fn deliver(&self, fallout: Fallout) {
        let mut group = self;
        loop {
            let mut sink = lock(&group.sink);
            match &mut *sink {
                Sink::Open(first @ None) if group.on_panic != OnPanic::Report => {
                    *first = Some(fallout);
                    drop(sink);
                    if group.on_panic == OnPanic::Cancel {
                        group.fail();
                    }
                    return;
                }
                Sink::Open(_) | Sink::Closed | Sink::Root(_) => {
                    drop(sink);
                    return group.report(fallout);
                }
                Sink::Orphaned => {}
            }
            drop(sink);
            group = group.parent.as_deref().expect("only a root has no parent, and it takes all");
        }
    }

    /// Hands a panic to the runtime's hook.
    pub(crate) fn report(&self, fallout: Fallout) {
        let mut root = self;
        while let Some(parent) = root.parent.as_deref() {
            root = parent;
        }
        let hook = match &*lock(&root.sink) {
            Sink::Root(hook) => hook.clone(),
            Sink::Open(_) | Sink::Orphaned | Sink::Closed => unreachable!("the root has the hook"),
        };
        guard_outside(|| hook(fallout));
    }

    /// Takes the panic that members left, if any; later ones go to the hook (G3).
    pub(crate) fn close(&self) -> Option<Fallout> {
        self.replace_sink(Sink::Closed)
    }

    /// The owner goes before the members: they and their panics fall to the parent (G3).
    pub(crate) fn orphan(&self) {
        if let Some(fallout) = self.replace_sink(Sink::Orphaned) {
            self.deliver(fallout);
        }
    }

    fn replace_sink(&self, sink: Sink) -> Option<Fallout> {
        match std::mem::replace(&mut *lock(&self.sink), sink) {
            Sink::Open(fallout) => fallout,
            Sink::Orphaned | Sink::Closed | Sink::Root(_) => None,
        }
    }

    /// Lists a task that is queued, and whose entry the caller is about to push, in a tracked group; if the group is cancelled,
    /// so is the task.
    ///
    /// # Safety
    /// The cell of `task` is alive.
    pub(crate) unsafe fn enlist(&self, task: RawTask) {
        // SAFETY: by the caller's promise.
        let header = unsafe { task.header() };
        let list: fn(&mut Members) -> &mut Vec<TaskRef> = match header.vtable.kind {
            Kind::Job => |members| &mut members.jobs,
            Kind::Future | Kind::Pinned | Kind::Posted | Kind::Blocking => {
                |members| &mut members.tasks
            }
        };
        // SAFETY: by the caller's promise.
        if unsafe { self.enlist_in(task, list) } == Enlisted::Cancelled {
            cancel_queued(header);
        }
    }

    /// Lists a job that is not queued yet. Once it is, `enlist` lists it for those who help.
    ///
    /// # Safety
    /// The cell of `task` is alive.
    pub(crate) unsafe fn enlist_waiting(&self, task: RawTask) {
        // SAFETY: by the caller's promise.
        let enlisted = unsafe { self.enlist_in(task, |members| &mut members.tasks) };
        if enlisted == Enlisted::Cancelled {
            // SAFETY: by the caller's promise.
            unsafe { cancel_task(task) };
        }
    }

    /// # Safety
    /// The cell of `task` is alive.
    unsafe fn enlist_in(
        &self,
        task: RawTask,
        list: fn(&mut Members) -> &mut Vec<TaskRef>,
    ) -> Enlisted {
        let Some(members) = &self.members else { return Enlisted::Alive };
        // SAFETY: by the caller's promise.
        let member = unsafe { TaskRef::new(task) };
        let mut members = lock(members);
        members.sweep();
        list(&mut members).push(member);
        // ORDERING: Relaxed, the lock orders it with `cancel`.
        match self.cancelled.load(Ordering::Relaxed) {
            true => Enlisted::Cancelled,
            false => Enlisted::Alive,
        }
    }

    /// Whether members have to be listed.
    pub(crate) fn is_tracked(&self) -> bool {
        self.members.is_some()
    }

    /// Cancels every member that was not detached and every subgroup (G4); untracked groups have no such call.
    pub(crate) fn cancel(&self) {
        // A list and not a recursion: groups may be nested deeper than the stack.
        let mut groups = self.cancel_members();
        while let Some(group) = groups.pop() {
            groups.extend(group.cancel_members());
        }
    }

    fn cancel_members(&self) -> Vec<GroupRef> {
        let Some(members) = &self.members else { return Vec::new() };
        let is_ours = |task: &&TaskRef| !task.header().state.is_detached();
        let (tasks, groups, on_cancel) = {
            let mut members = lock(members);
            // ORDERING: Relaxed, the lock orders it with `enlist` and `inside`.
            self.cancelled.store(true, Ordering::Relaxed);
            // Jobs stay on the list: one that is queued still has to be dropped by somebody, and
            // that may be whoever waits. Nothing is pushed for it under the lock, because a job is
            // queued, running or done.
            members.jobs.iter().filter(is_ours).for_each(|job| cancel_queued(job.header()));
            (take(&mut members.tasks), take(&mut members.groups), members.on_cancel.take())
        };
        wake(on_cancel);
        for task in tasks.iter().filter(is_ours) {
            // SAFETY: the reference keeps the cell alive.
            unsafe { cancel_task(task.raw()) };
        }
        groups
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed, a hint; `enlist` decides under the lock.
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Has the waker woken when the group is cancelled, or at its end, unless one is kept for that
    /// already; false if it is cancelled or has ended. `make` is no user code: it runs under the lock.
    #[must_use]
    pub(crate) fn on_cancel(&self, make: impl FnOnce() -> Waker) -> bool {
        let members = self.members.as_ref().expect("only a tracked group is cancelled (G4)");
        let mut members = lock(members);
        // ORDERING: Relaxed, the lock orders it with `cancel`; `announce` takes the lock after the end.
        if self.cancelled.load(Ordering::Relaxed) || self.count.is_finished() {
            return false;
        }
        members.on_cancel.get_or_insert_with(make);
        true
    }

    /// Takes the newest job off the list, to be claimed by a thread that helps while it waits.
    pub(crate) fn newest_job(&self) -> Option<TaskRef> {
        lock(self.members.as_ref()?).jobs.pop()
    }
}

/// The owner's unit while its future is polled: it stays out (W2 of `owner`).
#[must_use]
pub(crate) struct UnitInUse<'a>(&'a GroupRef);

impl<'a> UnitInUse<'a> {
    /// The future needs it no more.
    pub(crate) fn into_last(self) -> OwnersUnit<'a> {
        let group = self.0;
        std::mem::forget(self);
        group.owner.end_use_for_good();
        OwnersUnit(group)
    }
}

impl Drop for UnitInUse<'_> {
    fn drop(&mut self) {
        self.0.owner.end_use();
    }
}

/// The owner's unit, given back when dropped.
#[must_use]
pub(crate) struct OwnersUnit<'a>(&'a GroupRef);

impl Drop for OwnersUnit<'_> {
    fn drop(&mut self) {
        // SAFETY: W1 of `owner`, the group's first unit is ours; the borrow keeps the group.
        unsafe { Group::leave(Arc::as_ptr(self.0)) };
    }
}

/// What a list says to a new member.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
enum Enlisted {
    Alive,
    /// The group was cancelled before: cancel the member too.
    Cancelled,
}

/// Whether a group lists its members (G4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracking {
    No,
    Yes,
}

impl Members {
    fn len(&self) -> usize {
        self.tasks.len() + self.jobs.len() + self.groups.len()
    }

    fn take(&mut self) -> (Vec<TaskRef>, Vec<TaskRef>, Vec<GroupRef>, Option<Waker>) {
        (take(&mut self.tasks), take(&mut self.jobs), take(&mut self.groups), self.on_cancel.take())
    }

    fn sweep(&mut self) {
        if self.len() < self.sweep_at {
            return;
        }
        self.tasks.retain(|task| !task.header().state.is_done());
        self.jobs.retain(|task| !task.header().state.is_done());
        self.groups.retain(|group| !group.is_finished());
        self.sweep_at = FIRST_SWEEP.max(2 * self.len());
    }
}

/// Wakes somebody who waits for a group, from whatever runs here.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        guard_outside(|| waker.wake());
    }
}

/// Runs a user's waker or drop; its panic ends here, because the thread belongs to others.
pub(crate) fn guard_user_code<R>(f: impl FnOnce() -> R) -> Option<R> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // The payload is the user's too, and so is what its drop panics with; that one is
            // leaked, because there is no end to it.
            let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
            if let Err(payload) = dropped {
                std::mem::forget(payload);
            }
            None
        }
    }
}

/// As [`guard_user_code`], of what belongs to no task ([`context::outside`]).
pub(crate) fn guard_outside<R>(f: impl FnOnce() -> R) -> Option<R> {
    context::outside(|| guard_user_code(f))
}
