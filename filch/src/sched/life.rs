//! A runtime that its caller runs: from the registration of its workers to the structured end.
//!
//! Before it is run, workers are registered and posts are kept: in the mailboxes, the injectors and the
//! wheels where they will be found. Then the calling thread is the main worker, and the others get threads.
//! A *closer* waits for the request to stop, ends the tasks as it says (`shutdown`) while all workers go on
//! working, and then stops them.
//!
//! F1. A stop is requested once; what is requested later does not count. An escalation counts at any time: the
//!     end that goes on hears it, or else the next one.
//! F2. The main worker leaves its slot before the queues are cleared, as every other thread does (S3).
//!     If the end goes on in the background, it leaves when nothing is left that only its thread can run, and
//!     a thread of ours takes its slot over: whoever still runs may need a worker there.
//! F3. A runtime that ends before it was run is run for its end, if there are tasks to end.
//!
//! Not here: how the main worker lives in a loop of others (`pump`).

use std::mem::take;
use std::sync::Arc;
use std::task::Waker;

use super::blocking::wait_while;
use super::core::ParkCore;
use super::shared::{Birth, Phase, Shared, lock};
use super::shutdown::{Ending, Shutdown, ShutdownReport};
use super::worker::{Flow, Served, Worker};
use crate::base::shim::{Mutex, yield_now};
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
    escalated: Option<Shutdown>,
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
        if stop.escalated.is_none_or(|before| how.counts_after(before)) {
            stop.escalated = Some(how);
        }
        let waiter = stop.waiter.take();
        drop(stop);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Takes the escalation that has come; if there is none, the waker is woken when one comes.
    pub(super) fn hear(&self, waker: &Waker) -> Option<Shutdown> {
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
    report: Arc<Mutex<ShutdownReport>>,
}

impl Closer {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, BuildError> {
        let report = Arc::new(Mutex::new(ShutdownReport::default()));
        let (shared, place) = (shared.clone(), report.clone());
        let name = thread::name_with_suffix(&shared.config.thread_name, "closer");
        let body = move || {
            let how = shared.life.wait_for_request();
            let report = shared.end_tasks(how);
            let ending = report.ending();
            *lock(&place) = report;
            match ending {
                Ending::Over => shared.stop_workers(),
                Ending::InBackground => shared.leave_to_sentry(),
            }
        };
        match thread::start(&name, None, body) {
            Ok(thread) => Ok(Self { thread, report }),
            Err(source) => Err(BuildError::Thread { name, source }),
        }
    }

    /// Waits until the tasks are gone, or left behind; then ends the threads.
    pub(super) fn finish(self, shared: &Shared) -> ShutdownReport {
        self.thread.join();
        let report = take(&mut *lock(&self.report));
        if report.ending() == Ending::Over {
            shared.stop_threads();
        }
        report
    }
}

impl Shared {
    /// Runs a runtime that waits for it, until it is asked to stop and has ended.
    pub(crate) fn run(self: &Arc<Self>) -> Result<ShutdownReport, BuildError> {
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
    pub(super) fn begin(self: &Arc<Self>) -> Result<(Option<usize>, Closer), BuildError> {
        let (main, others) = self.muster();
        self.pool.serve();
        // The closer last: it might stop what has not started.
        match self.start_all(&others).and_then(|()| Closer::start(self)) {
            Ok(closer) => Ok((main, closer)),
            Err(error) => {
                self.give_up(main.into_iter().chain(others));
                Err(error)
            }
        }
    }

    /// Some threads could not start: drops all tasks, on this thread in the name of each worker that has
    /// none, and joins the threads there are.
    pub(super) fn give_up(self: &Arc<Self>, slots: impl Iterator<Item = usize>) {
        self.life.request(Shutdown::Abort);
        self.leave_open();
        self.advance(Phase::Aborting);
        let idle = slots.filter(|&slot| lock(&self.slots[slot].core).is_some());
        let workers: Vec<_> = idle.map(|slot| Worker::new(self.clone(), slot)).collect();
        while !self.root.is_finished() {
            // These threads are the workers that drop all.
            let _ = self.cancel_all();
            self.drop_unattended();
            for worker in &workers {
                worker.enter(|| while worker.serve() == Served::Something {});
            }
            // Those with threads drop what is theirs.
            yield_now();
        }
        for worker in workers {
            worker.end_driver();
            worker.leave();
        }
        self.shut_down(Shutdown::Abort);
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
        let (info, slot) = (worker.slot().info, worker.index());
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
        self.tell_stop(info);
        if goes_on {
            if was_foreign {
                place.install(Box::new(ParkCore::new()));
            }
            self.start_successor(slot);
        }
    }

    /// Ends a runtime that nobody has run (F3).
    pub(crate) fn end_unrun(self: &Arc<Self>, how: Shutdown) -> ShutdownReport {
        self.leave_open();
        if self.root.is_finished() {
            self.stop_threads();
            return ShutdownReport::default();
        }
        self.life.request(how);
        let kept = self.tasks();
        self.run().unwrap_or_else(|error| {
            // Where not even its threads start, all is dropped.
            self.refuse(error.to_string());
            ShutdownReport { unfinished: kept, ..ShutdownReport::default() }
        })
    }
}

impl Worker {
    /// The loop of a main worker, until the runtime has stopped, or goes on without it (F2).
    pub(super) fn serve_to_the_end(&self) {
        while self.step() == Flow::Continue && !self.may_be_left_behind() {}
    }
}
