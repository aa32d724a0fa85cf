//! Whether reads of a socket may go straight to the kernel, and on which drivers some may be in flight.
//!
//! The socket is plain as long as nothing stands before what the kernel has. When something comes, the reads that are in
//! flight have to be found. They are not counted, because each read would pay for that.
//!
//! A1. The word is written under the socket's lock only, and says what the state under that says.
//! A2. A read that is in flight looks at the word. If the socket is plain and the driver is among those known, it
//!     stays. Otherwise it asks under the lock: it adds its driver, or learns that the socket is special.
//! A3. Whoever makes the socket special forgets the known drivers with the same write, and then searches them.
//! A4. So a read stays in flight only if the next search finds it. Say that it has seen its driver known. The next to
//!     forget that driver searches it. If that search had come before the read began, the driver's lock
//!     would have shown the read the write of A3.
//!
//! Not here: how reads are searched for (O8 of `slots`), what makes a socket special (`net/read.rs`).

use crate::base::shim::{AtomicU32, Ordering};

#[cfg(all(test, loom))]
mod model;

const PLAIN: u32 = 1 << 31;

/// A set of drivers, and of those that share a bit with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Drivers(u16);

impl Drivers {
    pub(crate) fn with(driver: usize) -> Self {
        Self(1 << (driver % 16))
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(crate) fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What stands before the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Plain,
    Special,
}

/// The word (A1).
pub(crate) struct Plain(AtomicU32);

impl Plain {
    /// Of a socket that is plain.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(PLAIN))
    }

    pub(crate) fn is_plain(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `set`: who finds it plain comes after who made
        // it so. It becomes special by the caller's own doing, or by a concurrent reader, whose
        // order relative to this read is open.
        self.0.load(Ordering::Acquire) & PLAIN != 0
    }

    /// The caller has the socket's lock (A1).
    pub(crate) fn set(&self, standing: Standing, known: Drivers) {
        let plain = if standing == Standing::Plain { PLAIN } else { 0 };
        // ORDERING: Release pairs with the Acquire in `is_plain` and `is_known`.
        self.0.store(plain | u32::from(known.0), Ordering::Release);
    }

    /// Whether the socket is plain and the driver of a read in flight is known (A2).
    pub(crate) fn is_known(&self, driver: Drivers) -> bool {
        let all = PLAIN | u32::from(driver.0);
        // ORDERING: Acquire pairs with the Release in `set`: the search that made the driver known again comes after
        // those before it. A search that has missed this read unlocked the driver before the read locked it, so
        // that its write comes before this load (A4); model: loom_a_read_in_flight_is_found.
        self.0.load(Ordering::Acquire) & all == all
    }
}
