//! The event core: where a worker sleeps and learns of events, and the sources that it may have.
//!
//! A core belongs to one worker for as long as that is attached. The runtime's own are its I/O drivers and,
//! for compute workers, a futex; a UI loop, a poll of descriptors or a test put theirs in the same place.
//!
//! E1. A core is called on its worker's thread only, and never inside one of its own calls: a source that
//!     is added or removed in a dispatch is added or removed after it (`watch`).
//! E2. The waker is all that other threads know of a core. It is the program's code too, so nobody calls it under a lock, not even to
//!     clone it: it may wake the same worker.
//! E3. A core that the program brought goes when its worker does, with its sources, and at the latest when the
//!     runtime has ended: they may hold handles, and so keep the runtime for ever. So do the cores of its factory.
//! E4. A panic ends the turn of the core, and not its worker: others count on that. One in the drop of a core or
//!     its waker ends there, too: whoever removes them has a place to free, or a report to return.
//!
//! Not here: when a worker visits its core (`drive`), who adds sources (`watch`).

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::shared::{Slot, lock};
use crate::base::parker::Parker;
use crate::base::shim::{AtomicBool, Mutex, Ordering};
use crate::task::group::guard_user_code;

/// Where a worker sleeps and learns of events.
///
/// A runtime asks its factory ([`Builder::event_core`](crate::Builder::event_core)) for one core
/// per worker, or is given one with the worker ([`NewWorker::event_core`](crate::NewWorker::event_core)),
/// and calls it on that worker's thread only. `poll` and `park` are one turn of an event loop, without and
/// with a wait. What happens is dispatched inside of them; a dispatch may post, spawn, wake, and start and
/// stop watchers. A panic ends the turn, and the worker goes on.
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

    /// Waits for an event, for a wake or until `timeout` has passed, and handles what has happened; may
    /// return early. A wake that came before the call makes it return at once.
    fn park(&mut self, timeout: Option<Duration>);

    /// Ends the current or the next `park`, from any thread. A wake must not block: a waker that waits for a worker which it is
    /// about to wake waits for ever.
    fn waker(&self) -> Waker;

    /// The kind of sources that it takes; by default it takes none. Does not change.
    fn source_kind(&self) -> Option<SourceKind> {
        None
    }

    /// Adds a source of its kind, to be dispatched from now on.
    ///
    /// # Errors
    /// If the system refuses what the source is registered by; then it is dropped.
    fn add_source(&mut self, id: SourceId, source: Box<dyn EventSource>) -> io::Result<()> {
        let _ = (id, source);
        Err(io::Error::new(io::ErrorKind::Unsupported, "the core takes no sources"))
    }

    /// Drops a source that was added.
    fn remove_source(&mut self, id: SourceId) {
        let _ = id;
    }
}

/// What a source is a source of: which cores can take it.
///
/// ```
/// use filch::SourceKind;
/// const MESSAGES: SourceKind = SourceKind::new("window messages");
/// assert_ne!(MESSAGES, SourceKind::FD);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceKind(&'static str);

impl SourceKind {
    /// File descriptors: [`FdSource`](crate::FdSource) on a [`PollCore`](crate::PollCore).
    pub const FD: Self = Self("file descriptors");

