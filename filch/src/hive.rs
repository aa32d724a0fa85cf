//! The hive: a runtime that its caller runs, and workers that come and go.
//!
//! Not here: posting (`post`), loops of others (`pump`), watchers (`watch`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::builder::Builder;
use crate::error::BuildError;
use crate::runtime::{Handle, Runtime};
use crate::sched::blocking::wait_while_in;
use crate::sched::leave::{Answer, DetachError, Dismissed, Request};
use crate::sched::roster::{AttachError, NewWorker, WorkerId, WorkerStatus};
use crate::sched::shutdown::{Shutdown, ShutdownReport};
use crate::sched::worker::Worker;
use crate::task::budget;

impl Builder {
    /// Builds a runtime that waits: its workers are registered, what is posted and spawned is kept, and
    /// nothing runs before [`Runtime::run`] or [`Runtime::pump`].
    ///
    /// The first I/O worker is the *main* worker: the thread that runs the hive is its. Worker counts are
    /// taken as they are: 0 is none, to be attached or left out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::NewWorker;
    ///
    /// let hive = filch::Builder::new().hive()?;
    /// let ui = hive.attach(NewWorker::io().name("ui"))?;            // this thread, from `run` on
    /// let io = hive.attach(NewWorker::io().name("io"))?;
    /// let compute = hive.attach(NewWorker::compute())?;
    /// # let _ = (io, compute);
    ///
    /// hive.post(|| println!("on any I/O worker"))?;
    /// hive.post_compute(|| println!("heavy"))?;
    /// let handle = hive.handle();
    /// hive.post_to(ui, move || {
    ///     let stop = move || handle.request_stop();
    ///     drop(filch::Handle::current().post_delayed(Duration::from_millis(1), stop));
    /// })?;
    /// hive.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a parameter makes no sense.
    pub fn hive(self) -> Result<Runtime, BuildError> {
        let config = self.resolve_hive()?;
        self.build_waiting(config)
    }
}

impl Runtime {
    /// Makes the calling thread the main worker of a hive, starts the others, and returns when somebody has
    /// asked for the end ([`Handle::request_stop`]) and all tasks are gone.
    ///
    /// Meanwhile the thread has an I/O worker's slices, and then its own again
    /// ([`Config::lane_slices`](crate::Config::lane_slices)).
    ///
    /// Of a runtime that is started already it only waits for the end.
    ///
    /// An end with a deadline cannot interrupt a task on the calling thread: while that runs, the call does not return, and
    /// nothing can make it. If another task still runs, a thread of the runtime's takes this one's place, and the call returns.
    ///
    /// ```
    /// let hive = filch::Builder::new().io_workers(1).hive()?;
    /// let handle = hive.handle();
    /// let here = std::thread::current().id();
    /// hive.post(move || {
    ///     assert_eq!(std::thread::current().id(), here);
    ///     handle.request_stop();
    /// })?;
    /// hive.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a thread cannot start; those that did are joined, and all tasks dropped.
    ///
    /// # Panics
    /// Inside one of the runtime's own tasks.
    #[track_caller]
    pub fn run(self) -> Result<ShutdownReport, BuildError> {
        self.into_shared().run()
    }
}

/// The crew.
impl Handle {
    /// Every worker that is attached: I/O workers first.
    ///
    /// ```
    /// let runtime = filch::Builder::new().io_workers(1).compute_workers(2).build()?;
    /// let names: Vec<String> = runtime.workers().into_iter().map(|worker| worker.name).collect();
    /// assert_eq!(names, ["io-0", "cpu-0", "cpu-1"]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.shared().workers()
    }

    /// Attaches a worker: in a hive that is not run yet it is registered, and the first I/O worker is the
    /// main one; else it gets a thread, which works when the call returns.
    ///
    /// There is room for [`attachable_workers`](crate::Config::attachable_workers) of each role.
    ///
    /// ```
    /// use filch::NewWorker;
    /// let runtime = filch::Builder::new().workers(1).attachable_workers(1).build()?;
    /// let helper = runtime.attach(NewWorker::compute().name("helper"))?;
    /// assert_eq!(runtime.workers().len(), 3);
    /// runtime.detach(helper).wait()?;
    /// assert_eq!(runtime.workers().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no room, the runtime is shutting down, or a thread cannot start.
    ///
    /// # Panics
    /// If the worker's event core does when it is asked for its waker; nothing is attached then.
    pub fn attach(&self, worker: NewWorker) -> Result<WorkerId, AttachError> {
        self.arc().attach(worker)
    }

    /// Detaches a worker: what it was posted runs first; what others may run, its timers and its operations
    /// go to them; then its thread ends. The answer is awaited, or waited for.
    ///
    /// ```
    /// use filch::{DetachError, NewWorker};
    /// let runtime = filch::Builder::new().workers(1).attachable_workers(1).build()?;
    /// let worker = runtime.attach(NewWorker::io())?;
    /// let pinned = runtime.spawn_to(worker, std::future::pending::<()>)?;
    /// match runtime.detach(worker).wait() {
    ///     Err(DetachError::Pinned(tasks)) => assert_eq!(tasks[0].id, pinned.id()),
    ///     other => panic!("{other:?}"),
    /// }
    /// pinned.cancel();
    /// runtime.block_on(pinned.outcome()).unwrap_err();
    /// runtime.block_on(runtime.detach(worker))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the answer says whether it left"]
    pub fn detach(&self, worker: WorkerId) -> Detach {
        let (shared, answer) = (self.shared(), Arc::new(Answer::default()));
        match shared.begin_detach(worker) {
            Dismissed::Settled(result) => answer.give(result),
            Dismissed::Ask => {
                let request = Request::new(answer.clone());
                let asked = self.post_to(worker, move || {
                    // SAFETY: used within this call only, on the worker that runs the task.
                    if let Some(worker) = unsafe { Worker::current() } {
                        worker.ask_to_leave(request);
                    }
                });
                if asked.is_err() {
                    shared.undo_detach(worker);
                }
            }
        }
        Detach { answer, worker, handle: self.clone() }
    }
}

