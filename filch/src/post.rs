//! Posting: closures for a lane, for one worker, for later. Nobody waits for them.
//!
//! A *micro task* is a closure for the micro lane: brief, as a poll of a future is. A *compute task* is one
//! for the job lane.
//!
//! O1. A post is a member of the runtime's own group: the end of the runtime waits for it. Its panic goes to
//!     the runtime's hook.
//! O2. A task that is not taken is handed back, with the reason. One that is taken runs once, or is dropped by
//!     an abort.
//! O3. A post wakes one worker at most. More work than one takes is passed on by whoever takes it (I4 of
//!     `idle`). There is no buffer on the way: what a worker posts lies in its ring, where others find it.
//! O4. A delayed post is in the wheel, and counted there, when the call returns: it is polled once on the
//!     caller's thread, where it only registers.
//!
//! Not here: who is woken (`sched/schedule.rs`), the wheels (`sched/timers.rs`).

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::config::hooks::Role;
use crate::runtime::Handle;
use crate::sched::roster::{Obstacle, WorkerId};
use crate::sched::shared::{Phase, Shared};
use crate::sched::timers::Preference;
use crate::sched::worker::Worker;
use crate::spawn::{Order, create_unowned, create_with};
use crate::task::body::{Body, FutureBody, JobBody, MadeThere, MicroBody, PostedBody};
use crate::task::context;
use crate::task::group::Group;
use crate::task::header::{Kind, Ran, RawTask};
use crate::task::join::JoinHandle;
use crate::timer::{Polled, Timer};

/// Why a task was not taken; see [`PostError`].
///
/// ```
/// use filch::PostRefusal;
/// let hive = filch::Builder::new().io_workers(1).hive()?;
/// let refused = hive.post_compute(|| ()).unwrap_err();
/// assert_eq!(refused.reason, PostRefusal::NoWorkers { role: filch::Role::Compute });
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PostRefusal {
    /// It is no worker of this runtime.
    UnknownWorker,
    /// The worker was detached.
    Detached,
    /// The worker is about to be detached.
    Leaving,
    /// No worker of that role is attached.
    NoWorkers {
        /// The role.
        role: Role,
    },
    /// No worker of that crew is attached.
    NoCrew,
    /// The calling thread is no worker.
    NotOnWorker,
    /// The runtime is shutting down, or has ended.
    ShutDown,
}

impl fmt::Display for PostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownWorker => f.write_str("it is no worker of this runtime"),
            Self::Detached => f.write_str("the worker was detached"),
            Self::Leaving => f.write_str("the worker is about to be detached"),
            Self::NoWorkers { role } => write!(f, "no {role} worker is attached"),
            Self::NoCrew => f.write_str("no worker of the crew is attached"),
            Self::NotOnWorker => f.write_str("the calling thread is no worker"),
            Self::ShutDown => f.write_str("the runtime is shutting down or has ended"),
        }
    }
}

impl From<Obstacle> for PostRefusal {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Unknown => Self::UnknownWorker,
            Obstacle::Gone => Self::Detached,
            Obstacle::Leaving | Obstacle::Main | Obstacle::Last => Self::Leaving,
        }
    }
}

/// A task that was not taken, handed back with the reason.
///
/// ```
/// let runtime = filch::Builder::new().workers(1).build()?;
/// let handle = runtime.handle();
/// drop(runtime);
/// let refused = handle.post(|| println!("not lost")).unwrap_err();
/// assert_eq!(refused.reason, filch::PostRefusal::ShutDown);
/// (refused.task)();
/// # Ok::<(), filch::BuildError>(())
/// ```
pub struct PostError<T> {
    /// The task.
    pub task: T,
    /// Why it was not taken.
    pub reason: PostRefusal,
}

impl<T> fmt::Debug for PostError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for PostError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task was not taken: {}", self.reason)
    }
}

impl<T> std::error::Error for PostError<T> {}

