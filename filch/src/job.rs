//! Jobs with children: the public face.
//!
//! A job joins the group that is current where it is *run*, as a spawn does; it counts in its parent
//! from its run to its end. So nothing waits for a job that nobody runs (N2), and what is wrong shows:
//!
//! M1. To wait for a job that was never run, to run one twice, to run a child whose parent has ended,
//!     and to wait for a job from inside of it panic, and name the site where it was made.
//! M2. `run_and_wait` calls the closure where it is: it is in no queue, and costs none.
//! M3. A loop splits in two until a piece has `grain` steps or fewer. What is split is the number of
//!     the step and not the index, so every piece begins on a multiple of the step.
//!     All pieces are children of the loop, which is what is waited for.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{Location, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::fork;
use crate::sched::blocking::{run_launched, wait_for_job};
use crate::sched::shared::{Phase, Shared};
use crate::sched::worker::Worker;
use crate::spawn::{self, admit};
use crate::task::body::{Failure, unwind_cancelled};
use crate::task::context;
use crate::task::group::{Group, guard_user_code};
use crate::task::header::{Ran, RawTask, TaskId};
use crate::task::job::{self, Called, End, Job, Seed};
use crate::task::state::{Launch, PutBack, Sight, Start, State};
use crate::task::waker::cancel_task;

impl Job {
    /// Makes a job without a parent. It does nothing until it is run.
    ///
    /// The closure receives its own handle, to add children.
    ///
    /// ```
    /// use filch::Job;
    /// let (tx, rx) = std::sync::mpsc::channel();
    /// let job = Job::new(move |_| tx.send(42).unwrap());
    /// job.clone().run();
    /// job.wait();
    /// assert_eq!(rx.try_recv(), Ok(42));
    /// ```
    #[track_caller]
    pub fn new(closure: impl FnOnce(&Job) + Send + 'static) -> Self {
        make(None, closure, Location::caller())
    }

    /// Makes a child of `parent`, which does not end before a child that was run.
    ///
    /// ```
    /// use filch::Job;
    /// let parent = Job::new(|_| println!("perhaps before its children, perhaps after"));
    /// for name in ["left", "right"] {
    ///     Job::child_of(&parent, move |_| println!("{name}")).run();
    /// }
    /// parent.run_and_wait(); // all three lines are there
    /// ```
    #[track_caller]
    pub fn child_of(parent: &Job, closure: impl FnOnce(&Job) + Send + 'static) -> Self {
        parent.header().state.add_ref();
        make(Some(parent), closure, Location::caller())
    }

    /// Makes a child of this job; see [`Job::child_of`].
    ///
    /// ```
    /// filch::Job::new(|job| job.child(|_| println!("below")).run()).run_and_wait();
    /// ```
    #[track_caller]
    pub fn child(&self, closure: impl FnOnce(&Job) + Send + 'static) -> Self {
        Self::child_of(self, closure)
    }

    /// Makes a child of this job and runs it: cheaper than [`Job::child`] and [`Job::run`].
    ///
    /// ```
    /// filch::Job::new(|job| for i in 0..8 { job.run_child(move |_| println!("{i}")) }).run_and_wait();
    /// ```
    ///
    /// # Panics
    /// If this job has ended. Inside of it, and before it is run, it has not.
    #[track_caller]
    pub fn run_child(&self, closure: impl FnOnce(&Job) + Send + 'static) {
        let site = Location::caller();
        self.enter_or_panic(site);
        run_at_once(self, closure, site);
    }

