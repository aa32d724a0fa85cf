//! How threads begin and end.
//!
//! L1. `start` returns once every worker has joined its lane, so each can be woken from then on.
//! L2. If a thread cannot start, those that did are stopped and joined, and the error names it.
//! L3. No thread starts once the runtime is stopped; who joins them sees all.
//! L4. They are joined when the last of them has said that it ends, so an escalation is heard, and a deadline kept, until
//!     then (Z7 and Z10 of `shutdown`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::forked;
use super::limits::Limits;
use super::roster::{AttachError, NewWorker, WorkerId};
use super::sentry;
use super::shared::{Lane, Parts, Phase, Shared, Slot, lock};
use super::worker::{Flow, Worker};
use crate::base::parker::Parker;
use crate::base::shim::{AtomicUsize, Ordering};
use crate::base::{barrier, sim, thread};
use crate::config::hooks::{Role, ThreadHook, WorkerInfo};
use crate::error::BuildError;
use crate::queue::deque::Steal;
use crate::task::group::{Fallout, Group};
use crate::task::header::{RawTask, TaskId};

/// How many threads have yet to say something: that they are there (L1), or that they end (L4).
pub(crate) struct Roll {
    missing: AtomicUsize,
    /// Where the one thread parks that waits for them.
    caller: Arc<Parker>,
}

/// A thread that has yet to say it; dropped, it has.
struct Missing(Arc<Roll>);

impl Roll {
    pub(super) fn new() -> Self {
        Self { missing: AtomicUsize::new(0), caller: Arc::new(Parker::new()) }
    }

    fn add(self: &Arc<Self>) -> Missing {
        // ORDERING: Relaxed, whoever waits has added it itself, or comes after that by the lock of the threads (L3).
        self.missing.fetch_add(1, Ordering::Relaxed);
        Missing(self.clone())
    }

    fn is_complete(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `Missing::drop`: what each thread did before
        // it said so is seen.
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Waits until all have said it.
    fn wait(&self) {
        while !self.is_complete() {
            self.caller.park();
        }
    }
}

impl Drop for Missing {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `Roll::is_complete`.
        if self.0.missing.fetch_sub(1, Ordering::Release) == 1 {
            self.0.caller.unpark();
        }
    }
}

/// Makes a runtime and starts its threads.
pub(crate) fn start(parts: Parts) -> Result<Arc<Shared>, BuildError> {
    barrier::init();
    forked::notice_forks();
    let shared = Shared::new(parts);
    shared.check_backend()?;
    shared.follow_clock();
    if shared.life.is_for_a_caller() {
        return Ok(shared);
    }
    let (main, mut workers) = shared.muster();
    workers.extend(main);
    workers.sort_unstable();
    match shared.start_all(&workers) {
        Ok(()) => Ok(shared),
        Err(error) => {
            // An event core or a hook may have spawned for those that are missing.
            let _ = shared.give_up(workers.into_iter(), Watched::No);
            Err(error)
        }
    }
}

/// Whether a runtime has its sentry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    Yes,
    No,
}

impl Shared {
    /// Starts these workers and the sentry, which is the last: there is none if that fails.
    pub(super) fn start_all(self: &Arc<Self>, workers: &[usize]) -> Result<(), BuildError> {
        let roll = Arc::new(Roll::new());
        let tokens = (0..=workers.len()).map(|_| roll.add()).collect();
        let started = self.start_each(workers, tokens);
        // Also after a failure: those that did start have their cores then.
        roll.wait();
        started
    }

    /// Starts these workers and the sentry, up to the first that cannot start: then the other tokens go.
    fn start_each(
        self: &Arc<Self>,
        workers: &[usize],
        mut tokens: Vec<Missing>,
    ) -> Result<(), BuildError> {
        for &slot in workers {
            self.start_worker(slot, tokens.pop())?;
        }
        self.start_sentry(tokens)
    }

    fn start_sentry(self: &Arc<Self>, tokens: Vec<Missing>) -> Result<(), BuildError> {
        let shared = self.clone();
        self.start_thread("sentry".into(), move || {
            shared.slice_sentry();
            drop(tokens);
            sentry::watch(shared);
        })
    }

