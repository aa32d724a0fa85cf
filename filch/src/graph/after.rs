//! Tasks that come after others, made on the fly: a graph that is run while it is built, once.
//!
//! Q1. A dependent is a job that is not queued before all that it comes after has ended. It has a unit of its group
//!     from the beginning, so whoever waits for the group waits for it.
//! Q2. If one of them panicked or was cancelled, the dependent is dropped unrun, and counts as cancelled; so do those that come after it.
//! Q3. Dependents are told when the task is DONE, while it still has its unit (B2 of `task/body`).
//!
//! Not here: who is last and how that is found out (`knot`).

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::knot::Knot;
use crate::scope::Scope;
use crate::spawn::{self, Takers, TaskBuilder, create_waiting, reject};
use crate::task::body::Body;
use crate::task::header::{Begins, Kind, RawTask, TaskId, TaskRef};
use crate::task::join::{JoinError, JoinHandle, Outcome};
use crate::task::state::Fate;
use crate::task::waker::{begin_task, cancel_task};
use crate::wait::Waitable;

/// Spawns a closure on the job lane, into the current group, that begins when all of `dependencies` have ended.
///
/// Those are tasks of `spawn_after` themselves, by [`Dependent`] or [`Milestone`]: one, or a tuple, an array, a slice or a vector of them;
/// `()` for none. They may have ended already. Whoever waits for the group waits for the task too, as for any other.
///
/// If a dependency panics or is cancelled, the closure is dropped unrun and the task counts as cancelled, and so do
/// those after it; the panic itself goes to whoever has the handle of the task that panicked, or else to its group.
///
/// ```
/// use filch::spawn_after;
/// use std::sync::Mutex;
/// static STEPS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
/// let step = |name| move || STEPS.lock().unwrap().push(name);
/// let shop = spawn_after((), step("shop"));
/// let chop = spawn_after(&shop, step("chop"));
/// let boil = spawn_after(&shop, step("boil"));
/// let cook = spawn_after((&chop, &boil), step("cook"));
/// cook.wait();
/// let steps = STEPS.lock().unwrap();
/// assert_eq!((steps[0], steps[3]), ("shop", "cook"));
/// ```
#[track_caller]
pub fn spawn_after<F, T>(dependencies: impl Dependencies, job: F) -> Dependent<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn::task().spawn_after(dependencies, job)
}

impl TaskBuilder {
    /// Spawns a closure that begins when all of `dependencies` have ended; see [`spawn_after`](crate::spawn_after). A runtime that is
    /// closing drops it, and the handle reports it as cancelled.
    ///
    /// ```
    /// let first = filch::task().name("first").spawn_after((), || 1);
    /// let second = filch::task().name("second").spawn_after(&first, || 2);
    /// assert_eq!(second.name(), Some("second"));
    /// assert_eq!(filch::wait((first, second)), (1, 2));
    /// ```
    #[track_caller]
    pub fn spawn_after<F, T>(self, dependencies: impl Dependencies, job: F) -> Dependent<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let site = Location::caller();
        let (milestone, body) = prepare(job);
        match self.try_create(body, site, Takers::AnyTime, create_waiting) {
            Ok(handle) => {
                milestone.follow(handle.raw(), &dependencies);
                Dependent { handle, milestone }
            }
            Err(unmade) => Dependent { handle: reject(unmade, site), milestone },
        }
    }
}

impl<'scope> Scope<'scope> {
    /// Spawns a closure on the job lane that begins when all of `dependencies` have ended; see
    /// [`spawn_after`](crate::spawn_after). It gets the scope, to spawn more.
    ///
    /// ```
    /// let (mut text, line) = (String::from("one"), "two");
    /// filch::scope(|s| {
    ///     let text = std::sync::Arc::new(std::sync::Mutex::new(&mut text));
    ///     let first = s.spawn_after((), { let text = text.clone(); move |_| text.lock().unwrap().push(' ') });
    ///     s.spawn_after(first, move |_| text.lock().unwrap().push_str(line));
    /// });
    /// assert_eq!(text, "one two");
    /// ```
    #[track_caller]
    pub fn spawn_after<F>(&self, dependencies: impl Dependencies, job: F) -> Milestone
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let (milestone, body) = prepare(self.child(job));
        let handle = self.create_by(body, Location::caller(), create_waiting);
        milestone.follow(handle.raw(), &dependencies);
        milestone
    }
}

/// A closure that is to come after others, as a body, and its end.
fn prepare<F>(job: F) -> (Milestone, After<F>) {
    let milestone = Milestone(Arc::new(Knot::new()));
    let body = After { job, milestone: milestone.to_raw() };
    (milestone, body)
}

/// A dependent, as the task sees it.
struct After<F> {
    job: F,
    milestone: RawMilestone,
}

/// The task's own reference to its milestone, given up when it has ended.
#[derive(Clone, Copy)]
struct RawMilestone(*const Knot<TaskRef>);

