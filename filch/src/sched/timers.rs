//! Whose wheel a timer goes to, and who looks at the wheels when.
//!
//! Every place of a regular worker of the I/O lane has a wheel. A timer goes to that of the worker whose
//! thread registers it; from any other thread, a spare's included, to one of a worker that is attached, in
//! turn. A delayed post goes to the wheel with fewer timers of two that chance picks.
//!
//! M1. A worker looks at its wheel in every step, and sleeps no longer than to the nearest deadline,
//!     which it reads after it has published that it sleeps. Whoever makes that deadline earlier from
//!     another thread does so first, and then wakes the worker if it sleeps: one sees the other (I1).
//! M2. While a worker is awake and its wheel holds a timer, the sentry is armed (Y1). It fires the
//!     timers of a worker that is stuck or out. A spare, which there is only while somebody is missing,
//!     looks at all wheels in its steps and before its sleeps.
//! M3. A step fires at most `timer_budget` timers, or moves some times as many within the wheel, so they
//!     starve nobody; and there is a look in every step, so nobody starves them (K4).
//!     Sleeps that are shorter than `SHORT_NAP` have a rate: when timers are dense, a worker wakes for
//!     several at once, a little late, and not for each.
//! M4. A clock that is moved by hand wakes the workers when it moves, and no sleep has a timeout. But a core of
//!     the program's own is told how long it would be by that clock: a test reads there what it waits for.
//! M5. Wheels outlive the runtime with whoever still holds a timer; when it ends, timers that are left
//!     are woken unfired, so that their futures look for another runtime. A thread that is still adopted
//!     by one that has ended registers with the default runtime.
//! M6. A worker that leaves shuts its wheel and empties it: its timers are woken unfired, and their futures
//!     register them elsewhere. Who had chosen that wheel meanwhile is refused, and chooses again.
//! M7. Where no I/O worker is attached, the sentry looks after the first wheel, which takes all timers, until one
//!     comes to that place (Y4).
//! M8. A timer from another thread, or of a delayed post, goes to a pump's wheel only where there is no other: a
//!     frame may be long in coming. What came before the pump did is woken unfired and goes elsewhere, as in M6.
//!
//! Not here: the wheel and what a timer is (`timer`).

use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::shared::{Lane, Shared, Slot};
use super::worker::Worker;
use crate::base::clock::Listener;
use crate::base::rng::Rng;
use crate::base::shim::{AtomicBool, AtomicUsize, Ordering};
use crate::base::sim;
use crate::task::group::{guard_outside, guard_user_code};
use crate::timer::{Batch, Clock, Expiry, LATEST, NEVER, Refused, Registered, Shut, Timer, Timers};

/// Naps for timers that are shorter than this have a rate, one per such time (M3): a wake-up costs some
/// microseconds, and so at most a twentieth of the processor. Guessed.
const SHORT_NAP: Duration = Duration::from_micros(200);

/// So many of them may follow each other at once, and be exact. Guessed.
const BURST: u32 = 8;

/// How the clock of a runtime goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As parked threads see it: in real time, or in that of the simulation that they are part of.
    OfThreads,
    /// Whenever somebody moves it (M4).
    ByHand,
}

/// No wheel.
const NOBODY: usize = usize::MAX;

/// The wheels of a runtime.
pub(crate) struct Wheels {
    pub(crate) wheels: Box<[Arc<Timers>]>,
    /// Whose worker is attached. A guess for who chooses: the wheel itself refuses (M6).
    attached: Box<[AtomicBool]>,
    /// The wheel of a pump, or `NOBODY` (M8).
    pumped: AtomicUsize,
    /// Whose turn it is to get a timer from elsewhere.
    turn: AtomicUsize,
    /// The time zero of the wheels.
    epoch: Instant,
    pace: Pace,
}

impl Wheels {
    pub(crate) fn new(places: usize, clock: &Clock) -> Self {
        let pace = match clock {
            Clock::Real => Pace::OfThreads,
            Clock::Manual(clock) => match sim::clock() {
                Some(simulated) if Arc::ptr_eq(&simulated, clock) => Pace::OfThreads,
                _ => Pace::ByHand,
            },
        };
        Self {
            // M7 needs one.
            wheels: (0..places.max(1)).map(|_| Arc::new(Timers::new())).collect(),
            attached: (0..places.max(1)).map(|_| AtomicBool::new(false)).collect(),
            pumped: AtomicUsize::new(NOBODY),
            turn: AtomicUsize::new(0),
            epoch: clock.now(),
            pace,
        }
    }

    /// A worker is attached, and will look at its wheel.
    pub(super) fn attach(&self, number: usize) {
        self.wheels[number].open();
        // ORDERING: Relaxed, a guess (M6).
        self.attached[number].store(true, Ordering::Relaxed);
    }

