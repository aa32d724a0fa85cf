//! The event core: where a worker sleeps and learns of events.
//!
//! A core belongs to one worker slot for life. Today's cores park on a futex; an I/O driver, a
//! UI loop or a test put theirs in the same place.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::base::parker::Parker;

/// Where a worker sleeps and learns of events.
///
/// A runtime asks its factory ([`Builder::event_core`](crate::Builder::event_core)) for one core
/// per worker, and calls it on that worker's thread only.
///
/// ```
/// use std::task::Waker;
/// use std::time::Duration;
///
/// /// A core that is always woken at once: its worker spins.
/// struct Restless;
/// impl filch::EventCore for Restless {
///     fn poll(&mut self) -> usize { 0 }
///     fn park(&mut self, _: Option<Duration>) { std::thread::yield_now() }
///     fn waker(&self) -> Waker { Waker::noop().clone() }
/// }
///
/// let runtime = filch::Builder::new().workers(1).event_core(|_| Box::new(Restless)).build()?;
/// assert_eq!(runtime.block_on(async { 1 }), 1);
/// # Ok::<(), filch::BuildError>(())
/// ```
pub trait EventCore: Send {
    /// Handles what has happened without waiting; returns how many events that were.
    fn poll(&mut self) -> usize;

    /// Waits for an event, for a wake or until `timeout` has passed; may return early. A wake that
    /// came before the call makes it return at once.
    fn park(&mut self, timeout: Option<Duration>);

    /// Ends the current or the next `park`, from any thread.
    fn waker(&self) -> Waker;
}

/// The core of a worker that only waits to be woken.
pub(crate) struct ParkCore(Arc<Parker>);

impl ParkCore {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Parker::new()))
    }
}

impl EventCore for ParkCore {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            None => self.0.park(),
            Some(timeout) => {
                self.0.park_timeout(timeout);
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }
}
