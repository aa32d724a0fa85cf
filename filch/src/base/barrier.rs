//! Asymmetric store-load barrier: the frequent side pays nothing, the rare side pays for both.
//!
//! Two threads that each store one word and then load the other's need a full fence on both
//! sides, or both may miss the other's store. When one side runs a million times for each run of
//! the other, Linux `membarrier(PRIVATE_EXPEDITED)` lets the rare side impose the fence on every
//! running thread of the process, and the frequent side only has to stop the compiler.
//!
//! B1. If a `light()` and a `heavy()` each stand between a store and a load, at least one of the
//!     two loads sees the other side's store.
//! B2. A thread whose `light()` is a mere compiler fence pairs with system calls only: `MODE` says
//!     `Membarrier` only once registration has succeeded, and every `heavy()` waits for the
//!     outcome of the registration. A `light()` that runs before the choice is a real fence, which
//!     pairs with either kind of `heavy()`.
//! B3. Light pairs with heavy only: two lights order nothing. Every call of `light()` or
//!     `light_if_free()` names its partner in a `LIGHT:` comment, because no model can see the mistake.
//! B4. `light_if_free(false)` is a real fence, and pairs with any other: a partner that knows of it may
//!     pay `heavy_or_fence(true)`.
//!
//! In loom, and under `filch_tsan`, both halves are explicit fences.
//!
//! Not here: how often a barrier may be paid (the explore policy of the scheduler), and a counter.

#[cfg(all(not(loom), not(filch_tsan)))]
use std::sync::OnceLock;

#[cfg(all(not(loom), not(filch_tsan)))]
use super::shim::{AtomicBool, compiler_fence};
use super::shim::{Ordering, fence};
use super::sim;

/// How the pair is made of on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Both halves are SeqCst fences.
    Fence,
    /// The light half stops the compiler, the heavy half is a system call.
    Membarrier,
}

#[cfg(all(not(loom), not(filch_tsan)))]
static CHOICE: OnceLock<Mode> = OnceLock::new();

/// Written by whoever makes the choice, and by simulations that begin or end; read by every
/// `light()`. False until the choice (B2).
#[cfg(all(not(loom), not(filch_tsan)))]
static LIGHT_IS_FREE: AtomicBool = AtomicBool::new(false);

/// Chooses the mode, once per process. Called before the first worker starts, so that no owner
/// ever pays the real fence where it need not; calling it late costs time, never order (B2).
pub(crate) fn init() {
    let _ = mode();
}

/// The mode of this process, chosen now if it was not before.
#[cfg(all(not(loom), not(filch_tsan)))]
#[inline]
pub(crate) fn mode() -> Mode {
    *CHOICE.get_or_init(choose)
}

#[cfg(any(loom, filch_tsan))]
pub(crate) fn mode() -> Mode {
    Mode::Fence
}

/// The frequent half. Goes between a store and a load.
#[inline(always)]
pub(crate) fn light() {
    #[cfg(all(not(loom), not(filch_tsan)))]
    // ORDERING: Relaxed, the flag publishes nothing; a stale `false` takes the stronger branch (B2).
    if LIGHT_IS_FREE.load(Ordering::Relaxed) {
        // ORDERING: keeps the store before the load in program order; the processor's own
        // reordering is excluded by the system call in `heavy`.
        compiler_fence(Ordering::SeqCst);
        return;
    }
    light_and_slow();
}

/// Whether `light()` costs nothing from now on, for those that keep it in mind: once true, it stays
/// sound to take it for free (B2). Makes the choice.
pub(crate) fn light_is_free() -> bool {
    #[cfg(all(not(loom), not(filch_tsan)))]
    // ORDERING: Relaxed, see `light`.
    return mode() == Mode::Membarrier && LIGHT_IS_FREE.load(Ordering::Relaxed);
    #[cfg(any(loom, filch_tsan))]
    return false;
}

/// As [`light`], for a caller that knows whether it is free: `light_is_free` has said so, at any time.
#[inline(always)]
pub(crate) fn light_if_free(free: bool) {
    #[cfg(all(not(loom), not(filch_tsan)))]
    if free {
        // ORDERING: as in `light`.
        compiler_fence(Ordering::SeqCst);
        return;
    }
    #[cfg(any(loom, filch_tsan))]
    debug_assert!(!free, "`light_is_free` never says so here");
    light_and_slow();
}

/// The light half where it is not free, out of the way of those for whom it is.
#[cold]
fn light_and_slow() {
    // ORDERING: SeqCst pairs with the fence or the system call in `heavy`.
    fence(Ordering::SeqCst);
    sim::point();
}

