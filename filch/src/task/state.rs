//! The state word of a task: every transition of a task's life, in one place.
//!
//! ```text
//!            start / claim            finish
//!   QUEUED ----------------> RUNNING ----------> DONE
//!     ^                       |   ^
//!     |  wake                 |   | pause: QUEUED was set meanwhile, or the body yielded
//!     +------ (no bit) <------+   +-- straight back into a queue
//!                       pause
//! ```
//!
//! A job that is started or claimed and turns out not to be the waiter's to run goes back to QUEUED
//! (`put_back`).
//!
//! One word holds flags (12 bits), the reference count (26 bits) and the birth time (26 bits,
//! constant), so that each transition is one read-modify-write.
//!
//! T1. The word is 0 exactly while the cell is free (the pool's contract).
//! T2. The body belongs to whoever holds RUNNING: the thread that set it, or the queue entry of
//!     a body that yielded (`Cell::pend` in `body`). Before the first start it belongs to the
//!     queue entry; between polls nobody touches it.
//! T3. QUEUED without RUNNING means exactly one queue entry exists, or is about to: whoever set
//!     the bit pushes it. QUEUED with RUNNING means "poll once more" and is no
//!     reason to push; the only entry there may be is that of a body that yielded (T2).
//! T4. A task that is not DONE holds one reference to itself (the *life reference*). A claimed
//!     job leaves its queue entry behind as a tombstone; the life reference is then released by
//!     the later of `finish` and the entry's removal (CLAIMED says that the entry is still there).
//! T5. The output belongs to the body's owner until DONE; afterwards to the handle if HANDLE was
//!     set at that moment, else it has been dropped before DONE was set.
//! T6. The waiter slot belongs to the handle while WAITER is clear and the task is not DONE;
//!     while WAITER is set nobody touches it but the one who clears the bit (the handle) or sets
//!     DONE (the finisher), who then owns its content.
//! T7. DONE is final; no flag set afterwards means anything.
//! T8. FRESH: no walk finds the task and no request reaches it, so who has its only reference may change
//!     the word without an exchange. Only jobs with children (`job`) are ever fresh. Alone: made and
//!     not run, without an entry, a life reference or a unit; only its launch ends that. With QUEUED:
//!     queued without a handle, or, beside other handles, about to be launched by one of them. With
//!     RUNNING: called on the stack of who has its only reference.
//! T9. HANDLE, of a job with children, is set by the first clone of its handle and by a launch whose
//!     caller keeps its own. While it is clear, lists and walks alone refer to a job that was launched.
//! T10. APART: a job that was born waiting, whose entry is in no queue yet. Nobody claims it, so whoever has won QUEUED may list it and
//!     push its entry before it can be DONE, as with a future, and then lets it be claimed (`may_be_claimed`).
//! T11. With QUEUED, APART lasts for a few instructions of whoever has won QUEUED, without a lock that another thread holds for long and
//!     without the user's code. So who claims the job or has cancelled it waits for their end (`let_push`) rather than miss it: when a
//!     cancel has returned, whoever waits can claim the job, unless somebody has started it.
//!
//! Not here: what only jobs with children go through (`fresh`), what the bits protect (`header`,
//! `body`), where an entry goes (`sched`).

use crate::base::shim::{AtomicU64, Ordering, yield_now};

mod fresh;

const QUEUED: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const DONE: u64 = 1 << 2;
const CANCEL: u64 = 1 << 3;
const HANDLE: u64 = 1 << 4;
const WAITER: u64 = 1 << 5;
const CLAIMED: u64 = 1 << 6;
const HIGH: u64 = 1 << 7;
const LOW: u64 = 1 << 8;
const DETACH: u64 = 1 << 9;

const FRESH: u64 = 1 << 10;
const APART: u64 = 1 << 11;

const REF: u64 = 1 << 12;
const REFS: u64 = ((1 << BIRTH_SHIFT) - 1) & !(REF - 1);
/// Half of what the field can count: beyond it the process ends rather than wraps.
const REFS_MAX: u64 = 1 << (BIRTH_SHIFT - 1);
const BIRTH_SHIFT: u32 = 38;
/// Births are counted in these units, modulo what 26 bits hold: three days.
const BIRTH_UNIT_MS: u32 = 4;

/// When a task runs relative to others of its lane.
///
/// ```
/// use filch::Priority;
/// let handle = filch::task().priority(Priority::High).spawn(async { 7 });
/// assert_eq!(handle.wait(), 7);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Before everything else that is ready in the lane.
    High,
    /// In the order of the queues.
    #[default]
    Normal,
    /// After normal work, yet within a bounded number of tasks.
    Low,
}

