//! A runtime that its caller runs: from the registration of its workers to the structured end.
//!
//! Before it is run, workers are registered and posts are kept: in the mailboxes, the injectors and the
//! wheels where they will be found. Then the calling thread is the main worker, and the others get threads.
//! A *closer* waits for the request to stop, ends the tasks as it says (`shutdown`) while all workers go on
//! working, and then stops them.
//!
//! F1. A stop is requested once; what is requested later does not count. An escalation counts at any time: the
//!     end that goes on hears it, or else the next one. Who ends a hive and says how (`shutdown`, `Pump::finish`) escalates; who only
//!     drops it requests, and leaves an end that was asked for as it is.
//! F2. The main worker leaves its slot before the queues are cleared, as every other thread does (S3).
//!     If the end goes on in the background, it leaves when nothing is left that only its thread can run, and
//!     a thread of ours takes its slot over: whoever still runs may need a worker there.
//! F3. A runtime that ends before it was run is run for its end, if there are tasks to end.
//! F4. If not all threads can start, the caller drops the tasks in the name of the workers that are missing. With a deadline it
//!     leaves what is left then as F2 has it, to a sentry and to workers, as far as those can start.
//!
//! Not here: how the main worker lives in a loop of others (`pump`).

use std::mem::take;
use std::sync::Arc;
use std::task::Waker;

use super::blocking::wait_while;
use super::core::ParkCore;
use super::limits::{Limits, Strictness};
use super::shared::{Birth, Phase, Shared, lock};
use super::shutdown::{Ended, Ending, Shutdown, ShutdownReport, Waited};
use super::start::Watched;
use super::worker::{Flow, Served, Worker};
use crate::base::shim::Mutex;
use crate::base::thread::{self, Thread};
use crate::error::BuildError;

pub(crate) struct Life {
    birth: Birth,
    stop: Mutex<Stop>,
}

#[derive(Default)]
struct Stop {
    /// F1.
    asked: Option<Shutdown>,
    /// F1; the end takes it.
    escalated: Option<Strictness>,
    /// Who waits for either.
    waiter: Option<Waker>,
}

impl Life {
    pub(super) fn new(birth: Birth) -> Self {
        Self { birth, stop: Mutex::default() }
    }

    /// Whether a thread that calls is the main worker (Q3 of `roster`).
    pub(crate) fn is_for_a_caller(&self) -> bool {
        self.birth == Birth::Waiting
    }

