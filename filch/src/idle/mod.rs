//! Who of a lane is awake, who searches, who sleeps, and whom a push wakes.
//!
//! `README.md` beside this file has the protocol, the obligations of its callers and the proof.
//!
//! I1. *Publish, fence, look.* A poster pushes, fences and reads the word; a sleeper changes the
//!     word, fences and reads every source. One of the two sees the other.
//! I2. A worker is counted awake from the move that removes it from the stack (whoever makes it)
//!     to its own next `prepare` or `leave`, and always knows whether it is counted searching.
//! I3. While the lock is free, `sleeping` is the height of the stack.
//! I4. *The chain.* A notifier that wakes nobody relies on a searcher or on the sentry. When
//!     either goes other than by a sleep that found nothing, the worker there owes one `notify`.
//! I5. A ticket is spent once, by `cancel` or `resume`.
//! I6. ARMED is cleared only while nobody is awake: a worker that is awake and has seen it set
//!     may rely on it until it sleeps.
//! I7. *Whose fence.* A lane whose workers fork (`Pairing::Asymmetric`) has the pushing side pay a
//!     compiler fence and the sleeping side a heavy barrier; light pairs with heavy only, so every
//!     poster of such a lane is light and every second look in it heavy.
//! I8. *Who comes late.* A worker that comes when the program lets it (`Comes::Late`) is chosen if nobody else
//!     sleeps, and is then not counted as searching: nobody relies on it, its notifier no more than others. So
//!     that push relies on the sentry, as one that finds everybody awake.
//!
//! Not here: parkers and threads (the caller unparks whom we name), the queues that are checked
//! again, how long to search, what the sentry does.

use crossbeam_utils::CachePadded;

use crate::base::barrier::{heavy, light, light_if_free};
use crate::base::shim::{Mutex, MutexGuard, Ordering, fence};
use crate::base::sim;

mod sleepers;
mod word;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use sleepers::Comes;
use sleepers::{Left, Sleepers};
pub(crate) use word::{Counts, MAX_WORKERS, Role, Sentry};
use word::{Move, Word};

/// What the caller of [`Idle::notify`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a chosen worker must be unparked, an unwatched lane armed"]
pub(crate) enum Notify {
    /// Nothing: somebody searches, or all are awake and the sentry watches.
    Nobody,
    /// Unpark this worker. It is counted awake already, and searching; or it comes late, and the sentry
    /// watches (I8).
    Wake(u32),
    /// Unpark this worker, which is counted awake and comes late; and as `Saturated` (I8).
    WakeLate(u32),
    /// All are awake, nobody searches, and the sentry does not watch or somebody is out: call
    /// [`Idle::arm`], or a spare.
    Saturated,
}

/// What [`Idle::notify_many`] woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nobody was woken for what is missing"]
pub(crate) enum NotifyMany {
    /// Enough were awake or have been woken.
    Done,
    /// As [`Notify::Saturated`], though some that come late may have been woken (I8).
    Saturated,
}

/// Who pays for the order between a push and a sleep (I7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// Both sides, a fence each.
    Symmetric,
    /// The sleeper, because pushes are far more frequent.
    Asymmetric,
}

/// What a worker owes to those who relied on it (I4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody wakes nobody because this worker pays"]
pub(crate) enum Owes {
    /// Call [`Idle::notify`] once and do what it says.
    Notify,
    Nothing,
}

/// How a worker that had prepared to sleep came to be awake again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A notifier removed us: we are searching. Its token may still be on its way.
    Chosen,
    /// [`Idle::wake_specific`] or [`Idle::wake_all`] removed us: working, not searching. The
    /// token may still be on its way.
    Specific,
    /// Nobody removed us, we did: working, not searching.
    Alone,
}

/// A worker's standing after [`Idle::cancel`] or [`Idle::resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the cause says whether this worker is searching, and `owes` what it owes"]
pub(crate) struct Resumed {
    pub(crate) cause: Cause,
    /// `Notify` only after a `cancel`, unless a notifier chose us: if we were the last searcher, or
    /// the sentry has stopped watching since `prepare` (I4).
    pub(crate) owes: Owes,
    /// `Armed` holds until this worker sleeps or leaves (I6); `Unarmed` may change at any time.
    pub(crate) sentry: Sentry,
}

/// Evidence that a worker has published that it sleeps.
#[derive(Debug)]
#[must_use = "a ticket is spent by cancel or resume (I5)"]
pub(crate) struct Ticket {
    id: u32,
    last_searcher: bool,
    /// As the sleep move found it.
    sentry: Sentry,
}

/// One lane's idle set.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Read by every push, written by every change of role.
    word: CachePadded<Word>,
    /// Taken only where somebody falls asleep or wakes up.
    sleepers: Mutex<Sleepers>,
    pairing: Pairing,
}

impl Idle {
    /// An empty lane. One without a sentry is `Armed` from the start, and for ever.
    pub(crate) fn new(sentry: Sentry, pairing: Pairing) -> Self {
        Self {
            word: CachePadded::new(Word::new(sentry)),
            sleepers: Mutex::new(Sleepers::new()),
            pairing,
        }
    }

