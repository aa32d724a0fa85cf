//! How a thread waits without stalling the others.
//!
//! B1. A waiter runs a job only if it is what it waits for (claimed through its handle) or belongs
//!     to the awaited group: never unrelated work under the waiter's locks. A job that was detached
//!     is nobody's to wait for, so it is not run but let go.
//! B2. Before a worker blocks, its ledger is settled (C4), what lies in its newest-task slot is in
//!     its ring, and somebody is told, so that nothing ready depends on the sleeper.
//! B3. While a worker blocks it is out of its crew, so a spare comes if work is ready.
//! B4. Whoever has waited a second for a hive that nobody runs says so on the error output, and goes on waiting: somebody may run it
//!     yet. A wait for a task or a run knows the pool of its runtime. A `block_on` knows that of its own, and polls
//!     once more: a handle that is pending says so in the context if its hive is not run (X9 of `task/context`). A task that awaits
//!     such a handle in a runtime that is run blocks no thread, and nobody tells.
//!
//! A job's entry that this thread pops from its own deque is compared with the awaited group by
//! address only: the job may be a tombstone whose group is gone. (An equal address by accident is
//! harmless: a tombstone says so when it is started.)

use std::io::Write;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::adopt;
use super::crew::Summons;
use super::shared::{Phase, Shared};
use super::worker::Worker;
use crate::base::parker::{Parker, Unparked};
use crate::base::shim::Ordering;
use crate::base::sim;
use crate::pool::Pool;
use crate::task::context::{self, Unserved};
use crate::task::group::{Group, GroupRef};
use crate::task::header::{Kind, RawTask};
use crate::task::job::{Job, call_hidden};
use crate::task::state::{PutBack, Start};

/// A thread's place to sleep in, with a waker to end it.
pub(crate) struct Sleeper {
    parker: Arc<Parker>,
    pub(crate) waker: Waker,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        let parker = Arc::new(Parker::new());
        Self { waker: Waker::from(parker.clone()), parker }
    }

    /// Sleeps until the waker is woken. On a worker thread this is the place where it blocks.
    pub(crate) fn sleep(&self) {
        let _out = Out::of_this_thread();
        self.parker.park();
    }

    /// As `sleep`, but not past the deadline; false if that has passed.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> bool {
        let _out = Out::of_this_thread();
        self.parker.park_until(Some(deadline)) == Unparked::Token
    }
}

/// How long a wait for a hive that nobody runs takes before somebody is told. By a person's measure.
const NOTICE: Duration = Duration::from_secs(1);

/// Whether a `block_on` that sleeps should say what it waits for (B4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    NotDue,
    /// After one more poll, so that what is pending by then says whether nobody runs its hive.
    Due,
}

impl Sleeper {
    /// As `sleep`, where a hive may be `suspected`. After a second `missing` says what is waited for, if nobody runs its hive (B4).
    fn sleep_or_tell(&self, suspected: bool, missing: impl FnOnce() -> Option<String>) {
        if suspected && !sim::is_on() {
            let notice = sim::now().checked_add(NOTICE);
            if notice.is_some_and(|notice| self.sleep_until(notice)) {
                return;
            }
            if let Some(what) = missing() {
                tell_that_nobody_runs(&what);
            }
        }
        self.sleep();
    }

    /// As `sleep`, of a wait for what lives in that runtime's pool (B4).
    fn sleep_for(&self, pool: &Pool, what: impl FnOnce() -> String) {
        self.sleep_or_tell(pool.is_unserved(), || pool.is_unserved().then(what));
    }

