//! Who runs next: plain data, seen only by the holder of the baton and by the driver.
//!
//! W1. Every decision draws from the one random source and from what participants did, so a seed
//!     decides the run.
//! W2. `ready` holds the numbers of exactly those who are `Ready`, in an order that the run decides.
//! W3. Time moves by a tick at each switch, and by a jump when nobody is ready: to the nearest
//!     deadline. If there is none, or housekeeping alone has gone on for a while, nothing will ever
//!     happen again.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::base::parker::Plain;
use crate::base::rng::Rng;

/// What passes between two switches.
pub(super) const TICK: Duration = Duration::from_micros(1);

/// Housekeeping alone for so long, and so often, means that nothing else will happen. Longer than
/// any period of the runtime's own.
const QUIET: Duration = Duration::from_secs(10);
const QUIET_JUMPS: u32 = 8;

/// How many of the last changes of the baton a report shows.
const REMEMBERED: usize = 24;

/// How rarely a participant that could go on is interrupted; a seed picks one. Few interruptions
/// find what needs a long head start, many what needs a close race.
const STICKINESS: [usize; 4] = [1, 2, 8, 32];

/// Why a participant came to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// It may go on.
    Point,
    /// It may go on, once somebody else has.
    Yield,
    /// It cannot go on.
    Block,
    /// It is over.
    End,
}

/// What a blocked participant is woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Something in memory: the word of a parker, a lock.
    Address(usize),
    /// The end of a participant.
    End(usize),
    /// Nothing but its deadline.
    Time,
}

/// What a blocked participant does, for reports.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// In a parker.
    Parked,
    /// For time to pass.
    Asleep,
    /// For the end of another.
    Join(usize),
    /// For a lock.
    Lock { wanted: &'static Location<'static>, held: Option<(usize, &'static Location<'static>)> },
    /// For a condition variable.
    Condition(&'static Location<'static>),
}

/// How a run failed.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// Everybody waits, and nothing will happen.
    Deadlock,
    /// It goes on and on.
    Endless,
    /// The holder of the baton does not come to a switch.
    Stalled { asleep: bool },
    /// A thread of the runtime panicked.
    Panicked(String),
}

#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Open,
    Ended,
    Failed(Cause),
}

#[derive(Debug)]
pub(super) enum Standing {
    Ready,
    Blocked { key: Key, what: What, since: Duration, until: Option<Duration>, background: bool },
    Ended,
}

#[derive(Debug)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) standing: Standing,
    pub(super) gate: Arc<Plain>,
    /// Its thread, as the system calls it; zero until it has begun.
    pub(super) thread: u32,
}

/// What comes of a look at who may run.
#[must_use]
pub(super) enum Next {
    Run(usize),
    /// All have ended.
    Over,
    Failed(Cause),
}

pub(super) struct State {
    rng: Rng,
    stickiness: usize,
    pub(super) people: Vec<Person>,
    ready: Vec<usize>,
    pub(super) holder: usize,
    /// Time since the beginning.
    pub(super) now: Duration,
    /// Not later than the nearest deadline.
    nearest: Duration,
    /// When something other than housekeeping last happened, and jumps since.
    last_event: Duration,
    jumps: u32,
    pub(super) steps: u64,
    most_steps: u64,
    pub(super) trace: u64,
    recent: VecDeque<(Duration, usize, Kind, usize)>,
    next_id: u64,
    pub(super) verdict: Verdict,
}

impl State {
    pub(super) fn new(seed: u64, most_steps: u64) -> Self {
        let mut rng = Rng::new(seed);
        let stickiness = STICKINESS[rng.below(STICKINESS.len())];
        Self {
            rng,
            stickiness,
            people: Vec::new(),
            ready: Vec::new(),
            holder: 0,
            now: Duration::ZERO,
            nearest: Duration::MAX,
            last_event: Duration::ZERO,
            jumps: 0,
            steps: 0,
            most_steps,
            trace: seed,
            recent: VecDeque::with_capacity(REMEMBERED),
            next_id: 1,
            verdict: Verdict::Open,
        }
    }

    /// Somebody new, who is ready.
    pub(super) fn enrol(&mut self, name: String) -> (usize, Arc<Plain>) {
        let (number, gate) = (self.people.len(), Arc::new(Plain::new()));
        self.people.push(Person { name, standing: Standing::Ready, gate: gate.clone(), thread: 0 });
        self.ready.push(number);
        self.something_happened();
        (number, gate)
    }

    /// Somebody who was enrolled last, and could not start after all.
    pub(super) fn strike_out(&mut self) {
        let person = self.people.pop();
        debug_assert!(matches!(person, Some(Person { standing: Standing::Ready, .. })));
        let number = self.people.len();
        self.ready.retain(|&ready| ready != number);
    }

    pub(super) fn block(&mut self, me: usize, standing: Standing) {
        if let Standing::Blocked { until: Some(until), .. } = &standing {
            self.nearest = self.nearest.min(*until);
        }
        self.set_aside(me, standing);
    }

    /// Ends a participant, and the waits for its end.
    pub(super) fn end(&mut self, me: usize) {
        self.set_aside(me, Standing::Ended);
        self.wake(Key::End(me));
        self.something_happened();
    }

    fn set_aside(&mut self, me: usize, standing: Standing) {
        self.people[me].standing = standing;
        self.ready.retain(|&ready| ready != me);
    }