    /// The poster's half of I1 and I7.
    #[inline(always)]
    fn after_push(&self) {
        match self.pairing {
            Pairing::Symmetric => {
                // ORDERING: SeqCst pairs with the fence in `before_look` (I1); model:
                // poster_and_sleeper.
                fence(Ordering::SeqCst);
                sim::point();
            }
            Pairing::Asymmetric => {
                // LIGHT: pairs with heavy() in Idle::before_look (I7)
                light();
            }
        }
    }

    /// The looking side's half of I1 and I7: goes between a move of the word that makes posters
    /// rely on somebody else, and the look at what they pushed before.
    pub(crate) fn before_look(&self) {
        match self.pairing {
            Pairing::Symmetric => {
                // ORDERING: SeqCst pairs with the fence in `after_push` (I1); model:
                // poster_and_sleeper.
                fence(Ordering::SeqCst);
                sim::point();
            }
            Pairing::Asymmetric => heavy(),
        }
    }

    /// For a fork, whose lane is asymmetric: whether its push asks nothing of anybody, so that
    /// there is no need for [`Idle::notify`]. `light` says whether `light_if_free` is free.
    #[inline(always)]
    pub(crate) fn is_quiet_after_fork(&self, light: bool) -> bool {
        debug_assert_eq!(self.pairing, Pairing::Asymmetric);
        // LIGHT: pairs with heavy() in Idle::before_look (I7)
        light_if_free(light);
        self.word.is_quiet()
    }

    /// The crew is, or is no longer, complete. The caller's lock makes calls alternate.
    pub(crate) fn set_short(&self, short: bool) {
        self.word.shift(if short { Move::Short } else { Move::Complete });
    }

    /// A worker enters the lane, awake and working. The answer is as in [`Resumed`].
    ///
    /// # Panics
    ///
    /// If the lane holds [`MAX_WORKERS`] workers.
    pub(crate) fn join(&self) -> Sentry {
        let room = |c: Counts| c.awake + c.sleeping < MAX_WORKERS;
        match self.word.shift_if(Move::Join, room) {
            Ok(shift) => shift.after.sentry,
            Err(_) => panic!("a lane holds at most {MAX_WORKERS} workers"),
        }
    }

    /// A working worker leaves the lane for good. What is in its queues has been handed over.
    pub(crate) fn leave(&self) {
        self.word.shift(Move::Leave);
    }

    /// Says whom to wake after a push.
    #[inline]
    pub(crate) fn notify(&self) -> Notify {
        self.after_push();
        match without_a_wake(self.word.load()) {
            Some(answer) => answer,
            None => self.choose(),
        }
    }

    /// Says whom to wake after, or right before, the push of work for `wanted` workers: those that
    /// search count, and `woken` gets the others, each counted awake already, and searching unless it comes
    /// late (I8).
    pub(crate) fn notify_many(&self, wanted: u32, woken: &mut Vec<u32>) -> NotifyMany {
        self.after_push();
        let counts = self.word.load();
        if counts.searching >= wanted {
            return NotifyMany::Done;
        }
        if counts.sleeping == 0 {
            return many_without_a_wake(counts);
        }
        let mut sleepers = self.lock();
        let counts = self.word.load();
        let missing = wanted.saturating_sub(counts.searching).min(sleepers.len() as u32);
        if missing == 0 {
            return many_without_a_wake(counts);
        }
        // Only the holder of the lock takes from the stack, so as many sleep as were counted (I3).
        let prompt = missing.min(sleepers.prompt() as u32);
        let mut wake = |count, role| {
            let shift = self.word.shift(Move::Wake(count, role));
            woken.extend((0..count).map_while(|_| sleepers.pop(role)));
            shift.after
        };
        wake(prompt, Role::Searching);
        let after = wake(missing - prompt, Role::Working);
        // I8: none of them is relied on.
        match after.searching {
            0 if is_unwatched(after) => NotifyMany::Saturated,
            _ => NotifyMany::Done,
        }
    }

    #[cold]
    fn choose(&self) -> Notify {
        let mut sleepers = self.lock();
        let role = sleepers.role_of_next();
        match self.word.shift_if(Move::Wake(1, role), |c| without_a_wake(c).is_none()) {
            Ok(shift) => match (sleepers.pop(role), role) {
                (Some(id), Role::Working) if is_unwatched(shift.after) => Notify::WakeLate(id),
                (Some(id), _) => Notify::Wake(id),
                (None, _) => unreachable!("the word counts the stack (I3)"),
            },
            Err(counts) => without_a_wake(counts).unwrap_or(Notify::Nobody),
        }
    }

    /// Wakes this worker if it sleeps, after a push that only it can take: `true` means unpark it.
    /// It is counted awake, not searching.
    pub(crate) fn wake_specific(&self, id: u32) -> bool {
        // Past it, the lock orders the caller's push and the sleeper's second look.
        self.after_push();
        if self.word.load().sleeping == 0 {
            return false;
        }
        let mut sleepers = self.lock();
        let removed = sleepers.remove(id, Role::Working);
        if removed {
            self.word.shift(Move::Wake(1, Role::Working));
        }
        removed
    }