    /// A worker leaves: from now on its wheel takes nothing (M6).
    pub(super) fn detach(&self, number: usize) {
        // ORDERING: Relaxed, a guess (M6).
        self.attached[number].store(false, Ordering::Relaxed);
        self.wheels[number].shut(Shut::Left);
    }

    /// The worker of this wheel is pumped (M8).
    pub(super) fn note_pump(&self, number: usize) {
        // ORDERING: Relaxed, a choice among wheels that are all served.
        self.pumped.store(number, Ordering::Relaxed);
    }

    /// When a wheel is due whose nearest deadline this is, if ever.
    fn due(&self, nearest: u64) -> Option<Instant> {
        (nearest < LATEST).then(|| self.epoch + Duration::from_nanos(nearest))
    }

    /// The wheels of attached workers, for timers that are for anybody (M8).
    fn attached(&self) -> impl Iterator<Item = usize> {
        // ORDERING: Relaxed, a guess (M6).
        let is_attached = |number: &usize| self.attached[*number].load(Ordering::Relaxed);
        // ORDERING: Relaxed, see `note_pump`.
        let pumped = self.pumped.load(Ordering::Relaxed);
        let all = 0..self.wheels.len();
        let others = pumped != NOBODY && all.clone().any(|i| i != pumped && is_attached(&i));
        all.filter(move |number| is_attached(number) && !(others && *number == pumped))
    }

    /// One of the wheels of attached workers, by a number; the first place's where nobody is attached,
    /// because whoever comes first comes there.
    fn attached_at(&self, number: usize) -> usize {
        match self.attached().count() {
            0 => 0,
            // Somebody may have left between the two looks.
            count => self.attached().nth(number % count).unwrap_or(0),
        }
    }

    /// The wheel with fewer timers of two different ones that chance picks.
    fn lighter_of_two(&self, mut choose: impl FnMut(usize) -> usize) -> usize {
        let count = self.attached().count().max(1);
        let first = choose(count);
        let other = choose((count - 1).max(1));
        let second = if other < first { other } else { other + 1 };
        let (one, two) = (self.attached_at(first), self.attached_at(second));
        if self.wheels[two].len() < self.wheels[one].len() { two } else { one }
    }

    /// A deadline as the wheels count it; one that is too far is the last, which never comes.
    pub(crate) fn deadline(&self, at: Instant) -> u64 {
        self.time(at).min(LATEST)
    }

    /// A time as the wheels count it, in nanoseconds.
    pub(crate) fn time(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch);
        since.as_secs().saturating_mul(1_000_000_000).saturating_add(since.subsec_nanos().into())
    }

    /// How long a thread may sleep whose wheels are due at `nearest`.
    pub(super) fn nap(&self, nearest: u64, now: Instant) -> Option<Duration> {
        let left = self.left_until(nearest, now)?;
        match self.pace {
            Pace::ByHand if !left.is_zero() => None,
            _ => Some(left),
        }
    }

    /// The time until wheels are due at `nearest`, by the runtime's clock.
    fn left_until(&self, nearest: u64, now: Instant) -> Option<Duration> {
        let left = || Duration::from_nanos(nearest.saturating_sub(self.time(now)));
        (nearest < LATEST).then(left)
    }
}

/// Which wheel a timer should go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preference {
    /// That of the worker whose thread this is.
    Here,
    /// The lighter of two.
    Light,
}

/// A wheel to register a timer with.
struct Place<'a> {
    timers: &'a Arc<Timers>,
    /// Not in the future; may be some steps old.
    now: u64,
    number: usize,
}

impl Shared {
    /// Registers a timer, and sees to it that somebody looks at its wheel in time; ready if it is due, `None`
    /// if the runtime has ended (M5).
    pub(crate) fn register_timer(
        &self,
        mut timer: Pin<&mut Timer>,
        at: Instant,
        mut waker: Waker,
        preference: Preference,
    ) -> Option<Poll<()>> {
        self.process().check();
        let deadline = self.wheels.deadline(at);
        loop {
            let place = match preference {
                Preference::Here => self.place_timer(),
                Preference::Light => self.place_light(),
            };
            match timer.as_mut().register(place.timers, deadline, place.now, waker) {
                Ok(Registered::Due) => return Some(Poll::Ready(())),
                Ok(Registered::Waits) => return Some(Poll::Pending),
                Ok(Registered::Nearest) => {
                    self.announce_timer(&place);
                    return Some(Poll::Pending);
                }
                Err(Refused { why: Shut::Ended, .. }) => return None,
                // M6.
                Err(Refused { why: Shut::Left, waker: returned }) => waker = returned,
            }
        }
    }

