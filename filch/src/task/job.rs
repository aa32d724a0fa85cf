//! Jobs with children: a cell whose end is that of its closure and of every child that was run.
//!
//! A job is made fresh (T8), run once, and *ends* when its count has no unit left: one is its own, from
//! birth until its closure is gone; each child takes one when it is run and gives it back when it ends
//! in its turn. So a parent joins its children and orders nothing.
//!
//! N1. A fresh child refers to its parent's cell. One that was run does not: its unit keeps the
//!     parent from ending, and a cell whose closure is gone keeps one reference, the *tree's*, until
//!     it ends.
//! N2. So a child that is never run holds nobody up, and dropping its last handle drops its closure.
//!     If children of it were run, its cell stays until they end, as one without a parent.
//! N3. A panic is stored in the cell. At its end, if nobody has a handle (T9), it moves to the
//!     parent; else whoever waits takes it; else the cell is freed with it and the group gets it (G3).
//!     A cancellation moves on to the parent in any case.
//! N4. `waiters` is a list until the end and CLOSED after it. A job that ends alone
//!     (`State::is_alone`) is not closed, for nobody is left to look.
//! N5. The ancestors in a cell are addresses, only to be compared. Those of a job that has not ended
//!     are alive, so equal means the same.
//!
//! N6. While a job's closure runs, its thread has a *purse* of the job's units, which it draws in batches
//!     for children that it runs. Other threads that run forked parts of the closure have not. A worker keeps units that children give back in its context's `tree`
//!     ledger, by the rules of C4: it settles before it runs anything but a child of the same parent,
//!     searches, parks or blocks.
//!
//! Every job is a task of its own in the group that it was run in: groups know nothing of trees.
//!
//! Not here: what a handle does (`handle`), how a thread waits (`sched/blocking.rs`), the public face (`job.rs` at the root).

use std::cell::Cell;
use std::mem::{ManuallyDrop, offset_of, size_of};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::task::Waker;

use super::body::{self, Failure, Panicked};
use super::context;
use super::count::Count;
use super::group::{Group, guard_outside, guard_user_code};
use super::header::{
    Begins, Birth, Header, Kind, Meta, Ran, RawTask, Released, TaskId, TreeVtable, Vtable,
};
use super::state::Launch;
use crate::base::shim::{AtomicPtr, Ordering};

mod handle;

/// A job that may have children, to be run once; see [`Job::new`].
///
/// A handle keeps a job from being dropped, and may be cloned to wait for it later.
///
/// ```
/// use filch::Job;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// static DONE: AtomicU32 = AtomicU32::new(0);
///
/// let parent = Job::new(|job| {
///     for _ in 0..4 {
///         job.child(|_| { DONE.fetch_add(1, Relaxed); }).run();
///     }
/// });
/// parent.run_and_wait(); // the parent has ended when its children have
/// assert_eq!(DONE.load(Relaxed), 4);
/// ```
pub struct Job(RawTask);

// SAFETY: a job's closure is `Send`; the cell is reached from any thread by design.
unsafe impl Send for Job {}
// SAFETY: as above; a shared handle makes state transitions only.
unsafe impl Sync for Job {}

/// The part of a job's cell that does not depend on its closure.
#[repr(C)]
struct Trunk {
    header: Header,
    /// Units of the job itself and of its children.
    count: Count,
    /// Units that the thread that runs the closure has in reserve, and nobody else touches (N6).
    purse: Cell<usize>,
    /// Null, or the parent: by reference while fresh, by a unit until the end (N1).
    parent: *const Header,
    /// Grandparent, and the root of the tree (N5).
    above: [*const Header; 2],
    /// N4.
    waiters: AtomicPtr<Waiter>,
    /// N3: null, a panic, or one of the marks below.
    failure: AtomicPtr<Panicked>,
}

const _: () = assert!(size_of::<Trunk>() <= 120);

/// Something below was cancelled.
const CANCELLED: *mut Panicked = ptr::without_provenance_mut(align_of::<Panicked>());
/// A panic was here, and somebody has it.
const TAKEN: *mut Panicked = ptr::without_provenance_mut(2 * align_of::<Panicked>());
/// The job has ended (N4).
const CLOSED: *mut Waiter = ptr::without_provenance_mut(align_of::<Waiter>());

/// One that waits; owned by the list.
struct Waiter {
    next: *mut Waiter,
    waker: Waker,
}

#[repr(C)]
struct JobCell<F> {
    trunk: Trunk,
    /// There while the job is fresh or not started.
    body: ManuallyDrop<F>,
}

