//! The only file that names loom or std's atomics: everything concurrent imports from here.
//!
//! Under `--cfg loom` the types are loom's, so that the models in the leaves explore every
//! interleaving. Under `--cfg filch_tsan` fences become read-modify-writes and locks are our own,
//! because ThreadSanitizer sees neither fences nor what std does inside its locks.
//!
//! Not here: locks for user data (`std::sync::Mutex` is fine where no model needs to see it).

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize},
    },
};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::thread::yield_now;

/// Lets another thread of the simulation, if this is one, or of the system go first.
#[cfg(not(loom))]
pub(crate) fn yield_now() {
    if !super::sim::give_way() {
        std::thread::yield_now();
    }
}

#[cfg(all(not(loom), not(filch_tsan)))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

#[cfg(all(
    not(loom),
    not(filch_tsan),
    any(test, not(all(target_os = "linux", target_pointer_width = "64")))
))]
pub(crate) use std::sync::Condvar;

#[cfg(all(not(loom), filch_tsan))]
mod lock;
#[cfg(all(not(loom), filch_tsan, test))]
pub(crate) use lock::Condvar;
#[cfg(all(not(loom), filch_tsan))]
pub(crate) use lock::{Mutex, MutexGuard, OnceLock};

pub(crate) use std::sync::atomic::Ordering;

/// An atomic word in raw memory that outlives any one user of it: std's even under loom, whose
/// atomics cannot be made from bytes.
pub(crate) use std::sync::atomic::AtomicU64 as RawAtomicU64;

/// As `RawAtomicU64`: a word that is shared with the kernel.
#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) use std::sync::atomic::AtomicU16 as RawAtomicU16;

/// A memory fence that the model checker and ThreadSanitizer understand.
#[inline(always)]
pub(crate) fn fence(order: Ordering) {
    #[cfg(loom)]
    {
        // Loom reorders threads only around accesses to the same object, and a fence is none:
        // without this one it would not try both orders of two fences.
        loom::lazy_static! {
            static ref TOUCHED: AtomicUsize = AtomicUsize::new(0);
        }
        // ORDERING: Relaxed, must not order anything by itself.
        TOUCHED.store(0, Ordering::Relaxed);
        loom::sync::atomic::fence(order);
    }
    #[cfg(all(not(loom), not(filch_tsan)))]
    std::sync::atomic::fence(order);
    #[cfg(all(not(loom), filch_tsan))]
    {
        static FENCE: AtomicUsize = AtomicUsize::new(0);
        let _ = order;
        // ORDERING: AcqRel, each such fence synchronises with the one before it, as SeqCst fences
        // do in their total order.
        FENCE.fetch_add(0, Ordering::AcqRel);
    }
}

/// Orders this thread's own instructions only: the cheap half of `base::barrier`.
#[cfg(all(not(loom), not(filch_tsan)))]
pub(crate) use std::sync::atomic::compiler_fence;

/// `UnsafeCell` with loom's access interface, so that one source serves both.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