    /// The wheel for a timer that this thread registers.
    fn place_timer(&self) -> Place<'_> {
        let wheels = &self.wheels;
        // SAFETY: used within this call only.
        if let Some(worker) = unsafe { Worker::of_runtime(self) }
            && let Some(number) = worker.open_wheel()
        {
            let now = wheels.time(worker.time());
            return Place { timers: &wheels.wheels[number], now, number };
        }
        // ORDERING: Relaxed, any spread will do.
        let turn = wheels.turn.fetch_add(1, Ordering::Relaxed);
        let number = wheels.attached_at(turn);
        Place { timers: &wheels.wheels[number], now: wheels.time(self.clock.now()), number }
    }

    /// The wheel for a delayed post.
    fn place_light(&self) -> Place<'_> {
        let wheels = &self.wheels;
        // SAFETY: used within this call only.
        let worker = unsafe { Worker::of_runtime(self) };
        let number = wheels.lighter_of_two(|wheels| {
            let scripted = self.script.as_ref().and_then(|script| script.for_post(wheels));
            scripted.unwrap_or_else(|| self.choose(worker, wheels))
        });
        Place { timers: &wheels.wheels[number], now: wheels.time(self.clock.now()), number }
    }

    /// A number below `n` by chance.
    fn choose(&self, worker: Option<&Worker>, n: usize) -> usize {
        match worker {
            Some(worker) => worker.rng.borrow_mut().below(n),
            None => {
                // ORDERING: Relaxed, any spread will do.
                let turn = self.wheels.turn.fetch_add(1, Ordering::Relaxed);
                Rng::after(self.seed(), turn as u64).below(n)
            }
        }
    }

    /// Sees to it that somebody looks at a wheel whose nearest deadline has become earlier (M1, M2).
    fn announce_timer(&self, place: &Place<'_>) {
        // SAFETY: used within this call only.
        if let Some(worker) = unsafe { Worker::of_runtime(self) }
            && worker.wheel() == Some(place.number)
        {
            return worker.ensure_watched();
        }
        let lane = &self.lanes[0];
        if lane.attached() == 0 {
            return self.sentry.set_alarm(self.clock.now());
        }
        let id = place.number as u32;
        if lane.idle.wake_specific(id) {
            self.unpark(lane.slot_of(id));
        } else {
            self.watch(lane);
        }
    }

    /// Fires what is due at `now` in a wheel, at most `budget` timers.
    pub(super) fn fire(&self, timers: &Timers, now: Instant, mut budget: usize) {
        // Only a wheel that is closed has come to the end of time (N6 of `timer`).
        let now = self.wheels.time(now).min(LATEST);
        if timers.nearest() > now {
            return;
        }
        let mut batch = Batch::new();
        loop {
            let expiry = timers.expire(now, &mut budget, &mut batch);
            for waker in batch.drain() {
                guard_user_code(|| waker.wake());
            }
            if expiry == Expiry::Done || budget == 0 {
                return;
            }
        }
    }

    /// How long somebody may sleep who looks after these wheels; `None` is for ever.
    pub(super) fn nap(&self, wheels: &[Arc<Timers>], now: Instant) -> Option<Duration> {
        self.wheels.nap(nearest_of(wheels), now)
    }

    /// Fires what is due where nobody looks after it, and has the sentry come back for the next (M7).
    pub(super) fn look_after_first_wheel(&self) {
        let (now, first) = (self.tell_time(), slice::from_ref(&self.wheels.wheels[0]));
        self.fire(&first[0], now, usize::MAX);
        if let Some(nap) = self.nap(first, now) {
            self.sentry.set_alarm(now + nap);
        }
    }

    /// How many timers the worker in a slot looks after.
    pub(crate) fn timers_of(&self, slot: &Slot) -> usize {
        let lane = &self.lanes[slot.lane];
        self.wheel_of(lane, lane.range.start + slot.info.index).map_or(0, |timers| timers.len())
    }

    /// The wheel of the worker in a slot of `lane`, unless that is a spare's.
    pub(super) fn wheel_of(&self, lane: &Lane, slot: usize) -> Option<&Arc<Timers>> {
        if lane.runs_futures() { self.wheels.wheels.get(slot - lane.range.start) } else { None }
    }

    /// Subscribes to a clock that is moved by hand (M4).
    pub(super) fn follow_clock(self: &Arc<Self>) {
        if let (Pace::ByHand, Clock::Manual(clock)) = (self.wheels.pace, &self.clock) {
            let me: Arc<dyn Listener> = self.clone();
            clock.subscribe(Arc::downgrade(&me));
        }
    }

    /// Hands the timers of a worker that leaves to others (M6).
    pub(super) fn empty_wheel(&self, number: usize) {
        self.wheels.detach(number);
        empty(&self.wheels.wheels[number]);
    }

    /// The worker of this wheel is pumped from now on: its timers go to others, if there are any (M8).
    pub(super) fn pump_wheel(&self, number: usize) {
        self.wheels.note_pump(number);
        if self.wheels.attached().all(|other| other == number) {
            return;
        }
        let wheel = &self.wheels.wheels[number];
        wheel.shut(Shut::Left);
        empty(wheel);
        wheel.open();
    }

    /// When the next timer of the worker in a slot is due, if it has any.
    pub(super) fn next_deadline(&self, slot: usize) -> Option<Instant> {
        let lane = &self.lanes[self.slots[slot].lane];
        self.wheels.due(self.wheel_of(lane, slot)?.nearest())
    }

    /// M5; no task is left.
    pub(super) fn close_wheels(&self) {
        for timers in &self.wheels.wheels {
            timers.shut(Shut::Ended);
            empty(timers);
        }
    }
}