/// What taking an entry out of a queue gives the right to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The body is ours: poll or call it.
    Run,
    /// As `Run`, once the task has moved to the runtime's own group (at its first such start).
    Detached,
    /// The body is ours, only to be dropped.
    Cancelled,
    /// Somebody claimed the job through its handle; forget the entry.
    Tombstone,
    /// As `Tombstone`, and the entry held the last reference: free the cell.
    TombstoneLast,
}

/// What becomes of the entry of a job that was put back.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PutBack {
    /// It still lies in its queue, and is no tombstone any more.
    InPlace,
    /// It has been taken out: push it (T3).
    Push,
}

/// What to do after a poll that returned `Pending`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Somebody will wake it.
    Idle,
    /// It was woken while it ran: push it again.
    Requeue,
    /// It was cancelled while it ran: the body is still ours, drop it.
    Cancelled,
}

/// Whether a task gave an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// It panicked or was cancelled.
    Failed,
}

/// What the finisher still owes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The waiter slot holds a waker that is now ours, and so is one reference: drop it afterwards.
    pub(crate) waiter: bool,
    /// That was the last reference: free the cell.
    pub(crate) last: bool,
}

/// What dropping the handle left behind.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandleDrop {
    /// The task goes on, and the handle's reference is gone.
    Alive,
    /// The task goes on; the waiter slot is ours to empty, and then one reference has to go.
    AliveWithWaiter,
    /// The task is done: the output is ours, and then one reference has to go.
    Done,
}

/// What a wake or a cancel asks of its caller.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// We set QUEUED: push the entry (T3).
    Schedule,
    /// The task is queued, running or done.
    Nothing,
}

/// Whether walks find a job while it is queued (T8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    Visible,
    Hidden,
}

/// How a fresh job begins (T8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    /// As an entry to push; the handle is given up, its reference becomes the life reference.
    Queued,
    /// On the caller's stack, who keeps the handle and owns the body.
    Here,
}

/// A reading of the word, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Queued,
    Running,
    Waiting,
    Done,
}

#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct State(AtomicU64);

impl State {
    /// The word of a new task: queued, with the life reference and that of its handle, born at
    /// `now_ms`.
    pub(crate) fn initial(priority: Priority, now_ms: u32) -> u64 {
        let priority = match priority {
            Priority::High => HIGH,
            Priority::Normal => 0,
            Priority::Low => LOW,
        };
        QUEUED | HANDLE | priority | (2 * REF) | Self::birth(now_ms)
    }

    /// As `initial`, of a job that waits for its first wake (T10).
    pub(crate) fn waiting(priority: Priority, now_ms: u32) -> u64 {
        (Self::initial(priority, now_ms) & !QUEUED) | APART
    }

    fn birth(now_ms: u32) -> u64 {
        u64::from(now_ms / BIRTH_UNIT_MS) << BIRTH_SHIFT
    }

    /// The word of a job that nobody has run, with one handle (T8).
    pub(crate) fn fresh(now_ms: u32) -> u64 {
        FRESH | REF | Self::birth(now_ms)
    }

    /// The word of a job that is born queued and has no handle; only a visible one can be listed in
    /// its group.
    pub(crate) fn unowned(sight: Sight, now_ms: u32) -> u64 {
        let hidden = match sight {
            Sight::Visible => 0,
            Sight::Hidden => FRESH,
        };
        hidden | QUEUED | REF | Self::birth(now_ms)
    }

    #[cfg(test)]
    pub(crate) fn new(word: u64) -> Self {
        Self(AtomicU64::new(word))
    }

    /// Makes an initialised cell visible to the registry's walk.
    pub(crate) fn publish(&self, word: u64) {
        // ORDERING: Release pairs with the Acquire in `try_pin`: who pins the cell sees its fields.
        self.0.store(word, Ordering::Release);
    }

    pub(crate) fn priority(&self) -> Priority {
        // ORDERING: Relaxed, the bits are constant from `publish` on.
        let word = self.0.load(Ordering::Relaxed);
        match word & (HIGH | LOW) {
            HIGH => Priority::High,
            LOW => Priority::Low,
            _ => Priority::Normal,
        }
    }

    /// Milliseconds since the birth, by the same clock, modulo three days.
    pub(crate) fn age_ms(&self, now_ms: u32) -> u32 {
        // ORDERING: Relaxed, the bits are constant from `publish` on.
        let birth = (self.0.load(Ordering::Relaxed) >> BIRTH_SHIFT) as u32;
        let age = (now_ms / BIRTH_UNIT_MS).wrapping_sub(birth) & (u32::MAX >> 6);
        age * BIRTH_UNIT_MS
    }