    /// Makes a job that calls `body` for each index of `range`, in parallel and in no order.
    ///
    /// Pieces of `grain` indices or fewer are not split. A `grain` of 0 is taken as 1.
    ///
    /// ```
    /// use filch::Job;
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering::Relaxed}};
    /// let sum = Arc::new(AtomicUsize::new(0));
    /// let total = sum.clone();
    /// let squares = Job::for_each(0..100, 8, move |i| { total.fetch_add(i * i, Relaxed); });
    /// squares.clone().run(); // goes on meanwhile
    /// squares.wait();
    /// assert_eq!(sum.load(Relaxed), 328_350);
    /// ```
    #[track_caller]
    pub fn for_each(
        range: Range<usize>,
        grain: usize,
        body: impl Fn(usize) + Send + Sync + 'static,
    ) -> Self {
        let steps = Steps::new(range, 1, grain);
        make(None, move |job| steps.run(job, &Arc::new(body)), Location::caller())
    }

    /// As [`Job::for_each`], as a child of this job.
    ///
    /// ```
    /// filch::Job::new(|job| job.for_each_child(0..64, 8, |i| assert!(i < 64)).run()).run_and_wait();
    /// ```
    #[track_caller]
    pub fn for_each_child(
        &self,
        range: Range<usize>,
        grain: usize,
        body: impl Fn(usize) + Send + Sync + 'static,
    ) -> Self {
        self.for_each_step_child(range, 1, grain, body)
    }

    /// As [`Job::for_each_child`], for each `step`-th index of `range`, from its first. A piece is
    /// `grain` steps or fewer.
    ///
    /// ```
    /// use filch::Job;
    /// use std::sync::{Arc, Mutex};
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let list = seen.clone();
    /// Job::new(move |job| {
    ///     job.for_each_step_child(1..14, 5, 1, move |i| list.lock().unwrap().push(i)).run();
    /// }).run_and_wait();
    /// seen.lock().unwrap().sort();
    /// assert_eq!(*seen.lock().unwrap(), [1, 6, 11]);
    /// ```
    ///
    /// # Panics
    /// If `step` is 0.
    #[track_caller]
    pub fn for_each_step_child(
        &self,
        range: Range<usize>,
        step: usize,
        grain: usize,
        body: impl Fn(usize) + Send + Sync + 'static,
    ) -> Self {
        let steps = Steps::new(range, step, grain);
        Self::child_of(self, move |job| steps.run(job, &Arc::new(body)))
    }

    /// Runs the job: queues its closure on the job lane, in the current group. The handle is given up;
    /// clone it first to wait for the job later.
    ///
    /// A runtime that is closing drops the closure, and the job counts as cancelled.
    ///
    /// ```
    /// let job = filch::Job::new(|_| ());
    /// job.clone().run();
    /// job.wait();
    /// ```
    ///
    /// # Panics
    /// If the job was run before, or is a child whose parent has ended: run children before their
    /// parent, or from inside of it.
    #[track_caller]
    pub fn run(self) {
        self.launch(Launch::Queued, Location::caller());
        // The job has the reference.
        std::mem::forget(self);
    }

    /// Runs the job on this thread, and waits until it and all its children have ended.
    ///
    /// ```
    /// let (tx, rx) = std::sync::mpsc::channel();
    /// filch::Job::new(move |job| job.run_child(move |_| tx.send(1).unwrap())).run_and_wait();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    ///
    /// # Panics
    /// As [`Job::run`] and [`Job::wait`].
    #[track_caller]
    pub fn run_and_wait(self) {
        let made_at = self.header().site();
        let this = match self.call_here() {
            Called::Ended(end) => return conclude(end, made_at),
            Called::Open(this) => this,
            Called::NotAlone(this) => {
                this.launch(Launch::Here, Location::caller());
                this
            }
        };
        this.wait_end();
    }

    /// M2, where that is all there is to it: inside a task on a compute worker.
    #[inline]
    fn call_here(self) -> Called {
        let (task, group) = context::with(|cx| (cx.task.get(), cx.group.get()));
        // SAFETY: X2, whoever set it keeps the group.
        let Some(current) = (unsafe { group.as_ref() }) else { return Called::NotAlone(self) };
        // SAFETY: used within this call only.
        let worker = unsafe { Worker::of_runtime(current.home().shared.cast()) };
        let Some(worker) = worker.filter(|worker| worker.runs_jobs() && !task.is_null()) else {
            return Called::NotAlone(self);
        };
        let ends = current.is_cancelled() || worker.shared().phase() >= Phase::Aborting;
        if ends || self.parent().is_some() {
            return Called::NotAlone(self);
        }
        // SAFETY: the group is current, and there is no parent.
        unsafe { self.call_alone(group) }
    }

    /// Blocks until the job and all its children have ended, from any thread.
    ///
    /// A job that has not started is run here. On a worker, jobs below it are run meanwhile if they lie
    /// in its own queue; then a spare takes the worker's place.
    ///
    /// ```
    /// let job = filch::Job::for_each(0..100, 10, |i| assert!(i < 100));
    /// job.clone().run();
    /// job.wait();
    /// ```
    ///
    /// # Panics
    /// If the job was never run; from inside of it or of a job below; if it was cancelled; if it
    /// panicked or a job below did whose handle nobody kept, with that panic for the first who waits.
    #[track_caller]
    pub fn wait(&self) {
        if self.header().state.is_fresh() {
            panic!("waits for a job that was never run, made at {}", self.header().site());
        }
        self.refuse_from_inside();
        self.wait_end();
    }

    /// Whether the job and all its children have ended.
    ///
    /// ```
    /// let job = filch::Job::new(|_| ());
    /// assert!(!job.is_finished());
    /// job.clone().run_and_wait();
    /// assert!(job.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        self.is_closed()
    }

    /// The job's id, as in reports.
    ///
    /// ```
    /// assert_ne!(filch::Job::new(|_| ()).id(), filch::Job::new(|_| ()).id());
    /// ```
    pub fn id(&self) -> TaskId {
        self.header().id
    }

    #[track_caller]
    fn wait_end(&self) {
        wait_for_job(self);
        conclude(self.take_end(), self.header().site());
    }

    /// M1: a job cannot end before what waits for it inside of it.
    #[track_caller]
    fn refuse_from_inside(&self) {
        let running = context::with(|cx| cx.task.get());
        // SAFETY: X1, the frame that set it runs the task, so its cell is alive.
        let tree = unsafe { running.as_ref() }.is_some_and(|header| header.vtable.tree.is_some());
        let Some(running) = NonNull::new(running.cast_mut()).filter(|_| tree) else { return };
        // SAFETY: as above; the reference is not dropped.
        let running = ManuallyDrop::new(unsafe { Job::from_owned(RawTask(running)) });
        if !self.is_closed() && (running.raw() == self.raw() || running.is_below(self)) {
            panic!("waits from inside for the job made at {}", self.header().site());
        }
    }

    #[track_caller]
    fn enter_or_panic(&self, child: &'static Location<'static>) {
        if !self.enter() {
            refuse_child(child, self);
        }
    }

    /// Launches the job; `how` says what becomes of the reference of `self`.
    #[track_caller]
    fn launch(&self, how: Launch, at: &'static Location<'static>) {
        let made_at = self.header().site();
        if !self.header().state.is_fresh() {
            panic!("the job made at {made_at} is run twice, here at {at}");
        }
        let alone = self.header().state.is_fresh_alone();
        let parent = self.parent();
        if let Some(parent) = &parent {
            // N1: whoever launches it drops the reference to the parent.
            if !alone && !self.header().state.reserve() {
                panic!("the job made at {made_at} is run twice, here at {at}");
            }
            if !parent.enter() {
                if !alone {
                    self.header().state.unreserve();
                }
                refuse_child(made_at, parent);
            }
        }
        let launched = spawn::current(|shared, group, member| {
            if admit(shared, group, member) {
                self.launch_in(shared, group, how)
            } else {
                self.launch_nowhere(how)
            }
        });
        match (launched, parent) {
            (Launched::Yes, None) => {}
            // SAFETY: launched just now, once.
            (Launched::Yes, Some(parent)) => unsafe { parent.forget_fresh_child() },
            (Launched::Before, parent) => {
                debug_assert!(parent.is_none(), "a child is reserved by who launches it");
                panic!("the job made at {made_at} is run twice, here at {at}");
            }
        }
    }

    /// Queues or calls the closure as a member of `group`, which has given it a unit.
    fn launch_in(&self, shared: &Shared, group: &Group, how: Launch) -> Launched {
        let (task, state) = (self.raw(), &self.header().state);
        if !self.settle_in(group, how) {
            // SAFETY: the unit that the job did not take.
            unsafe { Group::leave(group) };
            return Launched::Before;
        }
        if how == Launch::Here {
            let aborting = shared.phase() >= Phase::Aborting;
            let start =
                if aborting || group.is_cancelled() { Start::Cancelled } else { Start::Run };
            // SAFETY: `settle_in` gave us the body.
            unsafe { run_launched(self, start) };
            return Launched::Yes;
        }
        debug_assert!(!state.is_fresh());
        queue(shared, group, task);
        Launched::Yes
    }

    /// Ends being fresh, as a member of `group`; false if the job was launched before.
    fn settle_in(&self, group: *const Group, how: Launch) -> bool {
        let header = self.header();
        if header.state.is_fresh_alone() {
            // SAFETY: fresh, and nobody else has a handle.
            unsafe { header.join_group(group) };
            return header.state.launch_alone(how);
        }
        if !header.state.seize(how) {
            return false;
        }
        // SAFETY: seized, and nobody follows the group of a job that is neither queued nor done.
        unsafe { header.join_group(group) };
        if how == Launch::Queued {
            let put_back = header.state.put_back();
            debug_assert_eq!(put_back, PutBack::Push, "a fresh job has no entry");
        }
        true
    }

    /// A runtime that is closing takes no job: it ends as cancelled.
    fn launch_nowhere(&self, how: Launch) -> Launched {
        let group = Group::nowhere();
        if !self.header().state.seize(how) {
            return Launched::Before;
        }
        // SAFETY: seized just now.
        unsafe { self.header().join_group(Arc::as_ptr(&group)) };
        // Not as the group's member: there is no runtime that the closure's drop could spawn into.
        // SAFETY: seized, so the body is ours.
        let ran = unsafe { (self.header().vtable.abandon)(self.raw(), Failure::Cancelled) };
        debug_assert!(matches!(ran, Ran::Ended(_)));
        // SAFETY: the group's one unit, which was the job's.
        unsafe { Group::leave(Arc::as_ptr(&group)) };
        Launched::Yes
    }
}