fn nearest_of(wheels: &[Arc<Timers>]) -> u64 {
    wheels.iter().map(|timers| timers.nearest()).min().unwrap_or(NEVER)
}

/// Wakes all timers of a wheel that was shut, unfired (M5, M6).
fn empty(timers: &Timers) {
    let mut batch = Batch::new();
    loop {
        let expiry = timers.close(&mut batch);
        for waker in batch.drain() {
            guard_outside(|| waker.wake());
        }
        if expiry == Expiry::Done {
            return;
        }
    }
}

impl Listener for Shared {
    fn clock_moved(&self) {
        // First: once somebody is awake, births rely on it for the time.
        self.tell_time();
        let lane = &self.lanes[0];
        if lane.attached() == 0 {
            // M7.
            self.sentry.set_alarm(self.clock.now());
        }
        // Who lies down after this has taken its lock, and with it seen that the clock moved.
        let mut sleepers = Vec::new();
        lane.idle.wake_all(&mut sleepers);
        for id in sleepers {
            self.unpark(lane.slot_of(id));
        }
    }
}

impl Worker {
    /// The number of this worker's own wheel.
    #[inline]
    pub(super) fn wheel(&self) -> Option<usize> {
        let number = self.id() as usize;
        (self.runs_futures() && number < self.shared().wheels.wheels.len()).then_some(number)
    }

    /// The same, unless it takes nothing any more (M6).
    fn open_wheel(&self) -> Option<usize> {
        self.wheel().filter(|_| !self.is_leaving())
    }

    /// Hands the timers of this worker, which leaves, to others.
    pub(super) fn give_timers_away(&self) {
        if let Some(number) = self.wheel() {
            self.shared().empty_wheel(number);
        }
    }

    /// The wheels that this worker looks after (M1, M2).
    fn wheels(&self) -> &[Arc<Timers>] {
        let all = &self.shared().wheels.wheels;
        match self.wheel() {
            Some(number) => &all[number..=number],
            None if self.runs_futures() => all,
            None => &[],
        }
    }

    /// Fires what is due, as of the last look at the clock (M3).
    #[inline]
    pub(super) fn fire_timers(&self) {
        for timers in self.wheels() {
            if timers.nearest() < LATEST {
                let budget = self.shared().config.timer_budget;
                self.shared().fire(timers, self.time(), budget);
            }
        }
    }

    /// How long this worker may sleep, as of the last look at the clock (M1).
    pub(super) fn nap_for_timers(&self) -> Option<Duration> {
        self.shared().nap(self.wheels(), self.time()).map(|nap| self.pace_nap(nap))
    }

    /// What a core of the program's own is told where no sleep has a timeout (M4).
    pub(super) fn time_left_by_hand(&self) -> Option<Duration> {
        let wheels = &self.shared().wheels;
        if !self.guest_core || wheels.pace == Pace::OfThreads {
            return None;
        }
        wheels.left_until(nearest_of(self.wheels()), self.time())
    }

    /// Makes a short nap longer if there were too many (M3).
    fn pace_nap(&self, nap: Duration) -> Duration {
        if nap.is_zero() || nap >= SHORT_NAP {
            return nap;
        }
        let now = self.time();
        let spent = self.short_naps.get().max(now);
        self.short_naps.set(spent + SHORT_NAP);
        nap.max((spent - now).saturating_sub(BURST * SHORT_NAP))
    }

    /// Whether this worker wakes for timers as often as its rate allows (M3).
    pub(super) fn has_dense_timers(&self) -> bool {
        self.short_naps.get() > self.time() + (BURST / 2) * SHORT_NAP
    }

    /// Whether a timer depends on this worker (M2).
    pub(super) fn has_timers(&self) -> bool {
        self.wheel().is_some_and(|number| self.shared().wheels.wheels[number].nearest() < LATEST)
    }
}