    /// As `sleep`, of a `block_on` after a poll (B4). It may return early, with a notice that wants another poll.
    pub(crate) fn sleep_in_block_on(&self, notice: &mut Notice) {
        match std::mem::replace(notice, Notice::NotDue) {
            Notice::Due => {
                let pending =
                    context::with(|cx| cx.unserved.take()).map(|pending| pending.to_string());
                let what = pending.or_else(|| is_unserved_here().then(|| "a `block_on`".into()));
                if let Some(what) = what {
                    tell_that_nobody_runs(&what);
                }
            }
            Notice::NotDue if Pool::is_any_unserved() && !sim::is_on() => {
                let end = sim::now().checked_add(NOTICE);
                if !end.is_some_and(|end| self.sleep_until(end)) {
                    *notice = Notice::Due;
                }
                return;
            }
            Notice::NotDue => {}
        }
        self.sleep();
    }

    /// As `sleep`, of a run of a graph that began on this thread (B4).
    pub(crate) fn sleep_in_run(&self) {
        self.sleep_or_tell(Pool::is_any_unserved(), || {
            is_unserved_here().then(|| Unserved::Run.to_string())
        });
    }
}

/// Whether nobody runs the runtime that what runs here belongs to.
fn is_unserved_here() -> bool {
    let group = context::with(|cx| cx.group.get());
    // SAFETY: X2, whoever set it keeps the group until the frame ends.
    if let Some(group) = unsafe { group.as_ref() } {
        // SAFETY: S1, an unfinished group keeps its runtime.
        return unsafe { pool_of(group) }.is_unserved();
    }
    // SAFETY: used within this call only.
    unsafe { Worker::current() }.is_some_and(|worker| worker.shared().pool.is_unserved())
}

/// # Safety
/// The runtime of `group` is alive.
unsafe fn pool_of(group: &Group) -> &Pool {
    // SAFETY: by the caller's promise.
    let shared = unsafe { &*group.home().shared.cast::<Shared>() };
    &shared.pool
}

/// B4.
#[cold]
fn tell_that_nobody_runs(what: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    // Not `eprintln`, which panics where there is no such output.
    let _ = writeln!(
        std::io::stderr(),
        "filch: thread `{name}` has waited a second for {what}, but nobody runs its hive: \
         call `Runtime::run` or `Runtime::pump`, or end it with `Runtime::shutdown`"
    );
}

/// Evidence that the worker of this thread, if it has one, is out of its crew (B2, B3).
pub(super) struct Out<'a>(Option<&'a Worker>);

impl<'a> Out<'a> {
    pub(super) fn of_this_thread() -> Self {
        Group::settle();
        // SAFETY: used only while this call into the worker's task lasts.
        match unsafe { Worker::current() } {
            Some(worker) => Self::of_worker(worker),
            None => Out(None),
        }
    }

    /// The worker is that of this thread, and its ledger is settled.
    pub(super) fn of_worker(worker: &'a Worker) -> Self {
        worker.offers_what_it_has();
        // A guest is in no crew; and a job that a worker runs while it is out may block in its turn.
        if worker.is_guest() || worker.slot().is_out() {
            return Out(None);
        }
        worker.goes_out();
        Out(Some(worker))
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.0 {
            worker.lane().crew.comes_back();
            worker.slot().set_out(false);
            // The sentry's clock for the rest of the task starts now.
            worker.beat();
        }
    }
}

impl Worker {
    /// Whether a job may be called on top of the task that runs here, and nobody need be told.
    fn runs_tasks_here(&self) -> bool {
        let in_task = context::with(|cx| !cx.task.get().is_null());
        in_task && self.runs_jobs() && self.shared().phase() < Phase::Aborting
    }

    /// B2.
    fn offers_what_it_has(&self) {
        self.flush_driver();
        self.offer_newest();
        let slot = self.slot();
        if !slot.ring.is_empty() || !slot.deque.is_empty() {
            self.shared().notify(self.lane());
        }
    }

    /// B3.
    fn goes_out(&self) {
        let (shared, lane, slot) = (self.shared(), self.lane(), self.slot());
        slot.set_out(true);
        lane.crew.goes_out();
        // A poster that still found the crew complete has pushed before, and we see it.
        lane.idle.before_look();
        if lane.crew.is_empty() || lane.has_ready(&shared.slots) {
            match shared.reinforce(lane) {
                Summons::StandingBy(_) | Summons::Vacant(_) => slot.counters.spares.add(1),
                Summons::Missing => slot.counters.spares_missing.add(1),
                Summons::Nobody => {}
            }
        }
    }

