//! The sentry: notices that a worker is stuck in a task, and rescues what it holds.
//!
//! Y1. The sentry sleeps without a deadline unless the I/O lane is ARMED. It is armed whenever
//!     something ready may depend on a busy worker: a task in a newest-task slot, a push that
//!     found everybody awake, or asleep only who comes late (I8 of `idle`); or something that will be, a timer
//!     in its wheel. It disarms only when nobody is awake (I6)
//!     and nobody has run anything for a whole period, so an idle runtime costs nothing, and one whose
//!     workers sleep for moments only does not wake the sentry after each of them.
//! Y2. A worker is stuck if its beat is odd and has not moved for a whole period. Its newest-task
//!     slot is then emptied into the injector, somebody is woken for its ring, and what it has queued
//!     and what has completed for it is submitted and told, each period anew (`drive`).
//!     Timers of a worker that is stuck or out are fired when they are due, as far as the sentry
//!     knew of them when it last lay down.
//! Y3. If all have been stuck for four periods, or somebody blocks, and something is ready, a spare
//!     comes (`crew`).
//! Y4. A main worker that lives in somebody else's loop (`pump`) cannot sleep until a deadline. It leaves
//!     the time here, and is woken. Where no I/O worker is attached at all, the timers there are depend on it (M7
//!     of `timers`).
//! Y5. Where the end of the runtime goes on in the background, the sentry does what is left of it (Z5 of `shutdown`),
//!     beside all this.
//!
//! One thread per runtime, and not a parked worker, because there may be none: a single worker,
//! or all of them, may be the ones that are stuck.

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::shared::{Lane, Phase, Shared, Slot, lock};
use super::shutdown::Rest;
use crate::base::parker::{Parker, Unparked};
use crate::base::shim::{Mutex, Ordering};
use crate::base::sim;
use crate::task::context;

pub(crate) struct Sentry {
    bed: Arc<Parker>,
    /// When to wake the main worker, which sleeps where it cannot look at the time (Y4).
    alarm: Mutex<Option<Instant>>,
}

impl Sentry {
    pub(crate) fn new() -> Self {
        Self { bed: Arc::new(Parker::new()), alarm: Mutex::new(None) }
    }

    /// The lane was armed, or the runtime has stopped: look.
    pub(crate) fn wake(&self) {
        self.bed.unpark();
    }

    /// Wakes the sentry.
    pub(super) fn waker(&self) -> Waker {
        Waker::from(self.bed.clone())
    }

    /// Has the main worker woken at that time, instead of any that was asked for before (Y4).
    pub(super) fn set_alarm(&self, at: Instant) {
        *lock(&self.alarm) = Some(at);
        self.wake();
    }

    /// How long until the alarm.
    fn alarm_in(&self, now: Instant) -> Option<Duration> {
        lock(&self.alarm).map(|at| at.saturating_duration_since(now))
    }

    /// Takes an alarm that is due.
    fn take_alarm(&self, now: Instant) -> bool {
        lock(&self.alarm).take_if(|at| *at <= now).is_some()
    }
}

/// How long the runtime rests before memory of tasks goes back to the system. Guessed.
const TRIM_AFTER: Duration = Duration::from_secs(2);

/// The first trim only marks what is free; the second gives it back.
const TRIMS: usize = 2;

/// From how many looks at the same beat on a worker does not count among those at work: a spare that
/// comes takes operations with it, and a burst of accepts or a moment without a core does not deserve that.
const STUCK_LOOKS: u32 = 5;

/// A worker's beat at the last look, and at how many looks before.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    beat: u64,
    looks: u32,
}

/// What the last round saw.
#[derive(Default)]
pub(crate) struct Beats {
    last: Vec<Seen>,
    activity: Activity,
    /// How long until a timer of somebody who cannot look after it is due.
    nap: Option<Duration>,
}

/// Whether anything has run since the round before, or since the lane was armed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Some,
    None,
}

impl Beats {
    /// Whether nothing has run for a whole period (Y1).
    pub(crate) fn are_quiet(&self) -> bool {
        self.activity == Activity::None
    }
}