    /// Starts the sentry for the rest of an end (Z5 of `shutdown`) of a runtime that has none.
    pub(super) fn start_sentry_for_the_rest(self: &Arc<Self>) {
        if let Err(error) = self.start_sentry(Vec::new()) {
            self.refuse(format!("{error}; what is left of the runtime stays"));
        }
    }

    fn start_worker(
        self: &Arc<Self>,
        slot: usize,
        missing: Option<Missing>,
    ) -> Result<(), BuildError> {
        let info = self.slots[slot].info;
        let shared = self.clone();
        let name = self.roster.given_name(slot).unwrap_or_else(|| {
            let suffix = format!("{}-{}", info.role, info.index);
            thread::name_with_suffix(&self.config.thread_name, &suffix)
        });
        self.start_named(name, move || {
            shared.set_up_thread(info);
            run_worker(shared, slot, missing);
        })
    }

    /// Attaches a worker while the runtime runs, or registers it.
    pub(crate) fn attach(self: &Arc<Self>, new: NewWorker) -> Result<WorkerId, AttachError> {
        let slot = self.take_place(new)?;
        if let Some(id) = self.register(slot) {
            return Ok(id);
        }
        if let Err(error) = self.start_worker(slot, None) {
            self.free_place(slot);
            return Err(match self.phase() {
                Phase::Open => AttachError::Thread(error),
                _ => AttachError::ShutDown,
            });
        }
        Ok(self.confirm(slot))
    }

    /// Starts a thread with the runtime's prefix.
    pub(super) fn start_thread(
        &self,
        suffix: String,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), BuildError> {
        self.start_named(thread::name_with_suffix(&self.config.thread_name, &suffix), body)
    }

    /// Starts a thread that `stop_threads` will join (L3).
    fn start_named(
        &self,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), BuildError> {
        let mut threads = lock(&self.threads);
        if self.phase() == Phase::Stopped {
            let source = io::Error::other("the runtime has stopped");
            return Err(BuildError::Thread { name, source });
        }
        threads.retain(|(thread, _)| !thread.is_finished());
        let stays = self.leaving.add();
        let body = move || {
            // L4: dropped last, also if it panics.
            let _stays = stays;
            body();
        };
        match thread::start(&name, self.config.stack_size, body) {
            Ok(thread) => {
                threads.push((thread, name));
                Ok(())
            }
            Err(source) => Err(BuildError::Thread { name, source }),
        }
    }

    /// Starts a thread in the place of the main worker, which has left (F2 of `life`).
    pub(super) fn start_successor(self: &Arc<Self>, slot: usize) {
        if let Err(error) = self.start_worker(slot, None)
            && self.phase() != Phase::Stopped
        {
            self.refuse(error.to_string());
        }
    }

    /// Starts a thread for a spare that the crew has just summoned.
    pub(crate) fn start_spare(&self, lane: &Lane, slot: usize) {
        // SAFETY: the caller's `&self` keeps it alive.
        let shared = unsafe { Self::to_arc(self.root.home().shared.cast()) };
        if let Err(error) = shared.start_worker(slot, None) {
            lane.crew.failed(slot);
            if shared.phase() != Phase::Stopped {
                shared.refuse(error.to_string());
            }
        }
    }

    /// Level, affinity and start hook of a worker's thread; refusals are remembered.
    fn set_up_thread(&self, info: WorkerInfo) {
        let config = &self.config;
        let (level, affinity) = match info.role {
            Role::Io | Role::Both => (config.io_level, &config.io_affinity),
            Role::Compute => (config.compute_level, &config.compute_affinity),
        };
        if sim::is_on() {
            return self.tell_start(info);
        }
        if info.role != Role::Compute {
            thread::end_timeouts_on_time();
        }
        self.slice_worker(info.role);
        if let Err(error) = thread::apply_level(level) {
            self.refuse(format!("{}-{}: level {level:?} refused: {error}", info.role, info.index));
        }
        if let Some(cpus) = affinity.cpus_for(info.index, &thread::current_affinity())
            && let Err(error) = thread::set_affinity(&cpus)
        {
            self.refuse(format!("{}-{}: CPUs {cpus:?} refused: {error}", info.role, info.index));
        }
        self.tell_start(info);
    }