    /// A kind of one's own, by a name that is nobody else's.
    ///
    /// ```
    /// let kind = filch::SourceKind::new("window messages");
    /// assert_eq!(kind.to_string(), "window messages");
    /// ```
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Names a source among those of its core.
///
/// A core that a program writes keeps its sources by it; see [`EventCore::add_source`].
///
/// ```
/// use std::collections::HashMap;
/// struct Loop { sources: HashMap<filch::SourceId, Box<dyn filch::EventSource>> }
/// assert!(Loop { sources: HashMap::new() }.sources.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u64);

/// Something whose events an event core learns of.
///
/// What a source is registered by, and what an event is, depends on its kind: the core looks at them as the
/// types that it expects.
///
/// ```
/// use std::any::Any;
/// use filch::{EventSource, SourceKind};
///
/// /// Hears key presses of a loop that knows keys by number.
/// struct Key(u32);
/// impl EventSource for Key {
///     fn kind(&self) -> SourceKind { SourceKind::new("keys") }
///     fn registration(&self) -> &dyn Any { &self.0 }
///     fn dispatch(&mut self, event: &dyn Any) {
///         assert!(event.downcast_ref::<bool>().is_some(), "pressed or released");
///     }
/// }
/// Key(27).dispatch(&true);
/// ```
pub trait EventSource: Send {
    /// Which cores can take it.
    fn kind(&self) -> SourceKind;

    /// What the core registers it by.
    fn registration(&self) -> &dyn Any;

    /// Something has happened; on the worker's thread.
    fn dispatch(&mut self, event: &dyn Any);
}

/// What others know of the core of the program's own that a worker was attached with (E2).
pub(crate) struct GuestCore {
    /// Whether there is one: who unparks a worker with the runtime's own core looks no further.
    present: AtomicBool,
    known: Mutex<Option<Known>>,
}

struct Known {
    /// Shared rather than cloned (E2).
    waker: Arc<Waker>,
    kind: Option<SourceKind>,
    /// The slot's own core, whose waker the slot keeps.
    own: Option<Box<dyn EventCore>>,
}

impl GuestCore {
    pub(crate) fn new() -> Self {
        Self { present: AtomicBool::new(false), known: Mutex::new(None) }
    }

    /// A worker is about to begin with this core, in place of the slot's own.
    fn install(&self, known: Known) {
        let old = lock(&self.known).replace(known);
        debug_assert!(old.is_none(), "the one before was removed");
        // ORDERING: Release pairs with the Acquire in `is_present`. Who unparks the worker learnt of its
        // sleep from the idle set's lock, after this.
        self.present.store(true, Ordering::Release);
    }

    /// The worker has left; returns the slot's own core.
    pub(crate) fn remove(&self) -> Option<Box<dyn EventCore>> {
        // ORDERING: Release, as in `install`.
        self.present.store(false, Ordering::Release);
        let Known { waker, own, .. } = lock(&self.known).take()?;
        // E4.
        guard_user_code(|| drop(waker));
        own
    }

    #[inline]
    pub(crate) fn is_present(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `install`.
        self.present.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn waker(&self) -> Option<Arc<Waker>> {
        if !self.is_present() {
            return None;
        }
        lock(&self.known).as_ref().map(|known| known.waker.clone())
    }

    pub(crate) fn kind(&self) -> Option<SourceKind> {
        lock(&self.known).as_ref().and_then(|known| known.kind)
    }
}

impl Slot {
    /// Puts a core of the program's own in place, while nobody occupies the slot. If the core panics, nothing has
    /// changed.
    pub(super) fn install(&self, core: Box<dyn EventCore>) {
        let (waker, kind) = (Arc::new(core.waker()), core.source_kind());
        let before = self.guest_core.remove();
        let replaced = lock(&self.core).take();
        // If there was a guest core before, the slot's own is with it.
        let own = before.or(replaced);
        self.guest_core.install(Known { waker, kind, own });
        *lock(&self.core) = Some(core);
    }

    /// Drops a core of the program's own, and puts the slot's in its place; nobody occupies the slot (E3).
    pub(super) fn drop_guest_core(&self) {
        if let Some(own) = self.guest_core.remove() {
            // Dropped without a lock.
            let core = lock(&self.core).replace(own);
            guard_user_code(|| drop(core));
        }
    }

    /// Drops the core that the runtime began with; nobody occupies the slot any more (E4).
    pub(super) fn drop_core(&self) {
        let core = lock(&self.core).take();
        guard_user_code(|| drop(core));
    }
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

#[cfg(all(test, not(loom)))]
mod tests;