/// What came of a job and all below it.
#[must_use]
pub(crate) enum End {
    Fine,
    Panicked(Box<Panicked>),
    /// As `Panicked`, and somebody else has the panic.
    PanickedBefore,
    Cancelled,
}

/// What came of a call on the caller's stack.
#[must_use]
pub(crate) enum Called {
    /// The job has ended, and is gone.
    Ended(End),
    /// The closure has ended; others still have the job or run below it.
    Open(Job),
    /// It is not the caller's alone to call, or was run before.
    NotAlone(Job),
}

/// What is known of a job before it has a cell.
pub(crate) struct Seed {
    pub(crate) id: TaskId,
    pub(crate) site: &'static Location<'static>,
    pub(crate) word: u64,
    /// The group whose unit the job has, or null if it is fresh.
    pub(crate) group: *const Group,
}

/// The layout of the cell of a job that calls an `F`.
pub(crate) const fn layout<F>() -> crate::pool::CellLayout {
    crate::pool::CellLayout::of::<JobCell<F>>()
}

/// Makes a job in a cell.
///
/// # Safety
/// `at` is a fresh cell of the pool of `layout::<F>()`. What N1 asks for holds for `parent`, which is
/// alive.
pub(crate) unsafe fn create<F>(
    at: NonNull<u8>,
    seed: Seed,
    parent: Option<&Job>,
    closure: F,
) -> RawTask
where
    F: FnOnce(&Job) + Send + 'static,
{
    let task = RawTask(at.cast());
    let word = seed.word;
    let birth =
        Birth { group: seed.group, id: seed.id, meta: Meta::new(seed.site, None), word: seed.word };
    let cell: *mut JobCell<F> = at.as_ptr().cast();
    macro_rules! write {
        ($($field:ident).+: $value:expr) => {
            // SAFETY: by the caller's promise the field lies inside the cell.
            let field = unsafe { &raw mut (*cell).$($field).+ };
            let value = $value;
            // SAFETY: the cell is fresh, so it is ours alone.
            unsafe { field.write(value) };
        };
    }
    let above = match parent {
        None => [ptr::null(); 2],
        Some(parent) => {
            let trunk = parent.trunk();
            let root = if trunk.parent.is_null() { parent.address() } else { trunk.above[1] };
            [trunk.parent, root]
        }
    };
    write!(trunk.count: Count::new());
    write!(trunk.purse: Cell::new(0));
    write!(trunk.parent: parent.map_or(ptr::null(), Job::address));
    write!(trunk.above: above);
    write!(trunk.waiters: AtomicPtr::default());
    write!(trunk.failure: AtomicPtr::default());
    write!(body: ManuallyDrop::new(closure));
    // SAFETY: as above (H1).
    unsafe { birth.write(task.0, const { &JobCell::<F>::VTABLE }) };
    // SAFETY: all fields are initialised but the state word, which is valid at all times (T1).
    unsafe { task.header() }.state.publish(word);
    task
}

/// # Safety
/// `task` is a job made by `create`, and the cell is alive.
unsafe fn trunk<'a>(task: RawTask) -> &'a Trunk {
    // SAFETY: by the caller's promise.
    unsafe { task.0.cast().as_ref() }
}