    pub(super) fn tell_start(&self, info: WorkerInfo) {
        self.call(&self.hooks.on_thread_start, "on_thread_start", info);
    }

    pub(super) fn tell_stop(&self, info: WorkerInfo) {
        self.call(&self.hooks.on_thread_stop, "on_thread_stop", info);
    }

    /// Calls a hook; its panic goes to the hook for panics, every time.
    fn call(&self, hook: &Option<ThreadHook>, name: &'static str, info: WorkerInfo) {
        let Some(ThreadHook { call, site }) = hook else { return };
        let Err(payload) = catch_unwind(AssertUnwindSafe(|| call(info))) else { return };
        let WorkerInfo { role, index, .. } = info;
        self.root.deliver(Fallout {
            payload,
            task: TaskId(0),
            name: Some(format!("{name} of {role}-{index}").into()),
            site,
        });
    }

    /// Has all threads end.
    pub(super) fn stop_workers(&self) {
        self.advance(Phase::Stopped);
        self.rouse();
    }

    /// Has every thread look at the phase.
    pub(super) fn rouse(&self) {
        self.wake_all();
        self.sentry.wake();
        self.unpark_all();
    }

    fn unpark_all(&self) {
        for lane in &self.lanes {
            lane.range.clone().for_each(|slot| self.unpark(slot));
        }
        self.blockers.wake_all();
    }

    /// Ends and joins all threads, as far as the limits let it; returns the names of those that are left. No task is.
    pub(super) fn stop_threads(&self, limits: &mut Limits) -> Vec<String> {
        self.stop_workers();
        self.wait_for_threads(limits);
        let threads = std::mem::take(&mut *lock(&self.threads));
        let mut left = Vec::new();
        // L4: if all have said that they end, none is left, and the others are about to be gone.
        let is_complete = self.leaving.is_complete();
        for (thread, name) in threads {
            if is_complete || thread.is_finished() {
                // A worker's panic would be a bug of ours, and its message is out already.
                thread.join();
            } else {
                left.push(name);
            }
        }
        self.close_wheels();
        if left.is_empty() {
            self.clear_queues();
            // E3 of `core`, of workers that never had a thread.
            self.slots.iter().for_each(|slot| slot.drop_guest_core());
        }
        // The cores that the program's factory made end with the runtime, not with its last handle.
        for slot in self.slots_without_thread() {
            slot.drop_guest_core();
            slot.drop_core();
        }
        left
    }

    /// Waits until every thread has said that it ends, or the time is up (L4).
    fn wait_for_threads(&self, limits: &mut Limits) {
        let caller = &self.leaving.caller;
        let (waker, since) = (Waker::from(caller.clone()), sim::now());
        // L3: a thread that somebody starts at this moment is counted.
        drop(lock(&self.threads));
        self.unpark_all();
        while !self.leaving.is_complete() {
            if let Some(stricter) = self.life.hear(&waker) {
                limits.tighten(stricter);
            }
            let end = limits.end_of_threads(since);
            if end.is_some_and(|end| sim::now() >= end) {
                return;
            }
            caller.park_until(end);
        }
    }

    /// Workers' slots that no thread of ours occupies.
    fn slots_without_thread(&self) -> impl Iterator<Item = &Slot> {
        let slots = self.lanes.iter().flat_map(|lane| lane.range.clone().take(lane.staff));
        slots.map(|slot| &*self.slots[slot]).filter(|slot| lock(&slot.core).is_some())
    }