/// Tasks for whichever worker is free.
impl Handle {
    /// Posts a micro task: any I/O worker runs it, soon.
    ///
    /// Posted from an I/O worker it is that worker's next, unless another is faster. Nobody waits for it;
    /// [`spawn`](Handle::spawn) has a handle. If it panics, [`on_panic`](crate::Builder::on_panic) hears of it.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// runtime.post(move || send.send(7).unwrap())?;
    /// assert_eq!(receive.recv(), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the runtime is shutting down or has no I/O worker; the task is handed back.
    #[track_caller]
    pub fn post<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), PostError<F>> {
        post_body(self.shared(), MicroBody(task), |body| body.0)
    }

    /// Posts several micro tasks at once: one worker is woken, who passes on what it does not take. Returns
    /// how many there were.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// runtime.post_batch((0..3).map(|i| { let send = send.clone(); move || send.send(i).unwrap() }))?;
    /// drop(send);
    /// assert_eq!(receive.iter().sum::<i32>(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`post`](Handle::post); all are handed back.
    #[track_caller]
    pub fn post_batch<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<usize, PostError<Vec<F>>> {
        post_bodies(self.shared(), tasks.into_iter().collect(), MicroBody)
    }

    /// Posts a compute task: any compute worker runs it. It cannot be delayed: a delay is for what is brief.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// runtime.post_compute(move || send.send((1..=10).product::<u32>()).unwrap())?;
    /// assert_eq!(receive.recv(), Ok(3_628_800));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// ```compile_fail,E0599
    /// let runtime = filch::Builder::new().workers(1).build().unwrap();
    /// runtime.post_compute_delayed(std::time::Duration::from_millis(1), || ());
    /// ```
    ///
    /// # Errors
    /// If the runtime is shutting down or has no compute worker; the task is handed back.
    #[track_caller]
    pub fn post_compute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), PostError<F>> {
        post_body(self.shared(), JobBody(task), |body| body.0)
    }

    /// Posts several compute tasks at once, as [`post_batch`](Handle::post_batch) does.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// let tasks = [2, 3].map(|i| { let send = send.clone(); move || send.send(i * i).unwrap() });
    /// runtime.post_compute_batch(tasks)?;
    /// drop(send);
    /// assert_eq!(receive.iter().sum::<i32>(), 13);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`post_compute`](Handle::post_compute); all are handed back.
    #[track_caller]
    pub fn post_compute_batch<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<usize, PostError<Vec<F>>> {
        post_bodies(self.shared(), tasks.into_iter().collect(), JobBody)
    }

    /// Posts a micro task for later: it is ready when `delay` has passed, and then runs soon, on any I/O
    /// worker.
    ///
    /// The timer goes to the I/O worker with fewer timers of two that chance picks. The handle cancels the
    /// task, or waits for it; dropping it does neither.
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let soon = runtime.post_delayed(Duration::from_millis(1), || 7)?;
    /// let late = runtime.post_delayed(Duration::from_secs(1000), || 8)?;
    /// late.cancel();
    /// assert_eq!(soon.wait(), 7);
    /// assert!(runtime.block_on(late.outcome()).unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`post`](Handle::post).
    #[track_caller]
    pub fn post_delayed<F, T>(
        &self,
        delay: Duration,
        task: F,
    ) -> Result<JoinHandle<T>, PostError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        post_later(self.shared(), delay, task, Preference::Light)
    }
}