impl<F: FnOnce(&Job) + Send + 'static> JobCell<F> {
    const VTABLE: Vtable = Vtable {
        kind: Kind::Job,
        begins: Begins::AtBirth,
        run: Self::run,
        abandon: Self::abandon,
        take: no_output,
        discard: no_discard,
        slot: no_slot,
        tree: Some(TreeVtable { is_below, call: Self::call, release: Self::release }),
    };

    fn body(task: RawTask) -> *mut F {
        let cell: *mut Self = task.0.as_ptr().cast();
        // SAFETY: `create` made the cell of this type; only the address is computed.
        unsafe { (&raw mut (*cell).body).cast() }
    }

    /// # Safety
    /// As [`Vtable::run`]: the caller owns the body (T2).
    unsafe fn run(task: RawTask) -> Ran {
        // SAFETY: the task is not DONE, so the cell is there.
        open_ledger(unsafe { trunk(task) });
        // SAFETY: T2, by the caller's promise.
        unsafe { Self::call(task) };
        // SAFETY: the body is gone.
        unsafe { end(task) }
    }

    /// # Safety
    /// As [`TreeVtable::call`]: the caller owns the body.
    unsafe fn call(task: RawTask) {
        // The life reference lends itself to the closure's own handle.
        let own = ManuallyDrop::new(Job(task));
        let call = || {
            // SAFETY: T2, the body is ours, and nobody reads it again.
            let closure = unsafe { Self::body(task).read() };
            closure(&own);
        };
        let outer = context::with(|cx| cx.purse.replace(own.address()));
        let called = catch_unwind(AssertUnwindSafe(call));
        context::with(|cx| cx.purse.set(outer));
        if let Err(payload) = called {
            // SAFETY: we run the task, so it is not DONE.
            own.trunk().note(unsafe { body::failure(task, payload) });
        }
    }

    /// # Safety
    /// As [`Vtable::abandon`]: the caller owns the body (T2).
    unsafe fn abandon(task: RawTask, _: Failure) -> Ran {
        // SAFETY: T2, the body is ours, and nobody reads it again.
        let drop = || unsafe { Self::body(task).drop_in_place() };
        let failure = match catch_unwind(AssertUnwindSafe(drop)) {
            Ok(()) => Failure::Cancelled,
            // SAFETY: we own the body, so the task is not DONE.
            Err(payload) => unsafe { body::failure(task, payload) },
        };
        // SAFETY: we own the body, so the cell is there.
        unsafe { trunk(task) }.note(failure);
        // SAFETY: the body is gone.
        unsafe { end(task) }
    }

    /// # Safety
    /// As [`TreeVtable::release`]: nobody refers to the cell.
    unsafe fn release(task: RawTask) -> Released {
        // SAFETY: the cell is there until we return.
        let this = unsafe { trunk(task) };
        if !this.header.state.is_fresh() {
            this.deliver();
            return Released::Empty;
        }
        // SAFETY: T8, never run, so the body is there, and ours with the cell.
        guard_user_code(|| unsafe { Self::body(task).drop_in_place() });
        // SAFETY: the cell is ours alone.
        let parent = unsafe { orphan(task) };
        // SAFETY: the body is gone, and nobody refers to the job.
        let released = unsafe { leave_children(task) };
        // SAFETY: N1, the reference of a fresh job to its parent.
        unsafe { unref_chain(parent) };
        released
    }
}

/// # Safety
/// None is needed: a job has no output, and no handle that would ask for it.
unsafe fn no_output(_: RawTask, _: *mut ()) {
    unreachable!("a job with children has no output");
}

/// # Safety
/// As for `no_output`.
unsafe fn no_discard(_: RawTask) {
    unreachable!("a job with children has no output");
}

/// # Safety
/// As for `no_output`.
unsafe fn no_slot(_: RawTask) -> u32 {
    unreachable!("a job with children is not pinned");
}

/// # Safety
/// As [`TreeVtable::is_below`].
unsafe fn is_below(task: RawTask, root: RawTask) -> bool {
    // SAFETY: by the caller's promise.
    let trunk = unsafe { trunk(task) };
    let root = root.0.as_ptr().cast_const();
    trunk.parent == root || trunk.above.contains(&root)
}

/// Drops a reference to the job at `parent`, and those that a chain of fresh jobs gives up with it.
/// A loop and not a recursion: a chain may be deeper than the stack.
///
/// # Safety
/// The caller gives up a reference to `parent`, or it is null.
unsafe fn unref_chain(parent: *const Header) {
    let Some(parent) = NonNull::new(parent.cast_mut()) else { return };
    let mut next = Some(RawTask(parent));
    while let Some(task) = next.take() {
        // SAFETY: our reference keeps the cell.
        let this = unsafe { trunk(task) };
        if !this.header.state.unref() {
            return;
        }
        if this.header.state.is_fresh() {
            // The loop goes on with its parent, so `release` must not.
            // SAFETY: that was the last reference: the cell is ours alone.
            next = NonNull::new(unsafe { orphan(task) }.cast_mut()).map(RawTask);
        }
        // SAFETY: that was the last reference.
        unsafe { task.free() };
    }
}

/// Takes the parent out of the cell.
///
/// # Safety
/// The cell is the caller's alone: nobody refers to it, and children only give units back.
unsafe fn orphan(task: RawTask) -> *const Header {
    let cell: *mut Trunk = task.0.as_ptr().cast();
    // SAFETY: the cell is there; only the address is computed.
    let parent = unsafe { &raw mut (*cell).parent };
    // SAFETY: by the caller's promise.
    unsafe { parent.replace(ptr::null()) }
}

/// Leaves the cell of a job that was never run to its children that were, if there are any (N2).
///
/// # Safety
/// Nobody refers to the job, which is fresh; its closure and its parent are out of the cell.
unsafe fn leave_children(task: RawTask) -> Released {
    // SAFETY: the cell is there.
    let this = unsafe { trunk(task) };
    if this.count.is_only(1) {
        this.deliver();
        return Released::Empty;
    }
    this.header.state.outlive();
    if this.count.sub(1) {
        // SAFETY: the count is finished, and the tree's reference is that of `outlive`.
        unsafe { ended(task) };
    }
    Released::Kept
}