    /// Takes the tombstones of claimed jobs out of the queues. No thread of ours is left, and no task.
    pub(super) fn clear_queues(&self) {
        // SAFETY: T4, the entry was in a queue and is ours now; all tasks have ended.
        let mut clear = |entry| unsafe { RawTask(entry).bury() };
        for lane in &self.lanes {
            for queue in [&lane.injector, &lane.high, &lane.low] {
                while queue.pop_batch(usize::MAX, 0, &mut clear) > 0 {}
            }
            while let Some(batch) = lane.spill.pop_newest() {
                batch.into_iter().for_each(&mut clear);
            }
        }
        for slot in &self.slots {
            slot.clear_deque();
            // SAFETY: S3, no thread occupies the slot any more, or it is a guest, which has no ring.
            while let Some(entry) = unsafe { slot.ring.pop() } {
                clear(entry);
            }
            debug_assert!(slot.mailbox.is_empty(), "a pinned task leaves no tombstone");
        }
    }
}

impl Slot {
    /// Takes the tombstones out of the deque, when no task is left. As a thief does: an adopted
    /// thread, which nobody joins, may be about to find out that its scope has ended.
    pub(crate) fn clear_deque(&self) {
        loop {
            match self.deque.steal() {
                Steal::Empty => return,
                Steal::Retry => {}
                // SAFETY: T4, the entry was in a queue and is ours now; all tasks have ended.
                Steal::Taken(entry) => unsafe { RawTask(entry).bury() },
            }
        }
    }
}

fn run_worker(shared: Arc<Shared>, slot: usize, missing: Option<Missing>) {
    let _entered = shared.finder.enter();
    let worker = Worker::new(shared.clone(), slot);
    let info = worker.slot().info;
    if !worker.is_spare() {
        worker.lane().crew.enlist();
        worker.lane().growth.succeed();
    }
    drop(missing);
    if worker.is_spare() {
        worker.enter(|| worker.run_as_spare());
        worker.end_driver();
        worker.leave();
        let lane = &shared.lanes[shared.slots[slot].lane];
        lane.crew.vacate(slot);
        // Who blocked while the slot was being left found no spare.
        shared.reinforce_if_needed(lane);
    } else {
        run_regular(worker);
    }
    shared.tell_stop(info);
}

/// The loop of a regular worker, until the runtime stops or it is detached.
fn run_regular(worker: Worker) {
    match worker.enter(|| worker.run_until_it_leaves()) {
        Some(farewell) => worker.depart(farewell),
        None => {
            let (shared, slot) = (worker.shared().clone(), worker.index());
            worker.end_driver();
            worker.leave();
            shared.slots[slot].drop_guest_core();
        }
    }
}

impl Worker {
    /// The loop of a spare: it goes when it is not needed for a while.
    fn run_as_spare(&self) {
        while self.step() == Flow::Continue {
            if !self.lane().crew.is_surplus() {
                continue;
            }
            // C4; before the look at the queues, because the end of a group may wake a task.
            Group::settle();
            if self.is_empty_handed() && !self.wait_for_summons() {
                return;
            }
        }
    }

    /// Stands by; true if the spare goes on working.
    fn wait_for_summons(&self) -> bool {
        let (shared, lane) = (self.shared(), self.lane());
        if !lane.crew.stand_by(self.index()) {
            return true;
        }
        self.leave_lane();
        let keep_alive = shared.config.spare_keep_alive;
        let until = shared.clock.now() + keep_alive;
        loop {
            if !self.is_stopped() {
                sim::in_background(|| self.park(Some(keep_alive)));
            }
            // An event core may have woken tasks meanwhile.
            self.offer_newest();
            if self.has_private() || self.has_pinned() {
                // It has spawned some that only this thread can run.
                lane.crew.needs(self.index());
                self.join_lane();
                return true;
            }
            let goes = shared.clock.now() >= until || self.is_stopped();
            if lane.crew.was_summoned(self.index()) || (goes && !lane.crew.retire(self.index())) {
                self.join_lane();
                return true;
            }
            if goes {
                return false;
            }
        }
    }

    fn is_empty_handed(&self) -> bool {
        let slot = self.slot();
        !self.has_newest()
            && !self.has_private()
            && !self.has_pinned()
            && slot.ring.is_empty()
            && slot.deque.is_empty()
    }
}
