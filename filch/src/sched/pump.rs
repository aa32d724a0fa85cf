//! The main worker in a loop that is not ours: a call in each frame, and a callback that asks for frames.
//!
//! U1. Between two calls the worker sleeps in the idle set, or there is work left and the callback was
//!     called at the end of the last call. So whoever has work for it finds it asleep and calls, or need
//!     not.
//!     Others that sleep are woken before it for what anyone may take, and nobody relies on it to search (I8 of
//!     `idle`): a frame may be long in coming.
//! U2. A call ends with the step in which its budget is spent, and each source gives one task at most after
//!     that. What it leaves can be taken by others, pinned tasks apart: the newest task goes to the ring.
//! U3. A deadline of its wheel is left with the sentry (Y4), because the loop does not know it.
//! U4. It drives no I/O: nobody would hear of a completion between two calls.
//! U5. The program may act in its name between two calls. No task runs then, and a frame is asked for: there may
//!     be more to do than before.
//!
//! Not here: the face (`crate::pump`).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::core::EventCore;
use super::life::Closer;
use super::shared::Shared;
use super::shutdown::{Shutdown, ShutdownReport};
use super::slices::Lent;
use super::worker::{Served, Worker};
use crate::base::parker::Parker;
use crate::error::{BuildError, ConfigError};
use crate::idle::{Comes, Ticket};
use crate::task::group::{Group, guard_user_code};

/// Asks the loop for a frame.
pub(crate) type Callback = Box<dyn Fn() + Send + Sync>;

/// What a call has left behind; see [`Pump::run`](crate::Pump::run).
///
/// ```
/// use std::time::Duration;
/// use filch::Pumped;
/// let hive = filch::Builder::new().io_workers(1).hive()?;
/// let mut pump = hive.pump(|| {})?;
/// assert_eq!(pump.run(Duration::from_millis(2)), Pumped::Idle);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[must_use = "it says whether the program goes on"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// Nothing: the callback is called when there is something again.
    Idle,
    /// Work: the callback was called.
    More,
    /// The runtime has ended its tasks: call [`Pump::finish`](crate::Pump::finish).
    Stopped,
}

struct Bell {
    callback: Callback,
    /// Where the worker sleeps at the end, when nobody calls any more.
    bed: Parker,
}

impl Bell {
    /// Asks for a frame, from the pump's own thread. A panic ends here, as it does where others wake the pump.
    fn ask(&self) {
        guard_user_code(|| (self.callback)());
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bed.unpark();
        (self.callback)();
    }
}

/// A core without events of its own.
struct PumpCore(Arc<Bell>);

impl EventCore for PumpCore {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            None => self.0.bed.park(),
            Some(timeout) => {
                self.0.bed.park_timeout(timeout);
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }
}

/// The main worker of a runtime, whose thread calls.
pub(crate) struct Main {
    worker: Worker,
    /// While it sleeps (U1).
    ticket: Option<Ticket>,
    bell: Arc<Bell>,
    closer: Closer,
    lent: Lent,
}