/// The closure is gone: gives the job's own unit back.
///
/// # Safety
/// The caller owned the body (T2), which is gone.
unsafe fn end(task: RawTask) -> Ran {
    // SAFETY: not DONE, so the cell is there.
    let this = unsafe { trunk(task) };
    let group = this.header.group_ptr();
    let units = 1 + this.purse.replace(0);
    if this.header.state.is_alone() && this.count.is_only(units) {
        // N4: without a handle or a fresh child, nobody can add a unit or wait.
        this.pass_on();
        let parent = this.parent;
        if this.header.state.finish_without_output().last {
            // SAFETY: no reference is left, and the body is gone.
            unsafe { task.free() };
        }
        // SAFETY: N1, the unit of the job that has ended.
        unsafe { leave(parent) };
    } else {
        this.header.state.finish_keeping();
        if this.count.sub(units) {
            // SAFETY: the count is finished, and the tree's reference is the one just kept.
            unsafe { ended(task) };
        }
    }
    Ran::Ended(group)
}

/// Calls the closure of a hidden job on top of the running task, if it belongs to the current group:
/// what is left of a run where there is nothing to tell anybody. False if it is no such job.
///
/// # Safety
/// The caller is a worker, and has taken the entry of `task`, a job made by `create`, out of a queue.
#[must_use]
pub(crate) unsafe fn call_hidden(task: RawTask) -> bool {
    // SAFETY: T4, the entry keeps the cell alive.
    let this = unsafe { trunk(task) };
    let group = this.header.group_ptr();
    if context::with(|cx| cx.group.get()) != group || !this.header.state.call_hidden() {
        return false;
    }
    // SAFETY: G1, by the unit of the job, which runs next; the caller is a worker.
    unsafe { Group::open_ledger(group) };
    open_ledger(this);
    let call = this.header.vtable.tree.as_ref().expect("a job of a tree").call;
    let outer = context::with(|cx| cx.task.replace(task.0.as_ptr()));
    // SAFETY: T8, the body is ours. No panic of the closure leaves the call.
    unsafe { call(task) };
    context::with(|cx| cx.task.set(outer));
    let units = 1 + this.purse.replace(0);
    if this.header.state.is_alone() && this.count.is_only(units) {
        // N4.
        this.pass_on();
        let parent = this.parent;
        // SAFETY: the only reference was ours; body and failure are gone.
        unsafe { task.free_cell() };
        // SAFETY: N1, the unit of the job that has ended.
        unsafe { leave(parent) };
    } else {
        this.header.state.end_call(Launch::Queued);
        if this.count.sub(units) {
            // SAFETY: the count is finished, and the life reference is the tree's.
            unsafe { ended(task) };
        }
    }
    // SAFETY: the unit of the job, whose closure is gone.
    unsafe { Group::leave(group) };
    true
}

/// Gives a unit of `parent` back, and ends what that finishes.
///
/// # Safety
/// The caller gives up a unit of `parent`, or it is null.
unsafe fn leave(parent: *const Header) {
    let Some(parent) = NonNull::new(parent.cast_mut()) else { return };
    let parent = RawTask(parent);
    // SAFETY: N1, the unit keeps the cell.
    let count = &unsafe { trunk(parent) }.count;
    let finished = context::with(|cx| {
        if ptr::eq(cx.tree.count(), count) {
            cx.tree.deposit(count);
            false
        } else {
            count.sub(1)
        }
    });
    if finished {
        // SAFETY: the count is finished; the closure is gone, so there is a tree's reference.
        unsafe { ended(parent) };
    }
}

/// Makes this worker's ledger deal in units of the parent of `child`, which it is about to run (N6), if
/// it deals in those of its group: they are settled together, these first.
#[inline]
fn open_ledger(child: &Trunk) {
    let parent: *const Trunk = child.parent.cast();
    let count = match parent.is_null() {
        true => ptr::null(),
        // SAFETY: N1, the child's unit keeps the parent's cell; only the address is computed.
        false => unsafe { &raw const (*parent).count },
    };
    if context::with(|cx| cx.tree.count()) != count {
        settle();
        if Group::is_in_ledger(child.header.group_ptr()) {
            context::with(|cx| cx.tree.open(count));
        }
    }
}

/// Gives back the units that this thread keeps (N6).
#[inline]
pub(crate) fn settle() {
    // Again, if the wakers of those who waited have run jobs here.
    while context::with(|cx| !cx.tree.count().is_null()) {
        settle_units();
    }
}

