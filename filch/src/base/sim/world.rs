//! A simulation: its participants, its clock, and the way of the baton.
//!
//! B1. Exactly one participant is outside of its gate, the holder, from the first start until the
//!     verdict; it alone changes the state, apart from the driver's verdict that it is stalled.
//! B2. Once a run has failed, whoever comes to a switch stays there for ever: its thread and what
//!     is on its stack are given up, because what it waits for will not come.
//! B3. The state's lock is held by no participant that waits at its gate.
//!
//! Not here: the choice (`state`), the run's beginning and its report (`testkit`).

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::hooks::Participant;
use super::state::{Cause, Key, Kind, Next, Standing, State, Verdict, What};
use crate::base::clock::ManualClock;
use crate::base::parker::{Plain, Unparked};
use crate::base::shim::{Mutex, MutexGuard};

/// What a simulated machine has besides threads and time: the layers above know what.
pub(crate) type Annex = Arc<dyn Any + Send + Sync>;

pub(crate) struct World {
    seed: u64,
    annex: Annex,
    state: Mutex<State>,
    clock: Arc<ManualClock>,
    began: Instant,
    /// Where the driver waits for the verdict.
    verdict: Plain,
    /// Threads, for the driver to join.
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

/// A participant, for whoever waits for its end.
pub(crate) struct Seat {
    world: Arc<World>,
    number: usize,
}

/// How far a run has come, as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) steps: u64,
    /// The holder's thread, as the system calls it.
    pub(crate) thread: u32,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver's side.
impl World {
    pub(crate) fn new(seed: u64, most_steps: u64, annex: Annex) -> Arc<Self> {
        let clock = Arc::new(ManualClock::new());
        Arc::new(Self {
            seed,
            annex,
            state: Mutex::new(State::new(seed, most_steps)),
            began: clock.now(),
            clock,
            verdict: Plain::new(),
            threads: Mutex::new(Vec::new()),
        })
    }

    /// Starts the first participant, with the baton.
    pub(crate) fn begin(
        self: &Arc<Self>,
        name: &str,
        stack_size: Option<usize>,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        debug_assert!(locked(&self.state).people.is_empty(), "B1");
        self.start(name, stack_size, body)?;
        let gate = locked(&self.state).people[0].gate.clone();
        gate.unpark();
        Ok(())
    }

    /// Waits for the verdict, in real time; true if it has come.
    pub(crate) fn wait_for_verdict(&self, timeout: Duration) -> bool {
        self.verdict.park_until(Instant::now().checked_add(timeout)) == Unparked::Token
    }

    pub(crate) fn progress(&self) -> Progress {
        let state = locked(&self.state);
        Progress { steps: state.steps, thread: state.people[state.holder].thread }
    }

    /// The run has failed, says the driver: its holder has not moved since `seen`. False if it has.
    pub(crate) fn give_up(&self, seen: Progress, cause: Cause) -> bool {
        let mut state = locked(&self.state);
        let open = matches!(state.verdict, Verdict::Open);
        if !open || state.steps != seen.steps {
            return false;
        }
        state.verdict = Verdict::Failed(cause);
        true
    }

    /// After the verdict: the cause if it is a failure. Threads of a run that ended are joined.
    pub(crate) fn conclude(&self) -> Result<(), Cause> {
        let failed = match &locked(&self.state).verdict {
            Verdict::Failed(cause) => Some(cause.clone()),
            Verdict::Open | Verdict::Ended => None,
        };
        let threads = std::mem::take(&mut *locked(&self.threads));
        if let Some(cause) = failed {
            return Err(cause);
        }
        for thread in threads {
            // What it panicked with was caught in its body.
            let _ = thread.join();
        }
        Ok(())
    }

    /// A hash of every switch so far.
    pub(crate) fn trace(&self) -> u64 {
        locked(&self.state).trace
    }

    pub(crate) fn steps(&self) -> u64 {
        locked(&self.state).steps
    }

    /// What every participant does.
    pub(crate) fn describe(&self) -> String {
        locked(&self.state).to_string()
    }

    pub(crate) fn holder(&self) -> String {
        let state = locked(&self.state);
        state.name(state.holder).to_owned()
    }
}

/// The participants' side: called by the holder of the baton only (B1).
impl World {
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn annex(&self) -> &Annex {
        &self.annex
    }