    /// Takes the newest job of `group` out of this worker's deque (B1).
    fn pop_job_of(&self, group: *const Group, depth: usize) -> Option<RawTask> {
        // SAFETY: T4, the entry keeps the cell alive.
        self.pop_job_where(depth, |job| std::ptr::eq(unsafe { job.header() }.group_ptr(), group))
    }

    /// Takes the newest job out of this worker's deque if it is `wanted` (B1).
    #[inline]
    fn pop_newest_job_if(&self, wanted: impl Fn(RawTask) -> bool) -> Option<RawTask> {
        let job = self.next_job()?;
        if job.is_task() && wanted(job) {
            return Some(job);
        }
        self.put_back(vec![job]);
        None
    }

    /// Takes the newest job that is `wanted` out of this worker's deque (B1). Others may lie on top
    /// of it, at most `depth`: they are put back as they were.
    fn pop_job_where(&self, depth: usize, wanted: impl Fn(RawTask) -> bool) -> Option<RawTask> {
        let mut strangers = Vec::new();
        let found = loop {
            if strangers.len() > depth {
                break None;
            }
            let Some(job) = self.next_job() else { break None };
            if job.is_stack_job() {
                // Forked before the wait began, and so is all that lies below.
                strangers.push(job);
                break None;
            }
            if job.is_task() && wanted(job) {
                break Some(job);
            }
            if !job.is_task() || !bury_if_claimed(job) {
                strangers.push(job);
            }
        };
        self.put_back(strangers);
        found
    }

    /// Pushes jobs that were just popped, the newest first, as they were.
    pub(super) fn put_back(&self, jobs: Vec<RawTask>) {
        if jobs.is_empty() {
            return;
        }
        for job in jobs.into_iter().rev() {
            // SAFETY: S3, we are the owner, and the entry is one we have just taken.
            unsafe { self.slot().deque.push(job.0) };
        }
        // Whoever looked meanwhile has not seen them.
        self.shared().notify(self.lane());
    }
}

/// Blocks until `register` returns false. It is called with a waker that ends the sleep, and
/// returns whether there is something to wait for.
pub(crate) fn wait_while(mut register: impl FnMut(&Waker) -> bool) {
    let sleeper = Sleeper::new();
    while register(&sleeper.waker) {
        sleeper.sleep();
    }
}

/// As `wait_while`, for what lives in that runtime's pool (B4).
pub(crate) fn wait_while_in(
    pool: &Pool,
    what: impl Fn() -> String,
    mut register: impl FnMut(&Waker) -> bool,
) {
    let sleeper = Sleeper::new();
    while register(&sleeper.waker) {
        sleeper.sleep_for(pool, &what);
    }
}

/// As `wait_while`, for a task (B4). The caller keeps the cell alive.
pub(crate) fn wait_for_task(task: RawTask, register: impl FnMut(&Waker) -> bool) {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    // SAFETY: a header is the start of a cell (H1), which the caller keeps.
    let pool = unsafe { Pool::of(task.0.cast()) };
    let what = || {
        let name = header.name().map(|name| format!(" \"{name}\"")).unwrap_or_default();
        format!("task {}{name} spawned at {}", header.id, header.site())
    };
    wait_while_in(pool, what, register);
}

/// Blocks until every member of `group` is gone, helping with the group's own jobs.
pub(crate) fn wait_for_group(group: &GroupRef) {
    loop {
        Group::settle();
        if group.is_finished() {
            return;
        }
        if !help(group) {
            break;
        }
    }
    group.home().process.check();
    let sleeper = Sleeper::new();
    while group.set_waiter(&sleeper.waker) {
        // SAFETY: S1, the group was not finished, and the caller is inside of it or keeps the runtime.
        let pool = unsafe { pool_of(group) };
        sleeper.sleep_for(pool, || "the tasks of a `block_on` or a `scope`".into());
    }
}