#[cold]
fn settle_units() {
    if let Some(count) = context::with(|cx| cx.tree.settle()) {
        let header: *const Header = count.wrapping_byte_sub(offset_of!(Trunk, count)).cast();
        let task = NonNull::new(header.cast_mut()).expect("a count lies in a cell");
        // SAFETY: the count is finished; the closure is gone, so there is a tree's reference.
        unsafe { ended(RawTask(task)) };
    }
}

/// The end of a job, and of every ancestor that it thereby finishes.
///
/// # Safety
/// The caller finished the count of `task`, and takes over the tree's reference.
unsafe fn ended(task: RawTask) {
    let mut finished = Some(task);
    while let Some(task) = finished.take() {
        // SAFETY: the tree's reference keeps the cell.
        let this = unsafe { trunk(task) };
        this.pass_on();
        this.close();
        if let Some(parent) = NonNull::new(this.parent.cast_mut()).map(RawTask)
            // SAFETY: N1, our unit keeps the parent's cell.
            && unsafe { trunk(parent) }.count.sub(1)
        {
            finished = Some(parent);
        }
        // SAFETY: the tree's reference, given up.
        unsafe { task.unref() };
    }
}

impl Trunk {
    /// Notes a failure, if there is none yet.
    fn fail(&self, failure: *mut Panicked) -> bool {
        // ORDERING: Release pairs with the Acquire in `take_failure`: the panic is seen whole.
        let exchange = self.failure.compare_exchange(
            ptr::null_mut(),
            failure,
            Ordering::Release,
            Ordering::Relaxed,
        );
        exchange.is_ok()
    }

    /// Notes how the closure failed.
    fn note(&self, failure: Failure) {
        match failure {
            Failure::Cancelled => _ = self.fail(CANCELLED),
            Failure::Panicked(panicked) => self.keep(panicked),
        }
    }

    /// Keeps a panic for whoever waits; a second one goes to the group.
    fn keep(&self, panicked: Box<Panicked>) {
        let panicked = Box::into_raw(panicked);
        if !self.fail(panicked) {
            // SAFETY: the box just taken apart.
            unsafe { Box::from_raw(panicked) }.deliver();
        }
    }

    fn take_failure(&self) -> End {
        // ORDERING: Relaxed, the end of the job orders it, and a mark publishes nothing.
        match self.failure.load(Ordering::Relaxed) {
            failure if failure.is_null() => return End::Fine,
            CANCELLED => return End::Cancelled,
            _ => {}
        }
        // ORDERING: Acquire pairs with the Release in `fail`.
        match self.failure.swap(TAKEN, Ordering::AcqRel) {
            TAKEN => End::PanickedBefore,
            // SAFETY: `keep` made it from a box, and the swap gave it to us alone.
            panicked => End::Panicked(unsafe { Box::from_raw(panicked) }),
        }
    }

    /// N3, at the end. Of a job that nobody keeps, nothing is left.
    #[inline]
    fn pass_on(&self) {
        // ORDERING: Relaxed, all that could fail has given its unit back to the caller's count.
        let failure = self.failure.load(Ordering::Relaxed);
        if failure.is_null() {
            return;
        }
        // SAFETY: N1, the unit that we have not given back keeps the parent's cell.
        match unsafe { self.parent.cast::<Trunk>().as_ref() } {
            Some(parent) if failure == CANCELLED => {
                parent.fail(CANCELLED);
            }
            Some(parent) if !self.header.state.is_kept() => {
                if let End::Panicked(panicked) = self.take_failure() {
                    parent.keep(panicked);
                }
            }
            None if !self.header.state.is_kept() => self.deliver(),
            _ => {}
        }
    }

    /// Gives a panic that nobody took to the group.
    fn deliver(&self) {
        if let End::Panicked(panicked) = self.take_failure() {
            panicked.deliver();
        }
    }

    /// Wakes whoever waits (N4).
    fn close(&self) {
        // ORDERING: Release pairs with the Acquire in `is_closed` and `add_waiter`: they see what the
        // tree did. Acquire pairs with the Release in `add_waiter`: we see the wakers.
        let mut waiter = self.waiters.swap(CLOSED, Ordering::AcqRel);
        debug_assert_ne!(waiter, CLOSED, "a job ends once");
        while !waiter.is_null() {
            // SAFETY: `add_waiter` made it from a box, and the swap gave the list to us.
            let Waiter { next, waker } = *unsafe { Box::from_raw(waiter) };
            guard_outside(|| waker.wake());
            waiter = next;
        }
    }
}