/// The sentry's thread.
pub(crate) fn watch(shared: Arc<Shared>) {
    let mut beats = Beats::default();
    let lane = &shared.lanes[0];
    let mut rest: Option<Rest> = None;
    while shared.phase() != Phase::Stopped {
        if shared.phase() == Phase::Background {
            shared.end_in_background(rest.get_or_insert_with(Rest::new));
            if shared.phase() == Phase::Stopped {
                return;
            }
        }
        let is_unarmed = lane.idle.counts().sentry == crate::idle::Sentry::Unarmed;
        if is_unarmed || (beats.are_quiet() && lane.idle.try_disarm()) {
            // Nobody is awake, so nobody is stuck, whatever the last round saw.
            lane.crew.set_stuck(0);
            beats = Beats::default();
            match &rest {
                None => shared.rest(),
                Some(rest) => shared.rest_until(rest.next_walk()),
            }
            continue;
        }
        let period = shared.config.sentry_period;
        let nap =
            [beats.nap, shared.sentry.alarm_in(shared.clock.now())].into_iter().flatten().min();
        match nap {
            Some(nap) => shared.sentry.bed.park_timeout(nap.min(period)),
            None => sim::in_background(|| shared.sentry.bed.park_timeout(period)),
        };
        shared.ring_alarm();
        shared.round(lane, &mut beats);
    }
}

impl Shared {
    /// Waits until the lane is armed. When nothing has happened for a while, memory that has been
    /// free for that long goes back to the system, once.
    fn rest(&self) {
        for _ in 0..TRIMS {
            if let Some(nap) = self.sentry.alarm_in(self.clock.now()) {
                self.sentry.bed.park_timeout(nap);
                return self.ring_alarm();
            }
            if sim::in_background(|| self.sentry.bed.park_timeout(TRIM_AFTER)) == Unparked::Token {
                return;
            }
            self.pool.trim();
        }
        self.sentry.bed.park();
    }

    /// Waits until the lane is armed, at most until that time (Y5).
    fn rest_until(&self, end: Instant) {
        let left = end.saturating_duration_since(sim::now());
        match self.sentry.alarm_in(self.clock.now()) {
            Some(nap) if nap < left => self.sentry.bed.park_timeout(nap),
            _ => sim::in_background(|| self.sentry.bed.park_timeout(left)),
        };
        self.ring_alarm();
    }

    /// Wakes the main worker, or does what nobody else does, if it is time (Y4).
    fn ring_alarm(&self) {
        if self.sentry.take_alarm(self.clock.now()) {
            match self.lanes[0].attached() {
                0 => self.look_after_first_wheel(),
                _ => self.wake_slot(0),
            }
        }
    }

    /// One look at every I/O worker (Y2, Y3).
    pub(crate) fn round(&self, lane: &Lane, beats: &mut Beats) {
        let now = self.tell_time();
        let mut stuck = 0;
        let mut backlog = false;
        beats.last.resize(lane.staff, Seen::default());
        beats.nap = None;
        beats.activity = Activity::None;
        for (slot, last) in lane.occupied(&self.slots).zip(&mut beats.last) {
            // ORDERING: Relaxed, readings that are milliseconds apart are compared.
            let beat = slot.beat.load(Ordering::Relaxed);
            let same = beat == last.beat;
            if !same {
                beats.activity = Activity::Some;
            }
            if beat % 2 == 1 && same {
                if !slot.is_out() && last.looks + 1 >= STUCK_LOOKS {
                    stuck += 1;
                }
                self.rescue(lane, slot);
                self.rescue_driver(slot);
                backlog |= !slot.ring.is_empty();
            }
            if beat % 2 == 1
                && (same || slot.is_out())
                && let Some(timers) = self.wheel_of(lane, lane.range.start + slot.info.index)
            {
                self.fire(timers, now, usize::MAX);
                let nap = self.nap(slice::from_ref(timers), now);
                beats.nap = [beats.nap, nap].into_iter().flatten().min();
            }
            let looks = if same { last.looks.saturating_add(1) } else { 1 };
            *last = Seen { beat, looks };
        }
        lane.crew.set_stuck(stuck);
        if backlog {
            self.notify(lane);
        }
        self.reinforce_if_needed(lane);
    }

    /// Moves the newest task of a stuck worker to where others find it.
    fn rescue(&self, lane: &Lane, slot: &Slot) {
        // ORDERING: Acquire pairs with the Release in `push_newest`.
        let newest = slot.newest.swap(ptr::null_mut(), Ordering::Acquire);
        if let Some(task) = NonNull::new(newest) {
            slot.counters.rescues.add_shared(1);
            let hint = context::with(|cx| cx.number());
            // SAFETY: the entry was the slot's and is ours now; it lives until popped (T4).
            unsafe { lane.injector.push(task, hint) };
            self.notify(lane);
        }
    }
}
