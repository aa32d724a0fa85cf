//! Spawning: from a future or a closure to a task in a queue.
//!
//! P1. A task takes a unit of its group before it has a cell, and keeps it until its body is gone.
//! P2. Who spawns from inside a task or a `block_on` is a member and always admitted; who spawns
//!     from outside is admitted while the runtime is open, else gets the body back.
//! P3. A runtime without a worker of the role (a hive that was given none) takes no such task.
//! P4. A runtime that drops its tasks takes none through a group's handle, wherever the spawner is: else
//!     children that come one after the other would keep it from its end.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::pool::CellLayout;
use crate::runtime::{self, Handle};
use crate::sched::adopt;
use crate::sched::shared::{Phase, Shared};
use crate::sched::worker::Worker;
use crate::task::body::{
    BlockingBody, Body, Cell, Failure, FutureBody, JobBody, NeverRan, Panicked, PinnedFuture,
};
use crate::task::budget;
use crate::task::context::{self, Calling};
use crate::task::group::{Group, GroupRef};
use crate::task::header::{Begins, Birth, Kind, Meta, Ran, RawTask, TaskId};
use crate::task::join::JoinHandle;
use crate::task::state::{Priority, Sight, Start, State};
use crate::task::waker::cancel_task;

mod unmade;

pub(crate) use unmade::{Takers, Unmade};
use unmade::{Why, takes};

/// Spawns a future on the micro lane, into the current group.
///
/// ```
/// let handle = filch::spawn(async { 1 + 1 });
/// assert_eq!(handle.wait(), 2);
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task().spawn(future)
}

/// Spawns a closure on the job lane, into the current group.
///
/// ```
/// let handle = filch::spawn_fn(|| (1..=10).product::<u64>());
/// assert_eq!(handle.wait(), 3_628_800);
/// ```
#[track_caller]
pub fn spawn_fn<F, T>(job: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    task().spawn_fn(job)
}

/// Spawns a closure that blocks (a system call, a foreign lock) rather than computes, into the current
/// group.
///
/// It runs on a thread apart from the workers, which starts on first use, bears the runtime's name and
/// goes when it is idle for [`Config::blocking_keep_alive`](crate::Config::blocking_keep_alive).
/// At most [`Config::blocking_threads`](crate::Config::blocking_threads) run at a time; further closures
/// wait in the order of their spawns. Priorities mean nothing here, thread hooks are not called, and
/// whoever waits for the handle does not run the closure.
///
/// A closure that was cancelled before it started is dropped unrun when its turn comes.
///
/// ```
/// let text = filch::block_on(async {
///     filch::spawn_blocking(|| std::fs::read_to_string("Cargo.toml")).await
/// });
/// assert!(text.unwrap().contains("[package]"));
/// ```
#[track_caller]
pub fn spawn_blocking<F, T>(closure: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    task().spawn_blocking(closure)
}

/// Spawns a future that need not be `Send`: it stays on the current worker.
///
/// ```
/// use std::rc::Rc;
/// let sum = filch::block_on(filch::spawn(async {
///     filch::spawn_local(async { *Rc::new(5) }).await
/// }));
/// assert_eq!(sum, 5);
/// ```
///
/// # Panics
/// If the current thread is no I/O worker.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    task().spawn_local(future)
}

/// Starts describing a task: its name and priority, then what it runs.
///
/// ```
/// use filch::Priority;
/// let handle = filch::task().name("sum").priority(Priority::Low).spawn_fn(|| 1 + 1);
/// assert_eq!(handle.name(), Some("sum"));
/// assert_eq!(handle.wait(), 2);
/// ```
pub fn task() -> TaskBuilder {
    TaskBuilder { name: None, priority: Priority::Normal, place: Place::Current }
}

/// The id of the running task; `None` outside of one.
///
/// ```
/// assert_eq!(filch::current_id(), None);
/// assert!(filch::spawn(async { filch::current_id() }).wait().is_some());
/// ```
pub fn current_id() -> Option<TaskId> {
    let task = context::with(|cx| cx.task.get());
    // SAFETY: X1, the frame that set `task` runs it, so the cell is alive.
    unsafe { task.as_ref() }.map(|header| header.id)
}