/// Lets what came of the job made at `made_at` continue in whoever waited for it.
#[track_caller]
fn conclude(end: End, made_at: &'static Location<'static>) {
    match end {
        End::Fine => {}
        End::Panicked(panicked) => resume_unwind(panicked.fallout.payload),
        End::PanickedBefore => {
            panic!("the job made at {made_at} panicked, and was waited for before")
        }
        End::Cancelled => unwind_cancelled("the job or one below it was cancelled"),
    }
}

/// M1: the child made at `child` comes too late.
#[track_caller]
fn refuse_child(child: &'static Location<'static>, parent: &Job) -> ! {
    panic!(
        "the job made at {child} is run as a child of the one made at {}, which has ended",
        parent.header().site()
    );
}

/// What came of a launch.
#[must_use]
enum Launched {
    Yes,
    /// The job was run before; nothing has changed.
    Before,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id())
            .field("made_at", &format_args!("{}", self.header().site()))
            .field("fresh", &self.header().state.is_fresh())
            .field("finished", &self.is_closed())
            .finish()
    }
}

/// Makes a fresh job. A reference to the parent is the child's (N1).
fn make<F>(parent: Option<&Job>, closure: F, site: &'static Location<'static>) -> Job
where
    F: FnOnce(&Job) + Send + 'static,
{
    spawn::current(|shared, _, _| {
        let word = State::fresh(shared.now_ms());
        let task = create(shared, std::ptr::null(), word, parent, closure, site);
        // SAFETY: the one reference of `State::fresh`.
        unsafe { Job::from_owned(task) }
    })
}