impl Main {
    /// Whether this is a child that was forked from the process of the runtime.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.worker.shared().process().is_parent()
    }

    /// Starts a runtime whose main worker is pumped by this thread.
    pub(crate) fn start(shared: &Arc<Shared>, callback: Callback) -> Result<Self, BuildError> {
        let bell = Arc::new(Bell { callback, bed: Parker::new() });
        if shared.lanes[0].attached() == 0 {
            let error = ConfigError::new("io_workers", "is 0: a pump is an I/O worker");
            shared.end_unrun(Shutdown::Abort);
            return Err(BuildError::Config(error));
        }
        let slot = &shared.slots[0];
        let core = PumpCore(bell.clone());
        slot.install(Box::new(core));
        // U4.
        shared.close_driver(slot.info.index);
        // M8 of `timers`.
        shared.pump_wheel(slot.info.index);
        let (_, closer) = shared.begin()?;
        let lent = shared.slice_main();
        let worker = shared.take_main(0);
        let mut ticket = None;
        // U1 holds from the start.
        if !worker.enter(|| !worker.sees_work() && worker.rests(&mut ticket)) {
            bell.ask();
        }
        Ok(Self { worker, ticket, bell, closer, lent })
    }

    /// The slot of its worker.
    pub(crate) fn index(&self) -> usize {
        self.worker.index()
    }

    /// When its next timer is due (U3).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.worker.shared().next_deadline(self.index())
    }

    /// One call (U2).
    pub(crate) fn run(&mut self, budget: Duration) -> Pumped {
        let Self { worker, ticket, bell, .. } = self;
        // For this call only: a pump may be forgotten (N1 of `finder`).
        let _entered = worker.shared().finder.enter();
        worker.enter(|| {
            match ticket.take() {
                Some(ticket) => worker.get_up(ticket),
                // The time between two frames was not spent here.
                None => worker.since.set(worker.shared().tell_time()),
            }
            worker.frame_end.set(worker.shared().clock.now().checked_add(budget));
            let pumped = worker.pump(ticket);
            worker.frame_end.set(None);
            if pumped == Pumped::More {
                bell.ask();
            }
            pumped
        })
    }

    /// Calls `f` in the name of the worker, between two calls (U5).
    pub(crate) fn enter<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let Self { worker, ticket, bell, .. } = self;
        worker.enter(|| {
            if let Some(ticket) = ticket.take() {
                worker.get_up(ticket);
            }
            let result = catch_unwind(AssertUnwindSafe(f));
            worker.has_more();
            bell.ask();
            result.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Serves until the runtime has ended.
    pub(crate) fn finish(self) -> ShutdownReport {
        let Self { worker, ticket, bell, closer, lent } = self;
        let shared = worker.shared().clone();
        let entered = shared.finder.enter();
        worker.enter(|| {
            if let Some(ticket) = ticket {
                worker.get_up(ticket);
            }
            worker.serve_to_the_end();
        });
        shared.leave_main(worker);
        drop((lent, entered));
        let report = closer.finish(&shared);
        // The callback is the program's: if its drop panics, the report is there all the same.
        guard_user_code(|| drop(bell));
        report
    }
}

impl Worker {
    /// Steps until there is nothing to do or the frame is over.
    fn pump(&self, ticket: &mut Option<Ticket>) -> Pumped {
        loop {
            if self.may_be_left_behind() {
                return Pumped::Stopped;
            }
            match self.serve() {
                Served::Stop => return Pumped::Stopped,
                Served::Something => {}
                Served::Nothing if self.rests(ticket) => return Pumped::Idle,
                Served::Nothing => {}
            }
            if self.frame_is_over() && self.has_more() {
                return Pumped::More;
            }
        }
    }

    /// Whether the call's budget is spent.
    #[inline]
    pub(super) fn frame_is_over(&self) -> bool {
        self.frame_end.get().is_some_and(|end| {
            self.end_in_child();
            self.shared().clock.now() >= end
        })
    }

    /// Falls asleep for the time between two calls (U1, U3).
    fn rests(&self, ticket: &mut Option<Ticket>) -> bool {
        *ticket = self.lie_down(Comes::Late);
        let Some(published) = ticket.take() else { return false };
        match self.nap_for_timers() {
            Some(nap) if nap.is_zero() => {
                self.get_up(published);
                return false;
            }
            Some(nap) => self.shared().sentry.set_alarm(self.time() + nap),
            None => {}
        }
        *ticket = Some(published);
        true
    }

    /// Whether there is something to do after the call; if so, others may do it (U2).
    fn has_more(&self) -> bool {
        // C4; the end of a group may wake a task.
        Group::settle();
        if !self.sees_work() {
            return false;
        }
        if self.searching.get() {
            self.stop_searching();
        }
        self.offer_newest();
        true
    }
}