    pub(crate) fn phase(&self) -> Phase {
        // ORDERING: Relaxed, a reading for people; nothing is accessed because of it.
        let word = self.0.load(Ordering::Relaxed);
        if word & DONE != 0 {
            Phase::Done
        } else if word & RUNNING != 0 {
            Phase::Running
        } else if word & QUEUED != 0 {
            Phase::Queued
        } else {
            Phase::Waiting
        }
    }

    /// An entry of this task has been taken out of a queue.
    #[inline]
    pub(crate) fn start(&self) -> Start {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & FRESH != 0 {
                return self.start_hidden();
            }
            let (next, start) = if word & (QUEUED | RUNNING | CLAIMED) == QUEUED {
                let start = match word & (CANCEL | DETACH) {
                    0 => Start::Run,
                    DETACH => Start::Detached,
                    _ => Start::Cancelled,
                };
                (word ^ (QUEUED | RUNNING), start)
            } else if word & (RUNNING | CLAIMED) == RUNNING {
                return self.start_yielded();
            } else {
                debug_assert!(word & CLAIMED != 0, "an entry without a reason: {word:#x}");
                let entry_gone = word & !CLAIMED;
                match (word & DONE != 0, word & REFS == REF) {
                    (false, _) => (entry_gone, Start::Tombstone),
                    (true, false) => (entry_gone - REF, Start::Tombstone),
                    (true, true) => (entry_gone - REF, Start::TombstoneLast),
                }
            };
            // ORDERING: Acquire pairs with the Release of whoever queued the task (`publish`,
            // `wake`, `pause`), so the body is seen as they left it; Release hands a tombstone's
            // last view on to whoever frees the cell. Model: loom_wake_vs_pause.
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return start,
                Err(now) => word = now,
            }
        }
    }

    /// The entry of a job without a handle: it is the only reference, so there is nothing to win.
    fn start_hidden(&self) -> Start {
        // ORDERING: Acquire pairs with the Release in `publish`: the closure is seen whole.
        let word = self.0.load(Ordering::Acquire);
        debug_assert!(word & (QUEUED | RUNNING | REFS) == QUEUED | REF, "start of {word:#x}");
        // ORDERING: Release pairs with the Acquire in `try_pin`: a walk may find it from now on.
        self.0.store(word ^ (FRESH | QUEUED | RUNNING), Ordering::Release);
        Start::Run
    }

    /// The entry of a body that yielded: it kept RUNNING, so there is nothing to win.
    fn start_yielded(&self) -> Start {
        // ORDERING: Acquire pairs with the Release in `cancel`; the body itself came through the
        // queue (its push and pop order the two polls).
        let word = self.0.load(Ordering::Acquire);
        match word & (CANCEL | DETACH) {
            0 => Start::Run,
            DETACH => Start::Detached,
            _ => Start::Cancelled,
        }
    }

    /// Claims a job that is queued and that no worker has started; its queue entry becomes a tombstone (T4).
    pub(crate) fn claim(&self) -> Option<Start> {
        let mut word = self.let_push();
        loop {
            if word & (QUEUED | RUNNING | DONE) != QUEUED {
                return None;
            }
            debug_assert!(word & APART == 0, "T10: nobody sets it again, {word:#x}");
            let next = (word ^ (QUEUED | RUNNING)) | CLAIMED;
            // ORDERING: Acquire pairs with the Release in `publish`: the closure is seen whole.
            // Exclusive against `start` by the exchange. Model: loom_claim_vs_start.
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(match word & (CANCEL | DETACH) {
                        0 => Start::Run,
                        DETACH => Start::Detached,
                        _ => Start::Cancelled,
                    });
                }
                Err(now) => word = now,
            }
        }
    }

    /// While another thread is about to push the entry of a job that waited, lets it do so (T11).
    ///
    /// Not for that thread itself.
    pub(crate) fn let_push(&self) -> u64 {
        loop {
            // ORDERING: Acquire pairs with the Release in `may_be_claimed`: who looks for the job finds it in its group's list.
            // Model: loom_who_helps_finds_what_was_cancelled.
            let word = self.0.load(Ordering::Acquire);
            if word & (QUEUED | RUNNING | DONE | APART) != QUEUED | APART {
                return word;
            }
            yield_now();
        }
    }

    /// The entry of a job that waited has been pushed: from now on it can be claimed (T10).
    pub(crate) fn may_be_claimed(&self) {
        // ORDERING: Release pairs with the Acquire in `claim` and `let_push`: what the pusher did with group and runtime is over
        // before the claimer ends the task, and perhaps both. Model: loom_wake_of_a_waiting_job_vs_claim.
        let before = self.0.fetch_and(!APART, Ordering::Release);
        debug_assert!(before & APART != 0 && before & REFS != 0, "{before:#x}");
    }

    /// Whether somebody has claimed the job, so that its entry is a tombstone.
    pub(crate) fn is_claimed(&self) -> bool {
        // ORDERING: Relaxed, a hint; `start` decides.
        self.0.load(Ordering::Relaxed) & CLAIMED != 0
    }

    /// Undoes the `start` or `claim` of a job that was not run: it is queued again.
    pub(crate) fn put_back(&self) -> PutBack {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & RUNNING != 0 && word & DONE == 0, "put back of {word:#x}");
            let next = (word | QUEUED) & !(RUNNING | CLAIMED);
            // ORDERING: Release pairs with the Acquire in `start`: what was changed while the body
            // was ours is seen. Acquire pairs with the `start` that took the tombstone away.
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if word & CLAIMED != 0 => return PutBack::InPlace,
                Ok(_) => return PutBack::Push,
                Err(now) => word = now,
            }
        }
    }

    /// After a poll that returned `Pending` without yielding.
    #[inline]
    pub(crate) fn pause(&self) -> Pause {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & RUNNING != 0 && word & DONE == 0, "pause of {word:#x}");
            if word & CANCEL != 0 {
                // ORDERING: Acquire pairs with the Release in `cancel`.
                let _ = self.0.load(Ordering::Acquire);
                return Pause::Cancelled;
            }
            // ORDERING: Release pairs with the Acquire in `start`: the next poll sees this one.
            // Acquire pairs with the Release of a `wake` that came meanwhile.
            match self.0.compare_exchange_weak(
                word,
                word & !RUNNING,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if word & QUEUED != 0 => return Pause::Requeue,
                Ok(_) => return Pause::Idle,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the task was cancelled; read by the owner of a body that yielded.
    pub(crate) fn is_cancelled(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `cancel`.
        self.0.load(Ordering::Acquire) & CANCEL != 0
    }

    /// The body is dropped and the output stored: the task is done.
    ///
    /// Fails while the handle has gone and the output is still there: the caller drops the
    /// output first and calls `finish_without_output`.
    pub(crate) fn finish(&self) -> Option<Finished> {
        self.finish_if(|word| word & HANDLE != 0)
    }

    /// As `finish`, when there is no output left that a handle could own.
    pub(crate) fn finish_without_output(&self) -> Finished {
        match self.finish_if(|_| true) {
            Some(finished) => finished,
            None => unreachable!("an unconditional finish cannot fail"),
        }
    }

    fn finish_if(&self, allowed: impl Fn(u64) -> bool) -> Option<Finished> {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & RUNNING != 0 && word & DONE == 0, "finish of {word:#x}");
            if !allowed(word) {
                return None;
            }
            let waiter = word & WAITER != 0;
            // T4: with a tombstone about, the life reference is its. With a waiter, the finisher
            // keeps a reference until the waker is out of the cell.
            let done = (word & !RUNNING) | DONE;
            let next = match (word & CLAIMED != 0, waiter) {
                (true, true) => done + REF,
                (true, false) | (false, true) => done,
                (false, false) => done - REF,
            };
            // ORDERING: Release pairs with the Acquire in `is_done`, `drop_handle` and `unref`:
            // they see the output and the dropped body. Acquire pairs with the Release in
            // `set_waiter`: we see the waker, and with that in `unref` before we free.
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    return Some(Finished { waiter, last: next & REFS == 0 });
                }
                Err(now) => word = now,
            }
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `finish`: the output is seen whole.
        self.0.load(Ordering::Acquire) & DONE != 0
    }

    /// Asks for one more poll.
    #[inline]
    pub(crate) fn wake(&self) -> Wake {
        self.request(QUEUED)
    }

    /// Asks for the body to be dropped instead of run.
    pub(crate) fn cancel(&self) -> Wake {
        self.request(QUEUED | CANCEL)
    }

    /// Asks for the task to be moved to the runtime's own group, when it next starts.
    pub(crate) fn detach(&self) -> Wake {
        self.request(QUEUED | DETACH)
    }

    /// Whether the task was detached, and is no longer its group's to cancel.
    pub(crate) fn is_detached(&self) -> bool {
        // ORDERING: Relaxed, DETACH publishes nothing: whoever detached it before is ordered by
        // the user's own means.
        self.0.load(Ordering::Relaxed) & DETACH != 0
    }

    fn request(&self, bits: u64) -> Wake {
        // ORDERING: Relaxed, T7: a done task needs nothing, and nothing is read from it.
        if self.0.load(Ordering::Relaxed) & (DONE | FRESH) != 0 {
            return Wake::Nothing;
        }
        // ORDERING: Release pairs with the Acquire in `start` and `pause`: what the waker wrote
        // is seen by the poll it asked for, also when QUEUED was set already (hence no shortcut).
        // Acquire pairs with the Release in `pause`. Model: loom_wake_vs_pause.
        let before = self.0.fetch_or(bits, Ordering::AcqRel);
        if before & (QUEUED | RUNNING | DONE) == 0 { Wake::Schedule } else { Wake::Nothing }
    }

    /// Hands the content of the waiter slot to the finisher; false if the task is done (T6).
    pub(crate) fn set_waiter(&self) -> bool {
        // ORDERING: Release pairs with the Acquire in `finish`: the waker is in the slot (T6).
        self.move_waiter(WAITER, Ordering::Release)
    }

    /// Takes the waiter slot back; false if the task is done (T6).
    pub(crate) fn clear_waiter(&self) -> bool {
        // ORDERING: Acquire, our next write to the slot comes after WAITER is gone (T6): until
        // then a finisher that sees WAITER may read it.
        self.move_waiter(0, Ordering::Acquire)
    }

    fn move_waiter(&self, to: u64, success: Ordering) -> bool {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & DONE != 0 {
                // ORDERING: Acquire pairs with the Release in `finish`.
                let _ = self.0.load(Ordering::Acquire);
                return false;
            }
            // ORDERING: `success` is Release when the slot is given away (partner: the Acquire in
            // `finish`), Acquire when it is taken back.
            match self.0.compare_exchange_weak(
                word,
                (word & !WAITER) | to,
                success,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Whether a waker is in the slot; a hint for others than the handle.
    pub(crate) fn has_waiter(&self) -> bool {
        // ORDERING: Relaxed, only the handle changes WAITER before DONE, and knows. The walk of an abort (Z4 of
        // `sched/shutdown`) looks again.
        self.0.load(Ordering::Relaxed) & WAITER != 0
    }

    /// The handle goes.
    pub(crate) fn drop_handle(&self) -> HandleDrop {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & DONE != 0 {
                // ORDERING: Acquire pairs with the Release in `finish`: the output is ours (T5).
                let _ = self.0.load(Ordering::Acquire);
                return HandleDrop::Done;
            }
            let (kept, outcome) = match word & WAITER {
                0 => (0, HandleDrop::Alive),
                _ => (REF, HandleDrop::AliveWithWaiter),
            };
            let next = (word & !(HANDLE | WAITER)) - REF + kept;
            debug_assert!(next & REFS != 0, "T4: a live task holds itself");
            // ORDERING: Release pairs with the Acquire in `finish`; Acquire, since
            // the waiter slot comes back to us.
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return outcome,
                Err(now) => word = now,
            }
        }
    }

    #[inline]
    pub(crate) fn add_ref(&self) {
        // ORDERING: Relaxed, a new reference is made from one that keeps the cell alive.
        let before = self.0.fetch_add(REF, Ordering::Relaxed);
        if before & REFS > REFS_MAX {
            // As for `Arc`: a count that wraps would free a cell in use.
            std::process::abort();
        }
    }

    /// As `add_ref`, for a handle of a job with children (T9).
    #[inline]
    pub(crate) fn add_handle(&self) {
        // ORDERING: Relaxed, only HANDLE is asked for, and nobody takes it away.
        if self.0.load(Ordering::Relaxed) & HANDLE == 0 {
            // ORDERING: Relaxed, HANDLE publishes nothing.
            self.0.fetch_or(HANDLE, Ordering::Relaxed);
        }
        self.add_ref();
    }

    /// True if that was the last reference: the caller frees the cell.
    #[inline]
    pub(crate) fn unref(&self) -> bool {
        // ORDERING: Release hands our accesses to whoever frees the cell; Acquire takes theirs.
        let before = self.0.fetch_sub(REF, Ordering::AcqRel);
        debug_assert!(before & REFS != 0, "a reference too many was dropped");
        before & REFS == REF
    }

    /// Adds a reference to a cell found by the registry's walk, unless it is being freed.
    pub(crate) fn try_pin(&self) -> bool {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & REFS == 0 || word & FRESH != 0 {
                return false;
            }
            // ORDERING: Acquire pairs with the Release in `publish`.
            match self.0.compare_exchange_weak(
                word,
                word + REF,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn refs(&self) -> u64 {
        (self.0.load(Ordering::SeqCst) & REFS) / REF
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