/// Lets other ready tasks run first.
///
/// ```
/// let runtime = filch::Builder::new().single_thread(true).build()?;
/// let other = runtime.spawn(async {
///     let other = filch::spawn(async {});
///     while !other.is_finished() {
///         filch::yield_now().await;
///     }
///     other
/// });
/// assert!(runtime.block_on(async { other.await.is_finished() }));
/// # Ok::<(), filch::BuildError>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
///
/// ```
/// let pause: filch::YieldNow = filch::yield_now();
/// assert_eq!(filch::block_on(pause), ());
/// ```
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        let _whose = budget::requeue(cx);
        Poll::Pending
    }
}

/// Where a task goes.
#[derive(Clone)]
pub(crate) enum Place {
    /// Into the group of the running task, or the default runtime.
    Current,
    /// Into the root group of this runtime.
    Runtime(Handle),
    /// Into this group.
    Group(GroupRef),
}

impl Place {
    /// Which runtime that is; only to be compared.
    fn runtime(&self) -> *const Shared {
        match self {
            Self::Current => current(|shared, _, _| std::ptr::from_ref(shared)),
            Self::Runtime(handle) => handle.shared(),
            Self::Group(group) => group.home().shared.cast(),
        }
    }
}

/// A task being described; see [`task`].
///
/// ```
/// let builder = filch::task().name("worker 3");
/// assert_eq!(builder.spawn(async { 3 }).wait(), 3);
/// ```
#[derive(Clone)]
#[must_use = "a description does nothing until it spawns"]
pub struct TaskBuilder {
    name: Option<Cow<'static, str>>,
    priority: Priority,
    place: Place,
}

impl fmt::Debug for TaskBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("name", &self.name)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// A task that a closing runtime did not take, handed back.
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let handle = runtime.handle();
/// runtime.shutdown(filch::Shutdown::Drain);
/// let refused = handle.task().try_spawn_fn(|| 7).unwrap_err();
/// assert_eq!((refused.0)(), 7);
/// # Ok::<(), filch::BuildError>(())
/// ```
pub struct Refused<B>(pub B);

impl<B> fmt::Debug for Refused<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refused(..)")
    }
}

impl<B> fmt::Display for Refused<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime takes no such task: it is closing, or has no worker for it")
    }
}

impl<B> std::error::Error for Refused<B> {}

impl TaskBuilder {
    pub(crate) fn at(place: Place) -> Self {
        Self { place, ..task() }
    }

