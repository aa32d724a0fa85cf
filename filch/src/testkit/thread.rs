//! Time, randomness and threads that a simulation decides.
//!
//! G1. A thread of a simulation belongs to the group of whoever started it, and holds a unit of it
//!     until its end, so the group and its runtime are there for what the thread spawns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::rng;
use crate::base::sim::{self, Key, What};
use crate::base::thread::{self, Thread};
use crate::spawn;
use crate::task::context::Frame;
use crate::task::group::{Group, GroupRef};

/// The time: in a [`Sim`](super::Sim) that of the simulation, elsewhere the system's.
///
/// ```
/// use std::time::Duration;
/// use filch::testkit::{self, Sim};
/// let passed = Sim::new().run(|| {
///     let begin = testkit::now();
///     testkit::sleep(Duration::from_secs(3600));
///     testkit::now() - begin
/// });
/// assert!(passed >= Duration::from_secs(3600) && passed < Duration::from_secs(3601));
/// ```
pub fn now() -> Instant {
    // A loop that waits for the time must let it pass.
    sim::point();
    sim::now()
}

/// A random number: in a [`Sim`](super::Sim) from its seed, elsewhere a fresh one.
///
/// ```
/// use filch::testkit::{self, Sim};
/// let draw = |seed| Sim::new().seed(seed).run(testkit::random);
/// assert_eq!(draw(1), draw(1));
/// assert_ne!(draw(1), draw(2));
/// ```
pub fn random() -> u64 {
    rng::fresh_seed()
}

/// Blocks the thread for so long: in a [`Sim`](super::Sim) no real time passes.
///
/// To the runtime it is a blocking call, as `std::thread::sleep` is.
///
/// ```
/// use filch::testkit::{self, Sim};
/// Sim::new().run(|| testkit::sleep(std::time::Duration::from_secs(1_000_000)));
/// ```
pub fn sleep(time: Duration) {
    match sim::now().checked_add(time) {
        Some(until) if sim::is_on() => {
            while sim::now() < until {
                sim::wait(Key::Time, Some(until), What::Asleep);
            }
        }
        _ => std::thread::sleep(time),
    }
}

/// A place where, in a [`Sim`](super::Sim), another thread may go on instead.
///
/// The runtime has such places wherever its threads meet. A test of code that meets through
/// atomics of its own puts them between the operations that may race.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use filch::testkit::{self, Sim};
/// let failure = Sim::new().find(0..1000, || {
///     let count = AtomicU32::new(0);
///     let add = || {
///         let seen = count.load(Relaxed);
///         testkit::switch_point();
///         count.store(seen + 1, Relaxed);
///     };
///     filch::scope(|s| (0..2).for_each(|_| s.spawn(|_| add())));
///     assert_eq!(count.into_inner(), 2, "one was lost");
/// });
/// assert!(failure.unwrap().to_string().contains("one was lost"));
/// ```
pub fn switch_point() {
    sim::point();
}

/// Starts a thread that is no worker: in a [`Sim`](super::Sim) a participant, elsewhere one of the
/// system's.
///
/// In a simulation it belongs to the group of whoever started it, as a task would: what it spawns
/// goes there, and the group is not finished before the thread has ended.
///
/// ```
/// use filch::testkit::{self, Sim};
/// let sum = Sim::new().run(|| {
///     let threads = [1, 2].map(|i| testkit::spawn_thread(move || filch::spawn_fn(move || i).wait()));
///     threads.map(|thread| thread.join().unwrap()).iter().sum::<i32>()
/// });
/// assert_eq!(sum, 3);
/// ```
///
/// # Panics
/// If the system refuses a thread.
pub fn spawn_thread<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> ThreadHandle<T> {
    let outcome = Arc::new(Mutex::new(None));
    let place = outcome.clone();
    let home = sim::is_on().then(Membership::of_caller);
    let main = move || {
        let body = || match &home {
            Some(home) => home.run(body),
            None => body(),
        };
        let result = catch_unwind(AssertUnwindSafe(body));
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        drop(home);
    };
    match thread::start("thread", None, main) {
        Ok(thread) => {
            sim::point();
            ThreadHandle { thread, outcome }
        }
        Err(error) => panic!("a thread cannot start: {error}"),
    }
}

/// A unit of the group that a thread belongs to (G1).
struct Membership(GroupRef);

impl Membership {
    fn of_caller() -> Self {
        spawn::current(|_, group, _| {
            group.enter();
            Self(group.to_ref())
        })
    }

    fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: X2, `self` holds a reference and a unit of the group.
        let _frame = unsafe { Frame::enter(Arc::as_ptr(&self.0), ptr::null(), u32::MAX) };
        f()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // SAFETY: the unit that `of_caller` took, given back once.
        unsafe { Group::leave(Arc::as_ptr(&self.0)) };
    }
}

/// A thread that [`spawn_thread`] has started. Dropped, it lets the thread run on.
///
/// ```
/// let thread = filch::testkit::spawn_thread(|| 7);
/// assert_eq!(thread.join().unwrap(), 7);
/// ```
pub struct ThreadHandle<T> {
    thread: Thread,
    outcome: Arc<Mutex<Option<std::thread::Result<T>>>>,
}

impl<T> ThreadHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// ```
    /// let thread = filch::testkit::spawn_thread(|| panic!("oh"));
    /// assert!(thread.join().is_err());
    /// ```
    ///
    /// # Errors
    /// What the thread panicked with.
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join();
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.expect("a thread leaves its outcome before its end")
    }

    /// Whether the thread has ended.
    ///
    /// ```
    /// let thread = filch::testkit::spawn_thread(|| ());
    /// while !thread.is_finished() {
    ///     filch::testkit::switch_point();
    /// }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

impl<T> std::fmt::Debug for ThreadHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadHandle").finish_non_exhaustive()
    }
}