/// Tasks for one worker.
impl Handle {
    /// Posts a task to one worker, of either role. Nobody else runs it, and a worker runs what it is posted
    /// from one thread in the order in which it was.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// let worker = runtime.workers()[1].id;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// runtime.post_to(worker, move || send.send(filch::worker::current().unwrap().id()).unwrap())?;
    /// assert_eq!(receive.recv(), Ok(worker));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If it is no worker of this runtime, is detached or about to be, or the runtime is shutting down; the
    /// task is handed back.
    #[track_caller]
    pub fn post_to<F: FnOnce() + Send + 'static>(
        &self,
        worker: WorkerId,
        task: F,
    ) -> Result<(), PostError<F>> {
        let site = Location::caller();
        let body = |slot, closure| PostedBody { slot, closure };
        reach(self.shared(), worker, task, |shared, here, slot, task| {
            create_unowned(shared, here, body(slot, task), Order::plain(site))
        })
        .map(drop)
    }

    /// Posts a task to a worker of a crew, each of them in turn; see [`NewWorker::crew`](crate::NewWorker::crew).
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).attachable_workers(1).build()?;
    /// runtime.attach(filch::NewWorker::compute().crew("physics"))?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// runtime.post_to_crew("physics", move || send.send(7).unwrap())?;
    /// assert_eq!(receive.recv(), Ok(7));
    /// assert!(runtime.post_to_crew("audio", || ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If it has no worker, or the runtime is shutting down; the task is handed back.
    #[track_caller]
    pub fn post_to_crew<F: FnOnce() + Send + 'static>(
        &self,
        crew: &str,
        mut task: F,
    ) -> Result<(), PostError<F>> {
        loop {
            let Some(worker) = self.shared().member_of(crew) else {
                return Err(PostError { task, reason: PostRefusal::NoCrew });
            };
            match self.post_to(worker, task) {
                // It leaves: another may be there.
                Err(PostError {
                    task: returned,
                    reason: PostRefusal::Leaving | PostRefusal::Detached,
                }) => task = returned,
                posted => return posted,
            }
        }
    }

    /// Has one worker make a future and run it. The future stays there, so it need not be `Send`.
    ///
    /// As long as it lives, the worker cannot be detached.
    ///
    /// ```
    /// use std::rc::Rc;
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// let worker = runtime.workers()[0].id;
    /// let handle = runtime.spawn_to(worker, || {
    ///     let shared = Rc::new(20);
    ///     async move { *shared + filch::spawn_fn(|| 22).await }
    /// })?;
    /// assert_eq!(handle.wait(), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`post_to`](Handle::post_to); the closure is handed back.
    #[track_caller]
    pub fn spawn_to<M, F>(
        &self,
        worker: WorkerId,
        make: M,
    ) -> Result<JoinHandle<F::Output>, PostError<M>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let site = Location::caller();
        reach(self.shared(), worker, make, |shared, here, slot, make| {
            let make = move || {
                // SAFETY: used within this call only, on the worker that runs the task.
                let worker = unsafe { Worker::current() }.expect("a pinned task runs on a worker");
                (worker.pin(), make())
            };
            let body = MadeThere::new(slot, make);
            create_with(shared, here, &shared.root, body, Order::plain(site))
        })
    }

    /// Wakes a worker, if it sleeps: it looks at all its sources, its event core's among them, and sleeps
    /// again if there is nothing.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// runtime.wake(runtime.workers()[0].id)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If it is no worker of this runtime, or was detached.
    pub fn wake(&self, worker: WorkerId) -> Result<(), PostError<()>> {
        match self.shared().slot_of_worker(worker) {
            Ok(slot) => {
                self.shared().wake_slot(slot);
                Ok(())
            }
            Err(obstacle) => Err(PostError { task: (), reason: obstacle.into() }),
        }
    }
}

/// Takes units for posts (O1): from inside the runtime as long as it has tasks, else while it is open.
fn admit(shared: &Shared, count: usize) -> bool {
    let group = context::with(|cx| cx.group.get());
    if count == 1 && std::ptr::eq(group, Arc::as_ptr(&shared.root)) {
        // By way of the ledger, if it deals in it.
        shared.root.enter();
        return true;
    }
    is_open(shared) && shared.root.try_enter_many(count)
}

/// Whether this thread may post.
fn is_open(shared: &Shared) -> bool {
    shared.phase() == Phase::Open || context::is_inside(std::ptr::from_ref(shared).cast())
}

/// Why a lane would not take a task now.
fn check_lane(shared: &Shared, kind: Kind) -> Result<(), PostRefusal> {
    let lane = shared.lane_of(kind);
    if lane.attached() == 0 { Err(PostRefusal::NoWorkers { role: lane.role }) } else { Ok(()) }
}

/// Takes units for posts to a lane, or says why not.
fn refusal(shared: &Shared, kind: Kind, count: usize) -> Option<PostRefusal> {
    let refusal = check_lane(shared, kind).err();
    refusal.or_else(|| (!admit(shared, count)).then_some(PostRefusal::ShutDown))
}