// SAFETY: a reference to what is `Send` and `Sync`.
unsafe impl Send for RawMilestone {}

impl From<RawMilestone> for Option<u32> {
    fn from(_: RawMilestone) -> Self {
        None
    }
}

impl<F: FnOnce() -> T, T> Body for After<F> {
    type Output = T;
    type Slot = RawMilestone;
    const KIND: Kind = Kind::Job;
    const BEGINS: Begins = Begins::WhenAsked;
    const STAYS: bool = false;

    unsafe fn run(this: *mut Self, _: RawTask) -> Poll<T> {
        // SAFETY: the caller owns the body, and by `STAYS` nobody reads it again.
        let body = unsafe { this.read() };
        Poll::Ready((body.job)())
    }

    fn slot(&self) -> RawMilestone {
        self.milestone
    }

    /// Q3.
    fn ended(RawMilestone(knot): RawMilestone, fate: Fate) {
        // SAFETY: from `Milestone::to_raw`, and a task ends once.
        let knot = unsafe { Arc::from_raw(knot) };
        knot.end(fate, fire);
    }
}

/// A task that is told what it comes after. If that panics it never begins.
struct Tying<'a> {
    knot: &'a Knot<TaskRef>,
    task: Option<TaskRef>,
    fate: Fate,
}

impl Drop for Tying<'_> {
    fn drop(&mut self) {
        let task = self.task.take().expect("dropped once");
        // SAFETY: made by `Milestone::follow`, for the one who ties the knot.
        unsafe { self.knot.finish_tying(task, self.fate, fire) };
    }
}

/// All that the task comes after has ended.
fn fire(task: &TaskRef, fate: Fate) {
    match fate {
        // SAFETY: the reference keeps the cell alive.
        Fate::Done => unsafe { begin_task(task.raw()) },
        // SAFETY: as above.
        Fate::Failed => unsafe { cancel_task(task.raw()) },
    }
}

/// The end of a task of [`spawn_after`], as something that others can come after; cloned freely.
///
/// It keeps neither the task's closure nor its output, only the memory for them; [`Dependent::milestone`] makes it.
///
/// ```
/// use filch::graph::Milestone;
/// let first = filch::spawn_after((), || 1);
/// let done: Milestone = first.milestone();
/// let other = std::thread::spawn(move || filch::spawn_after(done, || 2).wait());
/// assert_eq!((first.wait(), other.join().unwrap()), (1, 2));
/// ```
#[derive(Clone)]
pub struct Milestone(Arc<Knot<TaskRef>>);

impl Milestone {
    fn to_raw(&self) -> RawMilestone {
        RawMilestone(Arc::into_raw(self.0.clone()))
    }

    /// Has the task of this milestone begin after `dependencies`.
    fn follow(&self, task: RawTask, dependencies: &impl Dependencies) {
        // SAFETY: the caller's handle keeps the cell alive.
        let task = unsafe { TaskRef::new(task) };
        let mut tying = Tying { knot: &self.0, task: Some(task), fate: Fate::Failed };
        dependencies.each(&mut |dependency| self.0.tie(&dependency.0));
        tying.fate = Fate::Done;
    }

    /// Whether the task has ended, one way or another.
    ///
    /// ```
    /// let task = filch::spawn_after((), || 1);
    /// let end = task.milestone();
    /// task.wait();
    /// assert!(end.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        // The task says so itself: dependents are told a moment later (Q3), and its handle may have been asked meanwhile.
        self.0.fate().is_some() || self.0.who().is_some_and(|task| task.header().state.is_done())
    }
}

impl fmt::Debug for Milestone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Milestone").field("fate", &self.0.fate()).finish()
    }
}

/// The handle of a task of [`spawn_after`]: the right to its output, and something that later ones can come after.
///
/// As with a [`JoinHandle`], awaiting it gives the output, a panic continues in whoever awaits, and dropping it neither cancels the
/// task nor takes it out of its group.
///
/// ```
/// let a = filch::spawn_after((), || 6);
/// let b = filch::spawn_after(&a, || 7);
/// assert_eq!(filch::block_on(async { a.await * b.await }), 42);
/// ```
///
/// # Panics
/// Awaiting a task that was cancelled panics; [`Dependent::outcome`] tells it apart.
pub struct Dependent<T> {
    handle: JoinHandle<T>,
    milestone: Milestone,
}

impl<T> Dependent<T> {
    /// The task's end, for others to come after it, wherever they are spawned.
    ///
    /// ```
    /// let first = filch::spawn_after((), || "first");
    /// let ends = vec![first.milestone()];
    /// drop(first);
    /// assert_eq!(filch::spawn_after(&ends, || "second").wait(), "second");
    /// ```
    pub fn milestone(&self) -> Milestone {
        self.milestone.clone()
    }

