//! A wheel that threads share, and the timers in it.
//!
//! A timer lies inside the future that sleeps, pinned, and the wheel points to it. So a timer costs no
//! allocation, and one that does not fire costs an insertion and a removal.
//!
//! ```text
//!             register                   expire
//!     IDLE ─────────────▶ LINKED ───────────────────▶ FIRED
//!       ▲                    │ cancel, drop, close       │ cancel, register
//!       └────────────────────┴───────────────────────────┘
//! ```
//!
//! N1. LINKED says that the wheel of `home` points to the entry. It is entered and left under the lock
//!     of that wheel; whoever takes it out of LINKED writes nothing to the entry afterwards, and reads
//!     nothing. So who sees another state needs no lock, and may let the entry go.
//! N2. The owner (the future, one thread at a time) alone leaves IDLE and FIRED, and alone writes the
//!     waker: before LINKED, or under the lock. Others copy it out, under the lock, as they leave
//!     LINKED: from then on it is theirs. So the owner may compare it without the lock.
//! N3. An entry is pinned and its drop leaves LINKED: the wheel never points to what is gone.
//! N4. `nearest` is written under the lock and is that of the wheel, or earlier. Who inserts an earlier
//!     deadline than it was is told so, and sees to it that somebody looks. A removal leaves it: one
//!     look for nothing costs less than to tell somebody of each deadline anew.
//! N5. No lock is held while a waker is cloned, woken or dropped.
//! N6. A wheel that is shut takes no timer and fires none. It is shut and opened under the lock, so who shuts
//!     it and then empties it (`close`) leaves nothing behind that nobody looks at. To empty it is to go to
//!     the end of time; opened again, it begins anew.
//! N7. `len` is what the wheel holds: written under the lock, so a registration is counted before it
//!     returns.
//!
//! Not here: whose wheel, who looks when, what time it is (`sched/timers.rs`).

use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use super::wheel::{Inserted, Linked, NEVER, Node, Popped, Wheel};
use crate::base::process::Process;
use crate::base::shim::{
    AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, UnsafeCell,
};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// Entries that a look may move to a lower level in place of one that it may fire. Guessed.
const MOVES: usize = 4;

/// In no wheel.
const IDLE: u32 = 0;
/// In a wheel, with a waker.
const LINKED: u32 = 1;
/// Out of the wheel, because it was due.
const FIRED: u32 = 2;

/// A wheel under its lock.
pub(crate) struct Timers {
    /// N4, in nanoseconds.
    nearest: AtomicU64,
    /// N7.
    len: AtomicUsize,
    wheel: Mutex<Shelf>,
    process: Process,
}

/// What is under the lock.
struct Shelf {
    wheel: Wheel<Entry>,
    /// N6.
    intake: Intake,
}

/// Whether a wheel takes timers (N6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Shut(Shut),
}

/// Why a wheel is shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shut {
    /// Nobody looks at it for now; another takes the timer.
    Left,
    /// Nobody will look at it again, nor at any other of its runtime.
    Ended,
}

/// A shut wheel did not take a timer.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) waker: Waker,
    pub(crate) why: Shut,
}

/// What the wheel points to.
#[derive(Debug)]
struct Entry {
    /// The wheel's, under its lock.
    node: UnsafeCell<Node<Entry>>,
    /// N2; there while LINKED.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    /// N1.
    state: AtomicU32,
}

// SAFETY: it is always the same field.
unsafe impl Linked for Entry {
    fn node(&self) -> &UnsafeCell<Node<Self>> {
        &self.node
    }
}

// SAFETY: N1 and N2 say who touches what when; a waker may go anywhere.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// Wakers are called and dropped when all changes are made, so their panic leaves none half done.
impl UnwindSafe for Entry {}
impl RefUnwindSafe for Entry {}

/// A timer: its owner's side.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Where it was registered last; the owner's alone.
    home: Option<Arc<Timers>>,
    entry: Entry,
    /// N3.
    _pinned: PhantomPinned,
}