    /// Names the task, for reports and tools.
    ///
    /// ```
    /// assert_eq!(filch::task().name("a").spawn(async {}).name(), Some("a"));
    /// ```
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets when the task runs relative to others.
    ///
    /// ```
    /// use filch::Priority;
    /// assert_eq!(filch::task().priority(Priority::High).spawn(async { 1 }).wait(), 1);
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Spawns a future on the micro lane. A runtime that is closing drops it, and the handle
    /// reports it as cancelled.
    ///
    /// ```
    /// assert_eq!(filch::task().spawn(async { 2 }).wait(), 2);
    /// ```
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.launch(FutureBody(future), Location::caller())
    }

    /// Spawns a closure on the job lane. A runtime that is closing drops it, and the handle
    /// reports it as cancelled; so does one that can have no compute worker, and the error says so. In a
    /// [hive](crate::Builder::hive) that has none yet it waits for one to be attached.
    ///
    /// ```
    /// assert_eq!(filch::task().spawn_fn(|| 2).wait(), 2);
    /// ```
    #[track_caller]
    pub fn spawn_fn<F, T>(self, job: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.launch(JobBody(job), Location::caller())
    }

    /// Spawns a closure that blocks, on a thread apart from the workers; see [`spawn_blocking`]. A
    /// runtime that is closing drops it, and the handle reports it as cancelled.
    ///
    /// ```
    /// assert_eq!(filch::task().name("reader").spawn_blocking(|| 2).wait(), 2);
    /// ```
    #[track_caller]
    pub fn spawn_blocking<F, T>(self, closure: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.launch(BlockingBody(closure), Location::caller())
    }

    /// As [`TaskBuilder::spawn`], but a future that is not taken is handed back.
    ///
    /// ```
    /// assert_eq!(filch::task().try_spawn(async { 2 }).unwrap().wait(), 2);
    /// ```
    ///
    /// # Errors
    /// If the runtime is closing, or no worker is attached that could run it.
    #[track_caller]
    pub fn try_spawn<F>(self, future: F) -> Result<JoinHandle<F::Output>, Refused<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let site = Location::caller();
        let made = self.try_create(FutureBody(future), site, Takers::Attached, create);
        made.map_err(|unmade| Refused(unmade.body.0))
    }

    /// As [`TaskBuilder::spawn_fn`], but a closure that is not taken is handed back.
    ///
    /// ```
    /// assert_eq!(filch::task().try_spawn_fn(|| 2).unwrap().wait(), 2);
    /// ```
    ///
    /// # Errors
    /// If the runtime is closing, or no worker is attached that could run it.
    #[track_caller]
    pub fn try_spawn_fn<F, T>(self, job: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let site = Location::caller();
        let made = self.try_create(JobBody(job), site, Takers::Attached, create);
        made.map_err(|unmade| Refused(unmade.body.0))
    }

    /// Spawns a future that stays on the current worker; see [`spawn_local`].
    ///
    /// ```
    /// let handle = filch::spawn(async { filch::task().name("here").spawn_local(async { 1 }).await });
    /// assert_eq!(handle.wait(), 1);
    /// ```
    ///
    /// # Panics
    /// If the current thread is no I/O worker of the runtime.
    #[track_caller]
    pub fn spawn_local<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let site = Location::caller();
        // SAFETY: used within this call only.
        let worker = unsafe { Worker::of_runtime(self.place.runtime()) };
        let Some(worker) = worker.filter(|worker| worker.runs_futures()) else {
            panic!(
                "spawn_local needs a task on an I/O worker of its runtime: the future stays where it is spawned"
            );
        };
        // Also in a job that the waiter runs meanwhile: it waits for what that spawns.
        if context::with(|cx| cx.waits.get() > 0) {
            panic!(
                "spawn_local inside block_on on a worker: the future could not run while it blocks"
            );
        }
        let body = PinnedFuture::new(worker.index() as u32, worker.pin(), future);
        self.launch(body, site)
    }

    pub(crate) fn launch<B: Body>(
        self,
        body: B,
        site: &'static Location<'static>,
    ) -> JoinHandle<B::Output> {
        self.try_create(body, site, Takers::AnyTime, create)
            .unwrap_or_else(|unmade| reject(unmade, site))
    }

    /// Has `create` make a task of the body in the group that the description names, which has given it a
    /// unit; or hands the body back.
    pub(crate) fn try_create<B: Body, R>(
        self,
        body: B,
        site: &'static Location<'static>,
        takers: Takers,
        create: impl FnOnce(&Shared, &Group, B, Order) -> R,
    ) -> Result<R, Unmade<B>> {
        let Self { name, priority, place } = self;
        let order = Order { meta: (site, name), priority };
        match place {
            Place::Current => current(|shared, group, member| match takes::<B>(shared, takers) {
                Err(why) => Err(Unmade { body, why }),
                Ok(()) if admit(shared, group, member) => Ok(create(shared, group, body, order)),
                Ok(()) => Err(Unmade { body, why: Why::of_closed(group) }),
            }),
            Place::Runtime(handle) => {
                let shared = handle.shared();
                match takes::<B>(shared, takers) {
                    Err(why) => Err(Unmade { body, why }),
                    Ok(()) if admit(shared, &shared.root, Member::No) => {
                        Ok(create(shared, &shared.root, body, order))
                    }
                    Ok(()) => Err(Unmade { body, why: Why::of_closed(&shared.root) }),
                }
            }
            Place::Group(group) => {
                if !group.try_enter() {
                    return Err(Unmade { body, why: Why::of_closed(&group) });
                }
                // The task may end, and its runtime with it, before `create` returns (D2).
                // SAFETY: the unit just taken keeps the runtime (S1).
                let shared = unsafe { Shared::to_arc(group.home().shared.cast()) };
                // P4.
                let closing = shared.phase() >= Phase::Aborting;
                let refused =
                    if closing { Err(Why::ShuttingDown) } else { takes::<B>(&shared, takers) };
                if let Err(why) = refused {
                    // SAFETY: the unit that was just taken.
                    unsafe { Group::leave(Arc::as_ptr(&group)) };
                    return Err(Unmade { body, why });
                }
                Ok(create(&shared, &group, body, order))
            }
        }
    }
}

/// Name, site and priority of a task to come.
pub(crate) struct Order {
    meta: (&'static Location<'static>, Option<Cow<'static, str>>),
    priority: Priority,
}

impl Order {
    pub(crate) fn plain(site: &'static Location<'static>) -> Self {
        Self { meta: (site, None), priority: Priority::Normal }
    }