    /// Whether the task has ended, one way or another.
    ///
    /// ```
    /// let first = filch::spawn_after((), || ());
    /// filch::spawn_after(&first, || ()).wait();
    /// assert!(first.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Has the task dropped unrun, if it has not begun: at once, also while it waits for others.
    ///
    /// ```
    /// let (open, gate) = std::sync::mpsc::channel::<()>();
    /// let first = filch::spawn_after((), move || gate.recv());
    /// let second = filch::spawn_after(&first, || unreachable!());
    /// second.cancel();
    /// assert!(second.wait_outcome().unwrap_err().is_cancelled());
    /// open.send(()).unwrap();
    /// # first.wait().unwrap();
    /// ```
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// The task's id.
    ///
    /// ```
    /// let task = filch::spawn_after((), filch::current_id);
    /// let id = task.id();
    /// assert_eq!(task.wait(), Some(id));
    /// ```
    pub fn id(&self) -> TaskId {
        self.handle.id()
    }

    /// The name the task was given, if any.
    ///
    /// ```
    /// assert_eq!(filch::task().name("a").spawn_after((), || ()).name(), Some("a"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.handle.name()
    }

    /// A future of the outcome as a `Result` that tells a panic from a cancellation.
    ///
    /// ```
    /// let bad = filch::spawn_after((), || panic!("no"));
    /// let late = filch::spawn_after(&bad, || ());
    /// filch::block_on(async {
    ///     assert!(late.outcome().await.unwrap_err().is_cancelled());
    ///     assert!(bad.outcome().await.unwrap_err().is_panic());
    /// });
    /// ```
    pub fn outcome(self) -> Outcome<T> {
        self.handle.outcome()
    }

    /// Blocks until the task has ended and returns its output, from any thread; see [`JoinHandle::wait`].
    ///
    /// ```
    /// assert_eq!(filch::spawn_after((), || 6 * 7).wait(), 42);
    /// ```
    ///
    /// # Panics
    /// If the task panicked, with its panic, or was cancelled.
    #[track_caller]
    pub fn wait(self) -> T {
        self.handle.wait()
    }

    /// As [`Dependent::wait`], but tells a panic from a cancellation.
    ///
    /// ```
    /// assert!(filch::spawn_after((), || panic!("oh")).wait_outcome().unwrap_err().is_panic());
    /// ```
    ///
    /// # Errors
    /// If the task panicked or was cancelled.
    pub fn wait_outcome(self) -> Result<T, JoinError> {
        self.handle.wait_outcome()
    }
}

impl<T> Future for Dependent<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<T> Waitable for Dependent<T> {
    type Output = T;

    fn wait_ends(&mut self) {
        self.handle.wait_ends();
    }

    fn ends(&mut self) -> impl Future<Output = ()> {
        self.handle.ends()
    }

    fn take_all(self) -> T {
        self.handle.take_all()
    }
}

impl<T> fmt::Debug for Dependent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dependent").field(&self.handle).finish()
    }
}

/// What a task of [`spawn_after`] comes after: nothing, a [`Dependent`] or [`Milestone`], or several.
///
/// ```
/// let rows: Vec<_> = (0..3).map(|row| filch::spawn_after((), move || row)).collect();
/// let last = filch::spawn_after(&rows, || "all rows");
/// assert_eq!(last.wait(), "all rows");
/// ```
pub trait Dependencies {
    /// Calls `f` with the end of each of them.
    fn each(&self, f: &mut impl FnMut(&Milestone));
}

impl Dependencies for () {
    fn each(&self, _: &mut impl FnMut(&Milestone)) {}
}

impl Dependencies for Milestone {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        f(self);
    }
}

impl<T> Dependencies for Dependent<T> {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        f(&self.milestone);
    }
}

impl<D: Dependencies + ?Sized> Dependencies for &D {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        (**self).each(f);
    }
}

impl<D: Dependencies> Dependencies for Option<D> {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        self.iter().for_each(|dependency| dependency.each(f));
    }
}

impl<D: Dependencies> Dependencies for [D] {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        self.iter().for_each(|dependency| dependency.each(f));
    }
}

impl<D: Dependencies, const K: usize> Dependencies for [D; K] {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        self.as_slice().each(f);
    }
}

impl<D: Dependencies> Dependencies for Vec<D> {
    fn each(&self, f: &mut impl FnMut(&Milestone)) {
        self.as_slice().each(f);
    }
}

macro_rules! tuple_of_dependencies {
    ($($($name:ident $place:tt),*;)*) => {$(
        impl<$($name: Dependencies),*> Dependencies for ($($name,)*) {
            fn each(&self, f: &mut impl FnMut(&Milestone)) {
                $(self.$place.each(f);)*
            }
        }
    )*};
}

tuple_of_dependencies! {
    A 0; A 0, B 1; A 0, B 1, C 2; A 0, B 1, C 2, D 3; A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5; A 0, B 1, C 2, D 3, E 4, F 5, G 6; A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}