    pub(crate) fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    pub(crate) fn random(&self) -> u64 {
        locked(&self.state).random()
    }

    pub(crate) fn take_ids(&self, count: u64) -> u64 {
        locked(&self.state).take_ids(count)
    }

    /// Starts a thread that waits for the baton.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: &str,
        stack_size: Option<usize>,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<Seat> {
        let (number, gate) = locked(&self.state).enrol(name.to_owned());
        let world = self.clone();
        let main = move || {
            let me = Participant { world, number, gate, background: false.into() };
            locked(&me.world.state).people[number].thread = thread_id();
            me.gate.park();
            let result = catch_unwind(AssertUnwindSafe(|| me.live(body)));
            me.world.end(&me, result.err());
        };
        let mut builder = std::thread::Builder::new().name(name.to_owned());
        if let Some(bytes) = stack_size {
            builder = builder.stack_size(bytes);
        }
        match builder.spawn(main) {
            Ok(thread) => {
                locked(&self.threads).push(thread);
                Ok(Seat { world: self.clone(), number })
            }
            Err(error) => {
                locked(&self.state).strike_out();
                Err(error)
            }
        }
    }

    /// A place where the baton may move.
    pub(super) fn switch(&self, me: &Participant, kind: Kind) {
        let state = locked(&self.state);
        debug_assert!(state.holder == me.number || !matches!(state.verdict, Verdict::Open), "B1");
        self.pass(state, me, kind);
    }

    pub(super) fn block(&self, me: &Participant, key: Key, until: Option<Instant>, what: What) {
        let until = until.map(|until| until.saturating_duration_since(self.began));
        let mut state = locked(&self.state);
        let (since, background) = (state.now, me.background.get());
        state.block(me.number, Standing::Blocked { key, what, since, until, background });
        self.pass(state, me, Kind::Block);
    }

    pub(super) fn wake(&self, key: Key) -> bool {
        locked(&self.state).wake(key)
    }

    pub(super) fn wake_one(&self, key: Key) {
        locked(&self.state).wake_one(key);
    }

    fn end(&self, me: &Participant, panic: Option<Box<dyn Any + Send>>) {
        let mut state = locked(&self.state);
        state.end(me.number);
        if let (Some(payload), Verdict::Open) = (&panic, &state.verdict) {
            let text = crate::base::sim::text_of(&**payload);
            state.verdict = Verdict::Failed(Cause::Panicked(text));
        }
        self.pass(state, me, Kind::End);
    }

    /// Hands the baton to whom the state picks, and waits until it is back.
    fn pass(&self, mut state: MutexGuard<'_, State>, me: &Participant, kind: Kind) {
        let next = state.next(me.number, kind);
        let elapsed = self.clock.now() - self.began;
        self.clock.advance(state.now.saturating_sub(elapsed));
        match next {
            Next::Run(next) if next == me.number => {}
            Next::Run(next) => {
                state.holder = next;
                let gate = state.people[next].gate.clone();
                drop(state);
                gate.unpark();
                if kind != Kind::End {
                    me.gate.park();
                }
            }
            Next::Over => {
                state.verdict = Verdict::Ended;
                drop(state);
                self.verdict.unpark();
            }
            Next::Failed(cause) => {
                state.verdict = Verdict::Failed(cause);
                drop(state);
                self.verdict.unpark();
                if kind != Kind::End {
                    me.wait_for_ever();
                }
            }
        }
    }
}

impl Seat {
    pub(crate) fn is_finished(&self) -> bool {
        matches!(locked(&self.world.state).people[self.number].standing, Standing::Ended)
    }

    /// Waits until the participant has ended. The caller is one of the same simulation.
    pub(crate) fn join(&self) {
        while !self.is_finished() {
            let on = super::wait(Key::End(self.number), None, What::Join(self.number));
            assert!(on, "a thread of a simulation is joined from outside of it");
        }
    }
}

#[cfg(target_os = "linux")]
fn thread_id() -> u32 {
    // SAFETY: gettid has no preconditions and cannot fail.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

#[cfg(not(target_os = "linux"))]
fn thread_id() -> u32 {
    0
}