/// What became of a registration.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registered {
    /// It is due, and will not wake anybody.
    Due,
    /// It is in the wheel, which is looked at in time.
    Waits,
    /// It is in the wheel, and nothing was due so early before (N4).
    Nearest,
}

/// How a timer stands.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polled {
    Fired,
    /// In a wheel, and the waker will be woken.
    Waits,
    /// In no wheel.
    Idle,
}

/// Whether a look at a wheel left something due behind.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Done,
    More,
}

/// Wakers of timers that have fired, to be woken without the lock (N5).
#[derive(Debug)]
pub(crate) struct Batch {
    wakers: [Option<Waker>; Self::SIZE],
    len: usize,
}

impl Batch {
    /// Guessed: enough to spread the cost of a lock.
    pub(crate) const SIZE: usize = 32;

    pub(crate) const fn new() -> Self {
        Self { wakers: [const { None }; Self::SIZE], len: 0 }
    }

    fn push(&mut self, waker: Waker) {
        self.wakers[self.len] = Some(waker);
        self.len += 1;
    }

    /// The wakers, in the order in which their timers fired.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Waker> {
        let len = std::mem::take(&mut self.len);
        self.wakers[..len].iter_mut().filter_map(Option::take)
    }
}

impl Timers {
    pub(crate) fn new() -> Self {
        let shelf = Shelf { wheel: Wheel::new(), intake: Intake::Open };
        Self {
            nearest: AtomicU64::new(NEVER),
            len: AtomicUsize::new(0),
            wheel: Mutex::new(shelf),
            process: Process::this(),
        }
    }

    /// How many timers are in the wheel (N7).
    pub(crate) fn len(&self) -> usize {
        // ORDERING: Relaxed, a count to compare.
        self.len.load(Ordering::Relaxed)
    }

    /// N7; the caller holds the lock.
    fn count(&self, change: impl FnOnce(usize) -> usize) {
        // ORDERING: Relaxed, only holders of the lock write it.
        self.len.store(change(self.len()), Ordering::Relaxed);
    }

    /// Takes no timer from now on (N6).
    pub(crate) fn shut(&self, why: Shut) {
        let mut shelf = self.lock();
        if shelf.intake != Intake::Shut(Shut::Ended) {
            shelf.intake = Intake::Shut(why);
        }
    }

    /// Takes timers again, unless its runtime has ended (N6): who is attached beside the end may come after it.
    pub(crate) fn open(&self) {
        let mut shelf = self.lock();
        if shelf.intake == Intake::Shut(Shut::Left) {
            shelf.intake = Intake::Open;
            shelf.wheel.begin_anew();
        }
    }