/// Has `light()` take its slow branch while a simulation runs, which switches there. Sound at any
/// time, because a real fence pairs with either kind of `heavy()` (B2).
#[cfg(not(loom))]
pub(crate) fn set_light_is_slow(slow: bool) {
    #[cfg(not(filch_tsan))]
    // ORDERING: Relaxed, see `light`.
    LIGHT_IS_FREE.store(!slow && mode() == Mode::Membarrier, Ordering::Relaxed);
    #[cfg(filch_tsan)]
    let _ = slow;
}

/// The rare half where its partner is known to pay a real fence too. Nothing but a fence then.
#[cfg_attr(filch_locked_queues, expect(dead_code, reason = "locks need no barrier"))]
pub(crate) fn heavy_or_fence(partner_pays: bool) {
    if partner_pays {
        sim::point();
        // ORDERING: SeqCst pairs with the fence in `light_and_slow`.
        fence(Ordering::SeqCst);
    } else {
        heavy();
    }
}

/// The rare half. Goes between a store and a load, or between two loads of which the first must
/// not be the newer. Some microseconds, and an interrupt on every core that runs this process.
///
/// # Panics
/// If the kernel refuses the call after it had accepted the registration (a filter installed in
/// between): the light half can no longer be paid for.
pub(crate) fn heavy() {
    sim::point();
    match mode() {
        // ORDERING: SeqCst pairs with the fence in `light`.
        Mode::Fence => fence(Ordering::SeqCst),
        Mode::Membarrier => system::barrier(),
    }
}

#[cfg(all(not(loom), not(filch_tsan)))]
fn choose() -> Mode {
    if !system::register() {
        return Mode::Fence;
    }
    // ORDERING: Relaxed, see `light`; `heavy` learns the mode through `CHOICE` instead.
    LIGHT_IS_FREE.store(true, Ordering::Relaxed);
    Mode::Membarrier
}

#[cfg(all(target_os = "linux", not(any(loom, filch_tsan, miri))))]
mod system {
    /// One membarrier command; true if the kernel carried it out.
    fn membarrier(command: libc::c_int) -> bool {
        let (flags, cpu): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier() {
        assert!(
            membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
            "membarrier refused after its registration was accepted"
        );
    }
}

#[cfg(any(not(target_os = "linux"), loom, filch_tsan, miri))]
mod system {
    #[cfg(not(any(loom, filch_tsan)))]
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() {
        unreachable!("B2: no registration, no system call")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::hint::spin_loop;
    use std::thread::yield_now;

    use crossbeam_utils::CachePadded;

    use super::*;
    use crate::base::shim::AtomicUsize;

    #[test]
    fn mode_stays_what_it_was_chosen_to_be() {
        init();
        let first = mode();
        init();
        assert_eq!(mode(), first);
    }

    const ROUNDS: usize = crate::base::repeated(20_000);

    /// What the two sides of the store-buffer test share. A round stores its own number.
    #[derive(Default)]
    struct Litmus {
        arrived: CachePadded<AtomicUsize>,
        stored: [CachePadded<AtomicUsize>; 2],
        seen: [CachePadded<AtomicUsize>; 2],
    }

    impl Litmus {
        /// Waits until both sides are here for the `nth` time.
        fn meet(&self, nth: usize) {
            // ORDERING: AcqRel, both sides see what the other did before the meeting.
            self.arrived.fetch_add(1, Ordering::AcqRel);
            let mut spins = 0;
            // ORDERING: Acquire, the same.
            while self.arrived.load(Ordering::Acquire) < 2 * nth {
                spins += 1;
                if spins % 1000 == 0 { yield_now() } else { spin_loop() }
            }
        }

        /// One side: store, barrier, load the other's, in each round. `jitter` shifts the sides
        /// against each other, so that some rounds overlap.
        fn side(&self, me: usize, barrier: impl Fn(), jitter: impl Fn(usize) -> usize) {
            for round in 1..=ROUNDS {
                self.meet(2 * round - 1);
                (0..jitter(round)).for_each(|_| spin_loop());
                // ORDERING: Relaxed, all three: the barrier under test is the only order.
                self.stored[me].store(round, Ordering::Relaxed);
                barrier();
                let seen = self.stored[1 - me].load(Ordering::Relaxed);
                self.seen[me].store(seen, Ordering::Relaxed);
                self.meet(2 * round);
                // ORDERING: Relaxed, published by the meeting.
                let both = [0, 1].map(|side| self.seen[side].load(Ordering::Relaxed));
                assert!(both.contains(&round), "round {round}: both sides missed, {both:?}");
            }
        }
    }

    #[test]
    fn light_against_heavy_never_misses_on_both_sides() {
        init();
        let litmus = Litmus::default();
        std::thread::scope(|s| {
            let heavy_side = s.spawn(|| litmus.side(0, heavy, |_| 0));
            // LIGHT: pairs with heavy() in light_against_heavy_never_misses_on_both_sides
            litmus.side(1, light, |round| round % 16);
            heavy_side.join().expect("the heavy side panicked");
        });
    }
}