/// Runs one job of the group, if this thread can get at one.
fn help(group: &GroupRef) -> bool {
    let shared: *const Shared = group.home().shared.cast();
    // What lies deeper is found in the list, without a search for each job of it.
    let depth = if group.is_tracked() { 0 } else { usize::MAX };
    // SAFETY: used only while this call lasts.
    if let Some(worker) = unsafe { Worker::of_runtime(shared) }
        && let Some(job) = worker.pop_job_of(Arc::as_ptr(group), depth)
    {
        // SAFETY: T4, the entry keeps the cell alive.
        match unsafe { job.header() }.state.start() {
            // SAFETY: `start` gave us the body.
            Start::Detached => unsafe { let_go(job) },
            // SAFETY: that was the start.
            start => unsafe { worker.run_started(job, start) },
        }
        return true;
    }
    while let Some(member) = group.newest_job() {
        if claim_and_run(member.raw()) {
            return true;
        }
    }
    false
}

/// Blocks until `job` and all below it have ended, helping with it and with jobs below it (B1).
pub(crate) fn wait_for_job(job: &Job) {
    loop {
        if job.is_closed() {
            // C4: after the wait, no worker's loop settles for a thread that is in no task. U4 of `adopt`: nor does
            // another call of the library return there.
            if context::with(|cx| cx.task.get().is_null()) {
                Group::settle();
                adopt::end_left();
            }
            return;
        }
        // The common case first: what is awaited is the newest, and leaves no tombstone.
        if help_below(job, 0) || claim_and_run(job.raw()) {
            continue;
        }
        // N6: the last units may be in this thread's own ledger.
        Group::settle();
        if job.is_closed() || !help_below(job, usize::MAX) {
            break;
        }
    }
    wait_for_task(job.raw(), |waker| job.add_waiter(waker));
    adopt::end_left();
}

/// Runs `root` or one job below it that lies in this worker's deque, below no more than `depth` others.
fn help_below(root: &Job, depth: usize) -> bool {
    // SAFETY: used only while this call lasts.
    let Some(worker) = (unsafe { Worker::current() }) else { return false };
    let below = |job: RawTask| {
        // SAFETY: T4, the entry keeps the cell alive.
        let Some(tree) = &unsafe { job.header() }.vtable.tree else { return false };
        // SAFETY: as above, and the root is the caller's.
        job == root.raw() || unsafe { (tree.is_below)(job, root.raw()) }
    };
    let job = match depth {
        0 => worker.pop_newest_job_if(below),
        _ => worker.pop_job_where(depth, below),
    };
    let Some(job) = job else { return false };
    // SAFETY: the entry was just popped; it is below the root, so a job of a tree.
    if !worker.runs_tasks_here() || !unsafe { call_hidden(job) } {
        worker.run(job);
    }
    true
}

/// Whether an entry that was popped is a tombstone, which is then gone.
fn bury_if_claimed(job: RawTask) -> bool {
    // SAFETY: T4, the entry keeps the cell alive.
    let state = &unsafe { job.header() }.state;
    if !state.is_claimed() {
        return false;
    }
    match state.start() {
        Start::Tombstone => true,
        Start::TombstoneLast => {
            // SAFETY: that was the last reference.
            unsafe { job.free() };
            true
        }
        // Put back by whoever had claimed it, in between: as it was.
        Start::Run | Start::Detached | Start::Cancelled => {
            let put_back = state.put_back();
            debug_assert_eq!(put_back, PutBack::Push);
            false
        }
    }
}

/// Runs a job in place that was launched for it. The caller keeps the cell alive.
///
/// # Safety
/// The body of `job` is the caller's, and `start` is `Run` or `Cancelled`.
pub(crate) unsafe fn run_launched(job: &Job, start: Start) {
    // SAFETY: by the caller's promise.
    unsafe { run_here(job.raw(), start) };
}