    #[inline]
    fn birth(self, group: &Group, word: u64) -> Birth {
        Birth {
            group: group.as_ptr(),
            id: context::with(|cx| cx.fresh_id()),
            meta: Meta::new(self.meta.0, self.meta.1),
            word,
        }
    }
}

/// Whether the spawner holds a unit of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Yes,
    No,
}

/// Where a spawn belongs.
struct Here<'a> {
    shared: &'a Shared,
    group: &'a Group,
    member: Member,
    /// Of an adopted thread: drops and wakers of the program that the spawn calls do not end the adoption under it.
    calling: Option<Calling>,
}

/// Calls `f` with the runtime and the group that a spawn here belongs to.
pub(crate) fn current<R>(f: impl FnOnce(&Shared, &Group, Member) -> R) -> R {
    let group = context::with(|cx| cx.group.get());
    // SAFETY: X2, whoever set it keeps the group until the frame ends.
    let here = match unsafe { group.as_ref() } {
        Some(group) => {
            // SAFETY: S1, an unfinished group keeps its runtime.
            let shared = unsafe { &*group.home().shared.cast::<Shared>() };
            Here { shared, group, member: Member::Yes, calling: None }
        }
        // SAFETY: used within this call only.
        None => unsafe { outside() },
    };
    // The only call of `f`, so it is compiled into this function: a spawn on a worker is a straight line.
    let result = f(here.shared, here.group, here.member);
    if let Some(calling) = here.calling {
        drop(calling);
        adopt::end_left();
    }
    result
}

/// Where a spawn outside of any group belongs: to the runtime that has adopted this thread, or to the default runtime.
///
/// # Safety
/// The result is used only until its `calling` is dropped.
#[cold]
unsafe fn outside<'a>() -> Here<'a> {
    // SAFETY: the caller's promise; X7, `calling` keeps an adoption.
    let worker: Option<&'a Worker> = unsafe { Worker::current() };
    let shared = match worker {
        Some(worker) => worker.shared(),
        None => runtime::default().shared(),
    };
    let calling = worker.map(|_| Calling::new());
    Here { shared, group: &shared.root, member: Member::No, calling }
}

/// Whether the runtime has a worker for such a task (P3).
#[inline]
pub(crate) fn runs<B: Body>(shared: &Shared) -> bool {
    match B::KIND {
        Kind::Future | Kind::Job => shared.lane_of(B::KIND).attached() > 0,
        Kind::Pinned | Kind::Posted | Kind::Blocking => true,
    }
}

/// Takes a unit for a new task (P1, P2).
pub(crate) fn admit(shared: &Shared, group: &Group, member: Member) -> bool {
    match member {
        Member::Yes => {
            group.enter();
            true
        }
        Member::No => shared.phase() == Phase::Open && group.try_enter(),
    }
}

/// Makes the task and queues it. The group has given it a unit.
pub(crate) fn create<B: Body>(
    shared: &Shared,
    group: &Group,
    body: B,
    order: Order,
) -> JoinHandle<B::Output> {
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::of_runtime(shared) };
    let handle = create_with(shared, worker, group, body, order);
    match worker {
        Some(worker) => worker.accept(handle.raw()),
        None => shared.inject(handle.raw()),
    }
    handle
}

/// Makes the task, whose entry the caller pushes. The group has given it a unit; `worker` is that of this
/// thread.
#[inline]
pub(crate) fn create_with<B: Body>(
    shared: &Shared,
    worker: Option<&Worker>,
    group: &Group,
    body: B,
    order: Order,
) -> JoinHandle<B::Output> {
    let word = State::initial(order.priority, shared.now_ms());
    let handle = write(shared, worker, group, body, (order, word));
    let task = handle.raw();
    if group.is_tracked() {
        // SAFETY: the handle keeps the cell alive.
        unsafe { group.enlist(task) };
    }
    if shared.phase() >= Phase::Aborting {
        handle.cancel();
    }
    handle
}