    /// Asks for the end (F1).
    pub(crate) fn request(&self, how: Shutdown) {
        let mut stop = lock(&self.stop);
        stop.asked.get_or_insert(how);
        let waiter = stop.waiter.take();
        drop(stop);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Makes the end stricter, or asks for it (F1).
    pub(crate) fn escalate(&self, how: Shutdown) {
        let mut stop = lock(&self.stop);
        stop.asked.get_or_insert(how);
        let how = Strictness::from(how);
        stop.escalated = Some(stop.escalated.map_or(how, |before| before.and(how)));
        let waiter = stop.waiter.take();
        drop(stop);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Takes the escalation that has come; if there is none, the waker is woken when one comes.
    pub(super) fn hear(&self, waker: &Waker) -> Option<Strictness> {
        let fresh = waker.clone();
        let mut stop = lock(&self.stop);
        let heard = take(&mut stop.escalated);
        let old = stop.waiter.replace(fresh);
        drop(stop);
        drop(old);
        heard
    }

    /// Blocks until the end is asked for.
    pub(crate) fn wait_for_request(&self) -> Shutdown {
        wait_while(|waker| {
            // Cloned before the lock, and the old one dropped after it.
            let fresh = waker.clone();
            let mut stop = lock(&self.stop);
            let waits = stop.asked.is_none();
            let old = stop.waiter.replace(fresh);
            drop(stop);
            drop(old);
            waits
        });
        lock(&self.stop).asked.expect("that is what was waited for")
    }
}

/// The thread that ends the tasks of a runtime when it is asked to.
pub(super) struct Closer {
    thread: Thread,
    /// What it leaves behind.
    ended: Arc<Mutex<Option<Ended>>>,
}

/// A runtime that could not begin, because a thread could not start.
pub(super) struct NotBegun {
    error: BuildError,
    /// What was there at the deadline of its end.
    left: Box<ShutdownReport>,
}

impl From<NotBegun> for BuildError {
    fn from(not_begun: NotBegun) -> Self {
        not_begun.error
    }
}

impl Closer {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, BuildError> {
        let ended = Arc::new(Mutex::new(None));
        let (shared, place) = (shared.clone(), ended.clone());
        let name = thread::name_with_suffix(&shared.config.thread_name, "closer");
        let body = move || {
            let how = shared.life.wait_for_request();
            let ended = shared.end_tasks(how);
            let ending = ended.report.ending();
            *lock(&place) = Some(ended);
            match ending {
                Ending::Over => shared.stop_workers(),
                Ending::InBackground => shared.leave_to_sentry(),
            }
        };
        match thread::start(&name, None, body) {
            Ok(thread) => Ok(Self { thread, ended }),
            Err(source) => Err(BuildError::Thread { name, source }),
        }
    }

    /// Waits until the tasks are gone, or left behind; then ends the threads.
    pub(super) fn finish(self, shared: &Shared) -> ShutdownReport {
        self.thread.join();
        let ended = lock(&self.ended).take().expect("that is the last that it does");
        match ended.report.ending() {
            Ending::Over => shared.end_threads(ended),
            Ending::InBackground => ended.report,
        }
    }
}

impl Shared {
    /// Runs a runtime that waits for it, until it is asked to stop and has ended.
    pub(crate) fn run(self: &Arc<Self>) -> Result<ShutdownReport, BuildError> {
        Ok(self.try_run()?)
    }

    fn try_run(self: &Arc<Self>) -> Result<ShutdownReport, NotBegun> {
        if !self.life.is_for_a_caller() {
            let how = self.life.wait_for_request();
            return Ok(self.shut_down(how));
        }
        let (main, closer) = self.begin()?;
        if let Some(slot) = main {
            self.serve_as_main(slot);
        }
        Ok(closer.finish(self))
    }

    /// Starts everybody but the main worker.
    pub(super) fn begin(self: &Arc<Self>) -> Result<(Option<usize>, Closer), NotBegun> {
        let (main, others) = self.muster();
        self.pool.serve();
        let (error, watched) = match self.start_all(&others) {
            Err(error) => (error, Watched::No),
            // The closer last: it might stop what has not started.
            Ok(()) => match Closer::start(self) {
                Ok(closer) => return Ok((main, closer)),
                Err(error) => (error, Watched::Yes),
            },
        };
        let left = self.give_up(main.into_iter().chain(others), watched);
        Err(NotBegun { error, left: Box::new(left) })
    }

    /// Some threads could not start: drops all tasks, on this thread in the name of each worker that has
    /// none, and joins the threads there are (F4).
    pub(super) fn give_up(
        self: &Arc<Self>,
        slots: impl Iterator<Item = usize>,
        watched: Watched,
    ) -> ShutdownReport {
        self.life.request(Shutdown::Abort);
        let mut limits = Limits::of(self.life.wait_for_request());
        self.leave_open();
        self.advance(Phase::Aborting);
        let idle = slots.filter(|&slot| lock(&self.slots[slot].core).is_some());
        let occupy = |slot| {
            let worker = Worker::new(self.clone(), slot);
            // What is dropped in its name may wait (B3 of `blocking`).
            worker.lane().crew.enlist();
            worker
        };
        let workers: Vec<_> = idle.map(occupy).collect();
        let serve = || {
            for worker in &workers {
                worker.enter(|| while worker.serve() == Served::Something {});
            }
        };
        loop {
            // These threads are the workers that drop all; those with threads drop what is theirs.
            let _ = self.cancel_all();
            self.drop_unattended();
            serve();
            match self.wait_for_walk(&limits) {
                Waited::Finished => break,
                Waited::Escalated(stricter) => limits.tighten(stricter),
                Waited::TimeIsUp if limits.are_over() => {
                    let report = self.report_what_is_left();
                    if report.ending() == Ending::Over {
                        break;
                    }
                    self.leave_to_sentry();
                    while !workers.iter().all(Worker::may_leave) {
                        serve();
                    }
                    workers.into_iter().for_each(|worker| self.leave_to_successor(worker));
                    if watched == Watched::No {
                        self.start_sentry_for_the_rest();
                    }
                    return report;
                }
                Waited::TimeIsUp => {}
            }
        }
        for worker in workers {
            worker.end_driver();
            worker.leave();
        }
        self.end_threads(Ended { report: ShutdownReport::default(), limits })
    }

    /// The caller's thread is the main worker until the runtime has stopped.
    fn serve_as_main(self: &Arc<Self>, slot: usize) {
        let _lent = self.slice_main();
        let _entered = self.finder.enter();
        let worker = self.take_main(slot);
        worker.enter(|| worker.serve_to_the_end());
        self.leave_main(worker);
    }

    pub(super) fn take_main(self: &Arc<Self>, slot: usize) -> Worker {
        let worker = Worker::new(self.clone(), slot);
        worker.lane().crew.enlist();
        self.tell_start(worker.slot().info);
        worker
    }

    /// F2.
    pub(super) fn leave_main(self: &Arc<Self>, worker: Worker) {
        let info = worker.slot().info;
        // Where it takes the slot over, a successor is another thread with a begin and an end of its own.
        let successor = self.vacate(worker);
        self.tell_stop(info);
        if let Some(slot) = successor {
            self.start_successor(slot);
        }
    }

    /// F4.
    fn leave_to_successor(self: &Arc<Self>, worker: Worker) {
        if let Some(slot) = self.vacate(worker) {
            self.start_successor(slot);
        }
    }

    /// Has the worker of this thread leave its slot, which is returned if the end goes on without it.
    fn vacate(&self, worker: Worker) -> Option<usize> {
        let slot = worker.index();
        let goes_on = !worker.is_stopped();
        if goes_on {
            worker.hand_over();
            worker.lane().crew.dismiss();
        }
        worker.end_driver();
        worker.leave();
        let place = &self.slots[slot];
        // A core of the program's own is called on one thread only.
        let was_foreign = place.guest_core.is_present() || self.cores.is_some();
        place.drop_guest_core();
        if goes_on && was_foreign {
            place.install(Box::new(ParkCore::new()));
        }
        goes_on.then_some(slot)
    }

    /// Ends a runtime that nobody has run (F3).
    pub(crate) fn end_unrun(self: &Arc<Self>, how: Shutdown) -> ShutdownReport {
        self.life.request(how);
        self.leave_open();
        if self.root.is_finished() {
            // Nobody will run it, and there is nothing to wait for.
            self.pool.serve();
            return self.end_threads(self.end_tasks(how));
        }
        let kept = self.tasks();
        self.try_run().unwrap_or_else(|NotBegun { error, left }| {
            // Where not even its threads start, all is dropped.
            self.refuse(error.to_string());
            ShutdownReport { unfinished: kept, ..*left }
        })
    }
}

impl Worker {
    /// The loop of a main worker, until the runtime has stopped, or goes on without it (F2).
    pub(super) fn serve_to_the_end(&self) {
        self.leaves_early.set(true);
        while self.step() == Flow::Continue && !self.may_be_left_behind() {}
    }

    /// Whether the thread of this worker may go, when the end goes on in the background.
    fn may_leave(&self) -> bool {
        self.is_stopped() || self.may_be_left_behind()
    }
}
