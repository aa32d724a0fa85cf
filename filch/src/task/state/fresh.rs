//! The transitions of a job with children before it is queued, and after its end (T8, T9).

use super::{CLAIMED, DONE, FRESH, HANDLE, Launch, QUEUED, REF, REFS, RUNNING, State, WAITER};
use crate::base::shim::Ordering;

impl State {
    /// Whether the job was never run or reserved, and the caller's handle is its only reference: then
    /// it stays so.
    #[inline]
    pub(crate) fn is_fresh_alone(&self) -> bool {
        // ORDERING: Acquire, as in `launch_alone`.
        self.0.load(Ordering::Acquire) & (FRESH | RUNNING | QUEUED | REFS) == FRESH | REF
    }

    /// Makes the caller the only one who may launch a fresh job that has other handles too; false if
    /// somebody else is, or has launched it (T8). Until the launch the job refers to its parent.
    #[must_use]
    pub(crate) fn reserve(&self) -> bool {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & (FRESH | RUNNING | QUEUED) == FRESH {
            // ORDERING: Acquire pairs with the Release in `unreserve` and `publish`. Exclusive against
            // another handle's `reserve` by the exchange. Model: loom_reserve_vs_reserve.
            match self.0.compare_exchange_weak(
                word,
                word | QUEUED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Undoes `reserve`: the job is as fresh as before.
    pub(crate) fn unreserve(&self) {
        // ORDERING: Release pairs with the Acquire in `reserve`.
        let before = self.0.fetch_and(!QUEUED, Ordering::Release);
        debug_assert!(before & (FRESH | RUNNING | QUEUED) == FRESH | QUEUED, "{before:#x}");
    }

    /// Ends a fresh job whose last handle is gone, so that it is the caller's alone: done, with a
    /// reference for the children that were run.
    pub(crate) fn outlive(&self) {
        // ORDERING: Acquire, as in `is_fresh`.
        let word = self.0.load(Ordering::Acquire);
        debug_assert!(word & (FRESH | RUNNING | QUEUED | REFS) == FRESH, "{word:#x}");
        // ORDERING: Release pairs with the Acquire in `try_pin`; a child that ends is ordered by the
        // count. No exchange: T8, and there is no handle.
        self.0.store((word ^ (FRESH | DONE)) + REF, Ordering::Release);
    }

    /// Ends being fresh if the caller's handle is the only one; false if not (T8).
    #[must_use]
    #[inline]
    pub(crate) fn launch_alone(&self, how: Launch) -> bool {
        // ORDERING: Acquire pairs with the Release in `unref`: who finds itself the only handle
        // sees what the others did.
        let word = self.0.load(Ordering::Acquire);
        if word & (FRESH | RUNNING | REFS) != FRESH | REF {
            return false;
        }
        let next = match how {
            Launch::Queued => word ^ (FRESH | QUEUED),
            Launch::Here => ((word ^ (FRESH | RUNNING)) | HANDLE) + REF,
        };
        // ORDERING: Release pairs with the Acquire in `start` and `try_pin`. No exchange: T8, nobody
        // but the one handle, which is the caller's, may change the word.
        self.0.store(next, Ordering::Release);
        true
    }

    /// Takes the body of a fresh job, to be run here or put back into a queue; false if the job was
    /// run before (T8).
    #[must_use]
    pub(crate) fn seize(&self, how: Launch) -> bool {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & (FRESH | RUNNING) == FRESH {
            // The one who has reserved it is the caller, if anybody is.
            let seized = (word ^ (FRESH | RUNNING)) & !QUEUED;
            let next = match how {
                Launch::Queued => seized,
                Launch::Here => (seized | HANDLE) + REF,
            };
            // ORDERING: Acquire, as for `claim`: the closure is seen whole. Exclusive against another
            // handle's `seize` by the exchange.
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Whether the job was never run (T8).
    pub(crate) fn is_fresh(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `publish` and `unref`: who frees a fresh cell
        // sees its body.
        self.0.load(Ordering::Acquire) & (FRESH | RUNNING) == FRESH
    }

    /// Begins to call a fresh job whose only handle the caller has, on its stack (T8); false if it is
    /// not such a job.
    #[must_use]
    #[inline]
    pub(crate) fn call_alone(&self) -> bool {
        // ORDERING: Acquire, as in `launch_alone`.
        let word = self.0.load(Ordering::Acquire);
        if word & (FRESH | RUNNING | REFS) != FRESH | REF {
            return false;
        }
        // ORDERING: Relaxed, only the closure's own handle can bring the word to others.
        self.0.store(word | RUNNING, Ordering::Relaxed);
        true
    }

    /// As `call_alone`, of a hidden job whose entry the caller has taken out of a queue.
    #[must_use]
    #[inline]
    pub(crate) fn call_hidden(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `publish`: the closure is seen whole.
        let word = self.0.load(Ordering::Acquire);
        if word & (FRESH | QUEUED) != FRESH | QUEUED {
            return false;
        }
        // ORDERING: Relaxed, as in `call_alone`.
        self.0.store(word ^ (QUEUED | RUNNING), Ordering::Relaxed);
        true
    }

    /// Ends such a call once somebody else has a handle: done. The tree's reference is a new one if the
    /// caller keeps its own, a handle's.
    pub(crate) fn end_call(&self, how: Launch) {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & (FRESH | RUNNING) == FRESH | RUNNING, "{word:#x}");
            let done = word ^ (FRESH | RUNNING | DONE);
            let next = if how == Launch::Here { (done | HANDLE) + REF } else { done };
            // ORDERING: Release pairs with the Acquire in `is_done` and `unref`.
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the caller's reference is the only one, and there is no tombstone: nobody else can
    /// come to use the cell but a walk.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `unref`: we see what the others did.
        self.0.load(Ordering::Acquire) & (REFS | CLAIMED) == REF
    }

    /// Whether somebody may have a handle besides the caller, who has a reference: no if lists and
    /// walks alone refer to it too (T9).
    pub(crate) fn is_kept(&self) -> bool {
        // ORDERING: Acquire, as in `is_alone`. A HANDLE that was set is seen: the first clone was made
        // from the handle that launched the job or inside of its closure.
        let word = self.0.load(Ordering::Acquire);
        word & HANDLE != 0 && word & (REFS | CLAIMED) != REF
    }

    /// The body is gone, and the task is done; the life reference, or a new one beside a
    /// tombstone, is left to the caller.
    pub(crate) fn finish_keeping(&self) {
        // ORDERING: Relaxed, only a guess for the exchange below.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & RUNNING != 0 && word & (DONE | WAITER) == 0, "{word:#x}");
            let done = (word & !RUNNING) | DONE;
            let next = if word & CLAIMED != 0 { done + REF } else { done };
            // ORDERING: Release pairs with the Acquire in `is_done` and `unref`.
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}