/// The end.
impl Handle {
    /// Asks for the end of a runtime that is [run](Runtime::run) or [pumped](Runtime::pump), from any thread
    /// or task: all tasks are dropped at their next await, as when a runtime is dropped. Those are in the
    /// [report](ShutdownReport), and so may be the task that asks.
    ///
    /// ```
    /// let hive = filch::Builder::new().io_workers(1).compute_workers(1).hive()?;
    /// hive.request_stop();
    /// assert!(hive.run()?.unfinished.is_empty());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn request_stop(&self) {
        self.request_shutdown(Shutdown::Abort);
    }

    /// As [`request_stop`](Handle::request_stop), with a choice. The first request counts;
    /// [`escalate`](Handle::escalate) makes it stricter.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    /// static RAN: AtomicBool = AtomicBool::new(false);
    /// let hive = filch::Builder::new().io_workers(1).hive()?;
    /// hive.post(|| RAN.store(true, SeqCst))?;
    /// hive.request_shutdown(filch::Shutdown::Drain);
    /// hive.run()?;
    /// assert!(RAN.load(SeqCst));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request_shutdown(&self, how: Shutdown) {
        self.shared().life.request(how);
    }

    /// Makes the end of the runtime stricter, from any thread or task, also while it goes on: a drain becomes
    /// an abort, an abort gets a deadline. Where no end was asked for, it asks as
    /// [`request_shutdown`](Handle::request_shutdown) does, and the end counts as at least that strict however
    /// it is begun.
    ///
    /// An escalation takes nothing back: an end that drops its tasks goes on dropping them, and of two deadlines the earlier
    /// counts. So `DrainFor` gives an abort a deadline, as `AbortFor` does, and an abort of a drain with a deadline keeps that. A
    /// time counts from the escalation, or from the begin of the end if that comes later.
    ///
    /// ```
    /// use filch::Shutdown;
    /// let runtime = filch::Builder::new().workers(1).build()?;
    /// drop(runtime.task().name("endless").spawn(std::future::pending::<()>()));
    /// let handle = runtime.handle();
    /// // In a program: when Ctrl-C is pressed for the second time.
    /// let impatient = std::thread::spawn(move || handle.escalate(Shutdown::Abort));
    /// let report = runtime.shutdown(Shutdown::Drain);
    /// assert_eq!(report.unfinished[0].name.as_deref(), Some("endless"));
    /// # impatient.join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn escalate(&self, how: Shutdown) {
        self.shared().life.escalate(how);
    }
}

/// The answer to [`Handle::detach`].
///
/// ```
/// let runtime = filch::Builder::new().io_workers(2).compute_workers(1).build()?;
/// let worker = runtime.workers()[1].id;
/// runtime.block_on(async { runtime.detach(worker).await })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the answer says whether it left"]
pub struct Detach {
    answer: Arc<Answer>,
    worker: WorkerId,
    handle: Handle,
}

impl Detach {
    /// Blocks until the worker has left, or has to stay.
    ///
    /// ```
    /// let runtime = filch::Builder::new().workers(2).build()?;
    /// runtime.detach(runtime.workers()[3].id).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the worker stays.
    ///
    /// # Panics
    /// On the worker itself, which would wait for itself.
    #[track_caller]
    pub fn wait(self) -> Result<(), DetachError> {
        // SAFETY: used within this call only.
        let here = unsafe { Worker::of_runtime(self.handle.shared()) };
        let is_here = here.is_some_and(|here| here.index() == self.worker.slot as usize);
        let mut result = None;
        let what = || "a worker to be detached".into();
        wait_while_in(&self.handle.shared().pool, what, |waker| {
            result = self.answer.ask(waker);
            assert!(result.is_some() || !is_here, "a worker that waits for its own end never ends");
            result.is_none()
        });
        result.expect("that is what was waited for")
    }
}

impl Future for Detach {
    type Output = Result<(), DetachError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // W1 of `sched/forked`.
        self.handle.shared();
        budget::poll_counted(cx, |cx| match self.answer.ask(cx.waker()) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        })
    }
}

impl fmt::Debug for Detach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detach").field("worker", &self.worker).finish_non_exhaustive()
    }
}
