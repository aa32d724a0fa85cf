//! Watchers: sources of the event core of one worker, that start and stop from anywhere at any time.
//!
//! W1. A source is dispatched only while its watcher is started: also an event that the core had learnt of
//!     before a stop is not told after it.
//! W2. Sources are added and removed on the worker's thread, between two calls of its core (E1 of `core`).
//!     A watcher that is started or stopped there waits in a list until then; on any other thread it comes
//!     by a post.
//! W3. The source lies in the core, or with the watcher: it comes back when the core drops it.
//!
//! Not here: the watcher's face (`crate::watch`).

use std::any::Any;
use std::io;
use std::sync::Arc;

use super::core::{EventCore, EventSource, SourceId, SourceKind};
use super::shared::lock;
use super::worker::Worker;
use crate::base::shim::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::task::group::guard_user_code;

pub(crate) struct Watch {
    id: SourceId,
    /// W1. Anyone writes it, the worker reads it.
    started: AtomicBool,
    /// Whether the core has the source. The worker's thread uses it alone.
    added: AtomicBool,
    /// W3.
    source: Mutex<Option<Box<dyn EventSource>>>,
}

impl Watch {
    pub(crate) fn new(source: Box<dyn EventSource>) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        // ORDERING: Relaxed, only uniqueness matters.
        let id = SourceId(IDS.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self {
            id,
            started: AtomicBool::new(false),
            added: AtomicBool::new(false),
            source: Mutex::new(Some(source)),
        })
    }

    pub(crate) fn set_started(&self, started: bool) {
        // ORDERING: Release pairs with the Acquire in `is_started`: what the caller did before is seen by
        // the dispatch that it allows.
        self.started.store(started, Ordering::Release);
    }

    pub(crate) fn is_started(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `set_started`.
        self.started.load(Ordering::Acquire)
    }

    /// Brings the core up to date (W2).
    fn apply(self: &Arc<Self>, core: &mut dyn EventCore) -> io::Result<()> {
        // ORDERING: Relaxed, one thread uses it.
        let added = self.added.load(Ordering::Relaxed);
        match (self.is_started(), added) {
            (true, false) => {
                let Some(source) = lock(&self.source).take() else { return Ok(()) };
                let relay = Relay { watch: self.clone(), source: Some(source) };
                core.add_source(self.id, Box::new(relay))?;
            }
            (false, true) => core.remove_source(self.id),
            (true, true) | (false, false) => return Ok(()),
        }
        // ORDERING: Relaxed, as above.
        self.added.store(!added, Ordering::Relaxed);
        Ok(())
    }
}

/// A source as its core knows it.
struct Relay {
    watch: Arc<Watch>,
    /// There until the drop.
    source: Option<Box<dyn EventSource>>,
}

impl Relay {
    fn source(&self) -> &dyn EventSource {
        &**self.source.as_ref().expect("there until the drop")
    }
}

impl EventSource for Relay {
    fn kind(&self) -> SourceKind {
        self.source().kind()
    }

    fn registration(&self) -> &dyn Any {
        self.source().registration()
    }

    fn dispatch(&mut self, event: &dyn Any) {
        // W1.
        if self.watch.is_started()
            && let Some(source) = &mut self.source
        {
            guard_user_code(|| source.dispatch(event));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // W3.
        *lock(&self.watch.source) = self.source.take();
    }
}

impl Worker {
    /// Has a watcher that was started or stopped take effect before the core is next visited (W2).
    pub(crate) fn change(&self, watch: Arc<Watch>) {
        self.changes.borrow_mut().push(watch);
    }

    /// W2; no call of the core is under way.
    pub(super) fn apply_changes(&self) {
        if self.changes.borrow().is_empty() {
            return;
        }
        for watch in self.changes.take() {
            let applied = guard_user_code(|| watch.apply(&mut **self.core.borrow_mut()));
            if let Err(error) = applied.unwrap_or_else(|| Err(io::Error::other("it panicked"))) {
                // Told first: who sees that it is stopped finds out why.
                self.shared().refuse(format!("an event core refused a source: {error}"));
                watch.set_started(false);
            }
        }
    }
}