/// Makes a child of `parent`, which has given it a unit, and queues it.
fn run_at_once<F>(parent: &Job, closure: F, site: &'static Location<'static>)
where
    F: FnOnce(&Job) + Send + 'static,
{
    spawn::current(|shared, group, member| {
        if admit(shared, group, member) {
            let sight = if group.is_tracked() { Sight::Visible } else { Sight::Hidden };
            let word = State::unowned(sight, shared.now_ms());
            let task = create(shared, group, word, Some(parent), closure, site);
            // SAFETY: used within this call only.
            match unsafe { Worker::of_runtime(shared) } {
                // Nobody can be told of a hidden job, nor cancel it.
                Some(worker) if worker.runs_jobs() && sight == Sight::Hidden => {
                    worker.push_job(task);
                }
                _ => queue(shared, group, task),
            }
        } else {
            guard_user_code(|| drop(closure));
            // SAFETY: the child's unit; it was dropped unrun.
            unsafe { parent.leave_cancelled() };
        }
    });
}

fn create<F>(
    shared: &Shared,
    group: *const Group,
    word: u64,
    parent: Option<&Job>,
    closure: F,
    site: &'static Location<'static>,
) -> RawTask
where
    F: FnOnce(&Job) + Send + 'static,
{
    // SAFETY: used within this call only.
    let worker = unsafe { Worker::of_runtime(shared) };
    let cell = spawn::alloc(shared, worker, const { job::layout::<F>() });
    let seed = Seed { id: context::with(|cx| cx.fresh_id()), site, word, group };
    // SAFETY: the cell is fresh and of that layout; the callers see to N1.
    unsafe { job::create(cell, seed, parent, closure) }
}