#[track_caller]
fn post_body<B: Body<Output = ()>, F>(
    shared: &Shared,
    body: B,
    back: impl FnOnce(B) -> F,
) -> Result<(), PostError<F>> {
    if let Some(reason) = refusal(shared, B::KIND, 1) {
        return Err(PostError { task: back(body), reason });
    }
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::of_runtime(shared) };
    let task = create_unowned(shared, worker, body, Order::plain(Location::caller()));
    match worker {
        Some(worker) => worker.accept(task),
        None => shared.inject(task),
    }
    Ok(())
}

#[track_caller]
fn post_bodies<B: Body<Output = ()>, F>(
    shared: &Shared,
    tasks: Vec<F>,
    body: impl Fn(F) -> B,
) -> Result<usize, PostError<Vec<F>>> {
    if tasks.is_empty() {
        return Ok(0);
    }
    if let Some(reason) = refusal(shared, B::KIND, tasks.len()) {
        return Err(PostError { task: tasks, reason });
    }
    let (site, count) = (Location::caller(), tasks.len());
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::of_runtime(shared) };
    let create = |task| create_unowned(shared, worker, body(task), Order::plain(site));
    shared.push_many(B::KIND, tasks.into_iter().map(create));
    Ok(count)
}

/// Makes a task for one worker, if it can be reached, and sends it.
fn reach<T, C, M: IntoTask>(
    shared: &Shared,
    worker: WorkerId,
    task: T,
    create: C,
) -> Result<M, PostError<T>>
where
    C: FnOnce(&Shared, Option<&Worker>, u32, T) -> M,
{
    let refuse = |task, reason| Err(PostError { task, reason });
    let slot = match shared.slot_of_worker(worker) {
        Ok(slot) => slot,
        Err(obstacle) => return refuse(task, obstacle.into()),
    };
    if !admit(shared, 1) {
        return refuse(task, PostRefusal::ShutDown);
    }
    // SAFETY: used within this call only.
    let here = unsafe { Worker::of_runtime(shared) };
    let inside = match shared.slots[slot].gate.enter(worker.generation) {
        Ok(inside) => inside,
        Err(closed) => {
            // SAFETY: the unit that was just taken.
            unsafe { Group::leave(Arc::as_ptr(&shared.root)) };
            return refuse(task, Obstacle::from(closed).into());
        }
    };
    let made = create(shared, here, slot as u32, task);
    match here {
        // Not before what this thread has posted when it was no worker, and still lies there.
        Some(here) if here.index() == slot && here.slot().mailbox.is_empty() => {
            here.keep(made.task());
        }
        _ => {
            // SAFETY: the entry is pushed once, and the task lives until it is popped (T4).
            unsafe { shared.slots[slot].mailbox.push(made.task().0) };
            drop(inside);
            shared.wake_slot(slot);
        }
    }
    Ok(made)
}

/// What a task for one worker is known by to who posts it.
trait IntoTask {
    fn task(&self) -> RawTask;
}

impl IntoTask for RawTask {
    fn task(&self) -> RawTask {
        *self
    }
}

impl<T> IntoTask for JoinHandle<T> {
    fn task(&self) -> RawTask {
        self.raw()
    }
}

/// A closure that waits for its time.
struct Delayed<F> {
    at: Instant,
    /// Pinned with `self`.
    timer: Timer,
    preference: Preference,
    first: bool,
    closure: Option<F>,
}

impl<F: FnOnce() -> T, T> Future for Delayed<F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the timer is not moved, and nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned with `self`.
        let mut timer = unsafe { Pin::new_unchecked(&mut this.timer) };
        let first = std::mem::replace(&mut this.first, false);
        let (at, preference) = (this.at, this.preference);
        let due = match timer.as_mut().poll(cx.waker()) {
            Polled::Fired => Poll::Ready(()),
            Polled::Waits => Poll::Pending,
            Polled::Idle => crate::spawn::current(|shared, _, _| {
                let registered = shared.register_timer(timer, at, cx.waker().clone(), preference);
                // `None` where the runtime gave up on its tasks (O1): it is dropped with the others.
                registered.unwrap_or(Poll::Pending)
            }),
        };
        match due {
            // O4: the poster's thread only registers.
            Poll::Ready(()) if first => cx.waker().wake_by_ref(),
            Poll::Ready(()) => {
                let closure = this.closure.take().expect("polled until it is ready");
                return Poll::Ready(closure());
            }
            Poll::Pending => {}
        }
        Poll::Pending
    }
}