    /// When somebody should look at the latest, in nanoseconds.
    #[inline]
    pub(crate) fn nearest(&self) -> u64 {
        // ORDERING: Relaxed, what is due is read under the lock; that a sleeper reads what was
        // inserted before is up to the fences of the idle set (N4).
        self.nearest.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        // Nothing of the user's runs under the lock (N5), so poison means nothing.
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// N4; the caller holds the lock.
    fn publish(&self, nearest: u64) {
        // ORDERING: Relaxed, see `nearest`.
        self.nearest.store(nearest, Ordering::Relaxed);
    }

    /// Fires timers that are due at `now`, at most `budget` and as many as the batch holds; the
    /// caller wakes the batch. What it moves counts too: a slot that is full of timers for later holds
    /// nobody up.
    pub(crate) fn expire(&self, now: u64, budget: &mut usize, batch: &mut Batch) -> Expiry {
        let mut shelf = self.lock();
        if shelf.intake != Intake::Open {
            return Expiry::Done;
        }
        let (wheel, before) = (&mut shelf.wheel, batch.len);
        let most = MOVES * (*budget).min(Batch::SIZE);
        let mut moves = most;
        let mut expiry = Expiry::More;
        while *budget > 0 && batch.len < Batch::SIZE {
            match wheel.pop(now, &mut moves) {
                Popped::Entry(entry) => {
                    *budget -= 1;
                    // SAFETY: it was LINKED, and the lock is held (N1).
                    batch.push(unsafe { Entry::leave(entry, FIRED) });
                }
                Popped::Later => break,
                Popped::Nothing => {
                    expiry = Expiry::Done;
                    break;
                }
            }
        }
        *budget = budget.saturating_sub((most - moves) / MOVES);
        self.publish(wheel.nearest());
        self.count(|len| len - (batch.len - before));
        expiry
    }

    /// Nobody looks at this wheel, which is shut: takes some timers out, unfired; the caller wakes the batch,
    /// so that they find another one (N6).
    pub(crate) fn close(&self, batch: &mut Batch) -> Expiry {
        let mut shelf = self.lock();
        debug_assert!(matches!(shelf.intake, Intake::Shut(_)), "N6");
        let mut moves = usize::MAX;
        while batch.len < Batch::SIZE {
            let Popped::Entry(entry) = shelf.wheel.pop(NEVER, &mut moves) else {
                self.publish(NEVER);
                return Expiry::Done;
            };
            self.count(|len| len - 1);
            // SAFETY: it was LINKED, and the lock is held (N1).
            batch.push(unsafe { Entry::leave(entry, IDLE) });
        }
        Expiry::More
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers").field("nearest", &self.nearest()).finish_non_exhaustive()
    }
}

impl Entry {
    fn new_in(state: AtomicU32) -> Self {
        Self {
            node: UnsafeCell::new(Node::new()),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            state,
        }
    }

    /// Leaves LINKED, and returns the waker (N2). The entry may be gone after that (N1).
    ///
    /// # Safety
    /// The entry is LINKED and has been taken out of its wheel, whose lock the caller holds.
    unsafe fn leave(entry: NonNull<Self>, state: u32) -> Waker {
        // SAFETY: N3, it is LINKED, so it is there.
        let entry = unsafe { entry.as_ref() };
        // SAFETY: N2, it is there while LINKED.
        let waker = entry.waker.with(|waker| unsafe { waker.cast::<Waker>().read() });
        // ORDERING: Release pairs with the Acquire in `Entry::state`: who sees it sees that the waker
        // has been read (N1).
        entry.state.store(state, Ordering::Release);
        waker
    }

    fn state(&self) -> u32 {
        // ORDERING: Acquire pairs with the Release in `leave` (N1).
        self.state.load(Ordering::Acquire)
    }