/// Queues a job whose entry is the caller's to push.
fn queue(shared: &Shared, group: &Group, task: RawTask) {
    if group.is_tracked() {
        // SAFETY: the entry is not pushed yet, so the cell is alive.
        unsafe { group.enlist(task) };
    }
    if shared.phase() >= Phase::Aborting {
        // SAFETY: as above.
        unsafe { cancel_task(task) };
    }
    // SAFETY: used within this call only.
    match unsafe { Worker::of_runtime(shared) } {
        Some(worker) => worker.accept(task),
        None => shared.inject(task),
    }
}

/// The steps of a loop (M3).
#[derive(Debug, Clone)]
struct Steps {
    first: usize,
    step: usize,
    grain: usize,
    /// Numbers of steps.
    numbers: Range<usize>,
}

impl Steps {
    #[track_caller]
    fn new(range: Range<usize>, step: usize, grain: usize) -> Self {
        assert!(step > 0, "a loop needs a step of 1 or more");
        let numbers = 0..range.len().div_ceil(step);
        Self { first: range.start, step, grain: grain.max(1), numbers }
    }

    /// The loop itself: its pieces are its children.
    fn run<B>(self, job: &Job, body: &Arc<B>)
    where
        B: Fn(usize) + Send + Sync + 'static,
    {
        fork::wake_for(self.numbers.len().div_ceil(self.grain));
        self.split(job, body);
    }

    /// Leaves halves to children of `parent` until the rest is small, and does that.
    fn split<B>(mut self, parent: &Job, body: &Arc<B>)
    where
        B: Fn(usize) + Send + Sync + 'static,
    {
        while self.numbers.len() > self.grain {
            let half = self.halve();
            let body = body.clone();
            let entered = parent.enter();
            debug_assert!(entered, "the loop or a piece of it runs");
            let piece = move |piece: &Job| {
                let parent = piece.parent().expect("a piece is a child of its loop");
                half.split(&parent, &body);
            };
            run_at_once(parent, piece, parent.header().site());
        }
        self.numbers.for_each(|number| body(self.first + number * self.step));
    }

    /// Gives its upper half away.
    fn halve(&mut self) -> Self {
        let middle = self.numbers.start + self.numbers.len() / 2;
        let upper = Self { numbers: middle..self.numbers.end, ..self.clone() };
        self.numbers.end = middle;
        upper
    }
}