#[track_caller]
fn post_later<F, T>(
    shared: &Shared,
    delay: Duration,
    task: F,
    preference: Preference,
) -> Result<JoinHandle<T>, PostError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match refusal(shared, Kind::Future, 1) {
        Some(reason) => Err(PostError { task, reason }),
        None => Ok(wait_and_call(shared, delay, task, preference)),
    }
}

/// Has a task that was admitted wait for its time (O4).
#[track_caller]
fn wait_and_call<F, T>(
    shared: &Shared,
    delay: Duration,
    task: F,
    preference: Preference,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let site = Location::caller();
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::of_runtime(shared) };
    let now = shared.clock.now();
    // As long as the longest that a clock can tell: the wheel knows it as never.
    let at = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()));
    let closure = Some(task);
    let delayed = Delayed { at, timer: Timer::new(), preference, first: true, closure };
    let body = FutureBody(delayed);
    let handle = create_with(shared, worker, &shared.root, body, Order::plain(site));
    // SAFETY: the handle keeps the cell alive.
    let start = unsafe { handle.raw().header() }.state.start();
    // SAFETY: that was the start, and nobody has the entry.
    let ran = unsafe { handle.raw().execute(start, u32::MAX) };
    // C4 of `count`: a thread that is no worker has no loop that settles.
    Group::settle();
    if ran == Ran::Requeue {
        shared.inject(handle.raw());
    }
    handle
}

/// As `post_delayed`, on the wheel of the worker that calls; in the end it runs `task` on that worker, or
/// where its timer went when that was detached.
#[track_caller]
pub(crate) fn post_later_here<F: FnOnce() + Send + 'static>(
    worker: &Worker,
    delay: Duration,
    task: F,
) -> Result<JoinHandle<()>, PostError<F>> {
    let shared = worker.shared();
    // Once, with the task in hand: a runtime may begin to end between two looks.
    if let Some(reason) = refusal(shared, Kind::Future, 1) {
        return Err(PostError { task, reason });
    }
    let (handle, id) = (Handle::of(shared.clone()), shared.id_of_slot(worker.index()));
    let come_home = move || {
        // SAFETY: used within this call only.
        let here = unsafe { Worker::of_runtime(handle.shared()) };
        if here.is_some_and(|worker| worker.index() == id.slot as usize) {
            return task();
        }
        if let Err(error) = handle.post_to(id, task) {
            (error.task)();
        }
    };
    Ok(wait_and_call(shared, delay, come_home, Preference::Here))
}

/// Keeps a closure for the worker of this thread alone.
#[track_caller]
pub(crate) fn post_here<F: FnOnce() + 'static>(
    worker: &Worker,
    task: F,
) -> Result<(), PostError<F>> {
    let shared = worker.shared();
    if worker.is_closing() {
        return Err(PostError { task, reason: PostRefusal::Leaving });
    }
    if !admit(shared, 1) {
        return Err(PostError { task, reason: PostRefusal::ShutDown });
    }
    let body = PostedBody { slot: worker.index() as u32, closure: task };
    worker.keep(create_unowned(shared, Some(worker), body, Order::plain(Location::caller())));
    Ok(())
}

/// Puts a closure where the worker of this thread runs it next to its other tasks, and others may steal it.
#[track_caller]
pub(crate) fn post_near<F: FnOnce() + Send + 'static>(
    worker: &Worker,
    task: F,
) -> Result<(), PostError<F>> {
    let shared = worker.shared();
    if !admit(shared, 1) {
        return Err(PostError { task, reason: PostRefusal::ShutDown });
    }
    let order = Order::plain(Location::caller());
    if worker.runs_futures() {
        let task = create_unowned(shared, Some(worker), MicroBody(task), order);
        worker.push_ring(task);
        shared.notify(worker.lane());
    } else {
        worker.push_job(create_unowned(shared, Some(worker), JobBody(task), order));
    }
    Ok(())
}