    /// Makes those ready who wait for `key`; false if nobody does.
    pub(super) fn wake(&mut self, key: Key) -> bool {
        let before = self.ready.len();
        for (number, person) in self.people.iter_mut().enumerate() {
            if matches!(person.standing, Standing::Blocked { key: k, .. } if k == key) {
                person.standing = Standing::Ready;
                self.ready.push(number);
            }
        }
        let found = self.ready.len() > before;
        if found {
            self.something_happened();
        }
        found
    }

    /// As `wake`, of one alone.
    pub(super) fn wake_one(&mut self, key: Key) {
        let waits = |person: &Person| matches!(person.standing, Standing::Blocked { key: k, .. } if k == key);
        let waiting: Vec<usize> =
            (0..self.people.len()).filter(|&n| waits(&self.people[n])).collect();
        if !waiting.is_empty() {
            let chosen = waiting[self.rng.below(waiting.len())];
            self.people[chosen].standing = Standing::Ready;
            self.ready.push(chosen);
            self.something_happened();
        }
    }

    fn something_happened(&mut self) {
        self.last_event = self.now;
        self.jumps = 0;
    }

    /// Picks who goes on after `me` came to a switch (W1).
    pub(super) fn next(&mut self, me: usize, kind: Kind) -> Next {
        if let Verdict::Failed(cause) = &self.verdict {
            return Next::Failed(cause.clone());
        }
        self.steps += 1;
        if self.steps > self.most_steps {
            return Next::Failed(Cause::Endless);
        }
        self.now += TICK;
        if self.now >= self.nearest {
            self.expire();
        }
        while self.ready.is_empty() {
            if self.people.iter().all(|p| matches!(p.standing, Standing::Ended)) {
                return Next::Over;
            }
            if let Err(cause) = self.jump() {
                return Next::Failed(cause);
            }
        }
        let next = self.pick(me, kind);
        self.note(me, kind, next);
        Next::Run(next)
    }

    fn pick(&mut self, me: usize, kind: Kind) -> usize {
        match kind {
            Kind::Point if self.rng.below(self.stickiness) != 0 => return me,
            Kind::Yield if self.ready.len() > 1 => {
                let mine = self.ready.iter().position(|&ready| ready == me);
                let other = self.rng.below(self.ready.len() - 1);
                let skip = usize::from(mine.is_some_and(|mine| other >= mine));
                return self.ready[other + skip];
            }
            _ => {}
        }
        self.ready[self.rng.below(self.ready.len())]
    }

    fn note(&mut self, me: usize, kind: Kind, next: usize) {
        let step = (me as u64) << 32 | (next as u64) << 8 | kind as u64;
        self.trace = (self.trace ^ step).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        if next != me {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back((self.now, me, kind, next));
        }
    }

    /// Wakes those whose deadline has passed.
    fn expire(&mut self) {
        let mut nearest = Duration::MAX;
        let mut event = false;
        for (number, person) in self.people.iter_mut().enumerate() {
            let Standing::Blocked { until: Some(until), background, .. } = person.standing else {
                continue;
            };
            if until <= self.now {
                event |= !background;
                person.standing = Standing::Ready;
                self.ready.push(number);
            } else {
                nearest = nearest.min(until);
            }
        }
        self.nearest = nearest;
        if event {
            self.something_happened();
        }
    }

    /// Nobody is ready: moves time to the next deadline that matters (W3).
    fn jump(&mut self) -> Result<(), Cause> {
        let quiet = self.jumps >= QUIET_JUMPS && self.now > self.last_event + QUIET;
        let deadlines = self.people.iter().filter_map(|person| match person.standing {
            Standing::Blocked { until: Some(until), background, .. } if !(quiet && background) => {
                Some(until)
            }
            _ => None,
        });
        let Some(next) = deadlines.min() else { return Err(Cause::Deadlock) };
        self.jumps += 1;
        self.now = self.now.max(next);
        self.expire();
        Ok(())
    }

    pub(super) fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }

    pub(super) fn take_ids(&mut self, count: u64) -> u64 {
        let first = self.next_id;
        self.next_id += count;
        first
    }

    pub(super) fn name(&self, number: usize) -> &str {
        self.people.get(number).map_or("?", |person| &person.name)
    }
}

/// What every participant does, and how it came to that.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "participants after {} switches and {:?}:", self.steps, self.now)?;
        for (number, person) in self.people.iter().enumerate() {
            write!(f, "  {number} {}: ", person.name)?;
            match &person.standing {
                Standing::Ready if number == self.holder => f.write_str("holds the baton")?,
                Standing::Ready => f.write_str("ready")?,
                Standing::Ended => f.write_str("ended")?,
                Standing::Blocked { what, since, until, .. } => {
                    self.describe(f, what)?;
                    write!(f, ", since {since:?}")?;
                    if let Some(until) = until {
                        write!(f, ", until {until:?}")?;
                    }
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "last changes of the baton:")?;
        for &(at, from, kind, to) in &self.recent {
            writeln!(f, "  {at:?} {} -> {} ({kind:?})", self.name(from), self.name(to))?;
        }
        Ok(())
    }
}

impl State {
    fn describe(&self, f: &mut fmt::Formatter<'_>, what: &What) -> fmt::Result {
        match what {
            What::Parked => f.write_str("parked"),
            What::Asleep => f.write_str("sleeps"),
            What::Join(other) => write!(f, "waits for the end of {}", self.name(*other)),
            What::Condition(at) => write!(f, "waits for a condition at {at}"),
            What::Lock { wanted, held: None } => {
                write!(f, "waits for a lock at {wanted}, which is free now")
            }
            What::Lock { wanted, held: Some((holder, at)) } => {
                let holder = self.name(*holder);
                write!(f, "waits for a lock at {wanted}, held by {holder} since {at}")
            }
        }
    }
}