    /// Whether the waker of this entry, which its owner has seen LINKED, wakes the same as `waker`.
    fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: N2, only the caller writes it. If another has taken it, its bits are still there,
        // and comparing them reads nothing else.
        self.waker.with(|ours| unsafe { &*ours.cast::<Waker>() }.will_wake(waker))
    }
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self::new_in(IDLE)
    }

    /// A timer that has fired.
    pub(crate) fn fired() -> Self {
        Self::new_in(FIRED)
    }

    fn new_in(state: u32) -> Self {
        let entry = Entry::new_in(AtomicU32::new(state));
        Self { home: None, entry, _pinned: PhantomPinned }
    }

    pub(crate) fn is_fired(&self) -> bool {
        self.entry.state() == FIRED
    }

    /// Tells how the timer stands, and has `waker` woken if it waits.
    pub(crate) fn poll(self: Pin<&mut Self>, waker: &Waker) -> Polled {
        match self.entry.state() {
            FIRED => Polled::Fired,
            IDLE => Polled::Idle,
            _ if self.entry.will_wake(waker) => Polled::Waits,
            _ => self.change_waker(waker.clone()),
        }
    }

    fn change_waker(self: Pin<&mut Self>, mut waker: Waker) -> Polled {
        self.home().process.check();
        let shelf = self.home().lock();
        let state = self.entry.state();
        if state == LINKED {
            self.entry.waker.with_mut(|place| {
                // SAFETY: N2, we are the owner, hold the lock, and it is there.
                std::mem::swap(unsafe { &mut *place.cast::<Waker>() }, &mut waker);
            });
        }
        drop(shelf);
        // N5: `waker`, whichever it is by now, goes after the lock.
        match state {
            FIRED => Polled::Fired,
            IDLE => Polled::Idle,
            _ => Polled::Waits,
        }
    }

    fn home(&self) -> &Arc<Timers> {
        self.home.as_ref().expect("a timer that was LINKED has a home")
    }

    /// Puts the timer, which is in no wheel, into that of `timers`. `deadline` is at most
    /// [`LATEST`](super::LATEST) and `now` not in the future. A wheel that is shut gives the waker back.
    pub(crate) fn register(
        self: Pin<&mut Self>,
        timers: &Arc<Timers>,
        deadline: u64,
        now: u64,
        waker: Waker,
    ) -> Result<Registered, Refused> {
        debug_assert_ne!(self.entry.state(), LINKED);
        // SAFETY: the entry is not moved, only `home` is changed.
        let this = unsafe { self.get_unchecked_mut() };
        if this.home.as_ref().is_none_or(|home| !Arc::ptr_eq(home, timers)) {
            this.home = Some(timers.clone());
        }
        let entry = &this.entry;
        // SAFETY: N2, we are the owner, and it is not LINKED.
        entry.waker.with_mut(|place| unsafe { (*place).write(waker) });
        let mut shelf = timers.lock();
        if let Intake::Shut(why) = shelf.intake {
            // ORDERING: Relaxed, only the owner leaves IDLE and FIRED.
            entry.state.store(IDLE, Ordering::Relaxed);
            // SAFETY: N2, written above, and nobody has taken it.
            let waker = entry.waker.with(|waker| unsafe { waker.cast::<Waker>().read() });
            return Err(Refused { waker, why });
        }
        let wheel = &mut shelf.wheel;
        // SAFETY: it is in no wheel; and pinned until its drop, which takes it out (N3).
        let inserted = unsafe { wheel.insert(NonNull::from(entry), deadline, now) };
        if inserted == Inserted::Due {
            drop(shelf);
            // ORDERING: Relaxed, only the owner leaves FIRED.
            entry.state.store(FIRED, Ordering::Relaxed);
            // SAFETY: N2, written above, and nobody has taken it.
            drop(entry.waker.with(|waker| unsafe { waker.cast::<Waker>().read() }));
            return Ok(Registered::Due);
        }
        // ORDERING: Relaxed, who leaves LINKED holds the lock after us.
        entry.state.store(LINKED, Ordering::Relaxed);
        timers.count(|len| len + 1);
        let (before, nearest) = (timers.nearest(), wheel.nearest());
        if nearest < before {
            timers.publish(nearest);
            return Ok(Registered::Nearest);
        }
        Ok(Registered::Waits)
    }

    /// Takes the timer out of its wheel; the waker is returned, if it was there. Afterwards it is idle.
    pub(crate) fn cancel(self: Pin<&mut Self>) -> Option<Waker> {
        // SAFETY: the entry is not moved.
        unsafe { self.get_unchecked_mut() }.take_out()
    }

    fn take_out(&mut self) -> Option<Waker> {
        // In a forked child a thread of the parent may have held the lock, and nobody looks at the wheel.
        if self.entry.state() == LINKED && !self.home().process.is_parent() {
            let mut shelf = self.home().lock();
            if self.entry.state() == LINKED {
                let entry = NonNull::from(&self.entry);
                // SAFETY: N1, LINKED under the lock.
                unsafe { shelf.wheel.remove(entry) };
                self.home().count(|len| len - 1);
                // SAFETY: it was LINKED and is out, and the lock is held.
                return Some(unsafe { Entry::leave(entry, IDLE) });
            }
        }
        // ORDERING: Relaxed, not LINKED: the owner's alone.
        self.entry.state.store(IDLE, Ordering::Relaxed);
        None
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // N3. An owner that never registered it has nothing to take out.
        if self.home.is_some() {
            drop(self.take_out());
        }
    }
}
