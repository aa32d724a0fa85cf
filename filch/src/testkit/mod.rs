//! What tests put in place of the system: clocks, and a whole machine.
//!
//! | to | use |
//! | --- | --- |
//! | run a program under many orders of events, and again under one of them | [`Sim`], `#[filch::test(sim)]` |
//! | have its sockets be slow, short or broken | [`IoScript`] |
//! | see what went wrong | [`Failure`] |
//! | tell the time, sleep, draw a random number, start a thread inside of a [`Sim`] | [`now`], [`sleep`], [`random`], [`spawn_thread`] |
//! | hold a lock across a switch | [`Mutex`], [`RwLock`], [`Condvar`] |
//! | let others go first at a place of one's own | [`switch_point`] |
//! | move a runtime's clock by hand | [`Clock`], [`ManualClock`] |
//! | decide what a worker's event loop tells, and see how long it would wait | [`FakeCore`], [`FakeEvents`] |
//! | count wakes | [`RecordingWaker`] |
//! | decide what is left to chance | [`ScriptedRng`] |
//!
//! Outside of a [`Sim`] the functions and locks are the system's, so the same program runs on
//! threads and in a simulation.
//!
//! ```
//! use filch::testkit::Sim;
//! Sim::new().check(0..20, || {
//!     let (a, b) = filch::join(|| 1, || filch::spawn_fn(|| 2).wait());
//!     assert_eq!(a + b, 3);
//! });
//! ```

mod core;
mod failure;
mod lock;
#[cfg(not(target_os = "linux"))]
#[path = "no_network.rs"]
mod network;
mod sim;
mod thread;
mod waker;

#[cfg(target_os = "linux")]
use crate::io::fake as network;

pub use self::core::{FakeCore, FakeEvents};
pub use crate::base::script::ScriptedRng;
#[cfg(target_os = "linux")]
pub use crate::io::fake::IoScript;
pub use crate::timer::{Clock, ManualClock};
pub use failure::{Failure, FailureKind};
pub use lock::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use sim::{Run, Sim};
pub use thread::{ThreadHandle, now, random, sleep, spawn_thread, switch_point};
pub use waker::RecordingWaker;