/// Whether `task` can run on this thread only. The caller keeps the cell alive.
pub(crate) fn is_pinned_here(task: RawTask) -> bool {
    // SAFETY: by the caller's promise.
    if unsafe { task.header() }.vtable.kind != Kind::Pinned {
        return false;
    }
    // SAFETY: used only while this call lasts.
    unsafe { Worker::current() }.is_some_and(|worker| worker.is_home_of(task))
}

/// Runs a job in place if nobody has started it. The caller keeps the cell alive.
pub(crate) fn claim_and_run(task: RawTask) -> bool {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    if header.vtable.kind != Kind::Job {
        return false;
    }
    // SAFETY: by the caller's promise.
    unsafe { task.check_process() };
    match header.state.claim() {
        None => return false,
        // SAFETY: the claim gave us the body.
        Some(Start::Detached) => unsafe { let_go(task) },
        // SAFETY: claimed just now.
        Some(start) => unsafe { run_here(task, start) },
    }
    true
}

/// Drops the closure of a cancelled job here if nobody has started it. The caller keeps the cell
/// alive.
pub(crate) fn drop_unstarted(task: RawTask) {
    // SAFETY: by the caller's promise.
    let header = unsafe { task.header() };
    debug_assert_eq!(header.vtable.kind, Kind::Job);
    let Some(start) = header.state.claim() else { return };
    debug_assert_eq!(start, Start::Cancelled);
    // SAFETY: claimed just now.
    let _ = unsafe { task.execute(Start::Cancelled, u32::MAX) };
}

/// Moves a job that was detached before it started to the runtime's own group, and leaves it to
/// others: nobody waits for it (B1).
///
/// # Safety
/// The body of `task` is the caller's, who gives it up.
unsafe fn let_go(task: RawTask) {
    // SAFETY: T2, the body is ours, so the task is not DONE and the cell is alive.
    let header = unsafe { task.header() };
    // D2: once it is back in its queue, the task may end, and its runtime with it.
    // SAFETY: not DONE, so the task's unit keeps its group.
    let home = unsafe { header.group() }.home();
    // SAFETY: S1, the group keeps its runtime.
    let shared = unsafe { Shared::to_arc(home.shared.cast()) };
    // SAFETY: the body is ours, and no frame was entered for it.
    unsafe { shared.adopt(header) };
    if header.state.put_back() == PutBack::Push {
        // SAFETY: the entry is ours to push (T3).
        unsafe { shared.root.home().schedule(task) };
    }
}

/// # Safety
/// `start` is what the claim of `task` returned.
unsafe fn run_here(task: RawTask, start: Start) {
    // SAFETY: T2, the body is ours, so the task is not DONE and its group is there.
    let header = unsafe { task.header() };
    // SAFETY: claimed and not run yet, so the task's unit keeps its group.
    let home = unsafe { header.group() }.home();
    // Of the task's own runtime: what it forks must not lie in the deque of another, which may end
    // meanwhile (X5).
    // SAFETY: used only while this call lasts.
    match unsafe { Worker::of_runtime(home.shared.cast()) } {
        Some(worker) if worker.runs_jobs() => {
            // SAFETY: by the caller's promise.
            unsafe { worker.run_claimed(task, start) };
            adopt::end_left();
        }
        // An I/O worker that runs a job, or one of another runtime, is as good as blocked (B3); a
        // foreign thread is nobody's.
        _ => {
            let _out = Out::of_this_thread();
            // SAFETY: by the caller's promise.
            let _ = unsafe { task.execute(start, u32::MAX) };
            // C4: nobody else does, if the job has opened the ledger here.
            Group::settle();
        }
    }
}

impl super::shared::Slot {
    fn set_out(&self, out: bool) {
        // ORDERING: Relaxed, a hint for the sentry.
        self.out.store(out, Ordering::Relaxed);
    }

    /// Whether the worker blocks and says so.
    pub(crate) fn is_out(&self) -> bool {
        // ORDERING: Relaxed, a hint for the sentry.
        self.out.load(Ordering::Relaxed)
    }
}
