//! Where data lies between two stages: a slot for each token that may be in flight.
//!
//! D1. The slot of a position is touched by the runner that has claimed the position for the stage before
//!     it, and then by the one that has claimed it for the stage behind it, and by nobody else. W1 and W3
//!     of `flow` put one after the other.
//! D2. A slot is empty when its position is claimed for the stage before it.

use super::flow::slots;
use crate::base::shim::UnsafeCell;

pub(super) struct Ring<T>(Box<[UnsafeCell<Option<T>>]>);

// SAFETY: D1, values change hands, and nobody shares one.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    pub(super) fn new(lines: usize) -> Self {
        Self((0..slots(lines)).map(|_| UnsafeCell::new(None)).collect())
    }

    #[inline]
    fn slot(&self, position: u64) -> &UnsafeCell<Option<T>> {
        &self.0[position as usize & (self.0.len() - 1)]
    }

    /// Puts the output of the stage before into the slot.
    ///
    /// # Safety
    /// The caller has claimed the position for the stage before (D1).
    #[inline]
    pub(super) unsafe fn put(&self, position: u64, value: T) {
        self.slot(position).with_mut(|slot| {
            // SAFETY: D1. D2: what is overwritten is empty, and a value without a destructor
            // otherwise (the output of the last stage).
            unsafe { slot.write(Some(value)) }
        });
    }

    /// Takes the input of the stage behind out of the slot.
    ///
    /// # Safety
    /// The caller has claimed the position for the stage behind (D1).
    #[inline]
    pub(super) unsafe fn take(&self, position: u64) -> T {
        // SAFETY: D1.
        let value = self.slot(position).with_mut(|slot| unsafe { (*slot).take() });
        value.expect("a position that has passed left its value")
    }

    /// Calls `f` with the value in the slot.
    ///
    /// # Safety
    /// The caller has claimed the position for a stage that leaves its data where it is (D1).
    #[inline]
    #[cfg(not(loom))]
    pub(super) unsafe fn with<R>(&self, position: u64, f: impl FnOnce(&mut T) -> R) -> R {
        self.slot(position).with_mut(|slot| {
            // SAFETY: D1.
            let value = unsafe { &mut *slot };
            f(value.as_mut().expect("a position that has passed left its value"))
        })
    }

    /// Drops what a run that did not come to its end has left.
    ///
    /// # Safety
    /// Nobody has claimed anything.
    #[cfg(not(loom))]
    pub(super) unsafe fn clear(&self) {
        for slot in &self.0 {
            // SAFETY: by the caller's promise.
            let value = slot.with_mut(|slot| unsafe { (*slot).take() });
            crate::task::group::guard_user_code(|| drop(value));
        }
    }
}
