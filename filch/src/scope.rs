//! `scope`: children that borrow from the caller's stack.
//!
//! E1. `scope` does not return, by value or by panic, before every child has ended and its body
//!     has been dropped; so what a child borrows from outside the scope outlives it. No value that
//!     could be forgotten guards this: the function itself waits.
//! E2. A child's output is dropped before it counts as ended (B2), and no handle leaves the scope.
//! E3. If a child was cancelled before its end (by an enclosing `group` or a shutdown), `scope`
//!     does not return but unwinds, for whoever comes after it may rely on the children having
//!     run. The task around it counts as cancelled, not as panicked. A child that panicked is not
//!     cancelled: the group says what becomes of its panic (G3 of `task/group.rs`).

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::thread;

use futures_lite::FutureExt;

use crate::base::shim::{AtomicBool, Ordering};
use crate::block_on::{in_group, on_panic_here, tracking_here};
use crate::sched::shared::Shared;
use crate::spawn::{self, Order};
use crate::task::body::{self, FutureBody, JobBody, is_cancellation};
use crate::task::group::{Group, GroupRef, guard_user_code};

/// Where children that borrow are spawned; see [`scope`].
///
/// ```
/// fn spawn_two<'scope>(s: &filch::Scope<'scope>, counter: &'scope std::sync::atomic::AtomicU32) {
///     use std::sync::atomic::Ordering::Relaxed;
///     s.spawn(|s| {
///         counter.fetch_add(1, Relaxed);
///         s.spawn(|_| { counter.fetch_add(1, Relaxed); });
///     });
/// }
/// let counter = Default::default();
/// filch::scope(|s| spawn_two(s, &counter));
/// assert_eq!(counter.into_inner(), 2);
/// ```
pub struct Scope<'scope> {
    group: GroupRef,
    /// Whether every child so far ended or lives; on the stack of [`scope`] (E3).
    complete: *const AtomicBool,
    /// Invariant, so that a scope cannot pass for one of a shorter or longer life.
    life: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

// SAFETY: the pointer is to an atomic flag that outlives the scope (E1).
unsafe impl Send for Scope<'_> {}
// SAFETY: as above.
unsafe impl Sync for Scope<'_> {}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// Runs `body`, whose children may borrow from this stack, and returns its value once every child
/// has ended.
///
/// Works on any thread. While it waits, the thread runs children that nobody has started, and
/// nothing else: a lock that it holds cannot be taken by unrelated work on top of it.
///
/// ```
/// let mut squares = [1, 2, 3, 4];
/// filch::scope(|s| {
///     for x in &mut squares {
///         s.spawn(move |_| *x *= *x);
///     }
/// });
/// assert_eq!(squares, [1, 4, 9, 16]);
/// ```
///
/// # Panics
/// If `body` panics, or a child does, unless the runtime [reports](crate::UnhandledPanic::Report) that, or a child
/// was cancelled with an enclosing group or by a shutdown: once all have ended.
#[track_caller]
pub fn scope<'scope, R>(body: impl FnOnce(&Scope<'scope>) -> R) -> R {
    let (parent, on_panic) =
        spawn::current(|shared, group, _| (group.to_ref(), on_panic_here(shared)));
    let complete = AtomicBool::new(true);
    let value = in_group(&parent, on_panic, tracking_here(&parent), |group| {
        body(&Scope { group: group.clone(), complete: &raw const complete, life: PhantomData })
    });
    // ORDERING: Relaxed, the end of the group orders it.
    if !complete.load(Ordering::Relaxed) {
        // Not while it unwinds: a second panic would end the process.
        guard_user_code(|| drop(value));
        body::unwind_cancelled("the scope was cancelled: not all of its children ran to their end");
    }
    value
}

/// Rides in a child: dropped before the child's end, it makes the scope panic (E3).
struct MustEnd(*const AtomicBool);

// SAFETY: the flag is atomic and outlives the child (E1).
unsafe impl Send for MustEnd {}

impl MustEnd {
    /// The child has ended, and its value or its panic goes on from here.
    fn ended(self, end: thread::Result<()>) {
        match end {
            Err(payload) if is_cancellation(&payload) => resume_unwind(payload),
            end => {
                std::mem::forget(self);
                end.unwrap_or_else(|payload| resume_unwind(payload));
            }
        }
    }
}

impl Drop for MustEnd {
    fn drop(&mut self) {
        // SAFETY: E1, the flag is on the stack of `scope`, which waits for the child.
        let complete = unsafe { &*self.0 };
        // ORDERING: Relaxed, the end of the group orders it.
        complete.store(false, Ordering::Relaxed);
    }
}

impl<'scope> Scope<'scope> {
    /// Spawns a closure on the job lane. It gets the scope, to spawn more.
    ///
    /// ```
    /// let mut sum = 0;
    /// filch::scope(|s| s.spawn(|_| sum = 1 + 2));
    /// assert_eq!(sum, 3);
    /// ```
    #[track_caller]
    pub fn spawn(&self, job: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        drop(self.create_by(JobBody(self.child(job)), Location::caller(), spawn::create));
    }

    /// The closure of a child (E3).
    pub(crate) fn child<F>(&self, job: F) -> impl FnOnce() + Send + use<'scope, F>
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let inner = Scope { group: self.group.clone(), complete: self.complete, life: PhantomData };
        let must_end = MustEnd(self.complete);
        move || must_end.ended(catch_unwind(AssertUnwindSafe(|| job(&inner))))
    }

    /// Spawns a future that may borrow on the micro lane.
    ///
    /// ```
    /// let mut sum = 0;
    /// filch::scope(|s| s.spawn_async(async { sum = filch::spawn(async { 3 }).await }));
    /// assert_eq!(sum, 3);
    /// ```
    #[track_caller]
    pub fn spawn_async(&self, future: impl Future<Output = ()> + Send + 'scope) {
        let must_end = MustEnd(self.complete);
        let future = async move {
            must_end.ended(AssertUnwindSafe(future).catch_unwind().await);
        };
        drop(self.create_by(FutureBody(future), Location::caller(), spawn::create));
    }

    /// Has `create` make a child.
    pub(crate) fn create_by<B, R>(
        &self,
        body: B,
        site: &'static Location<'static>,
        create: impl FnOnce(&Shared, &Group, B, Order) -> R,
    ) -> R {
        // The caller runs `body` of the scope or a child of it, so a unit is out.
        self.group.enter();
        // SAFETY: S1, an unfinished group keeps its runtime.
        let shared = unsafe { &*self.group.home().shared.cast::<Shared>() };
        create(shared, &self.group, body, Order::plain(site))
    }
}