/// As `create_with`, a task of normal priority without a handle, in the runtime's own group.
#[inline]
pub(crate) fn create_unowned<B: Body>(
    shared: &Shared,
    worker: Option<&Worker>,
    body: B,
    order: Order,
) -> RawTask {
    debug_assert!(!shared.root.is_tracked(), "lists refer to tasks by their handles");
    let word = State::unowned(Sight::Visible, shared.now_ms());
    let cell = alloc(shared, worker, const { CellLayout::of::<Cell<B>>() });
    // SAFETY: the cell is fresh and made for this type; the group has given a unit.
    unsafe { Cell::<B>::create(cell, order.birth(&shared.root, word), body) }
}

/// As `create`, of a job that is not queued before somebody wakes it.
pub(crate) fn create_waiting<B: Body>(
    shared: &Shared,
    group: &Group,
    body: B,
    order: Order,
) -> JoinHandle<B::Output> {
    const { assert!(matches!(B::BEGINS, Begins::WhenAsked)) };
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::of_runtime(shared) };
    let word = State::waiting(order.priority, shared.now_ms());
    let handle = write(shared, worker, group, body, (order, word));
    if group.is_tracked() {
        // SAFETY: the handle keeps the cell alive.
        unsafe { group.enlist_waiting(handle.raw()) };
    }
    if shared.phase() >= Phase::Aborting {
        handle.cancel();
    }
    handle
}

/// A task in a fresh cell, with its first state word. The group has given it a unit.
#[inline]
fn write<B: Body>(
    shared: &Shared,
    worker: Option<&Worker>,
    group: &Group,
    body: B,
    (order, word): (Order, u64),
) -> JoinHandle<B::Output> {
    let cell = alloc(shared, worker, const { CellLayout::of::<Cell<B>>() });
    let birth = order.birth(group, word);
    // SAFETY: the cell is fresh and made for this type; the group has given a unit.
    let task = unsafe { Cell::<B>::create(cell, birth, body) };
    // SAFETY: the handle's reference is the second of the first word.
    unsafe { JoinHandle::new(task) }
}

/// Memory for a task, from the worker's own cache where there is one.
#[inline]
pub(crate) fn alloc(shared: &Shared, worker: Option<&Worker>, layout: CellLayout) -> NonNull<u8> {
    match worker {
        Some(worker) => worker.cache().alloc(layout),
        None => {
            shared.process().check();
            if shared.is_asleep() {
                // And the coarse clock with it.
                shared.tell_time();
            }
            shared.pool.alloc(layout)
        }
    }
}

/// Makes a task of a refused body only to end it as cancelled, so that its handle can say so.
pub(crate) fn reject<B: Body>(
    Unmade { body, why }: Unmade<B>,
    site: &'static Location<'static>,
) -> JoinHandle<B::Output> {
    let pool = crate::pool::Pool::new();
    let cell = pool.alloc(const { CellLayout::of::<Cell<B>>() });
    // A group of its own, whose one unit is the task's: nobody waits for it.
    let group = Group::nowhere();
    let birth = Birth {
        group: Arc::as_ptr(&group),
        id: context::with(|cx| cx.fresh_id()),
        meta: Meta::new(site, None),
        word: State::initial(Priority::Normal, 0),
    };
    // SAFETY: the cell is fresh and made for this type; the unit is the group's first.
    let task = unsafe { Cell::<B>::create(cell, birth, body) };
    // SAFETY: the handle's reference is the second of `State::initial`.
    let handle = unsafe { JoinHandle::new(task) };
    // SAFETY: the handle keeps the cell alive; nobody else has the entry.
    let header = unsafe { task.header() };
    let start = header.state.start();
    debug_assert_eq!(start, Start::Run);
    // Not as the group's member: there is no runtime that the body's drop could spawn into.
    let why = NeverRan { errno: None, reason: why.text() };
    // SAFETY: not DONE: the body is ours.
    let failure = Failure::Panicked(unsafe { Panicked::new(header, Box::new(why)) });
    // SAFETY: `start` gave us the body.
    let ran = unsafe { (header.vtable.abandon)(task, failure) };
    debug_assert!(matches!(ran, Ran::Ended(_)));
    // SAFETY: the unit of the task that has ended.
    unsafe { Group::leave(Arc::as_ptr(&group)) };
    pool.close();
    handle
}

/// Has the running task dropped at its next await.
pub(crate) fn cancel_current() {
    let task = context::with(|cx| cx.task.get());
    if let Some(task) = NonNull::new(task.cast_mut()) {
        // SAFETY: X1, the frame that set `task` runs it, so the cell is alive.
        unsafe { cancel_task(RawTask(task)) };
    }
}
