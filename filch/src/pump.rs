//! The pump: a main worker inside of a loop that is not ours.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::error::BuildError;
use crate::runtime::{ENDS_INSIDE, Handle, Runtime};
use crate::sched::pump::{Main, Pumped};
use crate::sched::roster::WorkerId;
use crate::sched::shutdown::{Shutdown, ShutdownReport};

impl Runtime {
    /// Makes the calling thread the main worker of a hive, for as long as each frame of its own loop lets it:
    /// the loop of a window system, a game, a toolkit. The other workers start.
    ///
    /// `wake` asks the loop for a frame, from any thread: it is called when there is work for a pump that
    /// rests, when a timer of its is due, and at the end of a frame that leaves work. It must not block; if it
    /// panics, that is told by the panic hook and nothing else. Tasks for anybody wait for a frame only while no
    /// other I/O worker is free; one that blocks in a task is replaced meanwhile.
    ///
    /// The pump's worker drives no I/O: sockets that are used on it are driven by the other I/O workers, and
    /// what they bring comes back to it.
    ///
    /// So that frames begin on time while all cores compute, the thread has an I/O worker's slices until the
    /// pump ends, and then its own again ([`Config::lane_slices`](crate::Config::lane_slices)); threads that
    /// it starts meanwhile inherit them.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use filch::Pumped;
    ///
    /// let hive = filch::Builder::new().io_workers(2).compute_workers(1).hive()?;
    /// let (ui, handle) = (hive.workers()[0].id, hive.handle());
    /// let (wake, frames) = mpsc::channel();
    /// let mut pump = hive.pump(move || drop(wake.send(())))?;
    /// drop(handle.clone().spawn_to(ui, move || async move {
    ///     let here = std::thread::current().id();
    ///     let answer = filch::cpu(|| 6 * 7).await;        // on a compute worker, and back
    ///     assert_eq!(std::thread::current().id(), here);
    ///     assert_eq!(answer, 42);
    ///     handle.request_stop();
    /// })?);
    /// loop {
    ///     frames.recv()?;                                 // the loop's own business
    ///     if pump.run(Duration::from_millis(2)) == Pumped::Stopped { break }
    /// }
    /// pump.finish(filch::Shutdown::Abort);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a thread cannot start, or the runtime has no I/O worker.
    ///
    /// # Panics
    /// Of a runtime that is started already; inside one of the runtime's own tasks.
    #[track_caller]
    pub fn pump(self, wake: impl Fn() + Send + Sync + 'static) -> Result<Pump, BuildError> {
        assert!(
            self.shared().life.is_for_a_caller(),
            "a runtime that is started has no main worker: use `Builder::hive`"
        );
        let handle = self.handle();
        let main = Main::start(&self.into_shared(), Box::new(wake))?;
        let id = handle.shared().id_of_slot(main.index());
        Ok(Pump { main: Some(main), handle, id, here: PhantomData })
    }
}

/// The main worker of a hive in a loop of others; see [`Runtime::pump`].
///
/// Dropped, it ends the runtime: all tasks are dropped at their next await, unless another end was asked for before.
///
/// ```
/// use std::time::Duration;
/// let hive = filch::Builder::new().io_workers(1).hive()?;
/// hive.post(|| println!("in the first frame"))?;
/// let mut pump = hive.pump(|| println!("a frame, please"))?;
/// assert_eq!(pump.run(Duration::from_millis(2)), filch::Pumped::Idle);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing runs on this thread unless it is called"]
pub struct Pump {
    /// There until the end.
    main: Option<Main>,
    handle: Handle,
    id: WorkerId,
    /// A worker is its thread's.
    here: PhantomData<*const ()>,
}

