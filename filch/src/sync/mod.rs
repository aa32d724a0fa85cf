//! Locks, signs, channels and task-local values for tasks: to wait for one takes no thread.
//!
//! | to | use |
//! | --- | --- |
//! | change a value from several tasks, across an `.await` | [`Mutex`], [`RwLock`] |
//! | let so many go on at once | [`Semaphore`] |
//! | say that something has happened | [`Notify`]; under a lock, [`Condvar`] |
//! | wait for each other | [`Barrier`]; for so many events, [`Latch`] |
//! | make a value once | [`OnceCell`], [`Lazy`] |
//! | hand messages to whoever is free | [`mpmc`], bounded or not |
//! | hand one message over | [`oneshot`] |
//! | tell every message to everybody | [`broadcast`] |
//! | tell the last value to everybody | [`watch`] |
//! | wait for the first of several futures | [`select!`](crate::select), [`race!`](crate::race) |
//! | wait for all of them | [`join!`](macro@crate::join), [`try_join!`](crate::try_join) |
//! | have a value of the task | [`task_local!`](crate::task_local), [`LocalKey`] |
//!
//! # What they have in common
//!
//! - **Names** are those of `std` and Tokio where they have the thing.
//! - **Blocking twins** (`blocking_lock`, `blocking_recv`, …) work on any thread. On a worker they are
//!   like a wait for a handle: what the worker holds is offered to others, and a spare takes its place.
//! - **A future that is dropped** while it waits leaves its place in the queue; a permit, a message or a
//!   sign that it was given in that moment goes to the next. Each method says what that means for it.
//! - **Panics** poison nothing. A guard that is dropped by a panic releases its lock, and the value is as
//!   the panic left it.
//! - **Being ready counts.** A task that finds everything ready lets others go first every
//!   [`poll_budget`](crate::Config::poll_budget) operations, so a full channel starves nobody.
//! - **Any executor** can poll them, and any thread; only the counting needs a task or a `block_on` of filch.
//! - **In a [`Sim`](crate::testkit::Sim)** every operation is a place where another thread may go on.
//!
//! # Layout
//!
//! `waiters` is the list of those that wait, `turn` a poll under its lock. `permits` and `raw_mutex` are
//! words with such a list behind them, modelled with loom; what users see is made of these.

#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod permits;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod raw_mutex;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod turn;
#[cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]
mod waiters;

#[cfg(all(test, loom))]
mod model;

#[cfg(not(loom))]
mod barrier;
#[cfg(not(loom))]
mod bell;
#[cfg(not(loom))]
pub mod broadcast;
#[cfg(not(loom))]
mod condvar;
#[cfg(not(loom))]
mod coop;
#[cfg(not(loom))]
mod latch;
#[cfg(not(loom))]
mod local;
#[cfg(not(loom))]
pub mod mpmc;
#[cfg(not(loom))]
mod mutex;
#[cfg(not(loom))]
mod notify;
#[cfg(not(loom))]
mod once;
#[cfg(not(loom))]
pub mod oneshot;
#[cfg(not(loom))]
mod rwlock;
#[cfg(not(loom))]
mod select;
#[cfg(not(loom))]
mod semaphore;
#[cfg(not(loom))]
pub mod watch;

#[cfg(not(loom))]
pub use barrier::{Barrier, BarrierWaitResult};
#[cfg(not(loom))]
pub use condvar::Condvar;
#[cfg(not(loom))]
pub use latch::Latch;
#[cfg(not(loom))]
pub use local::{AccessError, LocalKey};
#[cfg(not(loom))]
pub use mutex::{Mutex, MutexGuard, OwnedMutexGuard, TryLockError};
#[cfg(not(loom))]
pub use notify::{Notified, Notify};
#[cfg(not(loom))]
pub use once::{Lazy, OnceCell, SetError};
#[cfg(not(loom))]
pub use rwlock::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
#[cfg(not(loom))]
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};

/// What macros of this crate expand to; not for use by name.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod __private {
    pub use super::local::Slot;
    pub use super::select::{poll_counted, proceed, start};
}