    /// Wakes everybody who sleeps, after a stop flag has been set: `woken` gets all of them, each
    /// counted awake, not searching.
    pub(crate) fn wake_all(&self, woken: &mut Vec<u32>) {
        let mut sleepers = self.lock();
        let count = sleepers.len();
        self.word.shift(Move::Wake(count as u32, Role::Working));
        woken.extend((0..count).map_while(|_| sleepers.pop(Role::Working)));
    }

    /// A working worker starts to search, unless `limit` others do already.
    pub(crate) fn try_search(&self, limit: u32) -> bool {
        self.word.shift_if(Move::Search, |c| c.searching < limit).is_ok()
    }

    /// A searching worker has work in hand, or another reason to stop other than sleep, and has
    /// published what else it moved to its queues. It owes nothing if a notify would wake nobody and
    /// say nothing new: whoever sleeps later looks for itself.
    pub(crate) fn found(&self) -> Owes {
        let shift = self.word.shift(Move::StopSearch);
        notify_if(without_a_wake(shift.after) != Some(Notify::Nobody))
    }

    /// Publishes that this worker sleeps. The caller now looks at **every** source once more, and
    /// then calls [`cancel`](Self::cancel) if there is something, or parks and then calls
    /// [`resume`](Self::resume).
    ///
    /// # Panics
    ///
    /// If `id` is not below [`MAX_WORKERS`].
    pub(crate) fn prepare(&self, id: u32, role: Role, comes: Comes) -> Ticket {
        assert!(id < MAX_WORKERS, "worker number {id} is too high");
        sim::point();
        let shift = {
            let mut sleepers = self.lock();
            sleepers.push(id, comes);
            self.word.shift(Move::Sleep(role))
        };
        self.before_look();
        Ticket {
            id,
            last_searcher: role == Role::Searching && shift.after.searching == 0,
            sentry: shift.after.sentry,
        }
    }

    /// The second look found something: this worker does not sleep.
    pub(crate) fn cancel(&self, ticket: Ticket) -> Resumed {
        let (cause, sentry) = self.take_back(ticket.id);
        let sentry_left = ticket.sentry == Sentry::Armed && sentry == Sentry::Unarmed;
        let owes = match cause {
            Cause::Chosen => Owes::Nothing,
            Cause::Specific | Cause::Alone => notify_if(ticket.last_searcher || sentry_left),
        };
        Resumed { cause, owes, sentry }
    }

    /// The park has ended, by a token, a deadline, an event or for no reason.
    pub(crate) fn resume(&self, ticket: Ticket) -> Resumed {
        let (cause, sentry) = self.take_back(ticket.id);
        Resumed { cause, owes: Owes::Nothing, sentry }
    }

    fn take_back(&self, id: u32) -> (Cause, Sentry) {
        let mut sleepers = self.lock();
        match sleepers.take_back(id) {
            Left::Alone => {
                let shift = self.word.shift(Move::Wake(1, Role::Working));
                (Cause::Alone, shift.after.sentry)
            }
            Left::Woken(role) => {
                let cause = match role {
                    Role::Searching => Cause::Chosen,
                    Role::Working => Cause::Specific,
                };
                (cause, self.word.load().sentry)
            }
        }
    }

    /// Asks the sentry to watch: `true` means that it did not and must be unparked.
    pub(crate) fn arm(&self) -> bool {
        self.word.shift_if(Move::Arm, |c| c.sentry == Sentry::Unarmed).is_ok()
    }

    /// The sentry stops watching, if nobody is awake: `true` means that it may sleep until the
    /// next [`arm`](Self::arm).
    pub(crate) fn try_disarm(&self) -> bool {
        let nobody_is_awake = |c: Counts| c.sentry == Sentry::Armed && c.awake == 0;
        self.word.shift_if(Move::Disarm, nobody_is_awake).is_ok()
    }

    /// One consistent snapshot, out of date as soon as it is taken.
    pub(crate) fn counts(&self) -> Counts {
        self.word.load()
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().expect("nobody panics while the stack of sleepers is locked")
    }
}

/// What a push means in these counters, or `None` if somebody should be woken.
fn without_a_wake(counts: Counts) -> Option<Notify> {
    if counts.searching > 0 {
        return Some(Notify::Nobody);
    }
    if counts.sleeping > 0 {
        return None;
    }
    Some(if is_unwatched(counts) { Notify::Saturated } else { Notify::Nobody })
}

/// Whether the sentry does not watch, or a spare may be needed: nobody comes for what is not taken.
fn is_unwatched(counts: Counts) -> bool {
    counts.sentry == Sentry::Unarmed || counts.short
}

/// The same for a wide push that finds nobody to wake.
fn many_without_a_wake(counts: Counts) -> NotifyMany {
    match without_a_wake(counts) {
        Some(Notify::Saturated) => NotifyMany::Saturated,
        _ => NotifyMany::Done,
    }
}

fn notify_if(relied_on: bool) -> Owes {
    if relied_on { Owes::Notify } else { Owes::Nothing }
}