impl Pump {
    /// Runs tasks until there are none, or `budget` is spent: after that at most one more of each kind (posted
    /// to this worker, its own, found elsewhere), so that none keeps the others waiting.
    ///
    /// Neither the budget nor an end with a deadline interrupts a task that runs here: the call returns when that does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::Pumped;
    /// let hive = filch::Builder::new().io_workers(1).hive()?;
    /// hive.post_batch((0..2).map(|i| move || println!("{i}")))?;
    /// let mut pump = hive.pump(|| ())?;
    /// assert_eq!(pump.run(Duration::ZERO), Pumped::More);
    /// assert_eq!(pump.run(Duration::from_secs(1)), Pumped::Idle);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(&mut self, budget: Duration) -> Pumped {
        match &mut self.main {
            Some(main) => {
                self.handle.arc();
                main.run(budget)
            }
            None => Pumped::Stopped,
        }
    }

    /// Calls `f` as a part of this worker, between two frames: what a handler of the loop spawns with
    /// [`spawn_local`](crate::spawn_local), or keeps with [`post_self`](crate::worker::post_self), runs on this
    /// thread, in its frames, and need not be `Send`. No task runs meanwhile; a frame is asked for at the end.
    /// This holds inside of a task or a call of another runtime too: what `f` spawns belongs to the hive.
    ///
    /// ```
    /// use std::{cell::Cell, rc::Rc, time::Duration};
    /// let hive = filch::Builder::new().io_workers(1).compute_workers(1).hive()?;
    /// let (ask, frames) = std::sync::mpsc::channel();
    /// let mut pump = hive.pump(move || drop(ask.send(())))?;
    /// let window = Rc::new(Cell::new(0));
    /// // In a handler: the state of the window is not `Send`.
    /// let shown = window.clone();
    /// let program = pump.enter(|| filch::spawn_local(async move {
    ///     shown.set(filch::cpu(|| 6 * 7).await);
    /// }));
    /// while !program.is_finished() {
    ///     frames.recv()?;
    ///     let _ = pump.run(Duration::from_millis(2));
    /// }
    /// assert_eq!(window.get(), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If `f` does. After [`Pumped::Stopped`] a spawn is refused as in every runtime that has ended.
    pub fn enter<R>(&mut self, f: impl FnOnce() -> R) -> R {
        match &mut self.main {
            Some(main) => {
                self.handle.arc();
                main.enter(f)
            }
            None => f(),
        }
    }

    /// When the next timer is due that waits for a frame, if there is one: for a loop that can wait until a time, as
    /// winit's does with `ControlFlow::WaitUntil`.
    ///
    /// It may be that of a timer that was cancelled meanwhile; then the frame has nothing to do. The callback is called at that time too, so a loop that is woken by it needs no deadline. A timer that is
    /// started later may be due earlier: ask after each frame. The time is by the runtime's clock.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let hive = filch::Builder::new().io_workers(1).hive()?;
    /// let mut pump = hive.pump(|| ())?;
    /// assert_eq!(pump.next_deadline(), None);
    /// let (begin, delay) = (Instant::now(), Duration::from_secs(60));
    /// let post = pump.handle().post_delayed(delay, || ())?;
    /// assert_eq!(pump.run(Duration::from_millis(2)), filch::Pumped::Idle);
    /// let next = pump.next_deadline().unwrap();
    /// assert!(next >= begin + delay && next <= Instant::now() + delay);
    /// post.cancel();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_deadline(&self) -> Option<Instant> {
        self.main.as_ref()?.next_deadline()
    }

    /// The worker that it is, to post to.
    ///
    /// ```
    /// let mut pump = filch::Builder::new().io_workers(1).hive()?.pump(|| ())?;
    /// pump.handle().post_to(pump.worker(), || println!("on this thread"))?;
    /// assert_eq!(pump.run(std::time::Duration::from_millis(2)), filch::Pumped::Idle);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker(&self) -> WorkerId {
        self.id
    }

    /// The runtime.
    ///
    /// ```
    /// let pump = filch::Builder::new().io_workers(1).hive()?.pump(|| ())?;
    /// assert_eq!(pump.handle().workers().len(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the runtime in the given way, and returns when all tasks are gone. Until then this thread goes on working.
    ///
    /// If somebody has asked for the end already, this is an [escalation](Handle::escalate): it may turn that end into
    /// an abort, or give it a deadline. So a program may ask for the end with [`Handle::request_stop`], and say here how
    /// long that may take. With a deadline the call returns although a task still runs, unless it runs on this thread.
    ///
    /// ```
    /// let pump = filch::Builder::new().io_workers(1).hive()?.pump(|| ())?;
    /// assert!(pump.finish(filch::Shutdown::Drain).unfinished.is_empty());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Inside a `block_on` or another call of the same runtime, which it would wait for. The runtime then goes on without
    /// its main worker, as if the pump had been forgotten.
    #[track_caller]
    pub fn finish(mut self, how: Shutdown) -> ShutdownReport {
        self.end(|handle| handle.escalate(how))
    }

    #[track_caller]
    fn end(&mut self, ask: impl FnOnce(&Handle)) -> ShutdownReport {
        let Some(main) = self.main.take() else { return ShutdownReport::default() };
        if main.is_of_parent() {
            std::mem::forget(main);
            return ShutdownReport::default();
        }
        if self.handle.is_inside() {
            std::mem::forget(main);
            // A second panic would end the process.
            assert!(std::thread::panicking(), "{ENDS_INSIDE}");
            return ShutdownReport::default();
        }
        ask(&self.handle);
        main.finish()
    }
}

impl Drop for Pump {
    /// # Panics
    /// As [`Pump::finish`].
    #[track_caller]
    fn drop(&mut self) {
        self.end(|handle| handle.request_shutdown(Shutdown::Abort));
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump").finish_non_exhaustive()
    }
}
